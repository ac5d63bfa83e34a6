//! Differences of words from those of a base, word by word (`docs/format.md`, section 3).

use lmc_format::{BaseUse, Recipe};

/// Replaces the contents of `out` with the differences of `values` from `base`, which has the same
/// length.
pub(crate) fn forward(recipe: &Recipe, values: &[u8], base: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(values);
    apply(recipe, base, out, false);
}

/// Undoes [`forward`] in place.
pub(crate) fn inverse(recipe: &Recipe, base: &[u8], values: &mut [u8]) {
    apply(recipe, base, values, true);
}

fn apply(recipe: &Recipe, base: &[u8], values: &mut [u8], back: bool) {
    match (recipe.base, recipe.width()) {
        (BaseUse::None, _) => {}
        (BaseUse::Xor, _) => xor(base, values),
        (BaseUse::Difference, 1) => difference1(base, values, back),
        (BaseUse::Difference, 2) => difference2(base, values, back),
        (BaseUse::Difference, 4) => difference4(base, values, back),
        (BaseUse::Difference, _) => difference8(base, values, back),
    }
}

fn xor(base: &[u8], values: &mut [u8]) {
    values.iter_mut().zip(base).for_each(|(value, base)| *value ^= base);
}

macro_rules! difference {
    ($name:ident, $word:ty, $len:literal) => {
        /// `values` minus `base`, or plus it on the way back.
        fn $name(base: &[u8], values: &mut [u8], back: bool) {
            let pairs = values.as_chunks_mut::<$len>().0.iter_mut().zip(base.as_chunks().0);
            for (value, base) in pairs {
                let (word, base) = (<$word>::from_le_bytes(*value), <$word>::from_le_bytes(*base));
                let sum = if back { word.wrapping_add(base) } else { word.wrapping_sub(base) };
                *value = sum.to_le_bytes();
            }
        }
    };
}

difference!(difference1, u8, 1);
difference!(difference2, u16, 2);
difference!(difference4, u32, 4);
difference!(difference8, u64, 8);
