//! zlib -6 by zlib-rs, which is about as fast as zlib-ng in C. Grouped data is coded in one stream.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Codec;
use crate::Result;

/// zlib at its default level, with its usual checksum.
pub struct Zlib {
    compressor: Compress,
    decompressor: Decompress,
}

impl Zlib {
    /// A codec that has coded nothing yet.
    pub fn new() -> Self {
        let compressor = Compress::new(Compression::new(6), true);
        Self { compressor, decompressor: Decompress::new(true) }
    }
}

impl Codec for Zlib {
    fn name(&self) -> &'static str {
        "zlib"
    }

    fn level(&self) -> String {
        "6".into()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn grouped_block_len(&self) -> usize {
        usize::MAX
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize> {
        let stream = &mut self.compressor;
        stream.reset();
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let (data, coded) = (&data[read..], &mut coded[written..]);
            match stream.compress(data, coded, FlushCompress::Finish)? {
                Status::StreamEnd => return Ok(stream.total_out() as usize),
                Status::BufError => return Err("zlib needs more room".into()),
                Status::Ok => {}
            }
        }
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let stream = &mut self.decompressor;
        stream.reset(true);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let (coded, out) = (&coded[read..], &mut out[written..]);
            match stream.decompress(coded, out, FlushDecompress::Finish)? {
                Status::StreamEnd => return Ok(()),
                Status::BufError => return Err("the zlib stream does not end".into()),
                Status::Ok => {}
            }
        }
    }
}
