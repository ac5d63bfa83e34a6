//! Tensors of few different values: they become palettes where that is smaller, and whatever does
//! not fit one comes back all the same.

use crate::common::{LEVELS, check, encode, tensor};
use lmc_codec::{Decoder, Dtype, Isa, Level, RecipeShape, SharedRecipe, TensorSpec};
use lmc_format::{AnyRecipe, BlockKind, BlockPrefix, Reader};
use lmc_testkit::data::{Kind, Random};
use proptest::prelude::*;

const DTYPES: [Dtype; 8] = [
    Dtype::Bf16,
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
    Dtype::I16,
    Dtype::I32,
    Dtype::U64,
    Dtype::Complex64,
];

fn spec(dtype: Dtype) -> TensorSpec {
    TensorSpec { dtype, row_len: 48 }
}

/// How many words the palette of a block has, if it has one.
fn palette_len(block: &[u8], shared: &[u8]) -> Option<usize> {
    let mut input = Reader::new(block);
    let recipe = match BlockPrefix::read(&mut input).expect("a block").kind {
        BlockKind::Coded => AnyRecipe::read(&mut input),
        BlockKind::Shared => AnyRecipe::read(&mut Reader::new(shared)),
        _ => return None,
    };
    match recipe.expect("a recipe") {
        AnyRecipe::Palette(recipe) => Some(recipe.words.len()),
        _ => None,
    }
}

/// `n` values out of `words`, all of which occur.
fn values_of(words: &[u64], width: usize, n: usize, random: &mut Random) -> Vec<u8> {
    let mut value = |i: usize| if i < words.len() { i } else { random.below(words.len()) };
    (0..n).flat_map(|i| words[value(i)].to_le_bytes()[..width].to_vec()).collect()
}

/// As many words without a pattern.
fn words(width: usize, count: usize, random: &mut Random) -> Vec<u64> {
    let all = u64::MAX >> (64 - 8 * width);
    let mut words = Vec::new();
    while words.len() < count {
        words.push(random.next_u64() & all);
        words.sort_unstable();
        words.dedup();
    }
    words
}

/// Weights that were quantized with one scale take little more than the entropy of what they were
/// quantized to, 6.37 bits here, at every level of our own.
#[test]
fn quantized_weights_become_palettes() {
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let bytes = tensor(dtype, Kind::Quantized, 300_000, 6);
        for level in [Level::Fast, Level::Default, Level::Max] {
            let coded = encode(Isa::best(), &spec(dtype), level, &bytes, None);
            check(Isa::best(), &coded, "quantized weights");
            assert!(matches!(
                SharedRecipe::parse(&coded.shared).unwrap().recipe(),
                AnyRecipe::Palette(_)
            ));
            let blocks = coded.blocks.iter().map(|(block, _)| block.len());
            let bits = (blocks.sum::<usize>() + coded.shared.len()) as f64 * 8.0 / 300_000.0;
            // The fast level codes no places of values of eight bytes: they are an eighth already.
            let most = if (dtype, level) == (Dtype::F64, Level::Fast) { 8.05 } else { 6.55 };
            assert!(bits < most, "{dtype:?} {level:?} take {bits} bits");
        }
    }
}

/// As many words as a palette can have become one, and one more does not.
#[test]
fn a_palette_has_up_to_256_words() {
    let mut random = Random::new(3);
    for dtype in DTYPES {
        for (count, expected) in [(255, Some(255)), (256, Some(256)), (257, None)] {
            let width = dtype.width();
            let words = words(width, count, &mut random);
            let bytes = values_of(&words, width, 60_000, &mut random);
            let coded = encode(Isa::best(), &spec(dtype), Level::Default, &bytes, None);
            check(Isa::best(), &coded, "many words");
            let (block, _) = &coded.blocks[0];
            assert_eq!(palette_len(block, &coded.shared), expected, "{dtype:?} {count}");
        }
    }
}

