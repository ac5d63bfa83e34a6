//! How far values are from those of a base, by sign and length in bits, and by the exponent of the
//! base.

use super::entropy::bits_of;
use super::{Order, Words};
use std::collections::BTreeMap;

/// Bits of a class: whether the value became smaller, and how many bits the distance has.
pub(crate) const CLASS_BITS: u32 = 8;
/// The class of a value that became smaller, besides the bits of the distance.
pub(crate) const SMALLER: u32 = 1 << 7;

/// How many values of each class there are, by the exponent of the base; of those that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes(BTreeMap<u32, u64>);

/// Bits per value that the differences need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DifferenceBits {
    /// With one table.
    pub plain: f64,
    /// With a table for each exponent of the base.
    pub given_exponent: f64,
}

/// The exponent and the class as one number.
pub(crate) fn index(words: Words, new: u64, old: u64) -> u32 {
    let bits = 8 * words.width as u32;
    let ordered = |word: u64| -> i64 {
        match words.order {
            Order::Float => {
                let magnitude = word & !(1 << (bits - 1));
                if word >> (bits - 1) == 1 { -(magnitude as i64) } else { magnitude as i64 }
            }
            Order::Signed => (word << (64 - bits)) as i64 >> (64 - bits),
            Order::Unsigned => (word ^ 1 << 63) as i64,
        }
    };
    let exponent = words.fields.map_or(0, |fields| {
        (old >> fields.mantissa_bits) as u32 & ((1 << fields.exponent_bits) - 1)
    });
    let (old, new) = (ordered(old), ordered(new));
    let len = 64 - new.abs_diff(old).leading_zeros();
    exponent << CLASS_BITS | if new < old { SMALLER } else { 0 } | len
}

impl Classes {
    /// Adds values with this index, except unchanged ones.
    pub(crate) fn add(&mut self, index: u32, count: u64) {
        if index & ((1 << CLASS_BITS) - 1) != 0 {
            *self.0.entry(index).or_default() += count;
        }
    }

    /// Both together.
    pub(crate) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(&index, &count)| self.add(index, count));
    }

    /// What an ideal coder needs for `values` differences. `exponents` says how often each exponent
    /// occurs in the base; it is empty for integers.
    pub(crate) fn bits(&self, values: u64, exponents: &[u64]) -> DifferenceBits {
        let mask = (1 << CLASS_BITS) - 1;
        let mut all: BTreeMap<u32, u64> = BTreeMap::new();
        let mut by_exponent: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut payload = 0;
        for (&index, &count) in &self.0 {
            let class = index & mask;
            *all.entry(class).or_default() += count;
            by_exponent.entry(index >> CLASS_BITS).or_default().push(count);
            payload += count * u64::from((class & (SMALLER - 1)) - 1);
        }
        let changed: u64 = all.values().sum();
        let unchanged = std::iter::once(values.saturating_sub(changed));
        let plain = bits_of(all.into_values().chain(unchanged), values);
        let given = by_exponent.into_iter().map(|(exponent, counts)| {
            let changed: u64 = counts.iter().sum();
            let total = exponents.get(exponent as usize).copied().unwrap_or(values).max(changed);
            bits_of(counts.into_iter().chain([total - changed]), total)
        });
        let per_value = |bits: f64| (bits + payload as f64) / values.max(1) as f64;
        DifferenceBits { plain: per_value(plain), given_exponent: per_value(given.sum()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::Dtype;

    fn class(dtype: Dtype, new: u64, old: u64) -> (u32, bool, u32) {
        let index = index(Words::of(dtype), new, old);
        (index >> CLASS_BITS, index & SMALLER != 0, index & (SMALLER - 1))
    }

    /// Signs, lengths and exponents match values worked out by hand, at both ends of each order.
    #[test]
    fn classes_by_hand() {
        assert_eq!(class(Dtype::Bf16, 0x3f81, 0x3f80), (0x7f, false, 1));
        assert_eq!(class(Dtype::Bf16, 0x3f7c, 0x3f80), (0x7f, true, 3));
        // Both zeros are the same integer.
        assert_eq!(class(Dtype::F32, 0x8000_0000, 0), (0, false, 0));
        assert_eq!(class(Dtype::F32, 0xffff_ffff, 0x7fff_ffff), (0xff, true, 32));
        assert_eq!(class(Dtype::F64, 1 << 63 | 1, 0), (0, true, 1));
        assert_eq!(class(Dtype::F64, u64::MAX >> 1, u64::MAX), (0x7ff, false, 64));
        assert_eq!(class(Dtype::I8, 0x80, 0x7f), (0, true, 8));
        assert_eq!(class(Dtype::I64, 1 << 63, u64::MAX >> 1), (0, true, 64));
        assert_eq!(class(Dtype::U8, 0xff, 0), (0, false, 8));
        assert_eq!(class(Dtype::U64, u64::MAX, 0), (0, false, 64));
    }

    /// Half of the values unchanged and half larger by 2 or 3: one bit for the class and half a bit
    /// below the leading one. If the exponent tells which, the class is free.
    #[test]
    fn bits_by_hand() {
        let mut classes = Classes::default();
        classes.add(5 << CLASS_BITS | 2, 8);
        let plain = DifferenceBits { plain: 1.5, given_exponent: 0.5 };
        assert_eq!(classes.bits(16, &[0, 0, 8, 0, 0, 8]), plain);
        let same = classes.bits(16, &[]);
        assert_eq!((same.plain, same.given_exponent), (1.5, 1.5));
        assert_eq!(Classes::default().bits(0, &[]), DifferenceBits::default());
    }
}
