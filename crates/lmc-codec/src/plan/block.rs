//! Properties of single blocks: the offsets of their rows, and whether they differ so much that
//! they need their own tables.

use super::PlaneRecipeEncoder;
use super::cost::histogram;
use super::sample::sample;
use crate::entropy::chain;
use crate::segment::{Buffers, SegmentInput};
use crate::simd::Isa;
use crate::transform::offsets::RowFit;
use lmc_format::limits::CHAIN_LEVELS_MAX;
use lmc_format::{BaseUse, ChainTable, Coder};

/// Values of half a block that are sampled to see whether blocks differ.
const DIFFER_VALUES: usize = 1024;
/// Number of blocks that are checked to see whether a tensor's blocks differ.
const DIFFER_BLOCKS: usize = 6;

/// The rows of a block of the tensor's values from `first_value` on, if the recipe has offsets.
pub(crate) fn block_rows<'a>(
    prepared: &'a PlaneRecipeEncoder,
    first_value: u64,
    values: &'a [u8],
) -> Option<RowFit<'a>> {
    let columns = prepared.columns.as_ref()?;
    let field = prepared.segments.shape().field();
    Some(RowFit::new(columns, field, first_value, values, 1 << prepared.recipe.segment_log2))
}

/// Whether the blocks of a tensor differ so much that separate tables pay off: tables made from one
/// half of a few blocks are tried on the other half of the same blocks.
pub(super) fn blocks_differ(
    isa: Isa,
    prepared: &PlaneRecipeEncoder,
    tensor: &[u8],
    block_len: usize,
) -> bool {
    let Some(shared) = plain_chain(prepared) else { return false };
    let count = tensor.len().div_ceil(block_len);
    if count < 3 {
        return false;
    }
    let mut buffers = Buffers::default();
    let (mut gained, mut values) = (0, 0);
    for i in 0..count.min(DIFFER_BLOCKS) {
        let at = count * i / count.min(DIFFER_BLOCKS) * block_len;
        let block = &tensor[at..tensor.len().min(at + block_len)];
        let width = prepared.recipe.width();
        let (one, other) = block.split_at(block.len() / 2 / width * width);
        let (known, _) = symbol_histogram(isa, prepared, one, &mut buffers);
        let (judged, n) = symbol_histogram(isa, prepared, other, &mut buffers);
        let own = chain::build(&known, CHAIN_LEVELS_MAX);
        gained += chain::cost_bits(shared, &judged) as i64;
        gained -= chain::cost_bits(&own, &judged) as i64;
        values += n as i64;
    }
    gained * 200 > values
}

/// The chain table of a recipe whose symbols come directly from the values.
fn plain_chain(prepared: &PlaneRecipeEncoder) -> Option<&ChainTable> {
    match prepared.recipe.planes.first() {
        Some(Coder::Chain(table))
            if prepared.columns.is_none()
                && prepared.recipe.flags.is_none()
                && prepared.recipe.base == BaseUse::None =>
        {
            Some(table)
        }
        _ => None,
    }
}

/// How often each byte of the symbol plane occurs in a sample of `bytes`, and the sample's size.
fn symbol_histogram(
    isa: Isa,
    prepared: &PlaneRecipeEncoder,
    bytes: &[u8],
    buffers: &mut Buffers,
) -> ([u32; 256], u64) {
    let width = prepared.recipe.width();
    let sample = sample(bytes, width, DIFFER_VALUES);
    let mut own = [0; 256];
    let input = SegmentInput { values: &sample, start: 0, rows: None, streaming: false };
    let only_symbols = |i| i == 0;
    prepared.segments.visit_planes(isa, input, buffers, only_symbols, |i, plane| {
        if i == Some(0) {
            own = histogram(plane);
        }
    });
    (own, (sample.len() / width) as u64)
}
