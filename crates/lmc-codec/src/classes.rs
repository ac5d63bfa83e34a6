//! One segment in each direction against a base, in classes: floats become symbols, sorted by the
//! exponent of their base, and payloads (`docs/format.md`, sections 3.6 and 4.3).

use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::express::{Encoded, all_or_nothing};
use crate::segment::sized;
use crate::simd::Isa;
use crate::simd::chain::Hints;
use crate::simd::classes::{
    BitString, ClassLayout, ContextRule, GROUP, Streams, Symbols, Unread, context_masks,
    count_masks, exponents, largest, mask_fast, measure, pack, partition, restore, restore_fast,
    sort_fast, spread, unpack,
};
use lmc_format::{ClassRecipe, Error, Reader, Result, varint};

/// Values that are worked on together, so that all data about them stays in the L1 cache.
const CHUNK: usize = 4096;

/// Strings of payloads shorter than this are copied, with room for reads past their end.
const SHORT_STRING: usize = 1 << 12;
const STRING_PADDING: usize = 80;

/// Working buffers for segments; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct ClassBuffers {
    exponents: Vec<u8>,
    masks: Vec<u64>,
    /// Masks of the values that one fast pass restores.
    fast_masks: Vec<u64>,
    symbols: Vec<u8>,
    payload: Vec<u8>,
    streams: Streams,
    /// Symbols of all contexts, for decoding.
    sorted: Vec<u8>,
    /// Short strings of payloads, for decoding.
    padded: Vec<Vec<u8>>,
    coders: Scratch,
}

/// Data that both directions compute once from a recipe.
#[derive(Debug)]
struct ClassShape {
    table: Symbols,
    exponent_bits: u8,
    exponent_first: u16,
    bounds: Vec<u8>,
}

impl ClassShape {
    fn new(recipe: &ClassRecipe) -> Self {
        let layout = ClassLayout {
            width_log2: recipe.width_log2,
            raw_bytes: recipe.raw_bytes,
            has_sign: recipe.has_sign,
            has_top_bit: recipe.has_top_bit,
        };
        Self {
            table: Symbols::new(layout),
            exponent_bits: recipe.exponent_bits,
            exponent_first: recipe.exponent_first,
            bounds: recipe.bounds.clone(),
        }
    }

    fn layout(&self) -> ClassLayout {
        self.table.layout
    }

    fn rule(&self) -> ContextRule<'_> {
        let (bits, first) = (self.exponent_bits, self.exponent_first);
        ContextRule { bits, first, bounds: &self.bounds }
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK << self.layout().width_log2
    }

    /// Appends the masks of the values of a chunk with this base.
    fn add_masks(&self, isa: Isa, base: &[u8], bytes: &mut Vec<u8>, masks: &mut Vec<u64>) {
        let width_log2 = self.layout().width_log2;
        let bytes = sized(bytes, base.len() >> width_log2);
        exponents(isa, width_log2, self.rule(), base, bytes);
        context_masks(isa, bytes, &self.bounds, masks);
    }
}

/// A recipe's coders, ready to encode with.
#[derive(Debug)]
pub struct ClassEncoder {
    shape: ClassShape,
    contexts: Vec<PlaneEncoder>,
}

/// A segment after sorting.
#[derive(Debug)]
pub struct Sorted<'a> {
    buffers: &'a mut ClassBuffers,
}

impl Sorted<'_> {
    /// The symbols of context `k`.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub fn symbols(&self, k: usize) -> &[u8] {
        &self.buffers.streams.symbols[k][..self.buffers.streams.lens[k]]
    }

    /// Bytes of all payloads.
    pub fn payload_len(&mut self) -> usize {
        self.buffers.streams.strings.iter_mut().map(|string| string.finish().len()).sum()
    }
}

