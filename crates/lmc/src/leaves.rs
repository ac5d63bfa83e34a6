//! The content hash of any file: the hash of the hashes of its *leaves*, pieces of 64 KiB. It
//! depends on nothing but the bytes, however the file is cut and arranged for coding.
//!
//! Several threads hash parts of the file, in the order in which they are coded. A part gives the
//! hashes of the leaves that lie in it, and the bytes of the leaves that it shares with the parts
//! before and after it. The parts are joined in order.

use lmc_format::{Arrangement, Hash, Hasher, hash};
use std::ops::Range;

/// Bytes of a leaf; the last one may be shorter.
const LEAF_LEN: u64 = 1 << 16;

/// Takes the bytes of a part of the original.
pub(crate) struct LeafHasher {
    at: u64,
    /// The leaves that lie in the part as a whole.
    whole: Range<u64>,
    leaf: Hasher,
    done: LeafPart,
}

/// The leaves of a part.
#[derive(Debug, Default)]
pub(crate) struct LeafPart {
    /// Bytes before the first whole leaf.
    head: Vec<u8>,
    leaves: Vec<Hash>,
    /// Bytes after the last whole leaf.
    tail: Vec<u8>,
}

impl LeafHasher {
    /// For the bytes `range` of the original.
    pub(crate) fn new(range: &Range<u64>) -> Self {
        let start = range.start.next_multiple_of(LEAF_LEN).min(range.end);
        let end = (range.end / LEAF_LEN * LEAF_LEN).max(start);
        Self {
            at: range.start,
            whole: start..end,
            leaf: Hasher::default(),
            done: LeafPart::default(),
        }
    }

    /// Adds the bytes that come next, which should still be in the cache.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Range { start, end } = self.whole;
            let to = match self.at {
                at if at < start => start,
                at if at < end => (at / LEAF_LEN + 1) * LEAF_LEN,
                _ => u64::MAX,
            };
            let len = usize::try_from(to - self.at).map_or(rest.len(), |left| left.min(rest.len()));
            let (own, after) = rest.split_at(len);
            match self.at {
                at if at < start => self.done.head.extend_from_slice(own),
                at if at < end && own.len() as u64 == LEAF_LEN => self.done.leaves.push(hash(own)),
                at if at < end => {
                    self.leaf.write(own);
                    if at + own.len() as u64 == to {
                        self.done.leaves.push(std::mem::take(&mut self.leaf).finish());
                    }
                }
                _ => self.done.tail.extend_from_slice(own),
            }
            (rest, self.at) = (after, self.at + own.len() as u64);
        }
    }

    /// The leaves; all bytes must have been added.
    pub(crate) fn finish(self) -> LeafPart {
        self.done
    }
}

/// Hashes the part of an original that goes with arranged bytes of stretches, which come in order.
pub(crate) struct Weaver<'a> {
    /// What is still to come: lengths, and whether the bytes belong to a stretch.
    pieces: std::vec::IntoIter<(u64, bool)>,
    /// Bytes of the current stretch that are still to come.
    left: u64,
    /// Bytes outside stretches that are still to come.
    outside: &'a [u8],
    hasher: LeafHasher,
}

impl<'a> Weaver<'a> {
    /// For the arranged bytes `data`; `first` are all bytes outside stretches.
    pub(crate) fn new(order: &Arrangement, first: &'a [u8], data: &Range<u64>) -> Self {
        let covered = order.covered(data);
        let (outside, _) = order.parts(&covered);
        let pieces: Vec<(u64, bool)> = order.weave(covered.clone()).collect();
        Self {
            pieces: pieces.into_iter(),
            left: 0,
            outside: &first[outside.start as usize..outside.end as usize],
            hasher: LeafHasher::new(&covered),
        }
    }

