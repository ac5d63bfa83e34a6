//! The bytes that a reference names, as the base of a span.

use crate::base::convert::convert;
use crate::pipeline::Buffer;
use crate::span::PIECE_LEN;
use lmc_format::{Conversion, Reference, Result};
use std::ops::Range;

/// Fills `out` with the part `part` of a span's base; the part must be whole words if they are
/// converted. `read` reads from the source; `wide` is a buffer for the bytes to convert, one piece
/// at a time.
pub(crate) fn read(
    reference: &Reference,
    part: Range<u64>,
    wide: &mut Buffer,
    out: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut start = reference.start + reference.conversion.source_len(part.start);
    if reference.conversion == Conversion::None {
        return read(start, out);
    }
    for piece in out.chunks_mut(PIECE_LEN as usize) {
        let from = wide.sized(reference.conversion.source_len(piece.len() as u64))?;
        read(start, from)?;
        convert(reference.conversion, from, piece);
        start += from.len() as u64;
    }
    Ok(())
}
