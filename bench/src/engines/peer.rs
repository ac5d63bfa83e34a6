//! What the general-purpose compressors share: raw or grouped, alone or XOR a base, one call or one
//! per block.

use lmc_engines::{Codec, Filter};

use super::{Engine, Label, Pace, Sample};
use crate::Result;

/// A codec as an engine. What is grouped goes through the filter, a block at a time.
struct Peer<'a, C> {
    codec: C,
    /// The bytes in the places of the buffer's, if it is set against them.
    base: Option<&'a [u8]>,
    /// Bytes of a value if they are grouped first.
    width: Option<usize>,
    filter: Filter,
    coded_lens: Vec<usize>,
}

/// The engine for `codec`, on raw bytes or on those of values of `width` bytes, grouped; with a
/// base, on the XOR with it.
pub fn boxed<'a, C: Codec + 'a>(
    codec: C,
    width: Option<usize>,
    base: Option<&'a [u8]>,
) -> Box<dyn Engine + 'a> {
    Box::new(Peer { codec, base, width, filter: Filter::new(width), coded_lens: Vec::new() })
}

/// What stands in the places of the `len` bytes from `start` on.
fn part(base: Option<&[u8]>, start: usize, len: usize) -> Option<&[u8]> {
    base.map(|base| &base[start..][..len])
}

impl<C: Codec> Peer<'_, C> {
    fn block_len(&self, data_len: usize) -> usize {
        let wanted = if self.width.is_some() { self.codec.grouped_block_len() } else { data_len };
        wanted.clamp(1, data_len.max(1))
    }
}

impl<C: Codec> Engine for Peer<'_, C> {
    fn label(&self) -> Label {
        let (engine, level) = (self.codec.name(), self.codec.level());
        Label { engine, level, grouped: self.width.is_some(), base: self.base.is_some() }
    }

    fn pace(&self) -> Pace {
        if self.codec.is_slow() { Pace::Slow } else { Pace::Part }
    }

    /// The filter takes its memory in the first call only; that round is not the fastest.
    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        let block_len = self.block_len(sample.bytes.len());
        self.coded_lens.clear();
        let mut end = 0;
        for (i, block) in sample.bytes.chunks(block_len).enumerate() {
            let base = part(self.base, i * block_len, block.len());
            let filtered = self.filter.forward(block, base);
            let len = self.codec.compress(filtered, &mut coded[end..])?;
            self.coded_lens.push(len);
            end += len;
        }
        Ok(end)
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let block_len = self.block_len(out.len());
        let mut coded = coded;
        for (i, (block, &len)) in out.chunks_mut(block_len).zip(&self.coded_lens).enumerate() {
            let (head, tail) = coded.split_at(len);
            let base = part(self.base, i * block_len, block.len());
            let decode = |out: &mut [u8]| self.codec.decompress(head, out);
            self.filter.inverse(base, block, decode)?;
            coded = tail;
        }
        Ok(())
    }
}
