//! Recipes ready to encode with.

use crate::bins::BinEncoder;
use crate::changes::ChangeEncoder;
use crate::classes::ClassEncoder;
use crate::entropy::{PlaneEncoder, Scratch};
use crate::palette::PaletteEncoder;
use crate::segment::SegmentEncoder;
use crate::simd::Isa;
use crate::transform::offsets::ColumnOffsets;
use lmc_format::{BinRecipe, BinRules, ChangeRecipe, ClassRecipe, PaletteRecipe, Recipe};

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
    pub(super) fn new(recipe: ClassRecipe, expected_bits: u64) -> Self {
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
    pub(super) fn new(recipe: BinRecipe, expected_bits: u64) -> Self {
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
    pub(super) fn new(recipe: ChangeRecipe, expected_bits: u64) -> Self {
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
    pub(super) fn new(recipe: PaletteRecipe, expected_bits: u64) -> Option<Self> {
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

    /// Whether the plan expects to be smaller than another by at least one part in 256. Better
    /// tables alone do not count.
    pub(crate) fn gains_on(&self, other: &Self) -> bool {
        if let (Self::Planes(own), Self::Planes(other)) = (self, other)
            && own.recipe.is_like(&other.recipe)
        {
            return false;
        }
        256 * self.expected_bits() < 255 * other.expected_bits()
    }

    /// Whether a block of `n` values that took `len` bytes exceeded the plan by at least a
    /// sixteenth of a bit per value.
    pub(crate) fn exceeds_estimate(&self, n: usize, len: usize) -> bool {
        8 * len as u64 > (self.expected_bits() + 64) * n as u64 / 1024 + 8 * 1024
    }

    /// Expected bits per 1,024 values.
    fn expected_bits(&self) -> u64 {
        match self {
            Self::Planes(prepared) => prepared.expected_bits,
            Self::Classes(prepared) => prepared.expected_bits,
            Self::Bins(prepared) => prepared.expected_bits,
            Self::Changes(prepared) => prepared.expected_bits,
            Self::Palette(prepared) => prepared.expected_bits,
        }
    }
}
