//! Code lengths from a histogram.
//!
//! In: how often each byte occurs. Out: the best complete code of at most 12 bits. Invariants:
//! integers only, and ties are broken by symbol, so equal histograms give equal tables. A plain
//! Huffman tree is tried first because it is quick; package-merge finds the best code within the
//! limit only if that tree is too deep.

use super::BITS_MAX;
use lmc_format::HuffmanTable;

/// The largest number of symbols, and of packages in a level of package-merge.
const SYMBOLS: usize = 256;

/// The largest number of entries in a level of package-merge: all symbols and half of the previous
/// level.
const LEVEL: usize = 2 * SYMBOLS;

/// The best table for `histogram`; `None` if fewer than two symbols occur.
pub fn build(histogram: &[u32; 256]) -> Option<HuffmanTable> {
    let mut keys = [0_u64; SYMBOLS];
    let mut n = 0;
    for (symbol, &count) in (0_u64..).zip(histogram).filter(|&(_, &count)| count > 0) {
        keys[n] = u64::from(count) << 8 | symbol;
        n += 1;
    }
    if n < 2 {
        return None;
    }
    let keys = &mut keys[..n];
    keys.sort_unstable();
    let mut weights = [u64::MAX; SYMBOLS + 1];
    weights.iter_mut().zip(&*keys).for_each(|(weight, key)| *weight = key >> 8);
    let mut depths = tree_depths(&weights, n);
    // The rarest symbol comes first and is the deepest.
    if usize::from(depths[0]) > BITS_MAX {
        depths = limited_depths(&weights, n);
    }
    let mut lengths = [0; 256];
    for (key, depth) in keys.iter().zip(depths) {
        lengths[(key & 255) as usize] = depth;
    }
    HuffmanTable::new(lengths).ok()
}

/// Bits that `table` needs for the bytes counted in `histogram`; `None` if a byte that occurs has
/// no code. Padding and part lengths are not counted.
pub(crate) fn cost_bits(table: &HuffmanTable, histogram: &[u32; 256]) -> Option<u64> {
    let mut bits = 0;
    let mut uncoded = 0;
    for (&length, &count) in table.lengths().iter().zip(histogram) {
        bits += u64::from(length) * u64::from(count);
        uncoded |= if length == 0 { count } else { 0 };
    }
    (uncoded == 0).then_some(bits)
}

/// Depth of each of `n` leaves in a Huffman tree, for weights in rising order with `u64::MAX`
/// after the last.
fn tree_depths(weights: &[u64; SYMBOLS + 1], n: usize) -> [u8; SYMBOLS] {
    // Inner nodes are made in rising order of weight, so the two lightest nodes are always at the
    // heads of the list of leaves and the list of inner nodes.
    let mut inner = [u64::MAX; SYMBOLS];
    let mut leaf_parents = [0_u8; SYMBOLS + 1];
    let mut inner_parents = [0_u8; SYMBOLS];
    let (mut leaf, mut used) = (0, 0);
    for node in 0..n - 1 {
        let mut sum = 0;
        for _ in 0..2 {
            let is_leaf = weights[leaf] <= inner[used];
            sum += weights[leaf].min(inner[used]);
            let parent = if is_leaf { &mut leaf_parents[leaf] } else { &mut inner_parents[used] };
            *parent = node as u8;
            leaf += usize::from(is_leaf);
            used += usize::from(!is_leaf);
        }
        inner[node] = sum;
    }
    let mut inner_depths = [0_u8; SYMBOLS];
    for node in (0..n - 2).rev() {
        inner_depths[node] = inner_depths[usize::from(inner_parents[node])] + 1;
    }
    let mut depths = [0; SYMBOLS];
    for (depth, &parent) in depths.iter_mut().zip(&leaf_parents[..n]) {
        *depth = inner_depths[usize::from(parent)] + 1;
    }
    depths
}

/// Depths of at most 12 with the least total cost, by package-merge; arguments as above.
fn limited_depths(weights: &[u64; SYMBOLS + 1], n: usize) -> [u8; SYMBOLS] {
    // Level k lists, lightest first, all symbols and the pairs made from level k - 1. The chosen
    // entries of the last level are its lightest 2n - 2; each level gives a bit to the symbols
    // chosen in it.
    let mut is_leaf = [[1_u8; LEVEL]; BITS_MAX];
    let mut entries = [0_u64; LEVEL];
    entries[..n].copy_from_slice(&weights[..n]);
    let mut count = n;
    for flags in &mut is_leaf[1..] {
        let mut packages = [u64::MAX; SYMBOLS + 1];
        for (package, pair) in packages.iter_mut().zip(entries[..count].chunks_exact(2)) {
            *package = pair.iter().sum();
        }
        count = n + count / 2;
        merge(weights, &packages, &mut entries[..count], flags);
    }
    let mut depths = [0; SYMBOLS];
    let mut chosen = 2 * n - 2;
    for flags in is_leaf.iter().rev() {
        let leaves: usize = flags[..chosen].iter().map(|&flag| usize::from(flag)).sum();
        depths[..leaves].iter_mut().for_each(|depth| *depth += 1);
        chosen = 2 * (chosen - leaves);
    }
    depths
}

