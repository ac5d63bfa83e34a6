//! How far the values of a sample are from their base, counted by the exponent of the base.

use super::{Target, Values};
use crate::simd::bins::EXCEPTION;
use lmc_format::Bin;
use lmc_format::limits::{BIN_MAX, BIN_PAYLOAD_BITS_MAX, BINS_MAX};
use std::ops::Range;

/// One difference in this many may be too large for a bin.
const EXCEPTIONS_SHARE: u32 = 256;
/// log2 of the narrowest bins' share of the widest that are tried for an exponent.
const WIDTHS_LOG2: u8 = 3;
/// Numbers that bins have.
pub(super) const NUMBERS: usize = 2 * BIN_MAX as usize;
/// Exponents of the base that have bins of their own.
pub(super) const EXPONENTS: usize = BINS_MAX as usize;
/// Half of the narrowest bins, in all of the widest.
const PIECES: usize = NUMBERS << (WIDTHS_LOG2 + 1);

/// Calls `visit` with the number and the exponent of each value.
pub(super) fn each_exponent(
    width_log2: u8,
    exponent_bits: u8,
    values: &[u8],
    mut visit: impl FnMut(usize, u16),
) {
    macro_rules! visit_all {
        ($word:ty, $len:literal) => {
            for (i, bytes) in values.as_chunks::<$len>().0.iter().enumerate() {
                let magnitude = <$word>::from_le_bytes(*bytes) & (<$word>::MAX >> 1);
                visit(i, (magnitude >> (<$word>::BITS - 1 - u32::from(exponent_bits))) as u16);
            }
        };
    }
    match width_log2 {
        0 => visit_all!(u8, 1),
        1 => visit_all!(u16, 2),
        2 => visit_all!(u32, 4),
        _ => visit_all!(u64, 8),
    }
}

/// The values of a sample, set against their base.
pub(super) struct Differences {
    exponents: Vec<u16>,
    /// Twice the difference, and one more if the sign changed.
    coded: Vec<i64>,
    /// How often each exponent comes.
    counts: Vec<u32>,
    /// How many differences have as many bits.
    sizes: [u32; 65],
}

impl Differences {
    pub(super) fn new(target: Target, sample: Values) -> Self {
        let base = sample.base.unwrap_or_default();
        let (width_log2, exponent_bits) = (target.layout.width_log2, target.base_bits());
        let is_integer = target.is_integer();
        let n = base.len() >> width_log2;
        let (mut exponents, mut coded) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let mut counts = vec![0; 1 << exponent_bits];
        let mut sizes = [0; 65];
        macro_rules! set_apart {
            ($word:ty, $signed:ty, $len:literal) => {{
                let magnitudes = <$word>::MAX >> 1;
                let shift = <$word>::BITS - 1 - u32::from(exponent_bits);
                let (values, bases) = (sample.bytes.as_chunks::<$len>().0, base.as_chunks().0);
                for (x, b) in values.iter().zip(bases) {
                    let (x, b) = (<$word>::from_le_bytes(*x), <$word>::from_le_bytes(*b));
                    let exponent = ((b & magnitudes) >> shift) as u16;
                    let mut apart = (x & magnitudes) as i64 - (b & magnitudes) as i64;
                    let mut flip = ((x ^ b) >> (<$word>::BITS - 1)) as i64;
                    if is_integer {
                        (apart, flip) = (i64::from(x.wrapping_sub(b) as $signed), 0);
                    }
                    counts[usize::from(exponent)] += 1;
                    sizes[size(apart)] += 1;
                    exponents.push(exponent);
                    coded.push(apart << 1 | flip);
                }
            }};
        }
        match width_log2 {
            0 => set_apart!(u8, i8, 1),
            1 => set_apart!(u16, i16, 2),
            2 => set_apart!(u32, i32, 4),
            _ => set_apart!(u64, i64, 8),
        }
        Self { exponents, coded, counts, sizes }
    }

    /// How many differences there are.
    pub(super) fn len(&self) -> usize {
        self.coded.len()
    }

    /// Moves differences above 0 down by one, as no value that keeps its sign has a difference of 0.
    pub(super) fn skip_zero(&mut self) {
        for coded in &mut self.coded {
            *coded -= if *coded & 1 == 0 && *coded > 0 { 2 } else { 0 };
        }
    }

