//! Files on bases come back byte for byte, whole and in parts, whatever became of their tensors; a
//! base never costs more than it is worth.

use crate::common::{Part, bases, compress, compress_on, nudged, safetensors};
use lmc::{Archive, BaseSet, Context, Dtype, Input, Level, Options, Output, decompress_to_vec};
use lmc_testkit::casts;
use lmc_testkit::data::{self, Kind, Random};
use proptest::prelude::*;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];

/// A file can name a base of which it needs nothing, and is then known to be on that base and on no
/// other; by itself it names only what it needs.
#[test]
fn a_base_that_is_of_no_use_can_be_named() {
    let random = |seed| {
        let mut random = Random::new(seed);
        (0..50_000).map(|_| random.below(256) as u8).collect::<Vec<u8>>()
    };
    let (old, new, other) = (random(1), random(2), random(3));
    let bases_of = |bytes: &[u8]| bases(&[("old", bytes)]);
    let coded = compress_on(&new, &bases_of(&old).named(), Level::Fast, 1);
    let archive = Archive::from_bytes_on(coded.clone(), &bases_of(&old)).expect("a valid file");
    assert_eq!(archive.bases().len(), 1);
    archive.check_named_bases(&Context::default()).expect("the base is there");
    let wrong = Archive::from_bytes_on(coded.clone(), &bases_of(&other)).expect("a valid file");
    let error = wrong.check_named_bases(&Context::default()).expect_err("another base");
    assert!(error.to_string().contains("is needed"), "{error}");
    // Nothing refers to it, so that the original comes back without it.
    let alone = Archive::from_bytes(coded).expect("a valid file");
    assert!(decompress_to_vec(&alone, &Context::with_threads(1)).expect("restored") == new);

    let coded = compress_on(&new, &bases_of(&old), Level::Fast, 1);
    let archive = Archive::from_bytes_on(coded, &bases_of(&old)).expect("a valid file");
    assert!(archive.bases().is_empty());
    assert!(archive.check_named_bases(&Context::default()).is_err());
}

/// Types of whole bytes: their names, the bytes of a value, and whether it is a float.
fn types() -> impl Iterator<Item = (&'static str, usize, bool)> {
    let whole = |dtype: &Dtype| dtype.bits().is_multiple_of(8);
    let row = |dtype: Dtype| {
        let width = dtype.bits() as usize / 8;
        Some((dtype.in_safetensors()?, width, dtype.float_fields().is_some()))
    };
    Dtype::ALL.into_iter().filter(whole).filter_map(row)
}

/// Compresses `new` on `old` and checks what comes back, as a whole and in parts. Returns the bytes
/// of the file.
fn check(new: &[u8], old: &BaseSet, level: Level) -> usize {
    let coded = compress_on(new, old, level, 2);
    let len = coded.len();
    let archive = Archive::from_bytes_on(coded, old).expect("a valid file");
    assert!(
        decompress_to_vec(&archive, &Context::with_threads(2)).expect("restored") == new,
        "{level:?}"
    );
    let (third, end) = (new.len() as u64 / 3, new.len() as u64);
    for range in [0..third, third..2 * third, 2 * third..end, end / 2..end / 2 + 1] {
        let range = range.start..range.end.min(end);
        let part = archive.read(range.clone()).expect("a part");
        assert!(part == new[range.start as usize..range.end as usize]);
    }
    for tensor in archive.tensors().expect("tensors") {
        let bytes = archive.read_tensor(&tensor).expect("a tensor");
        assert!(bytes == new[tensor.range.start as usize..tensor.range.end as usize]);
    }
    let alone = Archive::from_bytes(compress(new, level, 2)).expect("a valid file");
    assert_eq!(archive.content_hash(), alone.content_hash(), "a base changes no checksum");
    let most = alone.file_len() as usize * 1001 / 1000 + 64;
    // The published way takes the XOR with the base, whatever comes of it.
    assert!(
        level == Level::Paper || len <= most,
        "{level:?}: {len} bytes with a base, {} without",
        alone.file_len()
    );
    len
}

/// A tensor of each type, of `shape` and with values from a seed.
fn all_types(shape: &[u64], seed: u64) -> Vec<Part> {
    let n = shape.iter().product::<u64>() as usize;
    let tensor = |(name, width, float): (&'static str, usize, bool)| {
        let words = data::words(Kind::Weights, width.min(4), float, n * width / width.min(4), seed);
        (format!("layer.{name}"), name, shape.to_vec(), words)
    };
    types().map(tensor).collect()
}

