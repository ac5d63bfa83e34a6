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
    plane: Vec<u8>,
    payload: BitString,
    exceptions: Vec<u8>,
    /// A payload to be decoded, with zeros behind it.
    padded: Vec<u8>,
    coder: Scratch,
}

/// A recipe made ready to encode.
#[derive(Debug)]
pub struct BinEncoder {
    tables: Tables,
    coder: PlaneEncoder,
}

impl BinEncoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        Self { tables: Tables::new(recipe), coder: PlaneEncoder::new(&recipe.coder) }
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
        let n = values.len() / self.tables.width();
        let start = out.len();
        out.resize(start + n * self.tables.raw_bytes(), 0);
        let BinBuffers { plane, payload, exceptions, coder, .. } = buffers;
        let plane = sized(plane, n);
        payload.clear(8 * n);
        exceptions.clear();
        let records = &mut out[start..];
        cut(isa, &self.tables, values, base, Parts { plane, records, payload, exceptions });
        varint::write(out, (exceptions.len() / self.tables.exception_len()) as u64);
        out.extend_from_slice(exceptions);
        if !self.coder.encode(isa, plane, coder, out) {
            return false;
        }
        out.extend_from_slice(payload.finish());
        true
    }
}

/// A recipe made ready to decode.
#[derive(Debug)]
pub struct BinDecoder {
    tables: Tables,
    coder: PlaneDecoder,
}

impl BinDecoder {
    /// Prepares `recipe`.
    pub fn new(recipe: &BinRecipe) -> Self {
        Self { tables: Tables::new(recipe), coder: PlaneDecoder::new(&recipe.coder) }
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
        let n = dst.len() / self.tables.width();
        let mut input = Reader::new(coded);
        let records = input.take(n * self.tables.raw_bytes(), "records")?;
        let count = usize::try_from(input.varint("number of exceptions")?).unwrap_or(usize::MAX);
        let len = count.saturating_mul(self.tables.exception_len());
        let exceptions = input.take(len, "exceptions")?;
        let plane = sized(&mut buffers.plane, n);
        self.coder.decode(isa, &mut input, plane, &mut buffers.coder)?;
        let payload_len = input.rest().len();
        if payload_len > n {
            return Err(Error::corrupt(format!("payloads of {n} values in {payload_len} bytes")));
        }
        let payload = sized(&mut buffers.padded, n + PADDING);
        payload[..payload_len].copy_from_slice(input.rest());
        payload[payload_len..].fill(0);
        let parts = Joined { plane, records, payload, payload_len, exceptions };
        join(isa, &self.tables, base, parts, dst, hints)
    }
}
