//! The whole way between values and sorted streams in one pass, for differences of 16 bits, with
//! AVX-512. Only the streams are written to memory and read again.
//!
//! A symbol is a class and a flip; a joint symbol also holds the sign and the top bit.

use super::avx512::*;
use super::bits::{Writer, word_at};
use super::{ClassLayout, ContextRule, GROUP, PlaneWidths, Streams, Symbols, Unread};
use crate::simd::chain::Hints;
use std::arch::x86_64::*;

/// Classes of 16 bits: 0 to 16.
const CLASSES: u8 = 17;

/// If at most this many of 64 payloads have bits, they are closed up first.
const FEW: u32 = 24;

/// Groups that are worked on together, step by step, so that a wait in one step does not hold up
/// the other.
const TOGETHER: usize = 16;

/// Symbols that keep the sign of their base.
const fn keep_sign(is_joint: bool) -> u8 {
    if is_joint { 4 * CLASSES } else { CLASSES }
}

/// Whether this pass can handle such values.
pub(super) fn fits(layout: ClassLayout, rule: ContextRule) -> bool {
    layout.is_16_bits() && rule.bits <= 8 && rule.first == 0
}

/// How far ahead to prefetch: the hardware does not look beyond a page.
const AHEAD: usize = 4096;

/// Prefetches the memory [`AHEAD`] bytes after that of a group.
#[inline]
pub(super) fn prefetch_ahead(group: &[u8]) {
    for line in group.chunks(64) {
        crate::simd::prefetch(line.as_ptr().wrapping_add(AHEAD));
    }
}

/// Prefetches the input of the next segment while this one is written, a part with each group.
#[derive(Clone, Copy)]
pub(super) struct NextSegment<'a> {
    /// Bytes of the base of a segment.
    len: usize,
    coded: &'a [u8],
    /// Coded bytes for each group.
    step: usize,
}

impl<'a> NextSegment<'a> {
    /// For the segment after one with this base and this many groups.
    pub(super) fn new(base: &[u8], groups: usize, hints: Hints<'a>) -> Self {
        let step = hints.ahead.len().div_ceil(groups.max(1));
        Self { len: base.len(), coded: hints.ahead, step }
    }

    /// Prefetches the part for a group with this base.
    #[inline]
    pub(super) fn prefetch(self, group: usize, base: &[u8]) {
        for line in base.chunks(64) {
            crate::simd::prefetch(line.as_ptr().wrapping_add(self.len));
        }
        crate::simd::prefetch(self.coded.as_ptr().wrapping_add(group * self.step));
    }
}

/// 64 words of 16 bits: the upper halves of 32-bit words, or the 16-bit words themselves.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn upper_words(bytes: &[u8], is_wide: bool) -> [__m512i; 2] {
    if !is_wide {
        return [load_at(bytes, 0), load_at(bytes, 64)];
    }
    let order = load(&SECOND_WORDS);
    let pair = |at| _mm512_permutex2var_epi16(load_at(bytes, at), order, load_at(bytes, at + 64));
    [pair(0), pair(128)]
}

/// The bounds as vectors, and the masks of contexts made with them. There are `K` contexts or
/// fewer; the unused ones have no values.
pub(super) struct Contexts<const K: usize> {
    bounds: [__m512i; K],
    shift: __m128i,
    mask: __m512i,
}

impl<const K: usize> Contexts<K> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn new(rule: ContextRule) -> Self {
        assert!(rule.bounds.len() < K, "there is a vector for each context");
        let mut bounds = [_mm512_setzero_si512(); K];
        for (vector, &bound) in bounds.iter_mut().zip(rule.bounds) {
            *vector = _mm512_set1_epi8(bound as i8);
        }
        let shift = _mm_cvtsi32_si128(15 - i32::from(rule.bits));
        let mask = _mm512_set1_epi8((0xff_u8 >> (8 - rule.bits)) as i8);
        Self { bounds, shift, mask }
    }

    /// The exponents of 64 upper words.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn exponents(&self, [a, b]: [__m512i; 2]) -> __m512i {
        let (a, b) = (_mm512_srl_epi16(a, self.shift), _mm512_srl_epi16(b, self.shift));
        _mm512_and_si512(_mm512_permutex2var_epi8(a, load(&FIRST_BYTES), b), self.mask)
    }

    /// The mask of each context's values.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn masks(&self, exponents: __m512i) -> [u64; K] {
        let mut masks = [0; K];
        let mut reached = u64::MAX;
        for (mask, bound) in masks.iter_mut().zip(&self.bounds) {
            // The vector after the last bound is zero, and no exponent is below it.
            let below = _mm512_cmplt_epu8_mask(exponents, *bound);
            *mask = reached & !below;
            reached = below;
        }
        masks
    }
}

