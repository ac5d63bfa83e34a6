//! [`super::words`] with AVX2.

use super::avx2::{decode_level, decode_lower, encode_level, encode_lower};
use super::words::merge_in_steps;
use super::{Scratch, Tables, Walk};
use crate::simd::prefetch;
use crate::simd::words::{StagedWriter, TopMerge, split_group};

/// How far ahead of the split to prefetch its words if the records also bypass the caches.
const WORDS_AHEAD: usize = 2048;

/// Writes the records and the chain stream of rotated words at `out`. Returns their length.
///
/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `src` is whole words of `WIDTH` bytes, 2 or 4; `near` has a
/// byte for each and 64 more, and `out` room for the records, `tables.stream_len_max` of the words
/// and 64 bytes.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode<const WIDTH: usize>(
    tables: &Tables,
    src: &[u8],
    near: *mut u8,
    out: *mut u8,
    streaming: bool,
) -> usize {
    let n = src.len() / WIDTH;
    // SAFETY: `out` has room for all records, which are the bytes that the groups advance by.
    let mut records = unsafe { StagedWriter::new(out, streaming) };
    let full = n / 64 * 64;
    let mut last = [0; 256];
    last[..src.len() - full * WIDTH].copy_from_slice(&src[full * WIDTH..]);
    let split = |at: usize| {
        let words = if at < full { &src[at * WIDTH..][..64 * WIDTH] } else { &last };
        if streaming {
            for line in 0..WIDTH {
                prefetch(words.as_ptr().wrapping_add(WORDS_AHEAD + 64 * line));
            }
        }
        // SAFETY: 64 words can be read at `words`, and the writer has room for their records.
        let top = unsafe { split_group::<WIDTH>(words.as_ptr(), records.room()) };
        records.advance((n - at).min(64) * (WIDTH - 1));
        top
    };
    // SAFETY: guaranteed by the caller; the first level's words are after the records.
    let (kept, end) = unsafe {
        let mut end = out.add(n * (WIDTH - 1));
        (encode_level(tables.levels[0], n, split, near, &mut end), end)
    };
    records.finish();
    // SAFETY: guaranteed by the caller.
    unsafe { encode_lower(tables, near, kept, end).offset_from_unsigned(out) }
}

/// Decodes the stream of `walk` into `top`, and merges along the way. `ahead` is where the next
/// segment's digits are expected.
///
/// # Safety
/// As [`super::avx2::decode`], with `top` for `dst`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode(
    tables: &Tables,
    walk: &Walk,
    top: &mut [u8],
    scratch: &mut Scratch,
    merge: TopMerge,
    ahead: &[u8],
) {
    let level = tables.levels[0];
    // SAFETY: guaranteed by the caller.
    let mut next = unsafe { decode_lower(tables, walk, scratch) };
    merge_in_steps(level, walk.streams[0], top, merge, ahead, |stream, top| {
        // SAFETY: `stream` starts with the digits of `top`, and `next` is where the bytes of their
        // largest digits start, with the slack after them.
        next = unsafe { decode_level(level, stream, next, top) };
    });
}
