//! Chooses the table of a tree code for a histogram. The kernels are in `simd::tree`.

use super::huffman;
use lmc_format::TreeTable;

/// Bits of an escaped byte after its escape.
const ESCAPED_BITS: u64 = 8;

/// The best table for bytes like those counted in `histogram`; `None` if fewer than two occur.
///
/// The histogram may be from a sample. Unless all bytes occur in it, there is an escape. It is as
/// likely as all bytes that occur once are together: about that many others are still to come.
pub fn build(histogram: &[u32; 256]) -> Option<TreeTable> {
    let seen = histogram.iter().filter(|&&count| count > 0).count();
    if seen < 2 {
        return None;
    }
    let mut weights = *histogram;
    // A byte that does not occur lends its place to the escape.
    let place = histogram.iter().position(|&count| count == 0);
    if let Some(place) = place {
        weights[place] = histogram.iter().filter(|&&count| count == 1).count().max(1) as u32;
    }
    let mut lengths = *huffman::build(&weights)?.lengths();
    let escape = place.map_or(0, |place| std::mem::take(&mut lengths[place]));
    Some(TreeTable::new(lengths, escape).expect("a code of two bytes or more"))
}

/// Bits that `table` takes for the bytes counted in `histogram`; `None` if a byte has no code and
/// the table has no escape. Padding is not counted.
pub(crate) fn cost_bits(table: &TreeTable, histogram: &[u32; 256]) -> Option<u64> {
    let escaped = u64::from(table.escape()) + ESCAPED_BITS;
    let (mut bits, mut absent) = (0, 0);
    for (&length, &count) in table.lengths().iter().zip(histogram) {
        bits += u64::from(length) * u64::from(count);
        absent += if length == 0 { u64::from(count) } else { 0 };
    }
    (absent == 0 || table.escape() > 0).then_some(bits + escaped * absent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Isa;
    use crate::simd::tree::{Scratch, Tables, encode};

    fn histogram(bytes: &[u8]) -> [u32; 256] {
        let mut histogram = [0; 256];
        bytes.iter().for_each(|&b| histogram[usize::from(b)] += 1);
        histogram
    }

    /// The estimated cost is what the kernel writes, except for the padding of nodes, also with
    /// bytes that the table has not seen.
    #[test]
    fn cost_is_what_encoding_takes() {
        let bytes: Vec<u8> = (0..40_000_u32)
            .map(|i| i.wrapping_mul(2_654_435_761))
            .map(|r| 60 + (r >> 8).trailing_zeros().min(24) as u8 * 5 + (r >> 29) as u8)
            .collect();
        for seen in [1000, 40_000] {
            let table = build(&histogram(&bytes[..seen])).unwrap();
            let mut out = Vec::new();
            let tables = Tables::new(&table);
            assert!(
                encode(Isa::best(), &tables, &bytes, &mut Scratch::default(), &mut out).is_ok()
            );
            let bits = cost_bits(&table, &histogram(&bytes)).unwrap();
            let written = 8 * out.len() as u64;
            assert!(written >= bits && written <= bits + 8 * 64, "{written} bits, not {bits}");
        }
    }

    /// Every histogram of two bytes or more gets a table with an escape, unless all bytes occur.
    #[test]
    fn histograms_get_tables() {
        assert_eq!(build(&[0; 256]), None);
        assert_eq!(build(&histogram(&[9])), None);
        let table = build(&histogram(&[9, 9, 9, 200])).unwrap();
        assert_eq!((table.lengths()[9], table.lengths()[200], table.escape()), (1, 2, 2));
        let mut counts = [u32::MAX; 256];
        let table = build(&counts).unwrap();
        assert_eq!((table.lengths(), table.escape()), (&[8; 256], 0));
        assert_eq!(cost_bits(&table, &counts), Some(8 * 256 * u64::from(u32::MAX)));
        counts[77] = 0;
        let table = build(&counts).unwrap();
        assert!(table.escape() > 0 && table.lengths()[77] == 0);
        let mut steep = [0; 256];
        (0..40).for_each(|i| steep[i] = 1 << (i % 32));
        assert!(build(&steep).unwrap().lengths().iter().all(|&length| length <= 12));
    }
}
