//! Recipes by bins: how wide the bins are for each exponent of the base, where their centre is, and
//! which symbols are common in each context. Everything by coded cost on a sample.

use super::{Target, Values};
use crate::dtype::Level;
use crate::entropy::chain;
use crate::simd::bins::EXCEPTION;
use lmc_format::limits::{
    BIN_CENTRE_MAX, BIN_MAX, BIN_PAYLOAD_BITS_MAX, BINS_MAX, CHAIN_LEVELS_MAX,
};
use lmc_format::{Bin, BinRecipe, ChainTable, Coder};
use std::ops::Range;

/// log2 of the values in a segment: its planes stay in the first-level cache.
const SEGMENT_LOG2: u8 = 14;
/// Rows: more gain next to nothing.
const ROWS_MAX: usize = 6;
/// What a row costs, in bits of a sample.
const ROW_BITS: u64 = 24;
/// One difference in this many may be too large for a bin.
const EXCEPTIONS_SHARE: usize = 256;
/// Times that bins and code are fitted to each other.
const ROUNDS: usize = 3;
/// Widths of bins that are tried for an exponent.
const WIDTHS: usize = 4;
/// Numbers that bins have.
const NUMBERS: usize = 2 * BIN_MAX as usize;
/// Exponents of the base that have bins of their own.
const EXPONENTS: usize = BINS_MAX as usize;

/// A recipe with its cost on the sample.
pub(super) struct BinCandidate {
    pub recipe: BinRecipe,
    pub bits: u64,
}

/// The cheapest recipe for a sample of values and their base; None if there are no values.
pub(super) fn choose(target: Target, sample: Values) -> Option<BinCandidate> {
    let mut differences = Differences::new(target, sample)?;
    let raw_bytes = differences.cut_raw(target.layout.width_log2);
    let exponent_bits = target.layout.exponent_bits;
    let first = differences.first_exponent(exponent_bits);
    let levels_max = if target.level == Level::Fast { 8 } else { CHAIN_LEVELS_MAX };
    let mut fit = Fit::new(first, &differences);
    for _ in 0..ROUNDS {
        fit.refine(&code_lengths(&chain::build(&fit.symbols(), levels_max)));
    }
    if target.level != Level::Fast {
        fit.add_rows(&code_lengths(&chain::build(&fit.symbols(), levels_max)));
    }
    let symbols = fit.symbols();
    let table = chain::build(&symbols, levels_max);
    let n = differences.coded.len() as u64;
    let exceptions = u64::from(symbols[usize::from(EXCEPTION)]);
    let exception_bits = 8 * ((1 << target.layout.width_log2) - u64::from(raw_bytes));
    let bits = chain::cost_bits(&table, &symbols)
        + fit.payload_bits()
        + exceptions * exception_bits
        + 8 * n * u64::from(raw_bytes);
    let Fit { bins, bounds, rows, .. } = fit;
    let mut recipe = BinRecipe {
        width_log2: target.layout.width_log2,
        raw_bytes,
        segment_log2: SEGMENT_LOG2,
        exponent_bits,
        exponent_first: first,
        bins,
        bounds,
        rows,
        coder: Coder::Chain(table),
    };
    leave_out_repeated(&mut recipe);
    Some(BinCandidate { recipe, bits })
}

