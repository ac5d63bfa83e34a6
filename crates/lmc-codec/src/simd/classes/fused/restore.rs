//! Symbols and bits to values.

use super::*;

/// Takes the bits of each mask from the string, from bit `at` on, and advances `at` past them.
#[inline]
#[target_feature(enable = "bmi2,popcnt")]
fn spread_bits(string: &[u8], at: &mut usize, masks: &[u64], bytes: &mut [u64]) {
    for (byte, &mask) in bytes.iter_mut().zip(masks) {
        *byte = _pdep_u64(word_at(string, *at), mask);
        *at += mask.count_ones() as usize;
    }
}

/// The same for 64 payloads.
#[cold]
#[target_feature(enable = "avx512f,bmi2,popcnt")]
fn spread_all(string: &[u8], at: &mut usize, masks: __m512i) -> __m512i {
    let mut bytes = [0; 8];
    spread_bits(string, at, &eights(masks), &mut bytes);
    load(&bytes)
}

/// The same for 64 payloads of these widths. This is a macro, because a function would not be
/// inlined, and vectors would go through memory.
macro_rules! spread_low {
    ($string:expr, $at:ident, $widths:expr, $masks:expr) => {{
        let (string, masks) = ($string, $masks);
        // Each byte of the product is the sum of the widths before its own.
        let places = _mm512_mullo_epi64($widths, _mm512_set1_epi64(0x0101_0101_0101_0100));
        let totals = _mm512_srli_epi64::<56>(_mm512_add_epi8(places, $widths));
        // A word that starts within a byte has at most 57 bits of its own.
        let are_short = _mm512_cmpgt_epu64_mask(totals, _mm512_set1_epi64(57)) == 0;
        if are_short && $at / 8 + 64 <= string.len() {
            let ends = running_sums(totals);
            let starts = _mm512_sub_epi64(ends, totals);
            let bits = _mm512_add_epi64(starts, _mm512_set1_epi64(($at % 8) as i64));
            // All words are within 64 bytes: each takes eight bytes, starting at the byte that it
            // begins in.
            let near = load_at(string, $at / 8);
            let bytes = _mm512_shuffle_epi8(_mm512_srli_epi64::<3>(bits), load(&FIRST_OF_EIGHT));
            let bytes = _mm512_add_epi8(bytes, load(&BEFORE_IN_WORD));
            let words = _mm512_permutexvar_epi8(bytes, near);
            $at += last_of_eight(ends) as usize;
            let words = _mm512_srlv_epi64(words, _mm512_and_si512(bits, _mm512_set1_epi64(7)));
            _mm512_and_si512(_mm512_multishift_epi64_epi8(places, words), masks)
        } else {
            spread_all(string, &mut $at, masks)
        }
    }};
}

/// The same for payloads when few of them have bits.
macro_rules! spread_high {
    ($string:expr, $at:ident, $masks:expr) => {{
        let (string, masks) = ($string, $masks);
        let some = _mm512_test_epi8_mask(masks, masks);
        if some.count_ones() <= 8 {
            // No branch on whether there are any: it would often be mispredicted.
            let masks = _mm512_maskz_compress_epi8(some, masks);
            let masks = _mm_cvtsi128_si64(_mm512_castsi512_si128(masks)) as u64;
            let bytes = _pdep_u64(word_at(string, $at), masks);
            $at += masks.count_ones() as usize;
            let bytes = _mm512_zextsi128_si512(_mm_cvtsi64_si128(bytes as i64));
            _mm512_maskz_expand_epi8(some, bytes)
        } else {
            spread_all(string, &mut $at, masks)
        }
    }};
}

/// For each of eight numbers, the sum up to it.
#[inline]
#[target_feature(enable = "avx512f")]
fn running_sums(numbers: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    let sums = _mm512_add_epi64(numbers, _mm512_alignr_epi64::<7>(numbers, zero));
    let sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<6>(sums, zero));
    _mm512_add_epi64(sums, _mm512_alignr_epi64::<4>(sums, zero))
}

/// For each byte, the first one of its word.
const FIRST_OF_EIGHT: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 64 {
        places[i] = (i / 8 * 8 % 16) as u8;
        i += 1;
    }
    places
};

/// For each byte, the number of bytes before it in its word.
const BEFORE_IN_WORD: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 64 {
        places[i] = (i % 8) as u8;
        i += 1;
    }
    places
};

