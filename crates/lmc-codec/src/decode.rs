//! One block back to bytes. The input is hostile: every length is checked before it is used.

use crate::entropy::{PlaneDecoder, Scratch};
use crate::segment::{Buffers, Place, SegmentDecoder, segment_error};
use crate::simd::chain::Hints;
use crate::simd::{Isa, fence};
use crate::transform::offsets::{BlockOffsets, ColumnOffsets};
use lmc_format::limits::RECIPE_LEN_MAX;
use lmc_format::{BlockKind, BlockPrefix, Coder, Error, ErrorKind, Reader, Recipe, Result};
use std::ops::Range;

/// A recipe that stands outside of the blocks that use it, made ready for decoding.
#[derive(Debug)]
pub struct SharedRecipe(ReadyRecipe);

impl SharedRecipe {
    /// Reads what [`crate::Plan::shared_recipe`] gave. Fails on anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut input = Reader::new(bytes);
        let ready = ReadyRecipe::read(Isa::best(), &mut input)?;
        input.finish("the recipe")?;
        Ok(Self(ready))
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.0.recipe
    }
}

#[derive(Debug)]
struct ReadyRecipe {
    recipe: Recipe,
    segments: SegmentDecoder,
    columns: Option<ColumnOffsets>,
}

impl ReadyRecipe {
    fn read(isa: Isa, input: &mut Reader) -> Result<Self> {
        let available = input.rest().len();
        let recipe = Recipe::read(input)?;
        let columns = match &recipe.columns {
            None => None,
            Some(columns) => {
                let mut cols = vec![0; columns.count as usize];
                let coder = PlaneDecoder::new(&columns.coder);
                coder
                    .decode(isa, input, &mut cols, &mut Scratch::default())
                    .map_err(|e| e.at("column offsets"))?;
                Some(ColumnOffsets::from_recipe(columns.base, cols))
            }
        };
        let len = available - input.rest().len();
        if len > RECIPE_LEN_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("recipe of {len} bytes, {RECIPE_LEN_MAX} is the most"),
            ));
        }
        Ok(Self { segments: SegmentDecoder::new(&recipe), recipe, columns })
    }
}

/// The parts of a coded block's body.
struct Body<'a> {
    tail: &'a [u8],
    first: usize,
    rows: Vec<u8>,
    index: &'a [[u8; 3]],
    segments: &'a [u8],
}

