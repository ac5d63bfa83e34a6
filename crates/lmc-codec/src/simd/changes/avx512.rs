//! Changes with AVX-512: whole groups of 64 values.

use super::{ContextRule, GROUP};
use crate::simd::bins::avx512_words::{Eights, Fours, Ones, Twos, Words};
use crate::simd::prefetch;
use std::arch::x86_64::*;

/// How far ahead to prefetch, in bytes.
const AHEAD: usize = 1024;

/// [`super::masks`].
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn masks(rule: ContextRule, base: &[u8], out: &mut [u64]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match rule.width_log2 {
            0 => masks_of::<Ones>(rule, base, out),
            1 => masks_of::<Twos>(rule, base, out),
            2 => masks_of::<Fours<0>>(rule, base, out),
            _ => masks_of::<Eights<0>>(rule, base, out),
        }
    }
}

/// # Safety
/// As [`masks`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn masks_of<W: Words>(rule: ContextRule, base: &[u8], out: &mut [u64]) {
    let count = rule.bounds.len();
    if count == 0 {
        return;
    }
    let first = _mm512_set1_epi16(rule.exponent_first as i16);
    let shift = _mm_cvtsi32_si128(16 - i32::from(rule.exponent_bits));
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    let mut bounds = [_mm512_setzero_si512(); 8];
    for (vector, &bound) in bounds.iter_mut().zip(rule.bounds) {
        *vector = _mm512_set1_epi8(bound as i8);
    }
    let groups = base.chunks_exact(GROUP * W::WIDTH).zip(out.chunks_exact_mut(count));
    for (base, out) in groups {
        // SAFETY: a group of bases can be read.
        let tops = unsafe { W::tops(base.as_ptr()) };
        let above = tops.map(|top| {
            let exponent = _mm512_srl_epi16(_mm512_add_epi16(top, top), shift);
            _mm512_subs_epu16(exponent, first)
        });
        let above = _mm512_packus_epi16(above[0], above[1]);
        let above = _mm512_permutexvar_epi64(order, above);
        for (mask, &bound) in out.iter_mut().zip(&bounds) {
            *mask = _mm512_cmpge_epu8_mask(above, bound);
        }
    }
}

/// The values of a vector whose bits are set, closed up.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn closed_up<const W: usize>(bits: u64, values: __m512i) -> __m512i {
    match W {
        1 => _mm512_maskz_compress_epi8(bits, values),
        2 => _mm512_maskz_compress_epi16(bits as u32, values),
        4 => _mm512_maskz_compress_epi32(bits as u16, values),
        _ => _mm512_maskz_compress_epi64(bits as u8, values),
    }
}

/// Which values of two vectors differ.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn differing<const W: usize>(a: __m512i, b: __m512i) -> u64 {
    match W {
        1 => _mm512_cmpneq_epi8_mask(a, b),
        2 => _mm512_cmpneq_epi16_mask(a, b).into(),
        4 => _mm512_cmpneq_epi32_mask(a, b).into(),
        _ => _mm512_cmpneq_epi64_mask(a, b).into(),
    }
}

/// The bits of part `i` of a group.
#[inline(always)]
fn part<const W: usize>(bits: u64, i: usize) -> u64 {
    let len = GROUP / W;
    (bits >> (i * len % GROUP)) & (u64::MAX >> (GROUP - len))
}

/// [`super::find`].
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn find(
    width_log2: u8,
    values: &[u8],
    base: &[u8],
    bits: &mut [u64],
    own: &mut [u8],
    own_base: &mut [u8],
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { for_width!(width_log2, find_of(values, base, bits, own, own_base)) }
}

