//! Bytes that were changed after they were written: an error or other bytes, never a panic, and
//! the same by every instruction set.

use crate::common::recipes::bins::{BinShape, random_bin_case};
use crate::common::recipes::changes::{ChangeKinds, ChangeShape, random_change_case};
use crate::common::recipes::classes::ClassShape;
use crate::common::recipes::features::{all_features, count_features, features};
use crate::common::recipes::floats::values_near;
use crate::common::recipes::palettes::{self, random_palette_case};
use crate::common::recipes::{Case, CoderKind, Kinds, Offsets, Shape};
use lmc_codec::{Block, Decoder, Dtype, Encoder, Isa, Level, Plan, SharedRecipe, TensorSpec};
use lmc_format::{BaseUse, Bin, BinRules, Coder, PaletteRecipe, WordMap};
use lmc_testkit::data::{self, Kind, Random};
use std::collections::BTreeSet;

/// Decoders of every instruction set, and one that streams, kept for all blocks so that their
/// buffers are never clean.
struct Judges(Vec<Decoder>);

impl Judges {
    fn new() -> Self {
        let mut all: Vec<Decoder> = Isa::available().into_iter().map(Decoder::with_isa).collect();
        all.push(Decoder::new().streaming(true));
        Self(all)
    }

    /// What all decoders make of `block`, with the base of `case`, of which it gets as much as it
    /// claims to hold: its bytes, or `None` if it is refused.
    fn decode(&mut self, case: &Case, shared: &[u8], block: &[u8]) -> Option<Vec<u8>> {
        let shared = if shared.is_empty() { None } else { Some(SharedRecipe::parse(shared).ok()?) };
        // A block without a readable length must be refused into any buffer.
        let len = Decoder::raw_len(block).unwrap_or(64);
        let base = case.base.as_ref().map(|base| {
            let given = base.iter().copied().chain(std::iter::repeat(0x77));
            given.take(len).collect::<Vec<u8>>()
        });
        let mut answers = self.0.iter_mut().zip([0, 0x55, 0xff, 0xaa]).map(|(decoder, fill)| {
            let mut out = vec![fill; len];
            let base = base.as_deref();
            let done = decoder.decode_block(block, shared.as_ref(), base, &mut out);
            done.is_ok().then_some(out)
        });
        let first = answers.next().flatten();
        assert!(answers.all(|answer| answer == first), "{}: decoders do not agree", case.name);
        first
    }
}

/// A matrix's offsets with `cols` and `rows` that vary, or do not.
fn offsets(n: usize, vary: bool) -> Offsets {
    let byte = |i: usize| if vary { (i % 23) as u8 } else { 9 };
    let cols = (0..17).map(|i| byte(5 * i)).collect();
    Offsets { base: 3000, cols, first: 4, rows: (0..n).map(|i| byte(7 * i)).collect() }
}

/// Six blocks of each kind of coder: plain words, sparse words on a base, wide symbols with
/// offsets, contexts of classes, bins, and changes.
fn coder_cases(kind: CoderKind, random: &mut Random) -> Vec<Case> {
    let vary = kind != CoderKind::Constant;
    let values =
        |data: Kind, n| data::words(if vary { data } else { Kind::Constant }, 2, true, n, 5);
    let kinds = Kinds::all(kind);
    let rotate = Shape { map: WordMap::Rotate, ..Shape::plain(1, 8) };
    let base = BaseUse::Difference;
    let sparse = Shape { base, map: WordMap::Zigzag, sparse: true, ..Shape::plain(1, 5) };
    let old = values(Kind::Weights, 160);
    let changes = values(Kind::Sparse, 160);
    let new: Vec<u8> = (old.chunks(2).zip(changes.chunks(2)))
        .flat_map(|(a, b)| {
            let [a, b] = [a, b].map(|word| u16::from_le_bytes([word[0], word[1]]));
            a.wrapping_add(b).to_le_bytes()
        })
        .collect();
    let classes = ClassShape { raw_bytes: 0, ..class_shape(1) };
    let near = if vary { values_near(&old, 2, random) } else { old.clone() };
    let mut bins = bin_shape(1);
    if !vary {
        // Values that are those of the base have one symbol if no row changes it.
        bins.untidy = false;
        bins.rules.bins.iter_mut().for_each(|bin| bin.centre = 2);
        (bins.rules.bounds, bins.rules.rows) = (Vec::new(), Vec::new());
    }
    let mut changes =
        ChangeShape { bins: BinShape { all_differ: true, ..bins.clone() }, ..change_shape(1) };
    if !vary {
        // No value has a flag, so all that is coded is the same.
        (changes.changed, changes.uncommon) = (vec![20], Some(Vec::new()));
    }
    let change_kinds = ChangeKinds { flags: &[kind], symbols: kind };
    let wide = Shape { bias: 900, offsets: Some(offsets(9, vary)), ..Shape::plain(1, 13) };
    vec![
        rotate.code(&kinds, &values(Kind::Weights, 100), false, random),
        sparse.code_on(&kinds, &new, &old, false, random),
        wide.code(&kinds, &values(Kind::Weights, 120), true, random),
        classes.code(&[kind], &near, &old, false, random),
        bins.code(kind, &near, &old, false, random),
        changes.code(change_kinds, &near, &old, false, random),
    ]
}

