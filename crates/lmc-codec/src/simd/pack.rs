//! The packed coder (`docs/format.md`, section 5.1): only the bits of a mask are kept of each byte.
//!
//! Eight bytes become `b` bytes, `b` being the number of bits in the mask, by one `pext` where the CPU has it.

use super::{Isa, IsaKind};

/// Bytes that `n` values of `mask` take.
pub fn packed_len(mask: u8, n: usize) -> usize {
    (n * mask.count_ones() as usize).div_ceil(8)
}

/// Appends the bits under `mask` of every byte of `src`.
///
/// Returns false, with `out` as it was, if a byte differs from `rest` in a bit outside of `mask`.
pub fn pack(isa: Isa, mask: u8, rest: u8, src: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let (eights, tail) = src.as_chunks::<8>();
    let strays = match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            // SAFETY: both sets include BMI2.
            unsafe { x86::pack_eights(mask, rest, eights, out) }
        }
        _ => pack_eights(mask, rest, eights, out),
    };
    let mut last = [rest; 8];
    last[..tail.len()].copy_from_slice(tail);
    let strays = last.iter().fold(strays, |acc, &byte| acc | (byte ^ rest) & !mask);
    let bits = mask.count_ones() as usize;
    let word = Compaction::new(mask).compact(last) & low_bits(bits * tail.len());
    out.extend_from_slice(&word.to_le_bytes()[..(bits * tail.len()).div_ceil(8)]);
    if strays != 0 {
        out.truncate(start);
    }
    strays == 0
}

/// Undoes [`pack`] for `dst.len()` values; `packed` has exactly their bytes.
///
/// Returns false if padding bits are set.
pub fn unpack(isa: Isa, mask: u8, rest: u8, packed: &[u8], dst: &mut [u8]) -> bool {
    assert_eq!(packed.len(), packed_len(mask, dst.len()));
    let bits = mask.count_ones() as usize;
    let (eights, tail) = dst.as_chunks_mut::<8>();
    // The last group of eight is decoded from a copy, so that all words can be read whole.
    let direct = eights.len().saturating_sub(8 / bits.max(1) + 1);
    let (head, others) = eights.split_at_mut(direct);
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            // SAFETY: both sets include BMI2.
            unsafe { x86::unpack_eights(mask, rest, packed, bits, head) }
        }
        _ => unpack_eights(&Spread::new(mask, rest), packed, bits, head),
    }
    let spread = Spread::new(mask, rest);
    for (i, eight) in others.iter_mut().enumerate() {
        *eight = spread.spread(padded_word(&packed[bits * (direct + i)..]));
    }
    let word = padded_word(&packed[bits * eights.len()..]);
    tail.copy_from_slice(&spread.spread(word)[..tail.len()]);
    word >> (bits * tail.len()) == 0
}

fn padded_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Byte to its bits under a mask, closed up.
struct Compaction([u8; 256], u32);

impl Compaction {
    fn new(mask: u8) -> Self {
        let mut table = [0; 256];
        for (byte, closed) in table.iter_mut().enumerate() {
            for (to, bit) in (0..8).filter(|&bit| mask >> bit & 1 == 1).enumerate() {
                *closed |= ((byte >> bit & 1) as u8) << to;
            }
        }
        Self(table, mask.count_ones())
    }

    fn compact(&self, eight: [u8; 8]) -> u64 {
        let mut word = 0;
        for (j, byte) in eight.into_iter().enumerate() {
            word |= u64::from(self.0[usize::from(byte)]) << (self.1 * j as u32);
        }
        word
    }
}

/// Closed-up bits to the byte they came from.
struct Spread([u8; 256], u32);

impl Spread {
    fn new(mask: u8, rest: u8) -> Self {
        let closed = Compaction::new(mask);
        let mut table = [rest; 256];
        for byte in (0..=255_u8).filter(|byte| byte & !mask == 0) {
            table[usize::from(closed.0[usize::from(byte)])] = byte | rest;
        }
        Self(table, mask.count_ones())
    }

