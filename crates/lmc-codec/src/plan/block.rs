//! What blocks have of their own: the offsets of their rows, and tables where they differ much.

use super::ReadyRecipe;
use super::cost::histogram;
use super::sample::sample;
use crate::entropy::chain;
use crate::segment::{Buffers, Place};
use crate::simd::Isa;
use crate::simd::chain::Hints;
use crate::transform::offsets::BlockOffsets;
use lmc_format::limits::CHAIN_LEVELS_MAX;
use lmc_format::{ChainTable, Coder};

/// Values of half a block that are looked at to see whether blocks differ.
const DIFFER_VALUES: usize = 1024;
/// Blocks that tell whether a tensor's blocks differ.
const DIFFER_BLOCKS: usize = 6;

/// The column of a block's first value and the offsets of its rows, if the recipe has offsets.
pub(crate) fn block_rows(
    isa: Isa,
    ready: &ReadyRecipe,
    first_value: u64,
    block: &[u8],
) -> Option<(usize, Vec<u8>)> {
    let columns = ready.columns.as_ref()?;
    let first = (first_value % columns.cols.len() as u64) as usize;
    let width = ready.recipe.width();
    let mut rows = Vec::new();
    let values = &block[..block.len() / width * width];
    columns.fit_rows(isa, ready.segments.shape().field(), first, values, &mut rows);
    Some((first, rows))
}

/// The offsets of a block's values by its rows.
pub(crate) fn block_offsets<'a>(
    ready: &'a ReadyRecipe,
    first: usize,
    rows: &'a [u8],
) -> Option<BlockOffsets<'a>> {
    ready.columns.as_ref().map(|columns| BlockOffsets {
        base: columns.base,
        cols: &columns.cols,
        rows,
        first,
        bits: ready.recipe.symbol_bits,
    })
}

/// Whether the blocks of a tensor differ so much that tables of their own pay: tables made from
/// part of some blocks are tried on another part of the same ones.
pub(super) fn blocks_differ(
    isa: Isa,
    ready: &ReadyRecipe,
    tensor: &[u8],
    block_len: usize,
) -> bool {
    let Some(shared) = plain_chain(ready) else { return false };
    let count = tensor.len().div_ceil(block_len);
    if count < 3 {
        return false;
    }
    let mut buffers = Buffers::default();
    let (mut gained, mut values) = (0, 0);
    for i in 0..count.min(DIFFER_BLOCKS) {
        let at = count * i / count.min(DIFFER_BLOCKS) * block_len;
        let block = &tensor[at..tensor.len().min(at + block_len)];
        let width = ready.recipe.width();
        let (one, other) = block.split_at(block.len() / 2 / width * width);
        let (known, _) = symbol_histogram(isa, ready, one, &mut buffers);
        let (judged, n) = symbol_histogram(isa, ready, other, &mut buffers);
        let own = chain::build(&known, CHAIN_LEVELS_MAX);
        gained += chain::cost_bits(shared, &judged) as i64;
        gained -= chain::cost_bits(&own, &judged) as i64;
        values += n as i64;
    }
    gained * 200 > values
}

/// The chain table of a recipe whose symbols are those of the values themselves.
fn plain_chain(ready: &ReadyRecipe) -> Option<&ChainTable> {
    match ready.recipe.planes.first() {
        Some(Coder::Chain(table)) if ready.columns.is_none() && ready.recipe.flags.is_none() => {
            Some(table)
        }
        _ => None,
    }
}

/// How often each byte of the symbol plane occurs in a sample of `bytes`, and the sample's size.
fn symbol_histogram(
    isa: Isa,
    ready: &ReadyRecipe,
    bytes: &[u8],
    buffers: &mut Buffers,
) -> ([u32; 256], u64) {
    let width = ready.recipe.width();
    let sample = sample(bytes, width, DIFFER_VALUES);
    let mut own = [0; 256];
    let place = Place { start: 0, offsets: None, hints: Hints::default() };
    let only_symbols = |i| i == 0;
    ready.segments.visit_planes(isa, &sample, place, buffers, only_symbols, |i, plane| {
        if i == Some(0) {
            own = histogram(plane);
        }
    });
    (own, (sample.len() / width) as u64)
}
