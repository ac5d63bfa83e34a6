//! Plans the published algorithm: byte groups, each with a Huffman code.

use super::coder::{self, PlaneStats};
use super::{Block, PlaneRecipeEncoder, Target};
use crate::simd::Isa;
use crate::simd::words::{Words, extract8};
use crate::transform::against;
use lmc_format::{BaseUse, Recipe, WordMap};

/// The recipe for one block, by XOR with the base if there is one; None if the block holds no
/// value.
pub(crate) fn paper(isa: Isa, target: Target, block: Block) -> Option<PlaneRecipeEncoder> {
    let words = Words { width_log2: target.layout.width_log2, map: WordMap::None };
    let width = 1 << words.width_log2;
    let mut values = block.bytes[..block.bytes.len() / width * width].to_vec();
    if values.is_empty() {
        return None;
    }
    let mut recipe = Recipe {
        width_log2: words.width_log2,
        base: if block.base.is_some() { BaseUse::Xor } else { BaseUse::None },
        map: WordMap::None,
        symbol_bits: 8,
        segment_log2: 16,
        bias: 0,
        flags: None,
        planes: Vec::new(),
        columns: None,
    };
    if let Some(base) = block.base {
        let whole = values.clone();
        against::forward(&recipe, &whole, &base[..whole.len()], &mut values);
    }
    let mut plane = vec![0; values.len() / width];
    for byte in (0..width).rev() {
        extract8(isa, words, &values, 8 * byte as u32, 0xff, &mut plane);
        recipe.planes.push(coder::paper(&PlaneStats::of(&plane)));
    }
    Some(PlaneRecipeEncoder::new(recipe, None, 0))
}
