//! What the general-purpose compressors share: raw or grouped, one call or one per block.

use lmc_peers::{Codec, Filter};

use super::{Engine, Label, Pace, Sample};
use crate::Result;

/// A codec as an engine. What is grouped goes through the filter, a block at a time.
struct Peer<C> {
    codec: C,
    /// Bytes of a value if they are grouped first.
    width: Option<usize>,
    filter: Filter,
    coded_lens: Vec<usize>,
}

/// The engine for `codec`, on raw bytes or on those of values of `width` bytes, grouped.
pub fn boxed<C: Codec + 'static>(codec: C, width: Option<usize>) -> Box<dyn Engine> {
    Box::new(Peer { codec, width, filter: Filter::new(width), coded_lens: Vec::new() })
}

impl<C: Codec> Peer<C> {
    fn block_len(&self, data_len: usize) -> usize {
        let wanted = if self.width.is_some() { self.codec.grouped_block_len() } else { data_len };
        wanted.clamp(1, data_len.max(1))
    }
}

impl<C: Codec> Engine for Peer<C> {
    fn label(&self) -> Label {
        let (engine, level) = (self.codec.name(), self.codec.level());
        Label { engine, level, grouped: self.width.is_some() }
    }

    fn pace(&self) -> Pace {
        if self.codec.is_slow() { Pace::Slow } else { Pace::Part }
    }

    /// The filter takes its memory in the first call only; that round is not the fastest.
    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        let block_len = self.block_len(sample.bytes.len());
        self.coded_lens.clear();
        let mut end = 0;
        for block in sample.bytes.chunks(block_len) {
            let filtered = self.filter.forward(block, None);
            let len = self.codec.compress(filtered, &mut coded[end..])?;
            self.coded_lens.push(len);
            end += len;
        }
        Ok(end)
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let block_len = self.block_len(out.len());
        let mut coded = coded;
        for (block, &len) in out.chunks_mut(block_len).zip(&self.coded_lens) {
            let (head, tail) = coded.split_at(len);
            let decode = |out: &mut [u8]| self.codec.decompress(head, out);
            self.filter.inverse(None, block, decode)?;
            coded = tail;
        }
        Ok(())
    }
}
