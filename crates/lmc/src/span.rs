//! One span each way: bytes to pieces with their checksums, and back.

use crate::Reference;
use crate::effort::{Effort, HASHED_FOR_ONE};
use crate::io::zeroed;
use crate::pipeline::Buffer;
use lmc_codec::{Decoder, Dtype, Encoder, Level, Need, Plan, SharedRecipe, TensorSpec};
use lmc_format::limits::BLOCK_LOG2_MIN;
use lmc_format::{
    AnyRecipe, BlockKind, BlockPrefix, Error, ErrorKind, Hash, Piece, Reader, Result, Span, dtype,
    hash,
};
use std::ops::Range;

/// How many usual blocks make one where hardly anything differs from the base: what a block costs in
/// the index is then more than what it gains by being short.
const SPARSE_BLOCKS: usize = 4;
/// Of a sample of this many words of 8 bytes, less than one in so many differs there.
const SPARSE_SAMPLE: usize = 1 << 12;
const SPARSE_SHARE: usize = 8;

/// A span as it was coded: what goes to the body, and what the index says of it.
#[derive(Debug)]
pub(crate) struct CodedSpan {
    pub bytes: Vec<u8>,
    pub span: Span,
}

/// Encodes spans; one for each thread.
#[derive(Debug)]
pub(crate) struct SpanEncoder {
    level: Level,
    verify: bool,
    encoder: Encoder,
    decoder: Decoder,
    back: Vec<u8>,
}

impl SpanEncoder {
    pub(crate) fn new(level: Level, verify: bool) -> Self {
        let (encoder, decoder) = (Encoder::new(), Decoder::new());
        Self { level, verify, encoder, decoder, back: Vec::new() }
    }

