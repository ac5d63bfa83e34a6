//! Plans recipes against a base: by bins if most values differ from it, by changes if few do, and
//! by classes if there are few values at all.

use super::bins;
use super::by_context;
use super::changes::{self, ChangeCandidate};
use super::classes::{self, ClassCandidate};
use super::sample::sample as take_sample;
use super::{BinRecipeEncoder, Block, ChangeRecipeEncoder, RecipeEncoder, Target};
use crate::simd::Isa;
use crate::spec::Level;
use crate::transform::sparse;
use lmc_format::BinRecipe;

/// Few values differ from their base if it is one in this many or fewer.
const DIFFERING_SHARE: usize = 16;
/// From this many bytes on, bins gain more than their recipe takes.
const BINS_LEN_MIN: usize = 1 << 12;
/// From this many values on, tables by context are sure to pay off.
const CONTEXTS_LEN_MIN: usize = 1 << 16;
/// If at least this many eighths of the values differ, all values may be coded. If fewer than the
/// second number differ, only those that differ may be coded.
const DENSE_EIGHTHS: u64 = 4;
const SPARSE_EIGHTHS: u64 = 7;
/// How many times larger the sample is if few values differ.
const SPARSE_SCALE: usize = 4;
/// If both are tried, changes must save one bit in this many.
const BINS_SLACK: u64 = 64;

/// Which layouts are tried against a base.
#[derive(Clone, Copy)]
struct Ways {
    bins: bool,
    changes: bool,
    classes: bool,
}

impl Ways {
    /// For values that differ from their base in `differing` of `n` places of a sample. If most
    /// differ, all are coded in order; if few do, those that differ are coded separately.
    fn of(target: Target, values: Block, differing: u64, n: u64) -> Self {
        let is_long = values.bytes.len() >= BINS_LEN_MIN;
        Self {
            bins: is_long && 8 * differing >= DENSE_EIGHTHS * n,
            changes: is_long && 8 * differing < SPARSE_EIGHTHS * n,
            classes: !is_long && !target.is_integer(),
        }
    }
}

/// A recipe against a base, with its cost on the sample.
pub(super) enum OnBase {
    Classes(ClassCandidate),
    Bins(BinCandidate),
    Changes(ChangeCandidate),
}

impl OnBase {
    pub(super) fn bits(&self) -> u64 {
        match self {
            Self::Classes(candidate) => candidate.bits,
            Self::Bins(found) => found.bits,
            Self::Changes(candidate) => candidate.bits,
        }
    }

    /// The same, minus the extra bits that a faster way may take below the highest level: bins
    /// leave nothing out, so nothing has to be put back.
    fn bits_less_slack(&self, level: Level) -> u64 {
        match self {
            Self::Bins(found) if level != Level::Max => found.bits - found.bits / BINS_SLACK,
            _ => self.bits(),
        }
    }

    /// The recipe, made ready for `values`. 1,024 of them take `expected_bits`.
    pub(super) fn prepare(
        self,
        isa: Isa,
        target: Target,
        values: Block,
        expected_bits: u64,
    ) -> RecipeEncoder {
        match self {
            Self::Classes(found) => {
                let prepared = classes::exact_tables(isa, target, found, values, expected_bits);
                RecipeEncoder::Classes(Box::new(prepared))
            }
            Self::Bins(found) => {
                RecipeEncoder::Bins(Box::new(BinRecipeEncoder::new(found.recipe, expected_bits)))
            }
            Self::Changes(found) => RecipeEncoder::Changes(Box::new(ChangeRecipeEncoder::new(
                found.recipe,
                expected_bits,
            ))),
        }
    }

    /// The same, with the cost scaled to `part` of `all` bytes of the sample.
    fn scaled(self, part: usize, all: usize) -> Self {
        let scaled = |bits: u64| bits * part as u64 / all as u64;
        match self {
            Self::Classes(found) => {
                Self::Classes(ClassCandidate { bits: scaled(found.bits), ..found })
            }
            Self::Bins(found) => Self::Bins(BinCandidate { bits: scaled(found.bits), ..found }),
            Self::Changes(found) => {
                Self::Changes(ChangeCandidate { bits: scaled(found.bits), ..found })
            }
        }
    }
}

/// A recipe by bins, with its cost on the sample.
pub(super) struct BinCandidate {
    pub recipe: BinRecipe,
    pub bits: u64,
}

/// The best recipe against a base for `values`, with its cost on their `sample`.
pub(super) fn choose(isa: Isa, target: Target, values: Block, sample: Block) -> Option<OnBase> {
    let width = 1 << target.layout.width_log2;
    let n = sample.bytes.len() / width;
    let differing = differing(width, sample);
    let ways = Ways::of(target, values, differing as u64, n as u64);
    let choose = |sample: Block| {
        let bins = || bins(isa, target, values, sample).map(OnBase::Bins);
        let changes = || changes::choose(isa, target, sample).map(OnBase::Changes);
        let classes = || classes::choose(isa, target, sample).map(OnBase::Classes);
        let tried = [
            ways.bins.then(bins).flatten(),
            ways.changes.then(changes).flatten(),
            ways.classes.then(classes).flatten(),
        ];
        tried.into_iter().flatten().min_by_key(|found| found.bits_less_slack(target.level))
    };
    // If there are few changes, only a large sample shows them.
    let all = values.bytes.len();
    if differing * DIFFERING_SHARE >= n || sample.bytes.len() >= all / 2 {
        return choose(sample);
    }
    let large = |bytes: &[u8]| take_sample(bytes, width, SPARSE_SCALE * n);
    let (bytes, base) = (large(values.bytes), large(values.base?));
    let found = choose(Block { bytes: &bytes, base: Some(&base) })?;
    Some(found.scaled(sample.bytes.len(), bytes.len()))
}

/// The best recipe by bins.
fn bins(isa: Isa, target: Target, values: Block, sample: Block) -> Option<BinCandidate> {
    let is_highest = target.level == Level::Max;
    let by_context = is_highest.then(|| by_context::choose(isa, target, sample, values)).flatten();
    // Tables take little space compared with many values.
    let is_long = values.bytes.len() >> target.layout.width_log2 >= CONTEXTS_LEN_MIN;
    if is_long && by_context.is_some() {
        return by_context;
    }
    let one = bins::choose(target, sample);
    let one = one.map(|found| BinCandidate { bits: found.bits, recipe: found.recipe() });
    [by_context, one].into_iter().flatten().min_by_key(|found| found.bits)
}

/// How many values of `width` bytes differ from their base.
fn differing(width: usize, values: Block) -> usize {
    let pairs = values.bytes.iter().zip(values.base.unwrap_or_default());
    let apart: Vec<u8> = pairs.map(|(value, base)| value ^ base).collect();
    values.bytes.len() / width - sparse::zeros(width, &apart)
}
