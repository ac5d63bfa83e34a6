//! The index of a file (`docs/format.md`, section 7): where everything is, and its checksum.

use crate::dtype;
use crate::error::{Error, Result};
use crate::hash::{Hash, hash_of_hashes};
use crate::limits::{
    BLOCK_LOG2_MAX, BLOCK_LOG2_MIN, BLOCK_PREFIX_LEN_MAX, RECIPE_LEN_MAX, SPAN_LEN_MAX,
};
use crate::reader::Reader;
use crate::varint;

/// What the original is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Any file.
    Bytes = 0,
    /// A safetensors file: the first item is all before the tensors' bytes, then come the tensors.
    Safetensors = 1,
}

/// A stretch of the file with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes in the file.
    pub len: u64,
    /// Checksum of these bytes.
    pub hash: Hash,
}

/// A stretch of the original that was planned as one, and the pieces it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Original bytes.
    pub raw_len: u64,
    /// Element type they were coded as; an id of [`crate::dtype`].
    pub dtype: u8,
    /// log2 of the original bytes in each block but the last.
    pub block_log2: u8,
    /// The recipe that the blocks share, if they have one.
    pub recipe: Option<Piece>,
    /// The blocks.
    pub blocks: Vec<Piece>,
}

impl Span {
    /// Bytes in the file.
    pub fn coded_len(&self) -> u64 {
        // Checked when the index was read, and small when it is written.
        self.recipe.iter().chain(&self.blocks).fold(0, |sum, piece| sum.saturating_add(piece.len))
    }
}

/// A part of the original that has a checksum of its own: a tensor, or what is between tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Original bytes.
    pub len: u64,
    /// Of the bytes, or of the checksums of the spans that they are.
    pub hash: Hash,
}

/// The index of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// What the original is.
    pub kind: SourceKind,
    /// The spans, back to back.
    pub spans: Vec<Span>,
    /// The items, back to back.
    pub items: Vec<Item>,
}

impl Index {
    /// The name of the original by its content: equal for equal files.
    pub fn content_hash(&self) -> Hash {
        hash_of_hashes(&self.items.iter().map(|item| item.hash).collect::<Vec<_>>())
    }

    /// The index as bytes.
    pub fn write(&self) -> Vec<u8> {
        let mut out = vec![self.kind as u8];
        varint::write(&mut out, self.spans.len() as u64);
        for span in &self.spans {
            varint::write(&mut out, span.raw_len);
            out.extend_from_slice(&[span.dtype, span.block_log2]);
            match &span.recipe {
                Some(recipe) => write_piece(recipe, &mut out),
                None => varint::write(&mut out, 0),
            }
            span.blocks.iter().for_each(|block| write_piece(block, &mut out));
        }
        varint::write(&mut out, self.items.len() as u64);
        for item in &self.items {
            varint::write(&mut out, item.len);
            out.extend_from_slice(&item.hash.to_le_bytes());
        }
        out
    }

    /// Reads the index of a file with these lengths of body and original.
    pub fn read(bytes: &[u8], body_len: u64, original_len: u64) -> Result<Self> {
        let mut input = Reader::new(bytes);
        let kind = match input.u8("kind of original")? {
            0 => SourceKind::Bytes,
            1 => SourceKind::Safetensors,
            other => return Err(Error::corrupt(format!("unknown kind of original {other}"))),
        };
        let mut spans = Vec::new();
        for i in 0..input.varint("number of spans")? {
            spans.push(read_span(&mut input).map_err(|e| e.at(format_args!("span {i}")))?);
        }
        let mut items = Vec::new();
        for i in 0..input.varint("number of items")? {
            items.push(read_item(&mut input).map_err(|e| e.at(format_args!("item {i}")))?);
        }
        input.finish("the index")?;
        let index = Self { kind, spans, items };
        index.check(body_len, original_len)?;
        Ok(index)
    }

