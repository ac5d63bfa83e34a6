//! Row shuffle: the same rows in another order, so that copies of a tensor do not repeat.

use crate::data::Random;

/// Appends the rows of `bytes` (each `row_bytes` long) to `out`, in an order set by `seed`.
///
/// Panics when `bytes` is not a whole number of rows.
pub fn append_rows_shuffled(bytes: &[u8], row_bytes: usize, seed: u64, out: &mut Vec<u8>) {
    assert!(row_bytes > 0 && bytes.len().is_multiple_of(row_bytes), "whole rows only");
    for row in permutation(bytes.len() / row_bytes, seed) {
        out.extend_from_slice(&bytes[row * row_bytes..][..row_bytes]);
    }
}

/// The numbers `0..len` in an order set by `seed` (Fisher-Yates).
pub fn permutation(len: usize, seed: u64) -> Vec<usize> {
    let mut rng = Random::new(seed);
    let mut order: Vec<usize> = (0..len).collect();
    for i in (1..len).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row appears once, whole, and the order depends on the seed only.
    #[test]
    fn keeps_every_row() {
        let bytes: Vec<u8> = (0..100).flat_map(|row| [row, 200, row]).collect();
        let shuffled = |seed| {
            let mut out = Vec::new();
            append_rows_shuffled(&bytes, 3, seed, &mut out);
            out
        };
        let mut rows: Vec<Vec<u8>> = shuffled(1).chunks(3).map(<[u8]>::to_vec).collect();
        rows.sort();
        assert_eq!(rows.concat(), bytes);
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
    }
}
