//! One segment in each direction, by a prepared recipe: values to planes to streams
//! (`docs/format.md`, section 4.2).

mod decode;

pub(crate) use decode::SegmentDecoder;

use crate::entropy::{PlaneEncoder, Scratch};
use crate::express::{Encoded, all_or_nothing};
use crate::simd::Isa;
use crate::simd::chain::{self, Hints};
use crate::simd::words::{self, WideCut, Words};
use crate::transform::offsets::{BlockOffsets, Field, KnownSymbols, ROW_HEAD, RowFit};
use crate::transform::{sparse, window};
use lmc_format::{Coder, Error, Recipe, WordMap};

/// Values of a wide cut that are split together, at least the head of a row. Few calls, because the
/// streaming stores of each one start afresh: 8,192 gave 4.5 GiB/s where 2,048 gave 3.9 (adam-v,
/// Ice Lake server at 2.8 GHz).
const WIDE_SPLIT: usize = 8192;

/// A recipe's plane: its position in the word and whether it is part of the records.
#[derive(Clone, Copy, Debug)]
struct PlanePosition {
    shift: u32,
    mask: u8,
    /// Position in the record when the plane's coder is raw.
    record: Option<usize>,
}

/// Data that both directions compute once from a recipe.
#[derive(Debug)]
pub(crate) struct PlaneShape {
    words: Words,
    symbol_bits: u8,
    bias: u16,
    planes: Vec<PlanePosition>,
    record_len: usize,
    /// Rotated words of 2 or 4 bytes: the top byte is coded and all others are raw.
    top_only: bool,
    /// Single bytes that are their own symbols and are not raw.
    bytes_only: bool,
    /// A symbol, a coded partial plane and at most a raw pair of bytes.
    wide_cut: Option<WideCut>,
}

impl PlaneShape {
    /// The shape of `recipe`.
    #[expect(clippy::indexing_slicing, reason = "a recipe has a plane of symbols")]
    pub(crate) fn new(recipe: &Recipe) -> Self {
        let is_raw = |coder: &Coder| *coder == Coder::Raw;
        let record_len = recipe.planes.iter().filter(|c| is_raw(c)).count();
        let mut shift = 8_u32 << recipe.width_log2;
        let mut raw_left = record_len;
        let mut planes = Vec::with_capacity(recipe.planes.len());
        for (i, coder) in recipe.planes.iter().enumerate() {
            let bits = match i {
                0 => recipe.symbol_bits,
                1 if recipe.partial_bits() > 0 => recipe.partial_bits(),
                _ => 8,
            };
            shift -= u32::from(bits);
            let record = is_raw(coder).then(|| {
                raw_left -= 1;
                raw_left
            });
            planes.push(PlanePosition { shift, mask: 0xff_u8 >> (8 - bits.min(8)), record });
        }
        let width = recipe.width();
        let top_only = recipe.map == WordMap::Rotate
            && recipe.symbol_bits == 8
            && (width == 2 || width == 4)
            && record_len == width - 1
            && !is_raw(&recipe.planes[0]);
        let bytes_only =
            recipe.map == WordMap::None && recipe.symbol_bits == 8 && width == 1 && record_len == 0;
        let words = Words { width_log2: recipe.width_log2, map: recipe.map };
        let is_wide_cut = recipe.is_wide()
            && recipe.partial_bits() > 0
            && recipe.map != WordMap::Zigzag
            && (width == 2 || width == 4)
            && record_len == width - 2
            && !recipe.planes.iter().take(2).any(is_raw);
        let wide_cut = is_wide_cut.then_some(WideCut { words, symbol_bits: recipe.symbol_bits });
        Self {
            words,
            wide_cut,
            symbol_bits: recipe.symbol_bits,
            bias: recipe.bias,
            planes,
            record_len,
            top_only,
            bytes_only,
        }
    }

    /// Bytes of a value.
    pub(crate) fn width(&self) -> usize {
        1 << self.words.width_log2
    }

    /// Where the symbols are.
    pub(crate) fn field(&self) -> Field {
        Field { words: self.words, bits: self.symbol_bits }
    }

    fn is_wide(&self) -> bool {
        self.symbol_bits > 8
    }
}

/// Working buffers for segments; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    planes: Vec<Vec<u8>>,
    symbols: Vec<u16>,
    flags: Vec<u8>,
    dense: Vec<u8>,
    coders: Scratch,
}

/// The first `len` entries of a working buffer; their contents mean nothing.
///
/// If the buffer is too short, it is freed and replaced by one that is just long enough. There is a
/// promise on how much memory decoding holds, and a vector that grows by itself can hold three
/// times as much.
#[expect(clippy::indexing_slicing, reason = "the buffer was made as long")]
pub(crate) fn sized<T: Copy + Default>(buffer: &mut Vec<T>, len: usize) -> &mut [T] {
    if buffer.len() < len {
        *buffer = Vec::new();
        *buffer = vec![T::default(); len];
    }
    &mut buffer[..len]
}

