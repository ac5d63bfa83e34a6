//! Decodes one block to bytes. The input is hostile: every length is checked before it is used.

use crate::buffers::RecipeBuffers;
use crate::entropy::{PlaneDecoder, Scratch};
use crate::need::{Need, RecipeShape, segment_len, widened};
use crate::recipe_decoder::{PlaneRecipeDecoder, RecipeDecoder};
use crate::segment::{SegmentTarget, segment_error};
use crate::simd::chain::Hints;
use crate::simd::{Isa, fence};
use crate::transform::against;
use crate::transform::offsets::BlockOffsets;
use crate::zstd::ZstdDecoder;
use lmc_format::{
    AnyRecipe, BaseUse, BinRules, BlockKind, BlockPrefix, Coder, Error, Reader, Result,
};
use std::ops::Range;

/// Unit of decoding in a stored or constant block when only a part is wanted, in bytes.
const PLAIN_UNIT: usize = 1 << 16;

/// A recipe stored outside the blocks that use it, ready to decode with.
#[derive(Debug)]
pub struct SharedRecipe(RecipeDecoder, RecipeShape);

impl SharedRecipe {
    /// Reads the bytes that [`crate::Plan::shared_recipe`] gave. Fails on any others.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let shape = RecipeShape::parse(bytes)?;
        let mut input = Reader::new(bytes);
        let prepared = RecipeDecoder::read(Isa::best(), &mut input)?;
        input.finish("the recipe")?;
        Ok(Self(prepared, shape))
    }

    /// The recipe.
    pub fn recipe(&self) -> AnyRecipe {
        match &self.0 {
            RecipeDecoder::Planes(prepared) => AnyRecipe::Planes(prepared.recipe.clone()),
            RecipeDecoder::Classes(recipe, _) => AnyRecipe::Classes(recipe.clone()),
            RecipeDecoder::Bins(recipe, _) => AnyRecipe::Bins((**recipe).clone()),
            RecipeDecoder::Changes(recipe, _) => AnyRecipe::Changes(recipe.clone()),
            RecipeDecoder::Palette(recipe, _) => AnyRecipe::Palette(recipe.clone()),
        }
    }

    /// The facts about it that tell how much work part of a block takes.
    pub fn shape(&self) -> RecipeShape {
        self.1
    }
}

/// The parts of a coded block's body.
struct Body<'a> {
    tail: &'a [u8],
    /// Of the rows.
    first: usize,
    rows: Vec<u8>,
    index: &'a [[u8; 3]],
    segments: &'a [u8],
}

impl<'a> Body<'a> {
    fn read(
        isa: Isa,
        prepared: &PlaneRecipeDecoder,
        raw_len: usize,
        mut input: Reader<'a>,
    ) -> Result<Self> {
        let width = prepared.recipe.width();
        let n = raw_len / width;
        let tail = input.take(raw_len % width, "tail")?;
        let row_len = prepared.columns.as_ref().map(|columns| columns.cols.len());
        let mut first = 0;
        if let Some(row_len) = row_len {
            first = usize::try_from(input.varint("first column")?).unwrap_or(usize::MAX);
            if first >= row_len {
                return Err(Error::corrupt(format!("first column {first} of {row_len}")));
            }
        }
        let segment_count = n.div_ceil(1 << prepared.recipe.segment_log2);
        let (index, _) = input.take(3 * segment_count, "segment index")?.as_chunks();
        let total: usize = index.iter().map(segment_len).sum();
        let segments = input.take(total, "segments")?;
        let mut rows = Vec::new();
        if let Some(row_len) = row_len {
            let coder = PlaneDecoder::new(&Coder::read(&mut input)?);
            rows.resize((first + n).div_ceil(row_len), 0);
            coder
                .decode(isa, &mut input, &mut rows, &mut Scratch::default())
                .map_err(|e| e.at("row offsets"))?;
        }
        input.finish("the block")?;
        Ok(Self { tail, first, rows, index, segments })
    }
}

/// The facts that tell where the segments of a body are.
#[derive(Clone, Copy)]
struct BodyShape {
    width: usize,
    segment_log2: u8,
    raw_len: usize,
}

/// Decodes blocks. It holds working memory, so keep one for each thread.
#[derive(Debug)]
pub struct Decoder {
    isa: Isa,
    streaming: bool,
    buffers: RecipeBuffers,
    zstd: ZstdDecoder,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder for this CPU.
    pub fn new() -> Self {
        Self::with_isa(Isa::best())
    }

    /// A decoder with the given instruction set.
    pub fn with_isa(isa: Isa) -> Self {
        let (buffers, zstd) = (RecipeBuffers::default(), ZstdDecoder::default());
        Self { isa, streaming: false, buffers, zstd }
    }

