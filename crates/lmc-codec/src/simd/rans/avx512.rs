//! The kernels with AVX-512: from tables, states and a slice they make bytes or words, as
//! [`super::portable`] defines.
//!
//! Invariant: when encoding, the lanes are dealt in turn to four vectors of 64-bit states, so that
//! shifts and blends are enough to merge their low words in the order of the lanes. When decoding,
//! vector `j` of four holds the lanes `8 j` to `8 j + 7`: a row waits for its table lookups, and
//! four short chains of them overlap better than two long ones.

use super::avx2::{context_of, slot_entries};
use super::{
    DEC_BIAS, DEC_FREQ, DecodeTable, Decoded, ENC_BUMP, ENC_COMPLEMENT, ENC_PRESENT, ENC_SHIFT,
    ENC_START, EncodeTable, Encoded, ROW_WORDS_LEN, SLOT_MASK, STATE_MIN, States, row_contexts,
};
use lmc_format::limits::{RANS_LANES, RANS_SCALE_BITS};
use std::arch::x86_64::*;
use std::array;

/// Encodes whole rows to the end of `words`.
///
/// # Safety
/// The CPU has the features; `src` is whole rows; `words` has two bytes for each of `src`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode<const N: usize>(
    tables: &[EncodeTable; N],
    states: &mut States,
    src: &[u8],
    contexts: &[u8],
    words: &mut [u8],
) -> Encoded {
    let mut x = deal_quads(states);
    let mut end = words.len();
    let mut present = _mm512_set1_epi64(1 << ENC_PRESENT);
    for (i, row) in src.as_chunks::<RANS_LANES>().0.iter().enumerate().rev() {
        let contexts = row_contexts::<N>(contexts, i);
        let entries = look_up(tables, row, contexts);
        for e in entries {
            present = _mm512_and_si512(present, e);
        }
        let mut emits = [0; 4];
        let old = x;
        for ((x, e), emits) in x.iter_mut().zip(entries).zip(&mut emits) {
            (*x, *emits) = encode_step(*x, e);
        }
        let mask = interleave_masks(emits);
        let packed = _mm512_maskz_compress_epi16(mask, merge_words(old));
        let count = mask.count_ones();
        end -= 2 * count as usize;
        let keep = _bzhi_u32(u32::MAX, count);
        // SAFETY: the caller gave two bytes for each byte of `src`, and every row takes at most two
        // for each of its bytes: `end` has not passed 0, and the mask stops where the words of the
        // row before start.
        unsafe { _mm512_mask_storeu_epi16(words.as_mut_ptr().add(end).cast(), keep, packed) };
    }
    gather_quads(states, x);
    let all_present = _mm512_cmpeq_epi64_mask(present, _mm512_setzero_si512()) == 0;
    Encoded { len: words.len() - end, all_present }
}

/// The entries of a row: vector `j` has those of the bytes `4 k + j`.
///
/// Plain loads, because gather instructions take about 30 cycles each on CPUs that guard against
/// gather data sampling.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn look_up<const N: usize>(
    tables: &[EncodeTable; N],
    row: &[u8; RANS_LANES],
    contexts: &[u8; RANS_LANES],
) -> [__m512i; 4] {
    let entry = |lane: usize| tables[usize::from(contexts[lane]) % N][usize::from(row[lane])];
    let pair = |lane: usize| {
        let [a, b] = [lane, lane + 4].map(|lane| entry(lane).cast_signed());
        _mm_set_epi64x(b, a)
    };
    array::from_fn(|j| {
        let low = _mm256_set_m128i(pair(j + 8), pair(j));
        let high = _mm256_set_m128i(pair(j + 24), pair(j + 16));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    })
}

