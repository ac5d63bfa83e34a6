//! Snappy, its block format, by the crate that is used for it in Rust. It has no levels.

use snap::raw::{Decoder, Encoder};

use super::Codec;
use crate::Result;

/// Snappy with the memory of its encoder, which is kept between calls.
pub struct Snappy {
    encoder: Encoder,
    decoder: Decoder,
}

impl Snappy {
    /// A codec that has coded nothing yet.
    pub fn new() -> Self {
        Self { encoder: Encoder::new(), decoder: Decoder::new() }
    }
}

impl Codec for Snappy {
    fn name(&self) -> &'static str {
        "snappy"
    }

    fn level(&self) -> String {
        String::new()
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn grouped_block_len(&self) -> usize {
        1 << 20
    }

    /// Its encoder asks for a sixth more than the data, whatever the result.
    fn room_len(&self, len: usize) -> usize {
        len + len / 5 + (1 << 16)
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize> {
        Ok(self.encoder.compress(data, coded)?)
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        self.decoder.decompress(coded, out)?;
        Ok(())
    }
}
