//! Means of figures over tensors, by their values. A figure is that of the tensors that have it:
//! counters beside the weights have no exponents. Lists whose lengths differ are left out.

use super::{Alone, Blocks, Change, Exponents};
use std::collections::BTreeMap;

/// The sum of a figure, times the values that have it.
#[derive(Clone, Debug, Default)]
struct Sum {
    sum: f64,
    values: f64,
}

impl Sum {
    fn add(&mut self, values: f64, figure: Option<f64>) {
        if let Some(figure) = figure {
            self.sum += values * figure;
            self.values += values;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.values > 0.0).then(|| self.sum / self.values)
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
            sign: self.sign.mean(),
            exponent: self.exponent.mean(),
            mantissa: self.mantissa.mean(),
            bound: self.bound.mean(),
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
    /// The bits of an exponent.
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
        if exponent_bits > 0 {
            self.are_mixed |= *self.exponent_bits.get_or_insert(exponent_bits) != exponent_bits;
        }
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
            coded: self.coded.mean(),
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
            unchanged: self.unchanged.mean(),
            exponent_changed: self.exponent_changed.mean(),
            flipped: self.flipped.mean(values),
            xor: self.xor.mean(),
            xor_planes: self.xor_planes.mean(values),
            difference: self.difference.mean(),
            difference_given_exponent: self.difference_given_exponent.mean(),
            coded: self.coded.mean(),
            coded_alone: self.coded_alone.mean(),
            counted: self.counted,
        }
    }
}
