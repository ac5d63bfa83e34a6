//! One segment each way against a base: floats to symbols, sorted by the exponent of their base,
//! and payloads (`docs/format.md`, sections 3.6 and 4.3).

use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::segment::sized;
use crate::simd::Isa;
use crate::simd::classes::{
    BitString, GROUP, Layout, PlaneWidths, Symbols, context_masks, exponents, measure, pack,
    partition, payload_bits, restore, spread, unpack,
};
use lmc_format::{ClassRecipe, Error, Reader, Result};

/// Values worked on at once, so that all that is known of them stays in the first-level cache.
const CHUNK: usize = 4096;

/// Buffers that segments are worked on in; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct ClassBuffers {
    exponents: Vec<u8>,
    masks: Vec<u64>,
    symbols: Vec<u8>,
    payload: Vec<u8>,
    /// Symbols of each context, with room behind them.
    streams: Vec<Vec<u8>>,
    lens: Vec<usize>,
    strings: Vec<BitString>,
    /// Symbols of all contexts, to be decoded.
    sorted: Vec<u8>,
    coders: Scratch,
}

/// Everything about a recipe that both directions compute from it once.
#[derive(Debug)]
struct Shape {
    table: Symbols,
    widths: Vec<PlaneWidths>,
    exponent_bits: u8,
    exponent_first: u16,
    bounds: Vec<u8>,
}

impl Shape {
    fn new(recipe: &ClassRecipe) -> Self {
        let layout = Layout {
            width_log2: recipe.width_log2,
            raw_bytes: recipe.raw_bytes,
            has_sign: recipe.has_sign,
            has_top_bit: recipe.has_top_bit,
        };
        let table = Symbols::new(layout);
        let widths = (0..layout.payload_bytes()).map(|plane| table.plane_widths(plane)).collect();
        Self {
            table,
            widths,
            exponent_bits: recipe.exponent_bits,
            exponent_first: recipe.exponent_first,
            bounds: recipe.bounds.clone(),
        }
    }

    fn layout(&self) -> Layout {
        self.table.layout
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK << self.layout().width_log2
    }

    /// Appends the masks of the values of a chunk with this base.
    fn add_masks(&self, isa: Isa, base: &[u8], bytes: &mut Vec<u8>, masks: &mut Vec<u64>) {
        let width_log2 = self.layout().width_log2;
        let bytes = sized(bytes, base.len() >> width_log2);
        exponents(isa, width_log2, self.exponent_bits, self.exponent_first, base, bytes);
        context_masks(isa, bytes, &self.bounds, masks);
    }
}

/// A recipe's coders made ready to encode.
#[derive(Debug)]
pub struct ClassEncoder {
    shape: Shape,
    contexts: Vec<PlaneEncoder>,
}

/// What a segment was sorted into.
#[derive(Debug)]
pub struct Sorted<'a> {
    buffers: &'a mut ClassBuffers,
}

impl Sorted<'_> {
    /// The symbols of context `k`.
    pub fn symbols(&self, k: usize) -> &[u8] {
        &self.buffers.streams[k][..self.buffers.lens[k]]
    }

    /// Bytes of all payloads.
    pub fn payload_len(&mut self) -> usize {
        self.buffers.strings.iter_mut().map(|string| string.finish().len()).sum()
    }
}

impl ClassEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ClassRecipe) -> Self {
        let contexts = recipe.contexts.iter().map(PlaneEncoder::new).collect();
        Self { shape: Shape::new(recipe), contexts }
    }

    /// Sorts `values`, and writes their raw bytes to all of `records`.
    pub fn sort<'a>(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &'a mut ClassBuffers,
        records: &mut [u8],
    ) -> Sorted<'a> {
        let layout = self.shape.layout();
        let n = values.len() >> layout.width_log2;
        buffers.start(self.contexts.len(), n, self.shape.widths.len());
        let chunk = self.shape.chunk_bytes();
        let mut records = records;
        for (values, base) in values.chunks(chunk).zip(base.chunks(chunk)) {
            let n = values.len() >> layout.width_log2;
            let own;
            (own, records) = records.split_at_mut(n * usize::from(layout.raw_bytes));
            buffers.masks.clear();
            self.shape.add_masks(isa, base, &mut buffers.exponents, &mut buffers.masks);
            let symbols = sized(&mut buffers.symbols, n);
            let payload = sized(&mut buffers.payload, n * layout.payload_bytes());
            measure(isa, &self.shape.table, values, base, symbols, payload, own);
            let (streams, lens) = (&mut buffers.streams, &mut buffers.lens);
            partition(isa, &buffers.masks, symbols, streams, lens);
            let planes = payload.chunks_exact(n).zip(&self.shape.widths);
            for ((plane, widths), string) in planes.zip(&mut buffers.strings) {
                pack(isa, widths, symbols, plane, string);
            }
        }
        Sorted { buffers }
    }

    /// Appends the coded segment. Returns false if the recipe cannot express its values; `out` then
    /// has bytes that must be cut off.
    pub fn encode(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &mut ClassBuffers,
        out: &mut Vec<u8>,
    ) -> bool {
        let layout = self.shape.layout();
        let start = out.len();
        let n = values.len() >> layout.width_log2;
        out.resize(start + n * usize::from(layout.raw_bytes), 0);
        self.sort(isa, values, base, buffers, &mut out[start..]);
        let streams = buffers.streams.iter().zip(&buffers.lens);
        for (coder, (stream, &len)) in self.contexts.iter().zip(streams) {
            if !coder.encode(isa, &stream[..len], &mut buffers.coders, out) {
                return false;
            }
        }
        for string in &mut buffers.strings {
            out.extend_from_slice(string.finish());
        }
        true
    }
}

