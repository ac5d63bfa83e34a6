//! Chooses the shape and symbols of a chain code for a histogram. The kernels are in `simd::chain`.

use lmc_format::ChainTable;
use lmc_format::limits::{CHAIN_LEVELS_MAX, CHAIN_SYMBOLS_MAX};

const ESCAPE_BITS: u64 = 8;

/// The cheapest chain table with at most `levels_max` levels for bytes with this `histogram`.
///
/// The histogram may be from a sample. A byte next to one that was seen is assumed to occur now and
/// then, because exponents thin out smoothly. So rare bytes get a place before bytes that never
/// occur.
pub(crate) fn build(histogram: &[u32; 256], levels_max: usize) -> ChainTable {
    let weights = spread_to_neighbours(histogram);
    let mut ranked: Vec<u8> = (0..=255).filter(|&s| weights[usize::from(s)] > 0).collect();
    ranked.sort_by_key(|&s| (std::cmp::Reverse(weights[usize::from(s)]), s));
    let widths = cheapest_shape(&ranked, &weights, levels_max.clamp(1, CHAIN_LEVELS_MAX));
    let count: usize = widths.iter().map(|&w| (1 << w) - 1).sum();
    // A shape may have more places than there are symbols. The first symbol fills them; they are
    // never used.
    let filler = ranked.first().copied().unwrap_or(0);
    ranked.resize(count, filler);
    ChainTable::new(widths, ranked).expect("the shape search keeps to the format's limits")
}

fn spread_to_neighbours(histogram: &[u32; 256]) -> [u64; 256] {
    std::array::from_fn(|s| {
        let below = if s > 0 { histogram[s - 1] } else { 0 };
        let above = if s < 255 { histogram[s + 1] } else { 0 };
        32 * u64::from(histogram[s]) + u64::from(below) + u64::from(above)
    })
}

/// Digit widths of the cheapest chain for symbols in this order.
///
/// `best[l][i]` is the least cost of coding all symbols from rank `i` on when `l` levels are left:
/// either they all escape, or a level of one or two bits takes the next one or three of them.
fn cheapest_shape(ranked: &[u8], weights: &[u64; 256], levels_max: usize) -> Vec<u8> {
    let mut left = [0_u64; CHAIN_SYMBOLS_MAX + 1];
    let total: u64 = ranked.iter().map(|&s| weights[usize::from(s)]).sum();
    let mut seen = 0;
    for (rank, slot) in left.iter_mut().enumerate() {
        *slot = total - seen;
        seen += ranked.get(rank).map_or(0, |&s| weights[usize::from(s)]);
    }
    let mut best = [[0_u64; CHAIN_SYMBOLS_MAX + 1]; CHAIN_LEVELS_MAX + 1];
    let mut choice = [[0_u8; CHAIN_SYMBOLS_MAX + 1]; CHAIN_LEVELS_MAX + 1];
    for levels in 0..=levels_max {
        for rank in 0..=CHAIN_SYMBOLS_MAX {
            best[levels][rank] = ESCAPE_BITS * left[rank];
            for width in [1_u8, 2] {
                let next = rank + (1 << width) - 1;
                if levels == 0 || next > CHAIN_SYMBOLS_MAX || left[rank] == 0 {
                    continue;
                }
                let cost = u64::from(width) * left[rank] + best[levels - 1][next];
                if cost < best[levels][rank] {
                    best[levels][rank] = cost;
                    choice[levels][rank] = width;
                }
            }
        }
    }
    let mut widths = Vec::new();
    let (mut levels, mut rank) = (levels_max, 0);
    while choice[levels][rank] > 0 {
        let width = choice[levels][rank];
        widths.push(width);
        levels -= 1;
        rank += (1 << width) - 1;
    }
    // Nothing gains, as for uniform bytes. The format still needs a level.
    if widths.is_empty() {
        widths.push(1);
    }
    widths
}

/// Bits that `table` takes for bytes with this `histogram`.
pub(crate) fn cost_bits(table: &ChainTable, histogram: &[u32; 256]) -> u64 {
    let mut left: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
    let mut counted = [false; 256];
    let mut symbols = table.symbols().iter();
    let mut bits = 0;
    for &width in table.widths() {
        bits += u64::from(width) * left;
        for &symbol in symbols.by_ref().take((1 << width) - 1) {
            let symbol = usize::from(symbol);
            if !std::mem::replace(&mut counted[symbol], true) {
                left -= u64::from(histogram[symbol]);
            }
        }
    }
    bits + ESCAPE_BITS * left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::simd::chain::{Scratch, Tables, encode};

    fn histogram(bytes: &[u8]) -> [u32; 256] {
        let mut histogram = [0; 256];
        for &b in bytes {
            histogram[usize::from(b)] += 1;
        }
        histogram
    }

    /// The estimated cost is what the kernel writes, except for the padding of each level.
    #[test]
    fn cost_is_what_encoding_takes() {
        let bytes: Vec<u8> = (0..40_000_u32)
            .map(|i| 100 + (i.wrapping_mul(2_654_435_761) >> 8).trailing_zeros().min(20) as u8)
            .collect();
        let histogram = histogram(&bytes);
        let table = build(&histogram, 12);
        let mut out = Vec::new();
        encode(Isa::best(), &Tables::new(&table), &bytes, &mut Scratch::default(), &mut out);
        let bits = cost_bits(&table, &histogram);
        let written = 8 * out.len() as u64;
        assert!(written >= bits && written <= bits + 12 * 16, "{written} bits, {bits} announced");
        assert!(
            bits < 82_000,
            "a geometric source costs two bits a byte, 80,000 in all, not {bits}"
        );
    }

    /// Every histogram gets a valid table, even an empty or flat one.
    #[test]
    fn any_histogram_has_a_table() {
        build(&[0; 256], 12);
        build(&[7; 256], 12);
        build(&histogram(&[255]), 1);
        build(&histogram(&[0, 255, 254]), 12);
    }
}
