//! Files for the tests: safetensors from their parts, and the compressed form of anything.
#![allow(dead_code)]

use lmc::{Input, Level, Options, Output};
use lmc_testkit::data::{self, Kind};
use std::path::{Path, PathBuf};

/// A tensor: name, type, shape and bytes.
pub type Part = (String, &'static str, Vec<u64>, Vec<u8>);

/// A safetensors file; `extra` is put in front of the header's entries.
pub fn safetensors(tensors: &[Part], extra: &str) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut end = 0;
    for (name, dtype, shape, bytes) in tensors {
        let start = end;
        end += bytes.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{extra}{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes));
    file
}

/// The `.lmc` form of `original`.
pub fn compress(original: &[u8], level: Level, threads: usize) -> Vec<u8> {
    compress_with(
        Input::Bytes(original),
        &Options { level, threads, verify: true, ..Options::default() },
    )
}

/// The same of any input.
pub fn compress_with(input: Input, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let done =
        lmc::compress(input, Output::Stream(&mut out), options, &|_| ()).expect("compressed");
    assert_eq!(done.bytes_out, out.len() as u64);
    out
}

/// What the golden files are made from: name, original and level.
pub fn golden_inputs() -> Vec<(String, Vec<u8>, Level)> {
    let words = |kind, width, n| data::words(kind, width, true, n, 7);
    let weights = safetensors(
        &[
            ("norm".into(), "F32", vec![30], words(Kind::Weights, 4, 30)),
            ("empty".into(), "BF16", vec![0], Vec::new()),
            ("w".into(), "BF16", vec![20, 60], words(Kind::Weights, 2, 1200)),
            ("zeros".into(), "I64", vec![5], vec![0; 40]),
        ],
        "",
    );
    let mut inputs = vec![("empty".to_string(), Vec::new(), Level::Default)];
    // More than one block, and so a shared recipe.
    let sparse = words(Kind::Stretches, 2, 140_000);
    inputs.push(("shared".to_string(), sparse, Level::Fast));
    inputs.push(("text".to_string(), b"any file at all".repeat(9), Level::Default));
    for (name, level) in [
        ("fast", Level::Fast),
        ("default", Level::Default),
        ("max", Level::Max),
        ("paper", Level::Paper),
    ] {
        inputs.push((format!("safetensors_{name}"), weights.clone(), level));
    }
    inputs
}

/// Where the golden file of this name is.
pub fn golden_path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    root.join(format!("v0_1_0_{name}.lmc"))
}

/// The golden files.
pub fn golden() -> Vec<(String, Vec<u8>)> {
    let read = |(name, ..): (String, Vec<u8>, Level)| {
        let file = std::fs::read(golden_path(&name)).expect("a golden file");
        (name, file)
    };
    golden_inputs().into_iter().map(read).collect()
}
