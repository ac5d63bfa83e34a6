//! General compressors to compare lmc with: slices in, slices out, one thread.
//!
//! A crate of its own, so that their C libraries reach only what asks for them: `lmc bench` and
//! the benchmarks.
#![forbid(unsafe_code)]

mod bzip2;
mod filter;
mod grouping;
mod lz4;
mod xz;
mod zstd;

pub use bzip2::Bzip2;
pub use filter::Filter;
pub use lz4::Lz4;
pub use xz::Xz;
pub use zstd::Zstd;

/// Everything a compressor can fail with ends up as one line of text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A general-purpose compressor: one call is one frame.
pub trait Codec: Send {
    /// Its usual name.
    fn name(&self) -> &'static str;

    /// Its level, as its own command takes it.
    fn level(&self) -> String;

    /// Whether it takes seconds for 100 MB, so that it should be given little.
    fn is_slow(&self) -> bool;

    /// Bytes that are grouped and then coded in one call.
    fn grouped_block_len(&self) -> usize;

    /// Returns the coded length; fails where `coded` is too short.
    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize>;

    /// `out` has the length of the data.
    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()>;
}