/// The last of eight words.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn last_of_eight(words: __m512i) -> u64 {
    _mm_extract_epi64::<1>(_mm512_extracti64x2_epi64::<3>(words)) as u64
}

/// [`super::super::restore_fast`] for whole groups.
///
/// # Safety
/// The CPU has these instructions, and [`fits`] is true for the layout.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(in super::super) unsafe fn restore(
    table: &Symbols,
    rule: ContextRule,
    unread: &mut Unread,
    records: &[u8],
    base: &[u8],
    dst: &mut [u8],
    hints: Hints,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe {
        for_layout!(rule, table.layout, restore_for(table, rule, unread, records, base, dst, hints))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
unsafe fn restore_for<const K: usize, const WIDE: bool, const JOINT: bool>(
    table: &Symbols,
    rule: ContextRule,
    unread: &mut Unread,
    records: &[u8],
    base: &[u8],
    dst: &mut [u8],
    hints: Hints,
) -> usize {
    let streaming = hints.streaming && dst.as_ptr().addr().is_multiple_of(64);
    let Unread { masks, symbols: sorted, places, strings } = unread;
    let group_bytes = if WIDE { 4 * GROUP } else { 2 * GROUP };
    let groups = base.len() / group_bytes;
    let masks = masks.as_chunks::<K>().0;
    assert_eq!(masks.len(), groups, "there are masks for each group");
    // Unused contexts read the first symbols, but take none of them.
    let mut next = [sorted.as_ptr(); K];
    assert_eq!(places.len(), rule.bounds.len() + 1);
    for (next, &place) in next.iter_mut().zip(places.iter()) {
        assert!(sorted.len() >= place + groups * GROUP + GROUP, "no read goes beyond the end");
        *next = sorted[place..].as_ptr();
    }
    let heads =
        |shift: u32| by_class::<JOINT>(|symbol| (table.heads[symbol].magnitude >> shift) as u8);
    let (heads_low, heads_high) = (heads(0), heads(8));
    // The bit below the leading one; a joint symbol says whether it is set.
    let tops = |shift: u32| {
        by_class::<JOINT>(|symbol| (table.heads[symbol].magnitude >> 1 >> shift) as u8)
    };
    let (tops_low, tops_high) = (tops(0), tops(8));
    let [low_masks, high_masks] =
        [bit_masks::<JOINT>(&table.planes[0]), bit_masks::<JOINT>(&table.planes[1])];
    let [(low_bits, low_from), (high_bits, high_from)] = &mut strings[..] else {
        panic!("16 bits are two planes")
    };
    let (mut low_at, mut high_at) = (*low_from, *high_from);
    let low_widths = by_class::<JOINT>(|symbol| table.planes[0].by_symbol[symbol]);
    let orders = [load(&LOWER_PAIRS), load(&UPPER_PAIRS)];
    let mut together = [_mm512_setzero_si512(); TOGETHER];
    let pairs = base.chunks_exact(group_bytes).zip(dst.chunks_exact_mut(group_bytes));
    let next_segment = NextSegment::new(base, groups, hints);
    for (group, (base, dst)) in pairs.enumerate() {
        next_segment.prefetch(group, base);
        if group % TOGETHER == 0 {
            for (symbols, masks) in together.iter_mut().zip(&masks[group..]) {
                *symbols = _mm512_setzero_si512();
                for (next, &mask) in next.iter_mut().zip(masks) {
                    // SAFETY: a group moves each pointer by at most 64, and there are that many
                    // symbols and as many more bytes.
                    let own = unsafe { _mm512_loadu_si512(next.cast()) };
                    // Joined afterwards, so that no expand waits for the previous one.
                    *symbols = _mm512_or_si512(*symbols, _mm512_maskz_expand_epi8(mask, own));
                    // SAFETY: as above.
                    *next = unsafe { next.add(mask.count_ones() as usize) };
                }
            }
        }
        let symbols = together[group % TOGETHER];
        let flip = _mm512_set1_epi8(keep_sign(JOINT) as i8);
        let flips = _mm512_cmpge_epu8_mask(symbols, flip);
        let kept = _mm512_mask_sub_epi8(symbols, flips, symbols, flip);
        let mut classes = symbols;
        if JOINT {
            let shifted = _mm512_srli_epi16::<2>(kept);
            classes = _mm512_and_si512(shifted, _mm512_set1_epi8(63));
        }
        let widths = _mm512_permutexvar_epi8(classes, low_widths);
        let masks = _mm512_permutexvar_epi8(classes, low_masks);
        let mut low = spread_low!(&**low_bits, low_at, widths, masks);
        let masks = _mm512_permutexvar_epi8(classes, high_masks);
        let mut high = spread_high!(&**high_bits, high_at, masks);
        let head_low = _mm512_permutexvar_epi8(classes, heads_low);
        let head_high = _mm512_permutexvar_epi8(classes, heads_high);
        let negative;
        if JOINT {
            negative = _mm512_test_epi8_mask(kept, _mm512_set1_epi8(1));
            let top = _mm512_test_epi8_mask(kept, _mm512_set1_epi8(2));
            low = _mm512_or_si512(low, _mm512_maskz_permutexvar_epi8(top, classes, tops_low));
            high = _mm512_or_si512(high, _mm512_maskz_permutexvar_epi8(top, classes, tops_high));
        } else {
            // The sign is at the place of the leading one.
            negative =
                _mm512_test_epi8_mask(low, head_low) | _mm512_test_epi8_mask(high, head_high);
        }
        let (low, high) = (_mm512_or_si512(low, head_low), _mm512_or_si512(high, head_high));
        for (half, order) in orders.iter().enumerate() {
            let size = _mm512_permutex2var_epi8(low, *order, high);
            let negative = (negative >> (32 * half)) as u32;
            let coded = _mm512_mask_sub_epi16(size, negative, _mm512_setzero_si512(), size);
            let flips = (flips >> (32 * half)) as u32;
            if !WIDE {
                let word = load_at(base, 64 * half);
                store_group(dst, 64 * half, add16(word, coded, flips), streaming);
            } else {
                let raw = load_at(records, group * 2 * GROUP + 64 * half);
                for (part, order) in [&LOWER_WORD_PAIRS, &UPPER_WORD_PAIRS].iter().enumerate() {
                    let at = 128 * half + 64 * part;
                    let apart = _mm512_permutex2var_epi16(raw, load(order), coded);
                    let flips = (flips >> (16 * part)) as u16;
                    store_group(dst, at, add32(load_at(base, at), apart, flips), streaming);
                }
            }
        }
    }
    for (place, next) in places.iter_mut().zip(next) {
        *place = next as usize - sorted.as_ptr() as usize;
    }
    (*low_from, *high_from) = (low_at, high_at);
    groups * GROUP
}

/// Stores part of a group. If `streaming`, it bypasses the caches and goes to a multiple of 64
/// bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_group(to: &mut [u8], at: usize, vector: __m512i, streaming: bool) {
    let bytes: &mut [u8; 64] = to[at..].first_chunk_mut().expect("lengths have been checked");
    if streaming {
        assert!(bytes.as_ptr().addr().is_multiple_of(64), "streaming stores are aligned");
        // SAFETY: the array has 64 bytes, and the assertion above checked its alignment.
        unsafe { _mm512_stream_si512(bytes.as_mut_ptr().cast(), vector) };
    } else {
        store_at(bytes, 0, vector);
    }
}

/// The magnitude of `base` plus `apart`, with the sign of the base or the opposite one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add16(base: __m512i, apart: __m512i, flips: u32) -> __m512i {
    let top = _mm512_set1_epi16(i16::MIN);
    let sum = _mm512_add_epi16(_mm512_andnot_si512(top, base), apart);
    // Adding the top bit flips it.
    let signs = _mm512_mask_add_epi16(base, flips, base, top);
    _mm512_ternarylogic_epi32::<0xca>(top, signs, sum)
}

/// The same for 32-bit words and differences that are half a low word too large.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add32(base: __m512i, apart: __m512i, flips: u16) -> __m512i {
    let top = _mm512_set1_epi32(i32::MIN);
    let apart = _mm512_sub_epi32(apart, _mm512_set1_epi32(0x8000));
    let sum = _mm512_add_epi32(_mm512_andnot_si512(top, base), apart);
    let signs = _mm512_mask_xor_epi32(base, flips, base, top);
    _mm512_ternarylogic_epi32::<0xca>(top, signs, sum)
}