    fn spread(&self, word: u64) -> [u8; 8] {
        let keep = low_bits(self.1 as usize);
        std::array::from_fn(|j| self.0[(word >> (self.1 * j as u32) & keep) as usize])
    }
}

/// Appends the packed form of whole groups of eight; returns the bits in which bytes differ from `rest` outside of `mask`.
fn pack_eights(mask: u8, rest: u8, eights: &[[u8; 8]], out: &mut Vec<u8>) -> u8 {
    let closed = Compaction::new(mask);
    let bits = mask.count_ones() as usize;
    let mut strays = 0;
    for &eight in eights {
        strays = eight.iter().fold(strays, |acc, &byte| acc | (byte ^ rest) & !mask);
        out.extend_from_slice(&closed.compact(eight).to_le_bytes()[..bits]);
    }
    strays
}

fn unpack_eights(spread: &Spread, packed: &[u8], bits: usize, dst: &mut [[u8; 8]]) {
    for (i, eight) in dst.iter_mut().enumerate() {
        *eight = spread.spread(padded_word(&packed[bits * i..]));
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_pdep_u64, _pext_u64};

    const ONES: u64 = 0x0101_0101_0101_0101;

    #[target_feature(enable = "bmi2")]
    pub(super) fn pack_eights(mask: u8, rest: u8, eights: &[[u8; 8]], out: &mut Vec<u8>) -> u8 {
        let bits = mask.count_ones() as usize;
        let (mask, rest) = (ONES * u64::from(mask), ONES * u64::from(rest));
        out.reserve(bits * eights.len() + 8);
        let mut strays = 0;
        // SAFETY: each step writes eight bytes and moves on by at most eight, within what was reserved; the bytes
        // up to the last step's `bits` have been written when they become part of `out`.
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

    #[target_feature(enable = "bmi2")]
    pub(super) fn unpack_eights(
        mask: u8,
        rest: u8,
        packed: &[u8],
        bits: usize,
        dst: &mut [[u8; 8]],
    ) {
        let (mask, rest) = (ONES * u64::from(mask), ONES * u64::from(rest));
        for (i, eight) in dst.iter_mut().enumerate() {
            let word = super::padded_word(&packed[bits * i..][..8]);
            *eight = (_pdep_u64(word, mask) | rest).to_le_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every mask, at every length to four words and three, packs the same everywhere and comes back.
    #[test]
    fn twins_agree_for_every_mask() {
        let mut state = 5_u64;
        for mask in 1..=255_u8 {
            let rest = 0xa5 & !mask;
            for n in 0..=35 {
                let src: Vec<u8> = (0..n)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                        (state >> 40) as u8 & mask | rest
                    })
                    .collect();
                let mut wanted = Vec::new();
                assert!(pack(Isa::PORTABLE, mask, rest, &src, &mut wanted));
                for isa in Isa::available() {
                    let mut out = vec![1];
                    assert!(pack(isa, mask, rest, &src, &mut out));
                    assert_eq!(out[1..], wanted);
                    let mut back = vec![0x55; n];
                    assert!(unpack(isa, mask, rest, &wanted, &mut back));
                    assert_eq!(back, src, "mask {mask:#x}, {n} values");
                }
            }
        }
    }

    /// A byte outside of the mask is refused and nothing is written; so are padding bits that are set.
    #[test]
    fn strays_are_refused() {
        let mut out = vec![1];
        assert!(!pack(Isa::best(), 0x0f, 0, &[1, 2, 0x10], &mut out));
        assert_eq!(out, [1]);
        assert!(!unpack(Isa::best(), 0x07, 0, &[0b0100_0000], &mut [0; 2]));
        assert!(unpack(Isa::best(), 0x07, 0, &[0b0011_1111], &mut [0; 2]));
    }
}
