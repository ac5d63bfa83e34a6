//! The recipe of a block in which few floats differ from those of a base (`docs/format.md`, section
//! 3.8).

use crate::bins::{BinRules, INTEGER};
use crate::coder::Coder;
use crate::error::{Error, Result};
use crate::limits::FLAG_CONTEXTS_MAX;
use crate::reader::Reader;

/// How every segment of a block is coded against a base, where most values are equal to their base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRecipe {
    /// How the values that differ become symbols and payloads.
    pub rules: BinRules,
    /// Coder of the symbols that are not 0, or of all of them.
    pub coder: Coder,
    /// Whether each stream of flags is preceded by its length.
    pub has_lengths: bool,
    /// The flags of values that differ from their base.
    pub changed: FlagContexts,
    /// The flags of symbols that are not 0; none if all symbols go to one coder.
    pub uncommon: Option<FlagContexts>,
}

/// Flags that are grouped by the exponent of the base.
///
/// Invariants: 1 to 8 coders; one bound less, each above the one before and none of them 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagContexts {
    /// Context `i + 1` is for exponents from this one on.
    pub bounds: Vec<u8>,
    /// The coder of each context.
    pub coders: Vec<Coder>,
}

/// Set in the layout byte of these recipes only.
pub(crate) const CHANGES: u8 = 0xe0;
const LENGTHS: u8 = 1 << 2;

impl ChangeRecipe {
    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        self.rules.width()
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        self.rules.segment_len()
    }

    /// Appends the recipe.
    pub fn write(&self, out: &mut Vec<u8>) {
        let lengths = if self.has_lengths { LENGTHS } else { 0 };
        self.rules.write(CHANGES | lengths, out);
        self.coder.write(out);
        self.changed.write(out);
        match &self.uncommon {
            Some(contexts) => contexts.write(out),
            None => out.push(0),
        }
    }

    /// Reads a recipe.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let (layout, rules) = BinRules::read(input, |layout| {
            layout & CHANGES == CHANGES && layout & !(CHANGES | INTEGER | LENGTHS | 3) == 0
        })?;
        let coder = Coder::read(input)?;
        let changed = FlagContexts::read(input)?;
        let changed = changed.ok_or_else(|| Error::corrupt("no contexts of flags"))?;
        let uncommon = FlagContexts::read(input)?;
        Ok(Self { rules, coder, has_lengths: layout & LENGTHS != 0, changed, uncommon })
    }
}

impl FlagContexts {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.coders.len()).unwrap_or(0));
        out.extend_from_slice(&self.bounds);
        self.coders.iter().for_each(|coder| coder.write(out));
    }

    /// Reads them; None if there are no coders.
    fn read(input: &mut Reader) -> Result<Option<Self>> {
        let count = input.u8("number of contexts")?;
        if count > FLAG_CONTEXTS_MAX {
            let message =
                format!("{count} contexts of flags, at most {FLAG_CONTEXTS_MAX} expected");
            return Err(Error::corrupt(message));
        }
        if count == 0 {
            return Ok(None);
        }
        let bounds = input.take(usize::from(count).saturating_sub(1), "bounds")?.to_vec();
        if bounds.first() == Some(&0) || !bounds.is_sorted_by(|a, b| a < b) {
            return Err(Error::corrupt("bounds of contexts of flags are out of order"));
        }
        let coders = (0..count).map(|_| Coder::read(input)).collect::<Result<_>>()?;
        Ok(Some(Self { bounds, coders }))
    }
}
