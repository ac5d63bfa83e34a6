//! Encodes and decodes one span: bytes to pieces with their checksums, and back.

mod decode;
mod encode;
mod sizer;

pub(crate) use decode::{SpanDecoder, SpanPart, check_part};
pub(crate) use encode::SpanEncoder;
pub use sizer::SpanSizer;

use lmc_format::{Error, Hash, Result, Span, hash};
use std::ops::Range;

/// Bytes of a base that are read in one go, or one segment if that is longer: each file of a base
/// chain uses a few times this much memory.
pub(crate) const PIECE_LEN: u64 = 1 << 20;

/// A span as it was coded: its bytes in the body, and its entry in the index.
#[derive(Debug)]
pub(crate) struct CodedSpan {
    pub bytes: Vec<u8>,
    pub span: Span,
}

/// The start of `wanted` that is decoded in one go: whole blocks, or a part of one, as the flag
/// says.
pub(crate) fn first_part(span: &Span, wanted: &Range<u64>) -> (Range<u64>, bool) {
    let block = block_bounds(span, (wanted.start >> span.block_log2) as usize);
    if wanted.start > block.start || wanted.end < block.end {
        return (wanted.start..wanted.end.min(block.end), true);
    }
    let end = if wanted.end < span.raw_len {
        wanted.end >> span.block_log2 << span.block_log2
    } else {
        span.raw_len
    };
    (wanted.start..end, false)
}

/// The original bytes of block `i`.
pub(crate) fn block_bounds(span: &Span, i: usize) -> Range<u64> {
    let start = (i as u64) << span.block_log2;
    start..span.raw_len.min(start + (1 << span.block_log2))
}

/// The blocks that hold the original bytes `wanted`.
pub(crate) fn blocks_of(span: &Span, wanted: &Range<u64>) -> Range<usize> {
    if wanted.is_empty() {
        return 0..0;
    }
    (wanted.start >> span.block_log2) as usize..((wanted.end - 1) >> span.block_log2) as usize + 1
}

/// Fails unless `bytes` have the checksum `expected`.
pub(crate) fn check(bytes: &[u8], expected: Hash, what: &str) -> Result<()> {
    check_hash(hash(bytes), expected, what)
}

/// Fails unless both checksums are the same.
pub(crate) fn check_hash(found: Hash, expected: Hash, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what} is damaged: checksum {found:032x}, {expected:032x} expected; get another copy"
    )))
}
