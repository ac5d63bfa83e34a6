//! Top byte and records with AVX2: byte shuffles within 16 bytes.

use crate::simd::prefetch;
use std::arch::x86_64::*;

/// How far ahead of a merge to prefetch its records.
const RECORDS_AHEAD: usize = 1024;

/// Splits rotated words of `WIDTH` bytes, 2 or 4; returns how many words were done.
///
/// # Safety
/// The CPU has AVX2. `top` has as many bytes as `src` has words, and `records` room for their
/// records.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn split<const WIDTH: usize>(
    src: &[u8],
    top: &mut [u8],
    records: *mut u8,
) -> usize {
    // Three more words leave room for the eight bytes that a group may write beyond its records.
    let n = top.len().saturating_sub(3) / 64 * 64;
    for at in (0..n).step_by(64) {
        // SAFETY: words `at` to `at + 66` are inside `src`, `top` and `records`.
        unsafe {
            let from = src.as_ptr().add(WIDTH * at);
            let [a, b] = split_group::<WIDTH>(from, records.add((WIDTH - 1) * at));
            _mm256_storeu_si256(top.as_mut_ptr().add(at).cast(), a);
            _mm256_storeu_si256(top.as_mut_ptr().add(at + 32).cast(), b);
        }
    }
    n
}

/// Writes the records of 64 rotated words of `WIDTH` bytes, 2 or 4; returns their top bytes.
///
/// # Safety
/// The CPU has AVX2. 64 words can be read at `src`; `records` has room for as many records and, for
/// words of 4 bytes, eight bytes more.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) unsafe fn split_group<const WIDTH: usize>(
    src: *const u8,
    records: *mut u8,
) -> [__m256i; 2] {
    // SAFETY: guaranteed by the caller.
    [0, 1].map(|half| unsafe {
        let src = src.add(32 * WIDTH * half);
        let records = records.add(32 * (WIDTH - 1) * half);
        if WIDTH == 2 { split2(src, records) } else { split4(src, records) }
    })
}

/// [`split_group`] for 32 words of 2 bytes.
///
/// # Safety
/// As [`split_group`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn split2(src: *const u8, records: *mut u8) -> __m256i {
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15,
    ));
    // SAFETY: guaranteed by the caller.
    unsafe {
        let [a, b] = [0, 32].map(|at| {
            let v = _mm256_loadu_si256(src.add(at).cast());
            let v = _mm256_or_si256(_mm256_add_epi16(v, v), _mm256_srli_epi16::<15>(v));
            _mm256_shuffle_epi8(v, order)
        });
        let rest = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpacklo_epi64(a, b));
        _mm256_storeu_si256(records.cast(), rest);
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpackhi_epi64(a, b))
    }
}

/// [`split_group`] for 32 words of 4 bytes.
///
/// # Safety
/// As [`split_group`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn split4(src: *const u8, records: *mut u8) -> __m256i {
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15,
    ));
    let records_first = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
    // SAFETY: guaranteed by the caller. Each store has 24 bytes of records, and eight more that the
    // next one overwrites.
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| unsafe {
        let v = _mm256_loadu_si256(src.add(32 * i).cast());
        let v = _mm256_or_si256(_mm256_add_epi32(v, v), _mm256_srli_epi32::<31>(v));
        let v = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(v, order), records_first);
        _mm256_storeu_si256(records.add(24 * i).cast(), v);
        v
    });
    let (ab, cd) = (_mm256_unpackhi_epi64(a, b), _mm256_unpackhi_epi64(c, d));
    _mm256_permute2x128_si256::<0x31>(ab, cd)
}

/// Undoes the split of rotated 16-bit words; returns how many words were done. The caller fences
/// streaming stores.
///
/// # Safety
/// The CPU has AVX2. `top` and `low` have as many bytes as `dst` has words.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn merge2(top: &[u8], low: &[u8], dst: &mut [u8], streaming: bool) -> usize {
    let n = top.len() / 32 * 32;
    let streaming = streaming && dst.as_ptr().addr().is_multiple_of(32);
    for at in (0..n).step_by(32) {
        // SAFETY: words `at` to `at + 31` are inside all three slices; the alignment allows the
        // streaming stores when they are used.
        unsafe {
            prefetch(low.as_ptr().wrapping_add(at + RECORDS_AHEAD));
            // The quarters are put in an order for which the in-lane unpacking gives whole vectors
            // of consecutive words.
            let high = _mm256_loadu_si256(top.as_ptr().add(at).cast());
            let high = _mm256_permute4x64_epi64::<0b11_01_10_00>(high);
            let rest = _mm256_loadu_si256(low.as_ptr().add(at).cast());
            let rest = _mm256_permute4x64_epi64::<0b11_01_10_00>(rest);
            let a = _mm256_unpacklo_epi8(rest, high);
            let b = _mm256_unpackhi_epi8(rest, high);
            let a = _mm256_or_si256(_mm256_srli_epi16::<1>(a), _mm256_slli_epi16::<15>(a));
            let b = _mm256_or_si256(_mm256_srli_epi16::<1>(b), _mm256_slli_epi16::<15>(b));
            let to = dst.as_mut_ptr().add(2 * at);
            if streaming {
                _mm256_stream_si256(to.cast(), a);
                _mm256_stream_si256(to.add(32).cast(), b);
            } else {
                _mm256_storeu_si256(to.cast(), a);
                _mm256_storeu_si256(to.add(32).cast(), b);
            }
        }
    }
    n
}

/// Undoes the split of rotated 32-bit words; returns how many words were done. The caller fences
/// streaming stores.
///
/// # Safety
/// The CPU has AVX2. `top` has as many bytes as `dst` has words, and `records` three times as many.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn merge4(top: &[u8], records: &[u8], dst: &mut [u8], streaming: bool) -> usize {
    // Each load of 32 bytes has eight records and eight bytes more; three more words provide these.
    let n = top.len().saturating_sub(3) / 8 * 8;
    let streaming = streaming && dst.as_ptr().addr().is_multiple_of(32);
    let halves = _mm256_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0);
    let order = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1,
    ));
    let apart = _mm256_setr_epi8(
        -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, //
        -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7,
    );
    for at in (0..n).step_by(8) {
        // SAFETY: words `at` to `at + 7` are inside `top` and `dst`; 32 bytes at record `at` end
        // before the end of record `at + 10`; the alignment allows the streaming stores when they
        // are used.
        unsafe {
            let from = records.as_ptr().add(3 * at);
            prefetch(from.wrapping_add(RECORDS_AHEAD));
            let rest = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(from.cast()), halves);
            let high = top.as_ptr().add(at).cast::<i64>().read_unaligned();
            let v = _mm256_or_si256(
                _mm256_shuffle_epi8(rest, order),
                _mm256_shuffle_epi8(_mm256_set1_epi64x(high), apart),
            );
            let v = _mm256_or_si256(_mm256_srli_epi32::<1>(v), _mm256_slli_epi32::<31>(v));
            let to = dst.as_mut_ptr().add(4 * at);
            if streaming {
                _mm256_stream_si256(to.cast(), v);
            } else {
                _mm256_storeu_si256(to.cast(), v);
            }
        }
    }
    n
}
