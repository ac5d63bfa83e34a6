//! The values of a tensor without a base.

use super::entropy::entropy;
use super::table::{CELLS, Sums};
use super::{BLOCK_LEN, Words};

/// Bytes of a value below its highest two.
const LOW_MAX: usize = 6;
/// Sub-tables of a byte, for words next to each other.
const LANES: usize = 2;

/// How often each byte occurs at each place, and each sign with each exponent.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    /// For each byte of a word, the lowest first.
    pub planes: Vec<[u64; 256]>,
    /// By sign and exponent, as one number; empty for integers.
    pub heads: Vec<u64>,
    /// Words.
    pub values: u64,
}

/// Bits per value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    pub planes: Vec<f64>,
    pub sign: f64,
    pub exponent: f64,
    pub mantissa: f64,
    pub bound: f64,
}

/// What was counted of a tensor, or of a part of it.
#[derive(Clone, Debug)]
pub(crate) struct AloneTally {
    pub whole: Counts,
    /// The bits of each block with its own tables, times its values.
    pub blocks: Bits,
}

impl Counts {
    fn new(words: Words) -> Self {
        let (planes, heads) = (vec![[0; 256]; words.width], vec![0; words.heads()]);
        Self { planes, heads, values: 0 }
    }

    fn clear(&mut self) {
        self.planes.iter_mut().for_each(|plane| plane.fill(0));
        self.heads.fill(0);
        self.values = 0;
    }

    fn add(&mut self, other: &Self) {
        let own = self.planes.iter_mut().flatten().chain(&mut self.heads);
        for (sum, count) in own.zip(other.planes.iter().flatten().chain(&other.heads)) {
            *sum += count;
        }
        self.values += other.values;
    }

    /// How often each exponent occurs.
    pub(crate) fn exponents(&self) -> Vec<u64> {
        let (plus, minus) = self.heads.split_at(self.heads.len() / 2);
        plus.iter().zip(minus).map(|(plus, minus)| plus + minus).collect()
    }

    /// What an ideal coder needs.
    pub(crate) fn bits(&self, words: Words) -> Bits {
        let total = self.values;
        let planes: Vec<f64> =
            self.planes.iter().map(|plane| entropy(plane.iter().copied(), total)).collect();
        let Some(fields) = words.fields else {
            let bound = planes.iter().sum();
            return Bits { planes, bound, ..Bits::default() };
        };
        let (bytes, bits) = (fields.mantissa_bits / 8, fields.mantissa_bits % 8);
        let mut low_bits = [0; 256];
        for (byte, count) in self.planes[usize::from(bytes)].iter().enumerate() {
            low_bits[byte & ((1 << bits) - 1)] += count;
        }
        let partial = entropy(low_bits.into_iter().take(1 << bits), total);
        let mantissa = planes.iter().take(usize::from(bytes)).sum::<f64>() + partial;
        let plus: u64 = self.heads[..self.heads.len() / 2].iter().sum();
        let sign = entropy([plus, total - plus], total);
        let exponent = entropy(self.exponents(), total);
        let is_mixed = plus > 0 && plus < total;
        let bound = exponent + f64::from(fields.mantissa_bits) + f64::from(u8::from(is_mixed));
        Bits { planes, sign, exponent, mantissa, bound }
    }
}

impl Bits {
    fn nothing(words: Words) -> Self {
        Self { planes: vec![0.0; words.width], ..Self::default() }
    }

    /// Adds those of `values` more.
    fn add(&mut self, other: &Self, values: f64) {
        for (sum, bits) in self.planes.iter_mut().zip(&other.planes) {
            *sum += values * bits;
        }
        self.sign += values * other.sign;
        self.exponent += values * other.exponent;
        self.mantissa += values * other.mantissa;
        self.bound += values * other.bound;
    }
}

impl AloneTally {
    pub(crate) fn new(words: Words) -> Self {
        Self { whole: Counts::new(words), blocks: Bits::nothing(words) }
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: &Self) {
        self.whole.add(&other.whole);
        self.blocks.add(&other.blocks, 1.0);
    }
}

/// Counts words; one for each thread.
#[derive(Debug)]
pub(crate) struct AloneCounter {
    /// By the highest 16 bits of a word; of words of one byte, nothing.
    top: Box<[u16; CELLS]>,
    /// By each byte below these, in turn.
    low: [[[u32; 256]; LANES]; LOW_MAX],
}

impl AloneCounter {
    pub(crate) fn new() -> Self {
        Self { top: Box::new([0; CELLS]), low: [[[0; 256]; LANES]; LOW_MAX] }
    }

    /// Counts a part of a tensor, which begins where a block does.
    pub(crate) fn count(&mut self, words: Words, bytes: &[u8]) -> AloneTally {
        let mut tally = AloneTally::new(words);
        let mut sums = Sums::new(columns_log2(words));
        let mut counts = Counts::new(words);
        for block in bytes.chunks(BLOCK_LEN) {
            self.count_block(words, block, &mut sums, &mut counts);
            tally.blocks.add(&counts.bits(words), counts.values as f64);
            tally.whole.add(&counts);
        }
        tally
    }