    /// The level.
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// Codes `raw` into `bytes`, whose contents are replaced; on `base` where that is smaller, which
    /// has as many bytes and is what `reference` names. `seen` gets each block while it is in the
    /// cache: where blocks are verified, as it was decoded. So its checksums are those of what will be
    /// restored, even if `raw` is memory that somebody writes to.
    pub(crate) fn encode(
        &mut self,
        spec: &TensorSpec,
        raw: &[u8],
        base: Option<(Reference, &[u8])>,
        bytes: Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<CodedSpan> {
        match base {
            Some((reference, base)) if base == raw => {
                seen(base);
                Ok(same(spec.dtype, raw, reference, bytes))
            }
            _ => self.encode_blocks(spec, raw, base, bytes, seen),
        }
    }

    fn encode_blocks(
        &mut self,
        spec: &TensorSpec,
        raw: &[u8],
        base: Option<(Reference, &[u8])>,
        mut bytes: Vec<u8>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<CodedSpan> {
        bytes.clear();
        let plan = match base {
            Some((_, base)) => Plan::on_base(spec, self.level, raw, base),
            None => Plan::new(spec, self.level, raw),
        };
        let recipe = plan.shared_recipe();
        bytes.extend_from_slice(recipe);
        let shared = match recipe {
            [] => None,
            _ if self.verify || base.is_some() => Some(SharedRecipe::parse(recipe)?),
            _ => None,
        };
        let block_len = match base {
            Some((_, base)) if self.level != Level::Paper && hardly_differs(raw, base) => {
                SPARSE_BLOCKS * plan.block_len()
            }
            _ => plan.block_len(),
        };
        let mut span = Span {
            raw_len: raw.len() as u64,
            dtype: dtype_id(spec.dtype),
            block_log2: block_len.trailing_zeros() as u8,
            reference: None,
            recipe: (!recipe.is_empty()).then(|| piece(recipe)),
            blocks: Vec::with_capacity(raw.len().div_ceil(block_len)),
        };
        let mut place = 0;
        for block in raw.chunks(block_len) {
            let start = bytes.len();
            if !self.verify {
                seen(block);
            }
            let first_value = (place / spec.dtype.width()) as u64;
            let own_base = base.map(|(_, base)| &base[place..][..block.len()]);
            match own_base {
                None => self.encoder.encode_block(&plan, first_value, block, &mut bytes),
                Some(base) => {
                    self.encoder.encode_block_on(&plan, first_value, block, base, &mut bytes);
                }
            }
            place += block.len();
            if self.verify {
                self.check(&bytes[start..], shared.as_ref(), own_base, block)?;
                seen(&self.back);
            }
            if let (Some((reference, _)), None) = (base, span.reference)
                && needs_base(&bytes[start..], shared.as_ref())?
            {
                span.reference = Some(reference);
            }
            span.blocks.push(piece(&bytes[start..]));
        }
        Ok(CodedSpan { bytes, span })
    }

    /// Fails unless `coded` decodes to `block`.
    fn check(
        &mut self,
        coded: &[u8],
        shared: Option<&SharedRecipe>,
        base: Option<&[u8]>,
        block: &[u8],
    ) -> Result<()> {
        self.back.resize(block.len(), 0);
        let decoded = self.decoder.decode_block_on(coded, shared, base, &mut self.back);
        if decoded.is_ok() && self.back == block {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Io,
            "a coded block does not give its bytes back: the input changed while it was read, or \
             memory or lmc is at fault; nothing was written",
        ))
    }
}

/// Whether a span is its base but for few words, by some of them.
fn hardly_differs(raw: &[u8], base: &[u8]) -> bool {
    let (raw, base) = (raw.as_chunks::<8>().0, base.as_chunks::<8>().0);
    let step = (raw.len() / SPARSE_SAMPLE).max(1);
    let pairs = || raw.iter().step_by(step).zip(base.iter().step_by(step));
    let differing = pairs().filter(|(a, b)| a != b).count();
    differing * SPARSE_SHARE < pairs().count()
}

/// A span that is its base: one block, however long it is.
fn same(dtype: Dtype, raw: &[u8], reference: Reference, mut bytes: Vec<u8>) -> CodedSpan {
    bytes.clear();
    BlockPrefix { kind: BlockKind::Same, raw_len: raw.len() }.write(&mut bytes);
    let block_log2 = raw.len().next_power_of_two().trailing_zeros() as u8;
    let span = Span {
        raw_len: raw.len() as u64,
        dtype: dtype_id(dtype),
        block_log2: block_log2.max(BLOCK_LOG2_MIN),
        reference: Some(reference),
        recipe: None,
        blocks: vec![piece(&bytes)],
    };
    CodedSpan { bytes, span }
}

/// Whether a block cannot be decoded without its base.
fn needs_base(block: &[u8], shared: Option<&SharedRecipe>) -> Result<bool> {
    let mut input = Reader::new(block);
    Ok(match BlockPrefix::read(&mut input)?.kind {
        BlockKind::Stored | BlockKind::Constant => false,
        BlockKind::Same => true,
        BlockKind::Coded => AnyRecipe::read(&mut input)?.needs_base(),
        BlockKind::Shared => shared.is_some_and(|shared| shared.recipe().needs_base()),
    })
}

fn piece(bytes: &[u8]) -> Piece {
    Piece { len: bytes.len() as u64, hash: hash(bytes) }
}

/// Decodes spans; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct SpanDecoder {
    decoder: Decoder,
    base: Buffer,
    wide: Buffer,
}

/// What of a span is decoded.
pub(crate) struct SpanPart<'a> {
    /// The span.
    pub span: &'a Span,
    /// Its recipe, if there is one, and its blocks from the one that holds `wanted.start` on.
    pub coded: &'a [u8],
    /// The part, in the span.
    pub wanted: Range<u64>,
}

/// A block that is to be decoded.
struct Block<'a> {
    number: usize,
    coded: &'a [u8],
    /// In the span.
    bounds: Range<u64>,
    /// What of it is wanted, in the span.
    part: Range<u64>,
    /// What it takes.
    need: Need,
}

impl Block<'_> {
    /// What of the base it needs, in the span.
    fn base(&self) -> Option<Range<u64>> {
        self.need.base.as_ref().map(|base| self.in_span(base))
    }

    fn in_span(&self, range: &Range<usize>) -> Range<u64> {
        self.bounds.start + range.start as u64..self.bounds.start + range.end as u64
    }
}

/// Blocks of a span whose checksums are right, and their recipe.
struct Checked<'a> {
    recipe: Option<SharedRecipe>,
    blocks: Vec<Block<'a>>,
}