/// Runs a function for at least as many contexts as a rule has, for words of 32 or 16 bits, and for
/// joint or plain symbols.
macro_rules! for_layout {
    ($rule:expr, $layout:expr, $run:ident($($arg:expr),*)) => {
        match ($rule.bounds.len(), $layout.width_log2 == 2, $layout.has_sign) {
            (0..4, false, false) => $run::<4, false, false>($($arg),*),
            (4..6, false, false) => $run::<6, false, false>($($arg),*),
            (6.., false, false) => $run::<16, false, false>($($arg),*),
            (0..4, true, false) => $run::<4, true, false>($($arg),*),
            (4..6, true, false) => $run::<6, true, false>($($arg),*),
            (6.., true, false) => $run::<16, true, false>($($arg),*),
            (_, false, true) => $run::<16, false, true>($($arg),*),
            (_, true, true) => $run::<16, true, true>($($arg),*),
        }
    };
}

mod restore;

pub(super) use restore::restore;

/// Appends the bits of 64 bytes that are in their mask. This is a macro, because a function would
/// not be inlined, and the writer would go through memory for each word.
macro_rules! push_all {
    ($writer:expr, $bytes:expr, $masks:expr) => {
        let (bytes, masks) = ($bytes, $masks);
        let some = _mm512_test_epi8_mask(masks, masks);
        if some.count_ones() > FEW {
            for (bytes, mask) in eights(bytes).into_iter().zip(eights(masks)) {
                $writer.push(bytes, mask);
            }
        } else if some != 0 {
            let bytes = eights(_mm512_maskz_compress_epi8(some, bytes));
            let masks = eights(_mm512_maskz_compress_epi8(some, masks));
            let count = some.count_ones().div_ceil(8) as usize;
            for (&bytes, &mask) in bytes.iter().zip(&masks).take(count) {
                $writer.push(bytes, mask);
            }
        }
    };
}

/// The same for 64 bytes when few of them have bits in their mask.
macro_rules! push_few {
    ($writer:expr, $bytes:expr, $masks:expr) => {
        let (bytes, masks) = ($bytes, $masks);
        let some = _mm512_test_epi8_mask(masks, masks);
        let bytes = _mm512_maskz_compress_epi8(some, bytes);
        let masks = _mm512_maskz_compress_epi8(some, masks);
        // No branch on whether there are any: it would often be mispredicted.
        let first = |vector| _mm_cvtsi128_si64(_mm512_castsi512_si128(vector)) as u64;
        $writer.push(first(bytes), first(masks));
        if some.count_ones() > 8 {
            for (bytes, mask) in eights(bytes).into_iter().zip(eights(masks)).skip(1) {
                $writer.push(bytes, mask);
            }
        }
    };
}

/// The eight words of a vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn eights(vector: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    words
}

/// A vector with the value of `entry` for each symbol, or for the first symbol of each class if
/// symbols are joint.
#[inline]
#[target_feature(enable = "avx512f")]
fn by_class<const JOINT: bool>(entry: impl Fn(usize) -> u8) -> __m512i {
    let bytes: [u8; 64] = std::array::from_fn(|i| if JOINT { entry(4 * i) } else { entry(i) });
    load(&bytes)
}

/// The masks of the payload bits in one plane.
#[inline]
#[target_feature(enable = "avx512f")]
fn bit_masks<const JOINT: bool>(widths: &PlaneWidths) -> __m512i {
    by_class::<JOINT>(|symbol| ((1_u16 << widths.by_symbol[symbol]) - 1) as u8)
}

