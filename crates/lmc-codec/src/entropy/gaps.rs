//! Distances between set bits, as Rice codes (`docs/format.md`, section 5.1, gaps).
//!
//! In: bytes with few set bits, or a reader at the start of their stream and the place for them.
//! Out: the stream, or the bytes and the reader after the stream. The work depends on the number of
//! set bits; zero bytes cost almost nothing.

use crate::simd::{Isa, flags};
use lmc_format::{Error, Reader, Result, varint};

/// Appends `src`. The lowest `low_bits` bits of a gap are stored as they are.
pub(crate) fn encode(isa: Isa, low_bits: u8, src: &[u8], out: &mut Vec<u8>) {
    let low_bits = u32::from(low_bits);
    varint::write(out, flags::count(isa, src) as u64);
    let mut bits = BitWriter { word: 0, len: 0, out };
    let mut next = 0;
    each_set_bit(src, |place| {
        let gap = place - next;
        next = place + 1;
        bits.zeros(gap >> low_bits);
        bits.write(1, 1);
        bits.write(gap & ((1 << low_bits) - 1), low_bits);
    });
    bits.finish();
}

fn each_set_bit(src: &[u8], mut visit: impl FnMut(u64)) {
    let (words, rest) = src.as_chunks::<8>();
    let mut start = 0;
    let mut visit_word = |mut word: u64, start: u64| {
        while word != 0 {
            visit(start + u64::from(word.trailing_zeros()));
            word &= word - 1;
        }
    };
    for &word in words {
        visit_word(u64::from_le_bytes(word), start);
        start += 64;
    }
    for &byte in rest {
        visit_word(u64::from(byte), start);
        start += 8;
    }
}

/// Writes bits to bytes, the first bit lowest.
struct BitWriter<'a> {
    word: u64,
    /// Bits in `word`, fewer than 32.
    len: u32,
    out: &'a mut Vec<u8>,
}

impl BitWriter<'_> {
    /// Appends the `len` bits of `bits`, at most 32.
    fn write(&mut self, bits: u64, len: u32) {
        self.word |= bits << self.len;
        self.len += len;
        if self.len >= 32 {
            self.out.extend_from_slice(&(self.word as u32).to_le_bytes());
            self.word >>= 32;
            self.len -= 32;
        }
    }

    fn zeros(&mut self, mut count: u64) {
        while count > 0 {
            let now = count.min(32) as u32;
            self.write(0, now);
            count -= u64::from(now);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn finish(self) {
        let len = self.len.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.word.to_le_bytes()[..len]);
    }
}

/// Reads the stream of all of `dst`.
pub(crate) fn decode(low_bits: u8, input: &mut Reader, dst: &mut [u8]) -> Result<()> {
    let low_bits = u32::from(low_bits);
    dst.fill(0);
    let count = input.varint("number of gaps")?;
    let mut bits = BitReader { bytes: input.rest(), at: 0 };
    let mut next = 0_u64;
    for _ in 0..count {
        let high = bits.zeros().ok_or_else(|| Error::truncated("gaps end too early"))?;
        let low = bits.read(low_bits).ok_or_else(|| Error::truncated("gaps end too early"))?;
        // A stream of zeros has fewer bits than a u64 can count, and there are at most 24 low bits.
        let place = next + (high << low_bits) + low;
        let byte = dst.get_mut((place / 8) as usize);
        *byte.ok_or_else(|| Error::corrupt("a gap goes beyond the end"))? |= 1 << (place % 8);
        next = place + 1;
    }
    let used = bits.at.div_ceil(8);
    let last = input.take(used, "gaps")?.last().copied().unwrap_or(0);
    if !bits.at.is_multiple_of(8) && last >> (bits.at % 8) != 0 {
        return Err(Error::corrupt("padding of gaps is not zero"));
    }
    Ok(())
}

/// Reads bits from bytes.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits read so far.
    at: usize,
}

impl BitReader<'_> {
    /// At least 57 bits from this place on, with zeros after the last one.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or(&[]);
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word.iter_mut().zip(rest).for_each(|(to, &byte)| *to = byte);
                u64::from_le_bytes(word)
            }
        };
        word >> (self.at % 8)
    }

    /// Reads zeros and the one after them. Returns the number of zeros.
    fn zeros(&mut self) -> Option<u64> {
        let mut count = 0;
        loop {
            let ahead = self.peek();
            if ahead != 0 {
                let zeros = ahead.trailing_zeros();
                self.at += zeros as usize + 1;
                return Some(count + u64::from(zeros));
            }
            count += 56;
            self.at += 56;
            if self.at >= 8 * self.bytes.len() {
                return None;
            }
        }
    }

    fn read(&mut self, len: u32) -> Option<u64> {
        let bits = self.peek() & ((1 << len) - 1);
        self.at += len as usize;
        (self.at <= 8 * self.bytes.len()).then_some(bits)
    }
}

/// The best number of low bits for bytes like those of a sample with `set` of `total` bits set, and
/// the approximate size of the sample with it.
pub(crate) fn choose(set: u64, total: u64) -> (u8, u64) {
    let cost = |set: u64, low_bits: u8| {
        // Cutting off the low bits loses half of their range on average.
        let rounded = (set * ((1 << low_bits) - 1)) >> (low_bits + 1);
        let high = (total.saturating_sub(set) >> low_bits).saturating_sub(rounded);
        set * (u64::from(low_bits) + 1) + high + 8
    };
    // One more than were seen, because there may be some even if a sample shows none.
    let best = (0..=lmc_format::limits::GAP_BITS_MAX).min_by_key(|&bits| cost(set + 1, bits));
    let low_bits = best.unwrap_or(0);
    (low_bits, if set == 0 { 8 } else { cost(set, low_bits) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_testkit::data::Random;

    /// Every density, length and number of low bits comes back, and nothing is left over.
    #[test]
    fn gaps_come_back() {
        let mut random = Random::new(3);
        for n in [0, 1, 2, 7, 8, 9, 63, 64, 65, 1000, 5000] {
            for one_in in [1, 2, 9, 100, 3000, 1 << 20] {
                for low_bits in [0, 1, 4, 11, 24] {
                    let mut src = vec![0; n];
                    for i in 0..8 * n {
                        src[i / 8] |= u8::from(random.below(one_in) == 0) << (i % 8);
                    }
                    let mut stream = Vec::new();
                    encode(Isa::best(), low_bits, &src, &mut stream);
                    let mut dst = vec![0xff; n];
                    let mut input = Reader::new(&stream);
                    decode(low_bits, &mut input, &mut dst).expect("it was just written");
                    assert_eq!(dst, src);
                    assert!(input.rest().is_empty());
                    for len in 0..stream.len().min(40) {
                        let cut = decode(low_bits, &mut Reader::new(&stream[..len]), &mut dst);
                        assert!(cut.is_err(), "{len} of {} bytes are enough", stream.len());
                    }
                }
            }
        }
    }

    /// A gap beyond the end and nonzero padding are refused.
    #[test]
    fn bad_streams_are_refused() {
        assert!(decode(0, &mut Reader::new(&[1, 0x80]), &mut [0]).is_ok());
        assert!(decode(0, &mut Reader::new(&[1, 0, 1]), &mut [0]).is_err());
        assert!(decode(0, &mut Reader::new(&[1, 0b101]), &mut [0]).is_err());
        assert!(decode(24, &mut Reader::new(&[1, 0xff, 0xff, 0xff, 1]), &mut [0; 9]).is_err());
    }
}
