//! Tables from all values in scope, for coders that cannot code symbols missing from a sample.

use super::block::block_rows;
use super::choose::Scope;
use super::coder::{self, PlaneStats};
use super::{ReadyRecipe, Target};
use crate::segment::{Buffers, Source};
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
    ready: ReadyRecipe,
    scope: Scope,
) -> ReadyRecipe {
    if !ready.recipe.planes.iter().chain(&ready.recipe.flags).any(needs_all) {
        return ready;
    }
    let stats = plane_stats(isa, target, &ready, scope);
    let mut recipe = ready.recipe;
    let planes = recipe.planes.iter_mut().zip(&stats.planes);
    for (coder, own) in planes.chain(recipe.flags.iter_mut().zip(&stats.flags)) {
        if needs_all(coder) {
            *coder = coder::exact(coder, own, target.level);
        }
    }
    ReadyRecipe::new(recipe, ready.columns, ready.expected_bits)
}

/// Statistics of all values in scope, for the planes whose coders need them.
struct ScopeStats {
    flags: Option<PlaneStats>,
    planes: Vec<PlaneStats>,
}

fn plane_stats(isa: Isa, target: Target, ready: &ReadyRecipe, scope: Scope) -> ScopeStats {
    let none = || PlaneStats { histogram: [0; 256], changes: 0 };
    let mut planes = vec![none(); ready.recipe.planes.len()];
    let mut flags = ready.recipe.flags.as_ref().map(|_| none());
    let mut buffers = Buffers::default();
    let width = ready.recipe.width();
    let mut first_value = scope.first_value;
    let mut apart = Vec::new();
    for (i, block) in scope.values.bytes.chunks(target.block_len).enumerate() {
        let segment_bytes = width << ready.recipe.segment_log2;
        let mut values = &block[..block.len() / width * width];
        if let (true, Some(base)) = (ready.recipe.base != BaseUse::None, scope.values.base) {
            let base = &base[i * target.block_len..][..values.len()];
            against::forward(&ready.recipe, values, base, &mut apart);
            values = &apart;
        }
        let mut rows = block_rows(ready, first_value, values);
        for (i, segment) in values.chunks(segment_bytes).enumerate() {
            let start = i << ready.recipe.segment_log2;
            let source = Source { values: segment, start, rows: rows.as_mut(), streaming: false };
            let wanted = |i: usize| needs_all(&ready.recipe.planes[i]);
            ready.segments.visit_planes(isa, source, &mut buffers, wanted, |i, plane| {
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
