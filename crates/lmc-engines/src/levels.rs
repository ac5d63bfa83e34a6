//! Our levels without the file around them. A tensor is stored as its shared recipe (may be empty)
//! and one block per `block_len` bytes.
//!
//! Planning is part of compressing, and parsing the recipe is part of decompressing. The lengths of
//! recipes and blocks are kept next to the coded bytes and count as four bytes each.

use std::fmt;
use std::str::FromStr;

use lmc_codec::{Block, Decoder, Encoder, Level, Plan, SharedRecipe, TensorSpec};

use crate::measure::thread_time;
use crate::{Coded, Engine, LENGTH_LEN, Label, Pace, Result, Sample};

/// A level that can be named and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelName {
    /// Never the bottleneck.
    Fast,
    /// The best trade.
    Default,
    /// The smallest.
    Max,
    /// The published algorithm.
    Paper,
}

/// One of our levels.
pub struct Lmc {
    level: LevelName,
    on_base: bool,
    encoder: Encoder,
    decoder: Decoder,
}

impl LevelName {
    /// Every level, in the order of the report.
    pub const ALL: [LevelName; 4] =
        [LevelName::Fast, LevelName::Default, LevelName::Max, LevelName::Paper];

    /// The codec's level of this name.
    pub fn level(self) -> Level {
        match self {
            LevelName::Fast => Level::Fast,
            LevelName::Default => Level::Default,
            LevelName::Max => Level::Max,
            LevelName::Paper => Level::Paper,
        }
    }
}

impl fmt::Display for LevelName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            LevelName::Fast => "fast",
            LevelName::Default => "default",
            LevelName::Max => "max",
            LevelName::Paper => "paper",
        })
    }
}

impl FromStr for LevelName {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        let known = LevelName::ALL.into_iter().find(|level| level.to_string() == name);
        known.ok_or_else(|| format!("no level `{name}`: fast, default, max, paper"))
    }
}

impl Lmc {
    /// An engine that codes without a base, or with `on_base` against the base if there is one.
    pub fn new(level: LevelName, on_base: bool) -> Self {
        Self { level, on_base, encoder: Encoder::new(), decoder: Decoder::new() }
    }

    /// The same for samples far larger than the caches, whose results need not stay in them.
    #[must_use]
    pub fn streaming(self) -> Self {
        let (encoder, decoder) = (self.encoder.streaming(true), self.decoder.streaming(true));
        Self { encoder, decoder, ..self }
    }

    /// Appends one tensor.
    fn encode_tensor(
        &mut self,
        spec: &TensorSpec,
        tensor: &[u8],
        base: Option<&[u8]>,
        coded: &mut Coded,
    ) {
        let before = thread_time();
        let plan = Plan::new(spec, self.level.level(), Block { bytes: tensor, base });
        coded.planning_s += (thread_time() - before).as_secs_f64();
        let (shared, block_len) = (plan.shared_recipe(), plan.block_len());
        let out = &mut coded.bytes;
        out.extend_from_slice(shared);
        coded.index.extend([tensor.len(), shared.len(), block_len]);
        let values_per_block = (block_len / spec.dtype.width()) as u64;
        for (i, bytes) in tensor.chunks(block_len).enumerate() {
            let end = out.len();
            let first_value = i as u64 * values_per_block;
            let base = base.map(|base| &base[i * block_len..][..bytes.len()]);
            self.encoder.encode_block(&plan, first_value, Block { bytes, base }, out);
            coded.index.push(out.len() - end);
        }
        coded.extra_len += LENGTH_LEN * (1 + tensor.len().div_ceil(block_len));
    }
}

impl Engine for Lmc {
    fn label(&self) -> Label {
        let level = self.level.to_string();
        Label { engine: "lmc", level, grouped: false, base: self.on_base }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()> {
        coded.bytes.clear();
        coded.index.clear();
        (coded.extra_len, coded.planning_s) = (0, 0.0);
        let base = sample.base.filter(|_| self.on_base);
        let mut start = 0;
        for tensor in sample.tensors {
            let end = sample.bytes.len().min(start + tensor.len);
            let base = base.map(|base| &base[start..end]);
            self.encode_tensor(&tensor.spec, &sample.bytes[start..end], base, coded);
            start = end;
        }
        coded.len = coded.bytes.len();
        Ok(())
    }

    fn decompress(&mut self, coded: &Coded, base: Option<&[u8]>, out: &mut [u8]) -> Result<()> {
        let (mut bytes, mut index) = (coded.bytes.as_slice(), coded.index.as_slice());
        let (mut out, mut base) = (out, base.filter(|_| self.on_base));
        // For each tensor: its length and those of its recipe and a block; then the lengths of its
        // coded blocks.
        while let Some((&[raw_len, shared_len, block_len], after)) = index.split_first_chunk() {
            let shared = match take(&mut bytes, shared_len) {
                [] => None,
                recipe => Some(SharedRecipe::parse(recipe)?),
            };
            let (raw, rest) = out.split_at_mut(raw_len);
            let (lens, after) = after.split_at(raw_len.div_ceil(block_len));
            for (block_out, &len) in raw.chunks_mut(block_len).zip(lens) {
                let block = take(&mut bytes, len);
                let base = base.as_mut().map(|base| take(base, block_out.len()));
                self.decoder.decode_block(block, shared.as_ref(), base, block_out)?;
            }
            (out, index) = (rest, after);
        }
        Ok(())
    }
}

/// Cuts `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(len);
    *bytes = tail;
    head
}
