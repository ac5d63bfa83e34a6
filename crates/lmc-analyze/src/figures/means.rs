//! Means of figures over tensors, by their values. A figure that one of them does not have is left
//! out, and so are lists whose lengths differ.

use super::{Alone, Blocks, Change, Exponents};
use std::collections::BTreeMap;

/// The sum of a figure, times the values.
#[derive(Clone, Debug, Default)]
struct Sum {
    sum: f64,
    is_missing: bool,
}

impl Sum {
    fn add(&mut self, values: f64, figure: Option<f64>) {
        self.is_missing |= figure.is_none();
        self.sum += values * figure.unwrap_or(0.0);
    }

    fn mean(&self, values: u64) -> Option<f64> {
        (values > 0 && !self.is_missing).then(|| self.sum / values as f64)
    }
}

/// The same for a list of figures.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// None before the first.
    sums: Option<Vec<f64>>,
    is_missing: bool,
}

impl Sums {
    fn add(&mut self, values: f64, figures: Option<&[f64]>) {
        let figures = figures.unwrap_or_default();
        let sums = self.sums.get_or_insert_with(|| vec![0.0; figures.len()]);
        self.is_missing |= figures.is_empty() || sums.len() != figures.len();
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += values * figure);
    }

    fn mean(&self, values: u64) -> Option<Vec<f64>> {
        let sums = self.sums.as_ref().filter(|_| values > 0 && !self.is_missing)?;
        Some(sums.iter().map(|sum| sum / values as f64).collect())
    }
}

/// The sums of what is counted alike for a tensor and for its blocks.
#[derive(Clone, Debug, Default)]
struct FieldSums {
    planes: Sums,
    sign: Sum,
    exponent: Sum,
    mantissa: Sum,
    bound: Sum,
}

impl FieldSums {
    fn add(&mut self, values: f64, figures: &Blocks) {
        self.planes.add(values, figures.planes.as_deref());
        self.sign.add(values, figures.sign);
        self.exponent.add(values, figures.exponent);
        self.mantissa.add(values, figures.mantissa);
        self.bound.add(values, figures.bound);
    }

    fn mean(&self, values: u64) -> Blocks {
        Blocks {
            planes: self.planes.mean(values),
            sign: self.sign.mean(values),
            exponent: self.exponent.mean(values),
            mantissa: self.mantissa.mean(values),
            bound: self.bound.mean(values),
        }
    }
}

/// Figures of tensors without a base, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct AloneMeans {
    values: u64,
    bytes: u64,
    counted: u64,
    whole: FieldSums,
    blocks: FieldSums,
    coded: Sum,
    exponents: BTreeMap<u32, u64>,
    /// The bits of an exponent; 0 for integers.
    exponent_bits: Option<u8>,
    are_mixed: bool,
}

impl AloneMeans {
    /// Adds a tensor. Its exponents have `exponent_bits` bits; it has none if these are 0.
    pub(crate) fn add(&mut self, tensor: &Alone, exponents: &Exponents, exponent_bits: u8) {
        let Alone { values, bytes, counted, coded, .. } = *tensor;
        if values == 0 {
            return;
        }
        self.values += values;
        self.bytes += bytes;
        self.counted += counted;
        let whole = Blocks {
            planes: tensor.planes.clone(),
            sign: tensor.sign,
            exponent: tensor.exponent,
            mantissa: tensor.mantissa,
            bound: tensor.bound,
        };
        self.whole.add(values as f64, &whole);
        self.blocks.add(values as f64, &tensor.blocks);
        self.coded.add(values as f64, coded);
        for &(exponent, count) in exponents {
            *self.exponents.entry(exponent).or_default() += count;
        }
        let bits = *self.exponent_bits.get_or_insert(exponent_bits);
        self.are_mixed |= bits != exponent_bits || bits == 0;
    }

    pub(crate) fn mean(self) -> Alone {
        let values = self.values;
        let Blocks { planes, sign, exponent, mantissa, bound } = self.whole.mean(values);
        let has_exponents = self.exponent_bits.is_some() && !self.are_mixed;
        Alone {
            values,
            bytes: self.bytes,
            planes,
            sign,
            exponent,
            mantissa,
            bound,
            blocks: self.blocks.mean(values),
            coded: self.coded.mean(values),
            counted: self.counted,
            exponents: Some(has_exponents.then(|| self.exponents.into_iter().collect())),
        }
    }
}

/// Figures of tensors against their bases, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeMeans {
    values: u64,
    compared: u64,
    counted: u64,
    unchanged: Sum,
    exponent_changed: Sum,
    flipped: Sums,
    xor: Sum,
    xor_planes: Sums,
    difference: Sum,
    difference_given_exponent: Sum,
    coded: Sum,
    coded_alone: Sum,
}

impl ChangeMeans {
    /// Adds a tensor.
    pub(crate) fn add(&mut self, tensor: &Change) {
        if tensor.values == 0 {
            return;
        }
        let values = tensor.values as f64;
        self.values += tensor.values;
        self.compared += tensor.compared;
        self.counted += tensor.counted;
        self.unchanged.add(values, tensor.unchanged);
        self.exponent_changed.add(values, tensor.exponent_changed);
        self.flipped.add(values, tensor.flipped.as_deref());
        self.xor.add(values, tensor.xor);
        self.xor_planes.add(values, tensor.xor_planes.as_deref());
        self.difference.add(values, tensor.difference);
        self.difference_given_exponent.add(values, tensor.difference_given_exponent);
        self.coded.add(values, tensor.coded);
        self.coded_alone.add(values, tensor.coded_alone);
    }

    pub(crate) fn mean(self) -> Change {
        let values = self.values;
        Change {
            values,
            compared: self.compared,
            unchanged: self.unchanged.mean(values),
            exponent_changed: self.exponent_changed.mean(values),
            flipped: self.flipped.mean(values),
            xor: self.xor.mean(values),
            xor_planes: self.xor_planes.mean(values),
            difference: self.difference.mean(values),
            difference_given_exponent: self.difference_given_exponent.mean(values),
            coded: self.coded.mean(values),
            coded_alone: self.coded_alone.mean(values),
            counted: self.counted,
        }
    }
}