    /// Adds the arranged bytes that come next, which should still be in the cache.
    pub(crate) fn write(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            while self.left == 0 {
                let Some((len, is_data)) = self.pieces.next() else { return };
                if is_data {
                    self.left = len;
                } else {
                    let (own, after) = self.outside.split_at(len as usize);
                    self.hasher.write(own);
                    self.outside = after;
                }
            }
            let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
            let (own, after) = rest.split_at(len);
            self.hasher.write(own);
            self.left -= len as u64;
            rest = after;
        }
    }

    /// The leaves; all bytes must have been added.
    pub(crate) fn finish(self) -> LeafPart {
        self.hasher.finish()
    }
}

/// Joins parts, which come in the order of the original.
#[derive(Default)]
pub(crate) struct LeafJoin {
    /// Bytes of the leaf that is not complete.
    begun: u64,
    leaf: Hasher,
    all: Hasher,
}

impl LeafJoin {
    /// Adds the part that comes next.
    pub(crate) fn add(&mut self, part: &LeafPart) {
        self.write(&part.head);
        part.leaves.iter().for_each(|leaf| self.all.write(&leaf.to_le_bytes()));
        self.write(&part.tail);
    }

    /// Adds the bytes that come next.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = rest.len().min((LEAF_LEN - self.begun) as usize);
            let (own, after) = rest.split_at(len);
            self.leaf.write(own);
            self.begun += len as u64;
            if self.begun == LEAF_LEN {
                self.end_leaf();
            }
            rest = after;
        }
    }

    fn end_leaf(&mut self) {
        self.all.write(&std::mem::take(&mut self.leaf).finish().to_le_bytes());
        self.begun = 0;
    }

    /// The content hash.
    pub(crate) fn finish(mut self) -> Hash {
        if self.begun > 0 {
            self.end_leaf();
        }
        self.all.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::hash::hash_of_hashes;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| ((i * i) >> 5) as u8).collect()
    }

    fn expected(bytes: &[u8]) -> Hash {
        hash_of_hashes(&bytes.chunks(LEAF_LEN as usize).map(hash).collect::<Vec<_>>())
    }

    /// However a file is cut into parts, and parts into pieces, the hash is that of its leaves.
    #[test]
    fn cuts_do_not_matter() {
        for len in [0, 1, 65_535, 65_536, 65_537, 500_000] {
            let bytes = bytes(len);
            for (part, piece) in [(1000, 7), (65_536, 65_536), (70_000, 4096), (300_000, 65_536)] {
                let mut join = LeafJoin::default();
                for (i, own) in bytes.chunks(part).enumerate() {
                    let start = (i * part) as u64;
                    let mut hasher = LeafHasher::new(&(start..start + own.len() as u64));
                    own.chunks(piece).for_each(|piece| hasher.write(piece));
                    join.add(&hasher.finish());
                }
                assert_eq!(join.finish(), expected(&bytes), "{len} in {part} and {piece}");
            }
        }
    }

    /// Parts of the arranged bytes give the hash of the original.
    #[test]
    fn arranged_parts_give_the_same() {
        let bytes = bytes(400_000);
        let stretches = [(100, 30), (70, 70_000), (0, 5), (3, 200_000), (5, 6)];
        let order = Arrangement::new(400_000, stretches).unwrap();
        let arranged: Vec<u8> = order
            .pieces(0..400_000)
            .flat_map(|piece| bytes[piece.start as usize..piece.end as usize].to_vec())
            .collect();
        let (first, data) = arranged.split_at(order.first_len() as usize);
        for step in [1000, 65_536, 100_000] {
            let mut join = LeafJoin::default();
            for (i, own) in data.chunks(step).enumerate() {
                let start = order.first_len() + (i * step) as u64;
                let mut weaver = Weaver::new(&order, first, &(start..start + own.len() as u64));
                own.chunks(777).for_each(|piece| weaver.write(piece));
                join.add(&weaver.finish());
            }
            join.write(crate::items::rest(&order, first));
            assert_eq!(join.finish(), expected(&bytes), "{step}");
        }
    }
}
