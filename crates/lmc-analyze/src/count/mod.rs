//! Counts the values of a tensor, and how they differ from those of another: bytes in, figures out.
//!
//! Histograms are made for each stretch of a tensor by one worker and added up for the tensor.

pub(crate) mod alone;
pub(crate) mod change;
pub(crate) mod classes;
pub(crate) mod entropy;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use lmc_format::Dtype;
use lmc_format::dtype::{DtypeKind, FloatFields};

/// Bytes of a block, which has tables of its own.
pub(crate) const BLOCK_LEN: usize = 1 << 16;

/// How the words of a type are read. A complex number is two words, and packed values are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// Bytes of a word.
    pub width: usize,
    /// The fields of floats.
    pub fields: Option<FloatFields>,
    order: Order,
}

/// What integer a word is, in the order of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The word without its sign bit, which makes it negative.
    Float,
    /// The word in two's complement.
    Signed,
    /// The word as it is.
    Unsigned,
}

impl Words {
    /// The words of a type.
    pub(crate) fn of(dtype: Dtype) -> Self {
        let order = match dtype.kind() {
            DtypeKind::Float(_) | DtypeKind::Complex(_) => Order::Float,
            DtypeKind::Signed => Order::Signed,
            DtypeKind::Unsigned | DtypeKind::Packed => Order::Unsigned,
        };
        Self { width: dtype.width(), fields: dtype.float_fields(), order }
    }

    /// The number of different signs and exponents together; none for integers.
    pub(crate) fn heads(self) -> usize {
        self.fields.map_or(0, |fields| 2 << fields.exponent_bits)
    }

    /// How far the exponent is from the lowest bit of a word, or of its highest 16 bits if it has
    /// more, and its mask; for integers both give 0.
    fn exponent_in_top(self) -> (u32, u16) {
        let Some(fields) = self.fields else { return (0, 0) };
        let below = 8 * self.width.saturating_sub(2) as u32;
        (u32::from(fields.mantissa_bits) - below, (1 << fields.exponent_bits) - 1)
    }
}
