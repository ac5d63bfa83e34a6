//! Lossless compression of tensor blocks: slices in, slices out.
//!
//! A [`Plan`] is made once for a tensor; an [`Encoder`] turns its blocks into bytes by that plan,
//! and a [`Decoder`] turns them back. `docs/format.md` defines the bytes, `ARCHITECTURE.md` shows
//! the way through the code.
#![deny(unsafe_code)]

pub mod decode;
pub mod dtype;
pub mod encode;
pub mod entropy;
pub mod plan;
pub mod segment;
pub mod simd;
pub mod transform;

pub use decode::{Decoder, SharedRecipe};
pub use dtype::{Dtype, Level, TensorSpec};
pub use encode::Encoder;
pub use plan::Plan;
pub use simd::Isa;

/// The README's example, which the documentation tests run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
