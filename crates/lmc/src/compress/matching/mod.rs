//! Which span of a file is coded against what.
//!
//! A tensor has candidates: the tensors of its name in the bases, or, if it is named as part of
//! one, those that hold all of its rows; those that look like the same one under another name; and
//! earlier ones in the file itself that may be copies or of which it may be the rounding. Each is
//! tried on a sample; the one on which the sample is smallest becomes the reference of the tensor's
//! spans, if it gains anything. Whether a block uses it is for the codec to decide, and a reference
//! that no block uses is dropped. What is chosen depends on the bytes of the files alone.

mod bounds;
mod find;
mod names;
mod regions;
mod small;
mod trial;

use crate::io::Source;
use crate::items::Looked;
use crate::{Base, Bases, Options, Reference};
use lmc_format::{Conversion, Result, SourceKind};
use lmc_input::{Cut, SourceItem, Tensor, is_small};
use std::collections::HashSet;

/// The spans of a file, and what each refers to.
pub(crate) struct Spans {
    pub cuts: Vec<Cut>,
    pub references: Vec<Option<Reference>>,
}

impl Spans {
    /// Those of `bases` that the file may come to name.
    pub(crate) fn bases<'b>(&self, bases: &'b Bases) -> Vec<&'b Base> {
        let sources = self.references.iter().flatten().map(|reference| reference.source);
        let used: HashSet<u64> = sources.collect();
        let is_used = |i: usize| bases.is_named() || used.contains(&(i as u64 + 1));
        let list = bases.list().iter().enumerate();
        list.filter(|(i, _)| is_used(*i)).map(|(_, base)| &**base).collect()
    }
}

/// Cuts a file and finds bases for its spans.
pub(crate) fn spans(source: &Source, looked: &Looked, options: &Options) -> Result<Spans> {
    let layout = &looked.layout;
    let large = layout.items.iter().skip(1).filter(|item| !is_small(item)).count();
    let has_candidates = !options.bases.list().is_empty() || large > 1;
    // Names are read only where one may help: there can be many.
    let tensors = if has_candidates { looked.tensors() } else { Vec::new() };
    let own = Own { source, layout, tensors, options, starts: starts(&layout.items) };
    let items = match layout.kind {
        SourceKind::Bytes => vec![own.whole_file()?],
        SourceKind::Safetensors if has_candidates => own.tensors()?,
        SourceKind::Safetensors => vec![None; layout.items.len()],
    };
    let cuts = lmc_input::cut_where(layout, |a, b| own.may_share(&items, a, b));
    let references =
        cuts.iter().map(|cut| own.reference(&items, cut)).collect::<Result<Vec<_>>>()?;
    let mut spans = Spans { cuts, references };
    bounds::drop_rare(&mut spans);
    own.drop_dear(&mut spans)?;
    Ok(spans)
}

/// Where each item starts.
fn starts(items: &[SourceItem]) -> Vec<u64> {
    let mut end = 0;
    let start = |item: &SourceItem| {
        end += item.len;
        end - item.len
    };
    items.iter().map(start).collect()
}

/// The file that is compressed.
struct Own<'a> {
    source: &'a Source<'a>,
    layout: &'a lmc_input::Source,
    tensors: Vec<Tensor>,
    options: &'a Options,
    /// Of the items.
    starts: Vec<u64>,
}

impl Own<'_> {
    /// Fills `out` from the source of a reference: this file itself or one of its bases. It is for
    /// samples, which only choose: whatever they hold, what is coded later is read and compared
    /// anew.
    fn read(&self, source: u64, start: u64, out: &mut [u8]) -> Result<()> {
        match (source as usize).checked_sub(1) {
            None => self.source.read(start, out),
            Some(i) => self.options.bases.list()[i].sample(start, out),
        }
    }

    fn source_len(&self, source: u64) -> Result<u64> {
        match (source as usize).checked_sub(1) {
            None => self.source.len(),
            Some(i) => Ok(self.options.bases.list()[i].original_len()),
        }
    }

    /// The reference of a span, by those of items.
    fn reference(&self, items: &[Option<Reference>], cut: &Cut) -> Result<Option<Reference>> {
        let mut own = cut.items.clone().filter(|&i| self.layout.items[i].len > 0);
        let Some((item, mut reference)) = own.next().and_then(|i| Some((i, items[i]?))) else {
            return Ok(None);
        };
        let place = cut.range.start - self.starts[item];
        reference.start += reference.conversion.source_len(place);
        // A file may be longer than its base.
        let end = reference.end(cut.range.end - cut.range.start);
        Ok((end <= self.source_len(reference.source)?).then_some(reference))
    }

    /// Whether two small tensors, one behind the other, can have one reference or have none.
    fn may_share(&self, items: &[Option<Reference>], a: usize, b: usize) -> bool {
        match (items[a], items[b]) {
            (None, None) => true,
            (Some(first), Some(second)) => {
                Reference { start: first.end(self.layout.items[a].len), ..first } == second
            }
            _ => false,
        }
    }

    /// A file of which nothing is known: its start is that of the first base which has a start like
    /// it, or of the first one.
    fn whole_file(&self) -> Result<Option<Reference>> {
        let bases = self.options.bases.list();
        let whole = 0..self.source_len(0)?;
        let read = |source: u64, start: u64, out: &mut [u8]| self.read(source, start, out);
        let mut found = None;
        for (i, base) in bases.iter().enumerate() {
            let reference =
                Reference { source: i as u64 + 1, start: 0, conversion: Conversion::None };
            let common = 0..whole.end.min(base.original_len());
            let is_like = bases.len() == 1 || {
                let mut trial = trial::Trial::new(&read, self.options.level);
                trial.looks_alike(&common, &reference, lmc_codec::Dtype::Bytes)?
            };
            if is_like {
                return Ok(Some(reference));
            }
            found = found.or(Some(reference));
        }
        Ok(found)
    }
}
