//! Coders that can express given bytes, chosen with some chance.

use lmc_codec::internals::{build_huffman, build_rans, build_tree};
use lmc_format::{ApartCoder, ChainTable, Coder, RansTable, TreeTable};
use lmc_testkit::data::Random;

/// Coders of the kind apart that may be nested (`docs/format.md`, section 3.5).
const APART_DEPTH_MAX: usize = 3;
/// Bits set in sequences that gaps are used for; the reference decoder takes them one by one.
const GAPS_MAX: u32 = 1000;

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
    Gaps,
    Apart,
    Tree,
}

impl CoderKind {
    pub const ALL: [Self; 10] = [
        Self::Raw,
        Self::Constant,
        Self::Packed,
        Self::Chain,
        Self::Huffman,
        Self::Rans,
        Self::Runs,
        Self::Gaps,
        Self::Apart,
        Self::Tree,
    ];

    /// Any kind.
    pub fn any(random: &mut Random) -> Self {
        Self::ALL[random.below(Self::ALL.len())]
    }

    /// A coder of this kind for each of the sequences `parts`; raw if there is none.
    pub fn fit(self, parts: &[&[u8]], random: &mut Random) -> Coder {
        self.fit_inside(0, parts, random)
    }

    /// The same inside of so many coders of the kind apart.
    fn fit_inside(self, apart_depth: usize, parts: &[&[u8]], random: &mut Random) -> Coder {
        let bytes = &parts.concat()[..];
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
                let table = build_huffman(&two_or_more(histogram(bytes)));
                Coder::Huffman(Box::new(table.expect("two bytes or more occur")))
            }
            Self::Rans => Coder::Rans(Box::new(rans_table(bytes))),
            Self::Gaps => fit_gaps(bytes, random),
            Self::Tree => Coder::Tree(Box::new(fit_tree(bytes, random))),
            Self::Apart if apart_depth == APART_DEPTH_MAX => Coder::Raw,
            Self::Apart => fit_apart(apart_depth + 1, parts, random),
        }
    }
}

fn histogram(bytes: &[u8]) -> [u32; 256] {
    let mut histogram = [0; 256];
    bytes.iter().for_each(|&b| histogram[usize::from(b)] += 1);
    histogram
}

/// A table that has all of `bytes`.
pub fn rans_table(bytes: &[u8]) -> RansTable {
    build_rans(&two_or_more(histogram(bytes))).expect("two bytes or more occur")
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

/// A table of all bytes, with an escape or without one, or a table of some of them.
fn fit_tree(bytes: &[u8], random: &mut Random) -> TreeTable {
    let seen = match random.below(3) {
        0 => &bytes[..random.below(bytes.len() + 1)],
        _ => bytes,
    };
    let histogram = two_or_more(histogram(seen));
    if seen.len() == bytes.len() && random.below(2) == 0 {
        let table = build_huffman(&histogram).expect("two bytes or more occur");
        return TreeTable::new(*table.lengths(), 0).expect("it is a complete code");
    }
    build_tree(&histogram).expect("two bytes or more occur")
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

/// As many low bits as about suit the bytes, or a few more or less.
fn fit_gaps(bytes: &[u8], random: &mut Random) -> Coder {
    let set: u32 = bytes.iter().map(|b| b.count_ones()).sum();
    if set > GAPS_MAX {
        return Coder::Raw;
    }
    let gap = 8 * bytes.len() as u32 / set.max(1);
    let low_bits = gap.max(1).ilog2() as usize + random.below(6);
    Coder::Gaps(low_bits.saturating_sub(3).min(24) as u8)
}

/// The most frequent byte apart, or any; inside, coders of any kind.
fn fit_apart(depth: usize, parts: &[&[u8]], random: &mut Random) -> Coder {
    let histogram = histogram(&parts.concat());
    let byte = match random.below(4) {
        0 => random.next_u64() as u8,
        _ => (0..=255).max_by_key(|&b| histogram[usize::from(b)]).unwrap_or(0),
    };
    let flags: Vec<Vec<u8>> = parts.iter().map(|part| flags_of(part, byte)).collect();
    let others = parts.iter().map(|part| part.iter().copied().filter(|&b| b != byte).collect());
    let others: Vec<Vec<u8>> = others.collect();
    let mut fit = |parts: &[Vec<u8>]| {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        CoderKind::any(random).fit_inside(depth, &parts, random)
    };
    Coder::Apart(Box::new(ApartCoder { byte, flags: fit(&flags), others: fit(&others) }))
}

/// One bit for each byte that is not `byte` (section 5.5).
fn flags_of(bytes: &[u8], byte: u8) -> Vec<u8> {
    let flag = |chunk: &[u8]| (0..).zip(chunk).map(|(i, &b)| u8::from(b != byte) << i).sum();
    bytes.chunks(8).map(flag).collect()
}

/// What a coder has inside of it, if it is of the kind apart and `depth` of them stand around that.
pub fn apart_features(coder: &Coder, depth: usize, seen: &mut Vec<String>) {
    if let Coder::Apart(apart) = coder {
        seen.push(format!("apart depth {depth}"));
        seen.push(format!("apart flags {}", apart.flags.name()));
        seen.push(format!("apart others {}", apart.others.name()));
        apart_features(&apart.flags, depth + 1, seen);
        apart_features(&apart.others, depth + 1, seen);
    }
}
