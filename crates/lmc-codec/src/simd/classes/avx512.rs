//! The kernels of this module for AVX-512, which has compress, expand and tables of 64 bytes.

use super::bits::{BitString, word_at};
use super::{GROUP, Layout, PlaneWidths, Symbols};
use std::arch::x86_64::*;

/// For each byte of a result, where it comes from in two vectors of pairs: the first bytes of the
/// pairs, or with `ODD` 1 the second ones.
const fn halves(odd: u8) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = 2 * i as u8 + odd;
        i += 1;
    }
    order
}
static FIRST_BYTES: [u8; 64] = halves(0);
static SECOND_BYTES: [u8; 64] = halves(1);

/// The same for pairs made of a byte of each vector, from byte `from` on.
const fn pairs(from: u8) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = from + i as u8 / 2 + 64 * (i as u8 % 2);
        i += 1;
    }
    order
}
static LOWER_PAIRS: [u8; 64] = pairs(0);
static UPPER_PAIRS: [u8; 64] = pairs(32);

/// Halves and pairs of words of 16 bits.
const fn word_halves(odd: u16) -> [u16; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = 2 * i as u16 + odd;
        i += 1;
    }
    order
}
static FIRST_WORDS: [u16; 32] = word_halves(0);
static SECOND_WORDS: [u16; 32] = word_halves(1);

const fn word_pairs(from: u16) -> [u16; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = from + i as u16 / 2 + 32 * (i as u16 % 2);
        i += 1;
    }
    order
}
static LOWER_WORD_PAIRS: [u16; 32] = word_pairs(0);
static UPPER_WORD_PAIRS: [u16; 32] = word_pairs(16);

#[inline]
#[target_feature(enable = "avx512f")]
fn load<T, const N: usize>(from: &[T; N]) -> __m512i {
    assert!(size_of::<[T; N]>() == 64);
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_at(from: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; 64] = from[at..].first_chunk().expect("lengths have been checked");
    load(bytes)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_at(to: &mut [u8], at: usize, vector: __m512i) {
    let bytes: &mut [u8; 64] = to[at..].first_chunk_mut().expect("lengths have been checked");
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) };
}

/// Symbols of a plain layout that keep the sign of their base: classes 0 to 16.
const PLAIN_SYMBOLS: u8 = 17;

/// [`super::measure`] of whole groups of a plain layout of 16 bits; returns the values done.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
pub(super) unsafe fn measure(
    layout: Layout,
    values: &[u8],
    base: &[u8],
    symbols: &mut [u8],
    payload: &mut [u8],
    records: &mut [u8],
) -> usize {
    let n = symbols.len();
    let (low, high) = payload.split_at_mut(n);
    let (first_bytes, second_bytes) = (load(&FIRST_BYTES), load(&SECOND_BYTES));
    let one = _mm512_set1_epi16(1);
    let flipped = _mm512_set1_epi16(PLAIN_SYMBOLS as i16);
    for group in 0..n / GROUP {
        let at = group * GROUP;
        let mut classes = [_mm512_setzero_si512(); 2];
        let mut bits = classes;
        for half in 0..2 {
            let (apart, flips) = if layout.width_log2 == 1 {
                let from = 2 * at + 64 * half;
                apart16(load_at(values, from), load_at(base, from))
            } else {
                let from = 4 * at + 128 * half;
                let (a, b) = (load_at(values, from), load_at(base, from));
                let (c, d) = (load_at(values, from + 64), load_at(base, from + 64));
                let (low, coded, flips) = apart32([a, c], [b, d]);
                store_at(records, 2 * at + 64 * half, low);
                (coded, flips)
            };
            let size = _mm512_abs_epi16(apart);
            let mut below = _mm512_or_si512(size, _mm512_srli_epi16::<1>(size));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<2>(below));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<4>(below));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<8>(below));
            let class = _mm512_popcnt_epi16(below);
            classes[half] = _mm512_mask_add_epi16(class, flips, class, flipped);
            let rest = _mm512_and_si512(size, _mm512_srli_epi16::<1>(below));
            let rest = _mm512_add_epi16(rest, rest);
            let negative = _mm512_movepi16_mask(apart);
            bits[half] = _mm512_mask_add_epi16(rest, negative, rest, one);
        }
        let pack = |order, [a, b]: [__m512i; 2]| _mm512_permutex2var_epi8(a, order, b);
        store_at(symbols, at, pack(first_bytes, classes));
        store_at(low, at, pack(first_bytes, bits));
        store_at(high, at, pack(second_bytes, bits));
    }
    n / GROUP * GROUP
}

