//! bzip2 -9. Grouped data is coded in one stream, since 1 MiB does not fill its blocks evenly.

use bzip2::{Action, Compress, Compression, Decompress, Status};

use super::Codec;
use crate::Result;

/// bzip2 at level 9.
pub struct Bzip2;

impl Codec for Bzip2 {
    fn name(&self) -> &'static str {
        "bzip2"
    }

    fn level(&self) -> String {
        "9".into()
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn grouped_block_len(&self) -> usize {
        usize::MAX
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize> {
        let mut stream = Compress::new(Compression::best(), 0);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let status = stream.compress(&data[read..], &mut coded[written..], Action::Finish)?;
            if matches!(status, Status::StreamEnd) {
                return Ok(stream.total_out() as usize);
            }
        }
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let mut stream = Decompress::new(false);
        loop {
            let (read, written) = (stream.total_in() as usize, stream.total_out() as usize);
            let status = stream.decompress(&coded[read..], &mut out[written..])?;
            let stuck =
                stream.total_in() as usize == read && stream.total_out() as usize == written;
            match status {
                Status::StreamEnd => return Ok(()),
                _ if stuck => return Err("the bzip2 stream does not end".into()),
                _ => {}
            }
        }
    }
}
