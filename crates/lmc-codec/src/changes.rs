//! One segment in each direction against a base that most values are equal to: flags mark the
//! values that differ, and these are coded in bins (`docs/format.md`, sections 3.8 and 4.5).

use crate::bins::{Beside, BinBuffers, BinCut};
use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::express::{Encoded, all_or_nothing};
use crate::segment::sized;
use crate::simd::bins::Tables;
use crate::simd::chain::Hints;
use crate::simd::changes::{
    ContextRule, FLAGS_PADDING, GROUP, SLACK, counts, find, groups, masks, put, sort, take, unsort,
};
use crate::simd::classes::BitString;
use crate::simd::{Isa, flags};
use crate::transform::sparse;
use lmc_format::{ChangeRecipe, FlagContexts, Reader, Result, varint};

/// Values whose flags are found and sorted together, so that both passes find them in the L1 cache.
const CHUNK: usize = 64 * GROUP;

/// Working buffers for segments; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct ChangeBuffers {
    changed: FlagBuffers,
    uncommon: FlagBuffers,
    /// Values that differ, closed up, and their bases.
    values: Vec<u8>,
    base: Vec<u8>,
    /// Flags of symbols, eight per byte.
    symbol_flags: Vec<u8>,
    others: Vec<u8>,
    bins: BinBuffers,
}

/// The same for the flags of one kind.
#[derive(Debug, Default)]
struct FlagBuffers {
    masks: Vec<u64>,
    bits: Vec<u64>,
    /// Flags by context, for encoding.
    strings: Vec<BitString>,
    /// The same, for decoding.
    flags: Vec<Vec<u8>>,
    stream: Vec<u8>,
}

/// Where contexts begin, and how to find the exponents that decide this.
#[derive(Debug)]
struct Contexts {
    width_log2: u8,
    exponent_bits: u8,
    exponent_first: u16,
    bounds: Vec<u8>,
    has_lengths: bool,
}

impl Contexts {
    fn new(recipe: &ChangeRecipe, contexts: &FlagContexts) -> Self {
        Self {
            width_log2: recipe.rules.width_log2,
            exponent_bits: recipe.rules.exponent_bits,
            exponent_first: recipe.rules.exponent_first,
            bounds: contexts.bounds.clone(),
            has_lengths: recipe.has_lengths,
        }
    }

    fn rule(&self) -> ContextRule<'_> {
        ContextRule {
            width_log2: self.width_log2,
            exponent_bits: self.exponent_bits,
            exponent_first: self.exponent_first,
            bounds: &self.bounds,
        }
    }

    /// Makes the masks of values with this base.
    fn masks<'a>(&self, isa: Isa, base: &[u8], buffer: &'a mut Vec<u64>) -> &'a [u64] {
        let n = base.len() >> self.width_log2;
        let own = sized(buffer, groups(n) * self.bounds.len());
        masks(isa, self.rule(), base, own);
        own
    }
}

/// Flags ready to encode with.
#[derive(Debug)]
struct FlagEncoder {
    contexts: Contexts,
    coders: Vec<PlaneEncoder>,
}

impl FlagEncoder {
    fn new(recipe: &ChangeRecipe, contexts: &FlagContexts) -> Self {
        let coders = contexts.coders.iter().map(PlaneEncoder::new).collect();
        Self { contexts: Contexts::new(recipe, contexts), coders }
    }

    /// Makes room for the flags of `n` values.
    fn start(&self, n: usize, strings: &mut Vec<BitString>) {
        strings.resize_with(self.coders.len(), BitString::default);
        strings.iter_mut().for_each(|string| string.clear(n.next_multiple_of(GROUP)));
    }

    /// Appends the flags of all contexts, or only some of them if one cannot be expressed.
    fn write(
        &self,
        isa: Isa,
        buffers: &mut FlagBuffers,
        coder: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let FlagBuffers { strings, stream, .. } = buffers;
        for (string, own) in strings.iter_mut().zip(&self.coders) {
            if !self.contexts.has_lengths {
                own.encode(isa, string.finish(), coder, out)?;
                continue;
            }
            stream.clear();
            own.encode(isa, string.finish(), coder, stream)?;
            varint::write(out, stream.len() as u64);
            out.extend_from_slice(stream);
        }
        Ok(())
    }
}

/// A recipe ready to encode with.
#[derive(Debug)]
pub struct ChangeEncoder {
    values: BinCut,
    changed: FlagEncoder,
    uncommon: Option<FlagEncoder>,
    others: PlaneEncoder,
}