/// Classes of words of `1 << width_log2` bytes in a few contexts.
fn class_shape(width_log2: u8) -> ClassShape {
    ClassShape {
        width_log2,
        has_sign: width_log2.is_multiple_of(2),
        has_top_bit: width_log2 == 1,
        raw_bytes: (1 << width_log2) / 2,
        segment_log2: 10,
        exponent_bits: 7,
        exponent_first: 10,
        bounds: vec![52, 50, 49],
        untidy: true,
    }
}

/// Bins of words of `1 << width_log2` bytes, of a few widths and with two rows.
fn bin_shape(width_log2: u8) -> BinShape {
    let bin = |shift, has_flip_bit, centre| Bin { shift, has_flip_bit, centre };
    let back: [u8; 16] = std::array::from_fn(|i| 15 - i as u8);
    let turned: [u8; 16] = std::array::from_fn(|i| (i as u8 + 3) % 16);
    let rules = BinRules {
        width_log2,
        is_integer: false,
        raw_bytes: (1 << width_log2) / 4,
        segment_log2: 10,
        exponent_bits: 7,
        exponent_first: 57,
        bins: vec![bin(7, true, 0), bin(0, false, -3), bin(3, false, 1), bin(5, true, 2)],
        bounds: vec![2],
        rows: vec![back, turned],
    };
    BinShape { rules, contexts: None, all_differ: false, untidy: true }
}

/// Changes of words of `1 << width_log2` bytes, in a few contexts.
fn change_shape(width_log2: u8) -> ChangeShape {
    ChangeShape {
        bins: BinShape { all_differ: true, ..bin_shape(width_log2) },
        has_lengths: width_log2.is_multiple_of(2),
        changed: vec![1, 2, 3, 4, 5],
        uncommon: Some(vec![2, 4]),
    }
}

/// Shapes that the coders alone do not lead to.
fn shape_cases(random: &mut Random) -> Vec<Case> {
    let chain =
        Kinds { planes: vec![CoderKind::Chain, CoderKind::Raw], ..Kinds::all(CoderKind::Raw) };
    let mut cases = Vec::new();
    for width_log2 in 0..4 {
        let mut raw = data::words(Kind::Weights, 1 << width_log2, true, 70, 6);
        raw.extend(random.bytes((1 << width_log2) - 1));
        for symbol_bits in [1, 8] {
            let shape = Shape { untidy: true, ..Shape::plain(width_log2, symbol_bits) };
            cases.push(shape.code(&chain, &raw, false, random));
        }
    }
    let wide = Shape { bias: 0xfff0, untidy: true, ..Shape::plain(3, 16) };
    let doubles = data::words(Kind::Extremes, 8, true, 40, 7);
    cases.push(wide.code(&Kinds::all(CoderKind::Runs), &doubles, false, random));
    let long = data::words(Kind::Stretches, 1, false, 2500, 8);
    let segments = Shape { offsets: Some(offsets(2600, false)), ..Shape::plain(0, 8) };
    cases.push(segments.code(&Kinds::all(CoderKind::Runs), &long, true, random));
    cases.push(Shape::plain(1, 8).code(&chain, &[], true, random));
    for width_log2 in 0..4 {
        let base = data::words(Kind::Weights, 1 << width_log2, true, 70, 9);
        let xor = Shape { base: BaseUse::Xor, ..Shape::plain(width_log2, 8) };
        let raw = values_near(&base, 1 << width_log2, random);
        cases.push(xor.code_on(&Kinds::all(CoderKind::Raw), &raw, &base, false, random));
        let shape = class_shape(width_log2);
        cases.push(shape.code(&[CoderKind::Raw, CoderKind::Apart], &raw, &base, true, random));
        cases.push(shape.code_wild(&[CoderKind::Chain, CoderKind::Rans], &base, false, random));
    }
    for width_log2 in 0..4 {
        let width = 1 << width_log2;
        let base = data::words(Kind::Weights, width, true, 70, 10);
        // Two groups of the widest vectors, and some more.
        let long = data::words(Kind::Weights, width, true, 150, 11);
        let shape = bin_shape(width_log2);
        let raw = values_near(&base, width, random);
        cases.push(shape.code(CoderKind::Chain, &raw, &base, true, random));
        let rules = BinRules { raw_bytes: 0, ..shape.rules.clone() };
        let plain = BinShape { rules, ..shape };
        cases.push(plain.code_wild(CoderKind::Raw, &long, false, random));
        let by_context = BinShape { contexts: Some(vec![1, 3]), ..plain };
        cases.push(by_context.code_wild(CoderKind::Raw, &long, false, random));
    }
    for width_log2 in 0..4 {
        let width = 1 << width_log2;
        // Two groups of the widest vectors, and some more.
        let base = data::words(Kind::Weights, width, true, 150, 12);
        let raw = values_near(&base, width, random);
        let shape = change_shape(width_log2);
        let kinds = ChangeKinds {
            flags: &[CoderKind::Raw, CoderKind::Gaps, CoderKind::Runs],
            symbols: CoderKind::Chain,
        };
        cases.push(shape.code(kinds, &raw, &base, true, random));
        let mut plain = ChangeShape { uncommon: None, has_lengths: true, ..shape };
        plain.bins.rules.raw_bytes = 0;
        let kinds = ChangeKinds { flags: &[CoderKind::Raw], symbols: CoderKind::Raw };
        cases.push(plain.code_wild(kinds, &base, false, random));
    }
    cases.extend(new_cases(random, |random| random_bin_case(20, random)));
    cases.extend(new_cases(random, |random| random_change_case(20, random)));
    cases.extend(new_cases(random, |random| random_palette_case(20, random)));
    let (words, coder) = (vec![1, 2, 9], Coder::Runs);
    let palette = PaletteRecipe { width_log2: 1, segment_log2: 10, words, coder };
    cases.push(palettes::code(&palette, &[2; 1030], &[], true));
    cases.extend(apart_cases(random));
    cases.push(Case {
        name: "same".to_string(),
        shared: Vec::new(),
        base: Some(b"old".to_vec()),
        block: vec![4, 3],
        raw: b"old".to_vec(),
    });
    cases
}

