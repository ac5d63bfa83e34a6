//! Samples of made checkpoints: what is read of them, and what the engines make of it.

use std::slice::from_ref;

use lmc::{ErrorKind, Interrupt};
use lmc_testkit::data::Random;

use super::*;

const MIB: u64 = 1 << 20;

fn extent(dtype: Dtype, row_len: u64, len: u64) -> Extent {
    Extent { dtype, row_len, len }
}

/// Bytes that are picked of each tensor. Checks what always holds: parts are in order, lie in their
/// tensors, do not overlap, begin and end between two values, and are not more than was asked for.
fn picked(tensors: &[Extent], sample: u64) -> Vec<u64> {
    let parts = pick(tensors, sample);
    let mut lens = vec![0; tensors.len()];
    let mut before = (0, 0);
    for (i, range) in parts {
        assert!((i, range.start) >= before && range.start < range.end, "{i} {range:?}");
        assert!(range.end <= tensors[i].len, "{i} {range:?}");
        let width = tensors[i].dtype.width() as u64;
        assert!(range.start % width == 0, "{i} {range:?}");
        assert!(range.end % width == 0 || range.end == tensors[i].len, "{i} {range:?}");
        lens[i] += range.end - range.start;
        before = (i, range.end);
    }
    assert!(lens.iter().sum::<u64>() <= sample, "{lens:?}");
    lens
}

/// A small checkpoint is read in full, whatever its tensors are like.
#[test]
fn all_of_it() {
    let odd = [
        extent(Dtype::Bf16, 4096, 20 * MIB + 2),
        extent(Dtype::F32, 0, 0),
        extent(Dtype::Bytes, u64::MAX, 9 * MIB),
        extent(Dtype::F64, 3, 25),
    ];
    let lens: Vec<u64> = odd.iter().map(|tensor| tensor.len).collect();
    assert_eq!(picked(&odd, u64::MAX), lens);
    assert_eq!(picked(&odd, lens.iter().sum()), lens);
    assert!(pick(&odd, u64::MAX).iter().all(|(_, range)| range.end - range.start <= 8 * MIB));
    assert!(pick(&[], u64::MAX).is_empty() && pick(&[], 0).is_empty());
}

/// Of a large checkpoint, each type has its share, spread evenly over its tensors.
#[test]
fn a_part_of_it() {
    let mut tensors = vec![extent(Dtype::Bf16, 4096, 64 * MIB); 12];
    tensors.extend([extent(Dtype::F32, 1024, 16 * MIB); 16]);
    let lens = picked(&tensors, 64 * MIB);
    // Three quarters are bf16: 4 parts of each tensor. Each f32 tensor has one.
    assert_eq!(lens[..12], [4 * MIB; 12]);
    assert_eq!(lens[12..], [MIB; 16]);
    // Parts begin where rows do.
    for (i, range) in pick(&tensors, 64 * MIB) {
        let row = tensors[i].row_len * tensors[i].dtype.width() as u64;
        assert_eq!((range.start % row, range.end % row), (0, 0), "{i} {range:?}");
    }
}

/// Small tensors are read one after the other, and count as much as they have bytes. A rare type
/// gets short parts; one with next to nothing is left out.
#[test]
fn small_tensors_and_rare_types() {
    let mut tensors = Vec::new();
    for _ in 0..2000 {
        tensors.push(extent(Dtype::Bf16, 100, MIB / 2 + 100));
        tensors.push(extent(Dtype::Bf16, 0, 6));
    }
    tensors.push(extent(Dtype::F32, 0, 4 * MIB));
    tensors.push(extent(Dtype::I64, 0, 4000));
    let lens = picked(&tensors, 32 * MIB);
    let rest = lens.len() - 2;
    let bf16: u64 = lens[..rest].iter().sum();
    assert!(bf16 > 30 * MIB, "{bf16}");
    assert!((1..=160 << 10).contains(&lens[rest]), "{} of f32", lens[rest]);
    assert_eq!(lens[rest + 1], 0);
}

/// No sizes and no sample, however odd, break what `picked` checks.
#[test]
fn odd_sizes() {
    let mut random = Random::new(1);
    for _ in 0..300 {
        let count = random.below(20);
        let tensor = |random: &mut Random| {
            let dtype = Dtype::ALL[random.below(Dtype::ALL.len())];
            let bits = random.below(22);
            let values = random.below(1 << bits) as u64;
            let row_len = [0, 1, 7, 4096, 1 << 40][random.below(5)];
            extent(dtype, row_len, values * dtype.width() as u64)
        };
        let tensors: Vec<Extent> = (0..count).map(|_| tensor(&mut random)).collect();
        let bits = random.below(25);
        picked(&tensors, random.below(1 << bits) as u64);
    }
    // Sizes that no machine has.
    let huge = [extent(Dtype::Bf16, 1 << 50, u64::MAX), extent(Dtype::F32, 1 << 40, u64::MAX)];
    assert!(picked(&huge, 64 * MIB).iter().sum::<u64>() > 60 * MIB);
}