    /// Whether output that is not read again soon may bypass the caches; off by default. The
    /// decoded bytes are the same.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// The number of original bytes that `block` claims to hold, at most 2^26.
    pub fn raw_len(block: &[u8]) -> Result<usize> {
        Ok(BlockPrefix::read(&mut Reader::new(block))?.raw_len)
    }

    /// The work to decode the original bytes `range` of `block`. The start of the block, up to the
    /// end of its recipe, is enough; the cost of tables of row offsets is then left out.
    pub fn need(block: &[u8], shared: Option<&RecipeShape>, range: &Range<usize>) -> Result<Need> {
        let mut input = Reader::new(block);
        let BlockPrefix { kind, raw_len } = BlockPrefix::read(&mut input)?;
        if range.start > range.end || range.end > raw_len {
            let (start, end) = (range.start, range.end);
            return Err(Error::invalid(format!("bytes {start} to {end} of a block of {raw_len}")));
        }
        match kind {
            BlockKind::Stored | BlockKind::Constant => {
                Ok(Need::of_plain(widened(range, PLAIN_UNIT, raw_len), None))
            }
            BlockKind::Same => Ok(Need::of_plain(range.clone(), Some(range.clone()))),
            BlockKind::Zstd => Need::of_zstd(raw_len, input),
            BlockKind::Coded => {
                let shape = RecipeShape::of(&AnyRecipe::read(&mut input)?);
                Ok(Need::of_coded(raw_len, range, &shape, input).with_recipe(&shape))
            }
            BlockKind::Shared => {
                Ok(Need::of_coded(raw_len, range, shared.ok_or_else(no_recipe)?, input))
            }
        }
    }

    /// Decodes `block` into all of `out`, which must have exactly [`Decoder::raw_len`] bytes.
    ///
    /// `shared` is the tensor's shared recipe and `base` is the base that the block was encoded
    /// with, if there are any. On an error the contents of `out` mean nothing.
    pub fn decode_block(
        &mut self,
        block: &[u8],
        shared: Option<&SharedRecipe>,
        base: Option<&[u8]>,
        out: &mut [u8],
    ) -> Result<()> {
        let base = base.map(|bytes| BasePart { start: 0, bytes });
        self.decode(block, shared, base, 0..out.len(), true, out)
    }

    /// Decodes the original bytes `range` of `block` into all of `out`, reading only the segments
    /// that hold them.
    ///
    /// `base` must hold at least the part of the block's base that [`Decoder::need`] names. Errors
    /// in other segments are not found. On an error the contents of `out` mean nothing.
    pub fn decode_range(
        &mut self,
        block: &[u8],
        shared: Option<&SharedRecipe>,
        base: Option<BasePart>,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        self.decode(block, shared, base, range, false, out)
    }