/// Coders of the kind apart with everything that can be nested in them.
fn apart_cases(random: &mut Random) -> Vec<Case> {
    let shape = ClassShape { bounds: Vec::new(), ..class_shape(0) };
    new_cases(random, |random| {
        let base = data::words(Kind::Noise, 1, true, 9, random.next_u64() >> 1);
        let raw = values_near(&base, 1, random);
        shape.code(&[CoderKind::Apart], &raw, &base, false, random)
    })
}

/// Of many random cases those that have something that no earlier one has.
fn new_cases(random: &mut Random, make: impl Fn(&mut Random) -> Case) -> Vec<Case> {
    let (mut cases, mut seen) = (Vec::new(), BTreeSet::new());
    for _ in 0..300 {
        let case = make(random);
        let before = seen.len();
        seen.extend(features(&case));
        if seen.len() > before {
            cases.push(case);
        }
    }
    cases
}

/// Blocks as the encoder itself writes them, small enough for every bit to be turned.
fn planned_cases(random: &mut Random) -> Vec<Case> {
    let mut cases = Vec::new();
    for (level, n) in [(Level::Fast, 400), (Level::Default, 400), (Level::Paper, 900)] {
        for kind in [Kind::Weights, Kind::Constant, Kind::Noise] {
            let n = if kind == Kind::Noise { 30 } else { n };
            let raw = data::words(kind, 2, true, n, random.next_u64() >> 1);
            let spec = TensorSpec { dtype: Dtype::Bf16, row_len: 20 };
            let mut block = Vec::new();
            let plan = Plan::new(&spec, level, Block::alone(&raw));
            Encoder::new().encode_block(&plan, 0, Block::alone(&raw), &mut block);
            let name = format!("{kind:?} at {level:?}");
            cases.push(Case { name, shared: Vec::new(), base: None, block, raw });
        }
    }
    cases
}

/// Text in blocks of Zstandard, alone and on a base.
fn text_cases() -> Vec<Case> {
    let text = data::log(300, 8);
    let case = |base: Option<Vec<u8>>| {
        let raw = text[..290].to_vec();
        let mut block = Vec::new();
        let spec = TensorSpec { dtype: Dtype::Bytes, row_len: 0 };
        let own = Block { bytes: &raw, base: base.as_deref() };
        Encoder::new().encode_block(&Plan::new(&spec, Level::Fast, own), 0, own, &mut block);
        Case { name: "text".to_string(), shared: Vec::new(), base, block, raw }
    };
    vec![case(None), case(Some(text[5..295].to_vec()))]
}