/// Differences of magnitudes of 16 bits, and which signs differ.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn apart16(values: __m512i, base: __m512i) -> (__m512i, u32) {
    let magnitudes = _mm512_set1_epi16(0x7fff);
    let flips = _mm512_movepi16_mask(_mm512_xor_si512(values, base));
    let of = |words| _mm512_and_si512(words, magnitudes);
    (_mm512_sub_epi16(of(values), of(base)), flips)
}

/// Differences of magnitudes of 32 bits, as low and coded words of 16 bits, and which signs differ.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn apart32(values: [__m512i; 2], base: [__m512i; 2]) -> (__m512i, __m512i, u32) {
    let magnitudes = _mm512_set1_epi32(0x7fff_ffff);
    let half = _mm512_set1_epi32(0x8000);
    let (first, second) = (load(&FIRST_WORDS), load(&SECOND_WORDS));
    let apart = |i: usize| {
        let of = |words| _mm512_and_si512(words, magnitudes);
        _mm512_add_epi32(_mm512_sub_epi32(of(values[i]), of(base[i])), half)
    };
    let xor = |i: usize| _mm512_xor_si512(values[i], base[i]);
    let flips = _mm512_movepi16_mask(_mm512_permutex2var_epi16(xor(0), second, xor(1)));
    let (a, b) = (apart(0), apart(1));
    let low = _mm512_permutex2var_epi16(a, first, b);
    (low, _mm512_permutex2var_epi16(a, second, b), flips)
}

/// [`super::restore`] of whole groups of a plain layout of 16 bits; returns the values done.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn restore(
    table: &Symbols,
    base: &[u8],
    symbols: &[u8],
    payload: &[u8],
    records: &[u8],
    dst: &mut [u8],
) -> usize {
    let n = symbols.len();
    let (low, high) = payload.split_at(n);
    // Symbols are class and flip, 34 of them.
    let head = |shift: u32| {
        let bytes: [u8; 64] = std::array::from_fn(|i| (table.heads[i].magnitude >> shift) as u8);
        load(&bytes)
    };
    let (heads_low, heads_high) = (head(0), head(8));
    let orders = [load(&LOWER_PAIRS), load(&UPPER_PAIRS)];
    let word_orders = [load(&LOWER_WORD_PAIRS), load(&UPPER_WORD_PAIRS)];
    let one = _mm512_set1_epi16(1);
    for group in 0..n / GROUP {
        let at = group * GROUP;
        let symbol = load_at(symbols, at);
        let head_low = _mm512_permutexvar_epi8(symbol, heads_low);
        let head_high = _mm512_permutexvar_epi8(symbol, heads_high);
        let (low, high) = (load_at(low, at), load_at(high, at));
        let flips = _mm512_cmpge_epu8_mask(symbol, _mm512_set1_epi8(PLAIN_SYMBOLS as i8));
        for half in 0..2 {
            let bits = _mm512_permutex2var_epi8(low, orders[half], high);
            let head = _mm512_permutex2var_epi8(head_low, orders[half], head_high);
            let size = _mm512_or_si512(_mm512_srli_epi16::<1>(bits), head);
            let negative = _mm512_test_epi16_mask(bits, one);
            let coded = _mm512_mask_sub_epi16(size, negative, _mm512_setzero_si512(), size);
            let flips = (flips >> (32 * half)) as u32;
            if table.layout.width_log2 == 1 {
                let from = 2 * at + 64 * half;
                let top = _mm512_set1_epi16(i16::MIN);
                let word = load_at(base, from);
                // The sum's top bit is made that of the base, or the other one.
                let sum = _mm512_add_epi16(_mm512_andnot_si512(top, word), coded);
                let signs = _mm512_mask_add_epi16(word, flips, word, top);
                store_at(dst, from, _mm512_ternarylogic_epi32::<0xca>(top, signs, sum));
                continue;
            }
            let raw = load_at(records, 2 * at + 64 * half);
            for (part, order) in word_orders.iter().enumerate() {
                let from = 4 * at + 128 * half + 64 * part;
                let top = _mm512_set1_epi32(i32::MIN);
                let word = load_at(base, from);
                let apart = _mm512_permutex2var_epi16(raw, *order, coded);
                let apart = _mm512_sub_epi32(apart, _mm512_set1_epi32(0x8000));
                let sum = _mm512_add_epi32(_mm512_andnot_si512(top, word), apart);
                let flips = (flips >> (16 * part)) as u16;
                let signs = _mm512_mask_xor_epi32(word, flips, word, top);
                store_at(dst, from, _mm512_ternarylogic_epi32::<0xca>(top, signs, sum));
            }
        }
    }
    n / GROUP * GROUP
}

