//! Finds the contexts of values, and sorts symbols by them.

use super::{ContextRule, GROUP};
use crate::simd::{Isa, IsaKind, words::per_isa};

/// The byte of each base value that chooses its context: its exponent, minus the first one, and
/// clamped to a byte.
pub(crate) fn exponents(isa: Isa, width_log2: u8, rule: ContextRule, base: &[u8], out: &mut [u8]) {
    assert_eq!(base.len(), out.len() << width_log2);
    let ContextRule { bits, first, .. } = rule;
    let shift = (8 << width_log2) - 1 - u32::from(bits);
    match width_log2 {
        0 => exponents1(isa, shift, bits, first, base, out),
        1 => exponents2(isa, shift, bits, first, base, out),
        2 => exponents4(isa, shift, bits, first, base, out),
        _ => exponents8(isa, shift, bits, first, base, out),
    }
}

macro_rules! exponents {
    ($name:ident, $word:ty, $len:literal) => {
        per_isa! {
            fn $name(shift: u32, bits: u8, first: u16, base: &[u8], out: &mut [u8]) {
                let mask = u16::MAX >> (16 - bits);
                if first == 0 && bits <= 8 {
                    for (byte, base) in out.iter_mut().zip(base.as_chunks::<$len>().0) {
                        *byte = (<$word>::from_le_bytes(*base) >> shift) as u8 & mask as u8;
                    }
                    return;
                }
                for (byte, base) in out.iter_mut().zip(base.as_chunks::<$len>().0) {
                    let exponent = (<$word>::from_le_bytes(*base) >> shift) as u16 & mask;
                    *byte = exponent.saturating_sub(first).min(255) as u8;
                }
            }
        }
    };
}

exponents!(exponents1, u8, 1);
exponents!(exponents2, u16, 2);
exponents!(exponents4, u32, 4);
exponents!(exponents8, u64, 8);

/// Appends the masks of each group of values with these exponents: one for each context. There is
/// one more context than `bounds`.
pub(crate) fn context_masks(isa: Isa, exponents: &[u8], bounds: &[u8], masks: &mut Vec<u64>) {
    let mut rest = exponents;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 {
        let (groups, others) = exponents.as_chunks::<GROUP>();
        // SAFETY: the isa proves AVX-512.
        unsafe { super::avx512::context_masks(groups, bounds, masks) };
        rest = others;
    }
    for group in rest.chunks(GROUP) {
        let below = |bound: u8| {
            let bits = group.iter().enumerate();
            bits.fold(0, |mask, (i, &exponent)| mask | u64::from(exponent < bound) << i)
        };
        let mut reached = u64::MAX >> (GROUP - group.len());
        for &bound in bounds {
            let next = below(bound) & reached;
            masks.push(reached & !next);
            reached = next;
        }
        masks.push(reached);
    }
}

per_isa! {
    /// Adds the number of values in each context to `counts`.
    pub(crate) fn count_masks(masks: &[u64], counts: &mut [usize]) {
        for masks in masks.chunks_exact(counts.len()) {
            counts.iter_mut().zip(masks).for_each(|(sum, mask)| *sum += mask.count_ones() as usize);
        }
    }
}

per_isa! {
    /// The largest of these bytes; 0 if there are none.
    pub(crate) fn largest(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |most, &byte| most.max(byte))
    }
}

/// Appends `symbols` to the stream of their context; `lens` bytes of it are already filled. Each
/// stream has room for [`GROUP`] bytes more than it will get.
pub(crate) fn partition(
    isa: Isa,
    masks: &[u64],
    symbols: &[u8],
    streams: &mut [Vec<u8>],
    lens: &mut [usize],
) {
    let contexts = lens.len();
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 {
        let groups = symbols.as_chunks::<GROUP>().0;
        assert!(masks.len() >= groups.len() * contexts && streams.len() >= contexts);
        for (stream, &len) in streams.iter().zip(lens.iter()) {
            assert!(stream.len() >= len + groups.len() * GROUP + GROUP, "streams have room");
        }
        // SAFETY: the isa proves AVX-512; masks, streams and their room have been checked.
        unsafe { super::avx512::partition(masks, groups, streams, lens) };
        done = groups.len();
    }
    let groups = symbols.chunks(GROUP).zip(masks.chunks_exact(contexts));
    for (group, masks) in groups.skip(done) {
        for (k, &mask) in masks.iter().enumerate() {
            let mut left = mask;
            while left != 0 {
                streams[k][lens[k]] = group[left.trailing_zeros() as usize];
                lens[k] += 1;
                left &= left - 1;
            }
        }
    }
}

/// Undoes [`partition`] for all of `symbols`. Takes them from `bytes`, where `places` says which
/// symbol of each context is next, and advances the places past them. After the last symbol of
/// `bytes` there are [`GROUP`] more bytes.
pub(crate) fn spread(
    isa: Isa,
    masks: &[u64],
    bytes: &[u8],
    places: &mut [usize],
    symbols: &mut [u8],
) {
    let contexts = places.len();
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 {
        let groups = symbols.as_chunks_mut::<GROUP>().0;
        assert!(masks.len() >= groups.len() * contexts);
        done = groups.len();
        // SAFETY: the isa proves AVX-512; there are masks for every group, and every read is
        // checked.
        unsafe { super::avx512::spread(masks, bytes, places, groups) };
    }
    let groups = symbols.chunks_mut(GROUP).zip(masks.chunks_exact(contexts));
    for (group, masks) in groups.skip(done) {
        for (k, &mask) in masks.iter().enumerate() {
            let mut left = mask;
            while left != 0 {
                group[left.trailing_zeros() as usize] = bytes[places[k]];
                places[k] += 1;
                left &= left - 1;
            }
        }
    }
}