fn width(dtype: &str) -> usize {
    types().find(|(name, ..)| *name == dtype).map_or(1, |(_, width, _)| width)
}

fn file(tensors: &[Part]) -> Vec<u8> {
    safetensors(tensors, "")
}

/// Tensors of every type, large and small, that stayed, changed here and there, changed everywhere,
/// or have nothing to do with the base.
#[test]
fn every_type_and_change() {
    for shape in [[7, 10], [200, 400]] {
        let old = all_types(&shape, 1);
        let on = bases(&[("old", &file(&old))]);
        let changed = |change: &dyn Fn(&Part) -> Vec<u8>| {
            let part = |part: &Part| (part.0.clone(), part.1, part.2.clone(), change(part));
            file(&old.iter().map(part).collect::<Vec<_>>())
        };
        let few = changed(&|part| nudged(&part.3, width(part.1), 100, 2));
        let all = changed(&|part| nudged(&part.3, width(part.1), 1, 3));
        for level in LEVELS {
            check(&file(&old), &on, level);
            check(&few, &on, level);
            check(&all, &on, level);
            check(&file(&all_types(&shape, 99)), &on, level);
        }
    }
}

/// Tensors that grew or became another type are coded alone; those that were renamed or moved
/// to another file are found.
#[test]
fn tensors_that_are_not_what_they_were() {
    let weights = |n, seed| data::words(Kind::Weights, 2, true, n, seed);
    let tensor =
        |name: &str, rows: u64, bytes: Vec<u8>| (name.to_string(), "BF16", vec![rows, 500], bytes);
    let (a, b, c) = (weights(100_000, 1), weights(100_000, 2), weights(100_000, 3));
    let old = file(&[
        tensor("a", 200, a.clone()),
        tensor("b", 200, b.clone()),
        tensor("c", 200, c.clone()),
    ]);
    let grown = [&a[..], &weights(50_000, 4)].concat();
    let as_f32: Vec<u8> = c.chunks(2).flat_map(|v| [0, 0, v[0], v[1]]).collect();
    let new = file(&[
        tensor("a", 300, grown),
        tensor("b", 100, b[..100_000].to_vec()),
        ("c".to_string(), "F32", vec![200, 500], as_f32),
    ]);
    let on = bases(&[("old", &old)]);
    check(&new, &on, Level::Default);
    let renamed = file(&[
        tensor("model.c", 200, c.clone()),
        tensor("model.b", 200, nudged(&b, 2, 50, 5)),
        tensor("other", 200, a.clone()),
    ]);
    let len = check(&renamed, &on, Level::Default);
    assert!(len < 20_000, "{len} bytes");
    // In two files, of which none has all.
    let parts = [
        file(&[tensor("x", 200, a.clone()), tensor("b", 200, b.clone())]),
        file(&[tensor("c", 200, c.clone())]),
    ];
    let on = bases(&[("one", &parts[0]), ("two", &parts[1])]);
    let len = check(&old, &on, Level::Default);
    assert!(len < 1000, "{len} bytes");
    assert_eq!(
        Archive::from_bytes(compress_on(&old, &on, Level::Fast, 1)).expect("valid").bases().len(),
        2
    );
}

/// Parts of tensors are found in the files that hold their rows, large ones and small ones, as they
/// are or rounded; parts whose rows or columns are elsewhere cost no more than alone.
#[test]
fn parts_of_tensors() {
    let rows = |name: &str, range: std::ops::Range<usize>, width: usize, bytes: &[u8]| {
        let (start, end) = (range.start, range.end);
        let name = format!("{name}[{start}:{end},0:500]");
        let bytes = bytes[start * 500 * width..end * 500 * width].to_vec();
        let dtype = if width == 2 { "BF16" } else { "F32" };
        (name, dtype, vec![(end - start) as u64, 500], bytes)
    };
    let w = data::words(Kind::Weights, 2, true, 1000 * 500, 1);
    let small = data::words(Kind::Weights, 2, true, 40 * 500, 2);
    let master = data::words(Kind::Weights, 4, true, 1000 * 500, 3);
    let halves = [
        file(&[
            rows("w", 0..500, 2, &w),
            rows("s", 0..20, 2, &small),
            rows("m", 0..500, 4, &master),
        ]),
        file(&[rows("w", 500..1000, 2, &w), rows("s", 20..40, 2, &small)]),
    ];
    let on = bases(&[("one", &halves[0]), ("two", &halves[1])]);
    let float = |v: &[u8]| f32::from_le_bytes([v[0], v[1], v[2], v[3]]);
    let rounded: Vec<u8> =
        master.chunks(4).flat_map(|v| casts::bf16_bits(float(v)).to_le_bytes()).collect();
    let third = file(&[
        rows("w", 334..500, 2, &nudged(&w, 2, 100, 4)),
        rows("w", 500..667, 2, &nudged(&w, 2, 100, 5)),
        rows("s", 14..20, 2, &small),
        rows("m", 334..500, 2, &rounded),
    ]);
    let alone = compress(&third, Level::Default, 1).len();
    let len = check(&third, &on, Level::Default);
    assert!(len * 10 < alone, "{len} bytes, {alone} alone");
    let elsewhere = file(&[
        rows("w", 400..600, 2, &w),
        ("s[0:20,500:1000]".to_string(), "BF16", vec![20, 500], small[..20_000].to_vec()),
    ]);
    check(&elsewhere, &on, Level::Default);
}

