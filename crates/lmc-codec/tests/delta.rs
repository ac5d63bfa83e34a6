//! Blocks on a base: what is decoded is what was encoded, on every instruction set, and a base
//! never costs.

use crate::common::recipes::Case;
use crate::common::recipes::features::features;
use crate::common::{LEVELS, encode, tensor};
use lmc_codec::{
    BasePart, Block, Decoder, Dtype, Encoder, Isa, Level, Plan, SharedRecipe, TensorSpec,
};
use lmc_testkit::data::{Kind, Random};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// How a tensor came from its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    One,
    Few,
    /// Many words, each in its low bits.
    Drift,
    /// A third of the words, by one or two units in the last place.
    Step,
    Signs,
    All,
    Rows,
}

const CHANGES: [Change; 8] = [
    Change::None,
    Change::One,
    Change::Few,
    Change::Drift,
    Change::Step,
    Change::Signs,
    Change::All,
    Change::Rows,
];

/// What becomes of `base`, words of `width` bytes.
fn changed(base: &[u8], width: usize, change: Change, random: &mut Random) -> Vec<u8> {
    let mut bytes = base.to_vec();
    let n = base.len() / width;
    let mut edit = |i: usize, edit: &dyn Fn(u64) -> u64| {
        let mut word = [0; 8];
        word[..width].copy_from_slice(&bytes[i * width..][..width]);
        let word = edit(u64::from_le_bytes(word)).to_le_bytes();
        bytes[i * width..][..width].copy_from_slice(&word[..width]);
    };
    let top = 1 << (8 * width - 1);
    for i in 0..n {
        let noise = random.next_u64();
        let shift = 8 * width as u64 - 1 - noise % (4 * width as u64) - 3 * width as u64;
        match change {
            Change::None => {}
            Change::One if i == n / 2 => edit(i, &|word| word ^ 1),
            Change::Few if noise.is_multiple_of(100) => {
                edit(i, &|word| word.wrapping_add(noise >> 60))
            }
            Change::Drift => edit(i, &|word| word.wrapping_add(noise >> 8 & !(u64::MAX << shift))),
            Change::Step if noise.is_multiple_of(3) => {
                edit(i, &|word| word.wrapping_add(noise >> 62).wrapping_sub(1));
            }
            Change::Signs if noise.is_multiple_of(5) => edit(i, &|word| word ^ top ^ (noise >> 61)),
            Change::All => edit(i, &|_| noise),
            _ => {}
        }
    }
    if change == Change::Rows {
        bytes.rotate_left(n / 3 * width);
    }
    bytes
}

/// A tensor coded against a base: the shared recipe and the blocks.
fn encode_against(
    isa: Isa,
    spec: &TensorSpec,
    level: Level,
    bytes: &[u8],
    base: &[u8],
) -> (Vec<u8>, usize, Vec<Vec<u8>>) {
    let plan = Plan::with_isa(isa, spec, level, Block::against(bytes, base));
    let mut encoder = Encoder::with_isa(isa);
    let len = plan.block_len();
    let mut blocks = Vec::new();
    for (i, (bytes, base)) in bytes.chunks(len).zip(base.chunks(len)).enumerate() {
        let mut block = Vec::new();
        let first_value = (i * len / spec.dtype.width()) as u64;
        encoder.encode_block(&plan, first_value, Block::against(bytes, base), &mut block);
        blocks.push(block);
    }
    (plan.shared_recipe().to_vec(), len, blocks)
}

