//! Computes the checksums of the items in a span as its bytes pass through.

use lmc_format::{Hash, Hasher, seeded_hash};

/// Takes the bytes of items one after the other, in pieces of any length.
pub(crate) struct ItemHasher {
    /// Lengths of the items after this one.
    lens: std::vec::IntoIter<u64>,
    /// Bytes of this item that are still to come.
    left: u64,
    /// The hash of the bytes so far, if there were any.
    begun: Option<Hasher>,
    done: Vec<Hash>,
    seed: u64,
}

impl ItemHasher {
    /// For items with these lengths.
    pub(crate) fn new(lens: Vec<u64>) -> Self {
        Self::seeded(lens, 0)
    }

    /// The same with hashes of this seed.
    pub(crate) fn seeded(lens: Vec<u64>, seed: u64) -> Self {
        let done = Vec::with_capacity(lens.len());
        let mut hasher = Self { lens: lens.into_iter(), left: 0, begun: None, done, seed };
        hasher.open();
        hasher
    }

    /// Adds bytes, which should still be in the cache.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.left > 0 {
            let len = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
            let (now, after) = rest.split_at(len);
            rest = after;
            self.left -= now.len() as u64;
            match self.begun.take() {
                None if self.left == 0 => self.done.push(seeded_hash(self.seed, now)),
                begun => {
                    let mut begun = begun.unwrap_or_else(|| Hasher::seeded(self.seed));
                    begun.write(now);
                    match self.left {
                        0 => self.done.push(begun.finish()),
                        _ => self.begun = Some(begun),
                    }
                }
            }
            if self.left == 0 {
                self.open();
            }
        }
    }

    /// The checksums of the items; all of their bytes must have been added.
    pub(crate) fn finish(self) -> Vec<Hash> {
        self.done
    }

    /// Moves on to the next item that is not empty.
    fn open(&mut self) {
        while self.left == 0 {
            let Some(len) = self.lens.next() else { return };
            self.left = len;
            if len == 0 {
                self.done.push(seeded_hash(self.seed, &[]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::hash;

    /// However the bytes are cut, each item gets its own checksum, even an empty one.
    #[test]
    fn pieces_do_not_matter() {
        let bytes: Vec<u8> = (0..1000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        let lens = [0, 300, 1, 0, 0, 499, 200, 0];
        let mut start = 0;
        let mut expected = Vec::new();
        for len in lens {
            expected.push(hash(&bytes[start..start + len]));
            start += len;
        }
        for piece in [1, 7, 256, 300, 999, 1000] {
            let mut hasher = ItemHasher::new(lens.iter().map(|&len| len as u64).collect());
            bytes.chunks(piece).for_each(|chunk| hasher.write(chunk));
            assert_eq!(hasher.finish(), expected, "pieces of {piece}");
        }
    }
}