/// Weights that are the rounding of f32 ones cost next to nothing, in a base or in the file itself,
/// whichever way they were rounded, and so do copies.
#[test]
fn roundings_and_copies() {
    let floats = data::words(Kind::Weights, 4, true, 50_000, 1);
    let cast = |cast: fn(f32) -> u16| -> Vec<u8> {
        let (words, _) = floats.as_chunks();
        words.iter().flat_map(|&word| cast(f32::from_le_bytes(word)).to_le_bytes()).collect()
    };
    let nearest = cast(casts::bf16_bits);
    let cut = cast(|x| (x.to_bits() >> 16) as u16);
    let half = cast(casts::f16_bits);
    let shape = || vec![100, 500];
    let master = ("w".to_string(), "F32", shape(), floats.clone());
    let on = bases(&[("master", &file(std::slice::from_ref(&master)))]);
    for (dtype, bytes) in [("BF16", &nearest), ("BF16", &cut), ("F16", &half)] {
        let new = file(&[("w".to_string(), dtype, shape(), bytes.clone())]);
        let len = check(&new, &on, Level::Default);
        assert!(len < 500, "{dtype}: {len} bytes");
    }
    let one = file(std::slice::from_ref(&master));
    let all = file(&[
        ("master.w".to_string(), "F32", shape(), floats.clone()),
        ("w".to_string(), "BF16", shape(), nearest.clone()),
        ("ema.w".to_string(), "BF16", shape(), nudged(&nearest, 2, 100, 2)),
        ("tied".to_string(), "F32", vec![500, 100], floats.clone()),
    ]);
    let none = BaseSet::default();
    let (one, all) = (check(&one, &none, Level::Default), check(&all, &none, Level::Default));
    assert!(all < one + 3000, "{all} bytes for all, {one} for one");
}

/// A delta of a delta of a delta, each base given as it is or as a `.lmc`, and rows through all.
#[test]
fn deltas_of_deltas() {
    let mut originals = vec![file(&all_types(&[300, 200], 1))];
    for seed in 2..5 {
        originals.push(originals[0][..2000].to_vec());
        let last = originals[seed as usize - 2].clone();
        originals[seed as usize - 1].extend(nudged(&last[2000..], 4, 30, seed));
    }
    let mut files = vec![compress(&originals[0], Level::Default, 1)];
    for i in 1..originals.len() {
        let raw =
            compress_on(&originals[i], &bases(&[("old", &originals[i - 1])]), Level::Default, 1);
        // A base can only be read with its own, so all are given.
        let given: Vec<(&str, &[u8])> = files.iter().rev().map(|file| ("old", &file[..])).collect();
        let names: Vec<(String, Vec<u8>)> =
            given.iter().map(|(name, file)| (name.to_string(), file.to_vec())).collect();
        let on = BaseSet::from_bytes(names, &Context::with_threads(1)).expect("bases");
        let packed = compress_on(&originals[i], &on, Level::Default, 1);
        if i == 1 {
            assert!(raw == packed, "raw and compressed bases give the same file");
        }
        files.push(raw);
    }
    let given: Vec<(&str, &[u8])> = files[..3].iter().map(|file| ("old", &file[..])).collect();
    let archive = Archive::from_bytes_on(files[3].clone(), &bases(&given)).expect("valid");
    assert!(
        decompress_to_vec(&archive, &Context::with_threads(2)).expect("restored") == originals[3]
    );
    archive.test(&Context::with_threads(2)).expect("whole");
    let mut random = Random::new(9);
    for _ in 0..50 {
        let start = random.below(originals[3].len());
        let end = start + random.below(originals[3].len() - start).min(5000);
        let part = archive.read(start as u64..end as u64).expect("a part");
        assert!(part == originals[3][start..end]);
    }
}

