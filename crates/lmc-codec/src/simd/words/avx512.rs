//! Top byte and records with AVX-512 VBMI: any byte order in one `vpermb`.

use super::{VectorWriter, WideCut};
use crate::simd::prefetch;
use lmc_format::WordMap;
use std::arch::x86_64::*;

/// How far ahead of a merge to prefetch its records: the hardware's own prefetch starts again on
/// every page. 1,024 bytes gave 8.5 GiB/s where 0 gave 7.8 and 4,096 gave 7.9 (bf16, Ice Lake
/// server at 2.8 GHz).
const RECORDS_AHEAD: usize = 1024;

/// A vector of bytes computed from their places.
fn places(f: impl Fn(usize) -> usize) -> [u8; 64] {
    std::array::from_fn(|i| f(i) as u8)
}

/// Splits rotated 16-bit words; returns how many words were done.
///
/// # Safety
/// The CPU has AVX-512 BW, VBMI and VBMI2. `top` has as many bytes as `src` has words,
/// and `low` room for as many.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
pub(super) unsafe fn split2(src: &[u8], top: &mut [u8], low: *mut u8) -> usize {
    let n = top.len() / 64 * 64;
    let (even, odd) = (places(|i| 2 * i), places(|i| 2 * i + 1));
    // SAFETY: the arrays have 64 bytes; words `at` to `at + 63` are inside `src`, `top` and `low`.
    unsafe {
        let even = _mm512_loadu_si512(even.as_ptr().cast());
        let odd = _mm512_loadu_si512(odd.as_ptr().cast());
        for at in (0..n).step_by(64) {
            let a = _mm512_loadu_si512(src.as_ptr().add(2 * at).cast());
            let b = _mm512_loadu_si512(src.as_ptr().add(2 * at + 64).cast());
            let a = _mm512_shldi_epi16::<1>(a, a);
            let b = _mm512_shldi_epi16::<1>(b, b);
            let high = _mm512_permutex2var_epi8(a, odd, b);
            _mm512_storeu_si512(top.as_mut_ptr().add(at).cast(), high);
            let rest = _mm512_permutex2var_epi8(a, even, b);
            _mm512_storeu_si512(low.add(at).cast(), rest);
        }
    }
    n
}

/// Splits rotated 32-bit words into top bytes and records of three; returns how many words were
/// done.
///
/// # Safety
/// The CPU has AVX-512 BW and VBMI. `top` has as many bytes as `src` has words,
/// and `records` room for three times as many.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn split4(src: &[u8], top: &mut [u8], records: *mut u8) -> usize {
    let n = top.len() / 16 * 16;
    let order = places(|i| if i < 48 { i / 3 * 4 + i % 3 } else { (i - 48) * 4 + 3 });
    // SAFETY: the array has 64 bytes; words `at` to `at + 15` are inside `src` and `top`, and the
    // 48 bytes of their records, where the masked store ends, are inside `records`.
    unsafe {
        let order = _mm512_loadu_si512(order.as_ptr().cast());
        for at in (0..n).step_by(16) {
            let v = _mm512_loadu_si512(src.as_ptr().add(4 * at).cast());
            let sorted = _mm512_permutexvar_epi8(order, _mm512_rol_epi32::<1>(v));
            let to = records.add(3 * at);
            _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(sorted));
            _mm_storeu_si128(to.add(32).cast(), _mm512_extracti32x4_epi32::<2>(sorted));
            let high = _mm512_extracti32x4_epi32::<3>(sorted);
            _mm_storeu_si128(top.as_mut_ptr().add(at).cast(), high);
        }
    }
    n
}

/// Undoes [`split2`]; the caller fences streaming stores.
///
/// # Safety
/// As [`split2`], with `dst` for `src`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2")]
pub(super) unsafe fn merge2(top: &[u8], low: &[u8], dst: &mut [u8], streaming: bool) -> usize {
    let n = top.len() / 64 * 64;
    let first = places(|i| i / 2 + if i % 2 == 1 { 64 } else { 0 });
    let second = places(|i| 32 + i / 2 + if i % 2 == 1 { 64 } else { 0 });
    let streaming = streaming && dst.as_ptr().addr().is_multiple_of(64);
    // SAFETY: the arrays have 64 bytes; words `at` to `at + 63` are inside `top`, `low` and `dst`,
    // whose alignment allows the streaming stores when they are used.
    unsafe {
        let first = _mm512_loadu_si512(first.as_ptr().cast());
        let second = _mm512_loadu_si512(second.as_ptr().cast());
        for at in (0..n).step_by(64) {
            prefetch(low.as_ptr().wrapping_add(at + RECORDS_AHEAD));
            let high = _mm512_loadu_si512(top.as_ptr().add(at).cast());
            let rest = _mm512_loadu_si512(low.as_ptr().add(at).cast());
            let a = _mm512_permutex2var_epi8(rest, first, high);
            let b = _mm512_permutex2var_epi8(rest, second, high);
            let a = _mm512_shrdi_epi16::<1>(a, a);
            let b = _mm512_shrdi_epi16::<1>(b, b);
            let to = dst.as_mut_ptr().add(2 * at);
            if streaming {
                _mm512_stream_si512(to.cast(), a);
                _mm512_stream_si512(to.add(64).cast(), b);
            } else {
                _mm512_storeu_si512(to.cast(), a);
                _mm512_storeu_si512(to.add(64).cast(), b);
            }
        }
    }
    n
}

