//! Files for the tests: safetensors from their parts, and the compressed form of anything.

use lmc::{BaseSet, Context, Input, Level, Options, Output};
use lmc_testkit::casts;
use lmc_testkit::data::{self, Kind, Random};
use lmc_testkit::npz::{Array, npz};
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
        &Options {
            level,
            context: Context::with_threads(threads),
            verify: true,
            ..Options::default()
        },
    )
}

/// The same on these bases.
pub fn compress_on(original: &[u8], bases: &BaseSet, level: Level, threads: usize) -> Vec<u8> {
    let options = Options {
        level,
        context: Context::with_threads(threads),
        verify: true,
        bases: bases.clone(),
    };
    compress_with(Input::Bytes(original), &options)
}

/// Files in memory as bases.
pub fn bases(files: &[(&str, &[u8])]) -> BaseSet {
    let files = files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
    BaseSet::from_bytes(files, &Context::with_threads(1)).expect("bases")
}

/// `words` of `width` bytes with one in `every` changed by a little, from a seed.
pub fn nudged(words: &[u8], width: usize, every: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut words = words.to_vec();
    for word in words.chunks_exact_mut(width) {
        if random.below(every) == 0 {
            word[0] = word[0].wrapping_add(1 + random.below(3) as u8);
        }
    }
    words
}

/// `words` of `width` bytes, each of them moved by up to `reach` units in the last place, and one
/// in forty by a lot, from a seed.
pub fn moved(words: &[u8], width: usize, reach: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut words = words.to_vec();
    for bytes in words.chunks_exact_mut(width) {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        let step = match random.below(40) {
            0 => 1 << (8 * width - 4),
            _ => 1 + random.next_u64() % reach,
        };
        let word = u64::from_le_bytes(word);
        let word =
            if random.below(2) == 0 { word.wrapping_add(step) } else { word.wrapping_sub(step) };
        bytes.copy_from_slice(&word.to_le_bytes()[..width]);
    }
    words
}

/// The same of few of them: about one in four with odd top bits, and one in sixteen of the others.
pub fn few_moved(words: &[u8], width: usize, reach: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut few = moved(words, width, reach, seed);
    for (new, old) in few.chunks_exact_mut(width).zip(words.chunks_exact(width)) {
        let one_in = if old[width - 1] & 1 == 1 { 4 } else { 16 };
        if random.below(one_in) > 0 {
            new.copy_from_slice(old);
        }
    }
    few
}

/// `words` of `width` bytes, each of them moved by up to sixteen times `step`, and a little more
/// where steps are long, from a seed: there are few differences, which a table for each context
/// knows.
fn in_steps(words: &[u8], width: usize, step: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut words = words.to_vec();
    for bytes in words.chunks_exact_mut(width) {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        let apart = step * (1 + random.next_u64() % 16) + random.next_u64() % (1 + step / 8);
        let word = u64::from_le_bytes(word);
        let word =
            if random.below(2) == 0 { word.wrapping_add(apart) } else { word.wrapping_sub(apart) };
        bytes.copy_from_slice(&word.to_le_bytes()[..width]);
    }
    words
}