/// One step of the encoder: the next states, and the lanes that pushed out their low word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn encode_step(x: __m512i, e: __m512i) -> (__m512i, __mmask8) {
    let slot = _mm512_set1_epi64(SLOT_MASK.into());
    let complement = _mm512_srli_epi64::<ENC_COMPLEMENT>(e);
    let start = _mm512_and_si512(_mm512_srli_epi64::<ENC_START>(e), slot);
    let shift = _mm512_and_si512(_mm512_srli_epi64::<ENC_SHIFT>(e), _mm512_set1_epi64(63));
    let bumps = _mm512_test_epi64_mask(e, _mm512_set1_epi64(1 << ENC_BUMP));
    // The state reaches `freq << 20` where adding the complement's share carries into bit 32.
    let carried = _mm512_add_epi64(x, _mm512_slli_epi64::<20>(complement));
    let emits = _mm512_test_epi64_mask(carried, _mm512_set1_epi64(1 << 32));
    let x = _mm512_mask_srli_epi64::<16>(x, emits, x);
    let bumped = _mm512_mask_add_epi64(x, bumps, x, _mm512_set1_epi64(1));
    let quotient = _mm512_srlv_epi64(_mm512_mul_epu32(bumped, e), shift);
    let rest = _mm512_add_epi64(x, start);
    (_mm512_add_epi64(_mm512_mul_epu32(quotient, complement), rest), emits)
}

/// The low words of all lanes, in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn merge_words(x: [__m512i; 4]) -> __m512i {
    let low = _mm512_mask_blend_epi16(0x2222_2222, x[0], _mm512_slli_epi64::<16>(x[1]));
    let high = _mm512_mask_blend_epi16(
        0x8888_8888,
        _mm512_slli_epi64::<32>(x[2]),
        _mm512_slli_epi64::<48>(x[3]),
    );
    _mm512_mask_blend_epi32(0xaaaa, low, high)
}

/// The mask of 32 lanes from those of the four vectors they were dealt to.
#[inline]
#[target_feature(enable = "bmi2")]
fn interleave_masks(masks: [__mmask8; 4]) -> u32 {
    let spread = masks.map(|mask| _pdep_u32(mask.into(), 0x1111_1111));
    spread[0] | spread[1] << 1 | spread[2] << 2 | spread[3] << 3
}

/// Lane `4 k + j` becomes element `k` of vector `j`.
#[inline]
#[target_feature(enable = "avx512f")]
fn deal_quads(states: &States) -> [__m512i; 4] {
    array::from_fn(|j| {
        let lanes: [u64; 8] = array::from_fn(|k| states[4 * k + j].into());
        // SAFETY: the array has the 64 bytes of a vector.
        unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
    })
}

/// Undoes [`deal_quads`].
#[inline]
#[target_feature(enable = "avx512f")]
fn gather_quads(states: &mut States, x: [__m512i; 4]) {
    for (j, x) in x.into_iter().enumerate() {
        let mut lanes = [0_u32; 8];
        // SAFETY: the array has the 32 bytes of a vector.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(x)) };
        for (k, lane) in lanes.into_iter().enumerate() {
            states[4 * k + j] = lane;
        }
    }
}

/// Decodes whole rows as long as there are 32 words left for the next one.
///
/// # Safety
/// The CPU has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
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
        for (bytes, e) in row.as_chunks_mut::<8>().0.iter_mut().zip([e0, e1, e2, e3]) {
            // SAFETY: a chunk has 8 bytes.
            unsafe { _mm_storel_epi64(bytes.as_mut_ptr().cast(), _mm256_cvtepi32_epi8(e)) };
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
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
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
    let needs = _mm256_cmplt_epu32_mask(x, _mm256_set1_epi32(STATE_MIN.cast_signed()));
    let next = &window[2 * *taken..][..16];
    // SAFETY: the slice has 16 bytes.
    let next = unsafe { _mm_loadu_si128(next.as_ptr().cast()) };
    let refill = _mm256_maskz_expand_epi32(needs, _mm256_cvtepu16_epi32(next));
    *taken += needs.count_ones() as usize;
    (_mm256_or_si256(_mm256_mask_slli_epi32::<16>(x, needs, x), refill), e)
}
