//! What is decided for each block: whether the tensor's recipe suits it, and the offsets of its rows.

use super::ReadyRecipe;
use super::cost::{entropy_bits, histogram};
use super::sample::sample;
use crate::entropy::chain;
use crate::segment::{Buffers, Place};
use crate::simd::Isa;
use crate::simd::chain::Hints;
use crate::transform::offsets::BlockOffsets;
use lmc_format::Coder;

/// Values of a block that are looked at before a tensor's recipe is used for it.
const SUITS_VALUES: usize = 1024;

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

/// Whether the recipe still suits a block, judged on a small sample of it: its symbols must not cost more than a hundredth
/// of a value over what their own statistics promise.
pub(crate) fn suits(isa: Isa, ready: &ReadyRecipe, block: &[u8], buffers: &mut Buffers) -> bool {
    let Some(Coder::Chain(table)) = ready.recipe.planes.first() else { return true };
    if ready.columns.is_some() || ready.recipe.flags.is_some() {
        return true;
    }
    let width = ready.recipe.width();
    let sample = sample(block, width, SUITS_VALUES);
    let mut own = [0; 256];
    let place = Place { start: 0, offsets: None, hints: Hints::default() };
    ready.segments.visit_planes(isa, &sample, place, buffers, |i, plane| {
        if i == Some(0) {
            own = histogram(plane);
        }
    });
    let n = (sample.len() / width) as u64;
    let bits = chain::cost_bits(table, &own) * 256;
    let promised = entropy_bits(&own) * 256 + (ready.excess + 24) * n;
    bits <= promised
}