/// Any file is on one of the same or another length, from its start on.
#[test]
fn files_without_tensors() {
    let old = data::words(Kind::Weights, 2, true, 5_000_000, 1);
    let new = nudged(&old, 2, 1000, 2);
    let on = bases(&[("old", &old)]);
    let alone = compress(&new, Level::Fast, 2).len();
    assert!(check(&new, &on, Level::Fast) < alone / 20);
    let shorter = new[..9_000_000].to_vec();
    assert!(check(&shorter, &on, Level::Fast) < alone / 20);
    let longer = [&new[..], &old[..1_000_001]].concat();
    check(&longer, &on, Level::Fast);
    check(b"", &on, Level::Fast);
    check(b"short", &on, Level::Fast);
    check(&new, &bases(&[("", b"")]), Level::Fast);
}

/// A useless base costs nothing: rows in another order, zeros against noise, NaNs, and
/// many small tensors in another order.
#[test]
fn bad_bases_cost_nothing() {
    let n = 150_000;
    let weights = data::words(Kind::Weights, 2, true, n, 1);
    let mut shuffled: Vec<&[u8]> = weights.chunks(600).collect();
    let mut random = Random::new(2);
    (1..shuffled.len()).rev().for_each(|i| shuffled.swap(i, random.below(i + 1)));
    let contents = [
        weights.clone(),
        shuffled.concat(),
        vec![0; 2 * n],
        random.bytes(2 * n),
        [0xff; 2].repeat(n),
        data::words(Kind::Extremes, 2, true, n, 3),
        data::words(Kind::Sparse, 2, true, n, 4),
    ];
    let of = |bytes: &[u8]| file(&[("w".to_string(), "BF16", vec![500, 300], bytes.to_vec())]);
    for old in &contents {
        let on = bases(&[("old", &of(old))]);
        for new in &contents {
            for level in LEVELS {
                check(&of(new), &on, level);
            }
        }
    }
    let mut one = weights.clone();
    one[77_777] ^= 1;
    let len = check(&of(&one), &bases(&[("old", &of(&weights))]), Level::Default);
    assert!(len < weights.len() / 50, "{len} bytes for one value");
    let small = |seed: u64| -> Vec<Part> {
        let tensor = |i: u64| {
            let bytes = data::words(Kind::Weights, 2, true, 50 + 7 * i as usize, seed + i);
            (format!("t{}", (i * 37) % 101), "BF16", vec![50 + 7 * i], bytes)
        };
        (0..101).map(tensor).collect()
    };
    let mut reversed = small(1);
    reversed.reverse();
    for old in [small(1), small(500), reversed] {
        let on = bases(&[("old", &file(&old))]);
        for level in LEVELS {
            check(&file(&small(1)), &on, level);
        }
    }
}

/// A checkpoint that has not changed takes next to nothing.
#[test]
fn unchanged_checkpoints_are_tiny() {
    let mut tensors = all_types(&[500, 700], 1);
    tensors.push(("big".to_string(), "BF16", vec![6000, 1000], vec![0; 12_000_000]));
    tensors.last_mut().expect("one").3 = data::words(Kind::Weights, 2, true, 6_000_000, 5);
    let same = file(&tensors);
    let on = bases(&[("old", &same)]);
    for level in LEVELS {
        let len = compress_on(&same, &on, level, 2).len();
        assert!(len <= 8000, "{level:?}: {len} bytes");
    }
}