/// Encodes and decodes on every set: all agree, and every part comes back. Returns the coded size.
fn check(spec: &TensorSpec, level: Level, bytes: &[u8], base: &[u8], what: &str) -> usize {
    let (shared, len, blocks) = encode_against(Isa::PORTABLE, spec, level, bytes, base);
    for isa in Isa::available() {
        let own = encode_against(isa, spec, level, bytes, base);
        assert!(own == (shared.clone(), len, blocks.clone()), "{what}: {isa:?} codes otherwise");
        let recipe =
            (!shared.is_empty()).then(|| SharedRecipe::parse(&shared).expect("own recipe"));
        let mut decoder = Decoder::with_isa(isa);
        for ((block, bytes), base) in blocks.iter().zip(bytes.chunks(len)).zip(base.chunks(len)) {
            let mut back = vec![0xff; bytes.len()];
            let done = decoder.decode_block(block, recipe.as_ref(), Some(base), &mut back);
            assert!(done.is_ok() && back == bytes, "{what}: {isa:?} decodes otherwise: {done:?}");
            let range = bytes.len() / 3..bytes.len() / 3 * 2 + 1;
            let part = &mut back[range.clone()];
            part.fill(0);
            // No more of the base than it is said to need.
            let need =
                Decoder::need(block, recipe.as_ref().map(SharedRecipe::shape).as_ref(), &range)
                    .expect("own block");
            let based =
                need.base.map(|needed| BasePart { start: needed.start, bytes: &base[needed] });
            let done = decoder.decode_range(block, recipe.as_ref(), based, range.clone(), part);
            assert!(done.is_ok() && *part == bytes[range], "{what}: a part is another: {done:?}");
        }
    }
    shared.len() + blocks.iter().map(Vec::len).sum::<usize>()
}

/// All types, levels, kinds of data and kinds of change.
#[test]
fn every_type_level_and_change() {
    let mut random = Random::new(11);
    for dtype in Dtype::ALL {
        for kind in [Kind::Weights, Kind::Sparse, Kind::Extremes] {
            for n in [1, 64, 65, 3000] {
                let base = tensor(dtype, kind, n, n as u64);
                for change in CHANGES {
                    let bytes = changed(&base, dtype.width(), change, &mut random);
                    let spec = TensorSpec { dtype, row_len: 48 };
                    for level in LEVELS {
                        let what = format!("{dtype:?} {kind:?} {change:?} {level:?} {n}");
                        check(&spec, level, &bytes, &base, &what);
                    }
                }
            }
        }
    }
}

/// Tensors of several blocks, with bytes left over behind the last value.
#[test]
fn tensors_of_several_blocks() {
    let mut random = Random::new(12);
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::F16, Dtype::F8E4M3, Dtype::I32] {
        let mut base = tensor(dtype, Kind::Weights, 300_001, 7);
        for change in CHANGES {
            let mut bytes = changed(&base, dtype.width(), change, &mut random);
            if dtype.width() > 1 {
                base.push(1);
                bytes.push(2);
            }
            let spec = TensorSpec { dtype, row_len: 48 };
            for level in LEVELS {
                check(&spec, level, &bytes, &base, &format!("{dtype:?} {change:?} {level:?}"));
            }
            base.truncate(base.len() / dtype.width() * dtype.width());
        }
    }
}

/// Few values that differ are taken out of a segment, many are not: every share of them, alone and
/// beside others in one tensor, whose recipe was chosen for neither.
#[test]
fn every_share_of_values_that_differ() {
    let mut random = Random::new(23);
    let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 512 };
    let n = 1 << 17;
    let base = tensor(Dtype::Bf16, Kind::Weights, n, 29);
    let mut mixed = (Vec::new(), Vec::new());
    for one_in in [1, 2, 5, 7, 8, 9, 12, 30, 100, 1000, 30_000] {
        let mut bytes = base.clone();
        for value in bytes.as_chunks_mut::<2>().0 {
            if random.below(one_in) == 0 {
                let word = u16::from_le_bytes(*value).wrapping_add(1 + random.below(40) as u16);
                *value = word.to_le_bytes();
            }
        }
        // Whole groups of values, and some more.
        for len in [bytes.len(), bytes.len() - 2, 130] {
            let what = format!("one in {one_in}, {len} bytes");
            check(&spec, Level::Default, &bytes[..len], &base[..len], &what);
        }
        check(&spec, Level::Max, &bytes, &base, "max");
        mixed.0.extend(bytes);
        mixed.1.extend_from_slice(&base);
    }
    for level in LEVELS {
        check(&spec, level, &mixed.0, &mixed.1, "all of them");
    }
}

