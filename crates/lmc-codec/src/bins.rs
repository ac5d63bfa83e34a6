//! One segment each way against a base, in bins: symbols in the order of the values, and payloads
//! whose places follow from the base (`docs/format.md`, sections 3.7 and 4.4).

use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::segment::sized;
use crate::simd::Isa;
use crate::simd::bins::{Joined, PADDING, Parts, Tables, cut, join};
use crate::simd::chain::Hints;
use crate::simd::classes::BitString;
use lmc_format::{BinRecipe, Error, Reader, Result, varint};

/// Buffers that segments are worked on in; their contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct BinBuffers {
    pub(crate) plane: Vec<u8>,
    payload: BitString,
    exceptions: Vec<u8>,
    /// A payload to be decoded, with zeros behind it.
    padded: Vec<u8>,
    pub(crate) coder: Scratch,
}

/// The parts of a segment that are not symbols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) records: &'a [u8],
    pub(crate) exceptions: &'a [u8],
    /// The bytes after the symbols.
    pub(crate) payload: &'a [u8],
}

/// Values to symbols and back, without the coding of symbols.
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

    /// Appends records and exceptions; symbols and payloads go to the buffers.
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

    /// Appends the payloads of what was cut last.
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

/// A recipe made ready to encode.
#[derive(Debug)]
pub struct BinEncoder {
    values: BinCut,
    coder: PlaneEncoder,
}

impl BinEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        let values = BinCut::new(Tables::new(recipe));
        Self { values, coder: PlaneEncoder::new(&recipe.coder) }
    }

    /// Appends the coded segment. Returns false if the recipe cannot express its values; `out` then
    /// has bytes that must be cut off.
    pub fn encode(
        &self,
        isa: Isa,
        values: &[u8],
        base: &[u8],
        buffers: &mut BinBuffers,
        out: &mut Vec<u8>,
    ) -> bool {
        self.values.cut(isa, values, base, buffers, out);
        let BinBuffers { plane, coder, .. } = buffers;
        let plane = &plane[..values.len() / self.values.width()];
        if !self.coder.encode(isa, plane, coder, out) {
            return false;
        }
        BinCut::write_payload(buffers, out);
        true
    }
}

/// A recipe made ready to decode.
#[derive(Debug)]
pub struct BinDecoder {
    values: BinCut,
    coder: PlaneDecoder,
}

impl BinDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        let values = BinCut::new(Tables::new(recipe));
        Self { values, coder: PlaneDecoder::new(&recipe.coder) }
    }

    /// Decodes the segment `coded`, whose base is `base`, into all of `dst`, which is as long; on an
    /// error the contents of `dst` mean nothing.
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
        self.coder.decode(isa, &mut input, plane, &mut buffers.coder)?;
        let beside = Beside { payload: input.rest(), ..beside };
        self.values.join(isa, beside, base, buffers, dst, hints)
    }
}
