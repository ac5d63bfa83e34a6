//! The layout of a file and the checksums of its parts: the same whether the file is compressed or
//! only hashed.

use crate::compress::guess;
use crate::io::ByteSource;
use crate::item_hash::ItemHasher;
use crate::leaves::{LeafJoin, Weaver};
use crate::view::View;
use lmc_format::hash::hash_of_hashes;
use lmc_format::limits::{FIRST_ITEM_LEN_MAX, STRETCHES_MAX};
use lmc_format::{Arrangement, Dtype, Error, Hash, Item, Result, SourceKind, hash};
use lmc_input::{Contents, Cut, Data, LayoutItem, TensorInfo};
use std::io;
use std::ops::Range;

/// Bytes between two stretches that are no header but contents: they become a stretch.
const GAP_LEN: u64 = 1 << 20;

/// The layout of an input, and the bytes that are known from finding it.
#[derive(Debug)]
pub(crate) struct InputLayout {
    /// The items, in arranged order.
    pub layout: lmc_input::FileLayout,
    /// The bytes of the first item; for safetensors also if that is not the whole header.
    pub start: Vec<u8>,
    /// Bytes of the input.
    pub len: u64,
    /// The order in which its bytes are coded.
    pub order: Arrangement,
    /// The stretches with their arranged positions; none if nothing is known of them.
    named: Vec<TensorInfo>,
}

impl InputLayout {
    /// Reads the layout of an input of `len` bytes.
    pub(crate) fn read(source: &ByteSource, len: u64) -> Result<Self> {
        if let Some(found) = Self::safetensors(source, len)? {
            return Ok(found);
        }
        let read = |at: u64, out: &mut [u8]| source.read(at, out).map_err(io::Error::other);
        let contents = lmc_input::contents(&read, len).map_err(own_error)?;
        let mut stretches = stretches(&contents, len);
        let is_known = !stretches.is_empty();
        if !is_known {
            let guessed = guess::stretches(source, len)?.into_iter();
            stretches.extend(guessed.map(|(range, dtype)| unknown(range, Some(dtype))));
        }
        let mut found = Self::arranged(&stretches, len)?;
        if !is_known {
            found.named.clear();
        }
        if found.order.first_len() > 0 {
            found.start = first_bytes(&found.order, source)?;
        }
        Ok(found)
    }

    fn safetensors(source: &ByteSource, len: u64) -> Result<Option<Self>> {
        if len < 8 {
            return Ok(None);
        }
        let mut first = [0; 8];
        source.read(0, &mut first)?;
        let Some(header_len) = lmc_input::header_len(first, len) else { return Ok(None) };
        let start = source.read_vec(0, header_len)?;
        let Some(layout) = lmc_input::parse(&start, len) else { return Ok(None) };
        Ok(Some(Self { layout, start, len, order: Arrangement::plain(len), named: Vec::new() }))
    }

    /// The layout of a file with these stretches.
    fn arranged(stretches: &[Data], len: u64) -> Result<Self> {
        let mut end = 0;
        let lens = stretches.iter().map(|data| {
            let before = data.range.start - end;
            end = data.range.end;
            (before, data.range.end - data.range.start)
        });
        let order = Arrangement::new(len, lens.collect::<Vec<_>>())?;
        let mut at = order.first_len();
        let first = LayoutItem { len: at, dtype: Some(Dtype::Bytes), row_len: 0 };
        let (mut items, mut named) = (vec![first], Vec::new());
        for data in stretches {
            let len = data.range.end - data.range.start;
            items.push(LayoutItem { len, dtype: data.dtype, row_len: data.row_len });
            let (name, shape) = (data.name.clone(), data.shape.clone());
            let dtype = data.dtype.unwrap_or(Dtype::Bytes);
            named.push(TensorInfo { name, dtype, shape, range: at..at + len });
            at += len;
        }
        let layout = lmc_input::FileLayout { kind: SourceKind::Arranged, items };
        Ok(Self { layout, start: Vec::new(), len, order, named })
    }

