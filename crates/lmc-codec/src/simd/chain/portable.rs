//! The chain code in safe Rust: the definition, and the path for CPUs without their own kernel.
//!
//! Digits are found by loops over 64 bytes that compilers turn into vector code. The rest works on
//! eight bytes at a time in a `u64`.

use super::eights::{BYTE_MASKS, ONES, close_up, counts_to, gather, spread};
use super::{Level, SLACK, Scratch, Tables, Walk, low_bits, word};

pub(super) fn encode(tables: &Tables, src: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
    let (mut own, mut next) = (&mut scratch.far, &mut scratch.near);
    let mut n = src.len();
    for (i, &level) in tables.levels.iter().enumerate() {
        let start = out.len();
        out.resize(start + level.stream_len(n), 0);
        let bytes = if i == 0 { src } else { &own[..n] };
        n = encode_level(level, bytes, &mut out[start..], next);
        std::mem::swap(&mut own, &mut next);
    }
    out.extend_from_slice(&own[..n]);
}

/// Fills `stream` with one level's digits of `bytes`, and closes up at `next` the bytes that go on;
/// returns their number.
fn encode_level(level: Level, bytes: &[u8], stream: &mut [u8], next: &mut [u8]) -> usize {
    if level.two_bits {
        encode_level_of::<16>(level, bytes, stream, next)
    } else {
        encode_level_of::<8>(level, bytes, stream, next)
    }
}

/// [`encode_level`] for levels that take `STEP` bytes per group.
fn encode_level_of<const STEP: usize>(
    level: Level,
    bytes: &[u8],
    stream: &mut [u8],
    next: &mut [u8],
) -> usize {
    let (groups, tail) = bytes.as_chunks::<64>();
    let (full, tail_stream) = stream.split_at_mut(groups.len() * STEP);
    let mut kept = 0;
    for (group, stream) in groups.iter().zip(full.as_chunks_mut::<STEP>().0) {
        let words = if STEP == 16 { two_bits(level, group) } else { one_bit(level, group) };
        stream[..8].copy_from_slice(&words.0.to_le_bytes());
        if STEP == 16 {
            stream[8..].copy_from_slice(&words.1.to_le_bytes());
        }
        kept += close_up_group(group, words.0 & words.1, &mut next[kept..]);
    }
    if !tail.is_empty() {
        let mut group = [0; 64];
        group[..tail.len()].copy_from_slice(tail);
        let words = if STEP == 16 { two_bits(level, &group) } else { one_bit(level, &group) };
        let valid = low_bits(tail.len());
        let (first, second) = tail_stream.split_at_mut(tail.len().div_ceil(8));
        first.copy_from_slice(&(words.0 & valid).to_le_bytes()[..first.len()]);
        second.copy_from_slice(&(words.1 & valid).to_le_bytes()[..second.len()]);
        kept += close_up_group(&group, words.0 & words.1 & valid, &mut next[kept..]);
    }
    kept
}

/// The digit words of a group at a level of one bit; the missing one is all ones.
#[inline(always)]
fn one_bit(level: Level, group: &[u8; 64]) -> (u64, u64) {
    (gather(&group.map(|byte| u8::from(byte != level.symbols[0]))), u64::MAX)
}

/// The digit words of a group at a level of two bits. The first of several equal symbols counts.
#[inline(always)]
fn two_bits(level: Level, group: &[u8; 64]) -> (u64, u64) {
    let [s0, s1, s2] = level.symbols;
    let first =
        group.map(|byte| u8::from(byte != s0) & (u8::from(byte == s1) | u8::from(byte != s2)));
    let second = group.map(|byte| u8::from(byte != s0) & u8::from(byte != s1));
    (gather(&first), gather(&second))
}

