//! Changes with AVX2: whole groups of 64 values, eight at a time if some differ.

use super::{ContextRule, GROUP};
use crate::simd::bins::avx2_words::{Eights, Fours, Ones, SWAPPED, Twos, Words};
use crate::simd::chain::avx2_orders::{closing, spreading};
use crate::simd::prefetch;
use std::arch::x86_64::*;

/// How far ahead to prefetch, in bytes.
const AHEAD: usize = 1024;
/// Up to this many values of a group are moved one by one; more are moved eight at a time.
const FEW: u32 = 8;

/// [`super::masks`].
///
/// # Safety
/// The CPU has AVX2.
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
unsafe fn masks_of<W: Words>(rule: ContextRule, base: &[u8], out: &mut [u64]) {
    let count = rule.bounds.len();
    if count == 0 {
        return;
    }
    let first = _mm256_set1_epi16(rule.exponent_first as i16);
    let shift = _mm_cvtsi32_si128(16 - i32::from(rule.exponent_bits));
    let mut bounds = [_mm256_setzero_si256(); 8];
    for (vector, &bound) in bounds.iter_mut().zip(rule.bounds) {
        *vector = _mm256_set1_epi8(bound as i8);
    }
    let groups = base.chunks_exact(GROUP * W::WIDTH).zip(out.chunks_exact_mut(count));
    for (base, out) in groups {
        let mut above = [_mm256_setzero_si256(); 2];
        for (half, above) in above.iter_mut().enumerate() {
            // SAFETY: half a group of bases can be read.
            let tops = unsafe { W::tops(base.as_ptr().add(GROUP / 2 * W::WIDTH * half)) };
            let [a, b] = tops.map(|top| {
                let exponent = _mm256_srl_epi16(_mm256_add_epi16(top, top), shift);
                _mm256_subs_epu16(exponent, first)
            });
            *above = _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packus_epi16(a, b));
        }
        for (mask, &bound) in out.iter_mut().zip(&bounds) {
            let from = |above| _mm256_cmpeq_epi8(_mm256_max_epu8(above, bound), above);
            *mask = bits_of(from(above[0]), from(above[1]));
        }
    }
}

/// The top bits of 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn bits_of(low: __m256i, high: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(low) as u32) | u64::from(_mm256_movemask_epi8(high) as u32) << 32
}

/// Which values of a group differ from their base.
///
/// # Safety
/// Both can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn differing<const W: usize>(values: *const u8, base: *const u8) -> u64 {
    // SAFETY: guaranteed by the caller.
    let pair = |i: usize| unsafe {
        let value = _mm256_loadu_si256(values.add(32 * i).cast());
        (value, _mm256_loadu_si256(base.add(32 * i).cast()))
    };
    let mut equal = 0;
    match W {
        1 => {
            let same = |i| {
                let (value, base) = pair(i);
                _mm256_cmpeq_epi8(value, base)
            };
            equal = bits_of(same(0), same(1));
        }
        2 => {
            let same = |i| {
                let (value, base) = pair(i);
                _mm256_cmpeq_epi16(value, base)
            };
            let both =
                |i| _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packs_epi16(same(i), same(i + 1)));
            equal = bits_of(both(0), both(2));
        }
        4 => {
            for i in 0..8 {
                let (value, base) = pair(i);
                let same = _mm256_castsi256_ps(_mm256_cmpeq_epi32(value, base));
                equal |= (_mm256_movemask_ps(same) as u64) << (8 * i);
            }
        }
        _ => {
            for i in 0..16 {
                let (value, base) = pair(i);
                let same = _mm256_castsi256_pd(_mm256_cmpeq_epi64(value, base));
                equal |= (_mm256_movemask_pd(same) as u64) << (4 * i);
            }
        }
    }
    !equal
}

/// The bytes of eight whose bits are set.
#[inline]
#[target_feature(enable = "bmi2")]
fn byte_mask(on: u8) -> u64 {
    _pdep_u64(on.into(), 0x0101_0101_0101_0101) * 0xff
}

/// An order of eight words of 2 bytes; places outside the result have their top bits set.
#[inline]
#[target_feature(enable = "avx2")]
fn order_of_twos(order: u64) -> __m128i {
    let order = _mm_cvtsi64_si128(order as i64);
    let low = _mm_adds_epu8(order, order);
    _mm_unpacklo_epi8(low, _mm_or_si128(low, _mm_set1_epi8(1)))
}

/// Writes those of eight values whose bits are set, closed up.
///
/// # Safety
/// Eight values can be read and written.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
unsafe fn close_eight<const W: usize>(from: *const u8, on: u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match W {
            1 => {
                let bytes = _pext_u64(from.cast::<u64>().read_unaligned(), byte_mask(on));
                to.cast::<u64>().write_unaligned(bytes);
            }
            2 => {
                let eight = _mm_loadu_si128(from.cast());
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(eight, order_of_twos(closing(on))));
            }
            4 => {
                let order = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(closing(on) as i64));
                let eight = _mm256_loadu_si256(from.cast());
                _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(eight, order));
            }
            _ => {
                let (mut left, mut to) = (on, to.cast::<u64>());
                while left != 0 {
                    let value = from.cast::<u64>().add(left.trailing_zeros() as usize);
                    to.write_unaligned(value.read_unaligned());
                    to = to.add(1);
                    left &= left - 1;
                }
            }
        }
    }
}

/// Copies one value.
///
/// # Safety
/// It can be read and written.
#[inline(always)]
unsafe fn copy<const W: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: guaranteed by the caller.
    unsafe { to.cast::<[u8; W]>().write(from.cast::<[u8; W]>().read()) };
}

