//! Plans recipes by changes: contexts of flags by the base's exponent, and bins for the values that
//! differ.

use super::bins::{self, Fitted};
use super::coder::PlaneStats;
use super::cost::entropy_bits;
use super::merge::merge;
use super::spread::Exponents;
use super::stream::{Scale, StreamPlanner};
use super::{Block, Target};
use crate::segment::sized;
use crate::simd::bins::{Parts, Tables, cut};
use crate::simd::changes::{ContextRule, SLACK, find, groups, masks, sort};
use crate::simd::classes::BitString;
use crate::simd::{Isa, flags};
use crate::spec::Level;
use lmc_format::limits::FLAG_CONTEXTS_MAX;
use lmc_format::{BinRules, ChangeRecipe, FlagContexts};

/// log2 of the values in a segment. Long segments, because the stream of each context is padded.
const SEGMENT_LOG2: u8 = 16;
/// Cost of a context, in bits of a sample: its share of tables and padding.
const CONTEXT_BITS: u64 = 24;
/// Contexts below the highest level: each one costs time for every value.
const CHANGED_CONTEXTS: usize = 5;
const UNCOMMON_CONTEXTS: usize = 3;
const FAST_CONTEXTS: usize = 3;
/// A segment of fewer bytes omits the lengths of its streams.
const LENGTHS_MIN: u64 = 1 << 12;

/// A recipe with its cost on the sample.
pub(super) struct ChangeCandidate {
    pub recipe: ChangeRecipe,
    pub bits: u64,
}

/// The cheapest recipe for a sample of values and their base; None if there are no values.
pub(super) fn choose(isa: Isa, target: Target, sample: Block) -> Option<ChangeCandidate> {
    let base = sample.base.filter(|base| !base.is_empty())?;
    let width_log2 = target.layout.width_log2;
    let n = sample.bytes.len() >> width_log2;
    let mut bits = vec![0; groups(n)];
    let (mut own, mut own_base) = (Vec::new(), Vec::new());
    let room = sample.bytes.len() + SLACK;
    let taken = [sized(&mut own, room), sized(&mut own_base, room)];
    let count = find(isa, width_log2, sample.bytes, base, &mut bits, taken);
    let len = count << width_log2;
    let changed = Block { bytes: &own[..len], base: Some(&own_base[..len]) };
    let Fitted { mut rules, coder, bits: mut total } = bins::fit_changes(target, changed);
    rules.segment_log2 = SEGMENT_LOG2;
    let flags = FlagPlanner {
        isa,
        rule: ContextRule {
            width_log2,
            exponent_bits: rules.exponent_bits,
            exponent_first: rules.exponent_first,
            bounds: &[],
        },
        // The coders of the default level can code flags that the sample did not contain.
        streams: StreamPlanner {
            isa,
            level: Level::Default,
            scale: Scale { sampled: n as u64, segment_log2: SEGMENT_LOG2 },
        },
    };
    let most = |usual| match target.level {
        Level::Max => usize::from(FLAG_CONTEXTS_MAX),
        Level::Fast => FAST_CONTEXTS,
        _ => usual,
    };
    let (where_changed, changed_bits) = flags.choose(base, &bits, most(CHANGED_CONTEXTS));
    let uncommon = uncommon_bits(isa, &rules, changed);
    let (uncommon, uncommon_bits) =
        flags.choose(&own_base[..len], &uncommon, most(UNCOMMON_CONTEXTS));
    total += changed_bits + uncommon_bits;
    let segment_len = (total << SEGMENT_LOG2) / (8 * n as u64);
    let has_lengths = segment_len >= LENGTHS_MIN;
    let (changed, uncommon) = (where_changed, Some(uncommon));
    Some(ChangeCandidate {
        recipe: ChangeRecipe { rules, coder, has_lengths, changed, uncommon },
        bits: total,
    })
}

