//! Files of every version so far are read, and this version writes them as it did.
//!
//! `LMC_WRITE_GOLDEN=1` writes the golden files of this version anew; `testdata/README.md` says
//! when that is allowed.

use crate::common;
use crate::common::{
    bases, compress, compress_on, golden, golden_deltas, golden_inputs, golden_path,
};
use lmc::{Archive, Context, decompress_to_vec};
use std::path::Path;

/// What earlier writers made of inputs that this one codes otherwise: short tensors get a tree,
/// where they had tables by context, bytes that are not numbers are coded by Zstandard, and against
/// a base if there is one, and files that are not safetensors are arranged.
const EARLIER: [&str; 9] = [
    "delta",
    "delta_bins",
    "delta_changes",
    "delta_contexts",
    "delta_of_delta",
    "delta_two",
    "empty",
    "shared",
    "text",
];

/// Golden files decode to what they were made from.
#[test]
fn golden_files_are_read() {
    for ((name, original, _), (file_name, file)) in golden_inputs().iter().zip(golden()) {
        assert_eq!(*name, file_name);
        let archive = Archive::from_bytes(file).expect("a golden file");
        assert!(
            decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored") == *original,
            "{name}"
        );
    }
}

/// The same input gives the same bytes as when the golden files were written.
#[test]
fn golden_files_are_written_again() {
    let is_ours = |(name, ..): &(String, Vec<u8>, _)| !EARLIER.contains(&&name[..]);
    for (name, original, level) in golden_inputs().into_iter().filter(is_ours) {
        check_written(&golden_path(&name), &compress(&original, level, 1));
    }
    for delta in golden_deltas().into_iter().filter(|delta| !EARLIER.contains(&delta.name)) {
        let bases: Vec<(&str, &[u8])> = delta.bases.iter().map(|(n, b)| (*n, &b[..])).collect();
        let file = compress_on(&delta.original, &common::bases(&bases), delta.level, 1);
        check_written(&golden_path(delta.name), &file);
    }
}

fn check_written(path: &Path, file: &[u8]) {
    if std::env::var_os("LMC_WRITE_GOLDEN").is_some() {
        std::fs::write(path, file).expect("a golden file can be written");
    }
    let golden = std::fs::read(path).expect("a golden file");
    assert!(file == golden, "{} is written otherwise than before", path.display());
}

/// Golden files on bases find them beside them, and are read with them given in any form.
#[test]
fn golden_deltas_are_read() {
    for delta in golden_deltas() {
        let archive = Archive::open(&golden_path(delta.name)).expect("a golden file");
        let restored = decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored");
        assert!(restored == delta.original, "{}", delta.name);
        let given: Vec<(&str, &[u8])> = delta.bases.iter().map(|(n, b)| (*n, &b[..])).collect();
        let file = std::fs::read(golden_path(delta.name)).expect("a golden file");
        let archive = Archive::from_bytes_on(file, &bases(&given)).expect("a golden file");
        let restored = decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored");
        assert!(restored == delta.original, "{}", delta.name);
    }
}

/// The recipes of all blocks of a golden file, in words.
fn recipes_of(name: &str) -> Vec<String> {
    let archive = Archive::open(&golden_path(name)).expect("a golden file");
    let mut recipes = Vec::new();
    for span in archive.described_spans() {
        recipes.extend(span.expect("a span").blocks.into_iter().map(|block| block.recipe));
    }
    recipes
}

/// One golden file has trees, of values of one and of two bytes.
#[test]
fn a_golden_file_has_trees() {
    let recipes = recipes_of("tree");
    assert!(recipes.iter().filter(|recipe| recipe.contains("tree")).count() >= 2, "{recipes:?}");
}

/// Golden files have blocks of Zstandard, without a base and on one.
#[test]
fn golden_files_have_blocks_of_zstandard() {
    for (name, on) in [("zstd", false), ("delta_zstd", true)] {
        let archive = Archive::open(&golden_path(name)).expect("a golden file");
        for span in archive.described_spans() {
            let span = span.expect("a span");
            assert_eq!(span.reference.is_some(), on);
            assert!(span.blocks.iter().all(|block| block.kind == "zstd"), "{span:?}");
        }
    }
}

/// One golden file has palettes, of values of two, four and eight bytes.
#[test]
fn a_golden_file_has_palettes() {
    let recipes = recipes_of("palette");
    let count = recipes.iter().filter(|recipe| recipe.starts_with("palette")).count();
    assert_eq!(count, 3, "{recipes:?}");
}

/// What an earlier writer made by classes of the input of `delta` is read, though it is written by
/// changes now.
#[test]
fn golden_files_of_earlier_writers_are_read() {
    let archive = Archive::open(&golden_path("delta_classes")).expect("a golden file");
    let restored = decompress_to_vec(&archive, &Context::with_threads(1)).expect("restored");
    let delta = golden_deltas().into_iter().find(|delta| delta.name == "delta");
    assert!(restored == delta.expect("the same input").original);
}

/// One golden file has symbols by context, of values with and without raw bytes.
#[test]
fn a_golden_file_has_symbols_by_context() {
    let recipes = recipes_of("delta_contexts");
    let has = |is_raw: bool| {
        recipes.iter().any(|recipe| recipe.contains("rans") && recipe.contains("raw") == is_raw)
    };
    assert!(has(true) && has(false), "{recipes:?}");
}

/// One golden file has blocks by bins and one has blocks by changes, of values with and without raw
/// bytes.
#[test]
fn golden_files_have_blocks_by_bins_and_by_changes() {
    for kind in ["bins", "changes"] {
        let recipes = recipes_of(&format!("delta_{kind}"));
        let has = |is_raw: bool| {
            recipes
                .iter()
                .any(|recipe| recipe.starts_with(kind) && recipe.contains("raw") == is_raw)
        };
        assert!(has(true) && has(false), "{recipes:?}");
    }
}
