//! What blocks use of the format, read from their bytes.

use super::{Case, bins, changes, classes, coders, palettes};
use lmc_codec::Isa;
use lmc_codec::internals::{PlaneDecoder, Scratch};
use lmc_format::{AnyRecipe, BlockKind, BlockPrefix, Coder, Reader, Recipe};
use std::collections::BTreeMap;

/// What a block's bytes say they use: its kind, its coders by place, and the recipe's features.
pub fn features(case: &Case) -> Vec<String> {
    let mut input = Reader::new(&case.block);
    let prefix = BlockPrefix::read(&mut input).expect("a valid block");
    let mut seen = vec![format!("block {:?}", prefix.kind)];
    let mut shared = Reader::new(&case.shared);
    let recipe_input = match prefix.kind {
        BlockKind::Stored | BlockKind::Constant | BlockKind::Same | BlockKind::Zstd => return seen,
        BlockKind::Coded => &mut input,
        BlockKind::Shared => &mut shared,
    };
    match AnyRecipe::read(recipe_input).expect("a valid recipe") {
        AnyRecipe::Planes(recipe) => {
            seen.extend(plane_features(&recipe, prefix, input, shared));
        }
        AnyRecipe::Classes(recipe) => seen.extend(classes::features(&recipe)),
        AnyRecipe::Bins(recipe) => {
            seen.extend(bins::features(&recipe, prefix.raw_len, &mut input));
        }
        AnyRecipe::Changes(recipe) => seen.extend(changes::features(&recipe, case, &mut input)),
        AnyRecipe::Palette(recipe) => seen.extend(palettes::features(&recipe, prefix.raw_len)),
    }
    seen.sort();
    seen.dedup();
    seen
}

/// What a recipe by planes uses; `input` is the block, and `shared` the shared recipe, of which the
/// recipe itself has been read up to its columns.
fn plane_features<'a>(
    recipe: &Recipe,
    prefix: BlockPrefix,
    mut input: Reader<'a>,
    mut shared: Reader<'a>,
) -> Vec<String> {
    let mut seen = Vec::new();
    seen.push(format!("base {:?}", recipe.base));
    seen.push(format!("map {:?}", recipe.map));
    seen.push(format!("width {}", recipe.width()));
    seen.extend(recipe.planes.iter().map(|coder| format!("plane {}", coder.name())));
    recipe.planes.iter().for_each(|coder| coders::apart_features(coder, 1, &mut seen));
    seen.push(format!("symbol {}", recipe.planes[0].name()));
    seen.extend(recipe.flags.iter().map(|coder| format!("flags {}", coder.name())));
    let mut note = |is: bool, name: &str| seen.extend(is.then(|| name.to_string()));
    note(recipe.is_wide(), "wide");
    note(recipe.partial_bits() > 0, "partial");
    note(!prefix.raw_len.is_multiple_of(recipe.width()), "tail");
    note(prefix.raw_len / recipe.width() > 1 << recipe.segment_log2, "segments");
    if let Some(columns) = &recipe.columns {
        seen.push(format!("cols {}", columns.coder.name()));
        let mut cols = vec![0; columns.count as usize];
        let decoder = PlaneDecoder::new(&columns.coder);
        let is_shared = prefix.kind == BlockKind::Shared;
        let recipe_input = if is_shared { &mut shared } else { &mut input };
        let done = decoder.decode(Isa::best(), recipe_input, &mut cols, &mut Scratch::default());
        done.expect("valid columns");
        input.take(prefix.raw_len % recipe.width(), "tail").expect("a valid tail");
        input.varint("first").expect("a valid first column");
        let segments = (prefix.raw_len / recipe.width()).div_ceil(1 << recipe.segment_log2);
        let index = input.take(3 * segments, "index").expect("a valid index");
        let lengths = index.as_chunks().0.iter().map(|&[a, b, c]| u32::from_le_bytes([a, b, c, 0]));
        input.take(lengths.sum::<u32>() as usize, "segments").expect("valid segments");
        seen.push(format!("rows {}", Coder::read(&mut input).expect("a valid coder").name()));
    }
    seen
}

/// How many of the cases have each feature.
pub fn count_features(cases: &[Case]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for feature in cases.iter().flat_map(features) {
        *counts.entry(feature).or_default() += 1;
    }
    counts
}

/// The features that a set of cases must have to cover the format.
pub fn all_features() -> Vec<String> {
    let names = ["raw", "constant", "packed", "chain", "huffman", "rans", "runs", "gaps", "apart"];
    let mut all: Vec<String> = ["Stored", "Constant", "Coded", "Shared", "Same", "Zstd"]
        .map(|kind| format!("block {kind}"))
        .into_iter()
        .chain(["None", "Rotate", "Zigzag"].map(|map| format!("map {map}")))
        .chain(["None", "Xor", "Difference"].map(|base| format!("base {base}")))
        .chain([1, 2, 4, 8].map(|width| format!("width {width}")))
        .chain(["wide", "partial", "tail", "segments"].map(str::to_string))
        .chain([1, 2, 3].map(|depth| format!("apart depth {depth}")))
        .chain([1, 2, 4, 8].map(|width| format!("classes width {width}")))
        .chain(
            ["", " sign", " top bit", " raw bytes", " contexts"].map(|has| format!("classes{has}")),
        )
        .chain(bins::all_features())
        .chain(changes::all_features())
        .chain(palettes::all_features())
        .collect();
    let places = [
        "plane",
        "symbol",
        "flags",
        "cols",
        "rows",
        "apart flags",
        "apart others",
        "context",
        "bins symbols",
        "changed flags",
        "uncommon flags",
        "changes symbols",
        "palette places",
    ];
    for place in places {
        all.extend(names.map(|name| format!("{place} {name}")));
    }
    all
}
