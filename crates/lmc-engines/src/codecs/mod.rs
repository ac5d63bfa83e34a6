//! General compressors: slices in, slices out, one thread, one file each.

mod brotli;
mod bzip2;
mod lz4;
mod snappy;
mod xz;
mod zlib;
mod zstd;

pub use brotli::Brotli;
pub use bzip2::Bzip2;
pub use lz4::Lz4;
pub use snappy::Snappy;
pub use xz::Xz;
pub use zlib::Zlib;
pub use zstd::Zstd;

use crate::peer::Codec;