impl ClassBuffers {
    /// Makes room for the `n` values of a segment and empties it.
    fn start(&mut self, contexts: usize, n: usize, payload_bytes: usize) {
        self.streams.resize_with(contexts.max(self.streams.len()), Vec::new);
        for stream in &mut self.streams[..contexts] {
            sized(stream, n + 2 * GROUP);
        }
        self.lens.clear();
        self.lens.resize(contexts, 0);
        self.strings.resize_with(payload_bytes, BitString::default);
        self.strings.iter_mut().for_each(|string| string.clear(8 * n));
    }
}

/// A recipe's coders made ready to decode.
#[derive(Debug)]
pub struct ClassDecoder {
    shape: Shape,
    contexts: Vec<PlaneDecoder>,
}

impl ClassDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ClassRecipe) -> Self {
        let contexts = recipe.contexts.iter().map(PlaneDecoder::new).collect();
        Self { shape: Shape::new(recipe), contexts }
    }

    /// Decodes the segment `coded`, whose base is `base`, into all of `dst`, which is as long; on an
    /// error the contents of `dst` mean nothing.
    pub fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        base: &[u8],
        buffers: &mut ClassBuffers,
        dst: &mut [u8],
    ) -> Result<()> {
        let layout = self.shape.layout();
        let n = dst.len() >> layout.width_log2;
        let mut input = Reader::new(coded);
        let raw_bytes = usize::from(layout.raw_bytes);
        let records = input.take(n * raw_bytes, "records")?;
        let chunk = self.shape.chunk_bytes();
        buffers.masks.clear();
        buffers.masks.reserve_exact(n.div_ceil(GROUP) * self.contexts.len());
        for base in base.chunks(chunk) {
            self.shape.add_masks(isa, base, &mut buffers.exponents, &mut buffers.masks);
        }
        let mut places = self.read_streams(isa, &mut input, n, buffers)?;
        let sorted = &buffers.sorted[..n];
        let mut strings = Vec::with_capacity(self.shape.widths.len());
        for widths in &self.shape.widths {
            let bits = payload_bits(isa, widths, sorted);
            let string = input.take(bits.div_ceil(8), "payloads")?;
            if bits % 8 != 0 && string.last().is_some_and(|&last| last >> (bits % 8) != 0) {
                return Err(Error::corrupt("padding of payloads is not zero"));
            }
            strings.push((string, 0));
        }
        input.finish("the segment")?;
        let mut masks = &buffers.masks[..];
        let mut records = records;
        for (base, dst) in base.chunks(chunk).zip(dst.chunks_mut(chunk)) {
            let n = dst.len() >> layout.width_log2;
            let symbols = sized(&mut buffers.symbols, n);
            spread(isa, masks, &buffers.sorted, &mut places, symbols);
            masks = &masks[n.div_ceil(GROUP) * self.contexts.len()..];
            let payload = sized(&mut buffers.payload, n * layout.payload_bytes());
            let planes = payload.chunks_exact_mut(n).zip(&self.shape.widths);
            for ((plane, widths), (string, at)) in planes.zip(&mut strings) {
                *at = unpack(isa, widths, symbols, string, *at, plane);
            }
            let (own, rest) = records.split_at(n * raw_bytes);
            restore(isa, &self.shape.table, base, symbols, payload, own, dst);
            records = rest;
        }
        Ok(())
    }

    /// Decodes the symbols of all contexts into their buffer; where those of each context start.
    fn read_streams(
        &self,
        isa: Isa,
        input: &mut Reader,
        n: usize,
        buffers: &mut ClassBuffers,
    ) -> Result<Vec<usize>> {
        let contexts = self.contexts.len();
        let mut counts = vec![0; contexts];
        for masks in buffers.masks.chunks_exact(contexts) {
            counts.iter_mut().zip(masks).for_each(|(sum, mask)| *sum += mask.count_ones() as usize);
        }
        let sorted = sized(&mut buffers.sorted, n + GROUP);
        let mut places = Vec::with_capacity(contexts);
        let mut end = 0;
        for (coder, count) in self.contexts.iter().zip(counts) {
            let own = &mut sorted[end..end + count];
            coder.decode(isa, input, own, &mut buffers.coders)?;
            if own.iter().fold(0, |most, &symbol| most.max(symbol)) > self.shape.table.max {
                return Err(Error::corrupt("a symbol is of no class"));
            }
            places.push(end);
            end += count;
        }
        Ok(places)
    }
}
