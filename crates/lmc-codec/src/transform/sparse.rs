//! Zero flags (`docs/format.md`, section 4.1): values that are all zero bits are left out.

use crate::simd::{Isa, flags};
use lmc_format::{Error, Result};

/// Runs a function that is generic over a value's width in bytes, for the given width.
macro_rules! for_width {
    ($width:expr, $run:ident($($arg:expr),*)) => {
        match $width {
            1 => $run::<1>($($arg),*),
            2 => $run::<2>($($arg),*),
            4 => $run::<4>($($arg),*),
            _ => $run::<8>($($arg),*),
        }
    };
}

/// Appends a flag for each value of `width` bytes to `flags` (1: not zero) and the values that are
/// not zero to `dense`.
#[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
pub(crate) fn forward(width: usize, src: &[u8], flags: &mut Vec<u8>, dense: &mut Vec<u8>) {
    /// Every value is written, but the position advances only after those that stay: no branch
    /// depends on the data.
    fn run<const W: usize>(src: &[u8], flags: &mut Vec<u8>, dense: &mut [u8]) -> usize {
        let mut end = 0;
        for eight in src.as_chunks::<W>().0.chunks(8) {
            let mut byte = 0;
            for (j, value) in eight.iter().enumerate() {
                let stays = *value != [0; W];
                byte |= u8::from(stays) << j;
                dense[end..end + W].copy_from_slice(value);
                end += W * usize::from(stays);
            }
            flags.push(byte);
        }
        end
    }
    let start = dense.len();
    dense.resize(start + src.len(), 0);
    let len = for_width!(width, run(src, flags, &mut dense[start..]));
    dense.truncate(start + len);
}

/// Number of values of `width` bytes that are all zero bits.
pub(crate) fn zeros(width: usize, src: &[u8]) -> usize {
    fn count<const W: usize>(src: &[u8]) -> usize {
        let count = |values: &[[u8; W]]| {
            values.iter().fold(0_u8, |zeros, value| zeros + u8::from(*value == [0; W]))
        };
        // Counted in bytes until they would overflow, which the compiler turns into vector code.
        src.as_chunks::<W>().0.chunks(255).map(|values| usize::from(count(values))).sum()
    }
    for_width!(width, count(src))
}

/// Number of values flagged; fails if a flag is set beyond the `n` values.
pub(crate) fn count(isa: Isa, flags: &[u8], n: usize) -> Result<usize> {
    if !n.is_multiple_of(8) && flags.last().is_some_and(|&last| last >> (n % 8) != 0) {
        return Err(Error::corrupt("zero flags are set beyond the last value"));
    }
    Ok(flags::count(isa, flags))
}

/// Undoes [`forward`]: `dense` holds as many values as [`count`] gave.
pub(crate) fn inverse(width: usize, flags: &[u8], dense: &[u8], dst: &mut [u8]) {
    fn run<const W: usize>(flags: &[u8], dense: &[u8], dst: &mut [u8]) {
        let mut values = dense.as_chunks::<W>().0.iter();
        for (eight, &byte) in dst.as_chunks_mut::<W>().0.chunks_mut(8).zip(flags) {
            eight.fill([0; W]);
            let mut left = byte;
            while left != 0 {
                // `count` has refused flags beyond the last value, so there is a place for each.
                let place = left.trailing_zeros() as usize;
                if let (Some(to), Some(value)) = (eight.get_mut(place), values.next()) {
                    *to = *value;
                }
                left &= left - 1;
            }
        }
    }
    for_width!(width, run(flags, dense, dst));
}