fn cases() -> Vec<Case> {
    let mut random = Random::new(1);
    let mut cases: Vec<Case> =
        CoderKind::ALL.into_iter().flat_map(|kind| coder_cases(kind, &mut random)).collect();
    cases.extend(shape_cases(&mut random));
    cases.extend(planned_cases(&mut random));
    cases.extend(text_cases());
    cases
}

/// Calls `check` with every case and all decoders.
fn for_each_case(mut check: impl FnMut(&Case, &mut Judges)) {
    let mut judges = Judges::new();
    for case in cases() {
        check(&case, &mut judges);
    }
}

/// The cases of this file decode to their bytes, and use every coder in every place and every
/// feature of a recipe: read from the blocks themselves, so that lost coverage fails here.
#[test]
fn cases_are_valid_and_cover_the_format() {
    for_each_case(|case, judges| {
        let back = judges.decode(case, &case.shared, &case.block);
        assert!(back.as_ref() == Some(&case.raw), "{}: other bytes came back", case.name);
    });
    let counts = count_features(&cases());
    let missing: Vec<String> =
        all_features().into_iter().filter(|feature| !counts.contains_key(feature)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}

/// Every proper prefix of a block or a shared recipe is refused.
#[test]
fn truncations_are_errors() {
    for_each_case(|case, judges| {
        for cut in 0..case.block.len() {
            let answer = judges.decode(case, &case.shared, &case.block[..cut]);
            assert!(answer.is_none(), "{}: {cut} bytes of the block are taken", case.name);
        }
        for cut in 0..case.shared.len() {
            let parsed = SharedRecipe::parse(&case.shared[..cut]);
            assert!(parsed.is_err(), "{}: {cut} bytes of the recipe are taken", case.name);
        }
    });
}

/// One to four bytes more, of any value, after a block or a shared recipe are refused.
#[test]
fn appended_bytes_are_errors() {
    for_each_case(|case, judges| {
        for junk in [[0; 4], [1, 0, 0, 0], [0xff; 4], [6, 7, 0x80, 0]] {
            for len in 1..=4 {
                let block = [&case.block, &junk[..len]].concat();
                let answer = judges.decode(case, &case.shared, &block);
                assert!(answer.is_none(), "{}: {len} bytes more are taken", case.name);
                let shared = [&case.shared, &junk[..len]].concat();
                let parsed = SharedRecipe::parse(&shared);
                assert!(case.shared.is_empty() || parsed.is_err(), "{}: recipe", case.name);
            }
        }
    });
}

/// Calls `check` with every copy of `bytes` that has one bit turned, or one byte at 00 or FF.
fn for_each_change(bytes: &[u8], mut check: impl FnMut(&[u8])) {
    let mut changed = bytes.to_vec();
    for at in 0..bytes.len() {
        let turned = (0..8).map(|bit| bytes[at] ^ 1 << bit);
        for value in turned.chain([0, 0xff]).filter(|&value| value != bytes[at]) {
            changed[at] = value;
            check(&changed);
        }
        changed[at] = bytes[at];
    }
}

/// Every single-bit flip, and each byte set to 00 and FF, in a block: no panic, and one answer.
#[test]
fn changed_blocks_are_judged_alike() {
    for_each_case(|case, judges| {
        for_each_change(&case.block, |block| {
            judges.decode(case, &case.shared, block);
        });
    });
}

/// The same changes in a shared recipe.
#[test]
fn changed_recipes_are_judged_alike() {
    for_each_case(|case, judges| {
        for_each_change(&case.shared, |shared| {
            judges.decode(case, shared, &case.block);
        });
    });
}

/// Blocks of random bytes behind a valid prefix and recipe: no panic, and one answer.
#[test]
fn random_bodies_are_judged_alike() {
    let mut random = Random::new(2);
    for_each_case(|case, judges| {
        for _ in 0..200 {
            let kept = random.below(case.block.len() + 1);
            let len = random.below(2 * case.block.len() + 1);
            let block = [&case.block[..kept], &random.bytes(len)].concat();
            judges.decode(case, &case.shared, &block);
        }
    });
}

/// Two blocks joined at any place: lengths and tables that are right, only not for each other.
#[test]
fn spliced_blocks_are_judged_alike() {
    let mut random = Random::new(3);
    let others = cases();
    for_each_case(|case, judges| {
        for _ in 0..400 {
            let other = &others[random.below(others.len())];
            let kept = random.below(case.block.len() + 1);
            let from = random.below(other.block.len() + 1);
            let block = [&case.block[..kept], &other.block[from..]].concat();
            judges.decode(case, &case.shared, &block);
            judges.decode(case, &other.shared, &case.block);
        }
    });
}