/// [`super::context_masks`] of whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn context_masks(groups: &[[u8; GROUP]], bounds: &[u8], masks: &mut Vec<u64>) {
    masks.reserve(groups.len() * (bounds.len() + 1));
    for group in groups {
        let exponents = load(group);
        let mut reached = u64::MAX;
        for &bound in bounds {
            let below = _mm512_cmplt_epu8_mask(exponents, _mm512_set1_epi8(bound as i8));
            masks.push(reached & !below);
            reached = below;
        }
        masks.push(reached);
    }
}

/// [`super::partition`] of whole groups.
///
/// # Safety
/// The CPU has these instructions. There are masks for all groups, and each stream has room for
/// all of them and one more.
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
            // SAFETY: the caller's: there is room for the symbols of every group, and 64 bytes
            // more.
            unsafe {
                let to = streams.get_unchecked_mut(k).as_mut_ptr().add(lens[k]);
                _mm512_storeu_si512(to.cast(), packed);
            }
            lens[k] += mask.count_ones() as usize;
        }
    }
}

/// [`super::spread`] to whole groups.
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

/// Masks of the payload's bits by symbol.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn bit_masks(widths: &PlaneWidths) -> __m512i {
    let masks: [u8; 64] = std::array::from_fn(|i| ((1_u16 << widths.by_symbol[i]) - 1) as u8);
    load(&masks)
}

/// [`super::pack`] of whole groups whose symbols are below 64.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
pub(super) unsafe fn pack(
    widths: &PlaneWidths,
    symbols: &[[u8; GROUP]],
    plane: &[[u8; GROUP]],
    out: &mut BitString,
) {
    let table = bit_masks(widths);
    let mut masks = [0; GROUP];
    for (symbols, bytes) in symbols.iter().zip(plane) {
        let own = _mm512_permutexvar_epi8(load(symbols), table);
        if _mm512_test_epi8_mask(own, own) == 0 {
            continue;
        }
        store_at(&mut masks, 0, own);
        for (mask, eight) in masks.as_chunks::<8>().0.iter().zip(bytes.as_chunks::<8>().0) {
            let mask = u64::from_le_bytes(*mask);
            out.push(_pext_u64(u64::from_le_bytes(*eight), mask), mask.count_ones());
        }
    }
}

/// [`super::unpack`] to whole groups whose symbols are below 64.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,bmi2,popcnt")]
pub(super) unsafe fn unpack(
    widths: &PlaneWidths,
    symbols: &[[u8; GROUP]],
    packed: &[u8],
    mut at: usize,
    plane: &mut [[u8; GROUP]],
) -> usize {
    let table = bit_masks(widths);
    let mut masks = [0; GROUP];
    for (symbols, bytes) in symbols.iter().zip(plane) {
        let own = _mm512_permutexvar_epi8(load(symbols), table);
        if _mm512_test_epi8_mask(own, own) == 0 {
            bytes.fill(0);
            continue;
        }
        store_at(&mut masks, 0, own);
        let (eights, _) = bytes.as_chunks_mut::<8>();
        for (mask, eight) in masks.as_chunks::<8>().0.iter().zip(eights) {
            let mask = u64::from_le_bytes(*mask);
            *eight = _pdep_u64(word_at(packed, at), mask).to_le_bytes();
            at += mask.count_ones() as usize;
        }
    }
    at
}

/// [`super::payload_bits`] of whole groups whose symbols are below 64.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn payload_bits(widths: &PlaneWidths, groups: &[[u8; GROUP]]) -> usize {
    let own: [u8; GROUP] = std::array::from_fn(|i| widths.by_symbol[i]);
    let table = load(&own);
    let mut sums = _mm512_setzero_si512();
    for group in groups {
        let widths = _mm512_permutexvar_epi8(load(group), table);
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(widths, _mm512_setzero_si512()));
    }
    _mm512_reduce_add_epi64(sums) as usize
}
