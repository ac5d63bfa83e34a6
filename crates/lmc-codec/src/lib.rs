//! Lossless compression of tensor blocks: slices in, slices out.
//!
//! A [`Plan`] is made once for a tensor. An [`Encoder`] turns the tensor's blocks into bytes by
//! that plan, and a [`Decoder`] turns them back. `docs/format.md` defines the bytes, and
//! `ARCHITECTURE.md` is a guide to the code.
//!
//! A caller stores, for each tensor, the shared recipe and its blocks with their lengths:
//!
//! ```
//! # fn main() -> lmc_codec::Result<()> {
//! use lmc_codec::{Block, Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
//!
//! // A tensor of 300 rows of 1,000 bf16 weights.
//! let tensor: Vec<u8> = (0..300_000_u32)
//!     .map(|i| i.wrapping_mul(2_654_435_761) as f32 / 4e9 - 0.5)
//!     .flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes())
//!     .collect();
//! let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 1000 };
//!
//! // Plan once for a tensor, then encode its blocks, in any order and on any thread.
//! let plan = Plan::new(&spec, Level::Default, Block::alone(&tensor));
//! let values_per_block = (plan.block_len() / spec.dtype.width()) as u64;
//! let mut encoder = Encoder::new();
//! let blocks: Vec<Vec<u8>> = (0..)
//!     .zip(tensor.chunks(plan.block_len()))
//!     .map(|(i, bytes)| {
//!         let mut block = Vec::new();
//!         encoder.encode_block(&plan, i * values_per_block, Block::alone(bytes), &mut block);
//!         block
//!     })
//!     .collect();
//!
//! // A tensor is its shared recipe (possibly empty) and its blocks.
//! let shared = plan.shared_recipe().to_vec();
//!
//! let recipe = if shared.is_empty() { None } else { Some(SharedRecipe::parse(&shared)?) };
//! let mut decoder = Decoder::new();
//! let mut restored = vec![0; tensor.len()];
//! for (block, out) in blocks.iter().zip(restored.chunks_mut(plan.block_len())) {
//!     decoder.decode_block(block, recipe.as_ref(), None, out)?;
//! }
//! assert_eq!(restored, tensor);
//! # Ok(())
//! # }
//! ```
//!
//! [`Decoder::decode_range`] restores some bytes of a block, and reads only the segments that hold
//! them.
#![deny(unsafe_code)]
#![warn(unreachable_pub)]
// Decoders read hostile bytes: bad input is an error, never a panic.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test may panic"
    )
)]

mod bins;
mod buffers;
mod changes;
mod classes;
mod decode;
#[allow(clippy::indexing_slicing, reason = "sees only what its caller owns")]
mod encode;
mod entropy;
mod express;
mod layout;
mod need;
mod palette;
#[allow(clippy::indexing_slicing, clippy::expect_used, reason = "sees only what its caller owns")]
mod plan;
mod recipe_decoder;
mod segment;
#[allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    clippy::panic,
    reason = "kernels check all lengths before their loops"
)]
mod simd;
mod spec;
mod transform;
mod zstd;

pub use decode::{BasePart, Decoder, SharedRecipe};
pub use encode::Encoder;
pub use lmc_format::{Dtype, Error, ErrorKind, Result};
pub use need::{Need, RecipeShape};
pub use plan::Plan;
pub use simd::{Isa, IsaKind};
pub use spec::{Block, Level, TensorSpec};

/// Single coders and segments, for fuzz targets and tests, which check each of them with input that
/// no block has. Nothing else may use them, and they may change.
#[doc(hidden)]
pub mod internals {
    pub use crate::bins::{BinBuffers, BinDecoder, BinEncoder};
    pub use crate::changes::{ChangeBuffers, ChangeDecoder, ChangeEncoder};
    pub use crate::classes::{ClassBuffers, ClassDecoder, ClassEncoder};
    pub use crate::entropy::huffman::build as build_huffman;
    pub use crate::entropy::rans::{Encoder as RansEncoder, build as build_rans};
    pub use crate::entropy::tree::build as build_tree;
    pub use crate::entropy::{PlaneDecoder, PlaneEncoder, Scratch};
    pub use crate::express::{CannotExpress, Encoded};
    pub use crate::palette::{PaletteBuffers, PaletteDecoder, PaletteEncoder};
    pub use crate::simd::chain::Hints;
}
