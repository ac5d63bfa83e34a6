//! One common byte apart from all others (`docs/format.md`, section 5.5).

use super::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::simd::{Isa, flags};
use crate::transform::sparse;
use lmc_format::{ApartCoder, Reader, Result};

/// Both coders made ready to encode.
#[derive(Debug)]
pub struct Encoder {
    byte: u8,
    flags: PlaneEncoder,
    others: PlaneEncoder,
}

impl Encoder {
    /// Prepares `coder`.
    pub fn new(coder: &ApartCoder) -> Self {
        let (flags, others) = (PlaneEncoder::new(&coder.flags), PlaneEncoder::new(&coder.others));
        Self { byte: coder.byte, flags, others }
    }

    /// As [`PlaneEncoder::encode`].
    pub fn encode(&self, isa: Isa, plane: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let (mut own_flags, mut others) = (Vec::new(), Vec::new());
        flags::take_out(isa, self.byte, plane, &mut own_flags, &mut others);
        let done = self.flags.encode(isa, &own_flags, scratch, out)
            && self.others.encode(isa, &others, scratch, out);
        if !done {
            out.truncate(start);
        }
        done
    }
}

/// Both coders made ready to decode.
#[derive(Debug)]
pub struct Decoder {
    byte: u8,
    flags: PlaneDecoder,
    others: PlaneDecoder,
}

impl Decoder {
    /// Prepares `coder`.
    pub fn new(coder: &ApartCoder) -> Self {
        let (flags, others) = (PlaneDecoder::new(&coder.flags), PlaneDecoder::new(&coder.others));
        Self { byte: coder.byte, flags, others }
    }

    /// As [`PlaneDecoder::decode`].
    pub fn decode(
        &self,
        isa: Isa,
        input: &mut Reader,
        plane: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut own_flags = vec![0; plane.len().div_ceil(8)];
        self.flags.decode(isa, input, &mut own_flags, scratch)?;
        let mut others = vec![0; sparse::count(&own_flags, plane.len())?];
        self.others.decode(isa, input, &mut others, scratch)?;
        flags::put_back(isa, self.byte, &own_flags, &others, plane);
        Ok(())
    }
}