impl ChangeEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ChangeRecipe) -> Self {
        let flags = |contexts| FlagEncoder::new(recipe, contexts);
        Self {
            values: BinCut::new(Tables::of_changes(&recipe.rules)),
            changed: flags(&recipe.changed),
            uncommon: recipe.uncommon.as_ref().map(flags),
            others: PlaneEncoder::new(&recipe.coder),
        }
    }

    /// Appends the coded segment. If the recipe cannot express its values, this fails and leaves
    /// `out` as it was.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub fn encode(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &mut ChangeBuffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| {
            let count = self.find(isa, values, base, buffers);
            let len = count * self.values.width();
            self.changed.write(isa, &mut buffers.changed, &mut buffers.bins.coder, out)?;
            let (values, base) = (&buffers.values[..len], &buffers.base[..len]);
            self.values.cut(isa, values, base, &mut buffers.bins, out);
            self.write_symbols(isa, count, buffers, out)?;
            BinCut::write_payload(&mut buffers.bins, out);
            Ok(())
        })
    }

    /// Finds the values that differ. Sorts their flags, and closes up the values and their bases.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn find(&self, isa: Isa, values: &[u8], base: &[u8], buffers: &mut ChangeBuffers) -> usize {
        let width_log2 = self.changed.contexts.width_log2;
        let FlagBuffers { masks, bits, strings, .. } = &mut buffers.changed;
        self.changed.start(values.len() >> width_log2, strings);
        let own = sized(&mut buffers.values, values.len() + SLACK);
        let own_base = sized(&mut buffers.base, values.len() + SLACK);
        let mut count = 0;
        let len = CHUNK << width_log2;
        for (values, base) in values.chunks(len).zip(base.chunks(len)) {
            let n = values.len() >> width_log2;
            let bits = sized(bits, groups(n));
            let place = count << width_log2;
            let taken = [&mut own[place..], &mut own_base[place..]];
            count += find(isa, width_log2, values, base, bits, taken);
            let masks = self.changed.contexts.masks(isa, base, masks);
            sort(isa, masks, n, bits, strings);
        }
        count
    }

    /// Appends the symbols of the `count` values that differ, or only some of them if one cannot be
    /// expressed.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn write_symbols(
        &self,
        isa: Isa,
        count: usize,
        buffers: &mut ChangeBuffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let ChangeBuffers { uncommon, base, symbol_flags, others, bins, .. } = buffers;
        let BinBuffers { plane, coder, .. } = bins;
        let plane = &plane[..count];
        let Some(encoder) = &self.uncommon else {
            return self.others.encode(isa, plane, coder, out);
        };
        symbol_flags.clear();
        others.clear();
        flags::take_out(isa, 0, plane, symbol_flags, others);
        let FlagBuffers { masks, bits, strings, .. } = &mut *uncommon;
        encoder.start(count, strings);
        let masks = encoder.contexts.masks(isa, &base[..count * self.values.width()], masks);
        symbol_flags.resize(8 * groups(count), 0);
        let bits = sized(bits, groups(count));
        for (bits, bytes) in bits.iter_mut().zip(symbol_flags.as_chunks().0) {
            *bits = u64::from_le_bytes(*bytes);
        }
        sort(isa, masks, count, bits, strings);
        encoder.write(isa, uncommon, coder, out)?;
        self.others.encode(isa, others, coder, out)
    }
}

/// Flags ready to decode with.
#[derive(Debug)]
struct FlagDecoder {
    contexts: Contexts,
    coders: Vec<PlaneDecoder>,
}

impl FlagDecoder {
    fn new(recipe: &ChangeRecipe, contexts: &FlagContexts) -> Self {
        let coders = contexts.coders.iter().map(PlaneDecoder::new).collect();
        Self { contexts: Contexts::new(recipe, contexts), coders }
    }

