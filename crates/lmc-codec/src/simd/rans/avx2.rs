//! The kernels with AVX2: from tables, states and a slice they make bytes or words, as
//! [`super::portable`] defines.
//!
//! Invariant: when decoding, vector `j` of four holds the lanes `8 j` to `8 j + 7`. When encoding,
//! each half of 16 lanes is dealt in turn to four vectors of 64-bit states, so that shifts and
//! blends are enough to merge their low words in the order of the lanes.

use super::{
    DEC_BIAS, DEC_FREQ, DecodeTable, Decoded, ENC_BUMP, ENC_COMPLEMENT, ENC_PRESENT, ENC_SHIFT,
    ENC_START, EncodeTable, Encoded, ROW_WORDS_LEN, SLOT_MASK, States, row_contexts,
};
use lmc_format::limits::{RANS_LANES, RANS_SCALE_BITS};
use std::arch::x86_64::*;
use std::array;

/// Shuffles of eight words, one per mask of lanes.
type Shuffles = [[u8; 16]; 256];

/// Moves the words of a mask, in order, to the top of the vector.
static COMPRESS: Shuffles = shuffles(false);
/// Moves the first words to the places of a mask and clears the others.
static EXPAND: Shuffles = shuffles(true);

const fn shuffles(expands: bool) -> Shuffles {
    let mut all = [[0x80; 16]; 256];
    let mut mask = 0_usize;
    while mask < 256 {
        let (mut lane, mut packed) = (0, if expands { 0 } else { 8 - mask.count_ones() as u8 });
        while lane < 8 {
            if mask >> lane & 1 == 1 {
                let (from, to) = if expands { (packed, lane) } else { (lane, packed) };
                all[mask][2 * to as usize] = 2 * from;
                all[mask][2 * to as usize + 1] = 2 * from + 1;
                packed += 1;
            }
            lane += 1;
        }
        mask += 1;
    }
    all
}

/// Encodes whole rows to the end of `words`.
///
/// # Safety
/// The CPU has the features; `src` is whole rows; `words` has two bytes for each of `src` and
/// `ENCODE_SLACK` more.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode<const N: usize>(
    tables: &[EncodeTable; N],
    states: &mut States,
    src: &[u8],
    contexts: &[u8],
    words: &mut [u8],
) -> Encoded {
    let mut x = [deal_quads(states, 0), deal_quads(states, 16)];
    let mut end = words.len();
    let mut present = _mm256_set1_epi64x(1 << ENC_PRESENT);
    for (i, row) in src.as_chunks::<RANS_LANES>().0.iter().enumerate().rev() {
        let contexts = row_contexts::<N>(contexts, i);
        for (half, x) in x.iter_mut().enumerate().rev() {
            let entries = look_up(tables, row, contexts, 16 * half);
            let old = *x;
            let mut emits = [_mm256_setzero_si256(); 4];
            for ((x, e), emits) in x.iter_mut().zip(entries).zip(&mut emits) {
                present = _mm256_and_si256(present, e);
                (*x, *emits) = encode_step(*x, e);
            }
            let (low, high) = split(merge_words(old));
            let mask = word_mask(merge_words(emits));
            // SAFETY: the caller gave two bytes for each byte of `src` and 16 more, and eight lanes
            // take at most 16 bytes: `end` is at least 16 here, and stays so for the next.
            unsafe {
                end = push(words, end, high, mask >> 8);
                end = push(words, end, low, mask & 0xff);
            }
        }
    }
    let [low, high] = x;
    gather_quads(states, 0, low);
    gather_quads(states, 16, high);
    let is_absent = _mm256_cmpeq_epi64(present, _mm256_setzero_si256());
    Encoded { len: words.len() - end, all_present: _mm256_testz_si256(is_absent, is_absent) == 1 }
}

/// Stores the words of `mask` below `end`; returns where they start.
///
/// # Safety
/// `end` is within `words` and at least 16.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn push(words: &mut [u8], end: usize, x: __m128i, mask: usize) -> usize {
    // SAFETY: an entry of `COMPRESS` has 16 bytes.
    let shuffle = unsafe { _mm_loadu_si128(COMPRESS[mask & 0xff].as_ptr().cast()) };
    // SAFETY: the caller promises 16 bytes below `end`. Those below the words are scratch.
    unsafe {
        let at = words.as_mut_ptr().add(end - 16);
        _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(x, shuffle));
    }
    end - 2 * mask.count_ones() as usize
}

