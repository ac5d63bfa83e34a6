//! How far the values of a sample are from their base, counted by the exponent of the base.

use super::{Block, Target};
use crate::simd::bins::EXCEPTION;
use lmc_format::Bin;
use lmc_format::limits::{BIN_MAX, BIN_PAYLOAD_BITS_MAX, BINS_MAX};
use std::ops::Range;

/// One difference in this many may be too large for a bin.
const EXCEPTIONS_SHARE: u32 = 256;
/// log2 of the widest bins tried for an exponent, relative to the narrowest.
const WIDTHS_LOG2: u8 = 3;
/// How many numbers bins have.
pub(super) const NUMBERS: usize = 2 * BIN_MAX as usize;
/// Exponents of the base that have their own bins.
pub(super) const EXPONENTS: usize = BINS_MAX as usize;
/// Halves of the narrowest bins that make up all of the widest bins.
const PIECES: usize = NUMBERS << (WIDTHS_LOG2 + 1);

/// The exponents of values of one width.
#[derive(Clone, Copy)]
pub(super) struct Exponents {
    pub width_log2: u8,
    /// Bits of an exponent, just below the top bit of a value.
    pub bits: u8,
}

impl Exponents {
    /// How often each exponent occurs. Four tables, so that neighbouring values do not wait for
    /// each other.
    pub(super) fn counts(self, values: &[u8]) -> Vec<u32> {
        let mut tables = [0; 4].map(|_: u8| vec![0_u32; 1 << self.bits]);
        macro_rules! count {
            ($word:ty, $len:literal) => {{
                let exponent =
                    |bytes: &[u8; $len]| self.of_top(<$word>::from_le_bytes(*bytes).into(), $len);
                let values = values.as_chunks::<$len>().0;
                let (fours, rest) = values.as_chunks::<4>();
                for four in fours {
                    for (table, value) in tables.iter_mut().zip(four) {
                        table[exponent(value)] += 1;
                    }
                }
                rest.iter().for_each(|value| tables[0][exponent(value)] += 1);
            }};
        }
        match self.width_log2 {
            0 => count!(u8, 1),
            1 => count!(u16, 2),
            2 => count!(u32, 4),
            _ => count!(u64, 8),
        }
        let [mut sum, others @ ..] = tables;
        for other in others {
            sum.iter_mut().zip(other).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    /// Calls `visit` with the exponent of each value whose bit is set.
    pub(super) fn each_set(self, values: &[u8], bits: &[u64], mut visit: impl FnMut(usize)) {
        macro_rules! visit_set {
            ($word:ty, $len:literal) => {{
                let values = values.as_chunks::<$len>().0;
                for (group, &bits) in values.chunks(64).zip(bits) {
                    let mut left = bits;
                    while left != 0 {
                        let value = group[left.trailing_zeros() as usize];
                        visit(self.of_top(<$word>::from_le_bytes(value).into(), $len));
                        left &= left - 1;
                    }
                }
            }};
        }
        match self.width_log2 {
            0 => visit_set!(u8, 1),
            1 => visit_set!(u16, 2),
            2 => visit_set!(u32, 4),
            _ => visit_set!(u64, 8),
        }
    }

    #[inline(always)]
    fn of_top(self, word: u64, width: usize) -> usize {
        (word >> (8 * width - 1 - usize::from(self.bits))) as usize & ((1 << self.bits) - 1)
    }
}

/// The differences of a sample's values from their base.
///
/// Counting and sorting stall on their own last write if two neighbouring values have the same
/// place. So both go through the two halves of the sample side by side.
pub(super) struct Differences {
    exponents: Vec<u16>,
    /// Twice the difference without its raw bytes, plus one if the sign changed.
    coded: Vec<i32>,
    /// Low bytes to store raw: as few as leave almost no difference outside the widest bins.
    pub raw_bytes: u8,
    /// How often each exponent occurs in each half.
    counts: [Vec<u32>; 2],
}

/// The largest difference that is kept exactly; it is far outside all bins.
const APART_MAX: i64 = 1 << 29;

impl Differences {
    pub(super) fn new(target: Target, sample: Block) -> Self {
        let base = sample.base.unwrap_or_default();
        let exponent_bits = target.base_bits();
        let is_integer = target.is_integer();
        macro_rules! set_apart {
            ($word:ty, $signed:ty, $len:literal) => {{
                let magnitudes = <$word>::MAX >> 1;
                let shift = <$word>::BITS - 1 - u32::from(exponent_bits);
                let (values, bases) = (sample.bytes.as_chunks::<$len>().0, base.as_chunks().0);
                let pairs = values.iter().zip(bases);
                let words =
                    pairs.map(|(x, b)| (<$word>::from_le_bytes(*x), <$word>::from_le_bytes(*b)));
                let apart = |x: $word, b: $word| match is_integer {
                    true => x.wrapping_sub(b) as $signed,
                    false => (x & magnitudes).wrapping_sub(b & magnitudes) as $signed,
                };
                let exponents = words.clone().map(|(_, b)| ((b & magnitudes) >> shift) as u16);
                let few = |raw_bytes: &u8| {
                    // Bits of the largest difference that is in a bin.
                    let bits = 6 + BIN_PAYLOAD_BITS_MAX + 8 * raw_bytes;
                    let most = (1 as $word).checked_shl(bits.into()).unwrap_or(<$word>::MAX);
                    let is_outside = |(x, b)| apart(x, b).unsigned_abs() >= most;
                    let outside: u32 = words.clone().map(|pair| u32::from(is_outside(pair))).sum();
                    u64::from(outside) * u64::from(EXCEPTIONS_SHARE) <= values.len() as u64
                };
                let raw_bytes = (0..$len - 1).find(few).unwrap_or($len - 1);
                let half = 1_i64 << (8 * raw_bytes) >> 1;
                let coded = words.map(|(x, b)| {
                    let apart = i64::from(apart(x, b)).saturating_add(half) >> (8 * raw_bytes);
                    let flip = if is_integer { 0 } else { ((x ^ b) >> (<$word>::BITS - 1)) as i32 };
                    (apart.clamp(-APART_MAX, APART_MAX) as i32) << 1 | flip
                });
                (exponents.collect(), coded.collect(), raw_bytes)
            }};
        }
        let (exponents, coded, raw_bytes): (Vec<u16>, Vec<i32>, u8) = match target.layout.width_log2
        {
            0 => set_apart!(u8, i8, 1),
            1 => set_apart!(u16, i16, 2),
            2 => set_apart!(u32, i32, 4),
            _ => set_apart!(u64, i64, 8),
        };
        let mut counts = [vec![0; 1 << exponent_bits], vec![0; 1 << exponent_bits]];
        let [first, second] = &mut counts;
        let (a, b) = exponents.split_at(exponents.len() / 2);
        for (&a, &b) in a.iter().zip(b) {
            first[usize::from(a)] += 1;
            second[usize::from(b)] += 1;
        }
        b[a.len()..].iter().for_each(|&b| second[usize::from(b)] += 1);
        Self { exponents, coded, raw_bytes, counts }
    }

    /// How many differences there are.
    pub(super) fn len(&self) -> usize {
        self.coded.len()
    }

    /// Moves differences above 0 down by one, because no value that keeps its sign has a difference
    /// of 0.
    pub(super) fn skip_zero(&mut self) {
        for coded in &mut self.coded {
            *coded -= if *coded & 1 == 0 && *coded > 0 { 2 } else { 0 };
        }
    }

    /// The first of the exponents with their own bins: those that most values have.
    pub(super) fn first_exponent(&self) -> u16 {
        let [first, second] = &self.counts;
        let counts: Vec<u32> = first.iter().zip(second).map(|(a, b)| a + b).collect();
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

    /// The differences of each exponent from `first` on.
    pub(super) fn spreads(&self, first: u16, widths: Widths) -> Vec<Spread> {
        let (sorted, ends) = self.sorted(first);
        let mut pieces = Pieces::new();
        let mut start = 0;
        let spread = |end: &usize| {
            let own = &sorted[start..*end];
            start = *end;
            Spread::new(own, widths, &mut pieces)
        };
        ends.iter().map(spread).collect()
    }

    /// The differences sorted by their exponent from `first` on, and where the differences of each
    /// exponent end.
    fn sorted(&self, first: u16) -> (Vec<i32>, [usize; EXPONENTS]) {
        let bin =
            |exponent: u16| usize::from(exponent.saturating_sub(first).min(EXPONENTS as u16 - 1));
        let mut counts = [[0_usize; EXPONENTS]; 2];
        for (counts, all) in counts.iter_mut().zip(&self.counts) {
            for (exponent, &count) in (0..).zip(all) {
                counts[bin(exponent)] += count as usize;
            }
        }
        let [mut next_a, mut next_b] = [[0; EXPONENTS]; 2];
        let mut ends = [0; EXPONENTS];
        let mut end = 0;
        for bin in 0..EXPONENTS {
            next_a[bin] = end;
            next_b[bin] = end + counts[0][bin];
            end = next_b[bin] + counts[1][bin];
            ends[bin] = end;
        }
        let mut sorted = vec![0; self.coded.len()];
        let mut put = |next: &mut [usize; EXPONENTS], exponent: u16, coded: i32| {
            let next = &mut next[bin(exponent)];
            sorted[*next] = coded;
            *next += 1;
        };
        let half = self.coded.len() / 2;
        let ((exponents_a, exponents_b), (a, b)) =
            (self.exponents.split_at(half), self.coded.split_at(half));
        for i in 0..half {
            put(&mut next_a, exponents_a[i], a[i]);
            put(&mut next_b, exponents_b[i], b[i]);
        }
        let rest = exponents_b[half..].iter().zip(&b[half..]);
        rest.for_each(|(&exponent, &coded)| put(&mut next_b, exponent, coded));
        (sorted, ends)
    }
}

/// Bits of a difference without its sign.
fn size(difference: i32) -> usize {
    32 - difference.unsigned_abs().leading_zeros() as usize
}

/// How many differences have each number of bits.
fn sizes(coded: &[i32]) -> [u32; 33] {
    let (a, b) = coded.split_at(coded.len() / 2);
    let [mut first, mut second] = [[0; 33]; 2];
    for (&a, &b) in a.iter().zip(b) {
        first[size(a >> 1)] += 1;
        second[size(b >> 1)] += 1;
    }
    b[a.len()..].iter().for_each(|&b| second[size(b >> 1)] += 1);
    std::array::from_fn(|bits| first[bits] + second[bits])
}

/// Differences counted in pieces of half a narrowest bin; bins of all widths are made from these.
struct Pieces {
    /// Those that keep their sign, and those that do not.
    counts: [Vec<u32>; 2],
    /// The same for half of them, during counting.
    others: [Vec<u32>; 2],
    /// The range of pieces that occur.
    used: Range<usize>,
    outside: u32,
}

impl Pieces {
    fn new() -> Self {
        let tables = || [vec![0; PIECES], vec![0; PIECES]];
        Self { counts: tables(), others: tables(), used: 0..0, outside: 0 }
    }

    /// Counts only these differences, in pieces of 2^`shift`.
    fn count(&mut self, coded: &[i32], shift: u8) {
        let Self { counts, others, used, outside } = self;
        counts.iter_mut().for_each(|counts| counts[used.clone()].fill(0));
        *outside = 0;
        let piece = |coded: i32| (coded >> 1 >> shift) + PIECES as i32 / 2;
        let mut add = |counts: &mut [Vec<u32>; 2], coded: i32| match counts[(coded & 1) as usize]
            .get_mut(piece(coded) as usize)
        {
            Some(count) => *count += 1,
            None => *outside += 1,
        };
        let (a, b) = coded.split_at(coded.len() / 2);
        for (&a, &b) in a.iter().zip(b) {
            add(counts, a);
            add(others, b);
        }
        b[a.len()..].iter().for_each(|&b| add(others, b));
        let least = coded.iter().copied().min().map_or(0, piece);
        let most = coded.iter().copied().max().map_or(-1, piece);
        let within = |piece: i32| piece.clamp(0, PIECES as i32) as usize;
        *used = within(least)..within(most + 1);
        for (counts, others) in counts.iter_mut().zip(others) {
            for (count, other) in counts[used.clone()].iter_mut().zip(&mut others[used.clone()]) {
                *count += std::mem::take(other);
            }
        }
    }
}

/// How many differences of one exponent have each number, with bins of one width.
pub(super) struct Numbers {
    /// Those that keep their sign, and those that do not.
    pub counts: [[u32; NUMBERS]; 2],
    /// The range of numbers that occur.
    pub used: Range<usize>,
    pub outside: u32,
}

impl Numbers {
    /// With bins of 2^`pieces_log2` pieces.
    fn new(pieces: &Pieces, pieces_log2: u8) -> Self {
        let Pieces { counts, used, outside, .. } = pieces;
        let number = |piece: usize| {
            let rounded = piece as i64 - PIECES as i64 / 2 + (1 << pieces_log2 >> 1);
            (rounded >> pieces_log2) + BIN_MAX
        };
        let mut numbers = Self { counts: [[0; NUMBERS]; 2], used: 0..0, outside: *outside };
        for (to, from) in numbers.counts.iter_mut().zip(counts) {
            for (piece, &count) in used.clone().zip(&from[used.clone()]) {
                match to.get_mut(number(piece) as usize) {
                    Some(to) => *to += count,
                    None => numbers.outside += count,
                }
            }
        }
        let within = |number: i64| number.clamp(0, NUMBERS as i64) as usize;
        if !used.is_empty() {
            numbers.used = within(number(used.start))..within(number(used.end - 1) + 1);
        }
        numbers
    }
}

/// The differences of one exponent.
pub(super) struct Spread {
    pub count: u32,
    /// log2 of the narrowest bins that are tried.
    pub narrowest: u8,
    /// With bins of each width to try.
    pub numbers: Vec<Numbers>,
}

/// Which bin widths to try.
#[derive(Clone, Copy)]
pub(super) enum Widths {
    /// Bins of about twice the usual difference, which cost two and a half bits.
    Usual,
    /// As narrow as the number of bins allows.
    Narrow,
}

impl Spread {
    fn new(coded: &[i32], widths: Widths, pieces: &mut Pieces) -> Self {
        // The share of differences that the narrowest bins are made for, and how many bits fewer
        // these bins have.
        let (below, of, less) = match widths {
            Widths::Usual => (1, 2, 1),
            Widths::Narrow => (63, 64, 6),
        };
        let sizes = sizes(coded);
        let mut seen = 0;
        let size = sizes.iter().position(|&count| {
            seen += count;
            of * u64::from(seen) >= below * coded.len() as u64
        });
        let size = size.unwrap_or(0) as u8;
        let narrowest = size.saturating_sub(less).min(BIN_PAYLOAD_BITS_MAX - 1);
        let widest = (narrowest + WIDTHS_LOG2).min(BIN_PAYLOAD_BITS_MAX);
        let shifts = narrowest..=if coded.is_empty() { narrowest } else { widest };
        let piece = narrowest.saturating_sub(1);
        pieces.count(coded, piece);
        let numbers = shifts.map(|shift| Numbers::new(pieces, shift - piece));
        Self { count: coded.len() as u32, narrowest, numbers: numbers.collect() }
    }

    /// log2 of the widths to try.
    pub(super) fn shifts(&self) -> Range<u8> {
        self.narrowest..self.narrowest + self.numbers.len() as u8
    }

    /// How often each symbol occurs with a bin, before any row.
    pub(super) fn symbols(&self, bin: Bin) -> [u32; 256] {
        let mut symbols = [0; 256];
        let numbers = self.numbers(bin.shift);
        for (is_flipped, counts) in numbers.counts.iter().enumerate() {
            let flip = if is_flipped == 1 && !bin.has_flip_bit { 0x80 } else { 0 };
            for (i, &count) in numbers.used.clone().zip(&counts[numbers.used.clone()]) {
                let symbol = (i as i64 - BIN_MAX - i64::from(bin.centre)) as u8 ^ flip;
                symbols[usize::from(symbol)] += count;
            }
        }
        symbols[usize::from(EXCEPTION)] += numbers.outside;
        symbols
    }

    fn numbers(&self, shift: u8) -> &Numbers {
        let last = self.numbers.len() - 1;
        &self.numbers[usize::from(shift.saturating_sub(self.narrowest)).min(last)]
    }
}