impl<'a> Checked<'a> {
    /// Reads what is wanted of a span. Counts what it will take to decode it, before anything is.
    fn read(part: &SpanPart<'a>, effort: Effort) -> Result<Self> {
        let SpanPart { span, coded, wanted } = part;
        let mut rest = *coded;
        let recipe = match &span.recipe {
            Some(piece) => {
                let bytes = take(&mut rest, piece, "shared recipe", effort)?;
                let parse = || {
                    effort.decode(SharedRecipe::cost(bytes)? as u64)?;
                    SharedRecipe::parse(bytes)
                };
                Some(parse().map_err(|e| e.at("shared recipe"))?)
            }
            None => None,
        };
        let read = |i| read_block(span, i, wanted, &mut rest, recipe.as_ref(), effort);
        let blocks = blocks_of(span, wanted).map(read).collect::<Result<Vec<Block>>>()?;
        Ok(Self { recipe, blocks })
    }
}

impl SpanDecoder {
    /// Decodes part of a span; all that is read is checked, and what it takes is counted by `effort`.
    ///
    /// `out` is as long as what is wanted. `read_base` gets a part of the span's base; it is called at
    /// most once, for no more than the blocks need. `seen` gets what was decoded, block by block, while
    /// it is in the cache.
    pub(crate) fn decode(
        &mut self,
        part: &SpanPart,
        out: &mut [u8],
        effort: Effort,
        read_base: impl FnOnce(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
        seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let checked = Checked::read(part, effort)?;
        self.decode_blocks(part.span, &checked, out, read_base, seen)
    }

    /// The same for a part of one block; what is decoded is what of the block costs no more. Returns
    /// where it starts in the span, and its bytes.
    pub(crate) fn decode_wide(
        &mut self,
        part: &SpanPart,
        effort: Effort,
        read_base: impl FnOnce(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
    ) -> Result<(u64, Vec<u8>)> {
        let mut checked = Checked::read(part, effort)?;
        for block in &mut checked.blocks {
            block.part = block.in_span(&block.need.whole);
        }
        let start = checked.blocks.first().map_or(0, |block| block.part.start);
        let len: u64 = checked.blocks.iter().map(|block| block.part.end - block.part.start).sum();
        let mut out = zeroed(len)?;
        self.decode_blocks(part.span, &checked, &mut out, read_base, |_| ())?;
        Ok((start, out))
    }

    fn decode_blocks(
        &mut self,
        span: &Span,
        checked: &Checked,
        out: &mut [u8],
        read_base: impl FnOnce(&Reference, Range<u64>, &mut Buffer, &mut [u8]) -> Result<()>,
        mut seen: impl FnMut(&[u8]),
    ) -> Result<()> {
        let Checked { recipe, blocks } = checked;
        let based = read_hull(span, blocks);
        if !based.is_empty() {
            let reference = span.reference.as_ref().ok_or_else(no_reference)?;
            let base = self.base.sized(based.end - based.start)?;
            read_base(reference, based.clone(), &mut self.wide, base)?;
        }
        let mut out = out;
        for block in blocks {
            let (to, after) = out.split_at_mut((block.part.end - block.part.start) as usize);
            out = after;
            self.decode_block(block, recipe.as_ref(), based.start, to)
                .map_err(|e| e.at(format_args!("block {}", block.number)))?;
            seen(to);
        }
        Ok(())
    }

    /// Decodes what is wanted of a block; the base is there from byte `based` of the span on.
    fn decode_block(
        &mut self,
        block: &Block,
        recipe: Option<&SharedRecipe>,
        based: u64,
        to: &mut [u8],
    ) -> Result<()> {
        let base = block.base().map(|base| {
            &self.base.bytes()[(base.start - based) as usize..(base.end - based) as usize]
        });
        let Block { coded, bounds, part, .. } = block;
        if part == bounds {
            return self.decoder.decode_block_on(coded, recipe, base, to);
        }
        let base = block.need.base.as_ref().zip(base).map(|(need, base)| (need.start, base));
        let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
        self.decoder.decode_range_on(coded, recipe, base, range, to)
    }
}

/// Takes block `i` from `rest` and checks it.
fn read_block<'a>(
    span: &Span,
    i: usize,
    wanted: &Range<u64>,
    rest: &mut &'a [u8],
    recipe: Option<&SharedRecipe>,
    effort: Effort,
) -> Result<Block<'a>> {
    let place = format!("block {i}");
    let coded = take(rest, &span.blocks[i], &place, effort)?;
    let bounds = block_bounds(span, i);
    let raw_len = Decoder::raw_len(coded).map_err(|e| e.at(&place))?;
    if raw_len as u64 != bounds.end - bounds.start {
        return Err(Error::corrupt(format!("{place} has another length than the index says")));
    }
    let part = wanted.start.max(bounds.start)..wanted.end.min(bounds.end);
    let range = (part.start - bounds.start) as usize..(part.end - bounds.start) as usize;
    let need = Decoder::need(coded, recipe, &range).map_err(|e| e.at(&place))?;
    effort.decode(need.writes as u64)?;
    Ok(Block { number: i, coded, bounds, part, need })
}