/// The `.lmc` form of any input.
pub fn compress_with(input: Input, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let done = lmc::compress(input, Output::Stream(&mut out), options).expect("compressed").summary;
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
    let empty = |name: &str| (name.to_string(), Vec::new(), Level::Default);
    let mut inputs = vec![empty("empty"), empty("empty_2")];
    // More than one block, and so a shared recipe.
    let sparse = words(Kind::Stretches, 2, 140_000);
    inputs.push(("shared".to_string(), sparse, Level::Fast));
    let stretches = [("s".into(), "I16", vec![140_000], words(Kind::Stretches, 2, 140_000))];
    inputs.push(("shared_recipe".to_string(), safetensors(&stretches, ""), Level::Fast));
    for name in ["text", "text_2"] {
        inputs.push((name.to_string(), b"any file at all".repeat(9), Level::Default));
    }
    inputs.push(("zstd".to_string(), data::log(3000, 34), Level::Default));
    for (name, level) in [
        ("fast", Level::Fast),
        ("default", Level::Default),
        ("max", Level::Max),
        ("paper", Level::Paper),
    ] {
        inputs.push((format!("safetensors_{name}"), weights.clone(), level));
    }
    let packed = [
        ("f4".into(), "F4", vec![40, 30], data::words(Kind::Weights, 1, false, 600, 31)),
        ("f6a".into(), "F6_E2M3", vec![40, 20], data::words(Kind::Weights, 1, false, 600, 32)),
        ("f6b".into(), "F6_E3M2", vec![800], data::words(Kind::Weights, 1, false, 600, 33)),
    ];
    inputs.push(("packed".to_string(), safetensors(&packed, ""), Level::Default));
    // Floats of many kinds of top bytes, which trees code; some of them no sample shows.
    let floats = words(Kind::Weights, 4, 9000);
    let floats = || floats_of(&floats);
    let halves = floats().flat_map(|x| casts::f16_bits(x).to_le_bytes()).collect();
    let bytes = floats().map(|x| casts::e4m3_bits(1024.0 * x)).collect();
    let many = [
        ("half".into(), "F16", vec![90, 100], halves),
        ("quarter".into(), "F8_E4M3", vec![90, 100], bytes),
    ];
    inputs.push(("tree".to_string(), safetensors(&many, ""), Level::Default));
    // Few different values, some of which are rare.
    let quantized = |width| words(Kind::Quantized, width, 6000);
    let few = [
        ("double".into(), "F64", vec![60, 100], quantized(8)),
        ("half".into(), "BF16", vec![60, 100], quantized(2)),
        ("whole".into(), "F32", vec![60, 100], quantized(4)),
    ];
    inputs.push(("palette".to_string(), safetensors(&few, ""), Level::Default));
    // Tensors with other bytes between them.
    inputs.push(("npz".to_string(), npz("", &arrays(1), "a text"), Level::Default));
    // Weights after what was rounded from them.
    let masters = words(Kind::Weights, 4, 20_000);
    let rounded = floats_of(&masters).flat_map(|x| casts::bf16_bits(x).to_le_bytes()).collect();
    let both = [
        ("a".into(), "BF16", vec![100, 200], rounded),
        ("b".into(), "F32", vec![100, 200], masters),
    ];
    inputs.push(("widened".to_string(), safetensors(&both, ""), Level::Default));
    inputs
}

fn floats_of(words: &[u8]) -> impl Iterator<Item = f32> {
    words.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word))
}

/// Some arrays, with one in so many words changed a little.
fn arrays(every: usize) -> Vec<Array<'static>> {
    let array = |i: usize| {
        let values = data::words(Kind::Weights, 4, true, 100 * (1 + i * i), 40 + i as u64);
        let values = if every > 1 { nudged(&values, 4, every, 50) } else { values };
        (format!("layer.{i}"), "<f4", vec![10, 10 * (1 + i * i) as u64], values)
    };
    (0..12).map(array).collect()
}

