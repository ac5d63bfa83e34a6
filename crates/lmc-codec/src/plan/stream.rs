//! Chooses the coder of a stream of symbols, which may code a common symbol apart from the others.

use super::coder::{self, Choice, PlaneStats};
use crate::entropy::{chain, gaps, huffman, rans};
use crate::simd::{Isa, flags};
use crate::spec::Level;
use lmc_format::limits::CHAIN_LEVELS_MAX;
use lmc_format::{ApartCoder, Coder, HuffmanTable};
use std::sync::OnceLock;

/// Gaps are for flags if at most one in this many is set.
const GAPS_SHARE: u64 = 12;

/// If at most one in this many is set, nothing else comes close.
const GAPS_ALONE_SHARE: u64 = 32;

/// Relates the bits of a sample to those that a segment takes once.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    /// Values of the sample.
    pub sampled: u64,
    /// log2 of the values of a segment.
    pub segment_log2: u8,
}

impl Scale {
    fn once(self, bits: u64) -> u64 {
        (bits * self.sampled) >> self.segment_log2
    }
}

/// Chooses coders of streams.
#[derive(Clone, Copy)]
pub(super) struct StreamPlanner {
    pub isa: Isa,
    pub level: Level,
    pub scale: Scale,
}

impl StreamPlanner {
    /// The cheapest coder for symbols like these, with at most `depth` nested coders.
    ///
    /// All coders can code symbols missing from a sample, except those with tables, which are made
    /// from all symbols later.
    pub(super) fn choose(self, symbols: &[u8], depth: u8) -> Choice {
        let stats = PlaneStats::of(symbols);
        let mut best = self.plain(&stats, false);
        let common = (0..=255_u8).max_by_key(|&b| (stats.histogram[usize::from(b)], 255 - b));
        let common = common.unwrap_or(0);
        let count = u64::from(stats.histogram[usize::from(common)]);
        // Below this share a flag takes most of a bit, like the chain's first digit.
        if depth > 0 && 8 * count >= 5 * stats.count() {
            let (mut own_flags, mut others) = (Vec::new(), Vec::new());
            flags::take_out(self.isa, common, symbols, &mut own_flags, &mut others);
            let flags = self.choose_flags(&PlaneStats::of(&own_flags));
            // The flags alone must cost less than this, or nothing is gained.
            if flags.bits < best.bits {
                let others = self.choose(&others, depth - 1);
                let bits = flags.bits + others.bits;
                if bits < best.bits {
                    let (flags, others) = (flags.coder, others.coder);
                    let coder = ApartCoder { byte: common, flags, others };
                    best = Choice { coder: Coder::Apart(Box::new(coder)), bits };
                }
            }
        }
        best
    }

    /// The cheapest coder for flags like these, eight per byte.
    pub(super) fn choose_flags(self, stats: &PlaneStats) -> Choice {
        self.plain(stats, true)
    }

    /// The cheapest coder without nested ones.
    fn plain(self, stats: &PlaneStats, is_flags: bool) -> Choice {
        let (histogram, n) = (&stats.histogram, stats.count());
        let mut best = Choice { coder: Coder::Raw, bits: 8 * n };
        if is_flags {
            let set = set_bits(stats);
            let (low_bits, bits) = gaps::choose(set, 8 * n);
            // Gaps take time for every set bit, and pay off only if there are few.
            if set * GAPS_SHARE <= 8 * n || self.level == Level::Max {
                best = Choice { coder: Coder::Gaps(low_bits), bits: bits + self.scale.once(16) };
            }
            if set * GAPS_ALONE_SHARE <= 8 * n && self.level != Level::Max {
                return best;
            }
        }
        let mut consider = |coder: Coder, bits: u64| {
            if bits < best.bits || n == 0 && matches!(best.coder, Coder::Raw) {
                best = Choice { coder, bits };
            }
        };
        // There are too many different bytes of flags for a sample to show which are common.
        if !is_flags {
            let levels_max = if self.level == Level::Fast { 8 } else { CHAIN_LEVELS_MAX };
            let table = chain::build(histogram, levels_max);
            let padding = 8 * table.widths().len() as u64;
            let bits = chain::cost_bits(&table, histogram) + self.scale.once(padding);
            consider(Coder::Chain(table), bits);
        }
        if self.level == Level::Max {
            let table = rans::build(histogram);
            let bits = table.as_ref().and_then(|table| rans::cost_bits(table, histogram));
            if let (Some(table), Some(bits)) = (table, bits) {
                consider(Coder::Rans(Box::new(table)), bits + self.scale.once(132 * 8));
            }
        }
        // Flags are an eighth of the values, so a slower code for them costs little time.
        if self.level == Level::Max || is_flags && self.level == Level::Default {
            // A table for flags that are equally likely everywhere has seen all bytes. Looking at
            // each value before coding it would take as long as coding it.
            let table = match self.level {
                Level::Max => huffman::build(histogram),
                _ => even_flags(stats),
            };
            let bits = table.as_ref().and_then(|table| huffman::cost_bits(table, histogram));
            if let (Some(table), Some(bits)) = (table, bits) {
                consider(Coder::Huffman(Box::new(table)), bits + self.scale.once(8 * 8) + n / 64);
            }
        }
        best
    }
}

