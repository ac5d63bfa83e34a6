//! The chain code in safe Rust: the definition, and the path of CPUs without a fast `pdep`.
//!
//! Eight bytes at a time in a `u64`. Bits become byte masks by table, bytes become bits by one
//! multiplication.

use super::{Level, SLACK, Scratch, Tables, Walk, low_bits, tail_words, word};

const ONES: u64 = 0x0101_0101_0101_0101;

/// `BYTE_MASKS[b]` has byte `j` all ones where bit `j` of `b` is set.
static BYTE_MASKS: [u64; 256] = byte_masks();

const fn byte_masks() -> [u64; 256] {
    let mut masks = [0; 256];
    let mut bits = 0;
    while bits < 256 {
        let mut j = 0;
        while j < 8 {
            if bits >> j & 1 == 1 {
                masks[bits] |= 0xff << (8 * j);
            }
            j += 1;
        }
        bits += 1;
    }
    masks
}

pub(super) fn encode(tables: &Tables, src: &[u8], near: &mut [u8], out: &mut Vec<u8>) {
    for (label, &byte) in near.iter_mut().zip(src) {
        *label = tables.labels[usize::from(byte)];
    }
    let mut escapes =
        src.iter().copied().filter(|&b| tables.labels[usize::from(b)] == tables.escape);
    let mut n = src.len();
    for &level in &tables.levels {
        encode_level(level, &near[..n], out);
        n = keep_from(level.next_base(), &mut near[..n + SLACK], n);
    }
    out.extend(escapes.by_ref().take(n));
}

/// Appends one level's digits.
fn encode_level(level: Level, labels: &[u8], out: &mut Vec<u8>) {
    for group in labels.chunks(64) {
        let len = group.len().div_ceil(8);
        let over1 = at_least(level.base + 1, group);
        if level.two_bits {
            let over2 = at_least(level.base + 2, group);
            let over3 = at_least(level.base + 3, group);
            out.extend_from_slice(&(over1 & !over2 | over3).to_le_bytes()[..len]);
            out.extend_from_slice(&over2.to_le_bytes()[..len]);
        } else {
            out.extend_from_slice(&over1.to_le_bytes()[..len]);
        }
    }
}

/// Bit `j` is set where label `j` of the group is `bound` or more. Labels and bounds are below 64.
fn at_least(bound: u8, group: &[u8]) -> u64 {
    let lift = ONES * u64::from(128 - bound);
    let mut bits = 0;
    for (j, eight) in group.chunks(8).enumerate() {
        let tops = ((word(eight) + lift) >> 7) & ONES;
        bits |= (tops.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * j);
    }
    bits & low_bits(group.len())
}

/// Closes up the labels that are `bound` or more; returns how many there are.
fn keep_from(bound: u8, labels: &mut [u8], n: usize) -> usize {
    let mut kept = 0;
    for i in 0..n {
        let label = labels[i];
        labels[kept] = label;
        kept += usize::from(label >= bound);
    }
    kept
}

pub(super) fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    let (mut next, mut own) = (&mut scratch.near, &mut scratch.far);
    next[..walk.escapes.len()].copy_from_slice(walk.escapes);
    for (i, &level) in tables.levels.iter().enumerate().rev() {
        let (count, stream) = (walk.counts[i], walk.streams[i]);
        let target = if i == 0 { &mut *dst } else { &mut own[..count] };
        decode_level(level, stream, next, target);
        std::mem::swap(&mut next, &mut own);
    }
}

/// Fills `dst` with one level's bytes; `next` holds the bytes that went on, in order.
fn decode_level(level: Level, stream: &[u8], next: &[u8], dst: &mut [u8]) {
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let step = 8 * level.digit_bits();
    let (full, tail_stream) = stream.split_at(groups.len() * step);
    let mut taken = 0;
    for (group, digits) in groups.iter_mut().zip(full.chunks_exact(step)) {
        let second = if level.two_bits { word(&digits[8..]) } else { u64::MAX };
        taken += decode_group(level, (word(digits), second), &next[taken..], group);
    }
    // The walk has already refused a tail that `tail_words` would.
    if let Ok(words) = tail_words(level, tail_stream, tail.len()) {
        let mut group = [0; 64];
        decode_group(level, words, &next[taken..], &mut group);
        tail.copy_from_slice(&group[..tail.len()]);
    }
}

/// Decodes up to 64 digits; returns how many bytes of `next` were used.
fn decode_group(level: Level, words: (u64, u64), next: &[u8], group: &mut [u8; 64]) -> usize {
    let symbols = level.symbols.map(|s| ONES * u64::from(s));
    for (j, eight) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let first = BYTE_MASKS[usize::from((words.0 >> (8 * j)) as u8)];
        let second = BYTE_MASKS[usize::from((words.1 >> (8 * j)) as u8)];
        let leaf = if level.two_bits {
            symbols[0] & !first & !second
                | symbols[1] & first & !second
                | symbols[2] & second & !first
        } else {
            symbols[0] & !first
        };
        *eight = leaf.to_le_bytes();
    }
    let mut goes_on = words.0 & words.1;
    let count = goes_on.count_ones() as usize;
    for &byte in &next[..count] {
        group[goes_on.trailing_zeros() as usize & 63] = byte;
        goes_on &= goes_on - 1;
    }
    count
}