/// Leaves out bins at both ends that are like the ones next to them: all exponents below the first
/// have its bin, and all above the last one have that.
fn leave_out_repeated(recipe: &mut BinRecipe) {
    let BinRecipe { bins, bounds, exponent_first, .. } = recipe;
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

/// The values of a sample, set against their base.
struct Differences {
    exponents: Vec<u16>,
    /// Twice the difference, and one more if the sign changed.
    coded: Vec<i64>,
}

impl Differences {
    fn new(target: Target, sample: Values) -> Option<Self> {
        let base = sample.base.filter(|base| !base.is_empty())?;
        let exponent_bits = u32::from(target.layout.exponent_bits);
        macro_rules! set_apart {
            ($word:ty, $len:literal) => {{
                let magnitudes = <$word>::MAX >> 1;
                let shift = <$word>::BITS - 1 - exponent_bits;
                let (values, bases) = (sample.bytes.as_chunks::<$len>().0, base.as_chunks().0);
                let word = |bytes: &[u8; $len]| <$word>::from_le_bytes(*bytes);
                let exponents = bases.iter().map(|b| ((word(b) & magnitudes) >> shift) as u16);
                let coded = values.iter().zip(bases).map(|(x, b)| {
                    let (x, b) = (word(x), word(b));
                    let apart = (x & magnitudes) as i64 - (b & magnitudes) as i64;
                    apart << 1 | ((x ^ b) >> (<$word>::BITS - 1)) as i64
                });
                Self { exponents: exponents.collect(), coded: coded.collect() }
            }};
        }
        Some(match target.layout.width_log2 {
            0 => set_apart!(u8, 1),
            1 => set_apart!(u16, 2),
            2 => set_apart!(u32, 4),
            _ => set_apart!(u64, 8),
        })
    }

    /// Takes off low bytes, which are to stand raw: as few as leave hardly a difference outside of the
    /// widest bins. Returns how many.
    fn cut_raw(&mut self, width_log2: u8) -> u8 {
        let few = |raw_bytes: &u8| {
            let most = (BIN_MAX as u64) << BIN_PAYLOAD_BITS_MAX << (8 * raw_bytes);
            let is_outside = |&&coded: &&i64| (coded >> 1).unsigned_abs() > most;
            self.coded.iter().filter(is_outside).count() * EXCEPTIONS_SHARE <= self.coded.len()
        };
        let all = (1 << width_log2) - 1;
        let raw_bytes = (0..all).find(few).unwrap_or(all);
        if raw_bytes > 0 {
            let half = 1 << (8 * raw_bytes - 1);
            for coded in &mut self.coded {
                *coded = ((*coded >> 1) + half) >> (8 * raw_bytes) << 1 | *coded & 1;
            }
        }
        raw_bytes
    }

    /// The first of the exponents that have bins of their own: those that most values have.
    fn first_exponent(&self, exponent_bits: u8) -> u16 {
        let mut counts = vec![0_u32; 1 << exponent_bits];
        self.exponents.iter().for_each(|&exponent| counts[usize::from(exponent)] += 1);
        let window = EXPONENTS.min(counts.len());
        let mut inside: u32 = counts[..window].iter().sum();
        let (mut best, mut first) = (inside, 0);
        for start in 1..=counts.len() - window {
            inside = inside + counts[start + window - 1] - counts[start - 1];
            if inside > best {
                (best, first) = (inside, start);
            }
        }
        first as u16
    }

    /// The differences by exponent, one behind the other, and where those of each one are.
    fn sorted(&self, first: u16) -> (Vec<i64>, Vec<Range<usize>>) {
        let bin = |exponent: u16| usize::from(exponent.saturating_sub(first)).min(EXPONENTS - 1);
        let mut ends = [0; EXPONENTS];
        self.exponents.iter().for_each(|&exponent| ends[bin(exponent)] += 1);
        let mut start = 0;
        let ranges: Vec<Range<usize>> = ends
            .iter()
            .map(|&count| {
                start += count;
                start - count..start
            })
            .collect();
        let mut next: Vec<usize> = ranges.iter().map(|range| range.start).collect();
        let mut sorted = vec![0; self.coded.len()];
        for (&exponent, &coded) in self.exponents.iter().zip(&self.coded) {
            let place = &mut next[bin(exponent)];
            sorted[*place] = coded;
            *place += 1;
        }
        (sorted, ranges)
    }
}

/// How many differences of one exponent have each number, with bins of one width.
#[derive(Clone)]
struct Numbers {
    /// Those that keep their sign, and those that do not.
    counts: [[u32; NUMBERS]; 2],
    outside: u32,
}

/// The differences of one exponent.
struct Spread {
    count: u32,
    /// log2 of the narrowest bins that are tried.
    narrowest: u8,
    /// With bins of each width that is tried.
    numbers: Vec<Numbers>,
}

impl Spread {
    fn new(coded: &[i64]) -> Self {
        // How many bits half of all differences have at most.
        let mut sizes = [0_u32; 65];
        for &coded in coded {
            sizes[64 - (coded >> 1).unsigned_abs().leading_zeros() as usize] += 1;
        }
        let mut seen = 0;
        let usual = sizes.iter().position(|&count| {
            seen += count;
            2 * seen >= coded.len() as u32
        });
        let usual = usual.unwrap_or(0) as u8;
        // Bins of twice the usual difference cost two bits and a half.
        let narrowest = usual.saturating_sub(1).min(BIN_PAYLOAD_BITS_MAX - 1);
        let widest = (narrowest + WIDTHS as u8 - 1).min(BIN_PAYLOAD_BITS_MAX);
        let shifts = narrowest..=if coded.is_empty() { narrowest } else { widest };
        let numbers = shifts.map(|shift| {
            let mut numbers = Numbers { counts: [[0; NUMBERS]; 2], outside: 0 };
            let half = (1 << shift) >> 1;
            for &coded in coded {
                let number = (((coded >> 1) + half) >> shift) + BIN_MAX;
                match numbers.counts[(coded & 1) as usize].get_mut(number as usize) {
                    Some(count) => *count += 1,
                    None => numbers.outside += 1,
                }
            }
            numbers
        });
        Self { count: coded.len() as u32, narrowest, numbers: numbers.collect() }
    }

    fn numbers(&self, shift: u8) -> &Numbers {
        let last = self.numbers.len() - 1;
        &self.numbers[usize::from(shift.saturating_sub(self.narrowest)).min(last)]
    }

    /// How often each symbol comes with a bin, before any row.
    fn symbols(&self, bin: Bin) -> [u32; 256] {
        let mut symbols = [0; 256];
        let numbers = self.numbers(bin.shift);
        for (is_flipped, counts) in numbers.counts.iter().enumerate() {
            let flip = if is_flipped == 1 && !bin.has_flip_bit { 0x80 } else { 0 };
            for (i, &count) in counts.iter().enumerate() {
                let symbol = (i as i64 - BIN_MAX - i64::from(bin.centre)) as u8 ^ flip;
                symbols[usize::from(symbol)] += count;
            }
        }
        symbols[usize::from(EXCEPTION)] += numbers.outside;
        symbols
    }

    /// The bin that costs least with a code of these lengths.
    fn best_bin(&self, lengths: &Lengths) -> Bin {
        let mut best = (u64::MAX, Bin::default());
        for (shift, numbers) in (self.narrowest..).zip(&self.numbers) {
            let [kept, flipped] = &numbers.counts;
            let all: [u32; NUMBERS] = std::array::from_fn(|i| kept[i] + flipped[i]);
            let middle = (0..NUMBERS).max_by_key(|&i| all[i]).unwrap_or(0) as i64 - BIN_MAX;
            let outside = u64::from(numbers.outside) * u64::from(lengths.exception);
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
                        true => lengths.cost(0, centre, &all),
                        false => lengths.cost(0, centre, kept) + lengths.cost(1, centre, flipped),
                    };
                    let payload = u64::from(self.count) * u64::from(bin.payload_bits());
                    let cost = coded + payload + outside;
                    if cost < best.0 {
                        best = (cost, bin);
                    }
                }
            }
        }
        best.1
    }
}

