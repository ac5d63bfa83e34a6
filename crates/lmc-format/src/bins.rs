//! The recipe of a block whose floats are coded as bins around the values of a base
//! (`docs/format.md`, section 3.7).

use crate::coder::Coder;
use crate::contexts::ContextTables;
use crate::error::{Error, Result};
use crate::limits::{
    BIN_CENTRE_MAX, BIN_PAYLOAD_BITS_MAX, BIN_ROWS_MAX, BINS_MAX, EXPONENT_BITS_MAX,
    SEGMENT_LOG2_MAX, SEGMENT_LOG2_MIN,
};
use crate::reader::Reader;

/// How every segment of a block is coded against a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinRecipe {
    /// How values become symbols and payloads.
    pub rules: BinRules,
    /// How the symbols are coded.
    pub symbols: SymbolCoder,
}

/// How the symbols of a segment are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SymbolCoder {
    /// One coder for all of them.
    One(Coder),
    /// By rANS, with a table that is chosen by the bin of the base.
    ByContext(ContextTables),
}

/// How values become symbols and payloads.
///
/// Invariants: `width_log2 <= 3`; `raw_bytes < width`; 1 to 32 bins, with flip bits only for
/// floats; at most 8 rows, each a permutation of 0 to 15; one bound less than rows, each above the
/// one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinRules {
    /// log2 of the value's width in bytes.
    pub width_log2: u8,
    /// Whether values are integers, which have no separate sign.
    pub is_integer: bool,
    /// Low bytes of the difference that are stored as they are.
    pub raw_bytes: u8,
    /// log2 of the values in a segment.
    pub segment_log2: u8,
    /// Number of bits below the sign of the base that choose the bin.
    pub exponent_bits: u8,
    /// Subtracted from these bits.
    pub exponent_first: u16,
    /// How differences are binned, by exponent of the base; the last one also serves all exponents
    /// above it.
    pub bins: Vec<Bin>,
    /// Row `i + 1` is for bins from this one on.
    pub bounds: Vec<u8>,
    /// What the sixteen symbols around the centre become, by context; empty if they stay.
    pub rows: Vec<[u8; 16]>,
}

/// How differences are binned for values whose bases have a given exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// log2 of the width of a bin: this many low bits of a difference are payload.
    pub shift: u8,
    /// Whether a change of sign is a bit of the payload instead of part of the symbol.
    pub has_flip_bit: bool,
    /// The bin that is symbol 0.
    pub centre: i8,
}

impl Bin {
    /// Payload bits of each value.
    pub fn payload_bits(self) -> u8 {
        self.shift.saturating_add(u8::from(self.has_flip_bit))
    }
}

/// Set in the layout byte of these recipes only.
pub(crate) const BINS: u8 = 0xd0;
const FLIP_BIT: u8 = 1 << 7;
/// The bit of the layout byte that says that values are integers.
pub(crate) const INTEGER: u8 = 1 << 3;

/// The id of [`SymbolCoder::ByContext`], which is not the id of any coder of other streams.
const BY_CONTEXT: u8 = 10;

impl BinRecipe {
    /// Appends the recipe.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.rules.write(BINS, out);
        match &self.symbols {
            SymbolCoder::One(coder) => coder.write(out),
            SymbolCoder::ByContext(tables) => {
                out.push(BY_CONTEXT);
                tables.write(out);
            }
        }
    }

    /// Reads a recipe.
    pub fn read(input: &mut Reader) -> Result<Self> {
        let (_, rules) = BinRules::read(input, |layout| layout & !(INTEGER | 3) == BINS)?;
        let symbols = match input.rest().first() {
            Some(&BY_CONTEXT) => {
                input.u8("coder")?;
                SymbolCoder::ByContext(ContextTables::read(input)?)
            }
            _ => SymbolCoder::One(Coder::read(input)?),
        };
        Ok(Self { rules, symbols })
    }
}

impl SymbolCoder {
    /// The coder's name in `docs/format.md`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::One(coder) => coder.name(),
            Self::ByContext(_) => "rans by context",
        }
    }
}

impl BinRules {
    /// Width of a value in bytes.
    pub fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Original bytes of a segment.
    pub fn segment_len(&self) -> usize {
        self.width() << self.segment_log2
    }

