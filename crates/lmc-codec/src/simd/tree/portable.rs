//! The tree code in safe Rust: the definition, and the path for CPUs without their own kernel.

use super::super::chain::eights::{ONES, close_up, counts_to, gather, spread};
use super::super::chain::{low_bits, word};
use super::{SLACK, Side, Tables, low_mask};

pub(super) fn to_ranks(tables: &Tables, src: &[u8], dst: &mut [u8], absent: &mut Vec<u8>) {
    for (src, dst) in src.chunks(64).zip(dst.chunks_mut(64)) {
        let mut any = false;
        for (rank, &byte) in dst.iter_mut().zip(src) {
            *rank = tables.ranks[usize::from(byte)];
            any |= Some(*rank) == tables.absent;
        }
        if any {
            append_absent(tables, src, dst, absent);
        }
    }
}

/// Appends to `absent` the bytes of `src` whose rank says that they have no code.
fn append_absent(tables: &Tables, src: &[u8], ranks: &[u8], absent: &mut Vec<u8>) {
    let of_absent = |&(_, &rank): &(&u8, &u8)| Some(rank) == tables.absent;
    absent.extend(src.iter().zip(ranks).filter(of_absent).map(|(&byte, _)| byte));
}

pub(super) fn split(
    first: u8,
    keep: [bool; 2],
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    let (mut on_left, mut on_right) = (0, 0);
    for (at, bits) in (0..len).step_by(64).zip(bits.chunks_mut(8)) {
        let group: [u8; 64] = *own[at..].first_chunk().expect("there is slack");
        let valid = low_bits(len - at);
        let set = gather(&group.map(|rank| u8::from(rank >= first))) & valid;
        match bits.first_chunk_mut() {
            Some(bits) => *bits = set.to_le_bytes(),
            None => bits.copy_from_slice(&set.to_le_bytes()[..bits.len()]),
        }
        if keep[0] {
            close_up_group(&group, !set & valid, &mut own[on_left..]);
        }
        if keep[1] {
            close_up_group(&group, set, &mut right[on_right..]);
        }
        on_left += (!set & valid).count_ones() as usize;
        on_right += set.count_ones() as usize;
    }
    on_right
}

/// Writes the bytes of `group` whose bit is set to the start of `to`, at most 64.
#[inline(always)]
fn close_up_group(group: &[u8; 64], set: u64, to: &mut [u8]) {
    let (to, _) = to.split_first_chunk_mut::<SLACK>().expect("there is slack");
    let (starts, set) = ((counts_to(set) << 8).to_le_bytes(), set.to_le_bytes());
    for (j, &eight) in group.as_chunks().0.iter().enumerate() {
        let at = usize::from(starts[j] & 63);
        let closed = close_up(u64::from_le_bytes(eight), set[j]);
        to[at..at + 8].copy_from_slice(&closed.to_le_bytes());
    }
}

pub(super) fn merge(bits: &[u8], mut left: Side, mut right: Side, dst: &mut [u8]) {
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let (words, last) = bits.split_at(8 * groups.len());
    for (group, &word) in groups.iter_mut().zip(words.as_chunks().0) {
        merge_group(u64::from_le_bytes(word), u64::MAX, &mut left, &mut right, group);
    }
    if !tail.is_empty() {
        let mut group = [0; 64];
        merge_group(word(last), low_bits(tail.len()), &mut left, &mut right, &mut group);
        tail.copy_from_slice(&group[..tail.len()]);
    }
}

/// [`merge`] for the `valid` bits of 64.
#[inline(always)]
fn merge_group(set: u64, valid: u64, left: &mut Side, right: &mut Side, group: &mut [u8; 64]) {
    let (from_left, from_right) = (take_group(left, !set & valid), take_group(right, set));
    for (j, eight) in group.as_chunks_mut().0.iter_mut().enumerate() {
        *eight = (from_left[j] | from_right[j]).to_le_bytes();
    }
}

/// The next bytes of a side at the places of the set bits, eight in a word; zeros elsewhere.
#[inline(always)]
fn take_group(side: &mut Side, set: u64) -> [u64; 8] {
    let counts = counts_to(set);
    let (starts, eights) = ((counts << 8).to_le_bytes(), set.to_le_bytes());
    match side {
        Side::Symbol(symbol) => {
            let all = ONES * u64::from(*symbol);
            eights.map(|bits| spread(all, bits))
        }
        Side::Bytes(bytes) => {
            let (next, _) = bytes.split_first_chunk::<SLACK>().expect("there is slack");
            let spread_from = |j: usize| {
                let at = usize::from(starts[j] & 63);
                spread(word(&next[at..at + 8]), eights[j])
            };
            *bytes = &bytes[(counts >> 56) as usize..];
            std::array::from_fn(spread_from)
        }
    }
}

pub(super) fn pack(first: u8, bits: u8, ranks: &[u8], out: &mut Vec<u8>) {
    let (eights, tail) = ranks.as_chunks::<8>();
    let bits = usize::from(bits);
    let start = out.len();
    // Eight bytes are written each time; only as many count as there are bits.
    out.resize(start + bits * eights.len() + 8, 0);
    for (eight, to) in eights.iter().zip((start..).step_by(bits)) {
        let numbers = eight.iter().rev();
        let word = numbers.fold(0, |word, rank| word << bits | u64::from(rank - first));
        out[to..to + 8].copy_from_slice(&word.to_le_bytes());
    }
    out.truncate(start + bits * eights.len());
    let word = tail.iter().rev().fold(0, |word, rank| word << bits | u64::from(rank - first));
    out.extend_from_slice(&word.to_le_bytes()[..(tail.len() * bits).div_ceil(8)]);
}

pub(super) fn unpack(bits: u8, symbols: &[u8; 256], packed: &[u8], dst: &mut [u8]) {
    let (mask, bits) = (low_mask(bits), usize::from(bits));
    let symbol = |word: u64, j: usize| symbols[usize::from((word >> (j * bits)) as u8 & mask)];
    let (eights, tail) = dst.as_chunks_mut::<8>();
    let mut rest = packed;
    for eight in eights {
        let word = match rest.first_chunk() {
            Some(&word) => u64::from_le_bytes(word),
            None => word(rest),
        };
        *eight = std::array::from_fn(|j| symbol(word, j));
        rest = &rest[bits..];
    }
    let word = word(rest);
    tail.iter_mut().enumerate().for_each(|(j, byte)| *byte = symbol(word, j));
}
