//! [`super::words`] with AVX-512 VBMI2.

use super::avx512::{decode_level, decode_lower, encode_level, encode_lower};
use super::words::merge_in_steps;
use super::{Scratch, Tables, Walk};
use crate::simd::prefetch;
use crate::simd::words::{TopMerge, VectorWriter};
use std::arch::x86_64::*;

/// How far ahead of the split to prefetch its words if the records also bypass the caches. 2,048
/// bytes gave 7.5 GiB/s where 0 gave 6.2 and 1,024 gave 6.9 (bf16, Ice Lake server at 2.8 GHz).
const WORDS_AHEAD: usize = 2048;

/// Writes the records and the chain stream of rotated words at `out`. Returns their length.
///
/// # Safety
/// The CPU has AVX-512 F, BW, VBMI and VBMI2. `src` is one or more whole groups of 64 words of
/// `WIDTH` bytes, 2 or 4; `near` has a byte for each and 64 more, and `out` room for the records,
/// `tables.stream_len_max` of the words and 64 bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn encode<const WIDTH: usize>(
    tables: &Tables,
    src: &[u8],
    near: *mut u8,
    out: *mut u8,
    streaming: bool,
) -> usize {
    let n = src.len() / WIDTH;
    let split = Split::<WIDTH>::new();
    let mut records = VectorWriter::new(out, streaming);
    let group = |at: usize| {
        let words = src[at * WIDTH..][..64 * WIDTH].as_ptr();
        if streaming {
            for line in 0..WIDTH {
                prefetch(words.wrapping_add(WORDS_AHEAD + 64 * line));
            }
        }
        // SAFETY: a group of 64 words can be read, and there is room for their records.
        unsafe { split.group(words, &mut records) }
    };
    // SAFETY: guaranteed by the caller; the first level's words are after the records, where there
    // is room for them.
    unsafe {
        let mut end = out.add(n * (WIDTH - 1));
        let kept = encode_level(tables.levels[0], n, group, near, &mut end);
        records.finish();
        encode_lower(tables, near, kept, end).offset_from_unsigned(out)
    }
}

/// The byte orders that split 64 words.
struct Split<const WIDTH: usize> {
    rest: [__m512i; 3],
    high: __m512i,
}

impl<const WIDTH: usize> Split<WIDTH> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        // Vector `k` of the records starts in vector `k` of the words and ends in the next one: 48
        // bytes of records come from each vector of 32-bit words, 32 from each of 16-bit
        // words.
        let rest = std::array::from_fn(|k| {
            let order: [u8; 64] = std::array::from_fn(|i| {
                let byte = 64 * k + i - 64 / WIDTH * (WIDTH - 1) * k;
                (byte / (WIDTH - 1) * WIDTH + byte % (WIDTH - 1)) as u8
            });
            // SAFETY: `order` has 64 bytes.
            unsafe { _mm512_loadu_si512(order.as_ptr().cast()) }
        });
        let high: [u8; 64] = std::array::from_fn(|i| (i * WIDTH + WIDTH - 1) as u8);
        // SAFETY: `high` has 64 bytes.
        Self { rest, high: unsafe { _mm512_loadu_si512(high.as_ptr().cast()) } }
    }

    /// Writes the records of 64 words at `src`; returns their top bytes.
    ///
    /// # Safety
    /// 64 words can be read at `src` and their records written.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
    unsafe fn group(&self, src: *const u8, records: &mut VectorWriter) -> __m512i {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let load = |i: usize| _mm512_loadu_si512(src.add(64 * i).cast());
            if WIDTH == 2 {
                let (a, b) = (load(0), load(1));
                let (a, b) = (_mm512_shldi_epi16::<1>(a, a), _mm512_shldi_epi16::<1>(b, b));
                records.put(_mm512_permutex2var_epi8(a, self.rest[0], b));
                _mm512_permutex2var_epi8(a, self.high, b)
            } else {
                let words: [__m512i; 4] = std::array::from_fn(|i| _mm512_rol_epi32::<1>(load(i)));
                for (k, &order) in self.rest.iter().enumerate() {
                    records.put(_mm512_permutex2var_epi8(words[k], order, words[k + 1]));
                }
                let lower = _mm512_permutex2var_epi8(words[0], self.high, words[1]);
                let upper = _mm512_permutex2var_epi8(words[2], self.high, words[3]);
                _mm512_inserti64x4::<1>(lower, _mm512_castsi512_si256(upper))
            }
        }
    }
}

/// Decodes the stream of `walk` into `top`, and merges along the way. `ahead` is where the next
/// segment's digits are expected.
///
/// # Safety
/// As [`super::avx512::decode`], with `top` for `dst`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
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
        let (target, count) = (top.as_mut_ptr(), top.len());
        // SAFETY: `target` has `count` bytes, `stream` starts with their digits, and `next` is
        // where the bytes of their largest digits start.
        next = unsafe {
            if level.two_bits {
                decode_level::<true>(level, stream, next, target, count)
            } else {
                decode_level::<false>(level, stream, next, target, count)
            }
        };
    });
}
