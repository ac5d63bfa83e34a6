//! Decodes the stream to bytes.
//!
//! In: a table, a reader at the start of a stream, and the place for its bytes. Out: the bytes, and
//! the reader after the stream. Invariants: only a part's own bytes are read for it. The fast loop
//! runs only where neither input nor output can end. Bits beyond the end read as zero but are
//! counted, so that a part is accepted only if its symbols' bits fit it exactly.

use super::{BITS_MAX, PARTS, part_lengths, stream_codes};
use lmc_format::{Error, HuffmanTable, Reader, Result};

/// Number of table entries: one for each value of the next 12 bits.
const LOOKUPS: usize = 1 << BITS_MAX;

/// The largest number of symbols in an entry.
const ENTRY_SYMBOLS: usize = 6;

/// Table lookups per load of input: at most 48 of the 57 bits that a load provides.
const BURST: usize = 4;

/// Bytes of output that a step may touch. It needs 26. This is what its masks allow, so that the
/// compiler sees that no access can fail.
const STEP_DST: usize = 40;

/// One symbol, in the count of an entry.
const ONE: u64 = 1 << 8;

/// All whole codes in the next 12 bits, at most six. The number of bits is in the low byte, the
/// number of symbols in the next, and the symbols are above, the first one lowest.
type Entry = u64;

/// Lookup table for decoding with one Huffman table.
#[derive(Clone, Debug)]
pub struct Decoder {
    entries: Box<[Entry; LOOKUPS]>,
    lengths: [u8; 256],
}

impl Decoder {
    /// A decoder for `table`.
    pub fn new(table: &HuffmanTable) -> Self {
        let lengths = *table.lengths();
        let codes = stream_codes(table);
        let symbols = (0..=255_u8).zip(lengths).zip(codes).filter(|((_, length), _)| *length > 0);
        let mut symbols: Vec<Symbol> = symbols
            .map(|((value, length), code)| Symbol { value, length, code: usize::from(code) })
            .collect();
        symbols.sort_unstable_by_key(|symbol| symbol.length);
        let shortest = symbols.first().map_or(1, |symbol| usize::from(symbol.length));
        // Entries for the next `width` bits start at `1 << width` in `narrow`. After a first code,
        // at most `12 - shortest` bits are left.
        let mut narrow = Box::new([0; LOOKUPS]);
        for width in 1..=BITS_MAX - shortest.clamp(1, BITS_MAX) {
            let (done, next) = narrow.split_at_mut(1 << width);
            fill(&symbols, &lengths, width, done, next);
        }
        let mut entries = Box::new([0; LOOKUPS]);
        fill(&symbols, &lengths, BITS_MAX, &*narrow, &mut *entries);
        Self { entries, lengths }
    }

    /// Fills `dst` from the stream at `input`, and leaves `input` after the stream.
    ///
    /// Fails on a stream that ends early, on a part whose length does not fit its bits exactly, and
    /// on nonzero padding. The contents of `dst` then mean nothing.
    pub fn decode(&self, input: &mut Reader, dst: &mut [u8]) -> Result<()> {
        let mut sizes = [0; PARTS];
        for size in &mut sizes {
            let value = input.varint("length of a huffman part")?;
            *size = usize::try_from(value)
                .map_err(|_| Error::truncated(format!("huffman part of {value} bytes")))?;
        }
        let [la, lb, lc, _] = part_lengths(dst.len());
        let (dst_a, rest) = dst.split_at_mut(la);
        let (dst_b, rest) = rest.split_at_mut(lb);
        let (dst_c, dst_d) = rest.split_at_mut(lc);
        let [sa, sb, sc, sd] = sizes;
        let mut a = Lane::new(input.take(sa, "huffman part 0")?, dst_a);
        let mut b = Lane::new(input.take(sb, "huffman part 1")?, dst_b);
        let mut c = Lane::new(input.take(sc, "huffman part 2")?, dst_c);
        let mut d = Lane::new(input.take(sd, "huffman part 3")?, dst_d);
        // Taking turns gives the processor four independent chains of lookups.
        let entries = &*self.entries;
        while a.step(entries) & b.step(entries) & c.step(entries) & d.step(entries) {}
        while a.hop(entries) & b.hop(entries) & c.hop(entries) & d.hop(entries) {}
        for part in [a, b, c, d] {
            part.finish(self)?;
        }
        Ok(())
    }
}

/// A symbol that has a code.
struct Symbol {
    value: u8,
    length: u8,
    code: usize,
}

/// Makes the entries for `width` bits in `out` from those for fewer bits: an entry is a first
/// symbol followed by the entry for the bits after it. Places where no code fits stay 0. `symbols`
/// are in rising order of length.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
fn fill(
    symbols: &[Symbol],
    lengths: &[u8; 256],
    width: usize,
    narrow: &[Entry],
    out: &mut [Entry],
) {
    let shortest = symbols.first().map_or(1, |symbol| usize::from(symbol.length));
    for symbol in symbols {
        let length = usize::from(symbol.length);
        let Some(left) = width.checked_sub(length) else {
            return;
        };
        let first = u64::from(symbol.value) << 16 | ONE | u64::from(symbol.length);
        let tails = &narrow[1 << left..2 << left];
        let places = out.chunks_exact_mut(1 << length).map(|places| &mut places[symbol.code]);
        // Only very short codes can fill an entry; all others skip the test for it.
        if left < ENTRY_SYMBOLS * shortest {
            places.zip(tails).for_each(|(place, &tail)| *place = prepend(first, tail));
        } else {
            let fitted = tails.iter().map(|&tail| make_room(tail, lengths));
            places.zip(fitted).for_each(|(place, tail)| *place = prepend(first, tail));
        }
    }
}

