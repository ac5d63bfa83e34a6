//! Plans recipes by bins whose symbols are coded with rANS, with a table for each context. The bins
//! are narrow, so that the tables know how differences are distributed within a range that would
//! otherwise be one wider bin.

use super::cost::entropy_bits;
use super::merge::merge;
use super::on_base::BinCandidate;
use super::sample::sample;
use super::spread::{Differences, Spread, Widths};
use super::{Block, Target};
use crate::bins::{BinBuffers, BinCut};
use crate::entropy::rans;
use crate::simd::Isa;
use crate::simd::bins::{EXCEPTION, FLIP, Tables, contexts};
use lmc_format::limits::{BIN_MAX, RANS_CONTEXTS_MAX, SEGMENT_LOG2_MAX};
use lmc_format::{Bin, BinRecipe, BinRules, ContextTables, SymbolCoder};

/// The share of all values that tables are made from, and the largest and least number of them.
const COUNTED_SHARE: usize = 4;
const COUNTED_MAX: usize = 1 << 18;
const COUNTED_MIN: usize = 1 << 15;
/// Bits that a symbol takes in a table.
const TABLE_SYMBOL_BITS: u64 = 4;
/// A symbol is left out of a table if it is rarer than this: the least frequency that it could have
/// takes more from the others than storing its values as exceptions does.
const RARE_SHARE: u64 = 40_000;
/// A count is treated as random if the square of its distance from the usual count is less than
/// this many times the usual count: two standard deviations.
const CHANCE: u64 = 4;

/// The cheapest recipe for `values` with a base, by their `sample`; None if there are none.
pub(super) fn choose(
    isa: Isa,
    target: Target,
    sample: Block,
    values: Block,
) -> Option<BinCandidate> {
    let width_log2 = target.layout.width_log2;
    let sampled = sample.bytes.len() >> width_log2;
    let all = values.bytes.len() >> width_log2;
    if sampled == 0 {
        return None;
    }
    let differences = Differences::new(target, sample);
    let raw_bytes = differences.raw_bytes;
    let exponent_first = differences.first_exponent();
    // Accounts for a symbol in a table, and for a sample making entropies too small.
    let symbol_bits = 1 + TABLE_SYMBOL_BITS * sampled as u64 / all as u64;
    let exception_bits = 8 * ((1 << width_log2) - u64::from(raw_bytes));
    let costs = Costs { symbol_bits, exception_bits };
    let spreads = differences.spreads(exponent_first, Widths::Narrow);
    let (bins, bounds) = costs.fit(&spreads);
    let rules = BinRules {
        width_log2,
        is_integer: target.is_integer(),
        raw_bytes,
        segment_log2: SEGMENT_LOG2_MAX,
        exponent_bits: target.base_bits(),
        exponent_first,
        bins,
        bounds: Vec::new(),
        rows: Vec::new(),
    };
    let wanted = (all / COUNTED_SHARE).clamp(COUNTED_MIN, COUNTED_MAX);
    let counted = Counted::new(isa, &rules, &bounds, values, wanted);
    let tables = counted.histograms.iter().map(rans::build).collect::<Option<_>>()?;
    let tables = ContextTables::new(bounds, tables).ok()?;
    let symbol_bits = counted.cost(&tables)?;
    let exceptions: u64 = counted.exceptions() * exception_bits;
    let coded_bits = symbol_bits + exceptions + counted.payload_bits;
    let raw_bits = 8 * u64::from(raw_bytes) * sampled as u64;
    let recipe = BinRecipe { rules, symbols: SymbolCoder::ByContext(tables) };
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    let bits = coded_bits * sampled as u64 / counted.len as u64
        + raw_bits
        + 8 * bytes.len() as u64 * sampled as u64 / all as u64;
    Some(BinCandidate { recipe, bits })
}

/// Costs in bits of a sample.
struct Costs {
    /// A symbol that a table has.
    symbol_bits: u64,
    /// An exception, in addition to its symbol.
    exception_bits: u64,
}

/// Neighbouring exponents that share a table.
struct Context {
    first: u8,
    counts: [u32; 256],
    bits: u64,
}

impl Costs {
    /// Bits of symbols with these counts, and of their table.
    fn of(&self, counts: &[u32; 256]) -> u64 {
        let symbols = counts.iter().filter(|&&count| count > 0).count() as u64;
        entropy_bits(counts) + symbols * self.symbol_bits
    }

