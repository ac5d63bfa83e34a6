//! Looks at bytes, chooses recipes, writes nothing.
//!
//! A [`Plan`] is made once for a tensor from a sample of it. A block that takes more than the plan
//! expected gets a recipe of its own, if that is smaller. What is chosen depends on the bytes and
//! the level alone, never on threads or the instruction set.

mod block;
mod choose;
mod coder;
mod cost;
mod exact;
mod offsets;
mod paper;
mod sample;

use crate::dtype::{Layout, Level, TensorSpec};
use crate::entropy::{PlaneEncoder, Scratch};
use crate::segment::SegmentEncoder;
use crate::simd::Isa;
use crate::transform::offsets::ColumnOffsets;
pub(crate) use block::block_rows;
pub(crate) use choose::{Scope, choose};
pub(crate) use coder::choose_bytes;
use lmc_format::Recipe;
pub(crate) use paper::paper;

/// Values in a block of values of 2 bytes or more; blocks of bytes, and all at the highest level,
/// have twice as many.
const BLOCK_VALUES: usize = 1 << 17;
/// Bytes in a block of the published algorithm.
const PAPER_BLOCK_LEN: usize = 1 << 16;

/// A recipe ready to encode with.
#[derive(Debug)]
pub(crate) struct ReadyRecipe {
    pub recipe: Recipe,
    /// The recipe as bytes, columns included.
    pub bytes: Vec<u8>,
    pub segments: SegmentEncoder,
    pub columns: Option<ColumnOffsets>,
    /// Expected bits of 1,024 values.
    pub expected_bits: u64,
}

impl ReadyRecipe {
    pub(crate) fn new(recipe: Recipe, columns: Option<ColumnOffsets>, expected_bits: u64) -> Self {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        if let (Some(header), Some(offsets)) = (&recipe.columns, &columns) {
            let coder = PlaneEncoder::new(&header.coder);
            let coded =
                coder.encode(Isa::best(), &offsets.cols, &mut Scratch::default(), &mut bytes);
            assert!(coded, "the column coder was chosen for these columns");
        }
        Self { segments: SegmentEncoder::new(&recipe), recipe, bytes, columns, expected_bits }
    }

    /// Whether a block of `n` values that took `len` bytes took more than was planned, by a
    /// sixteenth of a bit a value or more.
    pub(crate) fn is_dear(&self, n: usize, len: usize) -> bool {
        8 * len as u64 > (self.expected_bits + 64) * n as u64 / 1024 + 8 * 1024
    }
}

/// What recipes are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub layout: Layout,
    pub level: Level,
    pub row_len: u64,
    pub block_len: usize,
}

/// How a tensor's blocks are to be coded.
#[derive(Debug)]
pub struct Plan {
    pub(crate) target: Target,
    pub(crate) shared: Option<ReadyRecipe>,
}

impl Plan {
    /// Plans for a tensor with these bytes, or with bytes like these.
    ///
    /// If `tensor` is more than one block, its blocks will refer to [`Plan::shared_recipe`].
    pub fn new(spec: &TensorSpec, level: Level, tensor: &[u8]) -> Self {
        Self::with_isa(Isa::best(), spec, level, tensor)
    }

    /// The same with a given instruction set; the plan does not depend on it.
    pub fn with_isa(isa: Isa, spec: &TensorSpec, level: Level, tensor: &[u8]) -> Self {
        let layout = spec.dtype.layout();
        let block_len = match (level, layout.width_log2) {
            (Level::Paper, _) => PAPER_BLOCK_LEN,
            // A rANS stream has 128 bytes of states, which want to be shared by many values.
            (Level::Max, width_log2) => (2 * BLOCK_VALUES) << width_log2.min(2),
            (_, 0) => 2 * BLOCK_VALUES,
            (_, width_log2) => BLOCK_VALUES << width_log2.min(2),
        };
        let target = Target { layout, level, row_len: spec.row_len, block_len };
        let mut shared = None;
        if level != Level::Paper && tensor.len() > block_len {
            shared = choose(isa, target, Scope::tensor(tensor)).filter(|ready| {
                level == Level::Fast || !block::blocks_differ(isa, ready, tensor, block_len)
            });
        }
        Self { target, shared }
    }

    /// The recipe that the tensor's blocks share, to be stored once for all of them; empty if there
    /// is none.
    pub fn shared_recipe(&self) -> &[u8] {
        self.shared.as_ref().map_or(&[], |ready| &ready.bytes)
    }

    /// Bytes that the tensor should be cut into for its blocks; a multiple of the type's width.
    pub fn block_len(&self) -> usize {
        self.target.block_len
    }
}