/// What of the span's base the blocks need, from the first to the last byte; whole words, if they
/// are converted.
fn read_hull(span: &Span, blocks: &[Block]) -> Range<u64> {
    let mut bases = blocks.iter().filter_map(Block::base);
    let Some(first) = bases.next() else { return 0..0 };
    let end = bases.next_back().map_or(first.end, |last| last.end);
    first.start & !1..end.next_multiple_of(2).min(span.raw_len)
}

/// The start of `wanted` that is decoded at once: whole blocks, or, as the flag says, a part of one.
pub(crate) fn first_part(span: &Span, wanted: &Range<u64>) -> (Range<u64>, bool) {
    let block = block_bounds(span, (wanted.start >> span.block_log2) as usize);
    if wanted.start > block.start || wanted.end < block.end {
        return (wanted.start..wanted.end.min(block.end), true);
    }
    let end = if wanted.end < span.raw_len {
        wanted.end >> span.block_log2 << span.block_log2
    } else {
        span.raw_len
    };
    (wanted.start..end, false)
}

fn no_reference() -> Error {
    Error::corrupt("a block needs a base, and its span refers to none")
}

/// The original bytes of block `i`.
pub(crate) fn block_bounds(span: &Span, i: usize) -> Range<u64> {
    let start = (i as u64) << span.block_log2;
    start..span.raw_len.min(start + (1 << span.block_log2))
}

/// The blocks that hold the original bytes `wanted`.
pub(crate) fn blocks_of(span: &Span, wanted: &Range<u64>) -> Range<usize> {
    if wanted.is_empty() {
        return 0..0;
    }
    (wanted.start >> span.block_log2) as usize..((wanted.end - 1) >> span.block_log2) as usize + 1
}

fn take<'a>(rest: &mut &'a [u8], piece: &Piece, what: &str, effort: Effort) -> Result<&'a [u8]> {
    effort.decode(piece.len / HASHED_FOR_ONE)?;
    let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
    let (bytes, after) = rest
        .split_at_checked(len)
        .ok_or_else(|| Error::truncated(format!("{what} is not all there")))?;
    *rest = after;
    check(bytes, piece.hash, what)?;
    Ok(bytes)
}

/// Fails unless `bytes` have the checksum `expected`.
pub(crate) fn check(bytes: &[u8], expected: Hash, what: &str) -> Result<()> {
    check_hash(hash(bytes), expected, what)
}

/// Fails unless both checksums are the same.
pub(crate) fn check_hash(found: Hash, expected: Hash, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{what} is damaged: checksum {found:032x}, {expected:032x} expected; get another copy"
    )))
}

/// The index's id of a codec type.
fn dtype_id(of: Dtype) -> u8 {
    let name = match of {
        Dtype::Bytes => "bytes",
        Dtype::Bf16 => "bf16",
        Dtype::F16 => "f16",
        Dtype::F32 => "f32",
        Dtype::F64 => "f64",
        Dtype::F8E4M3 => "f8_e4m3",
        Dtype::F8E5M2 => "f8_e5m2",
        Dtype::F8E4M3Fnuz => "f8_e4m3fnuz",
        Dtype::F8E5M2Fnuz => "f8_e5m2fnuz",
        Dtype::F8E8M0 => "f8_e8m0",
        Dtype::I8 => "i8",
        Dtype::I16 => "i16",
        Dtype::I32 => "i32",
        Dtype::I64 => "i64",
        Dtype::U8 => "u8",
        Dtype::U16 => "u16",
        Dtype::U32 => "u32",
        Dtype::U64 => "u64",
        Dtype::Bool => "bool",
        Dtype::Complex32 => "c32",
        Dtype::Complex64 => "c64",
        Dtype::Complex128 => "c128",
    };
    dtype::id(name).unwrap_or(0)
}