impl<'a> Body<'a> {
    fn read(isa: Isa, ready: &ReadyRecipe, raw_len: usize, mut input: Reader<'a>) -> Result<Self> {
        let width = ready.recipe.width();
        let n = raw_len / width;
        let tail = input.take(raw_len % width, "tail")?;
        let row_len = ready.columns.as_ref().map(|columns| columns.cols.len());
        let mut first = 0;
        if let Some(row_len) = row_len {
            first = usize::try_from(input.varint("first column")?).unwrap_or(usize::MAX);
            if first >= row_len {
                return Err(Error::corrupt(format!("first column {first} of {row_len}")));
            }
        }
        let segment_count = n.div_ceil(1 << ready.recipe.segment_log2);
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

fn segment_len(entry: &[u8; 3]) -> usize {
    let [a, b, c] = *entry;
    u32::from_le_bytes([a, b, c, 0]) as usize
}

/// Decodes blocks; holds working memory, so keep one for each thread.
#[derive(Debug)]
pub struct Decoder {
    isa: Isa,
    streaming: bool,
    buffers: Buffers,
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
        Self { isa, streaming: false, buffers: Buffers::default() }
    }

    /// Whether output that is not read again soon may go past the caches; off at first. What is
    /// decoded is the same.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// The number of original bytes that `block` claims to hold, at most 2^26.
    pub fn raw_len(block: &[u8]) -> Result<usize> {
        Ok(BlockPrefix::read(&mut Reader::new(block))?.raw_len)
    }

    /// Decodes `block` into all of `out`, which must have exactly [`Decoder::raw_len`] bytes.
    ///
    /// `shared` is the tensor's shared recipe, if it has one. On an error the contents of `out`
    /// mean nothing.
    pub fn decode_block(
        &mut self,
        block: &[u8],
        shared: Option<&SharedRecipe>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut input = Reader::new(block);
        let prefix = BlockPrefix::read(&mut input)?;
        if out.len() != prefix.raw_len {
            return Err(Error::invalid(format!(
                "block holds {} bytes, the buffer has {}",
                prefix.raw_len,
                out.len()
            )));
        }
        self.decode_body(prefix, input, shared, 0..prefix.raw_len, out)
    }

    /// Decodes the original bytes `range` of `block` into all of `out`, reading only the segments
    /// that hold them.
    ///
    /// Errors in other segments are not found. On an error the contents of `out` mean nothing.
    pub fn decode_range(
        &mut self,
        block: &[u8],
        shared: Option<&SharedRecipe>,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let mut input = Reader::new(block);
        let prefix = BlockPrefix::read(&mut input)?;
        if range.start > range.end || range.end > prefix.raw_len || out.len() != range.len() {
            return Err(Error::invalid(format!(
                "bytes {} to {} of a block of {} into a buffer of {}",
                range.start,
                range.end,
                prefix.raw_len,
                out.len()
            )));
        }
        self.decode_body(prefix, input, shared, range, out)
    }

    fn decode_body(
        &mut self,
        prefix: BlockPrefix,
        mut input: Reader,
        shared: Option<&SharedRecipe>,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        match prefix.kind {
            BlockKind::Stored => {
                let bytes = input.take(prefix.raw_len, "stored bytes")?;
                input.finish("the stored block")?;
                out.copy_from_slice(&bytes[range]);
                Ok(())
            }
            BlockKind::Constant => decode_constant(input, range, out),
            BlockKind::Coded => {
                let ready = ReadyRecipe::read(self.isa, &mut input)?;
                self.decode_segments(&ready, prefix.raw_len, input, range, out)
            }
            BlockKind::Shared => {
                let shared = shared.ok_or_else(|| {
                    Error::corrupt("block has a shared recipe, and none was given")
                })?;
                self.decode_segments(&shared.0, prefix.raw_len, input, range, out)
            }
        }
    }

    fn decode_segments(
        &mut self,
        ready: &ReadyRecipe,
        raw_len: usize,
        input: Reader,
        range: Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let body = Body::read(self.isa, ready, raw_len, input)?;
        let segment_bytes = ready.recipe.width() << ready.recipe.segment_log2;
        let coded_len = raw_len - body.tail.len();
        let mut segments = body.segments;
        for (i, entry) in body.index.iter().enumerate() {
            let (coded, rest) = segments.split_at(segment_len(entry));
            segments = rest;
            let bytes = i * segment_bytes..coded_len.min((i + 1) * segment_bytes);
            if bytes.end > range.start && bytes.start < range.end {
                self.decode_segment(ready, &body, i, (coded, rest), bytes, &range, out)
                    .map_err(|e| segment_error(i, e))?;
            }
        }
        if self.streaming {
            fence();
        }
        if range.end > coded_len {
            let from = range.start.max(coded_len);
            out[from - range.start..]
                .copy_from_slice(&body.tail[from - coded_len..range.end - coded_len]);
        }
        Ok(())
    }

    /// Decodes the segment with the original bytes `bytes`, as far as they are in `range`.
    #[allow(clippy::too_many_arguments)]
    fn decode_segment(
        &mut self,
        ready: &ReadyRecipe,
        body: &Body,
        index: usize,
        (coded, ahead): (&[u8], &[u8]),
        bytes: Range<usize>,
        range: &Range<usize>,
        out: &mut [u8],
    ) -> Result<()> {
        let offsets = ready.columns.as_ref().map(|columns| BlockOffsets {
            base: columns.base,
            cols: &columns.cols,
            rows: &body.rows,
            first: body.first,
            bits: ready.recipe.symbol_bits,
        });
        let start = index << ready.recipe.segment_log2;
        let hints = Hints { streaming: self.streaming, ahead };
        let mut place = Place { start, offsets, hints };
        if bytes.start >= range.start && bytes.end <= range.end {
            let dst = &mut out[bytes.start - range.start..bytes.end - range.start];
            return ready.segments.decode(self.isa, coded, place, &mut self.buffers, dst);
        }
        let mut whole = vec![0; bytes.len()];
        place.hints = Hints::default();
        ready.segments.decode(self.isa, coded, place, &mut self.buffers, &mut whole)?;
        let wanted = bytes.start.max(range.start)..bytes.end.min(range.end);
        out[wanted.start - range.start..wanted.end - range.start]
            .copy_from_slice(&whole[wanted.start - bytes.start..wanted.end - bytes.start]);
        Ok(())
    }
}

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