/// Floats that have all moved a little are coded by bins, also beside a few that are far from their
/// base: the same by every instruction set, in whole blocks and in parts of groups of values.
#[test]
fn dense_changes_are_coded_by_bins() {
    let mut random = Random::new(31);
    let mut seen = BTreeSet::new();
    for (dtype, reach) in [
        (Dtype::Bf16, 6),
        (Dtype::F16, 40),
        (Dtype::F32, 300_000),
        (Dtype::F64, 1 << 40),
        (Dtype::F8E4M3, 2),
        (Dtype::F8E5M2, 2),
    ] {
        let width = dtype.width();
        let base = tensor(dtype, Kind::Weights, 70_000, 37);
        for far in [usize::MAX, 700] {
            let bytes = moved(&base, width, reach, far, &mut random);
            let spec = TensorSpec { dtype, row_len: 100 };
            for level in LEVELS {
                let what = format!("{dtype:?} {level:?}, one in {far} far away");
                for n in [70_000, 69_999, 16_384 + 63, 129, 64] {
                    check(&spec, level, &bytes[..n * width], &base[..n * width], &what);
                }
                if matches!(level, Level::Fast | Level::Default) {
                    let used = features_against(&spec, level, &bytes, &base);
                    assert!(used.contains("bins"), "{what}: {used:?}");
                    seen.extend(used);
                }
            }
        }
    }
    for feature in ["raw bytes", "several", "exceptions", "bounds", "width 1", "width 2", "width 4"]
    {
        assert!(seen.contains(&format!("bins {feature}")), "no block has {feature}: {seen:?}");
    }
}

/// Values of which few have moved a little are coded by changes, also beside some that are far from
/// their base: the same by every instruction set, in whole blocks and in parts of groups of values.
#[test]
fn sparse_changes_are_coded_by_changes() {
    let mut random = Random::new(41);
    let mut seen = BTreeSet::new();
    for (dtype, reach) in [
        (Dtype::Bf16, 6),
        (Dtype::F16, 40),
        (Dtype::F32, 300_000),
        (Dtype::F64, 1 << 40),
        (Dtype::F8E4M3, 2),
        (Dtype::F8E5M2, 2),
        (Dtype::I32, 20),
    ] {
        let width = dtype.width();
        let base = tensor(dtype, Kind::Weights, 70_000, 43);
        let size = |value: &[u8]| value[width - 1] & 0x7f;
        let mut sizes: Vec<u8> = base.chunks(width).map(size).collect();
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        for one_in in [2, 5, 20] {
            let mut bytes = moved(&base, width, reach, 700, &mut random);
            for (value, base) in bytes.chunks_mut(width).zip(base.chunks(width)) {
                // A step is more often too small for a large value.
                let one_in = if size(base) < median { one_in } else { 6 * one_in };
                if random.below(one_in) > 0 {
                    value.copy_from_slice(base);
                }
            }
            let spec = TensorSpec { dtype, row_len: 100 };
            for level in LEVELS {
                let what = format!("{dtype:?} {level:?}, one in {one_in}");
                for n in [70_000, 69_999, 16_384 + 63, 129, 64] {
                    check(&spec, level, &bytes[..n * width], &base[..n * width], &what);
                }
                if level != Level::Paper {
                    let used = features_against(&spec, level, &bytes, &base);
                    // Planes of the difference do as well for doubles of which few differ.
                    let is_sure = dtype != Dtype::F64;
                    assert!(!is_sure || used.contains("changes"), "{what}: {used:?}");
                    let has_one = used.contains("changes one context");
                    seen.extend((!has_one).then(|| "changes contexts".to_string()));
                    seen.extend(used);
                }
            }
        }
    }
    for feature in [
        "contexts",
        "exceptions",
        "integers",
        "lengths",
        "no lengths",
        "raw bytes",
        "without zero",
        "width 1",
        "width 2",
        "width 4",
        "width 8",
    ] {
        assert!(seen.contains(&format!("changes {feature}")), "no block has {feature}: {seen:?}");
    }
}

