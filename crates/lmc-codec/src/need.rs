//! What it takes to decode a part of a block.

use lmc_format::{AnyRecipe, Reader, Result};
use std::ops::Range;

/// Bytes that are decoded in the time that one table takes to make.
const TABLE_COST: usize = 4096;

/// What it takes to decode a part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The part that is decoded at no more cost: whole segments.
    pub whole: Range<usize>,
    /// Bytes that the decoder writes for it, or what takes as long.
    pub writes: usize,
    /// The part may be cut at multiples of these bytes, and costs no more then but for what the recipe
    /// and the rows take.
    pub unit: usize,
    /// What of the block's base it needs; nothing if it needs none.
    pub base: Option<Range<usize>>,
}

/// What of a recipe tells how much a part of a block takes.
#[derive(Clone, Copy, Debug)]
pub struct RecipeShape {
    /// Original bytes of a segment.
    segment_len: usize,
    needs_base: bool,
    /// Values in a row; 0 if there are no rows.
    row_len: usize,
    /// What the recipe costs before anything is decoded.
    cost: usize,
}

impl RecipeShape {
    /// Reads what [`crate::Plan::shared_recipe`] gave, as far as it is needed, and makes nothing of it.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::of(&AnyRecipe::read(&mut Reader::new(bytes))?))
    }

    pub(crate) fn of(recipe: &AnyRecipe) -> Self {
        let (segment_len, needs_base) = (recipe.segment_len(), recipe.needs_base());
        let row_len = recipe.column_count();
        let tables = recipe.table_count().saturating_mul(TABLE_COST);
        Self { segment_len, needs_base, row_len, cost: row_len.saturating_add(tables) }
    }

    /// What it costs to make the recipe ready: its column offsets, of which a few bytes can claim many,
    /// and its tables. It is a number of bytes that could be decoded in that time.
    pub fn cost(&self) -> usize {
        self.cost
    }
}

impl Need {
    /// For a part of a coded block of `raw_len` bytes, if the recipe is ready.
    pub(crate) fn of_coded(raw_len: usize, range: &Range<usize>, recipe: &RecipeShape) -> Self {
        let whole = widened(range, recipe.segment_len, raw_len);
        // All row offsets of a block are decoded, whatever is wanted of it.
        let rows = raw_len.checked_div(recipe.row_len).map_or(0, |rows| rows.saturating_add(1));
        let writes = whole.len().saturating_add(rows);
        let base = recipe.needs_base.then(|| whole.clone());
        Self { writes, unit: recipe.segment_len, base, whole }
    }

    /// For bytes that are copied or repeated.
    pub(crate) fn of_plain(whole: Range<usize>, base: Option<Range<usize>>) -> Self {
        Self { writes: whole.len(), unit: 1, whole, base }
    }
}

/// The multiples of `unit` that hold `range`, up to `end`.
pub(crate) fn widened(range: &Range<usize>, unit: usize, end: usize) -> Range<usize> {
    range.start / unit * unit..range.end.next_multiple_of(unit).min(end)
}
