//! Code that the general compressors share: raw or grouped, alone or after XOR with a base, in one
//! call or one per block.

use crate::filter::Filter;
use crate::{Coded, Engine, Label, Pace, Result, Sample};

/// A general-purpose compressor: one call is one frame.
pub trait Codec: Send {
    /// Its usual name.
    fn name(&self) -> &'static str;

    /// Its level, in the form that its own command takes.
    fn level(&self) -> String;

    /// Whether it takes seconds for 100 MB, so that it should get only a little data.
    fn is_slow(&self) -> bool;

    /// Bytes that are grouped and then coded in one call.
    fn grouped_block_len(&self) -> usize;

    /// Bytes of memory that it needs for the coded bytes of `len` bytes, in all calls together.
    fn room_len(&self, len: usize) -> usize {
        len + len / 16 + (1 << 16)
    }

    /// Returns the coded length; fails where `coded` is too short.
    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> Result<usize>;

    /// `out` has the length of the data.
    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()>;
}

/// How much of a sample goes through a compressor in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All of it.
    One,
    /// All of it if it is raw; grouped bytes in the blocks that suit the compressor.
    Grouped,
}

/// A codec as an engine.
pub struct Peer {
    codec: Box<dyn Codec>,
    /// Bytes of a value if they are grouped first.
    width: Option<usize>,
    on_base: bool,
    blocks: Blocks,
    filter: Filter,
}

impl Peer {
    /// The engine for `codec`, on raw bytes or on the grouped bytes of values of `width` bytes;
    /// with `on_base`, on the XOR with the base.
    pub fn new(codec: Box<dyn Codec>, width: Option<usize>, on_base: bool, blocks: Blocks) -> Self {
        Self { codec, width, on_base, blocks, filter: Filter::new(width) }
    }

    fn block_len(&self, len: usize) -> usize {
        let wanted = match (self.width, self.blocks) {
            (Some(_), Blocks::Grouped) => self.codec.grouped_block_len(),
            _ => len,
        };
        wanted.clamp(1, len.max(1))
    }

    /// The part of the base for the `len` bytes from `start` on, if this engine uses one.
    fn base<'a>(&self, base: Option<&'a [u8]>, start: usize, len: usize) -> Option<&'a [u8]> {
        base.filter(|_| self.on_base).map(|base| &base[start..][..len])
    }
}

impl Engine for Peer {
    fn label(&self) -> Label {
        let (engine, level) = (self.codec.name(), self.codec.level());
        Label { engine, level, grouped: self.width.is_some(), base: self.on_base }
    }

    fn pace(&self) -> Pace {
        if self.codec.is_slow() { Pace::Slow } else { Pace::Part }
    }

    fn room_len(&self, len: usize) -> usize {
        self.codec.room_len(len)
    }

    /// The filter allocates its memory in the first call only; that round is not the fastest.
    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        let block_len = self.block_len(sample.bytes.len());
        coded.index.clear();
        coded.len = 0;
        for (i, block) in sample.bytes.chunks(block_len).enumerate() {
            let base = self.base(sample.base, i * block_len, block.len());
            let filtered = self.filter.forward(block, base);
            let len = self.codec.compress(filtered, &mut coded.bytes[coded.len..])?;
            coded.index.push(len);
            coded.len += len;
        }
        Ok(())
    }

    fn decompress(&mut self, coded: &Coded, base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let block_len = self.block_len(out.len());
        let mut bytes = coded.bytes.as_slice();
        for (i, (block, &len)) in out.chunks_mut(block_len).zip(&coded.index).enumerate() {
            let (head, tail) = bytes.split_at(len);
            let base = self.base(base, i * block_len, block.len());
            let decode = |out: &mut [u8]| self.codec.decompress(head, out);
            self.filter.inverse(base, block, decode)?;
            bytes = tail;
        }
        Ok(())
    }
}