/// A palette is planned from all values, not from a sample: a word that occurs once in a tensor of
/// several blocks is in it.
#[test]
fn rare_words_are_found() {
    let mut random = Random::new(4);
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let width = dtype.width();
        let words = words(width, 17, &mut random);
        let mut bytes = values_of(&words[1..], width, 400_000, &mut random);
        let at = 234_567 * width;
        bytes[at..at + width].copy_from_slice(&words[0].to_le_bytes()[..width]);
        for level in LEVELS {
            let coded = encode(Isa::best(), &spec(dtype), level, &bytes, None);
            check(Isa::best(), &coded, "a rare word");
            if level == Level::Paper {
                continue;
            }
            for (block, _) in &coded.blocks {
                assert_eq!(palette_len(block, &coded.shared), Some(17), "{dtype:?} {level:?}");
            }
        }
    }
}

/// A block with a value that the tensor's palette does not have is planned for itself.
#[test]
fn other_values_fall_back() {
    use lmc_codec::{Block, Encoder, Plan};
    let mut random = Random::new(5);
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let width = dtype.width();
        let words = words(width, 20, &mut random);
        let bytes = values_of(&words[1..], width, 300_000, &mut random);
        let plan = Plan::new(&spec(dtype), Level::Default, Block::alone(&bytes));
        let shared = SharedRecipe::parse(plan.shared_recipe()).expect("a recipe");
        assert!(matches!(shared.recipe(), AnyRecipe::Palette(_)));
        for others in [1, 5000] {
            let mut block = bytes[..20_000 * width].to_vec();
            for value in block.chunks_exact_mut(width).step_by(20_000 / others) {
                let word = if others == 1 { words[0] } else { random.next_u64() };
                value.copy_from_slice(&word.to_le_bytes()[..width]);
            }
            let mut coded = Vec::new();
            Encoder::new().encode_block(&plan, 0, Block::alone(&block), &mut coded);
            assert_eq!(palette_len(&coded, plan.shared_recipe()), (others == 1).then_some(20));
            let mut back = vec![0; block.len()];
            let done = Decoder::new().decode_block(&coded, Some(&shared), None, &mut back);
            done.expect("a valid block");
            assert!(back == block, "{dtype:?} {others}");
        }
    }
}

/// Ordinary weights get no palette, and neither do tensors so small that one would not pay.
#[test]
fn others_get_no_palette() {
    for dtype in [Dtype::Bf16, Dtype::F32, Dtype::F64, Dtype::Complex64] {
        for (kind, n) in [(Kind::Weights, 50_000), (Kind::Noise, 50_000), (Kind::Quantized, 30)] {
            let bytes = tensor(dtype, kind, n, 7);
            let coded = encode(Isa::best(), &spec(dtype), Level::Default, &bytes, None);
            let (block, _) = &coded.blocks[0];
            assert_eq!(palette_len(block, &coded.shared), None, "{dtype:?} {kind:?}");
        }
    }
}

/// What making a palette ready costs is counted.
#[test]
fn the_table_of_a_palette_counts() {
    let bytes = tensor(Dtype::F32, Kind::Quantized, 300_000, 6);
    let coded = encode(Isa::best(), &spec(Dtype::F32), Level::Default, &bytes, None);
    let shape = RecipeShape::parse(&coded.shared).expect("a recipe");
    assert!(shape.cost() >= 256 * 8, "{}", shape.cost());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any number of values out of any number of words come back, for any type, level and length,
    /// in whole and in part.
    #[test]
    fn few_words_come_back(
        dtype in 0..DTYPES.len(),
        level in 0..LEVELS.len(),
        count in 1..300_usize,
        n in 0..40_000_usize,
        tail in 0..8_usize,
        seed in any::<u32>(),
    ) {
        let (dtype, level) = (DTYPES[dtype], LEVELS[level]);
        let mut random = Random::new(seed.into());
        let width = dtype.width();
        let words = words(width, count, &mut random);
        let mut bytes = values_of(&words, width, n, &mut random);
        bytes.extend(random.bytes(tail % width));
        let coded = encode(Isa::best(), &spec(dtype), level, &bytes, None);
        check(Isa::best(), &coded, "few words");
        let shared = coded.shared_recipe();
        for (block, original) in &coded.blocks {
            let start = random.below(original.len() + 1);
            let end = start + random.below(original.len() - start + 1);
            let mut part = vec![0; end - start];
            let (shared, range) = (shared.as_ref(), start..end);
            let done = Decoder::new().decode_range(block, shared, None, range, &mut part);
            prop_assert!(done.is_ok() && part == original[start..end]);
        }
    }
}
