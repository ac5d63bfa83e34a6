//! Payloads: the bits of each byte that its symbol asks for, one after another.

use super::PlaneWidths;
use crate::simd::{Isa, IsaKind};

/// A growing string of bits, the first one lowest.
#[derive(Debug, Default)]
pub(crate) struct BitString {
    bytes: Vec<u8>,
    /// Number of whole bytes that are filled; the buffer is longer.
    len: usize,
    word: u64,
    /// Bits in `word`, fewer than 64.
    bits: u32,
}

impl BitString {
    /// Empties it and makes room for `bits` bits.
    pub(crate) fn clear(&mut self, bits: usize) {
        let len = bits.div_ceil(8) + 16;
        if self.bytes.len() < len {
            self.bytes = vec![0; len];
        }
        (self.len, self.word, self.bits) = (0, 0, 0);
    }

    /// Appends the lowest `count` bits of `bits`; the other bits are 0.
    #[inline(always)]
    pub(crate) fn push(&mut self, bits: u64, count: u32) {
        let word = self.word | bits << self.bits;
        // There is room for all bits, and one word more.
        self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_le_bytes());
        let total = self.bits + count;
        let is_full = total >= 64;
        // Shifted twice, because all 64 bits may have gone into the word.
        let over = (bits >> 1) >> (63 - self.bits);
        self.word = if is_full { over } else { word };
        self.len += 8 * usize::from(is_full);
        self.bits = total & 63;
    }

    /// Where the next bits go, the contents of the partial word, and its number of bits.
    #[cfg(target_arch = "x86_64")]
    pub(in crate::simd) fn place(&mut self) -> (&mut [u8], u64, u32) {
        (&mut self.bytes[self.len..], self.word, self.bits)
    }

    /// Continues after `len` more bytes, with these bits in the word.
    #[cfg(target_arch = "x86_64")]
    pub(in crate::simd) fn go_on(&mut self, len: usize, word: u64, bits: u32) {
        (self.len, self.word, self.bits) = (self.len + len, word, bits);
    }

    /// How many bits there are.
    pub(crate) fn bit_count(&self) -> usize {
        8 * self.len + self.bits as usize
    }

    /// The bytes, the last one padded with zeros.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let word = self.word.to_le_bytes();
        self.bytes[self.len..self.len + 8].copy_from_slice(&word);
        &self.bytes[..self.len + self.bits.div_ceil(8) as usize]
    }
}

/// Writes bits to memory one word at a time.
#[cfg(target_arch = "x86_64")]
pub(in crate::simd) struct Writer {
    start: *const u8,
    to: *mut u8,
    word: u64,
    bits: u32,
}

#[cfg(target_arch = "x86_64")]
impl Writer {
    /// Continues at the end of `string`, which has room for `room` more bytes and a word.
    pub(in crate::simd) fn new(string: &mut BitString, room: usize) -> Self {
        let (place, word, bits) = string.place();
        assert!(place.len() >= room + 16, "strings have room");
        let to = place.as_mut_ptr();
        Self { start: to, to, word, bits }
    }

    /// Updates the string.
    pub(in crate::simd) fn finish(self, string: &mut BitString) {
        string.go_on(self.to as usize - self.start as usize, self.word, self.bits);
    }

    /// Appends the bits of eight bytes that are in `mask`.
    ///
    /// # Safety
    /// There is room for a word.
    #[inline]
    #[target_feature(enable = "bmi2,popcnt")]
    pub(in crate::simd) unsafe fn push(&mut self, bytes: u64, mask: u64) {
        let bits = std::arch::x86_64::_pext_u64(bytes, mask);
        let word = self.word | bits << self.bits;
        // SAFETY: guaranteed by the caller.
        unsafe { self.to.cast::<u64>().write_unaligned(word) };
        let total = self.bits + mask.count_ones();
        let is_full = total >= 64;
        // Shifted twice, because all 64 bits may have gone into the word.
        let over = (bits >> 1) >> (63 - self.bits);
        self.word = if is_full { over } else { word };
        // SAFETY: this moves at most to the end of the word that was just written.
        self.to = unsafe { self.to.add(8 * usize::from(is_full)) };
        self.bits = total & 63;
    }
}

