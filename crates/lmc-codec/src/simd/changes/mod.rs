//! Finds values that differ from their base, sorts bits by context, takes values out and puts them
//! back (`docs/format.md`, sections 3.8 and 4.5).
//!
//! Values are worked on in groups of 64. Each group has a word that marks the selected values, and
//! a word for each bound that marks the bases with an exponent from that bound on. `pext` and
//! `pdep` sort bits and put them back in place.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod bits;
mod portable;

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::IsaKind;
pub(crate) use bits::{FLAGS_PADDING, counts, sort, unsort};

/// Values per word of bits.
pub(crate) const GROUP: usize = 64;
/// Bytes that kernels may read and write after closed-up values: a group of the widest values.
pub(crate) const SLACK: usize = 8 * GROUP;

/// The exponents of their base that values are sorted by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextRule<'a> {
    /// log2 of the width of a value.
    pub width_log2: u8,
    /// Bits of the exponent, which is just below the sign.
    pub exponent_bits: u8,
    /// Subtracted from the exponent.
    pub exponent_first: u16,
    /// Where contexts begin, except the first.
    pub bounds: &'a [u8],
}

/// The number of groups for `n` values.
pub(crate) fn groups(n: usize) -> usize {
    n.div_ceil(GROUP)
}

/// The bits of group `i` that belong to one of the `n` values.
fn valid(n: usize, i: usize) -> u64 {
    match n - i * GROUP {
        left @ ..GROUP => (1 << left) - 1,
        _ => u64::MAX,
    }
}

/// For each group and each bound, which bases have an exponent from that bound on.
pub(crate) fn masks(isa: Isa, rule: ContextRule, base: &[u8], out: &mut [u64]) {
    let n = base.len() >> rule.width_log2;
    let count = rule.bounds.len();
    assert_eq!(out.len(), groups(n) * count);
    let (mut base, mut out) = (base, out);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let whole = n / GROUP;
        let (own, rest) = base.split_at((whole * GROUP) << rule.width_log2);
        let (own_out, rest_out) = out.split_at_mut(whole * count);
        // SAFETY: the isa proves that the instructions exist.
        unsafe {
            match isa.kind() {
                IsaKind::Avx512 => avx512::masks(rule, own, own_out),
                _ => avx2::masks(rule, own, own_out),
            }
        }
        (base, out) = (rest, rest_out);
    }
    portable::masks(rule, base, out);
}

/// Marks, for each group, the values that differ from their base. Writes those and their bases,
/// closed up, with room for [`SLACK`] bytes after them. Returns their number.
pub(crate) fn find(
    isa: Isa,
    width_log2: u8,
    values: &[u8],
    base: &[u8],
    bits: &mut [u64],
    taken: [&mut [u8]; 2],
) -> usize {
    let n = values.len() >> width_log2;
    assert_eq!(values.len(), base.len());
    assert_eq!(bits.len(), groups(n));
    assert!(taken.iter().all(|taken| taken.len() >= values.len() + SLACK));
    let [own, own_base] = taken;
    let (mut values, mut base, mut bits, mut done) = (values, base, bits, 0);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let whole = (n / GROUP * GROUP) << width_log2;
        let (values_own, values_rest) = values.split_at(whole);
        let (base_own, base_rest) = base.split_at(whole);
        let (bits_own, bits_rest) = bits.split_at_mut(n / GROUP);
        // SAFETY: the isa proves that the instructions exist.
        done = unsafe {
            match isa.kind() {
                IsaKind::Avx512 => {
                    avx512::find(width_log2, values_own, base_own, bits_own, own, own_base)
                }
                _ => avx2::find(width_log2, values_own, base_own, bits_own, own, own_base),
            }
        };
        (values, base, bits) = (values_rest, base_rest, bits_rest);
    }
    let place = done << width_log2;
    let (own, own_base) = (&mut own[place..], &mut own_base[place..]);
    done + portable::find(width_log2, values, base, bits, own, own_base)
}

/// Writes the values of `src` whose bits are set, closed up, with room for [`SLACK`] bytes after
/// them. Returns their number.
pub(crate) fn take(isa: Isa, width_log2: u8, bits: &[u64], src: &[u8], out: &mut [u8]) -> usize {
    let n = src.len() >> width_log2;
    assert_eq!(bits.len(), groups(n));
    assert!(out.len() >= src.len() + SLACK);
    let (mut bits, mut src, mut done) = (bits, src, 0);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let (own, rest) = src.split_at((n / GROUP * GROUP) << width_log2);
        let (own_bits, rest_bits) = bits.split_at(n / GROUP);
        // SAFETY: the isa proves that the instructions exist.
        done = unsafe {
            match isa.kind() {
                IsaKind::Avx512 => avx512::take(width_log2, own_bits, own, out),
                _ => avx2::take(width_log2, own_bits, own, out),
            }
        };
        (bits, src) = (rest_bits, rest);
    }
    done + portable::take(width_log2, bits, src, &mut out[done << width_log2..])
}

/// Makes `dst` from `base`, with `values` at the places whose bits are set. There are as many
/// values as set bits, followed by [`SLACK`] bytes.
pub(crate) fn put(
    isa: Isa,
    width_log2: u8,
    bits: &[u64],
    values: &[u8],
    base: &[u8],
    dst: &mut [u8],
    streaming: bool,
) {
    let n = base.len() >> width_log2;
    assert_eq!(dst.len(), base.len());
    assert_eq!(bits.len(), groups(n));
    let count: usize = bits.iter().map(|bits| bits.count_ones() as usize).sum();
    assert!(values.len() >= (count << width_log2) + SLACK);
    let (mut bits, mut base, mut dst, mut done) = (bits, base, dst, 0);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let whole = (n / GROUP * GROUP) << width_log2;
        let (own, rest) = base.split_at(whole);
        let (own_dst, rest_dst) = dst.split_at_mut(whole);
        let (own_bits, rest_bits) = bits.split_at(n / GROUP);
        // SAFETY: the isa proves that the instructions exist, and there is a value for each bit.
        done = unsafe {
            match isa.kind() {
                IsaKind::Avx512 => {
                    avx512::put(width_log2, own_bits, values, own, own_dst, streaming)
                }
                _ => avx2::put(width_log2, own_bits, values, own, own_dst, streaming),
            }
        };
        (bits, base, dst) = (rest_bits, rest, rest_dst);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (isa, streaming);
    portable::put(width_log2, bits, &values[done << width_log2..], base, dst);
}

#[cfg(test)]
mod tests;
