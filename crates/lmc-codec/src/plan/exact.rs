//! Tables from all values in scope, for coders that cannot code what a sample has not shown.

use super::block::block_rows;
use super::choose::Scope;
use super::coder::{self, PlaneStats};
use super::sample::sample;
use super::{ReadyRecipe, Target, Values};
use crate::segment::{Buffers, Source};
use crate::simd::Isa;
use crate::transform::against;
use lmc_format::{BaseUse, Coder};

/// Whether a coder of this kind can only code bytes that its table has seen.
fn needs_all(coder: &Coder) -> bool {
    matches!(coder, Coder::Huffman(_) | Coder::Rans(_))
}

/// Values whose statistics make the table of a tree: four times those that choose the recipe, because
/// a table is the better the more rare symbols it has seen.
const TREE_VALUES: usize = 1 << 15;

/// The recipe with the sampled tables of such coders replaced by tables of all values in scope, and
/// those of trees by tables of a larger sample.
pub(crate) fn exact_tables(
    isa: Isa,
    target: Target,
    ready: ReadyRecipe,
    scope: Scope,
) -> ReadyRecipe {
    let any = |wanted: fn(&Coder) -> bool| {
        ready.recipe.planes.iter().chain(&ready.recipe.flags).any(wanted)
    };
    if any(needs_all) {
        let stats = plane_stats(isa, target, &ready, scope, needs_all);
        return with_tables(target, ready, &stats, needs_all);
    }
    // Offsets are of whole rows, which a sample cuts.
    if !any(is_tree) || ready.columns.is_some() {
        return ready;
    }
    let sample = |bytes: &[u8]| sample(bytes, ready.recipe.width(), TREE_VALUES);
    let (bytes, base) = (sample(scope.values.bytes), scope.values.base.map(sample));
    let scope = Scope::tensor(Values { bytes: &bytes, base: base.as_deref() });
    let stats = plane_stats(isa, target, &ready, scope, is_tree);
    with_tables(target, ready, &stats, is_tree)
}

fn is_tree(coder: &Coder) -> bool {
    matches!(coder, Coder::Tree(_))
}

/// The recipe with new tables for the coders that are `wanted`.
fn with_tables(
    target: Target,
    ready: ReadyRecipe,
    stats: &ScopeStats,
    wanted: fn(&Coder) -> bool,
) -> ReadyRecipe {
    let mut recipe = ready.recipe;
    let planes = recipe.planes.iter_mut().zip(&stats.planes);
    for (coder, own) in planes.chain(recipe.flags.iter_mut().zip(&stats.flags)) {
        if wanted(coder) {
            *coder = coder::exact(coder, own, target.level);
        }
    }
    ReadyRecipe::new(recipe, ready.columns, ready.expected_bits)
}

/// Statistics of values, for the planes whose coders need them.
struct ScopeStats {
    flags: Option<PlaneStats>,
    planes: Vec<PlaneStats>,
}

fn plane_stats(
    isa: Isa,
    target: Target,
    ready: &ReadyRecipe,
    scope: Scope,
    wanted: fn(&Coder) -> bool,
) -> ScopeStats {
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
            let wanted = |i: usize| wanted(&ready.recipe.planes[i]);
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