/// Writes the bytes of `group` that go on to the start of `next`; returns their number.
#[inline(always)]
fn close_up_group(group: &[u8; 64], on: u64, next: &mut [u8]) -> usize {
    let (next, _) = next.split_first_chunk_mut::<SLACK>().expect("scratch has slack");
    let counts = counts_to(on);
    let (starts, on) = ((counts << 8).to_le_bytes(), on.to_le_bytes());
    for (j, &eight) in group.as_chunks().0.iter().enumerate() {
        let at = usize::from(starts[j] & 63);
        let closed = close_up(u64::from_le_bytes(eight), on[j]);
        next[at..at + 8].copy_from_slice(&closed.to_le_bytes());
    }
    (counts >> 56) as usize
}

pub(super) fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    let next = decode_lower(tables, walk, scratch);
    decode_level(tables.levels[0], walk.streams[0], next, dst);
}

/// Decodes all levels after the first. Returns the bytes that the first level passes on, and slack.
pub(super) fn decode_lower<'a>(tables: &Tables, walk: &Walk, scratch: &'a mut Scratch) -> &'a [u8] {
    let (mut next, mut own) = (&mut scratch.near, &mut scratch.far);
    next[..walk.escapes.len()].copy_from_slice(walk.escapes);
    for (i, &level) in tables.levels.iter().enumerate().skip(1).rev() {
        decode_level(level, walk.streams[i], next, &mut own[..walk.counts[i]]);
        std::mem::swap(&mut next, &mut own);
    }
    next
}

/// Fills `dst` with one level's bytes; `next` holds the bytes that went on, in order. Returns how
/// many of them were used.
pub(super) fn decode_level(level: Level, stream: &[u8], next: &[u8], dst: &mut [u8]) -> usize {
    if level.two_bits {
        decode_level_of::<16>(level, stream, next, dst)
    } else {
        decode_level_of::<8>(level, stream, next, dst)
    }
}

/// [`decode_level`] for levels that take `STEP` bytes per group.
fn decode_level_of<const STEP: usize>(
    level: Level,
    stream: &[u8],
    next: &[u8],
    dst: &mut [u8],
) -> usize {
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let (full, tail_stream) = stream.split_at(groups.len() * STEP);
    let mut taken = 0;
    for (group, digits) in groups.iter_mut().zip(full.as_chunks::<STEP>().0) {
        let second = if STEP == 16 { word(&digits[8..]) } else { u64::MAX };
        taken += decode_group::<STEP>(level, (word(&digits[..8]), second), &next[taken..], group);
    }
    if !tail.is_empty() {
        let (first, second) = tail_stream.split_at(tail.len().div_ceil(8));
        let words = (word(first), if STEP == 16 { word(second) } else { u64::MAX });
        let mut group = [0; 64];
        taken += decode_group::<STEP>(level, words, &next[taken..], &mut group);
        tail.copy_from_slice(&group[..tail.len()]);
    }
    taken
}

/// Decodes up to 64 digits; returns how many bytes of `next` were used.
#[inline(always)]
fn decode_group<const STEP: usize>(
    level: Level,
    words: (u64, u64),
    next: &[u8],
    group: &mut [u8; 64],
) -> usize {
    let (next, _) = next.split_first_chunk::<SLACK>().expect("scratch has slack");
    let [s0, s1, s2] = level.symbols.map(|s| ONES * u64::from(s));
    let on = words.0 & words.1;
    let counts = counts_to(on);
    let (starts, on) = ((counts << 8).to_le_bytes(), on.to_le_bytes());
    let (firsts, seconds) = (words.0.to_le_bytes(), words.1.to_le_bytes());
    for (j, eight) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let first = BYTE_MASKS[usize::from(firsts[j])];
        let leaf = if STEP == 16 {
            let second = BYTE_MASKS[usize::from(seconds[j])];
            // 0 where both are set.
            s0 & !(first | second) | s1 & first & !second | s2 & second & !first
        } else {
            s0 & !first
        };
        let at = usize::from(starts[j] & 63);
        let bytes = spread(word(&next[at..at + 8]), on[j]);
        *eight = (leaf | bytes).to_le_bytes();
    }
    (counts >> 56) as usize
}
