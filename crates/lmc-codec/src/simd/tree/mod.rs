//! Kernels of the tree code (`docs/format.md`, section 5.6).
//!
//! A prefix code as a tree. Its nodes are ranges of ranks: the symbols in the order of the tree.
//! Symbols with codes of the same length are together in blocks, which need no node for each bit.
//! Both directions go node by node, breadth first, over the bytes of a segment:
//!
//! ```text
//! encode:  x = the ranks of the plane's bytes
//!          for each node, from the root: compare its part of x with the first rank on its right,
//!                          write the answers as bits, close up both sides;
//!                          a flat node writes what is left of its ranks, as few bits as they need
//! decode:  walk the nodes once to count the set bits: gives each stream's place and length
//!          for the last level up to the root: look up the symbols of flat nodes,
//!                          and spread both sides of the others over the places their bits name
//! ```
//!
//! As in a chain, bit positions never depend on a decoded symbol, only on counts of bits. A chain
//! is the tree in which every node has a single symbol on one side; here both sides may go on.
//!
//! The order of the work is safe code, written once. A kernel handles one node; it is called with
//! slices and checks their lengths.

mod portable;
mod table;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_flat;
#[cfg(target_arch = "x86_64")]
mod avx512;

pub(crate) use table::Tables;

use super::{Isa, IsaKind, flags};
use crate::express::{CannotExpress, Encoded};
use crate::segment::sized;
use lmc_format::{Error, Reader, Result};
use table::{Child, NODES_MAX, Node, Split};

/// Bytes that kernels may read and write beyond the end of their data: a group, and eight more,
/// which save the portable path a check at every place in a group.
const SLACK: usize = 72;

/// Working memory; its contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Ranks of all unfinished nodes.
    ranks: Vec<u8>,
    escapes: Vec<u8>,
    near: Vec<u8>,
    far: Vec<u8>,
}

/// Where the next node's ranks may start after `len` of them at `at`: after the bytes that kernels
/// write beyond these, at the start of a cache line.
fn place_after(at: usize, len: usize) -> usize {
    (at + len + SLACK).next_multiple_of(64)
}

/// Appends the tree stream of `src` to `out`. If a byte has no code and there is no escape, this
/// fails and leaves `out` as it was.
pub(crate) fn encode(
    isa: Isa,
    tables: &Tables,
    src: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Encoded {
    // The right sides of a level together have at most the bytes of the plane.
    let most = (tables.levels.len() + 1) * src.len() + tables.nodes.len() * place_after(0, 0);
    let ranks = sized(&mut scratch.ranks, most + place_after(0, 0));
    let escapes = &mut scratch.escapes;
    escapes.clear();
    to_ranks(isa, tables, src, &mut ranks[..src.len()], escapes);
    if !tables.has_escape && !escapes.is_empty() {
        return Err(CannotExpress);
    }
    let mut parts = [(0, 0); NODES_MAX];
    parts[0] = (0, src.len());
    let mut free = place_after(0, src.len());
    for (node, i) in tables.nodes.iter().zip(0..) {
        let (at, len) = parts[i];
        match node {
            Node::Split(split) => {
                let start = out.len();
                out.resize(start + len.div_ceil(8), 0);
                let (own, others) = ranks.split_at_mut(free);
                let own = &mut own[at..at + len + SLACK];
                let right = split_ranks(isa, split, own, len, others, &mut out[start..]);
                if let Child::Node(i) = split.left {
                    parts[i] = (at, len - right);
                }
                if let Child::Node(i) = split.right {
                    parts[i] = (free, right);
                    free = place_after(free, right);
                }
            }
            Node::Flat(flat) => pack(isa, flat.first, flat.bits, &ranks[at..at + len], out),
            Node::Escape => out.extend_from_slice(escapes),
        }
    }
    Ok(())
}

/// Where each node's stream is, how many bytes reach the node, and where they go within its level.
struct Walk<'a> {
    counts: [usize; NODES_MAX],
    places: [usize; NODES_MAX],
    streams: [&'a [u8]; NODES_MAX],
}

/// Reads one tree stream from `input` into all of `dst`.
///
/// Fails, with `dst` in any state, if the stream is not a tree stream of `dst.len()` bytes.
pub(crate) fn decode(
    isa: Isa,
    tables: &Tables,
    input: &mut Reader,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    if dst.is_empty() {
        return Ok(());
    }
    let walk = walk(isa, tables, input, dst.len())?;
    let mut own = sized(&mut scratch.near, dst.len() + SLACK);
    let mut below = sized(&mut scratch.far, dst.len() + SLACK);
    for level in tables.levels[1..].iter().rev() {
        for i in level.clone() {
            let (at, len) = (walk.places[i], walk.counts[i]);
            decode_node(isa, &tables.nodes[i], &walk, i, below, &mut own[at..at + len]);
        }
        std::mem::swap(&mut own, &mut below);
    }
    decode_node(isa, &tables.nodes[0], &walk, 0, below, dst);
    Ok(())
}

/// Finds the streams of all nodes by counting the set bits, level by level.
///
/// The result is consistent by construction: the counts of a split node's sides add up to its own,
/// the count of the right side is the number of set bits, and each stream is exactly as long as its
/// count says.
fn walk<'a>(isa: Isa, tables: &Tables, input: &mut Reader<'a>, n: usize) -> Result<Walk<'a>> {
    let mut walk =
        Walk { counts: [0; NODES_MAX], places: [0; NODES_MAX], streams: [&[]; NODES_MAX] };
    walk.counts[0] = n;
    for level in &tables.levels {
        let mut place = 0;
        for i in level.clone() {
            let count = walk.counts[i];
            walk.places[i] = place;
            place += count;
            let node = &tables.nodes[i];
            let bits = count * node.bits();
            let stream = input.take(bits.div_ceil(8), "tree node")?;
            walk.streams[i] = stream;
            if !bits.is_multiple_of(8) && stream.last().is_some_and(|last| last >> (bits % 8) != 0)
            {
                return Err(Error::corrupt("padding of a tree node is not zero"));
            }
            if let Node::Split(split) = node {
                let right = flags::count(isa, stream);
                for (child, count) in [(split.left, count - right), (split.right, right)] {
                    if let Child::Node(i) = child {
                        walk.counts[i] = count;
                    }
                }
            }
        }
    }
    Ok(walk)
}

