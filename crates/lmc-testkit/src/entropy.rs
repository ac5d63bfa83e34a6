//! The order-0 bound of a float tensor: the entropy of its exponent field, plus the sign (free if
//! it is constant) and the mantissa as they are. Tables cost nothing here, so no code of this kind
//! is smaller.

use crate::corpus::Dtype;
use lmc_format::dtype::{DtypeKind, FloatFields};

/// The bound for a whole tensor in bits; types other than floats count at their full size.
pub fn bound_bits(dtype: Dtype, bytes: &[u8]) -> f64 {
    let Some(fields) = fields(dtype) else { return bytes.len() as f64 * 8.0 };
    let width = dtype.bitsize() / 8;
    let exponent_mask = (1 << fields.exponent_bits) - 1;
    let mut counts = vec![0_u64; exponent_mask + 1];
    let mut negative = 0_u64;
    for value in bytes.chunks_exact(width) {
        let word = word(value);
        counts[(word >> fields.mantissa_bits) as usize & exponent_mask] += 1;
        negative += word >> (fields.exponent_bits + fields.mantissa_bits);
    }
    let values = (bytes.len() / width) as u64;
    let sign_bits = if negative == 0 || negative == values { 0 } else { values };
    entropy_bits(&counts) + (sign_bits + values * u64::from(fields.mantissa_bits)) as f64
}

/// Bits of all symbols together, for these counts.
pub fn entropy_bits(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let bits = |&count: &u64| match count {
        0 => 0.0,
        _ => count as f64 * (total as f64 / count as f64).log2(),
    };
    counts.iter().map(bits).sum()
}

fn fields(dtype: Dtype) -> Option<FloatFields> {
    match lmc_format::Dtype::from_safetensors(&dtype.to_string())?.kind() {
        DtypeKind::Float(fields) => Some(fields),
        _ => None,
    }
}

fn word(value: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..value.len()].copy_from_slice(value);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two exponents in equal parts cost one bit; a constant sign costs none.
    #[test]
    fn counts_each_field() {
        let tensor =
            |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
        assert_eq!(bound_bits(Dtype::F32, &tensor(&[1.0, 1.5])), 46.0);
        assert_eq!(bound_bits(Dtype::F32, &tensor(&[1.0, 2.5])), 48.0);
        assert_eq!(bound_bits(Dtype::F32, &tensor(&[1.0, -2.5])), 50.0);
        assert_eq!(bound_bits(Dtype::I8, &[1, 2, 3]), 24.0);
    }
}