/// Where a segment to decode is in its block, and what is known about the memory around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentTarget<'a> {
    /// Index in the block of its first value.
    pub start: usize,
    /// The block's offsets, if its recipe has any.
    pub offsets: Option<BlockOffsets<'a>>,
    /// Hints about the memory around the segment.
    pub hints: Hints<'a>,
}

/// A segment to encode.
#[derive(Debug)]
pub(crate) struct SegmentInput<'a, 'b> {
    /// Its values.
    pub values: &'a [u8],
    /// Index in the block of the first of them.
    pub start: usize,
    /// The block's rows, if its recipe has offsets.
    pub rows: Option<&'a mut RowFit<'b>>,
    /// Whether output may bypass the caches.
    pub streaming: bool,
}

/// A recipe's coders, ready to encode with.
#[derive(Debug)]
pub(crate) struct SegmentEncoder {
    shape: PlaneShape,
    flags: Option<PlaneEncoder>,
    planes: Vec<PlaneEncoder>,
}

impl SegmentEncoder {
    /// Prepares `recipe`.
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self {
            shape: PlaneShape::new(recipe),
            flags: recipe.flags.as_ref().map(PlaneEncoder::new),
            planes: recipe.planes.iter().map(PlaneEncoder::new).collect(),
        }
    }

    /// The facts about the recipe that both directions use.
    pub(crate) fn shape(&self) -> &PlaneShape {
        &self.shape
    }

    /// Appends the coded segment. If the recipe cannot express its values, this fails and leaves
    /// `out` as it was.
    pub(crate) fn encode(
        &self,
        isa: Isa,
        input: SegmentInput,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| match &self.flags {
            None => self.encode_values(isa, input, buffers, out),
            Some(coder) => self.encode_sparse(isa, coder, input, buffers, out),
        })
    }

    /// Appends flags of zeros and the other values.
    fn encode_sparse(
        &self,
        isa: Isa,
        flags_coder: &PlaneEncoder,
        input: SegmentInput,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let (mut flags, mut dense) =
            (std::mem::take(&mut buffers.flags), std::mem::take(&mut buffers.dense));
        flags.clear();
        dense.clear();
        sparse::forward(self.shape.width(), input.values, &mut flags, &mut dense);
        let done = flags_coder.encode(isa, &flags, &mut buffers.coders, out).and_then(|()| {
            self.encode_values(isa, SegmentInput { values: &dense, ..input }, buffers, out)
        });
        (buffers.flags, buffers.dense) = (flags, dense);
        done
    }

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn encode_values(
        &self,
        isa: Isa,
        input: SegmentInput,
        buffers: &mut Buffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let shape = &self.shape;
        let n = input.values.len() >> shape.words.width_log2;
        if shape.bytes_only && input.rows.is_none() {
            return self.planes[0].encode(isa, input.values, &mut buffers.coders, out);
        }
        buffers.planes.resize_with(shape.planes.len(), Vec::new);
        if shape.top_only {
            let top = sized(&mut buffers.planes[0], n);
            if let (PlaneEncoder::Chain(tables), None) = (&self.planes[0], &input.rows) {
                let (scratch, width) = (&mut buffers.coders.chain, shape.width());
                let (values, streaming) = (input.values, input.streaming);
                chain::encode_words(isa, width, tables, values, top, scratch, out, streaming);
                return Ok(());
            }
            words::split_top(isa, shape.width(), input.values, top, out);
            if let Some(rows) = input.rows {
                rows.up_to(isa, input.start + n, KnownSymbols::default()).forward8(
                    isa,
                    input.start,
                    top,
                );
            }
            return self.planes[0].encode(isa, top, &mut buffers.coders, out);
        }
        let mut exceptions = Vec::new();
        if let Some(cut) = shape.wide_cut {
            self.split_wide_cut(isa, cut, input, buffers, &mut exceptions, out);
        } else {
            self.split(isa, input, buffers, &mut exceptions, |_| true);
            self.append_records(n, buffers, out);
        }
        for (i, coder) in self.planes.iter().enumerate() {
            if shape.planes[i].record.is_none() {
                let plane = &buffers.planes[i][..n];
                coder.encode(isa, plane, &mut buffers.coders, out)?;
            }
            if i == 0 {
                out.extend_from_slice(&exceptions);
            }
        }
        Ok(())
    }

    /// Makes the symbol plane and the other `wanted` planes, each in its buffer.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn split(
        &self,
        isa: Isa,
        input: SegmentInput,
        buffers: &mut Buffers,
        exceptions: &mut Vec<u8>,
        wanted: impl Fn(usize) -> bool,
    ) {
        let shape = &self.shape;
        let n = input.values.len() >> shape.words.width_log2;
        buffers.planes.resize_with(shape.planes.len(), Vec::new);
        let plane = sized(&mut buffers.planes[0], n);
        let offsets =
            input.rows.map(|rows| rows.up_to(isa, input.start + n, KnownSymbols::default()));
        if shape.is_wide() {
            let symbols = sized(&mut buffers.symbols, n);
            shape.field().symbols(isa, input.values, symbols);
            if let Some(offsets) = offsets {
                offsets.forward16(isa, input.start, symbols);
            }
            window::forward(isa, symbols, shape.bias, plane, exceptions);
        } else {
            let first = shape.planes[0];
            words::extract8(isa, shape.words, input.values, first.shift, first.mask, plane);
            if let Some(offsets) = offsets {
                offsets.forward8(isa, input.start, plane);
            }
        }
        let planes = shape.planes.iter().zip(&mut buffers.planes).enumerate().skip(1);
        for (_, (plane, buffer)) in planes.filter(|(i, _)| wanted(*i)) {
            let (shift, mask) = (plane.shift, plane.mask);
            words::extract8(isa, shape.words, input.values, shift, mask, sized(buffer, n));
        }
    }

    /// Makes the planes of a wide cut in their buffers, and appends its records. It goes step by
    /// step, so that rows are fitted right before they are cut.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn split_wide_cut(
        &self,
        isa: Isa,
        cut: WideCut,
        mut input: SegmentInput,
        buffers: &mut Buffers,
        exceptions: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let width = self.shape.width();
        let n = input.values.len() / width;
        let [plane, partial, ..] = &mut buffers.planes[..] else { return };
        let (plane, partial) = (sized(plane, n), sized(partial, n));
        const { assert!(WIDE_SPLIT >= ROW_HEAD, "a row's head is known when it is fitted") };
        let symbols = sized(&mut buffers.symbols, n.min(WIDE_SPLIT));
        let mut from = 0;
        while from < n {
            let (first, last) = (input.start + from, input.start + n.min(from + WIDE_SPLIT));
            let end = input.rows.as_ref().map_or(last, |rows| rows.step_end(first, last));
            let range = from..end - input.start;
            let values = &input.values[range.start * width..range.end * width];
            let symbols = &mut symbols[..range.len()];
            let partial = &mut partial[range.clone()];
            words::split_wide(isa, cut, values, symbols, partial, out, input.streaming);
            let plane = &mut plane[range.clone()];
            let bias = self.shape.bias;
            match &mut input.rows {
                Some(rows) => {
                    let offsets = rows.up_to(isa, end, KnownSymbols { start: first, symbols });
                    offsets.forward_windowed(isa, first, symbols, bias, plane, exceptions);
                }
                None => window::forward(isa, symbols, bias, plane, exceptions),
            }
            from = range.end;
        }
    }

    /// Calls `visit` with the zero flags (as None), if there are any, and with each `wanted` plane
    /// of the segment.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub(crate) fn visit_planes(
        &self,
        isa: Isa,
        input: SegmentInput,
        buffers: &mut Buffers,
        wanted: impl Fn(usize) -> bool,
        mut visit: impl FnMut(Option<usize>, &[u8]),
    ) {
        let (mut flags, mut dense) = (Vec::new(), Vec::new());
        if self.flags.is_some() {
            sparse::forward(self.shape.width(), input.values, &mut flags, &mut dense);
            visit(None, &flags);
        }
        let values = if self.flags.is_some() { &dense } else { input.values };
        let input = SegmentInput { values, ..input };
        let n = input.values.len() >> self.shape.words.width_log2;
        self.split(isa, input, buffers, &mut Vec::new(), &wanted);
        for i in (0..self.shape.planes.len()).filter(|&i| wanted(i)) {
            visit(Some(i), &buffers.planes[i][..n]);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn append_records(&self, n: usize, buffers: &Buffers, out: &mut Vec<u8>) {
        let len = self.shape.record_len;
        let start = out.len();
        for (plane, buffer) in self.shape.planes.iter().zip(&buffers.planes) {
            match plane.record {
                Some(_) if len == 1 => out.extend_from_slice(&buffer[..n]),
                Some(at) => {
                    out.resize(start + n * len, 0);
                    for (record, &byte) in out[start..].chunks_exact_mut(len).zip(&buffer[..n]) {
                        record[at] = byte;
                    }
                }
                None => {}
            }
        }
    }
}

/// An error for a segment that claims more than its block has.
pub(crate) fn segment_error(index: usize, error: Error) -> Error {
    error.at(format_args!("segment {index}"))
}
