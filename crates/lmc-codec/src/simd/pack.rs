//! The packed coder (`docs/format.md`, section 5.1): of each byte, only the bits in a mask are
//! kept.
//!
//! Eight bytes become `b` bytes, where `b` is the number of bits in the mask, by one `pext` if the
//! CPU has it.

use super::{Isa, IsaKind};
use crate::express::{CannotExpress, Encoded};

/// Bytes that `n` values take with `mask`.
pub(crate) fn packed_len(mask: u8, n: usize) -> usize {
    (n * mask.count_ones() as usize).div_ceil(8)
}

/// Appends the bits under `mask` of every byte of `src`.
///
/// If a byte differs from `rest` in a bit outside `mask`, this fails and leaves `out` as it was.
pub(crate) fn pack(isa: Isa, mask: u8, rest: u8, src: &[u8], out: &mut Vec<u8>) -> Encoded {
    let start = out.len();
    let mut src = src;
    let mut strays = 0;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && is_low_mask(mask) && rest == 0 {
        let (groups, others) = src.as_chunks::<64>();
        // SAFETY: the isa proves AVX-512 VBMI.
        strays = unsafe { x86::pack_low_groups(mask, 0, groups, out) };
        src = others;
    }
    let (eights, tail) = src.as_chunks::<8>();
    strays |= match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            // SAFETY: both sets include BMI2.
            unsafe { x86::pack_eights(mask, rest, eights, out) }
        }
        _ => pack_eights(mask, rest, eights, out),
    };
    let bits = mask.count_ones() as usize;
    let mut word = 0;
    for (j, &byte) in tail.iter().enumerate() {
        strays |= (byte ^ rest) & !mask;
        word |= u64::from(compact(mask, byte)) << (bits * j);
    }
    out.extend_from_slice(&word.to_le_bytes()[..(bits * tail.len()).div_ceil(8)]);
    if strays != 0 {
        out.truncate(start);
        return Err(CannotExpress);
    }
    Ok(())
}

/// Undoes [`pack`] for `dst.len()` values; `packed` has exactly their bytes.
///
/// Returns false if padding bits are set.
pub(crate) fn unpack(isa: Isa, mask: u8, rest: u8, packed: &[u8], dst: &mut [u8]) -> bool {
    assert_eq!(packed.len(), packed_len(mask, dst.len()));
    let bits = mask.count_ones() as usize;
    let (mut packed, mut dst) = (packed, dst);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 && is_low_mask(mask) && rest == 0 {
        let (groups, others) = dst.as_chunks_mut::<64>();
        let (own, after) = packed.split_at(8 * bits * groups.len());
        // SAFETY: the isa proves AVX-512 VBMI; `own` has the bits of all groups.
        unsafe { x86::unpack_low_groups(mask, own, groups) };
        (packed, dst) = (after, others);
    }
    let (eights, tail) = dst.as_chunks_mut::<8>();
    // All words that can be read whole are read directly; the last few come from a padded copy.
    let direct = (packed.len().saturating_sub(8) / bits.max(1)).min(eights.len());
    let (head, others) = eights.split_at_mut(direct);
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            assert!(direct == 0 || bits * (direct - 1) + 8 <= packed.len());
            // SAFETY: both sets include BMI2; the last word of `head` ends within `packed`, as just
            // checked.
            unsafe { x86::unpack_eights(mask, rest, packed, bits, head) }
        }
        _ => unpack_eights(mask, rest, packed, bits, head),
    }
    for (i, eight) in others.iter_mut().enumerate() {
        let word = padded_word(&packed[bits * (direct + i)..]);
        *eight = std::array::from_fn(|j| spread(mask, rest, word >> (bits * j)));
    }
    let word = padded_word(&packed[bits * (direct + others.len())..]);
    for (j, byte) in tail.iter_mut().enumerate() {
        *byte = spread(mask, rest, word >> (bits * j));
    }
    word >> (bits * tail.len()) == 0
}

fn padded_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

/// Whether the mask covers only the lowest bits, but not all bits. The planes below wide symbols
/// are of this kind.
#[cfg(target_arch = "x86_64")]
fn is_low_mask(mask: u8) -> bool {
    mask < 0xff && mask & (mask + 1) == 0
}

/// The bits of `byte` under `mask`, closed up.
fn compact(mask: u8, byte: u8) -> u8 {
    let places = (0..8).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(0, |closed, (to, bit)| closed | (byte >> bit & 1) << to)
}

/// Undoes [`compact`] for the lowest bits of `bits`; the bits outside `mask` are those of `rest`.
fn spread(mask: u8, rest: u8, bits: u64) -> u8 {
    let places = (0..8).filter(|bit| mask >> bit & 1 == 1);
    places.enumerate().fold(rest, |byte, (from, bit)| byte | ((bits >> from & 1) as u8) << bit)
}