/// A golden file on bases.
pub struct GoldenDelta {
    pub name: &'static str,
    pub original: Vec<u8>,
    pub level: Level,
    /// Their names and originals; each is a golden file itself.
    pub bases: Vec<(&'static str, Vec<u8>)>,
}

/// What the golden files with deltas are made from; a base comes before what needs it.
pub fn golden_deltas() -> Vec<GoldenDelta> {
    let mut all: Vec<GoldenDelta> =
        [golden_planes(), golden_bins(), golden_changes()].into_iter().flatten().collect();
    // Text that has moved by a few bytes.
    let old = data::log(3000, 34);
    let new = [&b"more\n"[..], &old[..2995]].concat();
    all.push(delta("delta_zstd", &new, Level::Default, vec![("v0_1_0_zstd", old)]));
    // Arrays that have moved, against arrays in an order of their own.
    let (old, new) = (npz("", &arrays(1), "a text"), npz("", &arrays(3), "a longer text"));
    all.push(delta("delta_npz", &new, Level::Default, vec![("v0_1_0_npz", old)]));
    all
}

fn delta(
    name: &'static str,
    original: &[u8],
    level: Level,
    bases: Vec<(&'static str, Vec<u8>)>,
) -> GoldenDelta {
    GoldenDelta { name, original: original.to_vec(), level, bases }
}

/// Short tensors, chains, several bases, and references within a file.
fn golden_planes() -> Vec<GoldenDelta> {
    let floats = data::words(Kind::Weights, 4, true, 600, 11);
    let cast = |cast: fn(u32) -> u16| -> Vec<u8> {
        let (words, _) = floats.as_chunks();
        words.iter().flat_map(|&word| cast(u32::from_le_bytes(word)).to_le_bytes()).collect()
    };
    let weights = data::words(Kind::Weights, 2, true, 1200, 12);
    let long = data::words(Kind::Stretches, 4, false, 20_000, 13);
    let old = safetensors(
        &[
            ("h".into(), "F32", vec![20, 30], floats.clone()),
            ("k".into(), "F32", vec![600], floats.clone()),
            ("w".into(), "BF16", vec![20, 60], weights.clone()),
            ("ids".into(), "I64", vec![100], data::words(Kind::Weights, 8, false, 100, 14)),
        ],
        "",
    );
    let short = |weights: Vec<u8>| {
        vec![
            ("h".into(), "BF16", vec![20, 30], cast(|u| casts::bf16_bits(f32::from_bits(u)))),
            ("k".into(), "F16", vec![600], cast(|u| casts::f16_bits(f32::from_bits(u)))),
            ("w".into(), "BF16", vec![20, 60], weights),
        ]
    };
    let new = |weights: Vec<u8>| {
        let mut tensors = short(weights);
        tensors.push(("long".into(), "I32", vec![100, 200], long.clone()));
        tensors.push(("ema.long".into(), "I32", vec![100, 200], nudged(&long, 4, 500, 15)));
        tensors.push(("copy".into(), "I32", vec![20_000], long.clone()));
        safetensors(&tensors, "")
    };
    let first = new(nudged(&weights, 2, 4, 16));
    let second = new(nudged(&weights, 2, 2, 17));
    let third = safetensors(&short(nudged(&weights, 2, 3, 18)), "");
    let on_old = vec![("v0_1_0_delta_base", old.clone())];
    let on_first = vec![("v0_1_0_delta", first.clone())];
    let on_both = [&on_old[..], &on_first].concat();
    vec![
        delta("delta_base", &old, Level::Default, vec![]),
        delta("delta", &first, Level::Default, on_old.clone()),
        delta("delta_2", &first, Level::Default, on_old.clone()),
        delta("delta_of_delta", &second, Level::Max, on_first.clone()),
        delta("delta_of_delta_2", &second, Level::Max, on_first),
        delta("delta_two", &second, Level::Fast, on_both.clone()),
        delta("delta_two_2", &second, Level::Fast, on_both),
        delta("delta_paper", &third, Level::Paper, on_old),
    ]
}

/// Floats of f32 and bf16, as many as bins need.
fn long_floats() -> (Vec<u8>, Vec<u8>) {
    let wide = data::words(Kind::Weights, 4, true, 1100, 21);
    (wide, data::words(Kind::Weights, 2, true, 2200, 22))
}

/// Tensors of which nearly every value differs from its base.
fn golden_bins() -> Vec<GoldenDelta> {
    let (wide, narrow) = long_floats();
    let dense = |wide: Vec<u8>, narrow: Vec<u8>| {
        let tensors =
            [("h".into(), "F32", vec![20, 55], wide), ("w".into(), "BF16", vec![20, 110], narrow)];
        safetensors(&tensors, "")
    };
    let dense_old = dense(wide.clone(), narrow.clone());
    let dense_new = dense(moved(&wide, 4, 1 << 17, 19), moved(&narrow, 2, 12, 20));
    let steps_new = dense(in_steps(&wide, 4, 3 << 16, 27), in_steps(&narrow, 2, 3, 28));
    let on = vec![("v0_1_0_bins_base", dense_old.clone())];
    vec![
        delta("bins_base", &dense_old, Level::Default, vec![]),
        delta("delta_bins", &dense_new, Level::Default, on.clone()),
        delta("delta_bins_2", &dense_new, Level::Default, on.clone()),
        delta("delta_contexts", &steps_new, Level::Max, on),
    ]
}

/// Tensors of which few values differ from their base.
fn golden_changes() -> Vec<GoldenDelta> {
    let (wide, narrow) = long_floats();
    let integers = data::words(Kind::Weights, 4, false, 2200, 23);
    let sparse = |wide: Vec<u8>, narrow: Vec<u8>, integers: Vec<u8>| {
        let tensors = [
            ("h".into(), "F32", vec![20, 55], wide),
            ("ids".into(), "I32", vec![20, 110], integers),
            ("w".into(), "BF16", vec![20, 110], narrow),
        ];
        safetensors(&tensors, "")
    };
    let sparse_old = sparse(wide.clone(), narrow.clone(), integers.clone());
    let sparse_new = sparse(
        few_moved(&wide, 4, 1 << 17, 24),
        few_moved(&narrow, 2, 4, 25),
        few_moved(&integers, 4, 9, 26),
    );
    let on = vec![("v0_1_0_changes_base", sparse_old.clone())];
    vec![
        delta("changes_base", &sparse_old, Level::Default, vec![]),
        delta("delta_changes", &sparse_new, Level::Default, on.clone()),
        delta("delta_changes_2", &sparse_new, Level::Default, on),
    ]
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
