//! xz -1. Grouped data is coded in one stream.

use liblzma::stream::{Action, Check, Status, Stream};

use super::Codec;
use crate::Result;

/// xz at preset 1 with its usual checksum.
pub struct Xz;

impl Codec for Xz {
    fn name(&self) -> &'static str {
        "xz"
    }

    fn level(&self) -> String {
        "1".into()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn grouped_block_len(&self) -> usize {
        usize::MAX
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize> {
        let stream = Stream::new_easy_encoder(1, Check::Crc64)?;
        Ok(drive(stream, data, coded)?.total_out() as usize)
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        drive(Stream::new_stream_decoder(u64::MAX, 0)?, coded, out)?;
        Ok(())
    }
}

/// Runs a stream to its end; liblzma reports an error when it can make no progress.
fn drive(mut stream: Stream, input: &[u8], output: &mut [u8]) -> Result<Stream> {
    loop {
        let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
        let status = stream.process(&input[read..], &mut output[written..], Action::Finish)?;
        match status {
            Status::StreamEnd => return Ok(stream),
            Status::MemNeeded => return Err("xz needs more memory or room".into()),
            _ => {}
        }
    }
}
