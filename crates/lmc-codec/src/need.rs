//! The work to decode part of a block.
//!
//! It is counted in bytes: those that a decoder writes, and other work that takes as long.

use lmc_format::{AnyRecipe, Coder, Reader, Result, ZstdBody};
use std::ops::Range;

/// The work to decode part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The part that can be decoded at no extra cost: whole segments.
    pub whole: Range<usize>,
    /// Bytes that the decoder writes for it, or other work that takes as long.
    pub writes: usize,
    /// The share of that for the recipe and the rows. If the part is decoded in pieces, each piece
    /// needs it again.
    pub fixed: usize,
    /// The part may be cut into pieces at multiples of this many bytes.
    pub unit: usize,
    /// The part of the block's base that it needs; None if it needs none.
    pub base: Option<Range<usize>>,
}

/// Cost of a rANS table.
const RANS_TABLE_COST: usize = 1 << 12;
/// Cost of a rANS stream in addition to its bytes.
const RANS_STREAM_COST: usize = 128;

/// Cost of the tables of a block in a frame of Zstandard.
const ZSTD_TABLES_COST: usize = 1 << 12;
/// Cost of a palette: its table.
const PALETTE_COST: usize = 1 << 11;

/// The facts about a recipe that tell how much work part of a block takes.
#[derive(Clone, Copy, Debug)]
pub struct RecipeShape {
    width: usize,
    /// Original bytes of a segment.
    segment_len: usize,
    needs_base: bool,
    /// Values in a row; 0 if there are no rows.
    row_len: usize,
    /// Cost of the recipe before anything is decoded.
    cost: usize,
    /// Cost of each segment in addition to its bytes.
    segment_cost: usize,
}

impl RecipeShape {
    /// Reads the bytes that [`crate::Plan::shared_recipe`] gave, as far as needed, without making a
    /// recipe.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Self::of(&AnyRecipe::read(&mut Reader::new(bytes))?))
    }

    pub(crate) fn of(recipe: &AnyRecipe) -> Self {
        let row_len = recipe.column_count();
        let coders = recipe.coders();
        let tables = coders.iter().copied().chain(recipe.column_coder()).map(table_cost);
        let contexts = recipe.context_tables();
        let palette = if matches!(recipe, AnyRecipe::Palette(_)) { PALETTE_COST } else { 0 };
        let fixed = row_len.saturating_add(palette).saturating_add(contexts * RANS_TABLE_COST);
        Self {
            width: recipe.width(),
            segment_len: recipe.segment_len(),
            needs_base: recipe.needs_base(),
            row_len,
            cost: fixed.saturating_add(tables.sum()),
            segment_cost: coders.into_iter().map(stream_cost).sum::<usize>()
                + if contexts > 0 { RANS_STREAM_COST } else { 0 },
        }
    }

    /// Cost of making the recipe ready: its tables and its column offsets. A few bytes can claim
    /// many of these offsets.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Cost of the row offsets of a block whose body is next in `input`. All of them are decoded,
    /// whichever part of the block is wanted. If the body is incomplete, only their number counts.
    fn rows_cost(&self, raw_len: usize, mut input: Reader) -> usize {
        let Some(rows) = raw_len.checked_div(self.row_len) else { return 0 };
        let mut coder = || {
            input.take(raw_len % self.width, "tail")?;
            input.varint("first column")?;
            let segments = (raw_len - raw_len % self.width).div_ceil(self.segment_len);
            let (index, _) = input.take(3 * segments, "segment index")?.as_chunks();
            input.take(index.iter().map(segment_len).sum(), "segments")?;
            Coder::read(&mut input)
        };
        rows.saturating_add(coder().map_or(1, |coder| table_cost(&coder)))
    }
}

/// The coded length of a segment, from its entry in the index of a block.
pub(crate) fn segment_len(entry: &[u8; 3]) -> usize {
    let [a, b, c] = *entry;
    u32::from_le_bytes([a, b, c, 0]) as usize
}

/// Cost of the tables of a coder.
fn table_cost(coder: &Coder) -> usize {
    match coder {
        Coder::Raw | Coder::Constant(_) | Coder::Packed { .. } | Coder::Runs | Coder::Gaps(_) => 0,
        Coder::Chain(_) => 1 << 10,
        Coder::Rans(_) | Coder::Tree(_) => RANS_TABLE_COST,
        Coder::Huffman(_) => 1 << 13,
        Coder::Apart(apart) => table_cost(&apart.flags) + table_cost(&apart.others),
    }
}

/// Cost of a stream in addition to its bytes.
fn stream_cost(coder: &Coder) -> usize {
    match coder {
        Coder::Raw | Coder::Constant(_) | Coder::Packed { .. } | Coder::Runs | Coder::Gaps(_) => 32,
        Coder::Chain(_) | Coder::Rans(_) | Coder::Huffman(_) => RANS_STREAM_COST,
        // Each of its nodes is visited.
        Coder::Tree(_) => 1024,
        Coder::Apart(apart) => 32 + stream_cost(&apart.flags) + stream_cost(&apart.others),
    }
}

