//! How a file is split, and which types its parts seem to have.

use std::collections::BTreeMap;

use lmc::{Archive, Context, Dtype, Input, Level, Options, Output, SpanInfo};

use crate::exit::Failure;

/// Bytes of the element type that most of a file seems to have.
pub fn main_width(spans: &[SpanInfo]) -> usize {
    let mut bytes_of: BTreeMap<usize, u64> = BTreeMap::new();
    for span in spans {
        *bytes_of.entry(width(span)).or_default() += span.raw_len;
    }
    let most = bytes_of.into_iter().max_by_key(|(_, bytes)| *bytes);
    most.map_or(1, |(width, _)| width)
}

/// How `data` is split, and which type each part seems to have.
pub fn spans(data: &[u8], threads: usize) -> Result<Vec<SpanInfo>, Failure> {
    let mut coded = Vec::new();
    let options = Options {
        level: Level::Fast,
        context: Context::with_threads(threads),
        verify: false,
        ..Options::default()
    };
    lmc::compress(Input::Bytes(data), Output::Stream(&mut coded), &options)?;
    Ok(Archive::from_bytes(coded)?.spans().collect::<lmc::Result<_>>()?)
}

/// Bytes of a word of a span.
fn width(span: &SpanInfo) -> usize {
    span.dtype.dtype().map_or(1, Dtype::width)
}
