//! What a file is made of, and the checksums of its parts: the same whether it is compressed or
//! only looked at.

use crate::io::Source;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Item, Result, hash};
use lmc_input::Cut;

/// What the input is.
pub(crate) fn look(source: &Source, len: u64) -> Result<lmc_input::Source> {
    if len >= 8 {
        let mut start = [0; 8];
        source.read(0, &mut start)?;
        if let Some(header_len) = lmc_input::header_len(start, len) {
            let header = source.read_vec(0, header_len)?;
            if let Some(layout) = lmc_input::parse(&header, len) {
                return Ok(layout);
            }
        }
    }
    Ok(lmc_input::Source::bytes(len))
}

/// The checksums of items as their spans come in, in order.
pub(crate) struct ItemHashes(Vec<Vec<Hash>>);

impl ItemHashes {
    pub(crate) fn new(items: usize) -> Self {
        Self(vec![Vec::new(); items])
    }

    /// Adds the next span, with the checksums of its items or of its part of one.
    pub(crate) fn add(&mut self, cut: &Cut, hashes: Vec<Hash>) {
        for (item, hash) in self.0[cut.items.clone()].iter_mut().zip(hashes) {
            item.push(hash);
        }
    }

    /// The items, when all spans have been added.
    pub(crate) fn finish(self, layout: &lmc_input::Source) -> Vec<Item> {
        let item = |(item, hashes): (&lmc_input::SourceItem, Vec<Hash>)| {
            let hash = match hashes[..] {
                [] => hash(&[]),
                [one] => one,
                _ => hash_of_hashes(&hashes),
            };
            Item { len: item.len, hash }
        };
        layout.items.iter().zip(self.0).map(item).collect()
    }
}

/// The checksums of items of these lengths, of which `raw` is made.
pub(crate) fn item_hashes(raw: &[u8], lens: impl Iterator<Item = u64>) -> Vec<Hash> {
    let mut rest = raw;
    let take = |len: u64| {
        let (bytes, after) = rest.split_at(len as usize);
        rest = after;
        hash(bytes)
    };
    lens.map(take).collect()
}