    #[expect(clippy::indexing_slicing, reason = "the range was found to be in the block")]
    fn decode(
        &mut self,
        block: &[u8],
        shared: Option<&SharedRecipe>,
        base: Option<BasePart>,
        range: Range<usize>,
        is_whole: bool,
        out: &mut [u8],
    ) -> Result<()> {
        let mut input = Reader::new(block);
        let prefix = BlockPrefix::read(&mut input)?;
        let raw_len = prefix.raw_len;
        let in_block = range.start <= range.end && range.end <= raw_len;
        if !in_block || out.len() != range.len() || is_whole && out.len() != raw_len {
            return Err(Error::invalid(format!(
                "bytes {} to {} of a block of {raw_len} into a buffer of {}",
                range.start,
                range.end,
                out.len()
            )));
        }
        if let Some(len) = base.map(|base| base.bytes.len()).filter(|&len| len != raw_len)
            && (is_whole || len > raw_len)
        {
            return Err(Error::invalid(format!(
                "the base of a block of {raw_len} bytes has {len}, as many are wanted"
            )));
        }
        match prefix.kind {
            BlockKind::Stored => {
                let bytes = input.take(raw_len, "stored bytes")?;
                input.finish("the stored block")?;
                out.copy_from_slice(&bytes[range]);
                Ok(())
            }
            BlockKind::Same => {
                input.finish("the block")?;
                out.copy_from_slice(base.ok_or_else(no_base)?.get(range)?);
                Ok(())
            }
            BlockKind::Constant => decode_constant(input, range, out),
            BlockKind::Zstd => self.zstd.decode_part(raw_len, input, base, range, out),
            BlockKind::Coded => {
                let prepared = RecipeDecoder::read(self.isa, &mut input)?;
                self.decode_coded(&prepared, raw_len, input, base, range, out)
            }
            BlockKind::Shared => {
                let shared = shared.ok_or_else(no_recipe)?;
                self.decode_coded(&shared.0, raw_len, input, base, range, out)
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "whole words around the range hold it")]
    fn decode_coded(
        &mut self,
        prepared: &RecipeDecoder,
        raw_len: usize,
        input: Reader,
        base: Option<BasePart>,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        match prepared {
            RecipeDecoder::Planes(prepared) if prepared.recipe.base == BaseUse::None => {
                self.decode_segments(prepared, raw_len, input, range, out)
            }
            RecipeDecoder::Planes(prepared) => {
                let base = base.ok_or_else(no_base)?;
                let width = prepared.recipe.width();
                // Whole words, because only these can be compared with those of the base.
                let whole =
                    range.start / width * width..raw_len.min(range.end.next_multiple_of(width));
                let mut words = vec![0; whole.len()];
                self.decode_segments(prepared, raw_len, input, whole.clone(), &mut words)?;
                let coded = (raw_len / width * width).saturating_sub(whole.start).min(words.len());
                let base = base.get(whole.start..whole.start + coded)?;
                against::inverse(&prepared.recipe, base, &mut words[..coded]);
                out.copy_from_slice(&words[range.start - whole.start..range.end - whole.start]);
                Ok(())
            }
            RecipeDecoder::Classes(recipe, segments) => {
                let base = base.ok_or_else(no_base)?;
                let segment_log2 = recipe.segment_log2;
                let shape = BodyShape { width: recipe.width(), segment_log2, raw_len };
                self.decode_body(shape, input, range, out, |own, bytes, coded, dst, hints| {
                    let buffers = &mut own.buffers.classes;
                    segments.decode(own.isa, coded, base.get(bytes)?, buffers, dst, hints)
                })
            }
            RecipeDecoder::Bins(recipe, segments) => {
                let base = base.ok_or_else(no_base)?;
                let BinRules { segment_log2, .. } = recipe.rules;
                let shape = BodyShape { width: recipe.rules.width(), segment_log2, raw_len };
                self.decode_body(shape, input, range, out, |own, bytes, coded, dst, hints| {
                    let buffers = &mut own.buffers.bins;
                    segments.decode(own.isa, coded, base.get(bytes)?, buffers, dst, hints)
                })
            }
            RecipeDecoder::Changes(recipe, segments) => {
                let base = base.ok_or_else(no_base)?;
                let segment_log2 = recipe.rules.segment_log2;
                let shape = BodyShape { width: recipe.width(), segment_log2, raw_len };
                self.decode_body(shape, input, range, out, |own, bytes, coded, dst, hints| {
                    let buffers = &mut own.buffers.changes;
                    segments.decode(own.isa, coded, base.get(bytes)?, buffers, dst, hints)
                })
            }
            RecipeDecoder::Palette(recipe, segments) => {
                let segment_log2 = recipe.segment_log2;
                let shape = BodyShape { width: recipe.width(), segment_log2, raw_len };
                self.decode_body(shape, input, range, out, |own, _, coded, dst, _| {
                    segments.decode(own.isa, coded, &mut own.buffers.palette, dst)
                })
            }
        }
    }

    /// Decodes the segments of a body that has no rows. `decode_one` decodes one of them. Its
    /// arguments are the range of its original bytes, its coded bytes, the place for the result,
    /// and hints about memory.
    fn decode_body(
        &mut self,
        shape: BodyShape,
        mut input: Reader,
        range: Range<usize>,
        out: &mut [u8],
        mut decode_one: impl FnMut(&mut Self, Range<usize>, &[u8], &mut [u8], Hints) -> Result<()>,
    ) -> Result<()> {
        let BodyShape { width, segment_log2, raw_len } = shape;
        let tail = input.take(raw_len % width, "tail")?;
        let coded_len = raw_len - tail.len();
        let segment_bytes = width << segment_log2;
        let count = coded_len.div_ceil(segment_bytes);
        let (index, _) = input.take(3 * count, "segment index")?.as_chunks();
        let total: usize = index.iter().map(segment_len).sum();
        let mut segments = input.take(total, "segments")?;
        input.finish("the block")?;
        for (i, entry) in index.iter().enumerate() {
            let (coded, rest) = segments.split_at(segment_len(entry));
            segments = rest;
            let bytes = i * segment_bytes..coded_len.min((i + 1) * segment_bytes);
            // The next segment probably has the same length.
            let ahead = rest.get(..coded.len()).unwrap_or(rest);
            let hints = Hints { streaming: self.streaming, ahead };
            decode_part(bytes.clone(), &range, out, |dst, is_direct| {
                let hints = if is_direct { hints } else { Hints::default() };
                decode_one(self, bytes, coded, dst, hints)
            })
            .map_err(|e| segment_error(i, e))?;
        }
        if self.streaming {
            fence();
        }
        copy_tail(tail, coded_len, range, out);
        Ok(())
    }

    fn decode_segments(
        &mut self,
        prepared: &PlaneRecipeDecoder,
        raw_len: usize,
        input: Reader,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let body = Body::read(self.isa, prepared, raw_len, input)?;
        let segment_bytes = prepared.recipe.width() << prepared.recipe.segment_log2;
        let coded_len = raw_len - body.tail.len();
        let offsets = prepared.columns.as_ref().map(|columns| BlockOffsets {
            base: columns.base,
            cols: &columns.cols,
            rows: &body.rows,
            first: body.first,
            bits: prepared.recipe.symbol_bits,
        });
        let mut segments = body.segments;
        for (i, entry) in body.index.iter().enumerate() {
            let (coded, rest) = segments.split_at(segment_len(entry));
            segments = rest;
            let bytes = i * segment_bytes..coded_len.min((i + 1) * segment_bytes);
            let hints = Hints { streaming: self.streaming, ahead: rest };
            let target = SegmentTarget { start: i << prepared.recipe.segment_log2, offsets, hints };
            let (isa, buffers) = (self.isa, &mut self.buffers.planes);
            decode_part(bytes, &range, out, |dst, is_direct| {
                let hints = if is_direct { target.hints } else { Hints::default() };
                prepared.segments.decode(
                    isa,
                    coded,
                    SegmentTarget { hints, ..target },
                    buffers,
                    dst,
                )
            })
            .map_err(|e| segment_error(i, e))?;
        }
        if self.streaming {
            fence();
        }
        copy_tail(body.tail, coded_len, range, out);
        Ok(())
    }
}

/// Decodes a segment with the original bytes `bytes`, as far as they are in `range`: directly to
/// its place if all are, otherwise through a buffer.
#[expect(
    clippy::indexing_slicing,
    reason = "the segment and the range overlap, and `out` is as long as the range"
)]
fn decode_part(
    bytes: Range<usize>,
    range: &Range<usize>,
    out: &mut [u8],
    decode: impl FnOnce(&mut [u8], bool) -> Result<()>,
) -> Result<()> {
    if bytes.end <= range.start || bytes.start >= range.end {
        return Ok(());
    }
    if bytes.start >= range.start && bytes.end <= range.end {
        return decode(&mut out[bytes.start - range.start..bytes.end - range.start], true);
    }
    let mut whole = vec![0; bytes.len()];
    decode(&mut whole, false)?;
    let wanted = bytes.start.max(range.start)..bytes.end.min(range.end);
    out[wanted.start - range.start..wanted.end - range.start]
        .copy_from_slice(&whole[wanted.start - bytes.start..wanted.end - bytes.start]);
    Ok(())
}