    /// How often each exponent occurs.
    pub(crate) fn exponents(&mut self, words: Words, bytes: &[u8]) -> Vec<u64> {
        let mut sums = Sums::new(columns_log2(words));
        let (mut block_counts, mut counts) = (Counts::new(words), Counts::new(words));
        for block in bytes.chunks(BLOCK_LEN) {
            self.count_block(words, block, &mut sums, &mut block_counts);
            counts.add(&block_counts);
        }
        counts.exponents()
    }

    fn count_block(&mut self, words: Words, block: &[u8], sums: &mut Sums, counts: &mut Counts) {
        let width = words.width;
        counts.clear();
        counts.values = (block.len() / width) as u64;
        if block.get(width..).is_none_or(|later| later == &block[..later.len()]) {
            return constant(words, block, counts);
        }
        match width {
            1 => self.count_1(block),
            2 => self.count_2(block),
            4 => self.count_4(block),
            _ => self.count_8(block),
        }
        // All four tables are those of one plane.
        if width == 1 {
            let [first, second, ..] = &mut self.low;
            take(first, &mut counts.planes[0]);
            take(second, &mut counts.planes[0]);
        } else {
            for (low, plane) in self.low.iter_mut().zip(&mut counts.planes[..width - 2]) {
                take(low, plane);
            }
            sums.clear();
            sums.take(&mut self.top);
            let top = &mut counts.planes[width - 2..];
            top[0].iter_mut().zip(sums.low).for_each(|(to, from)| *to = u64::from(from));
            top[1].iter_mut().zip(sums.high()).for_each(|(to, from)| *to = u64::from(from));
        }
        let Some(fields) = words.fields else { return };
        match (u32::from(fields.mantissa_bits) + 8).checked_sub(8 * width as u32) {
            // All of the exponent is in the highest byte.
            Some(shift) => {
                for (byte, count) in counts.planes[width - 1].iter().enumerate() {
                    counts.heads[byte >> shift] += count;
                }
            }
            None => {
                let rows = sums.rows.iter().map(|&count| u64::from(count));
                counts.heads.iter_mut().zip(rows).for_each(|(to, from)| *to = from);
            }
        }
    }

    fn count_1(&mut self, block: &[u8]) {
        let [[a, b], [c, d], ..] = &mut self.low;
        let (fours, rest) = block.as_chunks::<4>();
        for four in fours {
            a[usize::from(four[0])] += 1;
            b[usize::from(four[1])] += 1;
            c[usize::from(four[2])] += 1;
            d[usize::from(four[3])] += 1;
        }
        for &byte in rest {
            a[usize::from(byte)] += 1;
        }
    }

    fn count_2(&mut self, block: &[u8]) {
        let top = &mut *self.top;
        let (fours, rest) = block.as_chunks::<8>();
        for four in fours {
            let four = u64::from_le_bytes(*four);
            for i in 0..4 {
                top[usize::from((four >> (16 * i)) as u16)] += 1;
            }
        }
        for word in rest.as_chunks::<2>().0 {
            top[usize::from(u16::from_le_bytes(*word))] += 1;
        }
    }

    fn count_4(&mut self, block: &[u8]) {
        let top = &mut *self.top;
        let [[a, b], [c, d], ..] = &mut self.low;
        let (pairs, rest) = block.as_chunks::<8>();
        for pair in pairs {
            let pair = u64::from_le_bytes(*pair);
            a[usize::from(pair as u8)] += 1;
            c[usize::from((pair >> 8) as u8)] += 1;
            top[usize::from((pair >> 16) as u16)] += 1;
            b[usize::from((pair >> 32) as u8)] += 1;
            d[usize::from((pair >> 40) as u8)] += 1;
            top[usize::from((pair >> 48) as u16)] += 1;
        }
        for word in rest.as_chunks::<4>().0 {
            a[usize::from(word[0])] += 1;
            c[usize::from(word[1])] += 1;
            top[usize::from(u16::from_le_bytes([word[2], word[3]]))] += 1;
        }
    }

    fn count_8(&mut self, block: &[u8]) {
        for word in block.as_chunks::<8>().0 {
            for ([low, _], byte) in self.low.iter_mut().zip(word) {
                low[usize::from(*byte)] += 1;
            }
            self.top[usize::from(u16::from_le_bytes([word[6], word[7]]))] += 1;
        }
    }
}

/// The lowest bits of the upper 16 that rows of a table need not tell apart.
fn columns_log2(words: Words) -> u32 {
    match words.exponent_in_top() {
        (shift, mask) if mask > 0 && words.width > 1 => shift.min(8),
        _ => 8,
    }
}

/// Moves the counts of one byte of the words to its plane.
fn take(lanes: &mut [[u32; 256]; LANES], plane: &mut [u64; 256]) {
    for lane in lanes {
        plane.iter_mut().zip(&*lane).for_each(|(sum, &count)| *sum += u64::from(count));
        lane.fill(0);
    }
}

/// The counts of a block of equal words, or of none.
fn constant(words: Words, block: &[u8], counts: &mut Counts) {
    let Some(word) = block.get(..words.width) else { return };
    for (plane, &byte) in counts.planes.iter_mut().zip(word) {
        plane[usize::from(byte)] = counts.values;
    }
    if let Some(fields) = words.fields {
        let mut wide = [0; 8];
        wide[..word.len()].copy_from_slice(word);
        counts.heads[(u64::from_le_bytes(wide) >> fields.mantissa_bits) as usize] = counts.values;
    }
}