    /// Reads the flags of all values with this base into `buffers.bits`. Returns how many are set.
    fn read(
        &self,
        isa: Isa,
        input: &mut Reader,
        base: &[u8],
        buffers: &mut FlagBuffers,
        coder: &mut Scratch,
    ) -> Result<usize> {
        let n = base.len() >> self.contexts.width_log2;
        let FlagBuffers { masks, bits, flags, .. } = buffers;
        let masks = self.contexts.masks(isa, base, masks);
        flags.resize_with(self.coders.len(), Vec::new);
        let lens = counts(isa, masks, self.contexts.bounds.len(), n);
        let mut set = 0;
        for ((own, flags), len) in self.coders.iter().zip(&mut *flags).zip(lens) {
            let bytes = len.div_ceil(8);
            let flags = sized(flags, bytes + FLAGS_PADDING);
            let (flags, padding) = flags.split_at_mut(bytes);
            padding.fill(0);
            if self.contexts.has_lengths {
                let stream_len = input.varint("length of flags")?;
                let stream_len = usize::try_from(stream_len).unwrap_or(usize::MAX);
                let mut stream = Reader::new(input.take(stream_len, "flags")?);
                own.decode(isa, &mut stream, flags, coder)?;
                stream.finish("the flags")?;
            } else {
                own.decode(isa, input, flags, coder)?;
            }
            set += sparse::count(isa, flags, len)?;
        }
        unsort(isa, masks, n, flags, sized(bits, groups(n)));
        Ok(set)
    }
}

/// A recipe ready to decode with.
#[derive(Debug)]
pub struct ChangeDecoder {
    values: BinCut,
    changed: FlagDecoder,
    uncommon: Option<FlagDecoder>,
    others: PlaneDecoder,
}

impl ChangeDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &ChangeRecipe) -> Self {
        let flags = |contexts| FlagDecoder::new(recipe, contexts);
        Self {
            values: BinCut::new(Tables::of_changes(&recipe.rules)),
            changed: flags(&recipe.changed),
            uncommon: recipe.uncommon.as_ref().map(flags),
            others: PlaneDecoder::new(&recipe.coder),
        }
    }

    /// Decodes the segment `coded` against `base` into all of `dst`, which has the length of the
    /// base. On an error the contents of `dst` mean nothing.
    #[expect(
        clippy::indexing_slicing,
        reason = "buffers were made for all values, and `count` is no more"
    )]
    pub fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        base: &[u8],
        buffers: &mut ChangeBuffers,
        dst: &mut [u8],
        hints: Hints,
    ) -> Result<()> {
        let width_log2 = self.changed.contexts.width_log2;
        let mut input = Reader::new(coded);
        let ChangeBuffers { changed, bins, .. } = buffers;
        let count = self.changed.read(isa, &mut input, base, changed, &mut bins.coder)?;
        let bits = &changed.bits[..groups(base.len() >> width_log2)];
        let own_base = sized(&mut buffers.base, base.len() + SLACK);
        let taken = take(isa, width_log2, bits, base, own_base);
        assert_eq!(taken, count, "a value is taken for each flag");
        let beside = self.values.read_beside(count, &mut input)?;
        self.read_symbols(isa, &mut input, count, buffers)?;
        let len = count << width_log2;
        let ChangeBuffers { changed, values, base: own_base, bins, .. } = buffers;
        let values = sized(values, len + SLACK);
        let (own, own_base) = (&mut values[..len], &own_base[..len]);
        let beside = Beside { payload: input.rest(), ..beside };
        self.values.join(isa, beside, own_base, bins, own, Hints::default())?;
        let bits = &changed.bits[..groups(base.len() >> width_log2)];
        put(isa, width_log2, bits, values, base, dst, hints.streaming);
        Ok(())
    }

    /// Decodes the symbols of the `count` values that differ.
    #[expect(
        clippy::indexing_slicing,
        reason = "buffers were made for all values, and `count` is no more"
    )]
    fn read_symbols(
        &self,
        isa: Isa,
        input: &mut Reader,
        count: usize,
        buffers: &mut ChangeBuffers,
    ) -> Result<()> {
        let ChangeBuffers { uncommon, base, symbol_flags, others, bins, .. } = buffers;
        let BinBuffers { plane, coder, .. } = bins;
        let plane = sized(plane, count);
        let Some(decoder) = &self.uncommon else {
            return self.others.decode(isa, input, plane, coder);
        };
        let base = &base[..count * self.values.width()];
        let set = decoder.read(isa, input, base, uncommon, coder)?;
        let others = sized(others, set);
        self.others.decode(isa, input, others, coder)?;
        symbol_flags.clear();
        let words = &uncommon.bits[..groups(count)];
        symbol_flags.extend(words.iter().flat_map(|bits| bits.to_le_bytes()));
        flags::put_back(isa, 0, &symbol_flags[..count.div_ceil(8)], others, plane);
        Ok(())
    }
}