/// Appends the packed form of whole groups of eight. Returns the bits outside `mask` in which bytes
/// differ from `rest`.
fn pack_eights(mask: u8, rest: u8, eights: &[[u8; 8]], out: &mut Vec<u8>) -> u8 {
    let closed: [u8; 256] = std::array::from_fn(|byte| compact(mask, byte as u8));
    let bits = mask.count_ones() as usize;
    let mut strays = 0;
    for &eight in eights {
        let mut word = 0;
        for (j, byte) in eight.into_iter().enumerate() {
            strays |= (byte ^ rest) & !mask;
            word |= u64::from(closed[usize::from(byte)]) << (bits * j);
        }
        out.extend_from_slice(&word.to_le_bytes()[..bits]);
    }
    strays
}

fn unpack_eights(mask: u8, rest: u8, packed: &[u8], bits: usize, dst: &mut [[u8; 8]]) {
    let table: [u8; 256] = std::array::from_fn(|closed| spread(mask, rest, closed as u64));
    let keep = 0xff >> (8 - bits);
    for (i, eight) in dst.iter_mut().enumerate() {
        let word = padded_word(&packed[bits * i..]);
        *eight = std::array::from_fn(|j| table[(word >> (bits * j) & keep) as usize]);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    const ONES: u64 = 0x0101_0101_0101_0101;

    /// Appends groups of 64 bytes, each byte minus `first`. Only the lowest bits, those in `mask`,
    /// are kept. Returns 0 if no byte has other bits.
    ///
    /// Neighbours are joined three times, by two multiplications and a shift, until eight bytes are
    /// one number. Then its bytes are closed up.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(in crate::simd) fn pack_low_groups(
        mask: u8,
        first: u8,
        groups: &[[u8; 64]],
        out: &mut Vec<u8>,
    ) -> u8 {
        let first = _mm512_set1_epi8(first as i8);
        let bits = mask.count_ones() as usize;
        let order: [u8; 64] = std::array::from_fn(|i| (i / bits * 8 + i % bits) as u8);
        let pairs = _mm512_set1_epi16((1 << (8 + bits)) | 1);
        let fours = _mm512_set1_epi32((1 << (16 + 2 * bits)) | 1);
        let shift = _mm_cvtsi64_si128(32 - 4 * bits as i64);
        let low_half = _mm512_set1_epi64(0xffff_ffff);
        let mut strays = _mm512_setzero_si512();
        out.reserve(8 * bits * groups.len() + 64);
        // SAFETY: `order` and each group have 64 bytes; each step writes 64 bytes and moves on by
        // at most 64, within what was reserved, and the bytes that become part of `out`
        // have all been written.
        unsafe {
            let order = _mm512_loadu_si512(order.as_ptr().cast());
            let mut to = out.as_mut_ptr().add(out.len());
            for group in groups {
                let v = _mm512_sub_epi8(_mm512_loadu_si512(group.as_ptr().cast()), first);
                strays = _mm512_or_si512(strays, v);
                let v = _mm512_madd_epi16(_mm512_maddubs_epi16(pairs, v), fours);
                // The bits of the upper half are moved down to follow those of the lower half.
                let upper = _mm512_srl_epi64(_mm512_andnot_si512(low_half, v), shift);
                let v = _mm512_or_si512(_mm512_and_si512(v, low_half), upper);
                _mm512_storeu_si512(to.cast(), _mm512_permutexvar_epi8(order, v));
                to = to.add(8 * bits);
            }
            out.set_len(out.len() + 8 * bits * groups.len());
        }
        let others = _mm512_set1_epi8(!mask as i8);
        u8::from(_mm512_test_epi8_mask(strays, others) != 0)
    }

    /// Undoes [`pack_low_groups`].
    ///
    /// # Safety
    /// `packed` has the bits of all groups.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) unsafe fn unpack_low_groups(mask: u8, packed: &[u8], groups: &mut [[u8; 64]]) {
        let spread = Spread::new(mask);
        for (i, group) in groups.iter_mut().enumerate() {
            // SAFETY: a group has `step` bytes in `packed`, and 64 bytes of its own.
            unsafe {
                let v = spread.group(packed.as_ptr().add(spread.step * i), spread.step);
                _mm512_storeu_si512(group.as_mut_ptr().cast(), v);
            }
        }
    }

    /// How 64 packed numbers become bytes.
    pub(in crate::simd) struct Spread {
        order: __m512i,
        shifts: __m512i,
        keep: __m512i,
        /// Packed bytes of a group.
        pub step: usize,
    }

    impl Spread {
        /// For the bits of `mask`, which are the lowest ones.
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        pub(in crate::simd) fn new(mask: u8) -> Self {
            let bits = mask.count_ones() as usize;
            let order: [u8; 64] = std::array::from_fn(|i| (i / 8 * bits + i % 8) as u8 & 63);
            let shifts: [u8; 64] = std::array::from_fn(|i| (i % 8 * bits) as u8);
            // SAFETY: both arrays have 64 bytes.
            let load = |bytes: [u8; 64]| unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
            let keep = _mm512_set1_epi8(mask as i8);
            Self { order: load(order), shifts: load(shifts), keep, step: 8 * bits }
        }

        /// The numbers in the `len` bytes at `from`, followed by zeros.
        ///
        /// # Safety
        /// `len` bytes, at most `step`, can be read there.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
        pub(in crate::simd) unsafe fn group(&self, from: *const u8, len: usize) -> __m512i {
            let valid = u64::MAX >> (64 - len);
            // SAFETY: the mask ends the load after `len` bytes.
            let v = unsafe { _mm512_maskz_loadu_epi8(valid, from.cast()) };
            let v = _mm512_permutexvar_epi8(self.order, v);
            _mm512_and_si512(_mm512_multishift_epi64_epi8(self.shifts, v), self.keep)
        }
    }

    #[target_feature(enable = "bmi2")]
    pub(super) fn pack_eights(mask: u8, rest: u8, eights: &[[u8; 8]], out: &mut Vec<u8>) -> u8 {
        let bits = mask.count_ones() as usize;
        let (mask, rest) = (ONES * u64::from(mask), ONES * u64::from(rest));
        out.reserve(bits * eights.len() + 8);
        let mut strays = 0;
        // SAFETY: each step writes eight bytes and moves on by at most eight, within what was
        // reserved; the bytes up to the last step's `bits` have been written when they
        // become part of `out`.
        unsafe {
            let mut to = out.as_mut_ptr().add(out.len());
            for &eight in eights {
                let word = u64::from_le_bytes(eight);
                strays |= (word ^ rest) & !mask;
                to.cast::<u64>().write_unaligned(_pext_u64(word, mask).to_le());
                to = to.add(bits);
            }
            out.set_len(out.len() + bits * eights.len());
        }
        u8::from(strays != 0)
    }

    /// # Safety
    /// `packed` has `bits * (dst.len() - 1) + 8` bytes if `dst` is not empty.
    #[target_feature(enable = "bmi2")]
    pub(super) unsafe fn unpack_eights(
        mask: u8,
        rest: u8,
        packed: &[u8],
        bits: usize,
        dst: &mut [[u8; 8]],
    ) {
        let (mask, rest) = (ONES * u64::from(mask), ONES * u64::from(rest));
        for (i, eight) in dst.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            let word = unsafe { packed.as_ptr().add(bits * i).cast::<u64>().read_unaligned() };
            *eight = (_pdep_u64(u64::from_le(word), mask) | rest).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mask, at every length up to four words and three, packs the same everywhere and comes
    /// back.
    #[test]
    fn twins_agree_for_every_mask() {
        let mut state = 5_u64;
        for mask in 1..=255_u8 {
            let rest = 0xa5 & !mask;
            for n in (0..=35).chain([63, 64, 65, 200, 259]) {
                let src: Vec<u8> = (0..n)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        (state >> 40) as u8 & mask | rest
                    })
                    .collect();
                let mut wanted = Vec::new();
                assert!(pack(Isa::PORTABLE, mask, rest, &src, &mut wanted).is_ok());
                for isa in Isa::available() {
                    let mut out = vec![1];
                    assert!(pack(isa, mask, rest, &src, &mut out).is_ok());
                    assert_eq!(out[1..], wanted);
                    let mut back = vec![0x55; n];
                    assert!(unpack(isa, mask, rest, &wanted, &mut back));
                    assert_eq!(back, src, "mask {mask:#x}, {n} values");
                }
            }
        }
    }

    /// A byte outside the mask is refused and nothing is written. Nonzero padding bits are refused.
    #[test]
    fn strays_are_refused() {
        let mut out = vec![1];
        assert!(pack(Isa::best(), 0x0f, 0, &[1, 2, 0x10], &mut out).is_err());
        assert_eq!(out, [1]);
        assert!(!unpack(Isa::best(), 0x07, 0, &[0b0100_0000], &mut [0; 2]));
        assert!(unpack(Isa::best(), 0x07, 0, &[0b0011_1111], &mut [0; 2]));
    }
}
