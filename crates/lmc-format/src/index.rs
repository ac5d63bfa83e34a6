//! The index of a file (`docs/format.md`, section 7): where everything is, and the checksums.

use crate::arrangement::Arrangement;
use crate::dtype::DtypeId;
use crate::error::{Error, Result};
use crate::hash::{Hash, hash_of_hashes};
use crate::limits::{
    BASE_STRETCHES_MAX, BASES_MAX, BLOCK_LOG2_MAX, BLOCK_LOG2_MIN, BLOCK_PREFIX_LEN_MAX,
    RECIPE_LEN_MAX, SPAN_LEN_MAX,
};
use crate::reader::Reader;
use crate::reference::{BaseId, Reference};
use crate::stored_index::StoredIndex;
use crate::varint;

/// Set in the kind byte if bases follow.
pub(crate) const HAS_BASES: u8 = 1 << 7;
/// Set in the kind byte if each base has an arrangement.
pub(crate) const HAS_ORDERS: u8 = 1 << 6;
/// What is written for a base in its own order, and for one with the stretches of this original.
const OWN_ORDER: u64 = 0;
const SAME_STRETCHES: u64 = 1;
/// Set in the byte of a span's element type if it has a reference.
const HAS_REFERENCE: u8 = 1 << 7;

/// What the original is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// Any file, as archives without an arrangement hold it.
    #[default]
    Bytes = 0,
    /// A safetensors file: the first item is everything before the tensor bytes, then come the
    /// tensors.
    Safetensors = 1,
    /// Any file: the first item is everything outside the stretches of the arrangement, then come
    /// the stretches.
    Arranged = 2,
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

/// What the index of an arranged original says in addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arranged {
    /// The content hash of the original: the hash of the hashes of its leaves.
    pub content_hash: Hash,
    /// The order of its bytes in the spans.
    pub order: Arrangement,
}

/// The index of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// What the original is.
    pub kind: SourceKind,
    /// The bases that spans may refer to.
    pub bases: Vec<BaseId>,
    /// The order in which the bytes of each base are counted; none if all are in their own order.
    pub base_orders: Vec<Arrangement>,
    /// The spans, back to back.
    pub spans: Vec<Span>,
    /// The items, back to back.
    pub items: Vec<Item>,
    /// Present for [`SourceKind::Arranged`] only.
    pub arranged: Option<Arranged>,
}

impl Index {
    /// The content hash of the original: equal for equal files.
    pub fn content_hash(&self) -> Hash {
        match &self.arranged {
            Some(arranged) => arranged.content_hash,
            None => hash_of_hashes(&self.items.iter().map(|item| item.hash).collect::<Vec<_>>()),
        }
    }

    /// The index as bytes.
    pub fn write(&self) -> Vec<u8> {
        let has_bases =
            !self.bases.is_empty() || self.spans.iter().any(|span| span.reference.is_some());
        let has_orders = !self.base_orders.iter().all(Arrangement::is_plain);
        let flags = if has_bases { HAS_BASES } else { 0 } | if has_orders { HAS_ORDERS } else { 0 };
        let mut out = vec![self.kind as u8 | flags];
        if has_bases {
            varint::write(&mut out, self.bases.len() as u64);
            for (i, base) in self.bases.iter().enumerate() {
                base.write(&mut out);
                if has_orders {
                    self.write_order(self.base_orders.get(i), &mut out);
                }
            }
        }
        if let Some(arranged) = &self.arranged {
            out.extend_from_slice(&arranged.content_hash.to_le_bytes());
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
        let mut stretches = self.arranged.iter().flat_map(|own| own.order.stretches());
        for (i, item) in self.items.iter().enumerate() {
            if i > 0
                && let Some((before, _)) = stretches.next()
            {
                varint::write(&mut out, before);
            }
            varint::write(&mut out, item.len);
            out.extend_from_slice(&item.hash.to_le_bytes());
        }
        out
    }

    fn write_order(&self, order: Option<&Arrangement>, out: &mut Vec<u8>) {
        let own = self.arranged.as_ref().map(|own| &own.order);
        let is_own = |order: &Arrangement| {
            own.is_some_and(|own| own.count() > 0 && own.stretches().eq(order.stretches()))
        };
        match order {
            None => varint::write(out, OWN_ORDER),
            Some(order) if order.is_plain() => varint::write(out, OWN_ORDER),
            Some(order) if is_own(order) => varint::write(out, SAME_STRETCHES),
            Some(order) => {
                varint::write(out, SAME_STRETCHES.saturating_add(order.count() as u64));
                for (before, len) in order.stretches() {
                    varint::write(out, before);
                    varint::write(out, len);
                }
            }
        }
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

/// Reads an item; one of the stretches of an arrangement begins with the bytes before it.
pub(crate) fn read_item(input: &mut Reader, is_stretch: bool) -> Result<(u64, Item)> {
    let before = if is_stretch { input.varint("bytes before it")? } else { 0 };
    Ok((before, Item { len: input.varint("length")?, hash: read_hash(input)? }))
}

pub(crate) fn read_hash(input: &mut Reader) -> Result<Hash> {
    Ok(Hash::from_le_bytes(input.array("checksum")?))
}

/// The order in which the bytes of a base are counted, as it is written.
pub(crate) enum BaseOrder {
    /// Its own.
    Own,
    /// That of the stretches of the archive's original.
    Same,
    /// That of other stretches.
    Listed(Arrangement),
}

/// The bases, and the order in which the bytes of each are counted.
pub(crate) fn read_bases(
    input: &mut Reader,
    has_orders: bool,
) -> Result<(Vec<BaseId>, Vec<BaseOrder>)> {
    let count = in_range(input.varint("number of bases")?, 0, BASES_MAX, "bases")?;
    let (mut bases, mut orders) = (Vec::new(), Vec::new());
    let mut left = BASE_STRETCHES_MAX;
    for i in 0..count {
        let at = |e: Error| e.at(format_args!("base {i}"));
        let base = BaseId::read(input).map_err(at)?;
        if has_orders {
            orders.push(read_order(input, base.len, &mut left).map_err(at)?);
        }
        bases.push(base);
    }
    Ok((bases, orders))
}

/// Reads the order of a base of `len` bytes; `left` is how many stretches there may still be.
fn read_order(input: &mut Reader, len: u64, left: &mut usize) -> Result<BaseOrder> {
    let count = match input.varint("number of stretches")? {
        OWN_ORDER => return Ok(BaseOrder::Own),
        SAME_STRETCHES => return Ok(BaseOrder::Same),
        more => more.saturating_sub(SAME_STRETCHES),
    };
    in_range(count, 1, *left as u64, "stretches")?;
    let mut stretches = Vec::new();
    for _ in 0..count {
        *left = left.saturating_sub(1);
        stretches.push((input.varint("bytes before a stretch")?, input.varint("stretch")?));
    }
    Ok(BaseOrder::Listed(Arrangement::new(len, stretches)?))
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
            ..Index::default()
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
            [
                None,
                Some((0, 50, Conversion::Bf16Widened)),
                None,
                Some((1, 100, Conversion::F16Widened)),
            ],
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
            [Some((1, 101, Conversion::Bf16Widened)), None, None, None],
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
        let mut odd = index([None, None, Some((0, 0, Conversion::F16Widened)), None]);
        (odd.spans[1].raw_len, odd.spans[2].raw_len) = (98, 102);
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
            [(conversion, 7), (name, b'/'), (name, 0), (name, 0xff), (name, b'\n'), (1, 0), (0, 0)]
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
