//! The figures of tensors, and their means over tensors, as `docs/analyze.md` defines them.

mod means;

pub(crate) use means::{AloneMeans, ChangeMeans};

use crate::count::Words;
use crate::count::alone::{AloneTally, Bits};
use crate::count::change::ChangeTally;
use serde::Serialize;

/// How often each exponent occurs.
pub type Exponents = Vec<(u32, u64)>;

/// A checkpoint, a tensor or a group of tensors without a base. Entropies are in bits per value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Alone {
    /// Values; a complex number counts as two.
    pub values: u64,
    /// Bytes.
    pub bytes: u64,
    /// The entropy of each byte of a value, the lowest first.
    pub planes: Option<Vec<f64>>,
    /// The entropy of the sign.
    pub sign: Option<f64>,
    /// The entropy of the exponent.
    pub exponent: Option<f64>,
    /// The entropies of the bytes that hold the mantissa, together.
    pub mantissa: Option<f64>,
    /// What a coder of the exponent alone needs at least.
    pub bound: Option<f64>,
    /// The same with tables for each 64 KiB.
    pub blocks: Blocks,
    /// What lmc takes.
    pub coded: Option<f64>,
    /// Values that were coded for that.
    pub counted: u64,
    /// How often each exponent occurs; not kept for single tensors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponents: Option<Option<Exponents>>,
}

/// Figures with tables for each 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Blocks {
    /// As in [`Alone`].
    pub planes: Option<Vec<f64>>,
    /// As in [`Alone`].
    pub sign: Option<f64>,
    /// As in [`Alone`].
    pub exponent: Option<f64>,
    /// As in [`Alone`].
    pub mantissa: Option<f64>,
    /// As in [`Alone`].
    pub bound: Option<f64>,
}

/// A checkpoint, a tensor or a group of tensors against its base.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// Values of the tensors that both have.
    pub values: u64,
    /// Values that were compared.
    pub compared: u64,
    /// The share with the same bits.
    pub unchanged: Option<f64>,
    /// The share of floats whose exponent changed.
    pub exponent_changed: Option<f64>,
    /// The share in which a bit differs, for each bit, the lowest first.
    pub flipped: Option<Vec<f64>>,
    /// The entropies of the bytes of the XOR, together.
    pub xor: Option<f64>,
    /// Each of them, the lowest first.
    pub xor_planes: Option<Vec<f64>>,
    /// Of the difference, in the order of the values.
    pub difference: Option<f64>,
    /// The same with a table for each exponent of the base.
    pub difference_given_exponent: Option<f64>,
    /// What lmc takes against this base.
    pub coded: Option<f64>,
    /// What it takes without.
    pub coded_alone: Option<f64>,
    /// Values that were coded for that.
    pub counted: u64,
}

/// The coded bytes of some of the bytes of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coded {
    pub raw: u64,
    pub coded: u64,
}

impl Coded {
    pub(crate) fn add(&mut self, other: Self) {
        self.raw += other.raw;
        self.coded += other.coded;
    }

    /// Bits per word of this width.
    fn bits(self, width: u64) -> Option<f64> {
        (self.raw > 0).then(|| 8.0 * self.coded as f64 * width as f64 / self.raw as f64)
    }
}

impl Alone {
    /// The figures of a tensor, without the exponents.
    pub(crate) fn new(words: Words, tally: &AloneTally, coded: Coded) -> Self {
        let (values, width) = (tally.whole.values, words.width as u64);
        let bytes = values * width;
        if values == 0 {
            return Self::default();
        }
        let Bits { planes, sign, exponent, mantissa, bound } = tally.whole.bits(words);
        let float = |bits: f64| words.fields.map(|_| bits);
        let blocks = &tally.blocks;
        let mean = |sum: f64| sum / values as f64;
        let blocks = Blocks {
            planes: Some(blocks.planes.iter().copied().map(mean).collect()),
            sign: float(mean(blocks.sign)),
            exponent: float(mean(blocks.exponent)),
            mantissa: float(mean(blocks.mantissa)),
            bound: Some(mean(blocks.bound)),
        };
        Self {
            values,
            bytes,
            planes: Some(planes),
            sign: float(sign),
            exponent: float(exponent),
            mantissa: float(mantissa),
            bound: Some(bound),
            blocks,
            coded: coded.bits(width),
            counted: coded.raw / width,
            exponents: None,
        }
    }
}

impl Change {
    /// The figures of a tensor of `values`. `exponents` says how often each occurs in the base, as
    /// far as it was compared, and `alone` what the coded values take without it.
    pub(crate) fn new(
        words: Words,
        values: u64,
        tally: &ChangeTally,
        exponents: &[u64],
        coded: Coded,
        alone: Option<f64>,
    ) -> Self {
        let (compared, width) = (tally.values, words.width as u64);
        if compared == 0 {
            return Self { values, ..Self::default() };
        }
        let share = |count: u64| count as f64 / compared as f64;
        let plane =
            |plane: &[u64; 256]| crate::count::entropy::entropy(plane.iter().copied(), compared);
        let xor_planes: Vec<f64> = tally.xor.iter().map(plane).collect();
        let difference = tally.classes.bits(compared, exponents);
        Self {
            values,
            compared,
            unchanged: Some(share(tally.unchanged)),
            exponent_changed: words.fields.map(|_| share(tally.exponent_changed)),
            flipped: Some(tally.flipped().into_iter().map(share).collect()),
            xor: Some(xor_planes.iter().sum()),
            xor_planes: Some(xor_planes),
            difference: Some(difference.plain),
            difference_given_exponent: Some(difference.given_exponent),
            coded: coded.bits(width),
            coded_alone: alone,
            counted: coded.raw / width,
        }
    }
}