    /// Takes off low bytes, which are to stand raw: as few as leave hardly a difference outside of the
    /// widest bins. Returns how many.
    pub(super) fn cut_raw(&mut self, width_log2: u8) -> u8 {
        let few = |raw_bytes: &u8| {
            // Bits of the largest difference that is in a bin.
            let most = 6 + BIN_PAYLOAD_BITS_MAX + 8 * raw_bytes;
            let outside: u32 = self.sizes[usize::from(most) + 1..].iter().sum();
            u64::from(outside) * u64::from(EXCEPTIONS_SHARE) <= self.coded.len() as u64
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
    pub(super) fn first_exponent(&self) -> u16 {
        let counts = &self.counts;
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
        let bin = |exponent: u16| usize::from(exponent.saturating_sub(first)).min(EXPONENTS - 1);
        let mut counts = [0; EXPONENTS];
        for (exponent, &count) in (0..).zip(&self.counts) {
            counts[bin(exponent)] += count as usize;
        }
        let mut end = 0;
        let mut next = counts.map(|count| {
            end += count;
            end - count
        });
        let starts = next;
        let mut sorted = vec![0; self.coded.len()];
        let mut sizes = [[0_u32; 65]; EXPONENTS];
        for (&exponent, &coded) in self.exponents.iter().zip(&self.coded) {
            let bin = bin(exponent);
            sorted[next[bin]] = coded;
            next[bin] += 1;
            sizes[bin][size(coded >> 1)] += 1;
        }
        let mut pieces = Pieces::new();
        let ranges = starts.into_iter().zip(next);
        ranges
            .zip(&sizes)
            .map(|((start, end), sizes)| {
                Spread::new(&sorted[start..end], sizes, widths, &mut pieces)
            })
            .collect()
    }
}

/// Bits of a difference without its sign.
fn size(difference: i64) -> usize {
    64 - difference.unsigned_abs().leading_zeros() as usize
}

/// Differences counted in pieces of half a narrowest bin, from which bins of all widths are made up.
struct Pieces {
    /// Those that keep their sign, and those that do not.
    counts: [Vec<u32>; 2],
    /// Where the pieces are that come at all.
    used: Range<usize>,
    outside: u32,
}

impl Pieces {
    fn new() -> Self {
        Self { counts: [vec![0; PIECES], vec![0; PIECES]], used: 0..0, outside: 0 }
    }

    /// Counts these differences and no others, in pieces of 2^`shift`.
    fn count(&mut self, coded: &[i64], shift: u8) {
        self.counts.iter_mut().for_each(|counts| counts[self.used.clone()].fill(0));
        let (mut first, mut end) = (PIECES, 0);
        self.outside = 0;
        for &coded in coded {
            let piece = (coded >> 1 >> shift).wrapping_add(PIECES as i64 / 2) as usize;
            match self.counts[(coded & 1) as usize].get_mut(piece) {
                Some(count) => {
                    *count += 1;
                    (first, end) = (first.min(piece), end.max(piece + 1));
                }
                None => self.outside += 1,
            }
        }
        self.used = first.min(end)..end;
    }
}

/// How many differences of one exponent have each number, with bins of one width.
#[derive(Clone)]
pub(super) struct Numbers {
    /// Those that keep their sign, and those that do not.
    pub counts: [[u32; NUMBERS]; 2],
    /// Where the numbers are that come at all.
    pub used: Range<usize>,
    pub outside: u32,
}

impl Numbers {
    /// With bins of 2^`pieces_log2` pieces.
    fn new(pieces: &Pieces, pieces_log2: u8) -> Self {
        let Pieces { counts, used, outside } = pieces;
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
    /// With bins of each width that is tried.
    pub numbers: Vec<Numbers>,
}

/// Which widths of bins are tried.
#[derive(Clone, Copy)]
pub(super) enum Widths {
    /// Bins of about twice the usual difference, which cost two bits and a half.
    Usual,
    /// As narrow as the number of bins allows.
    Narrow,
}

impl Spread {
    fn new(coded: &[i64], sizes: &[u32; 65], widths: Widths, pieces: &mut Pieces) -> Self {
        // The share of differences that the narrowest bins are made for, and how many bits less these
        // have.
        let (below, of, less) = match widths {
            Widths::Usual => (1, 2, 1),
            Widths::Narrow => (63, 64, 6),
        };
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

    /// log2 of the widths that are tried.
    pub(super) fn shifts(&self) -> Range<u8> {
        self.narrowest..self.narrowest + self.numbers.len() as u8
    }

    /// How often each symbol comes with a bin, before any row.
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
