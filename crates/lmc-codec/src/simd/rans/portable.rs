//! The kernels in safe Rust: from tables, states and a slice they make bytes or words. They define
//! the results of the others.
//!
//! Invariant: a state is at least `2^16` before and after every byte, so one word is always enough
//! to renormalise, and products stay below `2^32`.

use super::{
    DEC_BIAS, DEC_FREQ, DecodeTable, Decoded, ENC_BUMP, ENC_COMPLEMENT, ENC_PRESENT, ENC_SHIFT,
    ENC_START, EncodeTable, Encoded, ROW_WORDS_LEN, SLOT_MASK, STATE_MIN, States, row_contexts,
};
use lmc_format::limits::{RANS_LANES, RANS_SCALE_BITS};

/// Encodes `src`, whose last row may be partial, to the end of `words`.
pub(super) fn encode<const N: usize>(
    tables: &[EncodeTable; N],
    states: &mut States,
    src: &[u8],
    contexts: &[u8],
    words: &mut [u8],
) -> Encoded {
    let mut x = *states;
    let mut end = words.len();
    let mut present = 1_u64 << ENC_PRESENT;
    for (i, row) in src.chunks(RANS_LANES).enumerate().rev() {
        for (lane, (x, &byte)) in x.iter_mut().zip(row).enumerate().rev() {
            let entry = tables[context::<N>(contexts, RANS_LANES * i + lane)][usize::from(byte)];
            present &= entry;
            let (next, emits) = encode_step(entry, *x);
            // The word is always stored, but kept only if `end` moves; this saves a branch.
            words[end - 2..end].copy_from_slice(&low_word(*x).to_le_bytes());
            end -= 2 * usize::from(emits);
            *x = next;
        }
    }
    *states = x;
    Encoded { len: words.len() - end, all_present: present != 0 }
}

/// One step of the encoder: the next state, and whether the low word of `x` was pushed out.
#[inline(always)]
fn encode_step(entry: u64, x: u32) -> (u32, bool) {
    let slot_mask = u64::from(SLOT_MASK);
    let complement = entry >> ENC_COMPLEMENT;
    // `x >= freq << 20`, written with the complement of the frequency.
    let emits = (u64::from(x) + (complement << 20)) >> 32 != 0;
    let x = u64::from(if emits { x >> 16 } else { x });
    let product = (x + (entry >> ENC_BUMP & 1)) * (entry & 0xffff_ffff);
    let quotient = product >> (entry >> ENC_SHIFT & 63);
    // `4096 q + x mod freq + start`, with `x mod freq = x - freq * q`.
    let next = quotient * complement + x + (entry >> ENC_START & slot_mask);
    (next as u32, emits)
}

fn low_word(x: u32) -> u16 {
    (x & 0xffff) as u16
}

/// Decodes whole rows as long as there are 32 words left for the next one.
pub(super) fn decode_rows<const N: usize>(
    tables: &[DecodeTable; N],
    states: &mut States,
    words: &[u8],
    contexts: &[u8],
    dst: &mut [u8],
) -> Decoded {
    let mut x = *states;
    let mut done = Decoded { written: 0, used: 0 };
    for (i, row) in dst.chunks_exact_mut(RANS_LANES).enumerate() {
        let Some(window) = words[done.used..].first_chunk::<ROW_WORDS_LEN>() else { break };
        let mut taken = 0;
        let contexts = row_contexts::<N>(contexts, i);
        for ((x, byte), &context) in x.iter_mut().zip(row).zip(contexts) {
            let next = decode_step(&tables[usize::from(context) % N], *x, byte);
            // A row takes at most 31 words before its last lane; the mask is only for the compiler.
            let at = 2 * (taken & (RANS_LANES - 1));
            let word = u16::from_le_bytes([window[at], window[at + 1]]);
            let refill = next << 16 | u32::from(word);
            let needs = next < STATE_MIN;
            *x = if needs { refill } else { next };
            taken += usize::from(needs);
        }
        done.used += 2 * taken;
        done.written += RANS_LANES;
    }
    *states = x;
    done
}

/// Decodes one row of at most 32 bytes. Returns the bytes of words used, or `None` if there are too
/// few.
pub(super) fn decode_last<const N: usize>(
    tables: &[DecodeTable; N],
    states: &mut States,
    words: &[u8],
    contexts: &[u8],
    dst: &mut [u8],
) -> Option<usize> {
    let mut rest = words;
    for (i, (x, byte)) in states.iter_mut().zip(dst).enumerate() {
        *x = decode_step(&tables[context::<N>(contexts, i)], *x, byte);
        if *x < STATE_MIN {
            let (word, tail) = rest.split_first_chunk()?;
            *x = *x << 16 | u32::from(u16::from_le_bytes(*word));
            rest = tail;
        }
    }
    Some(words.len() - rest.len())
}

/// The number of the table of byte `i`.
#[inline(always)]
fn context<const N: usize>(contexts: &[u8], i: usize) -> usize {
    if N == 1 { 0 } else { usize::from(contexts[i]) % N }
}

/// Writes the byte of state `x`. Returns the state before it is renormalised.
#[inline(always)]
fn decode_step(table: &DecodeTable, x: u32, byte: &mut u8) -> u32 {
    let entry = table[(x & SLOT_MASK) as usize];
    *byte = (entry & 0xff) as u8;
    (entry >> DEC_FREQ) * (x >> RANS_SCALE_BITS) + (entry >> DEC_BIAS & SLOT_MASK)
}
