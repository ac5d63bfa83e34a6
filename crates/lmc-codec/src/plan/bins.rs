//! Plans recipes by bins: how wide the bins are for each exponent of the base, where their centre
//! is, and which symbols are common in each context. All choices are made by coded cost on a
//! sample.

use super::by_context::fill_gaps;
use super::cost::{PARTS, entropy_bits, symbol_cost};
use super::merge::merge;
use super::spread::{Differences, NUMBERS, Numbers, Spread, Widths};
use super::{Block, Target};
use crate::entropy::{chain, tree};
use crate::simd::bins::EXCEPTION;
use crate::spec::Level;
use lmc_format::limits::{BIN_CENTRE_MAX, BIN_MAX, BIN_PAYLOAD_BITS_MAX, CHAIN_LEVELS_MAX};
use lmc_format::{Bin, BinRecipe, BinRules, ChainTable, Coder, SymbolCoder};
use std::ops::Range;

/// log2 of the values in a segment: its planes stay in the L1 cache.
const SEGMENT_LOG2: u8 = 14;
/// The same with a tree, whose short nodes take as long as longer ones.
const TREE_SEGMENT_LOG2: u8 = 16;
/// A tree is tried if a chain exceeds the entropy of its symbols by one bit in this many. It is
/// used if it saves one in the second number of all bits: it is slower when there are few symbols.
const TREE_TRIED_SHARE: u64 = 24;
const TREE_SHARE: u64 = 128;
/// Number of times that bins and a tree are fitted to each other, starting from bins fitted to a
/// chain.
const TREE_ROUNDS: usize = 2;
/// The largest number of rows: more gain almost nothing.
const ROWS_MAX: usize = 6;
/// Cost of a row, in bits of a sample.
const ROW_BITS: u64 = 24;
/// Number of times that bins and code are fitted to each other.
const ROUNDS: usize = 3;

/// Levels of a chain at the fastest level.
const FAST_LEVELS_MAX: usize = 8;

/// Rules and a code for their symbols, with the cost on the sample.
pub(super) struct Fitted {
    pub rules: BinRules,
    pub coder: Coder,
    pub bits: u64,
}

impl Fitted {
    /// The recipe of both.
    pub(super) fn recipe(self) -> BinRecipe {
        BinRecipe { rules: self.rules, symbols: SymbolCoder::One(self.coder) }
    }
}

/// Which values the recipe is chosen for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FittedValues {
    /// Any values.
    All,
    /// Values that differ from their base; flags say whether a symbol is 0.
    Changed,
}

/// The cheapest recipe for a sample of values and their base; None if there are no values.
pub(super) fn choose(target: Target, sample: Block) -> Option<Fitted> {
    (!sample.bytes.is_empty()).then(|| fit(target, sample, FittedValues::All))
}

/// The same for values that all differ from their base; there may be none. The cost leaves out the
/// flags of symbols that are not 0.
pub(super) fn fit_changes(target: Target, sample: Block) -> Fitted {
    fit(target, sample, FittedValues::Changed)
}

fn fit(target: Target, sample: Block, wanted: FittedValues) -> Fitted {
    let mut differences = Differences::new(target, sample);
    let raw_bytes = differences.raw_bytes;
    if wanted == FittedValues::Changed && raw_bytes == 0 {
        differences.skip_zero();
    }
    let is_fast = target.level == Level::Fast;
    let fitting = Fitting {
        wanted,
        levels_max: if is_fast { FAST_LEVELS_MAX } else { CHAIN_LEVELS_MAX },
        has_rows: !is_fast || wanted == FittedValues::Changed,
        exception_bits: 8 * ((1 << target.layout.width_log2) - u64::from(raw_bytes)),
    };
    let exponent_first = differences.first_exponent();
    let raw_bits = 8 * differences.len() as u64 * u64::from(raw_bytes);
    let spreads = differences.spreads(exponent_first, Widths::Usual);
    let (fit, coder, bits) = fitting.best(&spreads);
    let Fit { bins, bounds, rows, .. } = fit;
    let mut rules = BinRules {
        width_log2: target.layout.width_log2,
        is_integer: target.is_integer(),
        raw_bytes,
        segment_log2: match coder {
            Coder::Tree(_) => TREE_SEGMENT_LOG2 + u8::from(target.layout.width_log2 == 0),
            _ => SEGMENT_LOG2,
        },
        exponent_bits: target.base_bits(),
        exponent_first,
        bins,
        bounds,
        rows,
    };
    leave_out_repeated(&mut rules);
    Fitted { rules, coder, bits: bits + raw_bits }
}