/// [`super::sort_fast`]: whole groups.
///
/// # Safety
/// The CPU has these instructions, and [`fits`] is true for the layout.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512bitalg,bmi2,popcnt")]
pub(super) unsafe fn sort(
    table: &Symbols,
    rule: ContextRule,
    values: &[u8],
    base: &[u8],
    streams: &mut Streams,
    records: &mut [u8],
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe {
        for_layout!(rule, table.layout, sort_for(table, rule, values, base, streams, records))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512bitalg,bmi2,popcnt")]
unsafe fn sort_for<const K: usize, const WIDE: bool, const JOINT: bool>(
    table: &Symbols,
    rule: ContextRule,
    values: &[u8],
    base: &[u8],
    streams: &mut Streams,
    records: &mut [u8],
) -> usize {
    let Streams { symbols: streams, lens, strings } = streams;
    let group_bytes = if WIDE { 4 * GROUP } else { 2 * GROUP };
    let groups = values.len() / group_bytes;
    let contexts = Contexts::<K>::new(rule);
    assert!(lens.len() == rule.bounds.len() + 1 && streams.len() >= lens.len());
    // Unused contexts write here, and nothing of it is used.
    let mut nowhere = [0_u8; GROUP];
    let mut ends = [nowhere.as_mut_ptr(); K];
    for ((end, stream), &len) in ends.iter_mut().zip(streams.iter_mut()).zip(lens.iter()) {
        assert!(stream.len() >= len + groups * GROUP + GROUP, "streams have room");
        *end = stream[len..].as_mut_ptr();
    }
    let starts = ends;
    let [low_masks, high_masks] =
        [bit_masks::<JOINT>(&table.planes[0]), bit_masks::<JOINT>(&table.planes[1])];
    let [low_string, high_string] = &mut strings[..] else { panic!("16 bits are two planes") };
    let mut low_bits = Writer::new(low_string, groups * GROUP);
    let mut high_bits = Writer::new(high_string, groups * GROUP);
    let (first_bytes, second_bytes) = (load(&FIRST_BYTES), load(&SECOND_BYTES));
    let flipped = _mm512_set1_epi16(keep_sign(JOINT).into());
    let (one, two) = (_mm512_set1_epi16(1), _mm512_set1_epi16(2));
    let mut together = [[_mm512_setzero_si512(); 3]; TOGETHER];
    for group in 0..groups {
        let values = &values[group * group_bytes..][..group_bytes];
        let base = &base[group * group_bytes..][..group_bytes];
        prefetch_ahead(values);
        prefetch_ahead(base);
        let mut classes = [_mm512_setzero_si512(); 2];
        let (mut bits, mut symbols) = (classes, classes);
        let upper_base;
        let mut apart;
        let flips;
        if !WIDE {
            let upper = upper_words(values, false);
            upper_base = upper_words(base, false);
            apart = [apart16(upper[0], upper_base[0]), apart16(upper[1], upper_base[1])];
            flips = [signs_differ(upper[0], upper_base[0]), signs_differ(upper[1], upper_base[1])];
        } else {
            let upper = upper_words(values, true);
            upper_base = upper_words(base, true);
            flips = [signs_differ(upper[0], upper_base[0]), signs_differ(upper[1], upper_base[1])];
            apart = classes;
            for (half, apart) in apart.iter_mut().enumerate() {
                let at = 128 * half;
                let own = [load_at(values, at), load_at(values, at + 64)];
                let from = [load_at(base, at), load_at(base, at + 64)];
                let (low, coded) = apart32(own, from);
                store_at(records, group * 2 * GROUP + 64 * half, low);
                *apart = coded;
            }
        }
        for half in 0..2 {
            let size = _mm512_abs_epi16(apart[half]);
            let mut below = _mm512_or_si512(size, _mm512_srli_epi16::<1>(size));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<2>(below));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<4>(below));
            below = _mm512_or_si512(below, _mm512_srli_epi16::<8>(below));
            let class = _mm512_popcnt_epi16(below);
            let negative = _mm512_movepi16_mask(apart[half]);
            let lower = _mm512_srli_epi16::<1>(below);
            let rest = _mm512_and_si512(size, lower);
            classes[half] = class;
            let mut symbol = class;
            if JOINT {
                let lowest = _mm512_srli_epi16::<2>(below);
                bits[half] = _mm512_and_si512(rest, lowest);
                let top = _mm512_cmpneq_epi16_mask(bits[half], rest);
                symbol = _mm512_slli_epi16::<2>(symbol);
                symbol = _mm512_mask_add_epi16(symbol, top, symbol, two);
                symbol = _mm512_mask_add_epi16(symbol, negative, symbol, one);
            } else {
                // The sign takes the place of the leading one, and is 1 if negative.
                bits[half] = _mm512_mask_mov_epi16(rest, negative, size);
            }
            symbols[half] = _mm512_mask_add_epi16(symbol, flips[half], symbol, flipped);
        }
        let pack = |order, [a, b]: [__m512i; 2]| _mm512_permutex2var_epi8(a, order, b);
        let symbols = pack(first_bytes, symbols);
        // Widths depend on the class, or on a plain symbol directly.
        let classes = if JOINT { pack(first_bytes, classes) } else { symbols };
        let masks = contexts.masks(contexts.exponents(upper_base));
        for (end, mask) in ends.iter_mut().zip(masks) {
            let packed = _mm512_maskz_compress_epi8(mask, symbols);
            // SAFETY: each group moves an end by at most 64, and there is room for one more group.
            unsafe {
                _mm512_storeu_si512(end.cast(), packed);
                *end = end.add(mask.count_ones() as usize);
            }
        }
        together[group % TOGETHER] = [pack(first_bytes, bits), pack(second_bytes, bits), classes];
        if group % TOGETHER < TOGETHER - 1 && group + 1 < groups {
            continue;
        }
        for &[low, high, classes] in &together[..=group % TOGETHER] {
            let masks = _mm512_permutexvar_epi8(classes, low_masks);
            let long = _mm512_permutexvar_epi8(classes, high_masks);
            // SAFETY: a group adds at most 64 bytes of bits to each string, and there is room for
            // that.
            unsafe {
                push_all!(low_bits, low, masks);
                push_few!(high_bits, high, long);
            }
        }
    }
    for ((len, end), start) in lens.iter_mut().zip(ends).zip(starts) {
        *len += end as usize - start as usize;
    }
    low_bits.finish(low_string);
    high_bits.finish(high_string);
    groups * GROUP
}