impl Need {
    /// For part of a coded block of `raw_len` bytes, with its body next in `input` and the recipe
    /// ready.
    pub(crate) fn of_coded(
        raw_len: usize,
        range: &Range<usize>,
        recipe: &RecipeShape,
        input: Reader,
    ) -> Self {
        let whole = widened(range, recipe.segment_len, raw_len);
        let segments = whole.len().div_ceil(recipe.segment_len);
        let fixed = recipe.rows_cost(raw_len, input);
        let streams = segments.saturating_mul(recipe.segment_cost);
        let writes = whole.len().saturating_add(streams).saturating_add(fixed);
        let base = recipe.needs_base.then(|| whole.clone());
        Self { writes, fixed, unit: recipe.segment_len, base, whole }
    }

    /// The same for a block that has its own recipe.
    pub(crate) fn with_recipe(self, recipe: &RecipeShape) -> Self {
        let writes = self.writes.saturating_add(recipe.cost);
        Self { writes, fixed: self.fixed.saturating_add(recipe.cost), ..self }
    }

    /// For a block of kind zstd, with its body next in `input`: all of it is decoded, whichever
    /// part is wanted.
    pub(crate) fn of_zstd(raw_len: usize, input: Reader) -> Result<Self> {
        let needs_base = ZstdBody::read_flags(&mut input.clone())?;
        let tables = ZstdBody::count_compressed(raw_len, input).saturating_mul(ZSTD_TABLES_COST);
        let writes = raw_len.saturating_add(tables);
        let base = needs_base.then_some(0..raw_len);
        Ok(Self { writes, fixed: writes, unit: raw_len.max(1), whole: 0..raw_len, base })
    }

    /// For bytes that are copied or repeated.
    pub(crate) fn of_plain(whole: Range<usize>, base: Option<Range<usize>>) -> Self {
        Self { writes: whole.len(), fixed: 0, unit: 1, whole, base }
    }
}

/// The multiples of `unit` that hold `range`, up to `end`.
pub(crate) fn widened(range: &Range<usize>, unit: usize, end: usize) -> Range<usize> {
    range.start / unit * unit..range.end.next_multiple_of(unit).min(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;
    use lmc_format::{
        ApartCoder, BaseUse, BlockKind, BlockPrefix, Columns, HuffmanTable, Recipe, WordMap,
    };

    /// A coder with eight nested tables.
    fn eight_tables() -> Coder {
        let mut lengths = [0; 256];
        (lengths[0], lengths[1]) = (1, 1);
        let mut coder = Coder::Huffman(Box::new(HuffmanTable::new(lengths).expect("two codes")));
        for _ in 0..3 {
            let (flags, others) = (coder.clone(), coder);
            coder = Coder::Apart(Box::new(ApartCoder { byte: 0, flags, others }));
        }
        coder
    }

    fn recipe(plane: Coder, columns: Option<Columns>) -> Recipe {
        Recipe {
            width_log2: 0,
            base: BaseUse::None,
            map: WordMap::None,
            symbol_bits: 8,
            segment_log2: 10,
            bias: 0,
            flags: None,
            planes: vec![plane],
            columns,
        }
    }

    /// The start of a block of `raw_len` bytes with this recipe.
    fn block(recipe: &Recipe, raw_len: usize) -> Vec<u8> {
        let mut block = Vec::new();
        BlockPrefix { kind: BlockKind::Coded, raw_len }.write(&mut block);
        recipe.write(&mut block);
        block
    }

    fn writes(block: &[u8], raw_len: usize) -> usize {
        Decoder::need(block, None, &(0..raw_len)).expect("a recipe").writes
    }

    /// Tables that come with row offsets cost as much as those of a recipe.
    #[test]
    fn tables_of_rows_count() {
        let columns = Columns { count: 1024, base: 0, coder: Coder::Constant(0) };
        let mut block = block(&recipe(Coder::Constant(0), Some(columns)), 1024);
        // The first column and the index of one empty segment; then the coder of the rows.
        block.extend_from_slice(&[0, 0, 0, 0]);
        let cheap = writes(&[&block[..], &[1, 0]].concat(), 1024);
        eight_tables().write(&mut block);
        assert!(writes(&block, 1024) >= cheap + 8 * (1 << 13), "{cheap}");
    }

    /// Streams cost something in every segment, even if they have no bytes.
    #[test]
    fn streams_count() {
        let one = writes(&block(&recipe(eight_tables(), None), 1 << 10), 1 << 10);
        let many = writes(&block(&recipe(eight_tables(), None), 1 << 16), 1 << 16);
        assert!(many - one >= 63 * (1024 + 8 * 128), "{one} and {many}");
    }
}
