//! Top byte and records with AVX2: byte shuffles within 16 bytes.

use std::arch::x86_64::*;

/// Splits rotated 32-bit words into top bytes and records of three; returns how many words were
/// done.
///
/// # Safety
/// The CPU has AVX2. `top` has as many bytes as `src` has words,
/// and `records` room for three times as many.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn split4(src: &[u8], top: &mut [u8], records: *mut u8) -> usize {
    // Each store of 16 bytes carries 12 of four records; two more words leave room for the last
    // one's four bytes too many.
    let n = top.len().saturating_sub(2) / 4 * 4;
    let order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
    for at in (0..n).step_by(4) {
        // SAFETY: words `at` to `at + 3` lie in `src` and `top`; 16 bytes at record `at` end before
        // the end of record `at + 5`.
        unsafe {
            let v = _mm_loadu_si128(src.as_ptr().add(4 * at).cast());
            let v = _mm_or_si128(_mm_slli_epi32::<1>(v), _mm_srli_epi32::<31>(v));
            let sorted = _mm_shuffle_epi8(v, order);
            _mm_storeu_si128(records.add(3 * at).cast(), sorted);
            let high = _mm_extract_epi32::<3>(sorted);
            top.as_mut_ptr().add(at).cast::<i32>().write_unaligned(high);
        }
    }
    n
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
        // SAFETY: words `at` to `at + 31` lie in all three slices; the alignment allows the
        // streaming stores when they are used.
        unsafe {
            // The quarters are put in the order that lets the in-lane unpacking give whole vectors
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

/// Undoes [`split4`]; the caller fences streaming stores.
///
/// # Safety
/// As [`split4`], with `dst` for `src`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn merge4(top: &[u8], records: &[u8], dst: &mut [u8], streaming: bool) -> usize {
    let n = top.len().saturating_sub(2) / 4 * 4;
    let streaming = streaming && dst.as_ptr().addr().is_multiple_of(16);
    let order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    let apart = _mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3);
    for at in (0..n).step_by(4) {
        // SAFETY: words `at` to `at + 3` lie in `top` and `dst`; 16 bytes at record `at` end before
        // the end of record `at + 5`; the alignment allows the streaming stores when they
        // are used.
        unsafe {
            let rest = _mm_loadu_si128(records.as_ptr().add(3 * at).cast());
            let high = _mm_cvtsi32_si128(top.as_ptr().add(at).cast::<i32>().read_unaligned());
            let v = _mm_or_si128(_mm_shuffle_epi8(rest, order), _mm_shuffle_epi8(high, apart));
            let v = _mm_or_si128(_mm_srli_epi32::<1>(v), _mm_slli_epi32::<31>(v));
            let to = dst.as_mut_ptr().add(4 * at);
            if streaming {
                _mm_stream_si128(to.cast(), v);
            } else {
                _mm_storeu_si128(to.cast(), v);
            }
        }
    }
    n
}