impl ClassEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ClassRecipe) -> Self {
        let contexts = recipe.contexts.iter().map(PlaneEncoder::new).collect();
        Self { shape: ClassShape::new(recipe), contexts }
    }

    /// Sorts `values`, and writes their raw bytes to all of `records`.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub fn sort<'a>(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &'a mut ClassBuffers,
        records: &mut [u8],
    ) -> Sorted<'a> {
        let (layout, raw_bytes) = (self.shape.layout(), usize::from(self.shape.layout().raw_bytes));
        let n = values.len() >> layout.width_log2;
        buffers.start(self.contexts.len(), n, layout.payload_bytes());
        let (table, streams) = (&self.shape.table, &mut buffers.streams);
        let done = sort_fast(isa, table, self.shape.rule(), values, base, streams, records);
        let from = done << layout.width_log2;
        let mut records = &mut records[done * raw_bytes..];
        let chunk = self.shape.chunk_bytes();
        for (values, base) in values[from..].chunks(chunk).zip(base[from..].chunks(chunk)) {
            let n = values.len() >> layout.width_log2;
            let own;
            (own, records) = records.split_at_mut(n * raw_bytes);
            buffers.masks.clear();
            self.shape.add_masks(isa, base, &mut buffers.exponents, &mut buffers.masks);
            let symbols = sized(&mut buffers.symbols, n);
            let payload = sized(&mut buffers.payload, n * layout.payload_bytes());
            measure(isa, table, values, base, symbols, payload, own);
            let Streams { symbols: sorted, lens, strings } = &mut buffers.streams;
            partition(isa, &buffers.masks, symbols, sorted, lens);
            let planes = payload.chunks_exact(n).zip(&table.planes);
            for ((plane, widths), string) in planes.zip(strings) {
                pack(isa, widths, symbols, plane, string);
            }
        }
        Sorted { buffers }
    }

    /// Appends the coded segment. If the recipe cannot express its values, this fails and leaves
    /// `out` as it was.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub fn encode(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &mut ClassBuffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| {
            let layout = self.shape.layout();
            let start = out.len();
            let n = values.len() >> layout.width_log2;
            out.resize(start + n * usize::from(layout.raw_bytes), 0);
            self.sort(isa, values, base, buffers, &mut out[start..]);
            let ClassBuffers { streams: Streams { symbols, lens, .. }, coders, .. } = buffers;
            let streams = symbols.iter().zip(&*lens);
            for (coder, (symbols, &len)) in self.contexts.iter().zip(streams) {
                coder.encode(isa, &symbols[..len], coders, out)?;
            }
            buffers.write_payloads(out);
            Ok(())
        })
    }
}

impl ClassBuffers {
    /// Empties it and makes room for the `n` values of a segment.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn start(&mut self, contexts: usize, n: usize, payload_bytes: usize) {
        let Streams { symbols, lens, strings } = &mut self.streams;
        symbols.resize_with(contexts.max(symbols.len()), Vec::new);
        for stream in &mut symbols[..contexts] {
            sized(stream, n + 2 * GROUP);
        }
        lens.clear();
        lens.resize(contexts, 0);
        strings.resize_with(payload_bytes, BitString::default);
        strings.iter_mut().for_each(|string| string.clear(8 * n));
    }

    /// Appends the payloads.
    fn write_payloads(&mut self, out: &mut Vec<u8>) {
        let strings = &mut self.streams.strings;
        let last = strings.len().saturating_sub(1);
        for (i, string) in strings.iter_mut().enumerate() {
            let bytes = string.finish();
            if i < last {
                varint::write(out, bytes.len() as u64);
            }
            out.extend_from_slice(bytes);
        }
    }
}

/// The state of a segment after its symbols have been decoded.
struct Read<'a> {
    /// Where the symbols of each context start.
    places: Vec<usize>,
    records: &'a [u8],
    base: &'a [u8],
    hints: Hints<'a>,
}

/// A recipe's coders, ready to decode with.
#[derive(Debug)]
pub struct ClassDecoder {
    shape: ClassShape,
    contexts: Vec<PlaneDecoder>,
}