    /// Appends the rules, with the bits of the layout byte that say what kind of recipe they belong
    /// to.
    pub(crate) fn write(&self, kind: u8, out: &mut Vec<u8>) {
        let count = |len: usize| u8::try_from(len).unwrap_or(0);
        out.extend_from_slice(&[
            kind | self.width_log2 | if self.is_integer { INTEGER } else { 0 },
            self.raw_bytes,
            self.segment_log2,
            self.exponent_bits,
        ]);
        out.extend_from_slice(&self.exponent_first.to_le_bytes());
        out.push(count(self.bins.len()));
        for bin in &self.bins {
            out.push(bin.shift | if bin.has_flip_bit { FLIP_BIT } else { 0 });
            out.push(bin.centre.to_le_bytes()[0]);
        }
        out.push(count(self.rows.len()));
        out.extend_from_slice(&self.bounds);
        for row in &self.rows {
            let (pairs, _) = row.as_chunks::<2>();
            out.extend(pairs.iter().map(|[low, high]| low | high << 4));
        }
    }

    /// Reads rules; `is_allowed` checks the layout byte, which is returned too.
    pub(crate) fn read(input: &mut Reader, is_allowed: impl Fn(u8) -> bool) -> Result<(u8, Self)> {
        let [layout, raw_bytes, segment_log2, exponent_bits] = input.array("recipe")?;
        if !is_allowed(layout) {
            return Err(Error::corrupt(format!("recipe layout {layout:#x} is not allowed")));
        }
        let mut rules = Self {
            width_log2: layout & 3,
            is_integer: layout & INTEGER != 0,
            raw_bytes,
            segment_log2,
            exponent_bits,
            exponent_first: input.u16("first exponent")?,
            bins: Vec::new(),
            bounds: Vec::new(),
            rows: Vec::new(),
        };
        rules.check()?;
        rules.read_bins(input)?;
        rules.read_rows(input)?;
        Ok((layout, rules))
    }

    fn check(&self) -> Result<()> {
        if usize::from(self.raw_bytes) >= self.width() {
            return Err(Error::corrupt(format!("{} raw bytes of a value", self.raw_bytes)));
        }
        if !(SEGMENT_LOG2_MIN..=SEGMENT_LOG2_MAX).contains(&self.segment_log2) {
            let message = format!("recipe has segments of 2^{} values", self.segment_log2);
            return Err(Error::corrupt(message));
        }
        let bits_max = EXPONENT_BITS_MAX.min((8_u8 << self.width_log2).saturating_sub(1));
        if self.exponent_bits == 0 || self.exponent_bits > bits_max {
            return Err(Error::corrupt(format!("exponent of {} bits", self.exponent_bits)));
        }
        Ok(())
    }

    fn read_bins(&mut self, input: &mut Reader) -> Result<()> {
        let count = input.u8("number of bins")?;
        if count == 0 || count > BINS_MAX {
            return Err(Error::corrupt(format!("{count} bins, 1 to {BINS_MAX} expected")));
        }
        for _ in 0..count {
            let [shift, centre] = input.array("bin")?;
            let (has_flip_bit, shift) = (shift & FLIP_BIT != 0, shift & !FLIP_BIT);
            let bin = Bin { shift, has_flip_bit, centre: i8::from_le_bytes([centre]) };
            if bin.payload_bits() > BIN_PAYLOAD_BITS_MAX {
                let message = format!("payload of {} bits in a bin", bin.payload_bits());
                return Err(Error::corrupt(message));
            }
            if bin.has_flip_bit && self.is_integer {
                return Err(Error::corrupt("a bin of integers has a flip bit"));
            }
            if bin.centre.unsigned_abs() > BIN_CENTRE_MAX {
                return Err(Error::corrupt(format!("centre of a bin at {}", bin.centre)));
            }
            self.bins.push(bin);
        }
        Ok(())
    }

    fn read_rows(&mut self, input: &mut Reader) -> Result<()> {
        let count = input.u8("number of rows")?;
        if count > BIN_ROWS_MAX {
            return Err(Error::corrupt(format!("{count} rows, at most {BIN_ROWS_MAX} expected")));
        }
        for _ in 1..count {
            let bound = input.u8("bound of a row")?;
            if bound == 0 || self.bounds.last().is_some_and(|&last| bound <= last) {
                return Err(Error::corrupt(format!("bound {bound} of a row is out of order")));
            }
            self.bounds.push(bound);
        }
        for _ in 0..count {
            let packed: [u8; 8] = input.array("row")?;
            let mut row = [0; 16];
            let mut seen = 0_u16;
            for (pair, byte) in row.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                *pair = [byte & 15, byte >> 4];
                seen |= 1 << pair[0] | 1 << pair[1];
            }
            if seen != u16::MAX {
                return Err(Error::corrupt("a row does not have each of its 16 symbols once"));
            }
            self.rows.push(row);
        }
        Ok(())
    }
}
