//! Chooses the coder of one plane by estimated cost.

use super::cost::entropy_bits;
use crate::entropy::{chain, huffman, rans, tree};
use crate::spec::Level;
use lmc_format::Coder;
use lmc_format::limits::CHAIN_LEVELS_MAX;

/// [`choose_bytes`] tries tables for at least this many bytes.
const TABLE_BYTES_MIN: usize = 512;

/// From this many bytes on, the speed of a tree matters more than its padding. At least this many
/// bytes are sampled from longer planes.
const TREE_BYTES_MIN: u64 = 1 << 13;

/// A coder and its expected size for the sampled plane.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The coder, with its table.
    pub coder: Coder,
    /// Bits for the sample.
    pub bits: u64,
}

/// Statistics of a plane, from a sample of it.
#[derive(Clone, Debug)]
pub(super) struct PlaneStats {
    /// How often each byte occurs.
    pub histogram: [u32; 256],
    /// Bytes that differ from the one before.
    pub changes: u32,
}

impl PlaneStats {
    /// Statistics of `plane`.
    pub(super) fn of(plane: &[u8]) -> Self {
        Self { histogram: super::cost::histogram(plane), changes: changes(plane) }
    }

    /// Adds the histogram of more bytes.
    pub(super) fn add(&mut self, plane: &[u8]) {
        for (sum, count) in self.histogram.iter_mut().zip(super::cost::histogram(plane)) {
            // A symbol of more than 2^32 values cannot get any cheaper.
            *sum = sum.saturating_add(count);
        }
    }

    /// Bytes that were counted.
    pub(super) fn count(&self) -> u64 {
        self.histogram.iter().map(|&c| u64::from(c)).sum()
    }

    /// Bits that are set in some bytes and not in others, and the bits set in all.
    fn varying_bits(&self) -> (u8, u8) {
        let seen = (0..=255_u8).filter(|&b| self.histogram[usize::from(b)] > 0);
        let (any, all) = seen.fold((0, 0xff), |(any, all), b| (any | b, all & b));
        (any & !all, all & any)
    }
}

/// Bytes that differ from the one before. They are counted in bytes until these would overflow,
/// which the compiler turns into vector code.
pub(super) fn changes(plane: &[u8]) -> u32 {
    let after = plane.get(1..).unwrap_or(&[]);
    let pairs = plane.chunks(255).zip(after.chunks(255));
    let count = |(a, b): (&[u8], &[u8])| {
        a.iter().zip(b).fold(0_u8, |count, (a, b)| count + u8::from(a != b))
    };
    pairs.map(|pair| u32::from(count(pair))).sum()
}

/// Chooses the coder of a plane.
///
/// `slack_bits` is how many more bits a faster coder may take, over the whole sample, before a
/// slower one is chosen.
pub(super) fn choose(stats: &PlaneStats, level: Level, slack_bits: u64) -> Choice {
    let n = stats.count();
    let (mask, rest) = stats.varying_bits();
    if mask == 0 {
        return Choice { coder: Coder::Constant(rest), bits: 0 };
    }
    let mut best = if mask == 0xff {
        Choice { coder: Coder::Raw, bits: 8 * n }
    } else {
        let bits = n * u64::from(mask.count_ones());
        Choice { coder: Coder::Packed { mask, rest }, bits }
    };
    let entropy = entropy_bits(&stats.histogram);
    // Noise looks a little compressible in a sample. A gain below this share is not trusted, or not
    // worth a decoder's time.
    if entropy + n / 16 < best.bits {
        consider_chain(stats, level, &mut best);
        consider_tables(stats, level, slack_bits, &mut best);
        // A run costs about three bytes: its token and value, and sometimes the token of the
        // literals before it.
        let runs = 24 * u64::from(stats.changes) + 64;
        if runs + slack_bits < best.bits {
            best = Choice { coder: Coder::Runs, bits: runs };
        }
    }
    best
}

fn consider_chain(stats: &PlaneStats, level: Level, best: &mut Choice) {
    let levels_max = if level == Level::Fast { 8 } else { CHAIN_LEVELS_MAX };
    let table = chain::build(&stats.histogram, levels_max);
    let bits = chain::cost_bits(&table, &stats.histogram);
    if bits < best.bits {
        *best = Choice { coder: Coder::Chain(table), bits };
    }
}

