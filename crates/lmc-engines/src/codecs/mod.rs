//! General compressors: slices in, slices out, one thread, one file each.

mod bzip2;
mod lz4;
mod xz;
mod zstd;

use crate::Result;

pub use bzip2::Bzip2;
pub use lz4::Lz4;
pub use xz::Xz;
pub use zstd::Zstd;

/// A general-purpose compressor: one call is one frame.
pub trait Codec: Send {
    /// Its usual name.
    fn name(&self) -> &'static str;

    /// Its level, in the form that its own command takes.
    fn level(&self) -> String;

    /// Whether it takes seconds for 100 MB, so that it should get only a little data.
    fn is_slow(&self) -> bool;

    /// Bytes that are grouped and then coded in one call.
    fn grouped_block_len(&self) -> usize;

    /// Returns the coded length; fails where `coded` is too short.
    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize>;

    /// `out` has the length of the data.
    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()>;
}
