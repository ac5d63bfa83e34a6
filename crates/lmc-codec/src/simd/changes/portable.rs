//! Changes in safe Rust: the reference for the kernels.

use super::{ContextRule, GROUP};
use crate::simd::chain::eights::gather;
use crate::simd::chain::low_bits;

/// [`super::masks`].
pub(super) fn masks(rule: ContextRule, base: &[u8], out: &mut [u64]) {
    for_width!(rule.width_log2, masks_of(rule, base, out));
}

fn masks_of<const W: usize>(rule: ContextRule, base: &[u8], out: &mut [u64]) {
    let count = rule.bounds.len();
    if count == 0 {
        return;
    }
    let shift = 15 - rule.exponent_bits;
    let groups = base.as_chunks::<W>().0.chunks(GROUP);
    for (group, out) in groups.zip(out.chunks_exact_mut(count)) {
        let mut above = [0; GROUP];
        for (above, value) in above.iter_mut().zip(group) {
            // Sign and exponent have at most 12 bits.
            let low = if W > 1 { value[W - 2] } else { 0 };
            let top = u16::from_le_bytes([low, value[W - 1]]);
            let exponent = (top & 0x7fff) >> shift;
            *above = exponent.saturating_sub(rule.exponent_first).min(255) as u8;
        }
        let valid = low_bits(group.len());
        for (mask, &bound) in out.iter_mut().zip(rule.bounds) {
            *mask = gather(&above.map(|above| u8::from(above >= bound))) & valid;
        }
    }
}

/// [`super::find`].
pub(super) fn find(
    width_log2: u8,
    values: &[u8],
    base: &[u8],
    bits: &mut [u64],
    own: &mut [u8],
    own_base: &mut [u8],
) -> usize {
    for_width!(width_log2, find_of(values, base, bits, own, own_base))
}

fn find_of<const W: usize>(
    values: &[u8],
    base: &[u8],
    bits: &mut [u64],
    own: &mut [u8],
    own_base: &mut [u8],
) -> usize {
    let (own, own_base) = (own.as_chunks_mut::<W>().0, own_base.as_chunks_mut::<W>().0);
    let groups = values.as_chunks::<W>().0.chunks(GROUP);
    let pairs = groups.zip(base.as_chunks::<W>().0.chunks(GROUP));
    let mut end = 0;
    for ((values, base), bits) in pairs.zip(bits) {
        *bits = 0;
        for (i, (value, base)) in values.iter().zip(base).enumerate() {
            // Every value is written, but the position advances only after those that differ: no
            // branch depends on the data.
            (own[end], own_base[end]) = (*value, *base);
            let differs = value != base;
            end += usize::from(differs);
            *bits |= u64::from(differs) << i;
        }
    }
    end
}

/// [`super::take`].
pub(super) fn take(width_log2: u8, bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    for_width!(width_log2, take_of(bits, src, out))
}

fn take_of<const W: usize>(bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    let out = out.as_chunks_mut::<W>().0;
    let mut end = 0;
    for (values, &bits) in src.as_chunks::<W>().0.chunks(GROUP).zip(bits) {
        let mut left = bits;
        while left != 0 {
            out[end] = values[left.trailing_zeros() as usize];
            end += 1;
            left &= left - 1;
        }
    }
    end
}

/// [`super::put`].
pub(super) fn put(width_log2: u8, bits: &[u64], values: &[u8], base: &[u8], dst: &mut [u8]) {
    for_width!(width_log2, put_of(bits, values, base, dst));
}

fn put_of<const W: usize>(bits: &[u64], values: &[u8], base: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(base);
    let mut values = values.as_chunks::<W>().0.iter();
    for (dst, &bits) in dst.as_chunks_mut::<W>().0.chunks_mut(GROUP).zip(bits) {
        let mut left = bits;
        while left != 0 {
            dst[left.trailing_zeros() as usize] = *values.next().expect("a value for each bit");
            left &= left - 1;
        }
    }
}
