//! Recipes ready to decode with. The input is hostile: every length is checked before it is used.

use crate::bins::BinDecoder;
use crate::changes::ChangeDecoder;
use crate::classes::ClassDecoder;
use crate::entropy::{PlaneDecoder, Scratch};
use crate::palette::PaletteDecoder;
use crate::segment::SegmentDecoder;
use crate::simd::Isa;
use crate::transform::offsets::ColumnOffsets;
use lmc_format::limits::RECIPE_LEN_MAX;
use lmc_format::{
    AnyRecipe, BinRecipe, ChangeRecipe, ClassRecipe, Error, ErrorKind, PaletteRecipe, Reader,
    Recipe, Result,
};

/// A recipe of any kind, ready to decode with.
#[derive(Debug)]
pub(crate) enum RecipeDecoder {
    Planes(PlaneRecipeDecoder),
    Classes(ClassRecipe, Box<ClassDecoder>),
    Bins(Box<BinRecipe>, Box<BinDecoder>),
    Changes(Box<ChangeRecipe>, Box<ChangeDecoder>),
    Palette(PaletteRecipe, Box<PaletteDecoder>),
}

impl RecipeDecoder {
    /// Reads a recipe and its columns.
    pub(crate) fn read(isa: Isa, input: &mut Reader) -> Result<Self> {
        let available = input.rest().len();
        let prepared = match AnyRecipe::read(input)? {
            AnyRecipe::Planes(recipe) => {
                Self::Planes(PlaneRecipeDecoder::with_columns(isa, recipe, input)?)
            }
            AnyRecipe::Classes(recipe) => {
                let decoder = ClassDecoder::new(&recipe);
                Self::Classes(recipe, Box::new(decoder))
            }
            AnyRecipe::Bins(recipe) => {
                let decoder = BinDecoder::new(&recipe);
                Self::Bins(Box::new(recipe), Box::new(decoder))
            }
            AnyRecipe::Changes(recipe) => {
                let decoder = ChangeDecoder::new(&recipe);
                Self::Changes(recipe, Box::new(decoder))
            }
            AnyRecipe::Palette(recipe) => {
                let decoder = PaletteDecoder::new(&recipe);
                Self::Palette(recipe, Box::new(decoder))
            }
        };
        let len = available - input.rest().len();
        if len > RECIPE_LEN_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("recipe of {len} bytes, {RECIPE_LEN_MAX} is the most"),
            ));
        }
        Ok(prepared)
    }
}

/// A recipe by planes, ready to decode with.
#[derive(Debug)]
pub(crate) struct PlaneRecipeDecoder {
    pub recipe: Recipe,
    pub segments: SegmentDecoder,
    pub columns: Option<ColumnOffsets>,
}

impl PlaneRecipeDecoder {
    fn with_columns(isa: Isa, recipe: Recipe, input: &mut Reader) -> Result<Self> {
        let columns = match &recipe.columns {
            None => None,
            Some(columns) => {
                let mut cols = vec![0; columns.count as usize];
                let coder = PlaneDecoder::new(&columns.coder);
                coder
                    .decode(isa, input, &mut cols, &mut Scratch::default())
                    .map_err(|e| e.at("column offsets"))?;
                Some(ColumnOffsets::from_recipe(columns.base, cols))
            }
        };
        Ok(Self { segments: SegmentDecoder::new(&recipe), recipe, columns })
    }
}
