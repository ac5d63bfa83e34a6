//! Encodes bytes to the stream.
//!
//! In: a table and bytes. Out: four part lengths and four parts, appended. Invariants: a part takes
//! at most `longest` bits per byte, which bounds the room it gets before its length is known.
//! Nothing is appended if a byte has no code.

use super::{PARTS, part_lengths, stream_codes};
use crate::express::{CannotExpress, Encoded};
use lmc_format::{HuffmanTable, varint};

/// Bytes put into the accumulator between two stores: at most 48 bits after the 7 left over.
const GROUP: usize = 4;

/// Marks the entry of a byte without a code; sums of a group's entries keep it visible.
const ABSENT: u64 = 1 << 16;

/// Where such sums of marks can be.
const ABSENT_MASK: u64 = 7 << 16;

/// Codes of one table, ready to encode with.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// By byte: the code in the top bits, its length in the low byte.
    entries: [u64; 256],
    /// Length of the longest code in bits.
    longest: usize,
}

impl Encoder {
    /// An encoder for `table`.
    pub fn new(table: &HuffmanTable) -> Self {
        let codes = stream_codes(table);
        let mut entries = [ABSENT; 256];
        for (symbol, &length) in table.lengths().iter().enumerate().filter(|&(_, &l)| l > 0) {
            entries[symbol] = u64::from(codes[symbol]) << (64 - length) | u64::from(length);
        }
        let longest = table.lengths().iter().copied().max().unwrap_or(0);
        Self { entries, longest: usize::from(longest) }
    }

    /// Appends the stream of `src`. If a byte of `src` has no code, this fails and leaves `out` as
    /// it was.
    pub fn encode(&self, src: &[u8], out: &mut Vec<u8>) -> Encoded {
        let base = out.len();
        // The last store of a part begins inside it and is eight bytes long.
        let room = (part_lengths(src.len())[0] * self.longest).div_ceil(8) + 8;
        let body = base + PARTS * varint::len(room as u64);
        out.resize(body + PARTS * room, 0);
        let Some(lengths) = self.encode_parts(src, &mut out[body..], room) else {
            out.truncate(base);
            return Err(CannotExpress);
        };
        close_gaps(out, base, body, room, lengths);
        Ok(())
    }

    /// Writes each part to its own `room` bytes of `regions`; returns the lengths of the parts.
    fn encode_parts(&self, src: &[u8], regions: &mut [u8], room: usize) -> Option<[usize; PARTS]> {
        let mut rest = src;
        let mut regions = regions.chunks_exact_mut(room);
        let mut parts = part_lengths(src.len()).map(|length| {
            let (symbols, after) = rest.split_at(length);
            rest = after;
            Lane::new(symbols, regions.next().unwrap_or_default())
        });
        let shared = parts.iter().map(|part| part.groups.len()).min().unwrap_or(0);
        self.encode_shared(&mut parts, shared);
        let mut lengths = [0; PARTS];
        for (length, part) in lengths.iter_mut().zip(parts) {
            *length = part.finish(&self.entries, shared)?;
        }
        Some(lengths)
    }

    /// Encodes the first `shared` groups of all parts in turn, so that the processor always has
    /// four independent chains of work.
    fn encode_shared(&self, parts: &mut [Lane; PARTS], shared: usize) {
        let [a, b, c, d] = parts;
        let groups = a.groups.iter().zip(b.groups).zip(c.groups).zip(d.groups);
        for (((group_a, group_b), group_c), group_d) in groups.take(shared) {
            a.sink.put(&self.entries, group_a);
            b.sink.put(&self.entries, group_b);
            c.sink.put(&self.entries, group_c);
            d.sink.put(&self.entries, group_d);
        }
    }
}

/// Moves the parts together after their lengths, and cuts off the unused rest.
fn close_gaps(out: &mut Vec<u8>, base: usize, body: usize, room: usize, lengths: [usize; PARTS]) {
    let mut header = Vec::with_capacity(body - base);
    lengths.iter().for_each(|&length| varint::write(&mut header, length as u64));
    let mut end = base + header.len();
    out[base..end].copy_from_slice(&header);
    for (j, length) in lengths.into_iter().enumerate() {
        let from = body + j * room;
        out.copy_within(from..from + length, end);
        end += length;
    }
    out.truncate(end);
}

/// One of the four parts of a stream, in progress: its input and its output.
struct Lane<'a> {
    groups: &'a [[u8; GROUP]],
    last: &'a [u8],
    sink: Sink<'a>,
}

impl<'a> Lane<'a> {
    fn new(symbols: &'a [u8], region: &'a mut [u8]) -> Self {
        let (groups, last) = symbols.as_chunks();
        Self { groups, last, sink: Sink { region, at: 0, bits: 0, fill: 0, marks: 0 } }
    }

    /// Encodes all but the first `done` groups. Returns the length of the part in bytes, or `None`
    /// if one of its bytes has no code.
    fn finish(mut self, entries: &[u64; 256], done: usize) -> Option<usize> {
        for group in self.groups.iter().skip(done) {
            self.sink.put(entries, group);
        }
        self.sink.put(entries, self.last);
        // The last store has already written the partial byte, with zero padding.
        let length = self.sink.at + usize::from(self.sink.fill > 0);
        (self.sink.marks & ABSENT_MASK == 0).then_some(length)
    }
}

/// A bit string that is being written.
struct Sink<'a> {
    region: &'a mut [u8],
    /// Whole bytes written.
    at: usize,
    /// The last bits of the string, in the top places.
    bits: u64,
    /// The number of these bits that are not yet in a whole byte, 0 to 7.
    fill: u64,
    /// OR of all sums of entries so far.
    marks: u64,
}

impl Sink<'_> {
    /// Appends the codes of up to [`GROUP`] symbols.
    #[inline(always)]
    fn put(&mut self, entries: &[u64; 256], symbols: &[u8]) {
        // New codes enter at the top and older bits sink. The distance to sink is in the entry's
        // low bits. The bits of an entry below its code never rise, so they stay under the 55 bits
        // that are read back.
        let (mut bits, mut fill) = (self.bits, self.fill);
        for &symbol in symbols {
            let entry = entries[usize::from(symbol)];
            bits = bits >> (entry & 63) | entry;
            fill = fill.wrapping_add(entry);
        }
        self.marks |= fill;
        let count = fill & 63;
        let word = bits >> (count.wrapping_neg() & 63);
        if let Some(slot) = self.region.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            *slot = word.to_le_bytes();
        }
        self.at += (count >> 3) as usize;
        self.bits = bits;
        self.fill = count & 7;
    }
}