/// The entry of a single symbol `first`, followed by `tail`, which is not full.
#[inline(always)]
fn prepend(first: Entry, tail: Entry) -> Entry {
    (tail >> 16 << 24) + (tail & 0xffff) + first
}

/// Removes the last symbol from the counts of a full entry; [`prepend`] then shifts it out.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
fn make_room(entry: Entry, lengths: &[u8; 256]) -> Entry {
    let [.., last] = entry.to_le_bytes();
    if made(entry) < ENTRY_SYMBOLS {
        return entry;
    }
    entry - ONE - u64::from(lengths[usize::from(last)])
}

/// Number of bits in an entry, or in a sum of up to four.
#[inline(always)]
fn used(sum: Entry) -> usize {
    (sum & 63) as usize
}

/// Number of symbols in an entry, or in a sum of up to four.
#[inline(always)]
fn made(sum: Entry) -> usize {
    ((sum >> 8) & 31) as usize
}

/// Decodes the codes in `bits` to `dst`. Returns the sum of the entries, for use with [`used`] and
/// [`made`] only.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "indices are masked, so that the compiler sees that they are in range"
)]
fn burst(entries: &[Entry; LOOKUPS], mut bits: u64, dst: &mut [u8; STEP_DST]) -> Entry {
    let mut sum: Entry = 0;
    for _ in 0..BURST {
        let entry = entries[bits as usize % LOOKUPS];
        bits >>= entry & 63;
        // All eight bytes are stored; those beyond the count are overwritten later.
        let at = made(sum);
        dst[at..at + 8].copy_from_slice(&(entry >> 16).to_le_bytes());
        sum = sum.wrapping_add(entry);
    }
    sum
}

/// One of the four parts of a stream, in progress: its bytes, the bits read, the output, and the
/// bytes made.
struct Lane<'s, 'd> {
    src: &'s [u8],
    bit: usize,
    dst: &'d mut [u8],
    at: usize,
}

impl<'s, 'd> Lane<'s, 'd> {
    fn new(src: &'s [u8], dst: &'d mut [u8]) -> Self {
        Self { src, bit: 0, dst, at: 0 }
    }

    /// Makes up to 24 bytes from one load. Near either end it does nothing and returns false.
    #[inline(always)]
    fn step(&mut self, entries: &[Entry; LOOKUPS]) -> bool {
        let byte = self.bit >> 3;
        let src = self.src.get(byte..byte + 8).and_then(<[u8]>::first_chunk);
        let dst = self.dst.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut);
        let (Some(src), Some(dst)) = (src, dst) else {
            return false;
        };
        let sum = burst(entries, u64::from_le_bytes(*src) >> (self.bit & 7), dst);
        self.bit += used(sum);
        self.at += made(sum);
        true
    }

    /// Makes the bytes of one entry, also near the end of the input. Near the end of the output, or
    /// if bits beyond the input have been used, it does nothing and returns false.
    ///
    /// There is room for more symbols than an entry has, so all of them are wanted. If their bits
    /// include zeros from beyond the end, the part is too short.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
    fn hop(&mut self, entries: &[Entry; LOOKUPS]) -> bool {
        let entry = entries[self.peek() as usize % LOOKUPS];
        let dst = self.dst.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut);
        let Some(dst) = dst.filter(|_| self.bit <= self.src.len() * 8) else {
            return false;
        };
        *dst = (entry >> 16).to_le_bytes();
        self.bit += used(entry);
        self.at += made(entry);
        true
    }

    /// The next 12 bits or more, zero beyond the end.
    #[inline(always)]
    fn peek(&self) -> u32 {
        let rest = self.src.get(self.bit >> 3..).unwrap_or_default();
        let word = rest.first_chunk().copied().unwrap_or_else(|| {
            let byte = |i| rest.get(i).copied().unwrap_or(0);
            [byte(0), byte(1), byte(2), 0]
        });
        u32::from_le_bytes(word) >> (self.bit & 7)
    }

    /// Makes the remaining bytes and checks that the part is used up.
    #[expect(
        clippy::indexing_slicing,
        reason = "indices are masked or below the length of the output"
    )]
    fn finish(mut self, decoder: &Decoder) -> Result<()> {
        let entries = &*decoder.entries;
        let end = self.src.len() * 8;
        while self.step(entries) || self.hop(entries) {}
        // Fewer than eight symbols are missing, or the input has ended with more still wanted.
        let missing = if self.bit <= end { self.at..self.dst.len() } else { 0..0 };
        for at in missing {
            let [_, _, symbol, ..] = entries[self.peek() as usize % LOOKUPS].to_le_bytes();
            self.dst[at] = symbol;
            self.bit += usize::from(decoder.lengths[usize::from(symbol)]);
        }
        match end.checked_sub(self.bit) {
            None => Err(Error::corrupt("huffman part is shorter than its symbols need")),
            Some(0..8) if self.peek() == 0 => Ok(()),
            Some(0..8) => Err(Error::corrupt("padding of a huffman part is not zero")),
            Some(_) => Err(Error::corrupt("huffman part is longer than its symbols need")),
        }
    }
}
