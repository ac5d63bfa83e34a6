//! Looks at bytes and chooses recipes. Writes nothing.
//!
//! A [`Plan`] is made once for a tensor, from a sample of it. A block that takes more space than
//! the plan expected gets its own recipe, if that is smaller. The choice depends only on the bytes
//! and the level, never on threads or the instruction set.

mod bins;
mod block;
mod by_context;
mod changes;
mod choose;
mod classes;
mod coder;
mod cost;
mod exact;
mod merge;
mod offsets;
mod on_base;
mod palette;
mod paper;
mod recipe_encoder;
mod sample;
mod spread;
mod stream;
mod text;

use crate::layout::WordLayout;
use crate::simd::Isa;
use crate::spec::{Block, Level, TensorSpec};
use crate::zstd::ZstdEncoder;
pub(crate) use block::block_rows;
pub(crate) use choose::{Scope, choose};
pub(crate) use coder::choose_bytes;
use lmc_format::limits::ZSTD_BLOCK_LEN_MAX;
use paper::paper;
pub(crate) use recipe_encoder::{
    BinRecipeEncoder, ChangeRecipeEncoder, ClassRecipeEncoder, PaletteRecipeEncoder,
    PlaneRecipeEncoder, RecipeEncoder,
};

/// Values in a block, for values of 2 bytes or more. Blocks of single bytes, and all blocks at the
/// highest level, have twice as many.
const BLOCK_VALUES: usize = 1 << 17;
/// Bytes in a block of the published algorithm.
const PAPER_BLOCK_LEN: usize = 1 << 16;

/// The target that recipes are chosen for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub layout: WordLayout,
    pub level: Level,
    pub row_len: u64,
    pub block_len: usize,
}

/// Bits of an integer, just below its top bit, that tell values apart when they are coded against a
/// base.
const INTEGER_BITS: u8 = 5;

impl Target {
    /// Whether values are integers, or words of an unknown kind.
    pub(crate) fn is_integer(&self) -> bool {
        self.layout.exponent_bits == 0
    }

    /// Bits of the base, just below its top one, that say how far a value is likely to be from it.
    pub(crate) fn base_bits(&self) -> u8 {
        if self.is_integer() { INTEGER_BITS } else { self.layout.exponent_bits }
    }
}

/// How a tensor's blocks are to be coded.
#[derive(Debug)]
pub struct Plan {
    pub(crate) target: Target,
    pub(crate) shared: Option<RecipeEncoder>,
    /// What is known of single bytes; None for values of other types.
    pub(crate) bytes: Option<text::Bytes>,
    /// Whether most of the tensor is text, or like it.
    pub(crate) is_text: bool,
    cheaper: Option<Box<Plan>>,
}

impl Plan {
    /// Plans for a tensor with these bytes, or with similar ones.
    ///
    /// If `tensor` is longer than one block, its blocks will refer to [`Plan::shared_recipe`]. If
    /// it has a base, its blocks are coded against the base where that is smaller. Panics if the
    /// base and the tensor have different lengths.
    pub fn new(spec: &TensorSpec, level: Level, tensor: Block) -> Self {
        Self::with_isa(Isa::best(), spec, level, tensor)
    }

    /// The same with a given instruction set; the plan does not depend on it.
    pub fn with_isa(isa: Isa, spec: &TensorSpec, level: Level, tensor: Block) -> Self {
        tensor.check();
        let bytes = text::Bytes::of(spec.dtype).filter(|_| level != Level::Paper);
        let is_text =
            bytes.is_some_and(|kind| kind.is_text(tensor.bytes, &mut ZstdEncoder::default()));
        Planned { isa, spec, tensor, bytes, is_text }.at(level)
    }

    /// A plan that is at times smaller, although this one is for a higher level. Whoever codes the
    /// tensor by both, the recipe that blocks share included, and keeps what is smaller never gets
    /// more than at a lower level. If there is none, this plan is never the larger one.
    pub fn cheaper(&self) -> Option<&Plan> {
        self.cheaper.as_deref()
    }

    /// The recipe that the tensor's blocks share, to be stored once for all of them; empty if there
    /// is none.
    pub fn shared_recipe(&self) -> &[u8] {
        self.shared.as_ref().map_or(&[], |prepared| prepared.bytes())
    }

    /// Whether the tensor is text, or bytes that repeat like text.
    pub fn is_text(&self) -> bool {
        self.is_text
    }

    /// Length of the blocks to cut the tensor into, in bytes; a multiple of the type's width.
    pub fn block_len(&self) -> usize {
        self.target.block_len
    }
}

/// What is planned, the same at all levels.
#[derive(Clone, Copy)]
struct Planned<'a> {
    isa: Isa,
    spec: &'a TensorSpec,
    tensor: Block<'a>,
    bytes: Option<text::Bytes>,
    is_text: bool,
}

impl Planned<'_> {
    fn at(self, level: Level) -> Plan {
        let Self { isa, spec, tensor, bytes, is_text } = self;
        let layout = WordLayout::of(spec.dtype);
        let block_len = match (level, layout.width_log2) {
            (Level::Paper, _) => PAPER_BLOCK_LEN,
            // Repeats are found within a block only.
            _ if is_text => ZSTD_BLOCK_LEN_MAX,
            // A rANS stream has 128 bytes of states, which should be shared by many values.
            (Level::Max, width_log2) => (2 * BLOCK_VALUES) << width_log2.min(2),
            (_, 0) => 2 * BLOCK_VALUES,
            (_, width_log2) => BLOCK_VALUES << width_log2.min(2),
        };
        let target = Target { layout, level, row_len: spec.row_len, block_len };
        let mut shared = None;
        if level != Level::Paper && !is_text && tensor.bytes.len() > block_len {
            shared = choose(isa, target, Scope::tensor(tensor));
        }
        let plan = Plan { target, shared, bytes, is_text, cheaper: None };
        match level {
            Level::Default => self.settle(plan, Level::Fast),
            Level::Max => self.settle(plan, Level::Default),
            Level::Fast | Level::Paper => plan,
        }
    }

    /// Sees to it that the plan is never larger than one of the level `below`.
    fn settle(self, mut plan: Plan, below: Level) -> Plan {
        let Target { block_len, .. } = plan.target;
        let bytes = self.tensor.bytes;
        if self.is_text || bytes.len() <= block_len && below == Level::Fast {
            // Such blocks try the levels below themselves.
            return plan;
        }
        let below = self.at(below);
        if bytes.len() <= below.target.block_len {
            return plan;
        }
        let is_lowest = below.target.level == Level::Fast;
        if let (Some(own), Some(cheaper)) = (&plan.shared, &below.shared)
            && is_lowest
            && !own.gains_on(cheaper)
        {
            plan.shared = below.shared;
            return plan;
        }
        if let Some(RecipeEncoder::Planes(own)) = &plan.shared
            && block::blocks_differ(self.isa, own, bytes, block_len)
        {
            plan.shared = None;
        }
        if is_lowest && plan.shared.is_none() && below.shared.is_none() {
            return plan;
        }
        plan.cheaper = Some(Box::new(below));
        plan
    }
}