/// A tensor of `count` words of `width` bytes whose upper half has few values.
fn words(dtype: Dtype, count: usize, seed: u64) -> Vec<u8> {
    let width = dtype.width();
    let mut bytes = Random::new(seed).bytes(count * width);
    for word in bytes.chunks_mut(width) {
        word[width - 1] = 60 + word[width - 1] % 4;
    }
    bytes
}

fn piece(dtype: Dtype, count: usize, has_base: bool) -> Piece {
    let bytes = words(dtype, count, 5);
    let mut base = bytes.clone();
    base.iter_mut().step_by(101).for_each(|byte| *byte ^= 1);
    Piece { dtype, row_len: 100, bytes, base: has_base.then_some(base) }
}

fn rows(pieces: &[Piece], names: &[&str]) -> Vec<Row> {
    measure(pieces, names, &Interrupt::default(), &mut |_| ()).expect("measured")
}

#[track_caller]
fn find<'a>(rows: &'a [Row], level: &str, base: bool) -> &'a Row {
    let is_it = |row: &&Row| (row.engine, row.level.as_str(), row.base) == ("lmc", level, base);
    rows.iter().find(is_it).expect("a row")
}

/// Without a base there is a row for each level, and its figures fit together.
#[test]
fn ours_alone() {
    let pieces = [piece(Dtype::Bf16, 30_000, false), piece(Dtype::Bf16, 10_001, false)];
    let rows = rows(&pieces, &["ours"]);
    let levels: Vec<&str> = rows.iter().map(|row| row.level.as_str()).collect();
    assert_eq!(levels, ["", "fast", "default", "max", "paper"]);
    for row in &rows {
        assert_eq!(row.bytes_in, 80_002);
        assert_eq!((row.base, row.xor, row.grouped), (false, false, false));
        assert!((row.ratio - 80_002.0 / row.bytes_out as f64).abs() < 1e-9, "{row:?}");
        assert!((row.bits_per_value * row.ratio - 16.0).abs() < 1e-9, "{row:?}");
        let speeds = [row.compress_speed, row.decompress_speed, row.compress_cpu];
        assert!(speeds.iter().all(|speed| *speed > 0.0 && speed.is_finite()), "{row:?}");
    }
    assert!(find(&rows, "default", false).ratio > 1.2);
    assert_eq!(rows[0].ratio, 1.0, "memcpy");
}

/// With a base, each level has a row with it too. What has no base is coded alone in both, and
/// values of several widths are added up.
#[test]
fn ours_against_a_base() {
    let bf16 = piece(Dtype::Bf16, 30_000, true);
    let with = rows(from_ref(&bf16), &["ours"]);
    assert_eq!(with.len(), 9);
    let xor: Vec<bool> = with.iter().map(|row| row.xor).collect();
    assert_eq!(xor, [false, false, false, false, false, false, false, false, true]);
    assert!(find(&with, "default", true).ratio > 2.0 * find(&with, "default", false).ratio);
    let f32 = piece(Dtype::F32, 20_000, false);
    let mixed = rows(&[bf16.clone(), f32.clone()], &["lmc-default"]);
    let (alone, delta) = (find(&mixed, "default", false), find(&mixed, "default", true));
    assert_eq!((alone.bytes_in, delta.bytes_in), (140_000, 140_000));
    let f32_alone = rows(&[f32], &["lmc-default"]);
    let expected =
        find(&with, "default", true).bytes_out + find(&f32_alone, "default", false).bytes_out;
    assert_eq!(delta.bytes_out, expected);
    let bits = delta.bytes_out as f64 * 8.0 / 50_000.0;
    assert!((delta.bits_per_value - bits).abs() < 1e-9);
}

/// Every type is measured with and without a base, with every engine of the build.
#[test]
fn every_type() {
    for dtype in Dtype::ALL {
        for has_base in [false, true] {
            let rows = rows(&[piece(dtype, 2000, has_base)], &[NAMES]);
            assert_eq!(rows.iter().any(|row| row.base), has_base, "{}", dtype.name());
            let values = (2000 * dtype.width()) as u64;
            assert!(rows.iter().all(|row| row.bytes_in == values), "{}", dtype.name());
        }
    }
}