/// Fits bins and a code for their symbols to each other.
struct Fitting {
    wanted: FittedValues,
    levels_max: usize,
    has_rows: bool,
    /// Stored bits of an exception.
    exception_bits: u64,
}

impl Fitting {
    /// The bins and the code that cost least, with their cost.
    fn best<'a>(&self, spreads: &'a [Spread]) -> (Fit<'a>, Coder, u64) {
        let mut fit = Fit::new(spreads);
        let chain =
            |symbols| Lengths::of(self.wanted, symbols, |symbols| self.chain_lengths(symbols));
        self.refine(&mut fit, ROUNDS, chain);
        let symbols = self.coded_symbols(&fit);
        let table = chain::build(&symbols, self.levels_max);
        let chain_bits = chain::cost_bits(&table, &symbols);
        let (coder, bits) = (Coder::Chain(table), chain_bits + self.other_bits(&fit, &symbols));
        // These bits do not include the code of the flags that come with changes.
        let least = entropy_bits(&symbols) * (TREE_TRIED_SHARE + 1) / TREE_TRIED_SHARE;
        if self.wanted == FittedValues::Changed || chain_bits <= least {
            return (fit, coder, bits);
        }
        match self.with_tree(&fit) {
            Some(tree) if tree.2 + bits / TREE_SHARE < bits => tree,
            _ => (fit, coder, bits),
        }
    }

    /// Bins like those of `fit`, fitted to a tree; None if they have fewer than two symbols.
    fn with_tree<'a>(&self, fit: &Fit<'a>) -> Option<(Fit<'a>, Coder, u64)> {
        let mut fit = Fit { bounds: Vec::new(), rows: Vec::new(), ..fit.clone() };
        let lengths = |symbols| Lengths::of(self.wanted, symbols, tree_lengths);
        self.refine(&mut fit, TREE_ROUNDS, lengths);
        let symbols = self.coded_symbols(&fit);
        let table = tree::build(&symbols)?;
        let bits = tree::cost_bits(&table, &symbols)? + self.other_bits(&fit, &symbols);
        Some((fit, Coder::Tree(Box::new(table)), bits))
    }

    fn refine(&self, fit: &mut Fit, rounds: usize, lengths: impl Fn([u32; 256]) -> Lengths) {
        for _ in 0..rounds {
            fit.refine(&lengths(fit.symbols()));
        }
        if self.has_rows {
            fit.add_rows(&lengths(fit.symbols()));
        }
    }

    /// How often each symbol occurs that is coded as such.
    fn coded_symbols(&self, fit: &Fit) -> [u32; 256] {
        let mut symbols = fit.symbols();
        if self.wanted == FittedValues::Changed {
            symbols[0] = 0;
        }
        symbols
    }

    /// Bits of everything except the symbols.
    fn other_bits(&self, fit: &Fit, symbols: &[u32; 256]) -> u64 {
        let exceptions = u64::from(symbols[usize::from(EXCEPTION)]);
        fit.payload_bits() + exceptions * self.exception_bits
    }

    fn chain_lengths(&self, symbols: &[u32; 256]) -> [u32; 256] {
        code_lengths(&chain::build(symbols, self.levels_max))
    }
}

/// Removes bins at both ends that are equal to their neighbours: all exponents below the first have
/// the bin of the first, and all above the last have the bin of the last.
fn leave_out_repeated(rules: &mut BinRules) {
    let BinRules { bins, bounds, exponent_first, .. } = rules;
    while let [.., a, b] = bins[..] {
        if a != b || bounds.last().is_some_and(|&bound| usize::from(bound) + 1 >= bins.len()) {
            break;
        }
        bins.pop();
    }
    let is_repeated = |pair: &[Bin]| pair[0] == pair[1];
    let repeated = bins.windows(2).take_while(|pair| is_repeated(pair)).count();
    let first_bound = bounds.first().map_or(repeated, |&bound| usize::from(bound) - 1);
    let count = repeated.min(first_bound);
    bins.drain(..count);
    bounds.iter_mut().for_each(|bound| *bound -= count as u8);
    *exponent_first += count as u16;
}

/// Lengths of each symbol, in bits or fractions of a bit.
struct Lengths {
    /// The length of one bit.
    unit: u32,
    /// By number, starting from the smallest number minus the farthest centre: for values that keep
    /// their sign, and for those that do not.
    by_number: [[u32; NUMBERS + 2 * BIN_CENTRE_MAX as usize]; 2],
    /// Length of an exception, with its stored bits.
    exception: u32,
    by_symbol: [u32; 256],
}

