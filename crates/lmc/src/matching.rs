//! Which span of a file is coded against what.

use crate::io::Source;
use crate::{Options, Reference};
use lmc_format::{Conversion, Result, SourceKind};
use lmc_input::Cut;
use std::collections::HashMap;

/// The spans of a file, and what each refers to.
pub(crate) struct Spans {
    pub cuts: Vec<Cut>,
    pub references: Vec<Option<Reference>>,
}

/// Cuts a file and finds bases for its spans.
pub(crate) fn spans(
    source: &Source,
    layout: &lmc_input::Source,
    options: &Options,
) -> Result<Spans> {
    let items = match layout.kind {
        SourceKind::Bytes => whole_file(options),
        SourceKind::Safetensors => tensors(source, layout, options)?,
    };
    let follows = |a: usize, b: usize| follows(&items, layout, a, b);
    let cuts = lmc_input::cut_where(layout, follows);
    let starts = starts(layout);
    let reference = |cut: &Cut| {
        let mut own = cut.items.clone().filter(|&i| layout.items[i].len > 0);
        let item = own.next()?;
        let mut reference = items[item]?;
        let place = cut.range.start - starts[item];
        reference.start += reference.conversion.source_len(place);
        let len = source_len(source, options, reference.source).ok()?;
        (reference.end(cut.range.end - cut.range.start) <= len).then_some(reference)
    };
    let references = cuts.iter().map(reference).collect();
    Ok(Spans { cuts, references })
}

/// Fills `out` from the source of a reference: this file itself or one of its bases.
pub(crate) fn read(
    own: &Source,
    options: &Options,
    source: u64,
    start: u64,
    out: &mut [u8],
) -> Result<()> {
    match (source as usize).checked_sub(1) {
        None => own.read(start, out),
        Some(i) => options.bases.list()[i].read(start, out, 1),
    }
}

fn source_len(own: &Source, options: &Options, source: u64) -> Result<u64> {
    match (source as usize).checked_sub(1) {
        None => own.len(),
        Some(i) => Ok(options.bases.list()[i].original_len()),
    }
}

/// Where each item starts.
fn starts(layout: &lmc_input::Source) -> Vec<u64> {
    let mut end = 0;
    let start = |item: &lmc_input::SourceItem| {
        let start = end;
        end += item.len;
        start
    };
    layout.items.iter().map(start).collect()
}

/// Whether the bases of items `a` and `b` stand one behind the other as the items do.
fn follows(items: &[Option<Reference>], layout: &lmc_input::Source, a: usize, b: usize) -> bool {
    match (items[a], items[b]) {
        (None, None) => true,
        (Some(first), Some(second)) => {
            Reference { start: first.end(layout.items[a].len), ..first } == second
        }
        _ => false,
    }
}

/// A file of which nothing is known, on the first base from its start on.
fn whole_file(options: &Options) -> Vec<Option<Reference>> {
    let has_base = !options.bases.list().is_empty();
    vec![has_base.then_some(Reference { source: 1, start: 0, conversion: Conversion::None })]
}

/// For each item of a safetensors file, the tensor of the same name, type and shape.
fn tensors(
    _source: &Source,
    layout: &lmc_input::Source,
    options: &Options,
) -> Result<Vec<Option<Reference>>> {
    let mut known = HashMap::new();
    for (i, base) in options.bases.list().iter().enumerate() {
        for tensor in &base.layout()?.tensors {
            let key = (tensor.name.as_str(), tensor.dtype.as_str(), &tensor.shape[..]);
            known.entry(key).or_insert(Reference {
                source: i as u64 + 1,
                start: tensor.range.start,
                conversion: Conversion::None,
            });
        }
    }
    let find = |tensor: &lmc_input::Tensor| {
        known.get(&(tensor.name.as_str(), tensor.dtype.as_str(), &tensor.shape[..])).copied()
    };
    Ok([None].into_iter().chain(layout.tensors.iter().map(find)).collect())
}
