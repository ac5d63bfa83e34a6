//! Brotli at quality 5, from the middle of what servers use for data that they compress as they
//! send it. The default of its own command, 11, takes about a second for each MB. Grouped data is
//! coded in one stream.

use brotli::enc::BrotliEncoderParams;

use super::Codec;
use crate::Result;

/// Brotli with its usual window of 4 MiB.
pub struct Brotli;

/// Its quality.
const QUALITY: i32 = 5;

impl Codec for Brotli {
    fn name(&self) -> &'static str {
        "brotli"
    }

    fn level(&self) -> String {
        QUALITY.to_string()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn grouped_block_len(&self) -> usize {
        usize::MAX
    }

    fn compress(&mut self, mut data: &[u8], coded: &mut [u8]) -> Result<usize> {
        let (quality, size_hint) = (QUALITY, data.len());
        let params = BrotliEncoderParams { quality, size_hint, ..BrotliEncoderParams::default() };
        let room = coded.len();
        let mut rest = coded;
        brotli::BrotliCompress(&mut data, &mut rest, &params)?;
        Ok(room - rest.len())
    }

    fn decompress(&mut self, mut coded: &[u8], mut out: &mut [u8]) -> Result<()> {
        brotli::BrotliDecompress(&mut coded, &mut out)?;
        match out {
            [] => Ok(()),
            _ => Err("the brotli stream ends too early".into()),
        }
    }
}
