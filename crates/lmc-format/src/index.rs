//! The index of a file (`docs/format.md`, section 7): where everything is, and the checksums.

use crate::dtype::DtypeId;
use crate::error::{Error, Result};
use crate::hash::{Hash, hash_of_hashes};
use crate::limits::{
    BASES_MAX, BLOCK_LOG2_MAX, BLOCK_LOG2_MIN, BLOCK_PREFIX_LEN_MAX, RECIPE_LEN_MAX, SPAN_LEN_MAX,
};
use crate::reader::Reader;
use crate::reference::{BaseId, Reference};
use crate::stored_index::StoredIndex;
use crate::varint;

/// Set in the kind byte if bases follow.
pub(crate) const HAS_BASES: u8 = 1 << 7;
/// Set in the byte of a span's element type if it has a reference.
const HAS_REFERENCE: u8 = 1 << 7;

/// What the original is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Any file.
    Bytes = 0,
    /// A safetensors file: the first item is everything before the tensor bytes, then come the
    /// tensors.
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

/// A stretch of the original that was planned as one, and the pieces that it became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Original bytes.
    pub raw_len: u64,
    /// Element type that they were coded as.
    pub dtype: DtypeId,
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

/// A part of the original that has its own checksum: a tensor, or the bytes between tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Original bytes.
    pub len: u64,
    /// Checksum of the bytes, or of the checksums of the spans that they consist of.
    pub hash: Hash,
}

/// The index of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// What the original is.
    pub kind: SourceKind,
    /// The bases that spans may refer to.
    pub bases: Vec<BaseId>,
    /// The spans, back to back.
    pub spans: Vec<Span>,
    /// The items, back to back.
    pub items: Vec<Item>,
}

impl Index {
    /// The content hash of the original: equal for equal files.
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
            out.extend_from_slice(&[span.dtype.number() | has_reference, span.block_log2]);
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

    /// Reads the index of a file whose body and original have these lengths, all of it into memory;
    /// a [`StoredIndex`] takes less.
    pub fn read(bytes: &[u8], body_len: u64, original_len: u64) -> Result<Self> {
        StoredIndex::read(bytes.to_vec(), body_len, original_len)?.to_index()
    }
}

fn write_piece(piece: &Piece, out: &mut Vec<u8>) {
    varint::write(out, piece.len);
    out.extend_from_slice(&piece.hash.to_le_bytes());
}

fn read_hash(input: &mut Reader) -> Result<Hash> {
    Ok(Hash::from_le_bytes(input.array("checksum")?))
}

pub(crate) fn read_item(input: &mut Reader) -> Result<Item> {
    Ok(Item { len: input.varint("length")?, hash: read_hash(input)? })
}

pub(crate) fn read_bases(input: &mut Reader) -> Result<Vec<BaseId>> {
    let count = in_range(input.varint("number of bases")?, 0, BASES_MAX, "bases")?;
    let base = |i| BaseId::read(input).map_err(|e| e.at(format_args!("base {i}")));
    (0..count).map(base).collect()
}

/// A span without its blocks.
pub(crate) struct SpanHead {
    pub raw_len: u64,
    pub dtype: DtypeId,
    pub block_log2: u8,
    pub reference: Option<Reference>,
    pub recipe: Option<Piece>,
}

/// Reads a span up to its blocks.
pub(crate) fn read_span_head(input: &mut Reader, has_bases: bool) -> Result<SpanHead> {
    let raw_len = in_range(input.varint("length")?, 1, SPAN_LEN_MAX, "original bytes")?;
    let dtype = input.u8("element type")?;
    let has_reference = has_bases && dtype & HAS_REFERENCE != 0;
    let dtype = if has_reference { dtype & !HAS_REFERENCE } else { dtype };
    let dtype = DtypeId::new(dtype)
        .ok_or_else(|| Error::corrupt("a span has a reference, but the file names no base"))?;
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
    Ok(SpanHead { raw_len, dtype, block_log2, reference, recipe })
}

/// Reads the blocks of a span, one after the other.
pub(crate) fn read_blocks(
    input: &mut Reader,
    head: &SpanHead,
    mut found: impl FnMut(Piece),
) -> Result<()> {
    let block_len = 1_u64.checked_shl(u32::from(head.block_log2)).unwrap_or(u64::MAX);
    for i in 0..head.raw_len.div_ceil(block_len) {
        // No more than the last block can have; the others are checked against their own length.
        let raw = head.raw_len.saturating_sub(i.saturating_mul(block_len)).min(block_len);
        let most = raw.saturating_add(BLOCK_PREFIX_LEN_MAX as u64);
        let len = in_range(input.varint("block length")?, 1, most, "bytes of block")?;
        found(Piece { len, hash: read_hash(input)? });
    }
    Ok(())
}

fn in_range(value: u64, least: u64, most: u64, what: &str) -> Result<u64> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Error::corrupt(format!("{value} {what}, {least} to {most} expected")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::reference::Conversion;

    const BODY_LEN: u64 = 4;

    /// An index of four spans of 100 bytes, with these references, and a base of 150 bytes.
    fn index(references: [Option<(u64, u64, Conversion)>; 4]) -> Index {
        let span = |reference: Option<(u64, u64, Conversion)>| Span {
            raw_len: 100,
            dtype: Dtype::Bf16.id(),
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
            bases: vec![BaseId { hash: 5, len: 150, name: "old".to_string() }],
            spans: references.map(span).to_vec(),
            items: vec![Item { len: 400, hash: 3 }],
        }
    }

    fn read(index: &Index) -> Result<Index> {
        Index::read(&index.write(), BODY_LEN, 400)
    }

    /// References are read back, and so are bases that no span refers to.
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

    /// The type of a later writer is accepted, since no decoder needs it; a reference without a
    /// base is not.
    #[test]
    fn unknown_dtypes_are_kept() {
        let mut index = index([None; 4]);
        index.bases.clear();
        let unknown = DtypeId::new(127);
        index.spans[0].dtype = unknown.unwrap_or(Dtype::Bytes.id());
        assert_eq!(index.spans[0].dtype.number(), 127);
        let mut bytes = index.write();
        assert_eq!(Index::read(&bytes, BODY_LEN, 400), Ok(index));
        bytes[3] |= HAS_REFERENCE;
        assert!(Index::read(&bytes, BODY_LEN, 400).is_err());
    }

    /// References to bytes that are not there, that come later, or that themselves need other bytes
    /// of this file are refused.
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
    /// bases, invalid names, too many bases.
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