/// Writes the values of a group whose bits are set, closed up, and their bases in the same way.
///
/// # Safety
/// The group can be read, and the same number of bytes written.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn close_group<const W: usize, const N: usize>(
    from: [*const u8; N],
    bits: u64,
    mut to: [*mut u8; N],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if bits.count_ones() <= FEW {
            let mut left = bits;
            while left != 0 {
                let place = left.trailing_zeros() as usize * W;
                for (from, to) in from.iter().zip(&mut to) {
                    copy::<W>(from.add(place), *to);
                    *to = to.add(W);
                }
                left &= left - 1;
            }
            return;
        }
        for (i, on) in bits.to_le_bytes().into_iter().enumerate() {
            for (from, to) in from.iter().zip(&mut to) {
                close_eight::<W>(from.add(8 * W * i), on, *to);
                *to = to.add(W * on.count_ones() as usize);
            }
        }
    }
}

/// [`super::find`].
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
        // plus eight values.
        unsafe {
            let (x, b) = (values.as_ptr().add(i * GROUP * W), base.as_ptr().add(i * GROUP * W));
            for line in 0..W {
                prefetch(x.wrapping_add(AHEAD + 64 * line));
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            *bits = differing::<W>(x, b);
            let to = [own.as_mut_ptr().add(end * W), own_base.as_mut_ptr().add(end * W)];
            close_group::<W, 2>([x, b], *bits, to);
        }
        end += bits.count_ones() as usize;
    }
    end
}

/// [`super::take`].
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn take(width_log2: u8, bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { for_width!(width_log2, take_of(bits, src, out)) }
}

/// # Safety
/// As [`take`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn take_of<const W: usize>(bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    let n = bits.len() * GROUP;
    assert!(src.len() == n * W && out.len() >= (n + GROUP) * W);
    let mut end = 0;
    for (i, &bits) in bits.iter().enumerate() {
        // SAFETY: as for `find_of`.
        unsafe {
            let from = src.as_ptr().add(i * GROUP * W);
            close_group::<W, 1>([from], bits, [out.as_mut_ptr().add(end * W)]);
        }
        end += bits.count_ones() as usize;
    }
    end
}

/// [`super::put`]; returns how many values were put.
///
/// # Safety
/// The CPU has AVX2 and BMI2; there is a value for each bit, and eight more after the last.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn put_of<const W: usize>(
    bits: &[u64],
    values: &[u8],
    base: &[u8],
    dst: &mut [u8],
    streaming: bool,
) -> usize {
    assert!(base.len() == bits.len() * GROUP * W && dst.len() == base.len());
    let streaming = streaming && dst.as_ptr().cast::<__m256i>().is_aligned();
    let mut end = 0;
    for (i, &bits) in bits.iter().enumerate() {
        // SAFETY: the group is inside both slices, and a value has been counted for each bit.
        unsafe {
            let from = base.as_ptr().add(i * GROUP * W);
            let to = dst.as_mut_ptr().add(i * GROUP * W);
            let own = values.as_ptr().add(end * W);
            if streaming {
                put_group::<W, true>(from, own, bits, to);
            } else {
                put_group::<W, false>(from, own, bits, to);
            }
        }
        end += bits.count_ones() as usize;
    }
    end
}

/// Writes a group of bases, with values at the places whose bits are set.
///
/// # Safety
/// The group can be read and written; there is a value for each bit, and eight more after the last.
/// `to` is aligned to 32 bytes if `STREAM`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn put_group<const W: usize, const STREAM: bool>(
    base: *const u8,
    mut own: *const u8,
    bits: u64,
    to: *mut u8,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if bits == 0 || W == 8 {
            for i in 0..2 * W {
                let bytes = _mm256_loadu_si256(base.add(32 * i).cast());
                if STREAM && bits == 0 {
                    _mm256_stream_si256(to.add(32 * i).cast(), bytes);
                } else {
                    _mm256_storeu_si256(to.add(32 * i).cast(), bytes);
                }
            }
            let mut left = bits;
            while left != 0 {
                copy::<W>(own, to.add(left.trailing_zeros() as usize * W));
                own = own.add(W);
                left &= left - 1;
            }
            return;
        }
        for (i, on) in bits.to_le_bytes().into_iter().enumerate() {
            let (base, to) = (base.add(8 * W * i), to.add(8 * W * i));
            match W {
                1 => {
                    let mask = byte_mask(on);
                    let own = _pdep_u64(own.cast::<u64>().read_unaligned(), mask);
                    let all = base.cast::<u64>().read_unaligned() & !mask | own;
                    to.cast::<u64>().write_unaligned(all);
                }
                2 => {
                    let order = order_of_twos(spreading(on));
                    let own = _mm_shuffle_epi8(_mm_loadu_si128(own.cast()), order);
                    let all = _mm_blendv_epi8(own, _mm_loadu_si128(base.cast()), order);
                    if STREAM {
                        _mm_stream_si128(to.cast(), all);
                    } else {
                        _mm_storeu_si128(to.cast(), all);
                    }
                }
                _ => {
                    let order = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128(spreading(on) as i64));
                    let own = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(own.cast()), order);
                    let from = _mm256_loadu_si256(base.cast());
                    let all = _mm256_blendv_epi8(own, from, _mm256_srai_epi32::<31>(order));
                    if STREAM {
                        _mm256_stream_si256(to.cast(), all);
                    } else {
                        _mm256_storeu_si256(to.cast(), all);
                    }
                }
            }
            own = own.add(W * on.count_ones() as usize);
        }
    }
}