    /// The bin of each exponent, and the bounds of contexts.
    fn fit(&self, spreads: &[Spread]) -> (Vec<Bin>, Vec<u8>) {
        let mut bins = vec![Bin::default(); spreads.len()];
        let mut contexts: Vec<Context> = Vec::new();
        for (first, (spread, bin)) in (0..).zip(spreads.iter().zip(&mut bins)) {
            if spread.count == 0 {
                continue;
            }
            let tried = spread.shifts().map(|shift| {
                let bin = Bin { shift, ..Bin::default() };
                let counts = spread.symbols(bin);
                let exceptions = u64::from(counts[usize::from(EXCEPTION)]) * self.exception_bits;
                let payload = u64::from(spread.count) * u64::from(bin.payload_bits());
                let bits = self.of(&counts);
                (bits + exceptions + payload, bin, Context { first, counts, bits })
            });
            if let Some((_, best, context)) = tried.min_by_key(|&(bits, ..)| bits) {
                *bin = best;
                contexts.push(context);
            }
        }
        fill_gaps(spreads, &mut bins);
        let joined = |a: &Context, b: &Context| -> [u32; 256] {
            std::array::from_fn(|i| a.counts[i] + b.counts[i])
        };
        let cost =
            |a: &Context, b: &Context| self.of(&joined(a, b)).saturating_sub(a.bits + b.bits);
        merge(&mut contexts, RANS_CONTEXTS_MAX, 1, cost, |a, b| {
            a.counts = joined(a, &b);
            a.bits = self.of(&a.counts);
        });
        let bounds = contexts.iter().skip(1).map(|context| context.first).collect();
        (bins, bounds)
    }
}

/// How often each symbol occurs in each context, among some of all values.
struct Counted {
    histograms: Vec<[u32; 256]>,
    payload_bits: u64,
    len: usize,
}

impl Counted {
    fn new(isa: Isa, rules: &BinRules, bounds: &[u8], values: Block, wanted: usize) -> Self {
        let width = rules.width();
        let bytes = sample(values.bytes, width, wanted);
        let base = sample(values.base.unwrap_or_default(), width, wanted);
        let len = bytes.len() / width;
        let cut = BinCut::new(Tables::new(rules));
        let mut buffers = BinBuffers::default();
        cut.cut(isa, &bytes, &base, &mut buffers, &mut Vec::new());
        let mut own = vec![0; len];
        contexts(isa, &Tables::new(rules), bounds, &base, &mut own);
        let mut histograms = vec![[0; 256]; bounds.len() + 1];
        for (&context, &symbol) in own.iter().zip(&buffers.plane[..len]) {
            histograms[usize::from(context)][usize::from(symbol)] += 1;
        }
        histograms.iter_mut().for_each(cut_off_rare);
        let payload_bits = buffers.payload_bits();
        Self { histograms, payload_bits, len }
    }

    fn exceptions(&self) -> u64 {
        self.histograms.iter().map(|counts| u64::from(counts[usize::from(EXCEPTION)])).sum()
    }

    /// Bits of the symbols with `tables`.
    fn cost(&self, tables: &ContextTables) -> Option<u64> {
        let pairs = self.histograms.iter().zip(tables.tables());
        pairs.map(|(counts, table)| rans::cost_bits(table, counts)).sum()
    }
}

/// Makes exceptions of steps at both ends that are too rare for a code. All other steps get a code,
/// because steps that were not counted may still occur.
fn cut_off_rare(counts: &mut [u32; 256]) {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let mut kept = [0; 256];
    for flip in [0, FLIP] {
        let place = |step: i64| usize::from(step as u8 ^ flip);
        let is_common = |step: &i64| u64::from(counts[place(*step)]) * RARE_SHARE >= total;
        let mut common = (-BIN_MAX..BIN_MAX).filter(is_common);
        let Some(first) = common.next() else { continue };
        let last = common.next_back().unwrap_or(first);
        for step in first..=last {
            let around = [step - 1, step, step, step + 1].map(|step| step.clamp(first, last));
            let around = around.map(|step| counts[place(step)]);
            kept[place(step)] =
                smoothed(counts[place(step)], around.iter().sum::<u32>() / 4).max(1);
        }
    }
    let kept_sum: u64 = kept.iter().map(|&count| u64::from(count)).sum();
    kept[usize::from(EXCEPTION)] = (total.saturating_sub(kept_sum) as u32).max(1);
    *counts = kept;
}

/// The smoothed count of a symbol that occurred `count` times while its neighbours occurred `usual`
/// times. It is the usual count if the difference may be random.
fn smoothed(count: u32, usual: u32) -> u32 {
    let apart = u64::from(count.abs_diff(usual));
    if apart * apart < CHANCE * u64::from(usual) { usual } else { count }
}

/// Gives exponents that no value of the sample has the bin of the next exponent that occurs.
pub(super) fn fill_gaps(spreads: &[Spread], bins: &mut [Bin]) {
    let known: Vec<usize> = (0..bins.len()).filter(|&i| spreads[i].count > 0).collect();
    for i in 0..bins.len() {
        let next = known.partition_point(|&k| k < i);
        if let Some(&near) = known.get(next).or(known.last()) {
            bins[i] = bins[near];
        }
    }
}
