//! Test data generators and corpus access for tests and benchmarks. Never part of a release.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod casts;
pub mod collide;
pub mod corpus;
pub mod data;
pub mod entropy;
pub mod npz;
pub mod s3;
pub mod shuffle;
mod skip;

pub use campaign::{Part, count};
pub use collide::colliding;
pub use corpus::{CorpusFile, CorpusTensor, Dtype};
pub use data::Random;
pub use skip::{Missing, skip};
