//! One segment in each direction against a base, in bins: symbols in the order of the values, and
//! payloads at places that follow from the base (`docs/format.md`, sections 3.7 and 4.4).

use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch, rans};
use crate::express::{Encoded, all_or_nothing};
use crate::segment::sized;
use crate::simd::Isa;
use crate::simd::bins::{FLIP, Joined, PADDING, Parts, Reach, Tables, contexts, cut, join};
use crate::simd::chain::Hints;
use crate::simd::classes::BitString;
use lmc_format::limits::{BIN_MAX, RANS_CONTEXTS_MAX};
use lmc_format::{
    Bin, BinRecipe, BinRules, ContextTables, Error, Reader, Result, SymbolCoder, varint,
};

/// Working buffers for segments; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct BinBuffers {
    pub(crate) plane: Vec<u8>,
    contexts: Vec<u8>,
    payload: BitString,
    exceptions: Vec<u8>,
    /// A payload to decode, with zeros after it.
    padded: Vec<u8>,
    pub(crate) coder: Scratch,
}

impl BinBuffers {
    /// Bits of the payloads of the last cut.
    pub(crate) fn payload_bits(&self) -> u64 {
        self.payload.bit_count() as u64
    }
}

/// The parts of a segment that are not symbols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) records: &'a [u8],
    pub(crate) exceptions: &'a [u8],
    /// The bytes after the symbols.
    pub(crate) payload: &'a [u8],
}

/// Values to symbols and back, without coding the symbols.
#[derive(Debug)]
pub(crate) struct BinCut {
    tables: Tables,
}

impl BinCut {
    /// For `tables`.
    pub(crate) fn new(tables: Tables) -> Self {
        Self { tables }
    }

    /// Width of a value in bytes.
    pub(crate) fn width(&self) -> usize {
        self.tables.width()
    }

    /// Appends records and exceptions. Symbols and payloads go to the buffers.
    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    pub(crate) fn cut(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &mut BinBuffers,
        out: &mut Vec<u8>,
    ) {
        let n = values.len() / self.width();
        let start = out.len();
        out.resize(start + n * self.tables.raw_bytes(), 0);
        let BinBuffers { plane, payload, exceptions, .. } = buffers;
        let plane = sized(plane, n);
        payload.clear(8 * n);
        exceptions.clear();
        let records = &mut out[start..];
        cut(isa, &self.tables, values, base, Parts { plane, records, payload, exceptions });
        varint::write(out, (exceptions.len() / self.tables.exception_len()) as u64);
        out.extend_from_slice(exceptions);
    }

    /// Appends the payloads of the last cut.
    pub(crate) fn write_payload(buffers: &mut BinBuffers, out: &mut Vec<u8>) {
        out.extend_from_slice(buffers.payload.finish());
    }

    /// Reads the records and exceptions of `n` values; the payload is read later.
    pub(crate) fn read_beside<'a>(&self, n: usize, input: &mut Reader<'a>) -> Result<Beside<'a>> {
        let records = input.take(n * self.tables.raw_bytes(), "records")?;
        let count = usize::try_from(input.varint("number of exceptions")?).unwrap_or(usize::MAX);
        let len = count.saturating_mul(self.tables.exception_len());
        let exceptions = input.take(len, "exceptions")?;
        Ok(Beside { records, exceptions, payload: &[] })
    }

    /// Restores the values of the symbols that are in the buffers into all of `dst`.
    #[expect(
        clippy::indexing_slicing,
        reason = "buffers were made for all values, and the payload was found to fit"
    )]
    pub(crate) fn join(
        &self,
        isa: Isa,
        beside: Beside,
        base: &[u8],
        buffers: &mut BinBuffers,
        dst: &mut [u8],
        hints: Hints,
    ) -> Result<()> {
        let n = dst.len() / self.width();
        let Beside { records, exceptions, payload } = beside;
        let payload_len = payload.len();
        if payload_len > n {
            return Err(Error::corrupt(format!("payloads of {n} values in {payload_len} bytes")));
        }
        let padded = sized(&mut buffers.padded, n + PADDING);
        padded[..payload_len].copy_from_slice(payload);
        padded[payload_len..].fill(0);
        let (plane, payload) = (&buffers.plane[..n], &*padded);
        let parts = Joined { plane, records, payload, payload_len, exceptions };
        join(isa, &self.tables, base, parts, dst, hints)
    }
}

