//! How the words of an element type are interpreted.

use lmc_format::WordMap;
use lmc_format::dtype::{Dtype, DtypeKind};

/// Width, map and exponent of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WordLayout {
    pub width_log2: u8,
    pub map: WordMap,
    /// Bits of the exponent at the top of the mapped word; 0 if the type has no exponent.
    pub exponent_bits: u8,
}

impl WordLayout {
    /// The layout of a type.
    pub(crate) fn of(dtype: Dtype) -> Self {
        let (map, exponent_bits) = match dtype.kind() {
            DtypeKind::Float(fields) | DtypeKind::Complex(fields) => {
                (WordMap::Rotate, fields.exponent_bits)
            }
            DtypeKind::Signed if dtype.width() > 1 => (WordMap::Zigzag, 0),
            // A byte of packed values is coded as well as its single values could be.
            DtypeKind::Signed | DtypeKind::Unsigned | DtypeKind::Packed => (WordMap::None, 0),
        };
        let width_log2 = dtype.width().trailing_zeros() as u8;
        Self { width_log2, map, exponent_bits }
    }

    /// For floats that are never negative: the sign stays on top and counts as part of the
    /// exponent, so that no plane has to store it. Other layouts stay unchanged.
    pub(crate) fn with_sign_on_top(self) -> Self {
        match self.map {
            WordMap::Rotate => {
                Self { map: WordMap::None, exponent_bits: self.exponent_bits + 1, ..self }
            }
            _ => self,
        }
    }
}
