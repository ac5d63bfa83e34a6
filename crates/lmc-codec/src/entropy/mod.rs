//! Entropy coders: encode one plane of bytes to a stream and back (`docs/format.md`, section 5).

pub(crate) mod apart;
#[allow(clippy::indexing_slicing, clippy::expect_used, reason = "makes tables of counts")]
pub(crate) mod chain;
pub(crate) mod gaps;
pub(crate) mod huffman;
pub(crate) mod rans;
pub(crate) mod runs;
#[allow(clippy::indexing_slicing, clippy::expect_used, reason = "makes tables of counts")]
pub(crate) mod tree;

use crate::express::{Encoded, only_if};
use crate::simd::{Isa, pack};
use lmc_format::{Coder, Error, Reader, Result};

/// Working memory that coders share.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Memory of the chain code.
    pub chain: crate::simd::chain::Scratch,
    /// Memory of the tree code.
    pub tree: crate::simd::tree::Scratch,
}

/// A coder, ready to encode planes with.
#[derive(Debug)]
pub enum PlaneEncoder {
    /// See [`Coder::Raw`].
    Raw,
    /// See [`Coder::Constant`].
    Constant(u8),
    /// See [`Coder::Packed`].
    Packed(u8, u8),
    /// See [`Coder::Chain`].
    Chain(Box<crate::simd::chain::Tables>),
    /// See [`Coder::Huffman`].
    Huffman(Box<huffman::Encoder>),
    /// See [`Coder::Rans`].
    Rans(Box<rans::Encoder>),
    /// See [`Coder::Runs`].
    Runs,
    /// See [`Coder::Gaps`].
    Gaps(u8),
    /// See [`Coder::Apart`].
    Apart(Box<apart::Encoder>),
    /// See [`Coder::Tree`].
    Tree(Box<crate::simd::tree::Tables>),
}

impl PlaneEncoder {
    /// Prepares `coder`.
    pub fn new(coder: &Coder) -> Self {
        match coder {
            Coder::Raw => Self::Raw,
            Coder::Constant(value) => Self::Constant(*value),
            Coder::Packed { mask, rest } => Self::Packed(*mask, *rest),
            Coder::Chain(table) => Self::Chain(Box::new(crate::simd::chain::Tables::new(table))),
            Coder::Huffman(table) => Self::Huffman(Box::new(huffman::Encoder::new(table))),
            Coder::Rans(table) => Self::Rans(Box::new(rans::Encoder::new(table))),
            Coder::Runs => Self::Runs,
            Coder::Gaps(low_bits) => Self::Gaps(*low_bits),
            Coder::Apart(apart) => Self::Apart(Box::new(apart::Encoder::new(apart))),
            Coder::Tree(table) => Self::Tree(Box::new(crate::simd::tree::Tables::new(table))),
        }
    }

    /// Appends the stream of `plane`. If the coder cannot express it, this fails and leaves `out`
    /// as it was.
    pub fn encode(
        &self,
        isa: Isa,
        plane: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Encoded {
        match self {
            Self::Raw => out.extend_from_slice(plane),
            Self::Constant(value) => {
                return only_if(plane.iter().fold(0, |acc, b| acc | (b ^ value)) == 0);
            }
            Self::Packed(mask, rest) => return pack::pack(isa, *mask, *rest, plane, out),
            Self::Chain(tables) => {
                crate::simd::chain::encode(isa, tables, plane, &mut scratch.chain, out);
            }
            Self::Huffman(encoder) => return encoder.encode(plane, out),
            Self::Rans(encoder) => return encoder.encode(isa, plane, out),
            Self::Runs => runs::encode(plane, out),
            Self::Gaps(low_bits) => gaps::encode(isa, *low_bits, plane, out),
            Self::Apart(encoder) => return encoder.encode(isa, plane, scratch, out),
            Self::Tree(tables) => {
                return crate::simd::tree::encode(isa, tables, plane, &mut scratch.tree, out);
            }
        }
        Ok(())
    }
}

/// A coder, ready to decode planes with.
#[derive(Debug)]
pub enum PlaneDecoder {
    /// See [`Coder::Raw`].
    Raw,
    /// See [`Coder::Constant`].
    Constant(u8),
    /// See [`Coder::Packed`].
    Packed(u8, u8),
    /// See [`Coder::Chain`].
    Chain(Box<crate::simd::chain::Tables>),
    /// See [`Coder::Huffman`].
    Huffman(Box<huffman::Decoder>),
    /// See [`Coder::Rans`].
    Rans(Box<rans::Decoder>),
    /// See [`Coder::Runs`].
    Runs,
    /// See [`Coder::Gaps`].
    Gaps(u8),
    /// See [`Coder::Apart`].
    Apart(Box<apart::Decoder>),
    /// See [`Coder::Tree`].
    Tree(Box<crate::simd::tree::Tables>),
}

impl PlaneDecoder {
    /// Prepares `coder`.
    pub fn new(coder: &Coder) -> Self {
        match coder {
            Coder::Raw => Self::Raw,
            Coder::Constant(value) => Self::Constant(*value),
            Coder::Packed { mask, rest } => Self::Packed(*mask, *rest),
            Coder::Chain(table) => Self::Chain(Box::new(crate::simd::chain::Tables::new(table))),
            Coder::Huffman(table) => Self::Huffman(Box::new(huffman::Decoder::new(table))),
            Coder::Rans(table) => Self::Rans(Box::new(rans::Decoder::new(table))),
            Coder::Runs => Self::Runs,
            Coder::Gaps(low_bits) => Self::Gaps(*low_bits),
            Coder::Apart(apart) => Self::Apart(Box::new(apart::Decoder::new(apart))),
            Coder::Tree(table) => Self::Tree(Box::new(crate::simd::tree::Tables::new(table))),
        }
    }

    /// Reads the stream of `plane.len()` bytes from `input`. On an error the plane's contents mean
    /// nothing.
    pub fn decode(
        &self,
        isa: Isa,
        input: &mut Reader,
        plane: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        match self {
            Self::Raw => plane.copy_from_slice(input.take(plane.len(), "raw bytes")?),
            Self::Constant(value) => plane.fill(*value),
            Self::Packed(mask, rest) => {
                let packed = input.take(pack::packed_len(*mask, plane.len()), "packed bits")?;
                if !pack::unpack(isa, *mask, *rest, packed, plane) {
                    return Err(Error::corrupt("padding of packed bits is not zero"));
                }
            }
            Self::Chain(tables) => {
                crate::simd::chain::decode(isa, tables, input, plane, &mut scratch.chain)?;
            }
            Self::Huffman(decoder) => decoder.decode(input, plane)?,
            Self::Rans(decoder) => decoder.decode(isa, input, plane)?,
            Self::Runs => runs::decode(input, plane)?,
            Self::Gaps(low_bits) => gaps::decode(*low_bits, input, plane)?,
            Self::Apart(decoder) => decoder.decode(isa, input, plane, scratch)?,
            Self::Tree(tables) => {
                crate::simd::tree::decode(isa, tables, input, plane, &mut scratch.tree)?;
            }
        }
        Ok(())
    }
}
