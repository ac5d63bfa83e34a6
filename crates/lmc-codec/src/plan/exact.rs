//! Tables from all values in scope, for coders that cannot code symbols missing from a sample.

use super::block::block_rows;
use super::choose::Scope;
use super::coder::{self, PlaneStats};
use super::{PlaneRecipeEncoder, Target};
use crate::segment::{Buffers, SegmentInput};
use crate::simd::Isa;
use crate::transform::against;
use lmc_format::{BaseUse, Coder};

/// Whether a coder of this kind can code only bytes that its table has seen.
fn needs_all(coder: &Coder) -> bool {
    matches!(coder, Coder::Huffman(_) | Coder::Rans(_))
}

/// The recipe with the sampled tables of such coders replaced by tables from all values in scope.
pub(crate) fn exact_tables(
    isa: Isa,
    target: Target,
    prepared: PlaneRecipeEncoder,
    scope: Scope,
) -> PlaneRecipeEncoder {
    if !prepared.recipe.planes.iter().chain(&prepared.recipe.flags).any(needs_all) {
        return prepared;
    }
    let stats = plane_stats(isa, target, &prepared, scope);
    let mut recipe = prepared.recipe;
    let planes = recipe.planes.iter_mut().zip(&stats.planes);
    for (coder, own) in planes.chain(recipe.flags.iter_mut().zip(&stats.flags)) {
        if needs_all(coder) {
            *coder = coder::exact(coder, own, target.level);
        }
    }
    PlaneRecipeEncoder::new(recipe, prepared.columns, prepared.expected_bits)
}

/// Statistics of all values in scope, for the planes whose coders need them.
struct ScopeStats {
    flags: Option<PlaneStats>,
    planes: Vec<PlaneStats>,
}

fn plane_stats(
    isa: Isa,
    target: Target,
    prepared: &PlaneRecipeEncoder,
    scope: Scope,
) -> ScopeStats {
    let none = || PlaneStats { histogram: [0; 256], changes: 0 };
    let mut planes = vec![none(); prepared.recipe.planes.len()];
    let mut flags = prepared.recipe.flags.as_ref().map(|_| none());
    let mut buffers = Buffers::default();
    let width = prepared.recipe.width();
    let mut first_value = scope.first_value;
    let mut apart = Vec::new();
    for (i, block) in scope.values.bytes.chunks(target.block_len).enumerate() {
        let segment_bytes = width << prepared.recipe.segment_log2;
        let mut values = &block[..block.len() / width * width];
        if let (true, Some(base)) = (prepared.recipe.base != BaseUse::None, scope.values.base) {
            let base = &base[i * target.block_len..][..values.len()];
            against::forward(&prepared.recipe, values, base, &mut apart);
            values = &apart;
        }
        let mut rows = block_rows(prepared, first_value, values);
        for (i, segment) in values.chunks(segment_bytes).enumerate() {
            let start = i << prepared.recipe.segment_log2;
            let input =
                SegmentInput { values: segment, start, rows: rows.as_mut(), streaming: false };
            let wanted = |i: usize| needs_all(&prepared.recipe.planes[i]);
            prepared.segments.visit_planes(isa, input, &mut buffers, wanted, |i, plane| {
                let stats = match i {
                    None => flags.as_mut(),
                    Some(i) => planes.get_mut(i),
                };
                if let Some(stats) = stats {
                    stats.add(plane);
                }
            });
        }
        first_value = first_value.wrapping_add((block.len() / width) as u64);
    }
    ScopeStats { flags, planes }
}