/// The entries of 16 bytes of a row: vector `j` has those of the bytes `first + 4 k + j`.
///
/// Plain loads, because gather instructions take about 30 cycles each on CPUs that guard against
/// gather data sampling.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up<const N: usize>(
    tables: &[EncodeTable; N],
    row: &[u8; RANS_LANES],
    contexts: &[u8; RANS_LANES],
    first: usize,
) -> [__m256i; 4] {
    let entry = |lane: usize| tables[usize::from(contexts[lane]) % N][usize::from(row[lane])];
    let pair = |lane: usize| {
        let [a, b] = [lane, lane + 4].map(|lane| entry(lane).cast_signed());
        _mm_set_epi64x(b, a)
    };
    array::from_fn(|j| _mm256_set_m128i(pair(first + j + 8), pair(first + j)))
}

/// One step of the encoder: the next states, and 1 for each lane that pushed out a word.
#[inline]
#[target_feature(enable = "avx2")]
fn encode_step(x: __m256i, e: __m256i) -> (__m256i, __m256i) {
    let complement = _mm256_srli_epi64::<{ ENC_COMPLEMENT as i32 }>(e);
    let slot = _mm256_set1_epi64x(SLOT_MASK.into());
    let start = _mm256_and_si256(_mm256_srli_epi64::<{ ENC_START as i32 }>(e), slot);
    let shift = _mm256_srli_epi64::<{ ENC_SHIFT as i32 }>(e);
    let shift = _mm256_and_si256(shift, _mm256_set1_epi64x(63));
    let bump = _mm256_srli_epi64::<{ ENC_BUMP as i32 }>(e);
    let bump = _mm256_and_si256(bump, _mm256_set1_epi64x(1));
    // The state reaches `freq << 20` where adding the complement's share carries into bit 32.
    let carried = _mm256_add_epi64(x, _mm256_slli_epi64::<20>(complement));
    let emits = _mm256_srli_epi64::<32>(carried);
    let x = _mm256_srlv_epi64(x, _mm256_slli_epi64::<4>(emits));
    let quotient = _mm256_srlv_epi64(_mm256_mul_epu32(_mm256_add_epi64(x, bump), e), shift);
    let rest = _mm256_add_epi64(x, start);
    (_mm256_add_epi64(_mm256_mul_epu32(quotient, complement), rest), emits)
}

/// The low words of 16 lanes, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn merge_words(x: [__m256i; 4]) -> __m256i {
    let low = _mm256_blend_epi16::<0xaa>(x[0], _mm256_slli_epi64::<16>(x[1]));
    let high = _mm256_slli_epi64::<32>(x[2]);
    let high = _mm256_blend_epi16::<0xaa>(high, _mm256_slli_epi64::<48>(x[3]));
    _mm256_blend_epi32::<0xaa>(low, high)
}

/// One bit for each of 16 words that are 0 or 1.
#[inline]
#[target_feature(enable = "avx2")]
fn word_mask(x: __m256i) -> usize {
    let (low, high) = split(x);
    let bytes = _mm_packs_epi16(low, high);
    _mm_movemask_epi8(_mm_slli_epi16::<7>(bytes)) as usize
}

#[inline]
#[target_feature(enable = "avx2")]
fn split(x: __m256i) -> (__m128i, __m128i) {
    (_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))
}

/// Lane `first + 4 k + j` becomes element `k` of vector `j`.
#[inline]
#[target_feature(enable = "avx2")]
fn deal_quads(states: &States, first: usize) -> [__m256i; 4] {
    array::from_fn(|j| {
        let lanes: [u64; 4] = array::from_fn(|k| states[first + 4 * k + j].into());
        // SAFETY: the array has the 32 bytes of a vector.
        unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
    })
}

/// Undoes [`deal_quads`].
#[inline]
#[target_feature(enable = "avx2")]
fn gather_quads(states: &mut States, first: usize, x: [__m256i; 4]) {
    for (j, x) in x.into_iter().enumerate() {
        let mut lanes = [0_u64; 4];
        // SAFETY: the array has the 32 bytes of a vector.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), x) };
        for (k, lane) in lanes.into_iter().enumerate() {
            states[first + 4 * k + j] = lane as u32;
        }
    }
}

