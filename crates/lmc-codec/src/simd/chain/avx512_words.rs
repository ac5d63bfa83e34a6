//! [`super::words`] with AVX-512 VBMI2.

use super::avx512::{Window, decode_level, decode_lower, encode_level, write_escapes};
use super::{Scratch, Tables, Walk};
use crate::simd::words::TopMerge;
use std::arch::x86_64::*;

/// Top bytes that are found before their words are stored: little enough that the stores of one step drain during the next.
const STEP: usize = 512;

/// Writes records and chain stream of rotated words at `out`; returns their length.
///
/// # Safety
/// The CPU has AVX-512 F, BW, VBMI and VBMI2. `src` is a whole number of groups of 64 words of `WIDTH` bytes, 2 or 4; `top` has
/// a byte for each, `near` 64 more, and `out` room for the records, `tables.stream_len_max` of the words and 64 bytes.
/// The table's symbols lie in the window from `low`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn encode<const WIDTH: usize>(
    tables: &Tables,
    low: u8,
    src: &[u8],
    top: &mut [u8],
    near: *mut u8,
    out: *mut u8,
) -> usize {
    let n = top.len();
    // SAFETY: as the caller promises; the first level's words lie behind the records, where there is room for them.
    unsafe {
        let mut end = out.add(n * (WIDTH - 1));
        let mut kept = if tables.levels[0].two_bits {
            encode_first::<WIDTH, true>(tables, low, src, top, near, out, &mut end)
        } else {
            encode_first::<WIDTH, false>(tables, low, src, top, near, out, &mut end)
        };
        for &level in &tables.levels[1..] {
            kept = if level.two_bits {
                encode_level::<true>(level, near, kept, &mut end)
            } else {
                encode_level::<false>(level, near, kept, &mut end)
            };
        }
        if kept > 0 {
            end = end.add(write_escapes(tables, top, near, end));
        }
        end.offset_from_unsigned(out)
    }
}

/// Splits the words and writes the first level's digits; returns how many bytes go on, whose labels are at `near`.
///
/// # Safety
/// As [`encode`]; `*end` is where the digits go.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
unsafe fn encode_first<const WIDTH: usize, const TWO_BITS: bool>(
    tables: &Tables,
    low: u8,
    src: &[u8],
    top: &mut [u8],
    near: *mut u8,
    mut records: *mut u8,
    end: &mut *mut u8,
) -> usize {
    let window = Window::new(tables, low);
    let split = Split::<WIDTH>::new();
    let bound = |k: i8| _mm512_set1_epi8(k);
    let (bound1, bound2, bound3) = (bound(1), bound(2), bound(3));
    let mut kept = 0;
    let mut digits = *end;
    for at in (0..top.len()).step_by(64) {
        // SAFETY: 64 words and top bytes from `at` on are there; records and digits have their place; `kept <= at`.
        unsafe {
            let high = split.group(src.as_ptr().add(at * WIDTH), records);
            records = records.add(64 * (WIDTH - 1));
            _mm512_storeu_si512(top.as_mut_ptr().add(at).cast(), high);
            let label = window.labels(high);
            let over1 = _mm512_cmpge_epu8_mask(label, bound1);
            let on;
            if TWO_BITS {
                let over2 = _mm512_cmpge_epu8_mask(label, bound2);
                on = _mm512_cmpge_epu8_mask(label, bound3);
                digits.cast::<u64>().write_unaligned((over1 & !over2) | on);
                digits.add(8).cast::<u64>().write_unaligned(over2);
                digits = digits.add(16);
            } else {
                on = over1;
                digits.cast::<u64>().write_unaligned(over1);
                digits = digits.add(8);
            }
            _mm512_storeu_si512(near.add(kept).cast(), _mm512_maskz_compress_epi8(on, label));
            kept += on.count_ones() as usize;
        }
    }
    *end = digits;
    kept
}

/// The byte orders that split 64 words.
struct Split<const WIDTH: usize> {
    rest: __m512i,
    high: __m512i,
}

impl<const WIDTH: usize> Split<WIDTH> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let per_vector = 64 / WIDTH;
        // 16-bit words: even and odd bytes of two vectors. 32-bit words: three of four bytes of one vector, then the fourth.
        let rest: [u8; 64] = std::array::from_fn(|i| match WIDTH {
            2 => 2 * i as u8,
            _ => (i / 3 * 4 + i % 3) as u8 & 63,
        });
        let high: [u8; 64] =
            std::array::from_fn(|i| ((i % (2 * per_vector)) * WIDTH + WIDTH - 1) as u8);
        // SAFETY: both arrays have 64 bytes.
        unsafe {
            Self {
                rest: _mm512_loadu_si512(rest.as_ptr().cast()),
                high: _mm512_loadu_si512(high.as_ptr().cast()),
            }
        }
    }

    /// Writes the records of 64 words at `src` to `records`; returns their top bytes.
    ///
    /// # Safety
    /// 64 words can be read at `src` and their records written at `records`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
    unsafe fn group(&self, src: *const u8, records: *mut u8) -> __m512i {
        // SAFETY: the caller's.
        unsafe {
            let load = |i: usize| _mm512_loadu_si512(src.add(64 * i).cast());
            if WIDTH == 2 {
                let (a, b) = (load(0), load(1));
                let (a, b) = (_mm512_shldi_epi16::<1>(a, a), _mm512_shldi_epi16::<1>(b, b));
                let rest = _mm512_permutex2var_epi8(a, self.rest, b);
                _mm512_storeu_si512(records.cast(), rest);
                _mm512_permutex2var_epi8(a, self.high, b)
            } else {
                let words: [__m512i; 4] = std::array::from_fn(|i| _mm512_rol_epi32::<1>(load(i)));
                for (i, &v) in words.iter().enumerate() {
                    let rest = _mm512_permutexvar_epi8(self.rest, v);
                    let to = records.add(48 * i);
                    _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(rest));
                    _mm_storeu_si128(to.add(32).cast(), _mm512_extracti32x4_epi32::<2>(rest));
                }
                let lower = _mm512_permutex2var_epi8(words[0], self.high, words[1]);
                let upper = _mm512_permutex2var_epi8(words[2], self.high, words[3]);
                _mm512_inserti64x4::<1>(lower, _mm512_castsi512_si256(upper))
            }
        }
    }
}

/// Decodes what `walk` found into `top`, and merges as it goes.
///
/// # Safety
/// As [`super::avx512::decode`], with `top` for `dst`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn decode(
    tables: &Tables,
    walk: &Walk,
    top: &mut [u8],
    scratch: &mut Scratch,
    mut merge: TopMerge,
) {
    let level = tables.levels[0];
    let step_len = level.stream_len(STEP);
    // SAFETY: as the caller promises.
    let mut next = unsafe { decode_lower(tables, walk, scratch) };
    for at in (0..top.len()).step_by(STEP) {
        let count = STEP.min(top.len() - at);
        let stream = &walk.streams[0][at / STEP * step_len..];
        let target = top[at..].as_mut_ptr();
        // SAFETY: `target` has `count` bytes, `stream` starts with their digits, since a step is whole groups, and `next` is
        // where the bytes of their largest digits start.
        next = unsafe {
            if level.two_bits {
                decode_level::<true>(level, stream, next, target, count)
            } else {
                decode_level::<false>(level, stream, next, target, count)
            }
        };
        merge.advance(&top[..at + count]);
    }
    merge.finish(top);
}
