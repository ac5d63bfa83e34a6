//! The published algorithm: byte groups, each Huffman coded.

use super::coder::{self, PlaneStats};
use super::{ReadyRecipe, Target};
use crate::simd::Isa;
use crate::simd::words::{Words, extract8};
use lmc_format::{Recipe, WordMap};

/// The recipe for one block; None if it holds no value.
pub(crate) fn paper(isa: Isa, target: Target, block: &[u8]) -> Option<ReadyRecipe> {
    let words = Words { width_log2: target.layout.width_log2, map: WordMap::None };
    let width = 1 << words.width_log2;
    let values = &block[..block.len() / width * width];
    if values.is_empty() {
        return None;
    }
    let mut plane = vec![0; values.len() / width];
    let mut planes = Vec::new();
    for byte in (0..width).rev() {
        extract8(isa, words, values, 8 * byte as u32, 0xff, &mut plane);
        planes.push(coder::paper(&PlaneStats::of(&plane)));
    }
    let recipe = Recipe {
        width_log2: words.width_log2,
        map: WordMap::None,
        symbol_bits: 8,
        segment_log2: 16,
        bias: 0,
        flags: None,
        planes,
        columns: None,
    };
    Some(ReadyRecipe::new(recipe, None, 0))
}