/// Copies the part of the tail that is in `range`; the tail comes after `coded_len` original bytes.
#[expect(
    clippy::indexing_slicing,
    reason = "the tail ends where the block does, and the range no later"
)]
fn copy_tail(tail: &[u8], coded_len: usize, range: Range<usize>, out: &mut [u8]) {
    if range.end > coded_len {
        let from = range.start.max(coded_len);
        out[from - range.start..].copy_from_slice(&tail[from - coded_len..range.end - coded_len]);
    }
}

pub(crate) fn no_base() -> Error {
    Error::invalid("the block is coded against a base, and none was given")
}

fn no_recipe() -> Error {
    Error::corrupt("block has a shared recipe, and none was given")
}

/// A part of a block's base.
#[derive(Clone, Copy, Debug)]
pub struct BasePart<'a> {
    /// Where it starts in the block.
    pub start: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl<'a> BasePart<'a> {
    /// These bytes of the block's base.
    pub(crate) fn get(&self, range: Range<usize>) -> Result<&'a [u8]> {
        let start = range.start.checked_sub(self.start);
        let found = start.and_then(|start| self.bytes.get(start..)?.get(..range.len()));
        found.ok_or_else(|| {
            let (first, end) = (range.start, range.end);
            Error::invalid(format!("bytes {first} to {end} of the block's base were not given"))
        })
    }
}

#[expect(clippy::indexing_slicing, reason = "the constant has `width` bytes")]
fn decode_constant(mut input: Reader, range: Range<usize>, out: &mut [u8]) -> Result<()> {
    let width = usize::from(input.u8("constant width")?);
    if !matches!(width, 1 | 2 | 4 | 8) {
        return Err(Error::corrupt(format!("constant of {width} bytes, 1, 2, 4 or 8 expected")));
    }
    let value = input.take(width, "constant")?;
    input.finish("the constant block")?;
    for (i, byte) in range.zip(out) {
        *byte = value[i % width];
    }
    Ok(())
}
