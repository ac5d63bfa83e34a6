//! Our levels. A tensor is its shared recipe (may be empty) and one block per `block_len` bytes.
//!
//! Planning is part of compressing, parsing the recipe part of decompressing. The lengths of
//! recipes and blocks are kept beside the coded bytes, four bytes each when sizes are counted.

use std::fmt;
use std::str::FromStr;

use lmc_codec::{Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};

use super::{Engine, Label, Pace, Sample};
use crate::Result;

/// Bytes a container needs for one length.
const LENGTH_LEN: usize = 4;

/// A level that can be named and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelName {
    Fast,
    Default,
    Max,
    Paper,
}

/// Where the pieces of one coded tensor end.
#[derive(Clone, Copy, Debug)]
struct TensorIndex {
    raw_len: usize,
    shared_len: usize,
    /// Original bytes in each block but the last.
    block_len: usize,
    block_count: usize,
}

/// One of our levels.
pub struct Lmc {
    level: LevelName,
    encoder: Encoder,
    decoder: Decoder,
    tensors: Vec<TensorIndex>,
    /// Coded lengths of the blocks of all tensors.
    block_lens: Vec<usize>,
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
    /// An engine with nothing coded yet.
    pub fn new(level: LevelName) -> Self {
        let (encoder, decoder) = (Encoder::new().streaming(true), Decoder::new().streaming(true));
        Self { level, encoder, decoder, tensors: Vec::new(), block_lens: Vec::new() }
    }

    fn encode_tensor(&mut self, dtype: Dtype, row_len: u64, tensor: &[u8], out: &mut Vec<u8>) {
        let plan = Plan::new(&TensorSpec { dtype, row_len }, self.level.level(), tensor);
        let shared = plan.shared_recipe();
        out.extend_from_slice(shared);
        let block_len = plan.block_len();
        let values_per_block = (block_len / dtype.width()) as u64;
        for (i, block) in tensor.chunks(block_len).enumerate() {
            let start = out.len();
            self.encoder.encode_block(&plan, i as u64 * values_per_block, block, out);
            self.block_lens.push(out.len() - start);
        }
        self.tensors.push(TensorIndex {
            raw_len: tensor.len(),
            shared_len: shared.len(),
            block_len,
            block_count: tensor.len().div_ceil(block_len),
        });
    }
}

impl Engine for Lmc {
    fn label(&self) -> Label {
        Label { engine: "lmc", level: self.level.to_string(), grouped: false }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        coded.clear();
        self.tensors.clear();
        self.block_lens.clear();
        let mut rest = sample.bytes;
        for part in sample.parts {
            let (tensor, after) = rest.split_at(part.len.min(rest.len()));
            self.encode_tensor(sample.dtype, part.row_len, tensor, coded);
            rest = after;
        }
        Ok(coded.len())
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let (mut coded, mut out) = (coded, out);
        let mut block_lens = self.block_lens.iter();
        for tensor in &self.tensors {
            let shared = take(&mut coded, tensor.shared_len);
            let shared = match shared {
                [] => None,
                bytes => Some(SharedRecipe::parse(bytes).map_err(|e| e.to_string())?),
            };
            let (raw, after) = out.split_at_mut(tensor.raw_len);
            let lens = block_lens.by_ref().take(tensor.block_count);
            for (block_out, &len) in raw.chunks_mut(tensor.block_len).zip(lens) {
                let block = take(&mut coded, len);
                let done = self.decoder.decode_block(block, shared.as_ref(), block_out);
                done.map_err(|e| e.to_string())?;
            }
            out = after;
        }
        Ok(())
    }

    fn extra_len(&self) -> usize {
        LENGTH_LEN * (self.tensors.len() + self.block_lens.len())
    }
}

/// Cuts `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(len);
    *bytes = tail;
    head
}
