//! The index of a file (`docs/format.md`, section 7): where everything is, and its checksum.

use crate::dtype;
use crate::error::{Error, Result};
use crate::hash::{Hash, hash_of_hashes};
use crate::limits::{
    BASES_MAX, BLOCK_LOG2_MAX, BLOCK_LOG2_MIN, BLOCK_PREFIX_LEN_MAX, RECIPE_LEN_MAX, SPAN_LEN_MAX,
};
use crate::reader::Reader;
use crate::reference::{Base, Conversion, Reference};
use crate::varint;

/// Set in the byte of the kind when bases follow.
const HAS_BASES: u8 = 1 << 7;
/// Set in the byte of a span's element type when it has a reference.
const HAS_REFERENCE: u8 = 1 << 7;

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
    /// What its blocks may be coded against.
    pub reference: Option<Reference>,
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
    /// What spans may refer to.
    pub bases: Vec<Base>,
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
        let has_bases =
            !self.bases.is_empty() || self.spans.iter().any(|span| span.reference.is_some());
        let mut out = vec![self.kind as u8 | if has_bases { HAS_BASES } else { 0 }];
        if has_bases {
            varint::write(&mut out, self.bases.len() as u64);
            self.bases.iter().for_each(|base| base.write(&mut out));
        }
        varint::write(&mut out, self.spans.len() as u64);
        for span in &self.spans {
            varint::write(&mut out, span.raw_len);
            let has_reference = if span.reference.is_some() { HAS_REFERENCE } else { 0 };
            out.extend_from_slice(&[span.dtype | has_reference, span.block_log2]);
            span.reference.iter().for_each(|reference| reference.write(&mut out));
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
        let kind = input.u8("kind of original")?;
        let has_bases = kind & HAS_BASES != 0;
        let kind = match kind & !HAS_BASES {
            0 => SourceKind::Bytes,
            1 => SourceKind::Safetensors,
            other => return Err(Error::corrupt(format!("unknown kind of original {other}"))),
        };
        let bases = if has_bases { read_bases(&mut input)? } else { Vec::new() };
        let mut spans = Vec::new();
        for i in 0..input.varint("number of spans")? {
            let span = read_span(&mut input, has_bases);
            spans.push(span.map_err(|e| e.at(format_args!("span {i}")))?);
        }
        let mut items = Vec::new();
        for i in 0..input.varint("number of items")? {
            items.push(read_item(&mut input).map_err(|e| e.at(format_args!("item {i}")))?);
        }
        input.finish("the index")?;
        let index = Self { kind, bases, spans, items };
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
        self.check_references(&ends)?;
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

    /// Fails unless every reference is to bytes that are there, and those to this file's own
    /// original are to earlier spans that need no other part of it. `ends` are those of the spans.
    fn check_references(&self, ends: &[u64]) -> Result<()> {
        // How many of the spans before each have a reference to this file.
        let mut own_before = Vec::with_capacity(self.spans.len());
        let mut own = 0_usize;
        for (i, (span, &end)) in self.spans.iter().zip(ends).enumerate() {
            own_before.push(own);
            let Some(reference) = &span.reference else { continue };
            if reference.conversion != Conversion::None && span.raw_len % 2 != 0 {
                let len = span.raw_len;
                return Err(Error::corrupt(format!("span {i}: {len} bytes converted from f32")));
            }
            let refers = reference.start..reference.end(span.raw_len);
            let is_inside = if reference.is_own() {
                own = own.saturating_add(1);
                let first = ends.partition_point(|&e| e <= refers.start);
                let last = ends.partition_point(|&e| e < refers.end);
                refers.end <= end.saturating_sub(span.raw_len)
                    && own_before.get(first) == own_before.get(last.saturating_add(1))
            } else {
                let base = usize::try_from(reference.source.saturating_sub(1)).ok();
                let base = base.and_then(|base| self.bases.get(base));
                base.is_some_and(|base| refers.end <= base.len)
            };
            if !is_inside {
                return Err(Error::corrupt(format!(
                    "span {i} refers to bytes {} to {} of source {}, which it cannot",
                    refers.start, refers.end, reference.source
                )));
            }
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

fn read_bases(input: &mut Reader) -> Result<Vec<Base>> {
    let count = in_range(input.varint("number of bases")?, 0, BASES_MAX, "bases")?;
    let base = |i| Base::read(input).map_err(|e| e.at(format_args!("base {i}")));
    (0..count).map(base).collect()
}

fn read_span(input: &mut Reader, has_bases: bool) -> Result<Span> {
    let raw_len = in_range(input.varint("length")?, 1, SPAN_LEN_MAX, "original bytes")?;
    let dtype = input.u8("element type")?;
    let has_reference = has_bases && dtype & HAS_REFERENCE != 0;
    let dtype = if has_reference { dtype & !HAS_REFERENCE } else { dtype };
    if dtype::name(dtype).is_none() {
        return Err(Error::corrupt(format!("unknown element type {dtype}")));
    }
    let block_log2 = input.u8("block length")?;
    if !(BLOCK_LOG2_MIN..=BLOCK_LOG2_MAX).contains(&block_log2) {
        return Err(Error::corrupt(format!("blocks of 2^{block_log2} bytes")));
    }
    let reference = if has_reference { Some(Reference::read(input)?) } else { None };
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
    Ok(Span { raw_len, dtype, block_log2, reference, recipe, blocks })
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

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_LEN: u64 = 4;

    /// An index of four spans of 100 bytes, with these references, on a base of 150 bytes.
    fn index(references: [Option<(u64, u64, Conversion)>; 4]) -> Index {
        let span = |reference: Option<(u64, u64, Conversion)>| Span {
            raw_len: 100,
            dtype: 1,
            block_log2: 10,
            reference: reference.map(|(source, start, conversion)| Reference {
                source,
                start,
                conversion,
            }),
            recipe: None,
            blocks: vec![Piece { len: 1, hash: 2 }],
        };
        Index {
            kind: SourceKind::Bytes,
            bases: vec![Base { hash: 5, len: 150, name: "old".to_string() }],
            spans: references.map(span).to_vec(),
            items: vec![Item { len: 400, hash: 3 }],
        }
    }

    fn read(index: &Index) -> Result<Index> {
        Index::read(&index.write(), BODY_LEN, 400)
    }

    /// References come back, and so do bases that no span refers to.
    #[test]
    fn references_come_back() {
        let plain = Conversion::None;
        for references in [
            [None; 4],
            [Some((1, 0, plain)), Some((1, 50, plain)), Some((0, 100, plain)), None],
            [None, None, Some((0, 0, Conversion::F16Cut)), Some((0, 100, plain))],
        ] {
            let index = index(references);
            assert_eq!(read(&index), Ok(index));
        }
    }

    /// A file without bases and references has no trace of them.
    #[test]
    fn nothing_is_written_for_no_base() {
        let mut index = index([None; 4]);
        index.bases.clear();
        assert_eq!(index.write()[..5], [0, 4, 100, 1, 10]);
        assert_eq!(read(&index), Ok(index));
    }

    /// Bytes that are not there, or not yet, or that need others of this file, are refused.
    #[test]
    fn wrong_references_are_refused() {
        let plain = Conversion::None;
        for references in [
            [Some((1, 51, plain)), None, None, None],
            [Some((1, u64::MAX, plain)), None, None, None],
            [Some((1, 0, Conversion::Bf16Cut)), None, None, None],
            [Some((2, 0, plain)), None, None, None],
            [Some((u64::MAX, 0, plain)), None, None, None],
            [Some((0, 0, plain)), None, None, None],
            [None, Some((0, 1, plain)), None, None],
            [None, Some((0, 0, Conversion::Bf16Cut)), None, None],
            [None, Some((0, 0, plain)), Some((0, 100, plain)), None],
            [None, Some((0, 0, plain)), None, Some((0, 1, plain))],
            [None, Some((0, 0, plain)), None, Some((0, 199, plain))],
        ] {
            let error = read(&index(references)).unwrap_err();
            assert!(error.to_string().contains("refers to"), "{references:?}: {error}");
        }
        let mut odd = index([None, None, Some((0, 0, Conversion::Bf16Cut)), None]);
        (odd.spans[1].raw_len, odd.spans[2].raw_len) = (101, 99);
        assert!(read(&odd).is_err());
    }

    /// Every byte of references and bases is checked: an unknown conversion, a reference without
    /// bases, names that are no names, too many bases.
    #[test]
    fn wrong_fields_are_refused() {
        let good = index([Some((1, 7, Conversion::None)), None, None, None]);
        let bytes = good.write();
        // Kind, count, hash, length (2), length of name, name; then the spans.
        let name = 2 + 16 + 2 + 1;
        assert_eq!(&bytes[name..name + 3], b"old");
        let conversion = name + 3 + 1 + 1 + 2 + 2;
        assert_eq!(bytes[conversion - 2..=conversion], [1, 7, 0]);
        for (place, byte) in
            [(conversion, 5), (name, b'/'), (name, 0), (name, 0xff), (name, b'\n'), (1, 0), (0, 0)]
        {
            let mut bytes = bytes.clone();
            bytes[place] = byte;
            assert!(Index::read(&bytes, BODY_LEN, 400).is_err(), "{byte} at {place}");
        }
        for name in ["", ".", "..", "a/b", "tab\t", "\u{85}", &"x".repeat(256)] {
            let mut index = good.clone();
            index.bases[0].name = name.to_string();
            assert!(read(&index).is_err(), "{name}");
        }
        let mut many = good.clone();
        many.bases = vec![good.bases[0].clone(); 1025];
        assert!(read(&many).is_err());
        many.bases.pop();
        assert_eq!(read(&many), Ok(many));
    }
}
