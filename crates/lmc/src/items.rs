//! The layout of a file and the checksums of its parts: the same whether the file is compressed or
//! only looked at.

use crate::io::Source;
use crate::item_hash::ItemHasher;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Item, Result, SourceKind, hash};
use lmc_input::{Cut, SourceItem, Tensor};

/// The layout of an input, and the bytes that it was found from.
#[derive(Debug)]
pub(crate) struct Looked {
    pub layout: lmc_input::Source,
    /// The start of the input, as far as it was read to find the layout.
    pub start: Vec<u8>,
    /// Bytes of the input.
    pub len: u64,
}

impl Looked {
    /// Looks at an input of `len` bytes.
    pub(crate) fn new(source: &Source, len: u64) -> Result<Self> {
        let layout = lmc_input::Source::bytes(len);
        let mut looked = Self { layout, start: Vec::new(), len };
        if len < 8 {
            return Ok(looked);
        }
        let mut first = [0; 8];
        source.read(0, &mut first)?;
        looked.start = first.to_vec();
        if let Some(header_len) = lmc_input::header_len(first, len) {
            looked.start = source.read_vec(0, header_len)?;
            if let Some(layout) = lmc_input::parse(&looked.start, len) {
                looked.layout = layout;
            }
        }
        Ok(looked)
    }

    /// The tensors; none if it is not a safetensors file.
    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        match self.layout.kind {
            SourceKind::Safetensors => {
                lmc_input::tensors(&self.start, self.len).unwrap_or_default()
            }
            SourceKind::Bytes => Vec::new(),
        }
    }
}

/// The layout of the input.
pub(crate) fn look(source: &Source, len: u64) -> Result<lmc_input::Source> {
    Ok(Looked::new(source, len)?.layout)
}

/// The tensors of a file that was looked at; none if it is not a safetensors file.
pub(crate) fn tensors(source: &Source, layout: &lmc_input::Source) -> Result<Vec<Tensor>> {
    match (layout.kind, layout.items.first()) {
        (SourceKind::Safetensors, Some(head)) => {
            let header = source.read_vec(0, head.len)?;
            Ok(lmc_input::tensors(&header, source.len()?).unwrap_or_default())
        }
        _ => Ok(Vec::new()),
    }
}

/// A hasher for the checksums of a span's items, or of the part if it is part of an item.
pub(crate) fn hasher(cut: &Cut, items: &[SourceItem]) -> ItemHasher {
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
    pub(crate) fn finish(&self, layout: &lmc_input::Source) -> Vec<Item> {
        let mut rest = &self.hashes[..];
        let item = |(i, item): (usize, &SourceItem)| {
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
