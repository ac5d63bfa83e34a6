//! Coders that can express given bytes, chosen with some chance.

use lmc_codec::entropy::{huffman, rans};
use lmc_format::{ChainTable, Coder};
use lmc_testkit::data::Random;

/// A coder without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoderKind {
    Raw,
    Constant,
    Packed,
    Chain,
    Huffman,
    Rans,
    Runs,
}

impl CoderKind {
    pub const ALL: [Self; 7] = [
        Self::Raw,
        Self::Constant,
        Self::Packed,
        Self::Chain,
        Self::Huffman,
        Self::Rans,
        Self::Runs,
    ];

    /// A coder of this kind for `bytes`; raw if there is none.
    pub fn fit(self, bytes: &[u8], random: &mut Random) -> Coder {
        match self {
            Self::Raw => Coder::Raw,
            Self::Runs => Coder::Runs,
            Self::Constant => match bytes.first() {
                Some(&first) if bytes.iter().any(|&b| b != first) => Coder::Raw,
                first => Coder::Constant(first.copied().unwrap_or(random.next_u64() as u8)),
            },
            Self::Packed => fit_packed(bytes, random),
            Self::Chain => Coder::Chain(fit_chain(&histogram(bytes), random)),
            Self::Huffman => {
                let table = huffman::build(&two_or_more(histogram(bytes)));
                Coder::Huffman(Box::new(table.expect("two bytes or more occur")))
            }
            Self::Rans => {
                let table = rans::build(&two_or_more(histogram(bytes)));
                Coder::Rans(Box::new(table.expect("two bytes or more occur")))
            }
        }
    }
}

fn histogram(bytes: &[u8]) -> [u32; 256] {
    let mut histogram = [0; 256];
    bytes.iter().for_each(|&b| histogram[usize::from(b)] += 1);
    histogram
}

/// The histogram with the first two bytes present: tables need two symbols.
fn two_or_more(mut histogram: [u32; 256]) -> [u32; 256] {
    if histogram.iter().filter(|&&count| count > 0).count() < 2 {
        histogram[0] += 1;
        histogram[1] += 1;
    }
    histogram
}

/// Keeps the bits that vary, and now and then one more.
fn fit_packed(bytes: &[u8], random: &mut Random) -> Coder {
    let any = bytes.iter().fold(0, |bits, b| bits | b);
    let all = bytes.iter().fold(0xff, |bits, b| bits & b);
    let mut mask = any & !all;
    if mask == 0 || random.below(4) == 0 {
        mask |= 1 << random.below(8);
    }
    Coder::Packed { mask, rest: any & all & !mask }
}

/// Levels at random; the symbols are the most frequent bytes, or any bytes, also the same twice.
fn fit_chain(histogram: &[u32; 256], random: &mut Random) -> ChainTable {
    let mut ranked: Vec<u8> = (0..=255).collect();
    ranked.sort_by_key(|&b| std::cmp::Reverse(histogram[usize::from(b)]));
    let (mut widths, mut count) = (Vec::new(), 0);
    for _ in 0..=random.below(12) {
        let width = 1 + random.below(2) as u8;
        if count + (1 << width) - 1 <= 31 {
            widths.push(width);
            count += (1 << width) - 1;
        }
    }
    let mut symbols = ranked[..count].to_vec();
    if random.below(4) == 0 {
        symbols[random.below(count)] = random.next_u64() as u8;
    }
    ChainTable::new(widths, symbols).expect("levels and symbols are within their limits")
}