/// Bits of each symbol.
struct Lengths {
    /// By number, from the smallest one less the farthest centre on: of values that keep their sign,
    /// and of those that do not.
    by_number: [[u32; NUMBERS + 2 * BIN_CENTRE_MAX as usize]; 2],
    /// Of an exception, with what is stored of it.
    exception: u32,
    by_symbol: [u32; 256],
}

impl Lengths {
    /// Bits of numbers that come so often.
    fn cost(&self, is_flipped: usize, centre: i64, counts: &[u32; NUMBERS]) -> u64 {
        let from = (i64::from(BIN_CENTRE_MAX) - centre) as usize;
        let lengths = &self.by_number[is_flipped][from..from + NUMBERS];
        // A sample has fewer than 2^24 values.
        counts.iter().zip(lengths).map(|(&count, &bits)| u64::from(count * bits)).sum()
    }
}

fn code_lengths(table: &ChainTable) -> Lengths {
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
    let by_number = [0, 0x80].map(|flip| {
        std::array::from_fn(|i| {
            let number = i as i64 - BIN_MAX - i64::from(BIN_CENTRE_MAX);
            by_symbol[usize::from(number as u8 ^ flip)]
        })
    });
    Lengths { by_number, exception: by_symbol[usize::from(EXCEPTION)] + 16, by_symbol }
}

