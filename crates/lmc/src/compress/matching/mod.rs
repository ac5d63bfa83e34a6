//! Decides which span of a file is coded against what.
//!
//! A tensor has several kinds of candidates. The first are the tensors of the same name in the
//! bases, or, if its name says that it is a part of one, those that hold all of its rows. Then come
//! tensors that seem to be the same one under another name. The last are earlier tensors of the
//! same file that it may be a copy or a rounding of. Each candidate is tried on a sample. The one
//! that makes the sample smallest becomes the reference of the tensor's spans, if it saves
//! anything. The codec decides whether a block uses the reference, and a reference that no block
//! uses is dropped. The choice depends only on the bytes of the files.

mod bounds;
mod find;
mod names;
mod regions;
mod small;
mod trial;
mod unknown;

use crate::io::ByteSource;
use crate::items::InputLayout;
use crate::view::View;
use crate::{Base, BaseSet, Options, Reference};
use lmc_format::{Arrangement, Conversion, Result, SourceKind};
use lmc_input::{Cut, LayoutItem, TensorInfo, is_small};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// Headers of safetensors that are shorter are not coded against a base, so that tensors can be
/// listed without it.
const HEADER_LEN_MIN: u64 = 1 << 16;
/// The same for what is between the tensors of other formats, which changes little and of which
/// there is more.
const FIRST_LEN_MIN: u64 = 1 << 12;

/// The spans of a file, and the reference of each.
pub(crate) struct Spans {
    pub cuts: Vec<Cut>,
    pub references: Vec<Option<Reference>>,
}

impl Spans {
    /// The bases that the file may end up naming.
    pub(crate) fn bases<'b>(&self, bases: &'b BaseSet) -> Vec<&'b Base> {
        let sources = self.references.iter().flatten().map(|reference| reference.source);
        let used: HashSet<u64> = sources.collect();
        let is_used = |i: usize| bases.is_named() || used.contains(&(i as u64 + 1));
        let list = bases.list().iter().enumerate();
        list.filter(|(i, _)| is_used(*i)).map(|(_, base)| &**base).collect()
    }
}

/// Cuts a file into spans and finds their references.
pub(crate) fn spans(source: &ByteSource, input: &InputLayout, options: &Options) -> Result<Spans> {
    let layout = &input.layout;
    let large = layout.items.iter().skip(1).filter(|item| !is_small(item)).count();
    let has_candidates = !options.bases.list().is_empty() || large > 1;
    // Names are read only where one may help, because there can be many.
    let tensors = if has_candidates { input.tensors() } else { Vec::new() };
    let own = Own {
        view: input.view(source),
        len: input.len,
        order: &input.order,
        layout,
        tensors,
        options,
        starts: starts(&layout.items),
    };
    let (cuts, references) = own.cuts()?;
    let mut spans = Spans { cuts, references };
    bounds::drop_rare(&mut spans, &options.bases)?;
    own.drop_costly(&mut spans)?;
    Ok(spans)
}

/// Where each item starts.
fn starts(items: &[LayoutItem]) -> Vec<u64> {
    let mut end = 0;
    let start = |item: &LayoutItem| {
        end += item.len;
        end - item.len
    };
    items.iter().map(start).collect()
}

/// The file that is being compressed.
struct Own<'a> {
    view: View<'a>,
    /// Bytes of the file.
    len: u64,
    order: &'a Arrangement,
    layout: &'a lmc_input::FileLayout,
    tensors: Vec<TensorInfo>,
    options: &'a Options,
    /// Where each item starts.
    starts: Vec<u64>,
}

impl Own<'_> {
    /// The spans and their references.
    fn cuts(&self) -> Result<(Vec<Cut>, Vec<Option<Reference>>)> {
        if self.tensors.is_empty() && self.layout.kind == SourceKind::Arranged {
            return self.unknown(lmc_input::cut(self.layout));
        }
        let mut items = match self.tensors.is_empty() {
            false => self.tensors()?,
            true => vec![None; self.layout.items.len()],
        };
        items[0] = items[0].or_else(|| self.first_item(&items));
        let cuts = lmc_input::cut_where(self.layout, |a, b| self.may_share(&items, a, b));
        let references = cuts.iter().map(|cut| self.reference(&items, cut)).collect();
        Ok((cuts, references))
    }

    /// Fills `out` from the source of a reference: this file itself or one of its bases. This is
    /// for samples, which only choose: whatever they hold, the bytes to be coded are read and
    /// compared again later.
    fn read(&self, source: u64, start: u64, out: &mut [u8]) -> Result<()> {
        match (source as usize).checked_sub(1) {
            None => self.view.read(start, out),
            Some(i) => self.options.bases.list()[i].sample(start, out),
        }
    }

    fn source_len(&self, source: u64) -> u64 {
        match (source as usize).checked_sub(1) {
            None => self.len,
            Some(i) => self.options.bases.list()[i].original_len(),
        }
    }

    /// The reference of a span, derived from those of its items.
    fn reference(&self, items: &[Option<Reference>], cut: &Cut) -> Option<Reference> {
        let mut own = cut.items.clone().filter(|&i| self.layout.items[i].len > 0);
        let (item, mut reference) = own.next().and_then(|i| Some((i, items[i]?)))?;
        let place = cut.range.start - self.starts[item];
        reference.start += reference.conversion.source_len(place);
        // A file may be longer than its base.
        let end = reference.end(cut.range.end - cut.range.start);
        (end <= self.source_len(reference.source)).then_some(reference)
    }

    /// Whether two adjacent small tensors can share one reference, or both have none.
    fn may_share(&self, items: &[Option<Reference>], a: usize, b: usize) -> bool {
        match (items[a], items[b]) {
            (None, None) => true,
            (Some(first), Some(second)) => {
                Reference { start: first.end(self.layout.items[a].len), ..first } == second
            }
            _ => false,
        }
    }

    /// The reference of what comes before all tensors, such as headers, if that is long: to the
    /// start of the base that most bytes of tensors refer to.
    fn first_item(&self, items: &[Option<Reference>]) -> Option<Reference> {
        let least = match self.layout.kind {
            SourceKind::Safetensors => HEADER_LEN_MIN,
            SourceKind::Bytes | SourceKind::Arranged => FIRST_LEN_MIN,
        };
        if self.layout.items[0].len < least {
            return None;
        }
        let mut bytes: BTreeMap<u64, u64> = BTreeMap::new();
        for (item, reference) in self.layout.items.iter().zip(items) {
            if let Some(reference) = reference.filter(|reference| !reference.is_own()) {
                *bytes.entry(reference.source).or_default() += item.len;
            }
        }
        let (source, _) =
            bytes.into_iter().max_by_key(|&(source, bytes)| (bytes, Reverse(source)))?;
        Some(Reference { source, start: 0, conversion: Conversion::None })
    }
}
