//! Our levels. A tensor is its shared recipe (may be empty) and one block per `block_len` bytes.
//!
//! Planning is part of compressing, parsing the recipe part of decompressing. The lengths of
//! recipes and blocks are kept beside the coded bytes, four bytes each when sizes are counted.

use std::fmt;
use std::str::FromStr;

use lmc_codec::{Block, Decoder, Encoder, Level, Plan, SharedRecipe, TensorSpec};

use super::{Engine, Label, Pace, Sample};
use crate::Result;
use crate::run::thread_time;

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
pub struct Lmc<'a> {
    level: LevelName,
    /// The bytes in the places of the buffer's, if it is coded against them.
    base: Option<&'a [u8]>,
    encoder: Encoder,
    decoder: Decoder,
    tensors: Vec<TensorIndex>,
    /// Coded lengths of the blocks of all tensors.
    block_lens: Vec<usize>,
    planning_s: f64,
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

impl<'a> Lmc<'a> {
    /// An engine with nothing coded yet.
    pub fn new(level: LevelName) -> Self {
        let (encoder, decoder) = (Encoder::new().streaming(true), Decoder::new().streaming(true));
        let (tensors, block_lens) = (Vec::new(), Vec::new());
        Self { level, base: None, encoder, decoder, tensors, block_lens, planning_s: 0.0 }
    }

    /// The same for a buffer that is coded against `base`, which is as long.
    pub fn on_base(level: LevelName, base: &'a [u8]) -> Self {
        Self { base: Some(base), ..Self::new(level) }
    }

    /// Appends one tensor, which stands at `start` in the buffer.
    fn encode_tensor(&mut self, spec: &TensorSpec, start: usize, tensor: &[u8], out: &mut Vec<u8>) {
        let base = self.base.map(|base| &base[start..][..tensor.len()]);
        let before = thread_time();
        let plan = Plan::new(spec, self.level.level(), Block { bytes: tensor, base });
        self.planning_s += (thread_time() - before).as_secs_f64();
        let shared = plan.shared_recipe();
        out.extend_from_slice(shared);
        let block_len = plan.block_len();
        let values_per_block = (block_len / spec.dtype.width()) as u64;
        for (i, bytes) in tensor.chunks(block_len).enumerate() {
            let end = out.len();
            let first_value = i as u64 * values_per_block;
            let base = base.map(|base| &base[i * block_len..][..bytes.len()]);
            self.encoder.encode_block(&plan, first_value, Block { bytes, base }, out);
            self.block_lens.push(out.len() - end);
        }
        self.tensors.push(TensorIndex {
            raw_len: tensor.len(),
            shared_len: shared.len(),
            block_len,
            block_count: tensor.len().div_ceil(block_len),
        });
    }
}

impl Engine for Lmc<'_> {
    fn label(&self) -> Label {
        let (level, base) = (self.level.to_string(), self.base.is_some());
        Label { engine: "lmc", level, grouped: false, base }
    }

    fn pace(&self) -> Pace {
        Pace::Full
    }

    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize> {
        coded.clear();
        self.tensors.clear();
        self.block_lens.clear();
        self.planning_s = 0.0;
        let mut start = 0;
        for part in sample.parts {
            let end = sample.bytes.len().min(start + part.len);
            let spec = TensorSpec { dtype: sample.dtype, row_len: part.row_len };
            self.encode_tensor(&spec, start, &sample.bytes[start..end], coded);
            start = end;
        }
        Ok(coded.len())
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()> {
        let (mut coded, mut out, mut base) = (coded, out, self.base);
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
                let base = base.as_mut().map(|base| take(base, block_out.len()));
                let done = self.decoder.decode_block(block, shared.as_ref(), base, block_out);
                done.map_err(|e| e.to_string())?;
            }
            out = after;
        }
        Ok(())
    }

    fn extra_len(&self) -> usize {
        LENGTH_LEN * (self.tensors.len() + self.block_lens.len())
    }

    fn planning_s(&self) -> f64 {
        self.planning_s
    }
}

/// Cuts `len` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (head, tail) = bytes.split_at(len);
    *bytes = tail;
    head
}
