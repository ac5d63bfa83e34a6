//! The layout of a file and the checksums of its parts: the same whether the file is compressed or
//! only hashed.

use crate::io::ByteSource;
use crate::item_hash::ItemHasher;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Item, Result, SourceKind, hash};
use lmc_input::{Cut, LayoutItem, TensorInfo};

/// The layout of an input, and the bytes that it was found from.
#[derive(Debug)]
pub(crate) struct InputLayout {
    pub layout: lmc_input::FileLayout,
    /// The start of the input, as far as it was read to find the layout.
    pub start: Vec<u8>,
    /// Bytes of the input.
    pub len: u64,
}

impl InputLayout {
    /// Reads the layout of an input of `len` bytes.
    pub(crate) fn read(source: &ByteSource, len: u64) -> Result<Self> {
        let layout = lmc_input::FileLayout::bytes(len);
        let mut found = Self { layout, start: Vec::new(), len };
        if len < 8 {
            return Ok(found);
        }
        let mut first = [0; 8];
        source.read(0, &mut first)?;
        found.start = first.to_vec();
        if let Some(header_len) = lmc_input::header_len(first, len) {
            found.start = source.read_vec(0, header_len)?;
            if let Some(layout) = lmc_input::parse(&found.start, len) {
                found.layout = layout;
            }
        }
        Ok(found)
    }

    /// The tensors; none if it is not a safetensors file.
    pub(crate) fn tensors(&self) -> Vec<TensorInfo> {
        match self.layout.kind {
            SourceKind::Safetensors => {
                lmc_input::tensors(&self.start, self.len).unwrap_or_default()
            }
            SourceKind::Bytes => Vec::new(),
        }
    }
}

/// A hasher for the checksums of a span's items, or of the part if it is part of an item.
pub(crate) fn hasher(cut: &Cut, items: &[LayoutItem]) -> ItemHasher {
    ItemHasher::new(match &items[cut.items.clone()] {
        items @ [_, _, ..] => items.iter().map(|item| item.len).collect(),
        _ => vec![cut.range.end - cut.range.start],
    })
}

/// Collects the checksums of items as their spans arrive, in order.
pub(crate) struct ItemHashes {
    /// For each item, or each span of an item: the number of the item and the checksum.
    hashes: Vec<(usize, Hash)>,
}

impl ItemHashes {
    pub(crate) fn new(items: usize) -> Self {
        Self { hashes: Vec::with_capacity(items) }
    }

    /// Adds the next span, with the checksums from its hasher.
    pub(crate) fn add(&mut self, cut: &Cut, hashes: Vec<Hash>) {
        self.hashes.extend(cut.items.clone().zip(hashes));
    }

    /// The items, once all spans have been added.
    pub(crate) fn finish(&self, layout: &lmc_input::FileLayout) -> Vec<Item> {
        let mut rest = &self.hashes[..];
        let item = |(i, item): (usize, &LayoutItem)| {
            let own = rest.iter().take_while(|(of, _)| *of == i).count();
            let (own, after) = rest.split_at(own);
            rest = after;
            let hash = match own {
                [] => hash(&[]),
                [(_, one)] => *one,
                _ => hash_of_hashes(&own.iter().map(|(_, hash)| *hash).collect::<Vec<_>>()),
            };
            Item { len: item.len, hash }
        };
        layout.items.iter().enumerate().map(item).collect()
    }
}
