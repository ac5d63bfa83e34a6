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
mod sample;
mod spread;
mod stream;

use crate::bins::BinEncoder;
use crate::changes::ChangeEncoder;
use crate::classes::ClassEncoder;
use crate::entropy::{PlaneEncoder, Scratch};
use crate::layout::WordLayout;
use crate::palette::PaletteEncoder;
use crate::segment::SegmentEncoder;
use crate::simd::Isa;
use crate::spec::{Block, Level, TensorSpec};
use crate::transform::offsets::ColumnOffsets;
pub(crate) use block::block_rows;
pub(crate) use choose::{Scope, choose};
pub(crate) use coder::choose_bytes;
use lmc_format::{BinRecipe, BinRules, ChangeRecipe, ClassRecipe, PaletteRecipe, Recipe};
use paper::paper;

/// Values in a block, for values of 2 bytes or more. Blocks of single bytes, and all blocks at the
/// highest level, have twice as many.
const BLOCK_VALUES: usize = 1 << 17;
/// Bytes in a block of the published algorithm.
const PAPER_BLOCK_LEN: usize = 1 << 16;

/// A recipe by planes, ready to encode with.
#[derive(Debug)]
pub(crate) struct PlaneRecipeEncoder {
    pub recipe: Recipe,
    /// The recipe as bytes, columns included.
    pub bytes: Vec<u8>,
    pub segments: SegmentEncoder,
    pub columns: Option<ColumnOffsets>,
    /// Expected bits per 1,024 values.
    pub expected_bits: u64,
}

impl PlaneRecipeEncoder {
    pub(crate) fn new(recipe: Recipe, columns: Option<ColumnOffsets>, expected_bits: u64) -> Self {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        if let (Some(header), Some(offsets)) = (&recipe.columns, &columns) {
            let coder = PlaneEncoder::new(&header.coder);
            let coded =
                coder.encode(Isa::best(), &offsets.cols, &mut Scratch::default(), &mut bytes);
            assert!(coded.is_ok(), "the column coder was chosen for these columns");
        }
        Self { segments: SegmentEncoder::new(&recipe), recipe, bytes, columns, expected_bits }
    }
}

/// A recipe by classes, ready to encode with.
#[derive(Debug)]
pub(crate) struct ClassRecipeEncoder {
    pub recipe: ClassRecipe,
    pub bytes: Vec<u8>,
    pub segments: ClassEncoder,
    pub expected_bits: u64,
}

impl ClassRecipeEncoder {
    fn new(recipe: ClassRecipe, expected_bits: u64) -> Self {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        Self { segments: ClassEncoder::new(&recipe), recipe, bytes, expected_bits }
    }
}

/// A recipe by bins, ready to encode with.
#[derive(Debug)]
pub(crate) struct BinRecipeEncoder {
    pub rules: BinRules,
    pub bytes: Vec<u8>,
    pub segments: BinEncoder,
    pub expected_bits: u64,
}

impl BinRecipeEncoder {
    fn new(recipe: BinRecipe, expected_bits: u64) -> Self {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        Self { segments: BinEncoder::new(&recipe), rules: recipe.rules, bytes, expected_bits }
    }
}

/// A recipe by changes, ready to encode with.
#[derive(Debug)]
pub(crate) struct ChangeRecipeEncoder {
    pub recipe: ChangeRecipe,
    pub bytes: Vec<u8>,
    pub segments: ChangeEncoder,
    pub expected_bits: u64,
}

impl ChangeRecipeEncoder {
    fn new(recipe: ChangeRecipe, expected_bits: u64) -> Self {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        Self { segments: ChangeEncoder::new(&recipe), recipe, bytes, expected_bits }
    }
}

/// A palette, ready to encode with.
#[derive(Debug)]
pub(crate) struct PaletteRecipeEncoder {
    pub recipe: PaletteRecipe,
    pub bytes: Vec<u8>,
    pub segments: PaletteEncoder,
    pub expected_bits: u64,
}

impl PaletteRecipeEncoder {
    fn new(recipe: PaletteRecipe, expected_bits: u64) -> Option<Self> {
        let mut bytes = Vec::new();
        recipe.write(&mut bytes);
        Some(Self { segments: PaletteEncoder::new(&recipe)?, recipe, bytes, expected_bits })
    }
}

/// A recipe of any kind, ready to encode with.
#[derive(Debug)]
pub(crate) enum RecipeEncoder {
    Planes(Box<PlaneRecipeEncoder>),
    Classes(Box<ClassRecipeEncoder>),
    Bins(Box<BinRecipeEncoder>),
    Changes(Box<ChangeRecipeEncoder>),
    Palette(Box<PaletteRecipeEncoder>),
}

impl RecipeEncoder {
    /// The recipe as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Planes(prepared) => &prepared.bytes,
            Self::Classes(prepared) => &prepared.bytes,
            Self::Bins(prepared) => &prepared.bytes,
            Self::Changes(prepared) => &prepared.bytes,
            Self::Palette(prepared) => &prepared.bytes,
        }
    }

    /// Width of a value in bytes.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Planes(prepared) => prepared.recipe.width(),
            Self::Classes(prepared) => prepared.recipe.width(),
            Self::Bins(prepared) => prepared.rules.width(),
            Self::Changes(prepared) => prepared.recipe.width(),
            Self::Palette(prepared) => prepared.recipe.width(),
        }
    }

    /// Whether a block of `n` values that took `len` bytes exceeded the plan by at least a
    /// sixteenth of a bit per value.
    pub(crate) fn exceeds_estimate(&self, n: usize, len: usize) -> bool {
        let expected_bits = match self {
            Self::Planes(prepared) => prepared.expected_bits,
            Self::Classes(prepared) => prepared.expected_bits,
            Self::Bins(prepared) => prepared.expected_bits,
            Self::Changes(prepared) => prepared.expected_bits,
            Self::Palette(prepared) => prepared.expected_bits,
        };
        8 * len as u64 > (expected_bits + 64) * n as u64 / 1024 + 8 * 1024
    }
}

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
        let layout = WordLayout::of(spec.dtype);
        let block_len = match (level, layout.width_log2) {
            (Level::Paper, _) => PAPER_BLOCK_LEN,
            // A rANS stream has 128 bytes of states, which should be shared by many values.
            (Level::Max, width_log2) => (2 * BLOCK_VALUES) << width_log2.min(2),
            (_, 0) => 2 * BLOCK_VALUES,
            (_, width_log2) => BLOCK_VALUES << width_log2.min(2),
        };
        let target = Target { layout, level, row_len: spec.row_len, block_len };
        let mut shared = None;
        if level != Level::Paper && tensor.bytes.len() > block_len {
            shared = choose(isa, target, Scope::tensor(tensor)).filter(|prepared| match prepared {
                RecipeEncoder::Planes(prepared) if level != Level::Fast => {
                    !block::blocks_differ(isa, prepared, tensor.bytes, block_len)
                }
                _ => true,
            });
        }
        Self { target, shared }
    }

    /// The recipe that the tensor's blocks share, to be stored once for all of them; empty if there
    /// is none.
    pub fn shared_recipe(&self) -> &[u8] {
        self.shared.as_ref().map_or(&[], |prepared| prepared.bytes())
    }

    /// Length of the blocks to cut the tensor into, in bytes; a multiple of the type's width.
    pub fn block_len(&self) -> usize {
        self.target.block_len
    }
}