    /// The tensors with their arranged positions; they are all items but the first, unless there
    /// are none.
    pub(crate) fn tensors(&self) -> Vec<TensorInfo> {
        match self.layout.kind {
            SourceKind::Safetensors => {
                lmc_input::tensors(&self.start, self.len).unwrap_or_default()
            }
            SourceKind::Bytes | SourceKind::Arranged => self.named.clone(),
        }
    }

    /// The tensors of an input of `len` bytes, without a guess at what is in others.
    pub(crate) fn named(source: &ByteSource, len: u64) -> Result<Vec<TensorInfo>> {
        if let Some(found) = Self::safetensors(source, len)? {
            return Ok(found.tensors());
        }
        let read = |at: u64, out: &mut [u8]| source.read(at, out).map_err(io::Error::other);
        Ok(lmc_input::contents(&read, len).map_err(own_error)?.tensors)
    }

    /// The input in arranged order.
    pub(crate) fn view<'a>(&'a self, source: &'a ByteSource<'a>) -> View<'a> {
        View::new(source, self)
    }

    /// Hashes the leaves that go with a span; none where the content hash is not that of leaves,
    /// and for spans outside all stretches.
    pub(crate) fn weaver(&self, span: &Range<u64>) -> Option<Weaver<'_>> {
        let is_stretch = span.start >= self.order.first_len();
        let is_hashed = self.layout.kind == SourceKind::Arranged && is_stretch;
        is_hashed.then(|| Weaver::new(&self.order, &self.start, span))
    }

    /// The content hash, from all leaves of stretches.
    pub(crate) fn content_hash(&self, mut leaves: LeafJoin) -> Hash {
        leaves.write(rest(&self.order, &self.start));
        leaves.finish()
    }
}

/// The bytes of the first item that come after the last stretch.
pub(crate) fn rest<'a>(order: &Arrangement, first: &'a [u8]) -> &'a [u8] {
    let len = order.original_len();
    let end = order.covered(&(order.first_len()..len)).end;
    let (outside, _) = order.parts(&(end..len));
    &first[outside.start as usize..outside.end as usize]
}

/// The tensors of a file, and what is long between them; none if nothing is known of the file.
pub(crate) fn stretches(contents: &Contents, len: u64) -> Vec<Data> {
    let (mut found, mut end, mut outside) = (Vec::new(), 0, 0);
    for data in &contents.data {
        let gap = end..data.range.start;
        if gap.end - gap.start >= GAP_LEN {
            found.push(Data { name: format!("bytes before {}", data.name), ..unknown(gap, None) });
        } else {
            outside += gap.end - gap.start;
        }
        end = data.range.end;
        found.push(data.clone());
    }
    if len - end >= GAP_LEN && !found.is_empty() {
        found.push(Data { name: "bytes at the end".to_string(), ..unknown(end..len, None) });
        end = len;
    }
    outside += len - end;
    let is_fit = outside <= FIRST_ITEM_LEN_MAX && found.len() <= STRETCHES_MAX;
    if is_fit { found } else { Vec::new() }
}

/// A stretch without a name.
fn unknown(range: Range<u64>, dtype: Option<Dtype>) -> Data {
    let shape = vec![range.end - range.start];
    Data { range, dtype, row_len: 0, name: String::new(), shape }
}

/// The bytes outside all stretches.
fn first_bytes(order: &Arrangement, source: &ByteSource) -> Result<Vec<u8>> {
    let mut first = Vec::new();
    for piece in order.pieces(0..order.first_len()) {
        let start = first.len();
        first.resize(start + (piece.end - piece.start) as usize, 0);
        source.read(piece.start, &mut first[start..])?;
    }
    Ok(first)
}

/// The error that was passed through a reader of contents.
pub(crate) fn own_error(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|error| Error::io("cannot read", error))
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