impl Lengths {
    /// Lengths of the best code for symbols with these counts; `code_lengths` makes it.
    fn of(
        wanted: FittedValues,
        mut symbols: [u32; 256],
        code_lengths: impl Fn(&[u32; 256]) -> [u32; 256],
    ) -> Self {
        if wanted == FittedValues::All {
            return Self::new(1, code_lengths(&symbols));
        }
        let common = std::mem::take(&mut symbols[0]);
        let others: u32 = symbols.iter().sum();
        let flag = |count| symbol_cost(count, common + others);
        let mut by_symbol = code_lengths(&symbols);
        by_symbol.iter_mut().for_each(|bits| *bits = *bits * PARTS + flag(others));
        by_symbol[0] = flag(common);
        Self::new(PARTS, by_symbol)
    }

    fn new(unit: u32, by_symbol: [u32; 256]) -> Self {
        let by_number = [0, 0x80].map(|flip| {
            std::array::from_fn(|i| {
                let number = i as i64 - BIN_MAX - i64::from(BIN_CENTRE_MAX);
                by_symbol[usize::from(number as u8 ^ flip)]
            })
        });
        let exception = by_symbol[usize::from(EXCEPTION)] + 16 * unit;
        Self { unit, by_number, exception, by_symbol }
    }

    /// The bin of differences that costs least.
    fn best_bin(&self, spread: &Spread) -> Bin {
        let mut best = (u64::MAX, Bin::default());
        for (shift, numbers) in (spread.narrowest..).zip(&spread.numbers) {
            let Numbers { counts: [kept, flipped], used, .. } = numbers;
            let mut all = [0; NUMBERS];
            used.clone().for_each(|i| all[i] = kept[i] + flipped[i]);
            let middle = used.clone().max_by_key(|&i| all[i]).unwrap_or(0) as i64 - BIN_MAX;
            let outside = u64::from(numbers.outside) * u64::from(self.exception);
            let most = i64::from(BIN_CENTRE_MAX);
            let mut tried = [0, middle - 1, middle, middle + 1].map(|c| c.clamp(-most, most));
            tried.sort_unstable();
            for (i, &centre) in tried.iter().enumerate() {
                if tried[..i].last() == Some(&centre) {
                    continue;
                }
                for has_flip_bit in [false, true] {
                    let bin = Bin { shift, has_flip_bit, centre: centre as i8 };
                    if bin.payload_bits() > BIN_PAYLOAD_BITS_MAX {
                        continue;
                    }
                    let coded = match has_flip_bit {
                        true => self.cost(0, centre, &all, used),
                        false => {
                            self.cost(0, centre, kept, used) + self.cost(1, centre, flipped, used)
                        }
                    };
                    let payload_bits = u64::from(bin.payload_bits()) * u64::from(self.unit);
                    let payload = u64::from(spread.count) * payload_bits;
                    let cost = coded + payload + outside;
                    if cost < best.0 {
                        best = (cost, bin);
                    }
                }
            }
        }
        best.1
    }

    /// Bits of numbers with these counts.
    fn cost(
        &self,
        is_flipped: usize,
        centre: i64,
        counts: &[u32; NUMBERS],
        used: &Range<usize>,
    ) -> u64 {
        let from = (i64::from(BIN_CENTRE_MAX) - centre) as usize;
        let lengths = &self.by_number[is_flipped][from..from + NUMBERS][used.clone()];
        // A sample has fewer than 2^20 values.
        let costs = counts[used.clone()].iter().zip(lengths).map(|(&count, &bits)| count * bits);
        costs.map(u64::from).sum()
    }
}

/// Bits of each symbol in a chain.
fn code_lengths(table: &ChainTable) -> [u32; 256] {
    let all: u32 = table.widths().iter().map(|&width| u32::from(width)).sum();
    let mut by_symbol = [all + 8; 256];
    let mut symbols = table.symbols().iter();
    let mut bits = 0;
    for &width in table.widths() {
        bits += u32::from(width);
        for &symbol in symbols.by_ref().take((1 << width) - 1) {
            let own = &mut by_symbol[usize::from(symbol)];
            *own = bits.min(*own);
        }
    }
    by_symbol
}

/// Bits of each symbol in a tree; 8 bits each if there are too few symbols for a tree.
fn tree_lengths(symbols: &[u32; 256]) -> [u32; 256] {
    let Some(table) = tree::build(symbols) else { return [8; 256] };
    let escaped = u32::from(table.escape()) + 8;
    table.lengths().map(|length| if length == 0 { escaped } else { length.into() })
}

/// A recipe that is being fitted.
#[derive(Clone)]
struct Fit<'a> {
    /// By exponent.
    spreads: &'a [Spread],
    bins: Vec<Bin>,
    bounds: Vec<u8>,
    rows: Vec<[u8; 16]>,
}