/// A recipe under way.
struct Fit {
    /// By exponent.
    spreads: Vec<Spread>,
    bins: Vec<Bin>,
    bounds: Vec<u8>,
    rows: Vec<[u8; 16]>,
}

impl Fit {
    /// Bins by the usual size of differences alone.
    fn new(first: u16, differences: &Differences) -> Self {
        let (sorted, ranges) = differences.sorted(first);
        let spreads: Vec<Spread> =
            ranges.into_iter().map(|range| Spread::new(&sorted[range])).collect();
        let bin = |spread: &Spread| {
            let flipped: u32 = spread.numbers[0].counts[1].iter().sum();
            let has_flip_bit = 7 * flipped > spread.count;
            let most = BIN_PAYLOAD_BITS_MAX - u8::from(has_flip_bit);
            Bin { shift: (spread.narrowest + 1).min(most), has_flip_bit, centre: 0 }
        };
        let bins = spreads.iter().map(bin).collect();
        let mut fit = Self { spreads, bins, bounds: Vec::new(), rows: Vec::new() };
        fit.fill_gaps();
        fit
    }

    /// How often each symbol comes.
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

    /// Takes for each exponent the bin that costs least with a code of these lengths.
    fn refine(&mut self, lengths: &Lengths) {
        for (bin, spread) in self.bins.iter_mut().zip(&self.spreads) {
            if spread.count > 0 {
                *bin = spread.best_bin(lengths);
            }
        }
        self.fill_gaps();
    }

    /// Gives exponents that no value of the sample has the bin of the next one that some have.
    fn fill_gaps(&mut self) {
        let known: Vec<usize> =
            (0..self.bins.len()).filter(|&i| self.spreads[i].count > 0).collect();
        for i in 0..self.bins.len() {
            let next = known.partition_point(|&k| k < i);
            if let Some(&near) = known.get(next).or(known.last()) {
                self.bins[i] = self.bins[near];
            }
        }
    }

    /// Adds rows: exponents whose symbols are as common as each other share one.
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
                contexts.push(Context { first: i as u8, bits: cost(&counts), counts, join: 0 });
            }
        }
        let join_cost = |contexts: &[Context], i: usize| match &contexts[i..] {
            [a, b, ..] => cost(&a.joined(b)).saturating_sub(a.bits + b.bits),
            _ => u64::MAX,
        };
        for i in 0..contexts.len() {
            contexts[i].join = join_cost(&contexts, i);
        }
        while contexts.len() > 1 {
            let cheapest = (0..contexts.len() - 1).min_by_key(|&i| contexts[i].join).unwrap_or(0);
            if contexts.len() <= ROWS_MAX && contexts[cheapest].join >= ROW_BITS {
                break;
            }
            let next = contexts.remove(cheapest + 1);
            contexts[cheapest].counts = contexts[cheapest].joined(&next);
            contexts[cheapest].bits = cost(&contexts[cheapest].counts);
            for i in [cheapest.saturating_sub(1), cheapest] {
                contexts[i].join = join_cost(&contexts, i);
            }
        }
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
    /// How often each symbol around the centre comes, by its place in a row.
    counts: [u32; 16],
    bits: u64,
    /// What joining the next context would cost.
    join: u64,
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