/// Which of the values that differ have a symbol that is not 0.
fn uncommon_bits(isa: Isa, rules: &BinRules, changed: Block) -> Vec<u64> {
    let n = changed.bytes.len() >> rules.width_log2;
    let (mut plane, mut records) = (vec![0; n], vec![0; n * usize::from(rules.raw_bytes)]);
    let (mut payload, mut exceptions) = (BitString::default(), Vec::new());
    payload.clear(8 * n);
    let (plane_out, records) = (&mut plane[..], &mut records[..]);
    let parts =
        Parts { plane: plane_out, records, payload: &mut payload, exceptions: &mut exceptions };
    let base = changed.base.unwrap_or_default();
    cut(isa, &Tables::of_changes(rules), changed.bytes, base, parts);
    let (mut own_flags, mut others) = (Vec::new(), Vec::new());
    flags::take_out(isa, 0, &plane, &mut own_flags, &mut others);
    own_flags.resize(8 * groups(n), 0);
    own_flags.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect()
}

/// Chooses contexts and coders of flags.
#[derive(Clone, Copy)]
struct FlagPlanner<'a> {
    isa: Isa,
    rule: ContextRule<'a>,
    streams: StreamPlanner,
}

/// Neighbouring exponents, from `low` on, and how many flags of their values are clear and set.
struct Context {
    low: u8,
    counts: [u32; 2],
}

impl Context {
    fn joined(&self, other: &Self) -> [u32; 2] {
        [self.counts[0] + other.counts[0], self.counts[1] + other.counts[1]]
    }
}

impl FlagPlanner<'_> {
    /// At most `most` contexts for values with this base and these flags, and the cost of the
    /// flags.
    fn choose(self, base: &[u8], bits: &[u64], most: usize) -> (FlagContexts, u64) {
        let bounds = self.bounds(base, bits, most);
        let n = base.len() >> self.rule.width_log2;
        let mut own_masks = vec![0; groups(n) * bounds.len()];
        masks(self.isa, ContextRule { bounds: &bounds, ..self.rule }, base, &mut own_masks);
        let mut strings: Vec<BitString> = Vec::new();
        strings.resize_with(bounds.len() + 1, BitString::default);
        strings.iter_mut().for_each(|string| string.clear(n.next_multiple_of(64)));
        sort(self.isa, &own_masks, n, bits, &mut strings);
        let choices: Vec<_> = strings
            .iter_mut()
            .map(|string| self.streams.choose_flags(&PlaneStats::of(string.finish())))
            .collect();
        let total = choices.iter().map(|choice| choice.bits).sum();
        let coders = choices.into_iter().map(|choice| choice.coder).collect();
        (FlagContexts { bounds, coders }, total)
    }

    fn bounds(self, base: &[u8], bits: &[u64], most: usize) -> Vec<u8> {
        let exponents =
            Exponents { width_log2: self.rule.width_log2, bits: self.rule.exponent_bits };
        let first = usize::from(self.rule.exponent_first);
        let above = |exponent: usize| exponent.saturating_sub(first).min(255);
        // First counts all as clear, then corrects those that are set.
        let mut counts = [[0_u32; 2]; 256];
        for (exponent, count) in exponents.counts(base).into_iter().enumerate() {
            counts[above(exponent)][0] += count;
        }
        exponents.each_set(base, bits, |exponent| {
            let [clear, set] = &mut counts[above(exponent)];
            (*clear, *set) = (*clear - 1, *set + 1);
        });
        let mut contexts: Vec<Context> = (0..=255)
            .zip(counts)
            .filter(|(_, counts)| *counts != [0, 0])
            .map(|(low, counts)| Context { low, counts })
            .collect();
        let cost = |a: &Context, b: &Context| {
            let apart = entropy_bits(&a.counts) + entropy_bits(&b.counts);
            entropy_bits(&a.joined(b)).saturating_sub(apart)
        };
        merge(&mut contexts, most, CONTEXT_BITS, cost, |a, b| a.counts = a.joined(&b));
        contexts.iter().skip(1).map(|context| context.low).collect()
    }
}
