//! General compressors to compare lmc with: slices in, slices out, one thread.
//!
//! A crate of its own, so that their C libraries reach only what asks for them: `lmc bench` and
//! the benchmarks.
#![forbid(unsafe_code)]

mod codecs;
mod filter;
mod grouping;

pub use codecs::{Bzip2, Codec, Lz4, Xz, Zstd};
pub use filter::Filter;

/// Everything a compressor can fail with ends up as one line of text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
