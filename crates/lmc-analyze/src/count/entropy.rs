//! Entropies of order 0.

use std::sync::LazyLock;

/// Counts up to this one are looked up.
const KNOWN: usize = 1 << 16;

/// `n * log2(n)` for small counts.
static TERMS: LazyLock<Vec<f64>> = LazyLock::new(|| (0..=KNOWN as u64).map(computed).collect());

fn computed(count: u64) -> f64 {
    if count == 0 { 0.0 } else { count as f64 * (count as f64).log2() }
}

/// `n * log2(n)`; 0 for 0.
pub(crate) fn term(count: u64) -> f64 {
    match TERMS.get(count as usize) {
        Some(&term) => term,
        None => computed(count),
    }
}

/// All bits that an ideal coder needs for symbols that occur so often, `total` times together.
pub(crate) fn bits_of(counts: impl IntoIterator<Item = u64>, total: u64) -> f64 {
    let terms: &[f64] = &TERMS;
    let known = |count: u64| terms.get(count as usize).copied();
    let sum: f64 =
        counts.into_iter().map(|count| known(count).unwrap_or_else(|| computed(count))).sum();
    // Sums of logarithms are inexact, and nothing takes less than nothing.
    (term(total) - sum).max(0.0)
}

/// Bits per symbol; 0 if there are none.
pub(crate) fn entropy(counts: impl IntoIterator<Item = u64>, total: u64) -> f64 {
    bits_of(counts, total) / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entropies that are known: one symbol, equal ones, and a share of a quarter.
    #[test]
    fn known_entropies() {
        assert_eq!(entropy([7, 0, 0], 7), 0.0);
        assert_eq!(entropy([], 0), 0.0);
        assert_eq!(entropy([5; 8], 40), 3.0);
        assert!((entropy([1, 3], 4) - 0.811_278_124_459_132_8).abs() < 1e-12);
        // Beyond what is looked up.
        assert!((entropy([1 << 40; 4], 4 << 40) - 2.0).abs() < 1e-9);
    }
}