impl<'a> Fit<'a> {
    /// Bins chosen only by the usual size of differences.
    fn new(spreads: &'a [Spread]) -> Self {
        let bin = |spread: &Spread| {
            let flipped: u32 = spread.numbers[0].counts[1].iter().sum();
            let has_flip_bit = 7 * flipped > spread.count;
            let most = BIN_PAYLOAD_BITS_MAX - u8::from(has_flip_bit);
            Bin { shift: (spread.narrowest + 1).min(most), has_flip_bit, centre: 0 }
        };
        let bins = spreads.iter().map(bin).collect();
        let mut fit = Self { spreads, bins, bounds: Vec::new(), rows: Vec::new() };
        fill_gaps(fit.spreads, &mut fit.bins);
        fit
    }

    /// How often each symbol occurs.
    fn symbols(&self) -> [u32; 256] {
        let mut all = [0; 256];
        for (i, (spread, &bin)) in self.spreads.iter().zip(&self.bins).enumerate() {
            if spread.count == 0 {
                continue;
            }
            let mut own = spread.symbols(bin);
            let row = self.bounds.iter().filter(|&&bound| usize::from(bound) <= i).count();
            if let Some(row) = self.rows.get(row) {
                let before = inner_counts(&own);
                row.iter().zip(before).for_each(|(&to, count)| own[inner(to)] = count);
            }
            all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
        }
        all
    }

    fn payload_bits(&self) -> u64 {
        let bits = |(spread, bin): (&Spread, &Bin)| {
            u64::from(spread.count) * u64::from(bin.payload_bits())
        };
        self.spreads.iter().zip(&self.bins).map(bits).sum()
    }

    /// Chooses, for each exponent, the bin that costs least with a code of these lengths.
    fn refine(&mut self, lengths: &Lengths) {
        for (bin, spread) in self.bins.iter_mut().zip(self.spreads) {
            if spread.count > 0 {
                *bin = lengths.best_bin(spread);
            }
        }
        fill_gaps(self.spreads, &mut self.bins);
    }

    /// Adds rows. Exponents whose symbols are equally common share one.
    fn add_rows(&mut self, lengths: &Lengths) {
        // Places in a row by the length of their code.
        let mut places: [u8; 16] = std::array::from_fn(|i| i as u8);
        places.sort_by_key(|&i| (lengths.by_symbol[inner(i)], i));
        let by_rank = places.map(|i| u64::from(lengths.by_symbol[inner(i)]));
        let cost = |counts: &[u32; 16]| -> u64 {
            let mut sorted = *counts;
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            sorted.iter().zip(by_rank).map(|(&count, bits)| u64::from(count) * bits).sum()
        };
        let mut contexts: Vec<Context> = Vec::new();
        for (i, (spread, &bin)) in self.spreads.iter().zip(&self.bins).enumerate() {
            if spread.count > 0 {
                let counts = inner_counts(&spread.symbols(bin));
                contexts.push(Context { first: i as u8, bits: cost(&counts), counts });
            }
        }
        let join_cost =
            |a: &Context, b: &Context| cost(&a.joined(b)).saturating_sub(a.bits + b.bits);
        let least = ROW_BITS * u64::from(lengths.unit);
        merge(&mut contexts, ROWS_MAX, least, join_cost, |a, b| {
            a.counts = a.joined(&b);
            a.bits = cost(&a.counts);
        });
        let row = |context: &Context| {
            let mut order: [u8; 16] = std::array::from_fn(|i| i as u8);
            order.sort_by_key(|&i| (std::cmp::Reverse(context.counts[usize::from(i)]), i));
            let mut row = [0; 16];
            order.iter().zip(places).for_each(|(&from, to)| row[usize::from(from)] = to);
            row
        };
        self.rows = contexts.iter().map(row).collect();
        self.bounds = contexts.iter().skip(1).map(|context| context.first).collect();
    }
}

/// Neighbouring exponents that share a row.
struct Context {
    first: u8,
    /// How often each symbol around the centre occurs, by its place in a row.
    counts: [u32; 16],
    bits: u64,
}

impl Context {
    fn joined(&self, other: &Self) -> [u32; 16] {
        std::array::from_fn(|i| self.counts[i] + other.counts[i])
    }
}

/// The symbol around the centre with this place in a row.
fn inner(place: u8) -> usize {
    let number = (place << 5) as i8 >> 5;
    usize::from(number as u8 ^ if place >= 8 { 0x80 } else { 0 })
}

fn inner_counts(symbols: &[u32; 256]) -> [u32; 16] {
    std::array::from_fn(|place| symbols[inner(place as u8)])
}
