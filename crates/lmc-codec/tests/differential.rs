//! Two decoders, one in Rust and one in Python written from `docs/format.md` alone, take and
//! refuse the same blocks and give the same bytes.
//!
//! The cases go to a file that `reference/decode.py --batch` checks; see `reference/README.md`.
//! `LMC_SEED` chooses other cases, `LMC_PYTHON` another Python than that of `.venv`.

use crate::common;
use crate::common::LEVELS;
use crate::common::recipes::features::{all_features, count_features};
use crate::common::recipes::floats::values_near;
use crate::common::recipes::{Case, any_case};
use lmc_codec::{Block, Decoder, Dtype, Encoder, Level, Plan, SharedRecipe, TensorSpec};
use lmc_testkit::data::{self, Kind, Random};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Blocks with each coder, word map, width and kind of recipe, at least.
const KIND_MIN: usize = 1000;
/// Blocks with each coder in each place, stored ones and the like, at least.
const PLACE_MIN: usize = 50;
const HAND_MADE: usize = 24_000;
const TEXTS: usize = 1000;
const MUTANTS: usize = 10_000;
/// Mutants that claim more are left out: they only take time.
const MUTANT_RAW_LEN_MAX: usize = 1 << 14;
/// Largest batch file in bytes.
const BATCH_LEN_MAX: usize = 200 << 20;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python to use, if there is one.
fn python() -> Option<PathBuf> {
    match env::var_os("LMC_PYTHON") {
        Some(path) => Some(path.into()),
        None => Some(root().join(".venv/bin/python")).filter(|path| path.exists()),
    }
}

/// What the Rust decoder makes of a case; a shared recipe is looked at by blocks of kind 3 only.
fn verdict(case: &Case) -> Option<Vec<u8>> {
    let shared = match case.block.first() {
        Some(3) if !case.shared.is_empty() => Some(SharedRecipe::parse(&case.shared).ok()?),
        _ => None,
    };
    let mut out = vec![0x55; Decoder::raw_len(&case.block).ok()?];
    let base = case.base.as_deref();
    let done = Decoder::new().decode_block(&case.block, shared.as_ref(), base, &mut out);
    done.is_ok().then_some(out)
}

/// A number of values: mostly some hundred, at times a few thousand, seldom many.
fn random_size(random: &mut Random) -> usize {
    match random.below(100) {
        0 => random.below(20_000),
        1..10 => random.below(3000),
        10..15 => random.below(3),
        _ => random.below(300),
    }
}

/// A base for a tensor: the same bytes, a few changed ones, values near by, or anything.
fn random_base(tensor: &[u8], dtype: Dtype, random: &mut Random) -> Vec<u8> {
    let mut base = tensor.to_vec();
    match random.below(8) {
        0 => {}
        1 | 2 if !base.is_empty() => {
            for _ in 0..=base.len() / 100 {
                let at = random.below(base.len());
                base[at] ^= 1 << random.below(8);
            }
        }
        3 => base = random.bytes(tensor.len()),
        _ => base = values_near(tensor, dtype.width(), random),
    }
    base
}

/// Blocks by the encoder: all types, levels and kinds of data, and sizes that make it choose
/// differently; one in eight with the recipe that a longer tensor's blocks share, one in three on a
/// base.
fn planned_cases(random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in Dtype::ALL {
        for kind in Kind::ALL {
            for level in LEVELS {
                for round in 0..2 {
                    let is_long = level != Level::Paper && random.below(8) == 0;
                    let n =
                        if round == 0 { 1000 + random.below(2000) } else { random_size(random) };
                    let made = if is_long { 270_000 } else { n };
                    let tensor = common::tensor(dtype, kind, made, random.next_u64() >> 1);
                    let row_len = [0, 1, 48, 48, 48, 100][random.below(6)];
                    let spec = TensorSpec { dtype, row_len };
                    let base = (random.below(3) == 0).then(|| random_base(&tensor, dtype, random));
                    let all = Block { bytes: &tensor, base: base.as_deref() };
                    let plan = Plan::new(&spec, level, all);
                    let first = if is_long { random.below(made - n) } else { 0 };
                    let start = first * dtype.width();
                    let end = (start + n * dtype.width()).saturating_sub(random.below(3));
                    let range = start..end.max(start);
                    let raw = tensor[range.clone()].to_vec();
                    let base = base.map(|base| base[range].to_vec());
                    let mut block = Vec::new();
                    let own = Block { bytes: &raw, base: base.as_deref() };
                    Encoder::new().encode_block(&plan, first as u64, own, &mut block);
                    let name = format!("{dtype:?} {kind:?} {level:?} {n} on {}", base.is_some());
                    let shared = plan.shared_recipe().to_vec();
                    cases.push(Case { name, shared, base, block, raw });
                }
            }
        }
    }
    cases
}

/// Text at every level, a third of it without a base, and the others on one that has moved.
fn text_cases(random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for i in 0..TEXTS {
        let len = random_size(random);
        let text = data::log(len + 8, random.next_u64() >> 1);
        let raw = text[..len].to_vec();
        let at = random.below(8);
        let base = (i % 3 > 0).then(|| text[at..at + len].to_vec());
        let spec = TensorSpec { dtype: Dtype::Bytes, row_len: 0 };
        let own = Block { bytes: &raw, base: base.as_deref() };
        let plan = Plan::new(&spec, LEVELS[i % 4], own);
        let mut block = Vec::new();
        Encoder::new().encode_block(&plan, 0, own, &mut block);
        let name = format!("{len} bytes of text");
        cases.push(Case { name, shared: Vec::new(), base, block, raw });
    }
    cases
}