/// The same bytes come out for every number of threads, from a raw base and from a `.lmc`.
#[test]
fn output_does_not_depend_on_threads() {
    let old = file(&all_types(&[700, 900], 1));
    let new = [&old[..3000], &nudged(&old[3000..], 2, 40, 7)].concat();
    let one = compress_on(&new, &bases(&[("old", &old)]), Level::Default, 1);
    let packed = compress(&old, Level::Fast, 2);
    for threads in [2, 16] {
        let raw = BaseSet::from_bytes(
            vec![("old".to_string(), old.clone())],
            &Context::with_threads(threads),
        );
        assert!(compress_on(&new, &raw.expect("bases"), Level::Default, threads) == one);
        let lmc = BaseSet::from_bytes(
            vec![("old.lmc".to_string(), packed.clone())],
            &Context::with_threads(threads),
        );
        assert!(compress_on(&new, &lmc.expect("bases"), Level::Default, threads) == one);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Pairs of any kind of content, of any type and length, the new one made from the old one here
    /// and there.
    #[test]
    fn any_pair(
        kinds in (0..Kind::ALL.len(), 0..Kind::ALL.len()),
        (name, width, float) in prop::sample::select(types().collect::<Vec<_>>()),
        rows in 1_u64..90,
        columns in 1_u64..90,
        every in 1_usize..40,
        keeps in any::<[bool; 3]>(),
        level in 0..3_usize,
        seed in any::<u64>(),
    ) {
        let n = (rows * columns) as usize * width / width.min(4);
        let words = |kind: usize, seed| data::words(Kind::ALL[kind], width.min(4), float, n, seed);
        let old = [words(kinds.0, seed % 1000), words(kinds.1, seed % 999), words(kinds.0, 5)];
        let tensor = |i: usize, bytes: Vec<u8>| (format!("t{i}"), name, vec![rows, columns], bytes);
        let parts = |old: &[Vec<u8>]| -> Vec<Part> {
            old.iter().enumerate().map(|(i, bytes)| tensor(i, bytes.clone())).collect()
        };
        let on = bases(&[("old", &file(&parts(&old)))]);
        let change = |(old, keep): (&Vec<u8>, bool)| {
            if keep { nudged(old, width, every, seed) } else { words(kinds.1, seed % 77) }
        };
        let new: Vec<Vec<u8>> = old.iter().zip(keeps).map(change).collect();
        let new = file(&parts(&new));
        let coded = compress_on(&new, &on, LEVELS[level], 1);
        let archive = Archive::from_bytes_on(coded, &on).expect("a valid file");
        let restored = decompress_to_vec(&archive, &Context::with_threads(1));
        prop_assert!(restored.expect("restored") == new);
        let (start, end) = (new.len() / 3, new.len() * 2 / 3);
        let part = archive.read(start as u64..end as u64).expect("a part");
        prop_assert!(part == new[start..end]);
    }
}

/// A file or a base that is written to while it is read makes an error, not a file that nothing
/// restores.
#[test]
fn changes_while_reading_are_errors() {
    let folder = tempfile::tempdir().expect("a directory");
    let words = data::words(Kind::Weights, 2, true, 2000 * 1024, 1);
    let new = file(&[("w".to_string(), "BF16", vec![2000, 1024], words)]);
    for changed in ["old", "new"] {
        let write = |name: &str| std::fs::write(folder.path().join(name), &new).expect("written");
        write("old");
        write("new");
        let path = folder.path().join(changed);
        let is_done = AtomicBool::new(false);
        let touch = move |_| {
            if !is_done.swap(true, Ordering::Relaxed) {
                let file = File::options().write(true).open(&path).expect("ours");
                file.write_all_at(&[0x5a; 64], 3_000_000).expect("written");
                // As a clock that ticks slowly would not show.
                let later = SystemTime::now() + Duration::from_secs(1);
                file.set_modified(later).expect("ours");
            }
        };
        let bases =
            BaseSet::open(&[folder.path().join("old")], &Context::with_threads(1)).expect("a base");
        let options = Options {
            context: Context::with_threads(1).watched(touch),
            bases,
            ..Options::default()
        };
        let file = File::open(folder.path().join("new")).expect("ours");
        let mut out = Vec::new();
        let done = lmc::compress(Input::File(&file), Output::Stream(&mut out), &options);
        let error = done.expect_err("it changed");
        assert!(error.to_string().contains("changed while it was read"), "{error}");
    }
}

/// A file that is written to in place while it is read makes an error, even if its time of
/// modification is put back: its time of change tells.
#[test]
fn changes_with_the_time_put_back_are_errors() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("new");
    std::fs::write(&path, data::words(Kind::Weights, 2, true, 100_000, 1)).expect("written");
    let source = File::open(&path).expect("ours");
    let before = source.metadata().expect("ours");
    let touch = move |_| {
        let file = File::options().write(true).open(&path).expect("ours");
        loop {
            file.write_all_at(&[0x5a; 64], 3000).expect("written");
            file.set_modified(before.modified().expect("a time")).expect("ours");
            let now = file.metadata().expect("ours");
            assert_eq!((now.mtime(), now.mtime_nsec()), (before.mtime(), before.mtime_nsec()));
            // Again until the clock of the file system has ticked.
            if (now.ctime(), now.ctime_nsec()) != (before.ctime(), before.ctime_nsec()) {
                return;
            }
        }
    };
    let context = Context::with_threads(1).watched(touch);
    let options = Options { context, ..Options::default() };
    let mut out = Vec::new();
    let done = lmc::compress(Input::File(&source), Output::Stream(&mut out), &options);
    assert_eq!(done.expect_err("it changed").kind, lmc::ErrorKind::Conflict);
}
