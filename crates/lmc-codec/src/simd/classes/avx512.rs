//! The kernels of this module for AVX-512, which has compress, expand and 64-byte tables.

use super::GROUP;
use std::arch::x86_64::*;

/// For each byte of a result, its place in two vectors of pairs: the first bytes of the pairs, or
/// the second ones if `odd` is 1.
const fn halves(odd: u8) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = 2 * i as u8 + odd;
        i += 1;
    }
    order
}
pub(super) static FIRST_BYTES: [u8; 64] = halves(0);
pub(super) static SECOND_BYTES: [u8; 64] = halves(1);

/// The same for pairs made from one byte of each vector, starting at byte `from`.
const fn pairs(from: u8) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = from + i as u8 / 2 + 64 * (i as u8 % 2);
        i += 1;
    }
    order
}
pub(super) static LOWER_PAIRS: [u8; 64] = pairs(0);
pub(super) static UPPER_PAIRS: [u8; 64] = pairs(32);

/// Halves and pairs of 16-bit words.
const fn word_halves(odd: u16) -> [u16; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = 2 * i as u16 + odd;
        i += 1;
    }
    order
}
pub(super) static FIRST_WORDS: [u16; 32] = word_halves(0);
pub(super) static SECOND_WORDS: [u16; 32] = word_halves(1);

const fn word_pairs(from: u16) -> [u16; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = from + i as u16 / 2 + 32 * (i as u16 % 2);
        i += 1;
    }
    order
}
pub(super) static LOWER_WORD_PAIRS: [u16; 32] = word_pairs(0);
pub(super) static UPPER_WORD_PAIRS: [u16; 32] = word_pairs(16);

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load<T, const N: usize>(from: &[T; N]) -> __m512i {
    const { assert!(size_of::<[T; N]>() == 64) };
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load_at(from: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; 64] = from[at..].first_chunk().expect("lengths have been checked");
    load(bytes)
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store_at(to: &mut [u8], at: usize, vector: __m512i) {
    let bytes: &mut [u8; 64] = to[at..].first_chunk_mut().expect("lengths have been checked");
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
}

/// [`super::context_masks`] for whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn context_masks(groups: &[[u8; GROUP]], bounds: &[u8], masks: &mut Vec<u64>) {
    let start = masks.len();
    masks.resize(start + groups.len() * (bounds.len() + 1), 0);
    let own = masks[start..].chunks_exact_mut(bounds.len() + 1);
    for (group, masks) in groups.iter().zip(own) {
        let exponents = load(group);
        let mut reached = u64::MAX;
        for (&bound, mask) in bounds.iter().zip(masks.iter_mut()) {
            let below = _mm512_cmplt_epu8_mask(exponents, _mm512_set1_epi8(bound as i8));
            *mask = reached & !below;
            reached = below;
        }
        masks[bounds.len()] = reached;
    }
}

/// [`super::partition`] for whole groups.
///
/// # Safety
/// The CPU has these instructions. There are masks for all groups, and each stream has room for all
/// groups and one more.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn partition(
    masks: &[u64],
    groups: &[[u8; GROUP]],
    streams: &mut [Vec<u8>],
    lens: &mut [usize],
) {
    let contexts = lens.len();
    for (group, masks) in groups.iter().zip(masks.chunks_exact(contexts)) {
        let symbols = load(group);
        for (k, &mask) in masks.iter().enumerate() {
            let packed = _mm512_maskz_compress_epi8(mask, symbols);
            // SAFETY: guaranteed by the caller: there is room for the symbols of every group, and
            // 64 bytes more.
            unsafe {
                let to = streams.get_unchecked_mut(k).as_mut_ptr().add(lens[k]);
                _mm512_storeu_si512(to.cast(), packed);
            }
            lens[k] += mask.count_ones() as usize;
        }
    }
}

/// [`super::spread`] for whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn spread(
    masks: &[u64],
    bytes: &[u8],
    places: &mut [usize],
    groups: &mut [[u8; GROUP]],
) {
    let contexts = places.len();
    for (group, masks) in groups.iter_mut().zip(masks.chunks_exact(contexts)) {
        let mut symbols = _mm512_setzero_si512();
        for (place, &mask) in places.iter_mut().zip(masks) {
            let own = load_at(bytes, *place);
            symbols = _mm512_mask_expand_epi8(symbols, mask, own);
            *place += mask.count_ones() as usize;
        }
        store_at(group, 0, symbols);
    }
}
