//! What blocks of floats on a base have in common, from `docs/format.md`, sections 3.6 and 4: the
//! difference of a value and its base, and the block around the segments.

use super::{Case, word};
use lmc_format::{BlockKind, BlockPrefix};
use lmc_testkit::data::Random;

/// The fields that say how a float is set against its base.
#[derive(Clone, Copy, Debug)]
pub struct Floats {
    pub width_log2: u8,
    pub raw_bytes: u8,
    pub exponent_bits: u8,
    /// Values are no floats after all (section 3.7).
    pub is_integer: bool,
}

impl Floats {
    /// Any floats that the format allows.
    pub fn random(random: &mut Random) -> Self {
        let width_log2 = random.below(4) as u8;
        let width = 1 << width_log2;
        let raw_bytes = random.below(width) as u8;
        let exponent_bits = 1 + random.below(11.min(8 * width - 1)) as u8;
        Self { width_log2, raw_bytes, exponent_bits, is_integer: false }
    }

    pub fn width(self) -> usize {
        1 << self.width_log2
    }

    pub fn bits(self) -> u32 {
        8 << self.width_log2
    }

    /// Bits of the difference that are not in the record.
    pub fn rest(self) -> u32 {
        self.bits() - 8 * u32::from(self.raw_bytes)
    }

    /// The low bits of a word that are its magnitude.
    fn magnitude(self) -> u64 {
        u64::MAX >> (64 + u32::from(!self.is_integer) - self.bits())
    }

    /// `h` of the document.
    fn half(self) -> u64 {
        if self.raw_bytes == 0 { 0 } else { 1 << (8 * self.raw_bytes - 1) }
    }

    /// The record of the value `x` beside `b`, and `q`.
    pub fn difference(self, x: u64, b: u64) -> (u64, i64) {
        let all = u64::MAX >> (64 - self.bits());
        let (mag_x, mag_b) = (x & self.magnitude(), b & self.magnitude());
        let difference = mag_x.wrapping_sub(mag_b).wrapping_add(self.half()) & all;
        let record = difference & ((1 << (8 * self.raw_bytes)) - 1);
        // Shifted up and back, so that the sign is that of the 64 bits.
        (record, (difference << (64 - self.bits())) as i64 >> (64 - self.rest()))
    }

    /// Any record.
    pub fn any_record(self, random: &mut Random) -> u64 {
        random.next_u64() & ((1 << (8 * self.raw_bytes)) - 1)
    }

    /// Whether the signs of two words differ.
    pub fn is_flipped(self, x: u64, b: u64) -> bool {
        !self.is_integer && (x ^ b) >> (self.bits() - 1) == 1
    }

    /// The value with this record and `q` beside `b`.
    pub fn value(self, b: u64, record: u64, q: i64, is_flipped: bool) -> u64 {
        let sum = b.wrapping_add((q as u64) << (8 * self.raw_bytes)).wrapping_add(record);
        let magnitude = sum.wrapping_sub(self.half()) & self.magnitude();
        if self.is_integer {
            return magnitude;
        }
        let top = (b >> (self.bits() - 1) & 1) ^ u64::from(is_flipped);
        magnitude | top << (self.bits() - 1)
    }

    /// The bits of `b` that are taken for its exponent.
    pub fn exponent(self, b: u64) -> u64 {
        let shift = self.bits() - 1 - u32::from(self.exponent_bits);
        b >> shift & ((1 << self.exponent_bits) - 1)
    }

    /// The exponent of any value of a base that has some.
    pub fn some_exponent(self, base: &[u8], random: &mut Random) -> usize {
        let at = random.below(base.len() / self.width()) * self.width();
        self.exponent(word(&base[at..at + self.width()])) as usize
    }

    /// What is subtracted from exponents: nothing, about an exponent that occurs, or anything.
    pub fn random_first(self, base: &[u8], random: &mut Random) -> u16 {
        match random.below(4) {
            0 => random.next_u64() as u16,
            1 if !base.is_empty() => self.some_exponent(base, random).saturating_sub(9) as u16,
            _ => 0,
        }
    }

    /// The words of `bytes`; what is left over is not looked at.
    pub fn words(self, bytes: &[u8]) -> Vec<u64> {
        bytes.chunks_exact(self.width()).map(word).collect()
    }

    /// The bytes of words.
    pub fn bytes(self, words: impl Iterator<Item = u64>) -> Vec<u8> {
        words.flat_map(|x| x.to_le_bytes().into_iter().take(self.width())).collect()
    }

    /// The block of `n` values, without its original bytes and its base.
    pub fn block(
        self,
        name: String,
        mut recipe: Vec<u8>,
        segments: &[Vec<u8>],
        (n, tail): (usize, &[u8]),
        shared: bool,
    ) -> Case {
        let kind = if shared { BlockKind::Shared } else { BlockKind::Coded };
        let mut block = Vec::new();
        BlockPrefix { kind, raw_len: n * self.width() + tail.len() }.write(&mut block);
        if !shared {
            block.append(&mut recipe);
        }
        block.extend_from_slice(tail);
        for segment in segments {
            block.extend_from_slice(&(segment.len() as u32).to_le_bytes()[..3]);
        }
        block.extend(segments.concat());
        Case { name, shared: recipe, base: None, block, raw: Vec::new() }
    }
}

/// Bits to bytes, from bit 0 up, the last one padded with zeros.
pub fn packed(bits: &[u8]) -> Vec<u8> {
    let byte = |bits: &[u8]| (0..).zip(bits).map(|(j, bit)| bit << j).sum::<u8>();
    bits.chunks(8).map(byte).collect()
}

/// Values a few units away from those of the base, some with another sign, some far away.
pub fn values_near(base: &[u8], width: usize, random: &mut Random) -> Vec<u8> {
    let bits = 8 * width;
    let reach = 1 + random.below(bits).min(random.below(bits));
    let far = [0, 1, 10, 100][random.below(4)];
    let mut values: Vec<u8> = base
        .chunks_exact(width)
        .flat_map(|b| {
            let step = random.next_u64() >> random.below(64) & (u64::MAX >> (64 - reach));
            let mut x = match random.below(3) {
                0 => word(b),
                1 => word(b).wrapping_add(step),
                _ => word(b).wrapping_sub(step),
            };
            if random.below(100) < far {
                x ^= 1 << (bits - 1) | random.next_u64() >> random.below(64);
            }
            x.to_le_bytes().into_iter().take(width)
        })
        .collect();
    values.extend(random.bytes(base.len() % width));
    values
}
