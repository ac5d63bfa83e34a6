//! What the general-purpose compressors share: raw or grouped, one call or one per block.

use lmc_peers::{Codec, grouping};

use super::{Engine, Label, Pace, Sample};
use crate::Result;

/// A codec as an engine. Grouped data goes through `scratch`, a block at a time.
struct Peer<C> {
    codec: C,
    grouped: bool,
    width: usize,
    scratch: Vec<u8>,
    coded_lens: Vec<usize>,
}

/// The engine for `codec`, on raw bytes or after byte grouping.
pub fn boxed<C: Codec + 'static>(codec: C, grouped: bool) -> Box<dyn Engine> {
    let (scratch, coded_lens) = (Vec::new(), Vec::new());
    Box::new(Peer { codec, grouped, width: 1, scratch, coded_lens })
}

impl<C: Codec> Peer<C> {
    fn block_len(&self, data_len: usize) -> usize {
        let wanted = if self.grouped { self.codec.grouped_block_len() } else { data_len };
        wanted.clamp(1, data_len.max(1))
    }
}

impl<C: Codec> Engine for Peer<C> {
    fn label(&self) -> Label {
        let (engine, level) = (self.codec.name(), self.codec.level());
        Label { engine, level, grouped: self.grouped }
    }

    fn pace(&self) -> Pace {
        if self.codec.is_slow() { Pace::Slow } else { Pace::Part }
    }

    /// The scratch buffer grows in the first call only; that round is not the fastest.
    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        let block_len = self.block_len(sample.bytes.len());
        self.width = sample.dtype.width();
        self.coded_lens.clear();
        if self.grouped {
            self.scratch.resize(block_len, 0);
        }
        let mut end = 0;
        for block in sample.bytes.chunks(block_len) {
            let len = if self.grouped {
                let planes = &mut self.scratch[..block.len()];
                grouping::group(block, self.width, planes);
                self.codec.compress(planes, &mut coded[end..])?
            } else {
                self.codec.compress(block, &mut coded[end..])?
            };
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
            if self.grouped {
                let planes = &mut self.scratch[..block.len()];
                self.codec.decompress(head, planes)?;
                grouping::ungroup(planes, self.width, block);
            } else {
                self.codec.decompress(head, block)?;
            }
            coded = tail;
        }
        Ok(())
    }
}
