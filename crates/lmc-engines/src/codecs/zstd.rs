//! zstd, the C library, with its contexts kept between calls.

use zstd::bulk::{Compressor, Decompressor};

use super::Codec;
use crate::Result;

/// zstd at one level.
pub struct Zstd {
    level: i32,
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Zstd {
    /// Fails only when the library cannot allocate its contexts.
    pub fn new(level: i32) -> Result<Self> {
        let (compressor, decompressor) = (Compressor::new(level)?, Decompressor::new()?);
        Ok(Self { level, compressor, decompressor })
    }
}

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn level(&self) -> String {
        self.level.to_string()
    }

    fn is_slow(&self) -> bool {
        self.level > 3
    }

    /// Higher levels look back further than a block of grouped bytes.
    fn grouped_block_len(&self) -> usize {
        if self.is_slow() { usize::MAX } else { 1 << 20 }
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize> {
        Ok(self.compressor.compress_to_buffer(data, coded)?)
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        self.decompressor.decompress_to_buffer(coded, out)?;
        Ok(())
    }
}