impl ClassDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ClassRecipe) -> Self {
        let contexts = recipe.contexts.iter().map(PlaneDecoder::new).collect();
        Self { shape: ClassShape::new(recipe), contexts }
    }

    /// Decodes the segment `coded` against `base` into all of `dst`, which has the length of the
    /// base. On an error the contents of `dst` mean nothing.
    pub fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        base: &[u8],
        buffers: &mut ClassBuffers,
        dst: &mut [u8],
        hints: Hints,
    ) -> Result<()> {
        let layout = self.shape.layout();
        let n = dst.len() >> layout.width_log2;
        let mut input = Reader::new(coded);
        let records = input.take(n * usize::from(layout.raw_bytes), "records")?;
        let counts = self.make_masks(isa, base, buffers);
        let places = self.read_symbols(isa, &mut input, &counts, buffers)?;
        let read = Read { places, records, base, hints };
        self.restore(isa, input, read, buffers, dst)
    }

    /// Makes the masks of all values with this base. Returns how many values each context has.
    #[expect(clippy::indexing_slicing, reason = "a kernel does no more values than it gets")]
    fn make_masks(&self, isa: Isa, base: &[u8], buffers: &mut ClassBuffers) -> Vec<usize> {
        let (layout, rule) = (self.shape.layout(), self.shape.rule());
        let mut counts = vec![0; self.contexts.len()];
        let done = mask_fast(isa, layout, rule, base, &mut buffers.fast_masks, &mut counts);
        buffers.masks.clear();
        for base in base[done << layout.width_log2..].chunks(self.shape.chunk_bytes()) {
            self.shape.add_masks(isa, base, &mut buffers.exponents, &mut buffers.masks);
        }
        count_masks(isa, &buffers.masks, &mut counts);
        counts
    }

    /// Decodes the symbols of all contexts into their buffer. Returns where those of each context
    /// start.
    #[expect(
        clippy::indexing_slicing,
        reason = "the buffer has room for the values of all contexts"
    )]
    fn read_symbols(
        &self,
        isa: Isa,
        input: &mut Reader,
        counts: &[usize],
        buffers: &mut ClassBuffers,
    ) -> Result<Vec<usize>> {
        let n: usize = counts.iter().sum();
        let sorted = sized(&mut buffers.sorted, 2 * n + GROUP);
        let mut places = Vec::with_capacity(counts.len());
        let mut end = 0;
        for (coder, &count) in self.contexts.iter().zip(counts) {
            let own = &mut sorted[end..end + count];
            coder.decode(isa, input, own, &mut buffers.coders)?;
            self.check_symbols(isa, own)?;
            places.push(end);
            end += count;
        }
        Ok(places)
    }

    fn check_symbols(&self, isa: Isa, symbols: &[u8]) -> Result<()> {
        if largest(isa, symbols) > self.shape.table.max {
            return Err(Error::corrupt("a symbol is of no class"));
        }
        Ok(())
    }

    /// Restores the values of all of `dst`, after their symbols have been decoded and their masks
    /// made. The payloads are next in `input`.
    #[expect(
        clippy::indexing_slicing,
        reason = "a kernel does no more values than it gets, and each has a base and a mask"
    )]
    fn restore(
        &self,
        isa: Isa,
        mut input: Reader,
        read: Read,
        buffers: &mut ClassBuffers,
        dst: &mut [u8],
    ) -> Result<()> {
        let Read { places, records, base, hints } = read;
        let layout = self.shape.layout();
        let raw_bytes = usize::from(layout.raw_bytes);
        let (table, rule) = (&self.shape.table, self.shape.rule());
        let mut strings = Vec::with_capacity(table.planes.len());
        let mut lens = Vec::with_capacity(table.planes.len());
        buffers.padded.resize_with(table.planes.len(), Vec::new);
        for (i, padded) in buffers.padded.iter_mut().enumerate() {
            let len = match i + 1 < table.planes.len() {
                true => usize::try_from(input.varint("length of payloads")?).unwrap_or(usize::MAX),
                false => input.rest().len(),
            };
            let string = input.take(len, "payloads")?;
            lens.push(len);
            // The end of a string is read slowly and with care. A short string would be all end.
            if string.len() < SHORT_STRING {
                padded.clear();
                padded.extend_from_slice(string);
                padded.resize(string.len() + STRING_PADDING, 0);
                strings.push((&padded[..], 0));
            } else {
                strings.push((string, 0));
            }
        }
        let (masks, symbols) = (&buffers.fast_masks, &buffers.sorted);
        let mut unread = Unread { masks, symbols, places, strings };
        let done = restore_fast(isa, table, rule, &mut unread, records, base, dst, hints);
        let from = done << layout.width_log2;
        let mut masks = &buffers.masks[..];
        let mut records = &records[done * raw_bytes..];
        let chunk = self.shape.chunk_bytes();
        for (base, dst) in base[from..].chunks(chunk).zip(dst[from..].chunks_mut(chunk)) {
            let n = dst.len() >> layout.width_log2;
            let symbols = sized(&mut buffers.symbols, n);
            spread(isa, masks, unread.symbols, &mut unread.places, symbols);
            masks = &masks[n.div_ceil(GROUP) * self.contexts.len()..];
            let payload = sized(&mut buffers.payload, n * layout.payload_bytes());
            let planes = payload.chunks_exact_mut(n).zip(&table.planes);
            for ((plane, widths), (string, at)) in planes.zip(&mut unread.strings) {
                *at = unpack(isa, widths, symbols, string, *at, plane);
            }
            let (own, rest) = records.split_at(n * raw_bytes);
            restore(isa, table, base, symbols, payload, own, dst);
            records = rest;
        }
        for ((string, bits), len) in unread.strings.into_iter().zip(lens) {
            check_end(string, bits, len)?;
        }
        Ok(())
    }
}

/// Fails unless the payloads, which end at bit `bits`, are all of the first `len` bytes of
/// `string`.
fn check_end(string: &[u8], bits: usize, len: usize) -> Result<()> {
    if bits.div_ceil(8) != len {
        return Err(Error::corrupt(format!("payloads of {bits} bits in {len} bytes")));
    }
    if !bits.is_multiple_of(8) && string.get(len - 1).is_some_and(|&last| last >> (bits % 8) != 0) {
        return Err(Error::corrupt("padding of payloads is not zero"));
    }
    Ok(())
}
