//! Zero flags (`docs/format.md`, section 4.1): values that are all zero bits are left out.

use lmc_format::{Error, Result};

/// Appends a flag for each value of `width` bytes to `flags` (1: not zero) and the values that are not zero to `dense`.
pub fn forward(width: usize, src: &[u8], flags: &mut Vec<u8>, dense: &mut Vec<u8>) {
    for eight in src.chunks(8 * width) {
        let mut byte = 0;
        for (j, value) in eight.chunks(width).enumerate() {
            if value.iter().any(|&b| b != 0) {
                byte |= 1 << j;
                dense.extend_from_slice(value);
            }
        }
        flags.push(byte);
    }
}

/// Number of values of `width` bytes that are all zero bits.
pub fn zeros(width: usize, src: &[u8]) -> usize {
    fn count<const W: usize>(src: &[u8]) -> usize {
        src.as_chunks::<W>().0.iter().map(|value| usize::from(*value == [0; W])).sum()
    }
    match width {
        1 => count::<1>(src),
        2 => count::<2>(src),
        4 => count::<4>(src),
        _ => count::<8>(src),
    }
}

/// Number of values flagged; fails if a flag is set beyond the `n` values.
pub fn count(flags: &[u8], n: usize) -> Result<usize> {
    if !n.is_multiple_of(8) && flags.last().is_some_and(|&last| last >> (n % 8) != 0) {
        return Err(Error::corrupt("zero flags are set beyond the last value"));
    }
    Ok(flags.iter().map(|b| b.count_ones() as usize).sum())
}

/// Undoes [`forward`]: `dense` holds as many values as [`count`] gave.
pub fn inverse(width: usize, flags: &[u8], dense: &[u8], dst: &mut [u8]) {
    let mut values = dense.chunks_exact(width);
    for (eight, &byte) in dst.chunks_mut(8 * width).zip(flags) {
        for (j, value) in eight.chunks_mut(width).enumerate() {
            match byte >> j & 1 {
                0 => value.fill(0),
                _ => value.copy_from_slice(values.next().unwrap_or(&[0; 8][..width])),
            }
        }
    }
}