/// Undoes [`split4`]; the caller fences streaming stores.
///
/// # Safety
/// As [`split4`], with `dst` for `src`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn merge4(top: &[u8], records: &[u8], dst: &mut [u8], streaming: bool) -> usize {
    let n = top.len() / 16 * 16;
    let order = places(|i| if i % 4 == 3 { 48 + i / 4 } else { i / 4 * 3 + i % 4 });
    let streaming = streaming && dst.as_ptr().addr().is_multiple_of(64);
    // SAFETY: the array has 64 bytes; words `at` to `at + 15` are inside `top` and `dst`, and their
    // 48 bytes inside `records`; `dst`'s alignment allows the streaming stores when they are used.
    unsafe {
        let order = _mm512_loadu_si512(order.as_ptr().cast());
        for at in (0..n).step_by(16) {
            let from = records.as_ptr().add(3 * at);
            prefetch(from.wrapping_add(RECORDS_AHEAD));
            let rest = _mm512_castsi256_si512(_mm256_loadu_si256(from.cast()));
            let rest = _mm512_inserti32x4::<2>(rest, _mm_loadu_si128(from.add(32).cast()));
            let high = _mm_loadu_si128(top.as_ptr().add(at).cast());
            let sorted = _mm512_inserti32x4::<3>(rest, high);
            let v = _mm512_ror_epi32::<1>(_mm512_permutexvar_epi8(order, sorted));
            let to = dst.as_mut_ptr().add(4 * at);
            if streaming {
                _mm512_stream_si512(to.cast(), v);
            } else {
                _mm512_storeu_si512(to.cast(), v);
            }
        }
    }
    n
}

/// Cuts words of a wide cut; returns how many were done.
///
/// # Safety
/// The CPU has AVX-512 F and BW. All slices hold the same number of words, and `pairs` has room for
/// as many pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn split_wide4(
    cut: WideCut,
    src: &[u8],
    symbols: &mut [u16],
    partial: &mut [u8],
    pairs: *mut u8,
    streaming: bool,
) -> usize {
    let n = symbols.len() / 32 * 32;
    let shift = _mm_cvtsi32_si128(cut.partial_bits() as i32);
    let mask = _mm512_set1_epi16((1 << cut.partial_bits()) - 1);
    let rotation = _mm512_set1_epi32(i32::from(cut.words.map == WordMap::Rotate));
    let even: [u16; 32] = std::array::from_fn(|i| 2 * i as u16);
    // SAFETY: the array has 64 bytes; words `at` to `at + 31` are inside all slices.
    unsafe {
        let even = _mm512_loadu_si512(even.as_ptr().cast());
        let odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
        let mut writer = VectorWriter::new(pairs, streaming);
        for at in (0..n).step_by(32) {
            let from = src.as_ptr().add(4 * at);
            prefetch(from.wrapping_add(2 * RECORDS_AHEAD));
            prefetch(from.wrapping_add(2 * RECORDS_AHEAD + 64));
            let a = _mm512_rolv_epi32(_mm512_loadu_si512(from.cast()), rotation);
            let b = _mm512_rolv_epi32(_mm512_loadu_si512(from.add(64).cast()), rotation);
            let top = _mm512_permutex2var_epi16(a, odd, b);
            let symbol = _mm512_srl_epi16(top, shift);
            _mm512_storeu_si512(symbols.as_mut_ptr().add(at).cast(), symbol);
            let middle = _mm512_cvtepi16_epi8(_mm512_and_si512(top, mask));
            _mm256_storeu_si256(partial.as_mut_ptr().add(at).cast(), middle);
            writer.put(_mm512_permutex2var_epi16(a, even, b));
        }
        writer.finish();
    }
    n
}

/// Merges words of a wide cut with streaming stores, which the caller fences. Returns how many
/// words were done; none unless `dst` is aligned to 64 bytes.
///
/// # Safety
/// The CPU has AVX-512 F and BW. All slices hold the same number of words.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn merge_wide4(
    cut: WideCut,
    symbols: &[u16],
    partial: &[u8],
    pairs: &[u8],
    dst: &mut [u8],
) -> usize {
    if !dst.as_ptr().addr().is_multiple_of(64) {
        return 0;
    }
    let n = symbols.len() / 16 * 16;
    let partial_bits = cut.partial_bits();
    let symbol_shift = _mm_cvtsi32_si128(16 + partial_bits as i32);
    let partial_mask = _mm512_set1_epi32((1 << partial_bits) - 1);
    let rotation = _mm512_set1_epi32(i32::from(cut.words.map == WordMap::Rotate));
    for at in (0..n).step_by(16) {
        // SAFETY: words `at` to `at + 15` are inside all slices, and `dst` is aligned.
        unsafe {
            let pair = pairs.as_ptr().add(2 * at);
            prefetch(pair.wrapping_add(RECORDS_AHEAD));
            let symbol = _mm256_loadu_si256(symbols.as_ptr().add(at).cast());
            let symbol = _mm512_sll_epi32(_mm512_cvtepu16_epi32(symbol), symbol_shift);
            let middle = _mm512_cvtepu8_epi32(_mm_loadu_si128(partial.as_ptr().add(at).cast()));
            let middle = _mm512_slli_epi32::<16>(_mm512_and_si512(middle, partial_mask));
            let low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(pair.cast()));
            let word = _mm512_or_si512(_mm512_or_si512(symbol, middle), low);
            let word = _mm512_rorv_epi32(word, rotation);
            _mm512_stream_si512(dst.as_mut_ptr().add(4 * at).cast(), word);
        }
    }
    n
}
