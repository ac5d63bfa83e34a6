//! Lossless compression of tensor blocks: slices in, slices out.
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