/// Differences of 16-bit magnitudes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn apart16(values: __m512i, base: __m512i) -> __m512i {
    let magnitudes = _mm512_set1_epi16(0x7fff);
    let of = |words| _mm512_and_si512(words, magnitudes);
    _mm512_sub_epi16(of(values), of(base))
}

/// Which words have different top bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn signs_differ(values: __m512i, base: __m512i) -> u32 {
    _mm512_movepi16_mask(_mm512_xor_si512(values, base))
}

/// Differences of 32-bit magnitudes, as low and coded words of 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn apart32(values: [__m512i; 2], base: [__m512i; 2]) -> (__m512i, __m512i) {
    let magnitudes = _mm512_set1_epi32(0x7fff_ffff);
    let half = _mm512_set1_epi32(0x8000);
    let apart = |i: usize| {
        let of = |words| _mm512_and_si512(words, magnitudes);
        _mm512_add_epi32(_mm512_sub_epi32(of(values[i]), of(base[i])), half)
    };
    let (a, b) = (apart(0), apart(1));
    let low = _mm512_permutex2var_epi16(a, load(&FIRST_WORDS), b);
    (low, _mm512_permutex2var_epi16(a, load(&SECOND_WORDS), b))
}

/// [`super::mask_fast`]: whole groups.
///
/// # Safety
/// The CPU has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt")]
pub(super) unsafe fn mask(
    layout: ClassLayout,
    rule: ContextRule,
    base: &[u8],
    masks: &mut Vec<u64>,
    counts: &mut [usize],
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe { for_layout!(rule, layout, mask_for(rule, base, masks, counts)) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vpopcntdq,popcnt")]
unsafe fn mask_for<const K: usize, const WIDE: bool, const JOINT: bool>(
    rule: ContextRule,
    base: &[u8],
    masks: &mut Vec<u64>,
    counts: &mut [usize],
) -> usize {
    let group_bytes = if WIDE { 4 * GROUP } else { 2 * GROUP };
    let groups = base.len() / group_bytes;
    let contexts = Contexts::<K>::new(rule);
    masks.resize(groups * K, 0);
    let masks = masks.as_chunks_mut().0;
    for (base, masks) in base.chunks_exact(group_bytes).zip(&mut *masks) {
        *masks = contexts.masks(contexts.exponents(upper_words(base, WIDE)));
    }
    count_masks(masks, counts);
    groups * GROUP
}

/// Adds the number of set bits in each context's masks to `counts`, which may leave out the last
/// contexts.
///
/// In separate vectors: next to the code that makes the masks, the compiler would assemble them one
/// by one.
#[inline]
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn count_masks<const K: usize>(masks: &[[u64; K]], counts: &mut [usize]) {
    let (blocks, rest) = masks.as_chunks::<8>();
    let mut sums = [_mm512_setzero_si512(); K];
    for masks in blocks {
        let words = masks.as_flattened().as_chunks::<8>().0;
        for (sum, words) in sums.iter_mut().zip(words) {
            *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(load(words)));
        }
    }
    for (i, sum) in sums.iter().flat_map(|&sum| eights(sum)).enumerate() {
        if let Some(count) = counts.get_mut(i % K) {
            *count += sum as usize;
        }
    }
    for masks in rest {
        counts.iter_mut().zip(masks).for_each(|(count, mask)| *count += mask.count_ones() as usize);
    }
}
