//! The bytes that a reference names, as the base of a span.

use crate::convert::convert;
use crate::pipeline::Buffer;
use lmc_format::{Conversion, Reference, Result};
use std::ops::Range;

/// Fills `out` with the part `part` of a span's base; whole words of it, if they are converted.
/// `read` reads from the source; `wide` is for what is converted.
pub(crate) fn read(
    reference: &Reference,
    part: Range<u64>,
    wide: &mut Buffer,
    out: &mut [u8],
    read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let start = reference.start + reference.conversion.source_len(part.start);
    if reference.conversion == Conversion::None {
        return read(start, out);
    }
    let from = wide.sized(2 * out.len() as u64)?;
    read(start, from)?;
    convert(reference.conversion, from, out);
    Ok(())
}