/// Merges two rising lists, each ended by `u64::MAX`, and flags the entries from the first.
fn merge(
    weights: &[u64; SYMBOLS + 1],
    packages: &[u64; SYMBOLS + 1],
    entries: &mut [u64],
    flags: &mut [u8; LEVEL],
) {
    let (mut leaf, mut package) = (0, 0);
    for (entry, flag) in entries.iter_mut().zip(flags) {
        let (a, b) = (weights[leaf], packages[package]);
        let is_leaf = a <= b;
        *entry = a.min(b);
        *flag = u8::from(is_leaf);
        leaf += usize::from(is_leaf);
        package += usize::from(!is_leaf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: &[u32]) -> [u32; 256] {
        let mut histogram = [0; 256];
        histogram[..values.len()].copy_from_slice(values);
        histogram
    }

    fn fibonacci(n: usize) -> Vec<u32> {
        let mut values = vec![1, 1];
        (2..n).for_each(|i| values.push(values[i - 1] + values[i - 2]));
        values
    }

    /// Weights in the form that `build` prepares for the two algorithms.
    fn sorted(values: &[u32]) -> [u64; SYMBOLS + 1] {
        let mut values = values.to_vec();
        values.sort_unstable();
        let mut weights = [u64::MAX; SYMBOLS + 1];
        weights.iter_mut().zip(&values).for_each(|(w, &v)| *w = u64::from(v));
        weights
    }

    fn total(weights: &[u64], depths: &[u8]) -> u64 {
        weights.iter().zip(depths).map(|(w, &d)| w * u64::from(d)).sum()
    }

    /// The least cost of any complete code within the limit, by trying every way to use the places
    /// left at each length.
    fn brute_force(weights: &[u64], places: u64, bits: u32) -> Option<u64> {
        let Some((first, rest)) = weights.split_first() else {
            return (places == 0).then_some(0);
        };
        let lengths = (1..=bits).filter(|&b| places >= 1 << (12 - b));
        lengths
            .filter_map(|b| {
                let cost = brute_force(rest, places - (1 << (12 - b)), b)?;
                Some(cost + first * u64::from(b))
            })
            .min()
    }

    /// Fewer than two symbols have no code; two have one bit each, whatever their counts.
    #[test]
    fn needs_two_symbols() {
        assert_eq!(build(&[0; 256]), None);
        assert_eq!(build(&counts(&[0, 7])), None);
        let table = build(&counts(&[u32::MAX, 0, 1])).unwrap();
        assert_eq!(table.lengths()[..3], [1, 0, 1]);
    }

    /// All 256 symbols with the largest counts get 8 bits each and nothing overflows.
    #[test]
    fn uniform_histogram_is_flat() {
        let table = build(&[u32::MAX; 256]).unwrap();
        assert_eq!(table.lengths(), &[8; 256]);
        assert_eq!(cost_bits(&table, &[u32::MAX; 256]), Some(8 * 256 * u64::from(u32::MAX)));
    }

    /// With and without the limit in force, the cost is the least possible.
    #[test]
    fn matches_brute_force() {
        for n in [3, 5, 8, 14, 15, 16] {
            let values = fibonacci(n);
            let weights = sorted(&values);
            let cost = cost_bits(&build(&counts(&values)).unwrap(), &counts(&values));
            assert_eq!(cost, brute_force(&weights[..n], 4096, 12), "{n}");
        }
    }

    /// Package-merge and the plain tree cost the same if the limit does not bind.
    #[test]
    fn both_algorithms_agree() {
        let mut state = 1_u32;
        for n in 2..=256 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) % 500 + 500
            };
            let values: Vec<u32> = (0..n).map(|_| next()).collect();
            let weights = sorted(&values);
            let (tree, limited) = (tree_depths(&weights, n), limited_depths(&weights, n));
            assert_eq!(total(&weights[..n], &tree), total(&weights[..n], &limited), "{n}");
        }
    }

    /// Steep histograms of any number of symbols stay within 12 bits.
    #[test]
    fn limit_holds() {
        for n in 2..=256 {
            let steep: Vec<u32> = (0..n).map(|i| 1 << (i % 32)).collect();
            let table = build(&counts(&steep)).unwrap();
            assert!(table.lengths()[..n].iter().all(|&l| (1..=12).contains(&l)));
        }
        let table = build(&counts(&fibonacci(45))).unwrap();
        assert_eq!(table.lengths().iter().max(), Some(&12));
    }
}