/// Floats up to `reach` units in the last place away from those of `base`, each by another number,
/// and one in `far` anywhere.
fn moved(base: &[u8], width: usize, reach: u64, far: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = base.to_vec();
    for value in bytes.chunks_exact_mut(width) {
        let mut word = [0; 8];
        word[..width].copy_from_slice(value);
        let (word, step) = (u64::from_le_bytes(word), 1 + random.next_u64() % reach);
        let moved = match random.below(far) {
            0 => random.next_u64(),
            _ if random.below(2) == 0 => word.wrapping_sub(step),
            _ => word.wrapping_add(step),
        };
        value.copy_from_slice(&moved.to_le_bytes()[..width]);
    }
    bytes
}

/// What the blocks of a tensor on a base use.
fn features_against(
    spec: &TensorSpec,
    level: Level,
    bytes: &[u8],
    base: &[u8],
) -> BTreeSet<String> {
    let (shared, len, blocks) = encode_against(Isa::best(), spec, level, bytes, base);
    let cases = blocks.into_iter().zip(bytes.chunks(len)).map(|(block, raw)| Case {
        name: String::new(),
        shared: shared.clone(),
        base: None,
        block,
        raw: raw.to_vec(),
    });
    cases.flat_map(|case| features(&case)).collect()
}

/// Whatever the base is, a tensor on it takes no more than without it, but for a thousandth.
#[test]
fn a_bad_base_never_costs() {
    let mut random = Random::new(13);
    let n = 300_000;
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F16, Dtype::I32, Dtype::U8] {
        let own = tensor(dtype, Kind::Weights, n, 1);
        let width = dtype.width();
        let bases = [
            ("unrelated", tensor(dtype, Kind::Weights, n, 2)),
            ("rows moved", changed(&own, width, Change::Rows, &mut random)),
            ("zeros", vec![0; own.len()]),
            ("ones", vec![0xff; own.len()]),
            ("noise", random.bytes(own.len())),
            ("extremes", tensor(dtype, Kind::Extremes, n, 3)),
            ("one value", changed(&own, width, Change::One, &mut random)),
            ("signs", changed(&own, width, Change::Signs, &mut random)),
        ];
        for level in [Level::Fast, Level::Default, Level::Max] {
            let spec = TensorSpec { dtype, row_len: 100 };
            let alone = encode(Isa::best(), &spec, level, &own, None);
            let alone: usize =
                alone.shared.len() + alone.blocks.iter().map(|(b, _)| b.len()).sum::<usize>();
            for (name, base) in &bases {
                let (shared, _, blocks) = encode_against(Isa::best(), &spec, level, &own, base);
                let len = shared.len() + blocks.iter().map(Vec::len).sum::<usize>();
                assert!(
                    len <= alone + alone / 1000,
                    "{dtype:?} {level:?} on {name}: {len} bytes, {alone} alone"
                );
            }
        }
    }
}

/// A base that is needed and missing, or of another length, is an error.
#[test]
fn the_base_must_be_there() {
    let base = tensor(Dtype::Bf16, Kind::Weights, 5000, 1);
    let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 0 };
    let mut random = Random::new(1);
    for change in [Change::None, Change::Few] {
        let bytes = changed(&base, 2, change, &mut random);
        let (_, _, blocks) = encode_against(Isa::best(), &spec, Level::Default, &bytes, &base);
        let mut out = vec![0; bytes.len()];
        let mut decoder = Decoder::new();
        assert!(decoder.decode_block(&blocks[0], None, None, &mut out).is_err());
        let short = &base[..base.len() - 2];
        assert!(decoder.decode_block(&blocks[0], None, Some(short), &mut out).is_err());
        assert!(decoder.decode_block(&blocks[0], None, Some(&base), &mut out).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Any bytes on any bytes come back.
    #[test]
    fn random_pairs(
        dtype in 0..Dtype::ALL.len(),
        level in 0..4_usize,
        change in 0..CHANGES.len(),
        n in 0..700_usize,
        seed: u64,
    ) {
        let mut random = Random::new(seed);
        let dtype = Dtype::ALL[dtype];
        let kind = Kind::ALL[random.below(Kind::ALL.len())];
        let base = tensor(dtype, kind, n, seed);
        let bytes = changed(&base, dtype.width(), CHANGES[change], &mut random);
        let spec = TensorSpec { dtype, row_len: 16 };
        check(&spec, LEVELS[level], &bytes, &base, &format!("{dtype:?} {kind:?}"));
    }
}