/// The others have four rows each, and grouping values of one byte is the same as not grouping.
#[test]
fn others() {
    if !lmc_engines::HAS_PEERS {
        return;
    }
    let rows = |pieces: &[Piece]| {
        let rows = rows(pieces, &["zstd-1"]);
        let kind = |row: Row| (row.grouped, row.xor, row.bytes_out);
        rows.into_iter().skip(1).map(kind).collect::<Vec<_>>()
    };
    let (f32, u8) = (piece(Dtype::F32, 9000, true), piece(Dtype::U8, 9000, true));
    let (wide, narrow) = (rows(from_ref(&f32)), rows(from_ref(&u8)));
    let ways = |rows: &[(bool, bool, u64)]| rows.iter().map(|r| (r.0, r.1)).collect::<Vec<_>>();
    assert_eq!(ways(&wide), [(false, false), (true, false), (false, true), (true, true)]);
    assert_eq!(ways(&narrow), [(false, false), (false, true)]);
    let both: Vec<u64> = rows(&[f32, u8]).into_iter().map(|row| row.2).collect();
    let sums = [(0, 0), (1, 0), (2, 1), (3, 1)].map(|(w, n)| wide[w].2 + narrow[n].2);
    assert_eq!(both, sums);
}

/// A slow engine gets a part of a long sample, spread over it, and its ratio is that of the whole.
#[test]
fn slow_engines_get_less() {
    let piece = |i: usize| Piece {
        dtype: Dtype::U8,
        row_len: 0,
        bytes: vec![i as u8; MIB as usize],
        base: None,
    };
    let pieces: Vec<Piece> = (0..70).map(piece).collect();
    let batches = batch::Batch::all(&pieces);
    let lens: Vec<u64> = batches.iter().map(|batch| batch.len() as u64 / MIB).collect();
    assert_eq!(lens, [64, 6]);
    let slow: Vec<u64> =
        batches.iter().map(|batch| batch.slow_sample().bytes.len() as u64 / MIB).collect();
    assert_eq!(slow, [8, 6]);
    let firsts: Vec<u8> =
        batches[0].slow_sample().bytes.chunks(MIB as usize).map(|piece| piece[0]).collect();
    assert_eq!(firsts, [4, 12, 20, 28, 36, 44, 52, 60]);
}

/// Values that are all the same have a large ratio, which is a number.
#[test]
fn constant_values() {
    let piece = |base: Option<Vec<u8>>| Piece {
        dtype: Dtype::Bf16,
        row_len: 64,
        bytes: vec![0; 100_000],
        base,
    };
    for row in rows(&[piece(None), piece(Some(vec![0; 100_000]))], &["ours"]) {
        assert!(row.ratio.is_finite() && row.bits_per_value.is_finite(), "{row:?}");
        assert!(row.engine == "memcpy" || row.ratio > 10.0, "{row:?}");
    }
}

/// Nothing to measure, names that are unknown, bases that do not fit and interrupts are errors.
#[test]
fn what_cannot_be_measured() {
    let refused = |pieces: &[Piece], names: &[&str], interrupt: &Interrupt| {
        measure(pieces, names, interrupt, &mut |_| ()).expect_err("refused")
    };
    let (idle, sent) = (Interrupt::default(), Interrupt::default());
    sent.send();
    let some = piece(Dtype::Bf16, 100, true);
    let empty = piece(Dtype::Bf16, 0, true);
    for pieces in [vec![], vec![empty]] {
        let error = refused(&pieces, &["ours"], &idle);
        assert!(error.to_string().contains("no bytes to measure"), "{error}");
    }
    let error = refused(from_ref(&some), &["rar"], &idle);
    assert!(error.to_string().starts_with("no engine `rar`"), "{error}");
    let short = Piece { base: Some(vec![1]), ..some.clone() };
    let error = refused(&[short], &["ours"], &idle);
    assert!(error.to_string().contains("different lengths"), "{error}");
    assert_eq!(refused(&[some], &["ours"], &sent).kind, ErrorKind::Interrupted);
}

/// A plan can be made of what was measured.
#[test]
fn a_plan_of_it() {
    let rows = rows(&[piece(Dtype::Bf16, 20_000, true)], crate::plan::ENGINES);
    let inputs = crate::plan::Inputs {
        state_bytes: 1 << 30,
        cores: 2,
        bandwidth: 1e9,
        copy_speed: copy_speed(),
        step_time: 1.0,
        interval: 10,
        keep_last: 3,
        keep_every: None,
        whole_every: 8,
    };
    let plan = crate::plan::Plan::new(inputs, &rows).expect("a plan");
    let count = if lmc_engines::HAS_PEERS { 12 } else { 7 };
    assert_eq!(plan.methods.len(), count);
    assert!(plan.methods.iter().all(|method| method.save > 0.0 && method.restore > 0.0));
}
