//! Samples part of a tensor: evenly spread stretches of values.

use crate::simd::prefetch_all;

/// Values in one stretch: two or more cache lines for most types, and whole vectors.
const STRETCH: usize = 64;

/// How many stretches ahead to prefetch: they are too far apart for the hardware prefetcher.
const AHEAD: usize = 12;
/// Bytes of a stretch to prefetch.
const AHEAD_LEN: usize = 256;

/// About `wanted` values of `bytes` (values of `width` bytes), in stretches spread over all of it;
/// all values if there are no more than that.
pub(super) fn sample(bytes: &[u8], width: usize, wanted: usize) -> Vec<u8> {
    let n = bytes.len() / width;
    if n <= wanted.max(STRETCH) {
        return bytes[..n * width].to_vec();
    }
    let stretches = wanted.div_ceil(STRETCH);
    let mut sample = Vec::with_capacity(stretches * STRETCH * width);
    let stretch = |i: usize| {
        let start = (n - STRETCH) * i / (stretches - 1).max(1);
        &bytes[start * width..(start + STRETCH) * width]
    };
    each_prefetched(stretches, stretch, |bytes| sample.extend_from_slice(bytes));
    sample
}

/// Calls `visit` with each of `count` stretches of memory.
pub(super) fn each_prefetched<'a>(
    count: usize,
    stretch: impl Fn(usize) -> &'a [u8],
    mut visit: impl FnMut(&'a [u8]),
) {
    let ask_for = |i: usize| {
        let bytes = stretch(i);
        prefetch_all(&bytes[..bytes.len().min(AHEAD_LEN)]);
    };
    (0..count.min(AHEAD)).for_each(ask_for);
    for i in 0..count {
        if i + AHEAD < count {
            ask_for(i + AHEAD);
        }
        visit(stretch(i));
    }
}
