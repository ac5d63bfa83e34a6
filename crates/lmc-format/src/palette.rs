//! The recipe of a block that has few different words as values (`docs/format.md`, section 3.9).

use crate::coder::Coder;
use crate::error::{Error, Result};
use crate::limits::{PALETTE_WORDS_MIN, SEGMENT_LOG2_MAX, SEGMENT_LOG2_MIN};
use crate::reader::Reader;

/// How every segment of a block is coded when all values are in one short list.
///
/// Invariants: `1 <= width_log2 <= 3`; 2 to 256 words of that width, each above the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaletteRecipe {
    /// log2 of the value's width in bytes.
    pub width_log2: u8,
    /// log2 of the values in a segment.
    pub segment_log2: u8,
    /// The words that values can be.
    pub words: Vec<u64>,
    /// Coder of the positions of values in that list.
    pub coder: Coder,
}

/// Set in the layout byte of these recipes only.
pub(crate) const PALETTE: u8 = 0xf0;

impl PaletteRecipe {
    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        self.width() << self.segment_log2
    }

    /// Appends the recipe.
    pub fn write(&self, out: &mut Vec<u8>) {
        let last = u8::try_from(self.words.len().saturating_sub(1)).unwrap_or(0);
        out.extend_from_slice(&[PALETTE | self.width_log2, self.segment_log2, last]);
        for word in &self.words {
            out.extend(word.to_le_bytes().into_iter().take(self.width()));
        }
        self.coder.write(out);
    }

    /// Reads a recipe.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let [layout, segment_log2, last] = input.array("recipe")?;
        let width_log2 = layout & 3;
        if layout & !3 != PALETTE || width_log2 == 0 {
            return Err(Error::corrupt(format!("recipe layout {layout:#x} is not allowed")));
        }
        if !(SEGMENT_LOG2_MIN..=SEGMENT_LOG2_MAX).contains(&segment_log2) {
            return Err(Error::corrupt(format!("recipe has segments of 2^{segment_log2} values")));
        }
        let count = usize::from(last).saturating_add(1);
        if count < PALETTE_WORDS_MIN {
            let message =
                format!("palette of {count} words, at least {PALETTE_WORDS_MIN} expected");
            return Err(Error::corrupt(message));
        }
        let words = read_words(1 << width_log2, count, input)?;
        Ok(Self { width_log2, segment_log2, words, coder: Coder::read(input)? })
    }
}

/// Reads `count` words of `width` bytes, each above the one before.
fn read_words(width: usize, count: usize, input: &mut Reader) -> Result<Vec<u64>> {
    let bytes = input.take(count.saturating_mul(width), "palette")?;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &b| word << 8 | u64::from(b));
    let words: Vec<u64> = bytes.chunks_exact(width).map(word).collect();
    if !words.is_sorted_by(|a, b| a < b) {
        return Err(Error::corrupt("words of a palette are out of order"));
    }
    Ok(words)
}
