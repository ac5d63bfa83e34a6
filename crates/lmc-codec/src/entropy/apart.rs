//! One common byte coded apart from all others (`docs/format.md`, section 5.5).

use super::{PlaneDecoder, PlaneEncoder, Scratch};
use crate::express::{Encoded, all_or_nothing};
use crate::simd::{Isa, flags};
use crate::transform::sparse;
use lmc_format::{ApartCoder, Reader, Result};

/// Both coders, ready to encode with.
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

    /// Like [`PlaneEncoder::encode`].
    pub fn encode(
        &self,
        isa: Isa,
        plane: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Encoded {
        let (mut own_flags, mut others) = (Vec::new(), Vec::new());
        flags::take_out(isa, self.byte, plane, &mut own_flags, &mut others);
        self.encode_parts(isa, &own_flags, &others, scratch, out)
    }

    /// The same for a plane that is already split.
    pub fn encode_parts(
        &self,
        isa: Isa,
        own_flags: &[u8],
        others: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Encoded {
        all_or_nothing(out, |out| {
            self.flags.encode(isa, own_flags, scratch, out)?;
            self.others.encode(isa, others, scratch, out)
        })
    }
}

/// Both coders, ready to decode with.
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

    /// Like [`PlaneDecoder::decode`].
    pub fn decode(
        &self,
        isa: Isa,
        input: &mut Reader,
        plane: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (mut own_flags, mut others) = (Vec::new(), Vec::new());
        self.decode_parts(isa, input, plane.len(), &mut own_flags, &mut others, scratch)?;
        flags::put_back(isa, self.byte, &own_flags, &others, plane);
        Ok(())
    }

    /// The same, but the result is flags of `n` bytes in all of `own_flags`, and the other bytes,
    /// appended to `others`.
    pub fn decode_parts(
        &self,
        isa: Isa,
        input: &mut Reader,
        n: usize,
        own_flags: &mut Vec<u8>,
        others: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        own_flags.clear();
        own_flags.resize(n.div_ceil(8), 0);
        self.flags.decode(isa, input, own_flags, scratch)?;
        let start = others.len();
        others.resize(start + sparse::count(isa, own_flags, n)?, 0);
        let own = others.get_mut(start..).unwrap_or_default();
        self.others.decode(isa, input, own, scratch)
    }
}