/// A recipe ready to encode with.
#[derive(Debug)]
pub struct BinEncoder {
    values: BinCut,
    symbols: SymbolEncoder,
}

#[derive(Debug)]
enum SymbolEncoder {
    One(PlaneEncoder),
    ByContext(ContextTables, Box<rans::Encoder<RANS_CONTEXTS_MAX>>),
}

impl BinEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        let tables = Tables::new(&recipe.rules);
        match &recipe.symbols {
            SymbolCoder::One(coder) => {
                let symbols = SymbolEncoder::One(PlaneEncoder::new(coder));
                Self { values: BinCut::new(tables), symbols }
            }
            // Values without a code in the table become exceptions.
            SymbolCoder::ByContext(own) => {
                let encoder = Box::new(rans::Encoder::by_context(own));
                let symbols = SymbolEncoder::ByContext(own.clone(), encoder);
                Self {
                    values: BinCut::new(tables.with_reach(|bin| reach(own, &recipe.rules, bin))),
                    symbols,
                }
            }
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
        buffers: &mut BinBuffers,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| {
            self.values.cut(isa, values, base, buffers, out);
            let n = values.len() / self.values.width();
            let plane = &buffers.plane[..n];
            match &self.symbols {
                SymbolEncoder::One(coder) => coder.encode(isa, plane, &mut buffers.coder, out)?,
                SymbolEncoder::ByContext(tables, encoder) => {
                    let own = sized(&mut buffers.contexts, n);
                    contexts(isa, &self.values.tables, tables.bounds(), base, own);
                    encoder.encode_by_context(isa, plane, own, out)?;
                }
            }
            BinCut::write_payload(buffers, out);
            Ok(())
        })
    }
}

/// A recipe ready to decode with.
#[derive(Debug)]
pub struct BinDecoder {
    values: BinCut,
    symbols: SymbolDecoder,
}

#[derive(Debug)]
enum SymbolDecoder {
    One(PlaneDecoder),
    ByContext(ContextTables, Box<rans::Decoder<RANS_CONTEXTS_MAX>>),
}

impl BinDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        let symbols = match &recipe.symbols {
            SymbolCoder::One(coder) => SymbolDecoder::One(PlaneDecoder::new(coder)),
            SymbolCoder::ByContext(tables) => {
                let decoder = Box::new(rans::Decoder::by_context(tables));
                SymbolDecoder::ByContext(tables.clone(), decoder)
            }
        };
        Self { values: BinCut::new(Tables::new(&recipe.rules)), symbols }
    }

    /// Decodes the segment `coded` against `base` into all of `dst`, which has the length of the
    /// base. On an error the contents of `dst` mean nothing.
    pub fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        base: &[u8],
        buffers: &mut BinBuffers,
        dst: &mut [u8],
        hints: Hints,
    ) -> Result<()> {
        let n = dst.len() / self.values.width();
        let mut input = Reader::new(coded);
        let beside = self.values.read_beside(n, &mut input)?;
        let plane = sized(&mut buffers.plane, n);
        match &self.symbols {
            SymbolDecoder::One(coder) => {
                coder.decode(isa, &mut input, plane, &mut buffers.coder)?;
            }
            SymbolDecoder::ByContext(tables, decoder) => {
                let own = sized(&mut buffers.contexts, n);
                contexts(isa, &self.values.tables, tables.bounds(), base, own);
                decoder.decode_by_context(isa, &mut input, own, plane)?;
            }
        }
        let beside = Beside { payload: input.rest(), ..beside };
        self.values.join(isa, beside, base, buffers, dst, hints)
    }
}

/// The steps of each bin for which its context has codes, on both sides of the most common one.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
fn reach(tables: &ContextTables, rules: &BinRules, bin: usize) -> Reach {
    let table = &tables.tables()[tables.context(bin as u8)];
    let Bin { centre, has_flip_bit, .. } = rules.bins[bin];
    [0, FLIP].map(|flip| {
        let flip = if has_flip_bit { 0 } else { flip };
        let freq = |step: &i8| table.freq((step - centre) as u8 ^ flip);
        let all = -(BIN_MAX as i8)..BIN_MAX as i8;
        let middle = all.clone().max_by_key(freq).unwrap_or(0);
        let has = |step: &i8| freq(step) > 0;
        let least = (all.start..=middle).rev().take_while(has).last();
        let most = (middle..all.end).take_while(has).last();
        // An empty reach, with the least step above the largest one: nothing is coded.
        least.zip(most).unwrap_or((i8::MAX, i8::MIN))
    })
}
