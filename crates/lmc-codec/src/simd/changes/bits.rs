//! Sorts bits by the context of their values, and puts them back in their places.

use super::{GROUP, valid};
use crate::simd::Isa;
#[cfg(target_arch = "x86_64")]
use crate::simd::IsaKind;
use crate::simd::chain::low_bits;
use crate::simd::classes::BitString;

/// Bytes that may be read after the flags of a context.
pub(crate) const FLAGS_PADDING: usize = 16;

/// Which values of a group are in context `k`, according to its words of [`super::masks`].
#[inline(always)]
fn context(masks: &[u64], k: usize, valid: u64) -> u64 {
    let from = if k == 0 { valid } else { masks[k - 1] };
    let up_to = masks.get(k).copied().unwrap_or(0);
    from & !up_to
}

/// The words of each group; groups without a bound have none.
fn each_group(masks: &[u64], bounds: usize, n: usize) -> impl Iterator<Item = (&[u64], u64)> {
    (0..super::groups(n)).map(move |i| (&masks[i * bounds..(i + 1) * bounds], valid(n, i)))
}

/// How many of `n` values each context has.
pub(crate) fn counts(isa: Isa, masks: &[u64], bounds: usize, n: usize) -> Vec<usize> {
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        // SAFETY: the isa proves POPCNT.
        return unsafe { x86::counts(masks, bounds, n) };
    }
    counts_of(masks, bounds, n)
}

#[inline(always)]
fn counts_of(masks: &[u64], bounds: usize, n: usize) -> Vec<usize> {
    let mut from = vec![0; bounds + 2];
    from[0] = n;
    for group in masks.chunks_exact(bounds.max(1)) {
        for (sum, mask) in from[1..].iter_mut().zip(group) {
            *sum += mask.count_ones() as usize;
        }
    }
    from.windows(2).map(|pair| pair[0] - pair[1]).collect()
}

/// Appends the bits of `n` values to the strings of their contexts; there is one more context than
/// bounds. The strings have room for all bits.
pub(crate) fn sort(isa: Isa, masks: &[u64], n: usize, bits: &[u64], strings: &mut [BitString]) {
    let bounds = strings.len() - 1;
    assert_eq!(bits.len(), super::groups(n));
    assert_eq!(masks.len(), bits.len() * bounds);
    for (k, string) in strings.iter_mut().enumerate() {
        #[cfg(target_arch = "x86_64")]
        if isa.kind() >= IsaKind::Avx2 {
            // SAFETY: the isa proves BMI2.
            unsafe { x86::sort(masks, bounds, n, k, bits, string) };
            continue;
        }
        for ((masks, valid), &bits) in each_group(masks, bounds, n).zip(bits) {
            let mask = context(masks, k, valid);
            string.push(extract(bits, mask), mask.count_ones());
        }
    }
}

/// Undoes [`sort`]: the bits of all contexts are in `flags`, each followed by [`FLAGS_PADDING`]
/// bytes.
pub(crate) fn unsort(isa: Isa, masks: &[u64], n: usize, flags: &[Vec<u8>], bits: &mut [u64]) {
    let bounds = flags.len() - 1;
    assert_eq!(bits.len(), super::groups(n));
    assert_eq!(masks.len(), bits.len() * bounds);
    bits.fill(0);
    for (k, flags) in flags.iter().enumerate() {
        #[cfg(target_arch = "x86_64")]
        if isa.kind() >= IsaKind::Avx2 {
            // SAFETY: the isa proves BMI2.
            unsafe { x86::unsort(masks, bounds, n, k, flags, bits) };
            continue;
        }
        let mut at = 0;
        for ((masks, valid), bits) in each_group(masks, bounds, n).zip(&mut *bits) {
            let mask = context(masks, k, valid);
            *bits |= deposit(word_from(flags, at), mask);
            at += mask.count_ones() as usize;
        }
    }
}

/// The 64 bits from bit `at` of `bytes` on, with zeros after the last.
fn word_from(bytes: &[u8], at: usize) -> u64 {
    let mut both = [0; 16];
    let rest = bytes.get(at / 8..).unwrap_or_default();
    let len = rest.len().min(16);
    both[..len].copy_from_slice(&rest[..len]);
    (u128::from_le_bytes(both) >> (at % 8)) as u64
}

/// The result of `pext`.
fn extract(bits: u64, mask: u64) -> u64 {
    let (mut out, mut left) = (0, bits & mask);
    // Counting the bits below one bit takes as long as a few steps of the loop over all.
    if 3 * left.count_ones() < mask.count_ones() {
        while left != 0 {
            let below = left ^ (left - 1);
            out |= 1 << ((mask & below).count_ones() - 1);
            left &= left - 1;
        }
        return out;
    }
    let (mut mask, mut place) = (mask, 0);
    while mask != 0 {
        out |= (bits >> mask.trailing_zeros() & 1) << place;
        place += 1;
        mask &= mask - 1;
    }
    out
}

/// The result of `pdep`.
fn deposit(bits: u64, mask: u64) -> u64 {
    let (mut out, mut mask) = (0, mask);
    // Bits without a place would keep the loop from ending.
    let mut left = bits & low_bits(mask.count_ones() as usize);
    while left != 0 {
        out |= (left & 1) << mask.trailing_zeros();
        left >>= 1;
        mask &= mask - 1;
    }
    out
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BitString, GROUP, context, each_group};
    use crate::simd::classes::Writer;
    use std::arch::x86_64::_pdep_u64;

    /// # Safety
    /// The CPU has BMI2.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    pub(super) unsafe fn sort(
        masks: &[u64],
        bounds: usize,
        n: usize,
        k: usize,
        bits: &[u64],
        string: &mut BitString,
    ) {
        let mut writer = Writer::new(string, n.div_ceil(GROUP) * GROUP / 8);
        for ((masks, valid), &bits) in each_group(masks, bounds, n).zip(bits) {
            // SAFETY: there is room for a bit of each value, and a word more.
            unsafe { writer.push(bits, context(masks, k, valid)) };
        }
        writer.finish(string);
    }

    /// # Safety
    /// The CPU has BMI2.
    #[target_feature(enable = "bmi1,bmi2,popcnt")]
    pub(super) unsafe fn unsort(
        masks: &[u64],
        bounds: usize,
        n: usize,
        k: usize,
        flags: &[u8],
        bits: &mut [u64],
    ) {
        let mut at = 0;
        for ((masks, valid), bits) in each_group(masks, bounds, n).zip(bits) {
            let mask = context(masks, k, valid);
            let from: &[u8; 9] = flags[at / 8..].first_chunk().expect("flags are padded");
            let word = u64::from_le_bytes(*from.first_chunk().expect("eight of nine bytes"));
            let shift = at % 8;
            *bits |= _pdep_u64(word >> shift | u64::from(from[8]) << 1 << (63 - shift), mask);
            at += mask.count_ones() as usize;
        }
    }

    /// # Safety
    /// The CPU has POPCNT.
    #[target_feature(enable = "popcnt")]
    pub(super) unsafe fn counts(masks: &[u64], bounds: usize, n: usize) -> Vec<usize> {
        super::counts_of(masks, bounds, n)
    }
}