/// Decodes whole rows as long as there are 32 words left for the next one.
///
/// # Safety
/// The CPU has the features.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode_rows<const N: usize>(
    tables: &[DecodeTable; N],
    states: &mut States,
    words: &[u8],
    contexts: &[u8],
    dst: &mut [u8],
) -> Decoded {
    // SAFETY: vector `j` is 32 bytes of the 128 of the states.
    let mut x: [__m256i; 4] =
        array::from_fn(|j| unsafe { _mm256_loadu_si256(states.as_ptr().add(8 * j).cast()) });
    let mut done = Decoded { written: 0, used: 0 };
    for (i, row) in dst.as_chunks_mut::<RANS_LANES>().0.iter_mut().enumerate() {
        let contexts = row_contexts::<N>(contexts, i);
        let Some(window) = words[done.used..].first_chunk::<ROW_WORDS_LEN>() else { break };
        let mut taken = 0;
        let (x0, e0) = decode_step(tables, x[0], context_of::<N>(contexts, 0), window, &mut taken);
        let (x1, e1) = decode_step(tables, x[1], context_of::<N>(contexts, 1), window, &mut taken);
        let (x2, e2) = decode_step(tables, x[2], context_of::<N>(contexts, 2), window, &mut taken);
        let (x3, e3) = decode_step(tables, x[3], context_of::<N>(contexts, 3), window, &mut taken);
        x = [x0, x1, x2, x3];
        // SAFETY: a row has 32 bytes.
        unsafe {
            _mm256_storeu_si256(row.as_mut_ptr().cast(), pack_symbols([e0, e1, e2, e3]));
        }
        done.used += 2 * taken;
        done.written += RANS_LANES;
    }
    for (j, x) in x.into_iter().enumerate() {
        // SAFETY: vector `j` is 32 bytes of the 128 of the states.
        unsafe { _mm256_storeu_si256(states.as_mut_ptr().add(8 * j).cast(), x) };
    }
    done
}

/// Decodes the bytes of eight lanes: their next states and entries. `taken` counts the words of the
/// window that are used.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn decode_step<const N: usize>(
    tables: &[DecodeTable; N],
    x: __m256i,
    contexts: __m256i,
    window: &[u8; ROW_WORDS_LEN],
    taken: &mut usize,
) -> (__m256i, __m256i) {
    let slot_mask = _mm256_set1_epi32(SLOT_MASK.cast_signed());
    let e = slot_entries(tables, x, contexts);
    let bias = _mm256_and_si256(_mm256_srli_epi32::<{ DEC_BIAS as i32 }>(e), slot_mask);
    let freq = _mm256_srli_epi32::<{ DEC_FREQ as i32 }>(e);
    let whole = _mm256_srli_epi32::<{ RANS_SCALE_BITS as i32 }>(x);
    let x = _mm256_add_epi32(_mm256_mullo_epi32(freq, whole), bias);
    let needs = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(x), _mm256_setzero_si256());
    let mask = _mm256_movemask_ps(_mm256_castsi256_ps(needs)) as usize & 0xff;
    let next = &window[2 * *taken..][..16];
    // SAFETY: the slice and the entry of `EXPAND` have 16 bytes.
    let (next, shuffle) = unsafe {
        let shuffle = _mm_loadu_si128(EXPAND[mask].as_ptr().cast());
        (_mm_loadu_si128(next.as_ptr().cast()), shuffle)
    };
    let refill = _mm256_cvtepu16_epi32(_mm_shuffle_epi8(next, shuffle));
    let raised = _mm256_blendv_epi8(x, _mm256_slli_epi32::<16>(x), needs);
    *taken += mask.count_ones() as usize;
    (_mm256_or_si256(raised, refill), e)
}

/// The entries for the slots of eight states, with plain loads as in [`look_up`]. For these, two
/// slots at a time go to a scalar register.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn slot_entries<const N: usize>(
    tables: &[DecodeTable; N],
    x: __m256i,
    contexts: __m256i,
) -> __m256i {
    let slots = _mm256_and_si256(x, _mm256_set1_epi32(SLOT_MASK.cast_signed()));
    let (low, high) = split(_mm256_or_si256(slots, contexts));
    let table = tables.as_flattened();
    let quad = |x: __m128i| {
        let (low, high) = (_mm_cvtsi128_si64(x), _mm_extract_epi64::<1>(x));
        let slots = [low & 0xffff_ffff, low >> 32, high & 0xffff_ffff, high >> 32];
        // SAFETY: every slot is below 4096, and `context_of` gave the start of one of the tables.
        let [a, b, c, d] = slots.map(|slot| unsafe { *table.get_unchecked(slot as usize) });
        _mm_setr_epi32(a.cast_signed(), b.cast_signed(), c.cast_signed(), d.cast_signed())
    };
    _mm256_set_m128i(quad(high), quad(low))
}

/// Where the tables of eight lanes start, for vector `j`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn context_of<const N: usize>(contexts: &[u8; RANS_LANES], j: usize) -> __m256i {
    if N == 1 {
        return _mm256_setzero_si256();
    }
    let own = contexts.as_chunks::<8>().0[j];
    let own = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(own)));
    let own = _mm256_and_si256(own, _mm256_set1_epi32(N as i32 - 1));
    _mm256_slli_epi32::<{ RANS_SCALE_BITS as i32 }>(own)
}

/// The low bytes of 32 entries, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn pack_symbols(entries: [__m256i; 4]) -> __m256i {
    let [a, b, c, d] = entries.map(|e| _mm256_and_si256(e, _mm256_set1_epi32(0xff)));
    let bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    // The packs work within halves of the vector; this restores the order.
    _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}