/// # Safety
/// As [`find`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn find_of<const W: usize>(
    values: &[u8],
    base: &[u8],
    bits: &mut [u64],
    own: &mut [u8],
    own_base: &mut [u8],
) -> usize {
    let n = bits.len() * GROUP;
    assert!(values.len() == n * W && base.len() == values.len());
    assert!(own.len() >= (n + GROUP) * W && own_base.len() >= (n + GROUP) * W);
    let mut end = 0;
    for (i, bits) in bits.iter_mut().enumerate() {
        // SAFETY: a group is inside both slices, and at most as much is written as has been read,
        // plus a vector.
        unsafe {
            let (x, b) = (values.as_ptr().add(i * GROUP * W), base.as_ptr().add(i * GROUP * W));
            *bits = 0;
            for part in 0..W {
                prefetch(x.wrapping_add(AHEAD + 64 * part));
                prefetch(b.wrapping_add(AHEAD + 64 * part));
                let value = _mm512_loadu_si512(x.add(64 * part).cast());
                let from = _mm512_loadu_si512(b.add(64 * part).cast());
                let differ = differing::<W>(value, from);
                *bits |= differ << (part * GROUP / W);
                if differ != 0 {
                    let to = own.as_mut_ptr().add(end * W).cast();
                    _mm512_storeu_si512(to, closed_up::<W>(differ, value));
                    let to = own_base.as_mut_ptr().add(end * W).cast();
                    _mm512_storeu_si512(to, closed_up::<W>(differ, from));
                    end += differ.count_ones() as usize;
                }
            }
        }
    }
    end
}

/// [`super::take`].
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn take(width_log2: u8, bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { for_width!(width_log2, take_of(bits, src, out)) }
}

/// # Safety
/// As [`take`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn take_of<const W: usize>(bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    let n = bits.len() * GROUP;
    assert!(src.len() == n * W && out.len() >= (n + GROUP) * W);
    let mut end = 0;
    for (i, &bits) in bits.iter().enumerate() {
        for vector in 0..W {
            let own = part::<W>(bits, vector);
            if own != 0 {
                // SAFETY: as for `find_of`.
                unsafe {
                    let from = src.as_ptr().add(i * GROUP * W + 64 * vector);
                    let values = _mm512_loadu_si512(from.cast());
                    let to = out.as_mut_ptr().add(end * W).cast();
                    _mm512_storeu_si512(to, closed_up::<W>(own, values));
                }
                end += own.count_ones() as usize;
            }
        }
    }
    end
}

/// [`super::put`]; returns how many values were put.
///
/// # Safety
/// The CPU has AVX-512; there is a value for each bit, and a group of values after the last.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn put(
    width_log2: u8,
    bits: &[u64],
    values: &[u8],
    base: &[u8],
    dst: &mut [u8],
    streaming: bool,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { for_width!(width_log2, put_of(bits, values, base, dst, streaming)) }
}

/// # Safety
/// As [`put`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn put_of<const W: usize>(
    bits: &[u64],
    values: &[u8],
    base: &[u8],
    dst: &mut [u8],
    streaming: bool,
) -> usize {
    assert!(base.len() == bits.len() * GROUP * W && dst.len() == base.len());
    let streaming = streaming && dst.as_ptr().cast::<__m512i>().is_aligned();
    let mut end = 0;
    for (i, &bits) in bits.iter().enumerate() {
        for vector in 0..W {
            let own = part::<W>(bits, vector);
            // SAFETY: the vector is inside both slices, and a value has been counted for each bit.
            unsafe {
                let at = i * GROUP * W + 64 * vector;
                let from = _mm512_loadu_si512(base.as_ptr().add(at).cast());
                let next = _mm512_loadu_si512(values.as_ptr().add(end * W).cast());
                let all = match W {
                    1 => _mm512_mask_expand_epi8(from, own, next),
                    2 => _mm512_mask_expand_epi16(from, own as u32, next),
                    4 => _mm512_mask_expand_epi32(from, own as u16, next),
                    _ => _mm512_mask_expand_epi64(from, own as u8, next),
                };
                let to = dst.as_mut_ptr().add(at);
                if streaming {
                    _mm512_stream_si512(to.cast(), all);
                } else {
                    _mm512_storeu_si512(to.cast(), all);
                }
            }
            end += own.count_ones() as usize;
        }
    }
    end
}
