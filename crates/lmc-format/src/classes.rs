//! The recipe of a block that is coded by the distance of each float from its base
//! (`docs/format.md`, section 3.6).

use crate::coder::Coder;
use crate::error::{Error, Result};
use crate::limits::{CONTEXTS_MAX, EXPONENT_BITS_MAX, SEGMENT_LOG2_MAX, SEGMENT_LOG2_MIN};
use crate::reader::Reader;

/// How every segment of a block is coded against a base.
///
/// Invariants: `width_log2 <= 3`; `raw_bytes < width`; every symbol fits a byte; 1 to 16 contexts;
/// one bound less than contexts, each below the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRecipe {
    /// log2 of the value's width in bytes.
    pub width_log2: u8,
    /// Whether the symbol holds the sign of the difference.
    pub has_sign: bool,
    /// Whether the symbol holds the bit below the leading one.
    pub has_top_bit: bool,
    /// Low bytes of the difference that are stored as they are.
    pub raw_bytes: u8,
    /// log2 of the values in a segment.
    pub segment_log2: u8,
    /// Number of bits below the sign of the base that choose the context.
    pub exponent_bits: u8,
    /// Subtracted from these bits; the result is clamped to a byte.
    pub exponent_first: u16,
    /// The context of a value is the number of bounds that are above that byte.
    pub bounds: Vec<u8>,
    /// The coder of the symbols of each context.
    pub contexts: Vec<Coder>,
}

/// Set in the layout byte of these recipes only.
pub(crate) const CLASSES: u8 = 0xc0;
const HAS_SIGN: u8 = 1 << 2;
const HAS_TOP_BIT: u8 = 1 << 3;

impl ClassRecipe {
    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        self.width() << self.segment_log2
    }

    /// Bits of the coded difference, which is also its largest class.
    pub fn class_max(&self) -> u8 {
        (8_u8 << self.width_log2).saturating_sub(self.raw_bytes.saturating_mul(8))
    }

    /// The number of symbols for values that keep the sign of their base; there are as many for
    /// values that change it.
    pub fn symbols(&self) -> u16 {
        let below = u16::from(self.has_sign).saturating_add(u16::from(self.has_top_bit));
        u16::from(self.class_max()).saturating_add(1) << below
    }

    /// Appends the recipe.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let layout = self.width_log2
            | flag(self.has_sign, HAS_SIGN)
            | flag(self.has_top_bit, HAS_TOP_BIT)
            | CLASSES;
        let count = u8::try_from(self.contexts.len()).unwrap_or(0);
        out.extend_from_slice(&[
            layout,
            self.raw_bytes,
            self.segment_log2,
            self.exponent_bits,
            count,
        ]);
        out.extend_from_slice(&self.exponent_first.to_le_bytes());
        out.extend_from_slice(&self.bounds);
        self.contexts.iter().for_each(|coder| coder.write(out));
    }

    /// Reads a recipe.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let [layout, raw_bytes, segment_log2, exponent_bits, count] = input.array("recipe")?;
        let known = 3 | HAS_SIGN | HAS_TOP_BIT | CLASSES;
        if layout & CLASSES != CLASSES || layout & !known != 0 {
            return Err(Error::corrupt(format!("recipe layout {layout:#x} is not allowed")));
        }
        let mut recipe = Self {
            width_log2: layout & 3,
            has_sign: layout & HAS_SIGN != 0,
            has_top_bit: layout & HAS_TOP_BIT != 0,
            raw_bytes,
            segment_log2,
            exponent_bits,
            exponent_first: input.u16("first exponent")?,
            bounds: Vec::new(),
            contexts: Vec::new(),
        };
        recipe.check(count)?;
        for _ in 1..count {
            let bound = input.u8("context bound")?;
            if recipe.bounds.last().is_some_and(|&last| bound >= last) {
                return Err(Error::corrupt(format!("context bound {bound} is out of order")));
            }
            recipe.bounds.push(bound);
        }
        for _ in 0..count {
            recipe.contexts.push(Coder::read(input)?);
        }
        Ok(recipe)
    }

    fn check(&self, contexts: u8) -> Result<()> {
        if usize::from(self.raw_bytes) >= self.width() {
            return Err(Error::corrupt(format!("{} raw bytes of a value", self.raw_bytes)));
        }
        if !(SEGMENT_LOG2_MIN..=SEGMENT_LOG2_MAX).contains(&self.segment_log2) {
            return Err(Error::corrupt(format!(
                "recipe has segments of 2^{} values",
                self.segment_log2
            )));
        }
        let bits_max = EXPONENT_BITS_MAX.min((8_u8 << self.width_log2).saturating_sub(1));
        if self.exponent_bits == 0 || self.exponent_bits > bits_max {
            return Err(Error::corrupt(format!("exponent of {} bits", self.exponent_bits)));
        }
        if contexts == 0 || contexts > CONTEXTS_MAX {
            return Err(Error::corrupt(format!("{contexts} contexts, 1 to 16 expected")));
        }
        if self.symbols() > 128 {
            return Err(Error::corrupt(format!(
                "twice {} symbols do not fit in a byte",
                self.symbols()
            )));
        }
        Ok(())
    }
}