/// Masks of the lowest bits, by their number.
const LOW: [u8; 9] = [0, 1, 3, 7, 15, 31, 63, 127, 255];

/// Appends the lowest bits of each byte of `plane`, as many as `widths` says for its symbol. The
/// other bits are 0.
pub(crate) fn pack(
    isa: Isa,
    widths: &PlaneWidths,
    symbols: &[u8],
    plane: &[u8],
    out: &mut BitString,
) {
    assert_eq!(symbols.len(), plane.len());
    let (mut symbols, mut plane) = (symbols, plane);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let (eights, planes) = (symbols.as_chunks().0, plane.as_chunks().0);
        // SAFETY: the isa proves BMI2.
        unsafe { x86::pack(widths, eights, planes, out) };
        (symbols, plane) = (symbols.as_chunks::<8>().1, plane.as_chunks::<8>().1);
    }
    for (&symbol, &byte) in symbols.iter().zip(plane) {
        out.push(u64::from(byte), u32::from(widths.by_symbol[usize::from(symbol)]));
    }
}

/// Undoes [`pack`]: reads the bits of all `symbols` from bit `at` of `packed` on. Returns the bit
/// after them.
pub(crate) fn unpack(
    isa: Isa,
    widths: &PlaneWidths,
    symbols: &[u8],
    packed: &[u8],
    at: usize,
    plane: &mut [u8],
) -> usize {
    assert_eq!(symbols.len(), plane.len());
    let (mut symbols, mut plane, mut at) = (symbols, plane, at);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let (eights, rest) = plane.as_chunks_mut();
        // SAFETY: the isa proves BMI2.
        at = unsafe { x86::unpack(widths, symbols.as_chunks().0, packed, at, eights) };
        (symbols, plane) = (symbols.as_chunks::<8>().1, rest);
    }
    for (&symbol, byte) in symbols.iter().zip(plane) {
        let width = widths.by_symbol[usize::from(symbol)];
        let byte_at = |at: usize| packed.get(at).copied().unwrap_or(0);
        let pair = u16::from_le_bytes([byte_at(at / 8), byte_at(at / 8 + 1)]);
        *byte = (pair >> (at % 8)) as u8 & LOW[usize::from(width)];
        at += usize::from(width);
    }
    at
}

/// The 64 bits from bit `at` of `packed` on, with zeros after its last one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn word_at(packed: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 16];
    match packed.get(at / 8..at / 8 + 16) {
        Some(all) => bytes.copy_from_slice(all),
        None => {
            let rest = packed.get(at / 8..).unwrap_or(&[]);
            bytes[..rest.len()].copy_from_slice(rest);
        }
    }
    (u128::from_le_bytes(bytes) >> (at % 8)) as u64
}

/// The masks of eight symbols, as one word.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mask_of(masks: &[u8; 256], symbols: &[u8; 8]) -> u64 {
    u64::from_le_bytes(symbols.map(|symbol| masks[usize::from(symbol)]))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BitString, LOW, PlaneWidths, mask_of, word_at};
    use std::arch::x86_64::{_pdep_u64, _pext_u64};

    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn pack(
        widths: &PlaneWidths,
        symbols: &[[u8; 8]],
        plane: &[[u8; 8]],
        out: &mut BitString,
    ) {
        let masks = widths.by_symbol.map(|width| LOW[usize::from(width)]);
        for (symbols, bytes) in symbols.iter().zip(plane) {
            let mask = mask_of(&masks, symbols);
            out.push(_pext_u64(u64::from_le_bytes(*bytes), mask), mask.count_ones());
        }
    }

    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn unpack(
        widths: &PlaneWidths,
        symbols: &[[u8; 8]],
        packed: &[u8],
        mut at: usize,
        plane: &mut [[u8; 8]],
    ) -> usize {
        let masks = widths.by_symbol.map(|width| LOW[usize::from(width)]);
        for (symbols, bytes) in symbols.iter().zip(plane) {
            let mask = mask_of(&masks, symbols);
            *bytes = _pdep_u64(word_at(packed, at), mask).to_le_bytes();
            at += mask.count_ones() as usize;
        }
        at
    }
}
