//! Blocks with chosen palettes, written the slow way from `docs/format.md`, sections 3.9 and 4.6.

use super::{Case, CoderKind, append_stream, coders};
use lmc_format::{BlockKind, BlockPrefix, PaletteRecipe};
use lmc_testkit::data::Random;

/// The block of values with these places in a palette, and a tail.
pub fn code(recipe: &PaletteRecipe, places: &[u8], tail: &[u8], shared: bool) -> Case {
    let width = recipe.width();
    let word = |&place: &u8| recipe.words[usize::from(place)].to_le_bytes()[..width].to_vec();
    let raw: Vec<u8> = places.iter().flat_map(word).chain(tail.iter().copied()).collect();
    let mut recipe_bytes = Vec::new();
    recipe.write(&mut recipe_bytes);
    let kind = if shared { BlockKind::Shared } else { BlockKind::Coded };
    let mut block = Vec::new();
    BlockPrefix { kind, raw_len: raw.len() }.write(&mut block);
    if !shared {
        block.append(&mut recipe_bytes);
    }
    block.extend_from_slice(tail);
    let (mut index, mut segments) = (Vec::new(), Vec::new());
    for places in places.chunks(1 << recipe.segment_log2) {
        let start = segments.len();
        append_stream(&recipe.coder, places, &mut segments);
        index.extend_from_slice(&((segments.len() - start) as u32).to_le_bytes()[..3]);
    }
    block.extend([index, segments].concat());
    Case { name: format!("{recipe:?}"), shared: recipe_bytes, base: None, block, raw }
}

/// Words of this width, each above the one before.
pub fn random_words(width_log2: u8, count: usize, random: &mut Random) -> Vec<u64> {
    let all = u64::MAX >> (64 - (8 << width_log2));
    let close = random.below(2) == 0;
    let mut words = Vec::new();
    while words.len() < count {
        words.push(random.next_u64() & if close { 0x3ff } else { all });
        words.sort_unstable();
        words.dedup();
    }
    words
}

/// A random palette for `n` values.
pub fn random_palette_case(n: usize, random: &mut Random) -> Case {
    let width_log2 = 1 + random.below(3) as u8;
    let count = [2, 3, 16, 100, 255, 256][random.below(6)];
    let words = random_words(width_log2, count, random);
    // Some palettes have words that no value has, and some values are all the same.
    let used = [count, count, 1 + random.below(count), 1][random.below(4)];
    let places: Vec<u8> = (0..n).map(|_| random.below(used) as u8).collect();
    let segment_log2 = [10, 10, 11, 18][random.below(4)];
    let parts: Vec<&[u8]> = places.chunks(1 << segment_log2).collect();
    let coder = CoderKind::any(random).fit(&parts, random);
    let tail_len = random.below(1 << width_log2);
    let tail = random.bytes(tail_len);
    let recipe = PaletteRecipe { width_log2, segment_log2, words, coder };
    let case = code(&recipe, &places, &tail, random.below(3) == 0);
    // A base that nothing asks for is ignored.
    let base = (random.below(4) == 0).then(|| random.bytes(case.raw.len()));
    Case { base, ..case }
}

/// What a palette uses.
pub fn features(recipe: &PaletteRecipe, raw_len: usize) -> Vec<String> {
    let width = recipe.width();
    let mut seen = vec!["palette".to_string(), format!("palette width {width}")];
    let mut note = |is: bool, name: &str| seen.extend(is.then(|| format!("palette {name}")));
    note(recipe.words.len() == 2, "least");
    note(recipe.words.len() == 256, "most");
    note(!raw_len.is_multiple_of(width), "tail");
    note(raw_len / width > 1 << recipe.segment_log2, "segments");
    seen.push(format!("palette places {}", recipe.coder.name()));
    coders::apart_features(&recipe.coder, 1, &mut seen);
    seen
}

/// The features of palettes that a set of cases must have.
pub fn all_features() -> Vec<String> {
    let mut all = vec!["palette".to_string()];
    all.extend(["least", "most", "tail", "segments"].map(|name| format!("palette {name}")));
    all.extend([2, 4, 8].map(|width| format!("palette width {width}")));
    all
}
