//! A file and its base: which part of the base belongs to each tensor.
//!
//! Tensors are matched by name, type and shape. Files that are not both safetensors must have the
//! same length, and are matched as a whole. The rest is coded without a base.

use std::collections::HashMap;
use std::ops::Range;

use lmc::SpanInfo;
use lmc_codec::{Dtype, TensorSpec};
use lmc_engines::Sample;
use lmc_input::{Cut, FileLayout, LayoutItem, TensorInfo};

use crate::exit::Failure;

/// The base of a file, in the layout of the file.
pub struct Pair {
    /// As long as the file, and zero where there is no base: XOR changes nothing there.
    pub base: Vec<u8>,
    spans: Vec<Span>,
    /// Bytes of the file that have a base.
    pub matched_len: usize,
}

/// A part of the file that is planned as one.
struct Span {
    start: usize,
    /// Its length, type and rows.
    tensor: lmc_engines::SampleTensor,
    /// Whether any of it has a base.
    has_base: bool,
}

impl Pair {
    /// Fails if no part of `data` has a base in `old`. `spans` says which types the parts of `data`
    /// seem to have.
    pub fn new(data: &[u8], old: &[u8], spans: &[SpanInfo]) -> Result<Self, Failure> {
        let len = data.len() as u64;
        let header = header(data).and_then(|header| lmc_input::parse(header, len));
        let source = header.unwrap_or_else(|| FileLayout::bytes(len));
        let places = match (tensors(data), tensors(old)) {
            (Some(new), Some(old)) => tensor_places(&new, &old)?,
            _ if data.len() == old.len() => whole(&source),
            _ => {
                let message = "and its base differ in length; only safetensors files may";
                let lens = format!("{len} and {} bytes", old.len());
                return Err(Failure::new(format!("{message}: {lens}")));
            }
        };
        let mut base = Vec::with_capacity(data.len());
        for (item, place) in source.items.iter().zip(&places) {
            match place {
                Some(place) => base.extend_from_slice(&old[place.clone()]),
                None => base.resize(base.len() + item.len as usize, 0),
            }
        }
        let span = |(cut, taken): (Cut, &SpanInfo)| {
            let dtype = cut.dtype.unwrap_or_else(|| taken.dtype.dtype().unwrap_or(Dtype::Bytes));
            let spec = TensorSpec { dtype, row_len: cut.row_len };
            let (start, end) = (cut.range.start as usize, cut.range.end as usize);
            Span {
                start,
                tensor: lmc_engines::SampleTensor { len: end - start, spec },
                has_base: places[cut.items].iter().any(Option::is_some),
            }
        };
        let spans = lmc_input::cut(&source).into_iter().zip(spans).map(span).collect();
        let matched_len = places.iter().flatten().map(Range::len).sum();
        Ok(Self { base, spans, matched_len })
    }

    /// The spans of `data`, the file of this pair, each with its base.
    pub fn samples<'a>(&'a self, data: &'a [u8]) -> Vec<Sample<'a>> {
        let sample = |span: &'a Span| {
            let range = span.start..span.start + span.tensor.len;
            Sample {
                bytes: &data[range.clone()],
                base: span.has_base.then(|| &self.base[range]),
                tensors: std::slice::from_ref(&span.tensor),
            }
        };
        self.spans.iter().map(sample).collect()
    }
}

/// For each item of a file with the tensors `new`, the place of its base in the file with the
/// tensors `old`.
fn tensor_places(
    new: &[TensorInfo],
    old: &[TensorInfo],
) -> Result<Vec<Option<Range<usize>>>, Failure> {
    let olds: HashMap<&str, &TensorInfo> =
        old.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let place = |tensor: &TensorInfo| {
        let old = olds.get(tensor.name.as_str())?;
        let is_same = old.dtype == tensor.dtype && old.shape == tensor.shape;
        is_same.then_some(old.range.start as usize..old.range.end as usize)
    };
    // The first item is the header.
    let places: Vec<_> = std::iter::once(None).chain(new.iter().map(place)).collect();
    if places.iter().all(Option::is_none) {
        let message = "has no tensor of the same name, type and shape as one of its base";
        return Err(Failure::new(message));
    }
    Ok(places)
}

/// Every item matches its own place.
fn whole(source: &FileLayout) -> Vec<Option<Range<usize>>> {
    let place = |end: &mut usize, item: &LayoutItem| {
        let start = *end;
        *end += item.len as usize;
        Some(Some(start..*end))
    };
    source.items.iter().scan(0, place).collect()
}

/// The tensors of a safetensors file.
fn tensors(file: &[u8]) -> Option<Vec<TensorInfo>> {
    lmc_input::tensors(header(file)?, file.len() as u64)
}

/// The bytes that may be the header of a safetensors file.
fn header(file: &[u8]) -> Option<&[u8]> {
    let len = lmc_input::header_len(*file.first_chunk()?, file.len() as u64)?;
    file.get(..len as usize)
}
