//! Costs in bits, in integer arithmetic only, so that every machine plans the same.

/// Fractional bits of [`log2`].
const LOG2_FRACTION: u32 = 16;
/// Numbers below two to the power of this have their logarithm in the table.
const TABLE_BITS: u32 = 12;

static LOG2: [u32; 1 << TABLE_BITS] = log2_table();

const fn log2_table() -> [u32; 1 << TABLE_BITS] {
    let mut table = [0; 1 << TABLE_BITS];
    let mut x = 1;
    while x < table.len() {
        table[x] = exact_log2(x as u64);
        x += 1;
    }
    table
}

/// log2 of `x`, below 2^31 and not 0, in 16.16 fixed point.
const fn exact_log2(x: u64) -> u32 {
    let whole = x.ilog2();
    // The mantissa in [1, 2) with 31 fractional bits is squared again and again. Each time it
    // passes 2, it gives a bit.
    let mut mantissa = x << (31 - whole);
    let mut result = whole;
    let mut i = 0;
    while i < LOG2_FRACTION {
        mantissa = (mantissa * mantissa) >> 31;
        result <<= 1;
        if mantissa >> 32 != 0 {
            mantissa >>= 1;
            result |= 1;
        }
        i += 1;
    }
    result
}

/// log2 of `x` in 16.16 fixed point; 0 for 0. Numbers beyond the table are truncated to its
/// precision.
fn log2(x: u64) -> u64 {
    let shift = (u64::BITS - x.leading_zeros()).saturating_sub(TABLE_BITS);
    u64::from(LOG2[(x >> shift) as usize]) + (u64::from(shift) << LOG2_FRACTION)
}

/// Order-0 entropy of a histogram in bits, rounded up.
pub(super) fn entropy_bits(histogram: &[u32]) -> u64 {
    let total: u64 = histogram.iter().map(|&c| u64::from(c)).sum();
    let log_total = log2(total);
    let bits: u64 = histogram
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| u64::from(count) * (log_total - log2(u64::from(count))))
        .sum();
    bits.div_ceil(1 << LOG2_FRACTION)
}

/// Fractions of a bit that [`symbol_cost`] counts in.
pub(super) const PARTS: u32 = 16;

/// Cost of each of `count` in `total` symbols, in fractions of a bit; if there are none, the cost
/// of one.
pub(super) fn symbol_cost(count: u32, total: u32) -> u32 {
    let bits = log2(u64::from(total.max(1))).saturating_sub(log2(u64::from(count.max(1))));
    (bits >> (LOG2_FRACTION - PARTS.ilog2())) as u32
}

/// How often each byte occurs. Four tables, so that equal neighbours do not wait for each other.
pub(super) fn histogram(bytes: &[u8]) -> [u32; 256] {
    let mut tables = [[0_u32; 256]; 4];
    add_histogram(bytes, &mut tables);
    let [mut sum, b, c, d] = tables;
    for (i, count) in sum.iter_mut().enumerate() {
        *count += b[i] + c[i] + d[i];
    }
    sum
}

fn add_histogram(bytes: &[u8], tables: &mut [[u32; 256]; 4]) {
    let (fours, rest) = bytes.as_chunks::<4>();
    let [a, b, c, d] = tables;
    for &[w, x, y, z] in fours {
        a[usize::from(w)] += 1;
        b[usize::from(x)] += 1;
        c[usize::from(y)] += 1;
        d[usize::from(z)] += 1;
    }
    for &byte in rest {
        a[usize::from(byte)] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixed-point logarithm is exact to two units below 2^12, and to a two-thousandth of a bit
    /// above.
    #[test]
    fn log2_is_close() {
        for x in [1, 2, 3, 5, 10, 1000, 4095, 4096, 5001, 123_456, 1 << 40, u64::MAX] {
            let error = (log2(x) as f64 / 65536.0 - (x as f64).log2()).abs();
            assert!(error < if x < 4096 { 2.0 / 65536.0 } else { 1.0 / 2000.0 }, "log2({x})");
        }
    }

    /// Two symbols of equal weight cost one bit each, one symbol alone costs nothing.
    #[test]
    fn entropy_of_plain_cases() {
        assert_eq!(entropy_bits(&[500, 500]), 1000);
        assert_eq!(entropy_bits(&[500, 0]), 0);
        assert_eq!(entropy_bits(&[]), 0);
    }
}