    /// Fails unless spans and items cover body and original, and each item is whole spans or lies in
    /// one.
    fn check(&self, body_len: u64, original_len: u64) -> Result<()> {
        total(self.spans.iter().map(Span::coded_len), body_len, "coded bytes of spans")?;
        total(self.spans.iter().map(|span| span.raw_len), original_len, "spans")?;
        total(self.items.iter().map(|item| item.len), original_len, "items")?;
        let count_fits = match self.kind {
            SourceKind::Bytes => self.items.len() == 1,
            SourceKind::Safetensors => !self.items.is_empty(),
        };
        if !count_fits {
            return Err(Error::corrupt(format!("{} items", self.items.len())));
        }
        let mut ends = Vec::with_capacity(self.spans.len());
        let mut end = 0_u64;
        for span in &self.spans {
            end = end.saturating_add(span.raw_len);
            ends.push(end);
        }
        let mut start = 0_u64;
        for (i, item) in self.items.iter().enumerate() {
            let end = start.saturating_add(item.len);
            let first = ends.partition_point(|&e| e <= start);
            let within = item.len == 0 || ends.get(first).is_some_and(|&e| end <= e);
            let is_bound = |place: u64| place == 0 || ends.binary_search(&place).is_ok();
            if !(within || is_bound(start) && is_bound(end)) {
                return Err(Error::corrupt(format!("item {i} crosses the bounds of spans")));
            }
            start = end;
        }
        Ok(())
    }
}

fn write_piece(piece: &Piece, out: &mut Vec<u8>) {
    varint::write(out, piece.len);
    out.extend_from_slice(&piece.hash.to_le_bytes());
}

fn read_hash(input: &mut Reader) -> Result<Hash> {
    Ok(Hash::from_le_bytes(input.array("checksum")?))
}

fn read_item(input: &mut Reader) -> Result<Item> {
    Ok(Item { len: input.varint("length")?, hash: read_hash(input)? })
}

fn read_span(input: &mut Reader) -> Result<Span> {
    let raw_len = in_range(input.varint("length")?, 1, SPAN_LEN_MAX, "original bytes")?;
    let dtype = input.u8("element type")?;
    if dtype::name(dtype).is_none() {
        return Err(Error::corrupt(format!("unknown element type {dtype}")));
    }
    let block_log2 = input.u8("block length")?;
    if !(BLOCK_LOG2_MIN..=BLOCK_LOG2_MAX).contains(&block_log2) {
        return Err(Error::corrupt(format!("blocks of 2^{block_log2} bytes")));
    }
    let recipe = match input.varint("recipe length")? {
        0 => None,
        len => Some(Piece {
            len: in_range(len, 1, RECIPE_LEN_MAX as u64, "bytes of recipe")?,
            hash: read_hash(input)?,
        }),
    };
    let block_len = 1_u64.checked_shl(u32::from(block_log2)).unwrap_or(u64::MAX);
    let mut blocks = Vec::new();
    for i in 0..raw_len.div_ceil(block_len) {
        // No more than the last block can have; the others are held to their own length.
        let raw = raw_len.saturating_sub(i.saturating_mul(block_len)).min(block_len);
        let most = raw.saturating_add(BLOCK_PREFIX_LEN_MAX as u64);
        let len = in_range(input.varint("block length")?, 1, most, "bytes of block")?;
        blocks.push(Piece { len, hash: read_hash(input)? });
    }
    Ok(Span { raw_len, dtype, block_log2, recipe, blocks })
}

fn in_range(value: u64, least: u64, most: u64, what: &str) -> Result<u64> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::corrupt(format!("{value} {what}, {least} to {most} expected")))
}

fn total(lengths: impl Iterator<Item = u64>, expected: u64, what: &str) -> Result<()> {
    let mut sum = Some(0_u64);
    for len in lengths {
        sum = sum.and_then(|sum| sum.checked_add(len));
    }
    if sum == Some(expected) {
        return Ok(());
    }
    let sum = sum.map_or("too many".to_string(), |sum| sum.to_string());
    Err(Error::corrupt(format!("{what} are {sum} bytes, {expected} expected")))
}