fn consider_tables(stats: &PlaneStats, level: Level, slack_bits: u64, best: &mut Choice) {
    if level == Level::Max {
        let Some(table) = rans::build(&stats.histogram) else { return };
        match rans::cost_bits(&table, &stats.histogram) {
            Some(bits) if bits < best.bits => {
                *best = Choice { coder: Coder::Rans(Box::new(table)), bits };
            }
            _ => {}
        }
        return;
    }
    if entropy_bits(&stats.histogram) + slack_bits >= best.bits {
        return;
    }
    if let Some(Choice { coder, bits }) = prefix_code(stats)
        && bits + slack_bits < best.bits
    {
        // The slack stays in the cost, so that a whole recipe with such a code must also gain that
        // much.
        *best = Choice { coder, bits: bits + slack_bits };
    }
}

/// A prefix code: a tree or, for few bytes, a Huffman code, which has less padding and no escape.
fn prefix_code(stats: &PlaneStats) -> Option<Choice> {
    let histogram = &stats.histogram;
    if stats.count() < TREE_BYTES_MIN {
        let table = huffman::build(histogram)?;
        let bits = huffman::cost_bits(&table, histogram)?;
        return Some(Choice { coder: Coder::Huffman(Box::new(table)), bits });
    }
    let table = tree::build(histogram)?;
    let bits = tree::cost_bits(&table, histogram)?;
    Some(Choice { coder: Coder::Tree(Box::new(table)), bits })
}

/// The same kind of coder with the exact table for `stats`, or the best coder if that kind does not
/// fit them.
pub(super) fn exact(coder: &Coder, stats: &PlaneStats, level: Level) -> Coder {
    let (mask, rest) = stats.varying_bits();
    if mask == 0 {
        return Coder::Constant(rest);
    }
    match coder {
        Coder::Huffman(_) => huffman::build(&stats.histogram).map(|t| Coder::Huffman(Box::new(t))),
        Coder::Rans(_) => rans::build(&stats.histogram).map(|t| Coder::Rans(Box::new(t))),
        Coder::Constant(_) | Coder::Packed { .. } => None,
        other => Some(other.clone()),
    }
    .unwrap_or_else(|| choose(stats, level, 0).coder)
}

/// The choice of the published algorithm: Huffman, unless the plane is constant or would not get
/// smaller.
pub(super) fn paper(stats: &PlaneStats) -> Coder {
    let (mask, rest) = stats.varying_bits();
    if mask == 0 {
        return Coder::Constant(rest);
    }
    let table = huffman::build(&stats.histogram);
    let bits = table.as_ref().and_then(|table| huffman::cost_bits(table, &stats.histogram));
    match (table, bits) {
        (Some(table), Some(bits)) if bits + 130 * 8 < 8 * stats.count() => {
            Coder::Huffman(Box::new(table))
        }
        _ => Coder::Raw,
    }
}

/// The smallest coder for all of these bytes, including its parameters. Few bytes get a coder
/// without a table, because making a table would take longer than it saves.
pub(crate) fn choose_bytes(bytes: &[u8]) -> Coder {
    let stats = PlaneStats::of(bytes);
    let (mask, rest) = stats.varying_bits();
    let mut best = match mask {
        0 => return Coder::Constant(rest),
        0xff => Coder::Raw,
        _ => Coder::Packed { mask, rest },
    };
    if bytes.len() < TABLE_BYTES_MIN {
        return best;
    }
    let mut least = bytes.len() as u64 * u64::from(mask.count_ones());
    let mut consider = |coder: Coder, bits: u64| {
        let mut parameters = Vec::new();
        coder.write(&mut parameters);
        let total = bits + 8 * parameters.len() as u64;
        if total < least {
            least = total;
            best = coder;
        }
    };
    let table = chain::build(&stats.histogram, CHAIN_LEVELS_MAX);
    let bits = chain::cost_bits(&table, &stats.histogram) + 16 * table.widths().len() as u64;
    consider(Coder::Chain(table), bits);
    if let Some(table) = huffman::build(&stats.histogram) {
        let bits = huffman::cost_bits(&table, &stats.histogram).unwrap_or(u64::MAX / 2);
        // Making its decoder's table takes as long as decoding many bytes.
        consider(Coder::Huffman(Box::new(table)), bits + 512);
    }
    best
}