fn set_bits(stats: &PlaneStats) -> u64 {
    let counts = stats.histogram.iter().enumerate();
    counts.map(|(byte, &count)| u64::from(count) * u64::from(byte.count_ones())).sum()
}

/// Number of shares of set flags that have a table.
const SHARES: usize = 64;

/// The table for bytes of eight flags that are all equally likely to be set, at about the same
/// share as these. It is made once for all tensors, because making it takes longer than all other
/// planning.
fn even_flags(stats: &PlaneStats) -> Option<HuffmanTable> {
    static TABLES: [OnceLock<Option<HuffmanTable>>; SHARES] = [const { OnceLock::new() }; SHARES];
    let all = 8 * stats.count();
    let share = set_bits(stats) * SHARES as u64 / all.max(1);
    let share = share.min(SHARES as u64 - 1);
    TABLES[share as usize].get_or_init(|| huffman::build(&even_histogram(share))).clone()
}

/// How often each byte of eight flags occurs if a flag is set in `share` and a half out of
/// [`SHARES`] cases.
fn even_histogram(share: u64) -> [u32; 256] {
    const ONE: u64 = 2 * SHARES as u64;
    let set = 2 * share + 1;
    let by_count: [u32; 9] = std::array::from_fn(|ones| {
        let weight = (0..8)
            .fold(1 << 30, |weight: u64, i| weight * if i < ones { set } else { ONE - set } / ONE);
        weight.max(1) as u32
    });
    std::array::from_fn(|byte| by_count[byte.count_ones() as usize])
}

/// Whether a coder, or one nested in it, can code only bytes that its table has seen, and has not
/// seen all.
pub(super) fn needs_all(coder: &Coder) -> bool {
    match coder {
        Coder::Huffman(table) => table.lengths().contains(&0),
        Coder::Rans(_) => true,
        Coder::Apart(apart) => needs_all(&apart.flags) || needs_all(&apart.others),
        _ => false,
    }
}

/// Statistics of all symbols, for a coder and those nested in it.
pub(super) struct StreamStats {
    own: PlaneStats,
    inside: Option<Box<(u8, StreamStats, StreamStats)>>,
}

impl StreamStats {
    pub(super) fn new(coder: &Coder) -> Self {
        let inside = match coder {
            Coder::Apart(apart) => {
                let inside = (apart.byte, Self::new(&apart.flags), Self::new(&apart.others));
                Some(Box::new(inside))
            }
            _ => None,
        };
        Self { own: PlaneStats { histogram: [0; 256], changes: 0 }, inside }
    }

    pub(super) fn add(&mut self, isa: Isa, symbols: &[u8]) {
        let Some(inside) = &mut self.inside else {
            self.own.add(symbols);
            return;
        };
        let (common, flags, others) = &mut **inside;
        let (mut own_flags, mut own_others) = (Vec::new(), Vec::new());
        flags::take_out(isa, *common, symbols, &mut own_flags, &mut own_others);
        flags.add(isa, &own_flags);
        others.add(isa, &own_others);
    }

    /// The same kind of coder with tables that have seen all symbols.
    pub(super) fn exact(&self, coder: &Coder, level: Level) -> Coder {
        match (coder, &self.inside) {
            (Coder::Apart(apart), Some(inside)) => {
                let (_, flags, others) = &**inside;
                Coder::Apart(Box::new(ApartCoder {
                    byte: apart.byte,
                    flags: flags.exact(&apart.flags, level),
                    others: others.exact(&apart.others, level),
                }))
            }
            _ if needs_all(coder) => coder::exact(coder, &self.own, level),
            _ => coder.clone(),
        }
    }
}