/// One side of a node.
#[derive(Clone, Copy)]
enum Side<'a> {
    /// The same byte everywhere.
    Symbol(u8),
    /// The bytes that go there, and slack.
    Bytes(&'a [u8]),
}

/// Fills `dst` with the bytes of node `i`; `below` has the bytes of the next level.
fn decode_node(isa: Isa, node: &Node, walk: &Walk, i: usize, below: &[u8], dst: &mut [u8]) {
    let stream = walk.streams[i];
    match node {
        _ if dst.is_empty() => {}
        Node::Split(split) => {
            let side = |child| match child {
                Child::Symbol(symbol) => Side::Symbol(symbol),
                Child::Node(i) => Side::Bytes(&below[walk.places[i]..][..walk.counts[i] + SLACK]),
            };
            merge(isa, stream, side(split.left), side(split.right), dst);
        }
        Node::Flat(flat) => unpack(isa, flat.bits, &flat.symbols, stream, dst),
        Node::Escape => dst.copy_from_slice(stream),
    }
}

/// Writes the rank of each byte of `src` to `dst`, which has the same length, and appends the bytes
/// without a code to `absent`.
fn to_ranks(isa: Isa, tables: &Tables, src: &[u8], dst: &mut [u8], absent: &mut Vec<u8>) {
    assert_eq!(src.len(), dst.len());
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2 and BMI1; both slices have the same length.
        IsaKind::Avx2 => unsafe { avx2::to_ranks(tables, src, dst, absent) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX-512 VBMI2; both slices have the same length.
        IsaKind::Avx512 => unsafe { avx512::to_ranks(tables, src, dst, absent) },
        _ => portable::to_ranks(tables, src, dst, absent),
    }
}

/// Writes a bit to `bits` for each of the first `len` of `own`: whether it goes to the right. Those
/// that do are closed up at `right`, the others at the start of `own`, if they go on. Returns how
/// many go to the right.
fn split_ranks(
    isa: Isa,
    split: &Split,
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    assert!(
        own.len() >= len + SLACK && right.len() >= len + SLACK && bits.len() == len.div_ceil(8)
    );
    let keep = [split.left, split.right].map(|side| matches!(side, Child::Node(_)));
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2 and BMI2; there is slack after `len` bytes of both sides, and
        // `bits` has one for each.
        IsaKind::Avx2 => unsafe { avx2::split(split.first, keep, own, len, right, bits) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, with AVX-512 VBMI2.
        IsaKind::Avx512 => unsafe { avx512::split(split.first, keep, own, len, right, bits) },
        _ => portable::split(split.first, keep, own, len, right, bits),
    }
}

/// Fills `dst`: where a bit is set with the next byte of the right side, otherwise with that of the
/// left side. `bits` has one bit for each byte of `dst`, followed by zeros. Each side has as many
/// bytes as there are bits for it, and slack, as the walk ensured.
fn merge(isa: Isa, bits: &[u8], left: Side, right: Side, dst: &mut [u8]) {
    assert_eq!(bits.len(), dst.len().div_ceil(8));
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2 and BMI2. The sides are as long as the walk counted in
        // `bits`, and the bits beyond `dst` are 0.
        IsaKind::Avx2 => unsafe { avx2::merge(bits, left, right, dst) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, with AVX-512 VBMI2.
        IsaKind::Avx512 => unsafe { avx512::merge(bits, left, right, dst) },
        _ => portable::merge(bits, left, right, dst),
    }
}

/// Appends each of `ranks`, minus `first`, in `bits` bits.
fn pack(isa: Isa, first: u8, bits: u8, ranks: &[u8], out: &mut Vec<u8>) {
    if bits == 8 {
        // All 256 ranks, so the first is 0.
        return out.extend_from_slice(ranks);
    }
    let mut ranks = ranks;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 {
        let (groups, tail) = ranks.as_chunks::<64>();
        // SAFETY: the isa proves AVX-512 VBMI.
        unsafe { super::pack::x86::pack_low_groups(low_mask(bits), first, groups, out) };
        ranks = tail;
    }
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both sets include AVX2 and BMI2.
        IsaKind::Avx2 | IsaKind::Avx512 => unsafe { avx2_flat::pack(first, bits, ranks, out) },
        _ => portable::pack(first, bits, ranks, out),
    }
}

/// Fills `dst` with the `symbols` selected by the numbers of `bits` bits in `packed`.
fn unpack(isa: Isa, bits: u8, symbols: &[u8; 256], packed: &[u8], dst: &mut [u8]) {
    assert_eq!(packed.len(), (dst.len() * usize::from(bits)).div_ceil(8));
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2; `packed` has the bits of all of `dst`.
        IsaKind::Avx2 => unsafe { avx2_flat::unpack(bits, symbols, packed, dst) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, with AVX-512 VBMI.
        IsaKind::Avx512 => unsafe { avx512::unpack(bits, symbols, packed, dst) },
        _ => portable::unpack(bits, symbols, packed, dst),
    }
}

/// The lowest `bits` bits of a byte, from 1 to 8.
fn low_mask(bits: u8) -> u8 {
    0xff >> (8 - bits)
}

#[cfg(test)]
mod tests;