/// A case with up to three bits turned, bytes set or the end cut off, in the block or the recipe.
fn mutant(case: &Case, random: &mut Random) -> Case {
    let mut mutant = case.clone();
    let in_recipe = !case.shared.is_empty() && random.below(2) == 0;
    let bytes = if in_recipe { &mut mutant.shared } else { &mut mutant.block };
    // Half of the changes go to the front, where recipes are.
    let reach = if random.below(2) == 0 { bytes.len().min(60) } else { bytes.len() };
    for _ in 0..=random.below(3) {
        let at = random.below(reach);
        match random.below(8) {
            0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            1 => bytes[at] = random.next_u64() as u8,
            _ => bytes[at] ^= 1 << random.below(8),
        }
    }
    if random.below(8) == 0 {
        bytes.truncate(1 + random.below(bytes.len()));
    }
    // Whoever has a base gives as much of it as the block claims to hold, or none.
    mutant.base.take_if(|_| random.below(32) == 0);
    if let (Some(base), Ok(len)) = (&mut mutant.base, Decoder::raw_len(&mutant.block)) {
        base.resize(len, 0x77);
    }
    mutant
}

/// Changed cases with what the Rust decoder makes of them.
fn mutants(cases: &[Case], random: &mut Random) -> Vec<(Case, Option<Vec<u8>>)> {
    let small: Vec<&Case> = cases.iter().filter(|case| case.raw.len() < 2000).collect();
    let mut mutants = Vec::new();
    while mutants.len() < MUTANTS {
        let mutant = mutant(small[random.below(small.len())], random);
        if Decoder::raw_len(&mutant.block).is_ok_and(|len| len > MUTANT_RAW_LEN_MAX) {
            continue;
        }
        let verdict = verdict(&mutant);
        mutants.push((mutant, verdict));
    }
    mutants
}

/// Appends a case as the batch mode of the reference decoder reads it.
fn append(case: &Case, verdict: Option<&[u8]>, out: &mut Vec<u8>) {
    append_counted(&case.shared, out);
    out.push(u8::from(case.base.is_some()));
    if let Some(base) = &case.base {
        append_counted(base, out);
    }
    append_counted(&case.block, out);
    out.push(u8::from(verdict.is_some()));
    append_counted(verdict.unwrap_or_default(), out);
}

fn append_counted(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Runs the reference decoder on two halves of the cases at once; what it printed, if it differs.
fn run_reference(python: &Path, halves: [Vec<u8>; 2]) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut running = Vec::new();
    for (i, batch) in halves.into_iter().enumerate() {
        assert!(batch.len() < BATCH_LEN_MAX, "a batch of {} bytes", batch.len());
        let path = folder.join(format!("differential-{i}.batch"));
        fs::write(&path, batch).expect("the target folder takes files");
        let mut command = Command::new(python);
        command.arg(root().join("reference/decode.py")).arg("--batch").arg(&path);
        command.stdout(std::process::Stdio::piped());
        running.push((path, command.spawn().expect("the Python starts")));
    }
    for (path, child) in running {
        let output = child.wait_with_output().expect("the Python ends");
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(format!("{}: {text}", path.display()));
        }
        fs::remove_file(&path).expect("the batch was written here");
    }
    Ok(())
}

/// Fails unless every feature of the format occurs often enough in the cases.
fn assert_covered(cases: &[Case]) {
    let counts = count_features(cases);
    println!("{counts:?}");
    let places = [
        "block Stored",
        "block Constant",
        "block Same",
        "block Zstd",
        "symbol",
        "flags",
        "cols",
        "rows",
        "segments",
        "apart",
        "classes ",
        "context",
        "bins ",
        "changes ",
        "changed flags",
        "uncommon flags",
        "palette ",
    ];
    for feature in all_features() {
        let is_place = places.iter().any(|place| feature.starts_with(place));
        let least = if is_place { PLACE_MIN } else { KIND_MIN };
        let count = counts.get(&feature).copied().unwrap_or(0);
        assert!(count >= least, "{count} blocks have {feature}, {least} wanted");
    }
}

/// Every valid case decodes to its bytes in Rust; these, and thousands of changed ones with the
/// verdict of Rust, are decoded by Python, which must agree on all of them. What the cases cover
/// is counted in the blocks themselves.
#[test]
fn rust_and_python_agree() {
    let Some(python) = python() else {
        lmc_testkit::skip(
            lmc_testkit::Missing::Python,
            "no .venv/bin/python (run `make test-python` once) and no LMC_PYTHON",
        );
        return;
    };
    let seed = env::var("LMC_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("LMC_SEED={seed}");
    let mut random = Random::new(seed);
    let mut cases = planned_cases(&mut random);
    cases.extend(text_cases(&mut random));
    for _ in 0..HAND_MADE {
        let size = random_size(&mut random);
        cases.push(any_case(size, &mut random));
    }
    assert_covered(&cases);
    let mut halves = [Vec::new(), Vec::new()];
    for (i, case) in cases.iter().enumerate() {
        let verdict = verdict(case);
        assert!(verdict.as_ref() == Some(&case.raw), "{}: other bytes came back", case.name);
        append(case, verdict.as_deref(), &mut halves[i % 2]);
    }
    let mut taken = 0;
    for (i, (mutant, verdict)) in mutants(&cases, &mut random).into_iter().enumerate() {
        append(&mutant, verdict.as_deref(), &mut halves[i % 2]);
        taken += usize::from(verdict.is_some());
    }
    println!("{} blocks, {MUTANTS} mutants of which {taken} still decode", cases.len());
    assert!(taken > MUTANTS / 10 && taken < MUTANTS * 9 / 10, "the mutants are all of one kind");
    if let Err(text) = run_reference(&python, halves) {
        panic!("the decoders do not agree (the file is kept): {text}");
    }
}
