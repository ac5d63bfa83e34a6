//! rANS with 32 interleaved states (`docs/format.md`, section 5.4).
//!
//! A histogram goes into [`build`] and a table of frequencies comes out; with it, [`Encoder`]
//! turns bytes into a stream and [`Decoder`] a stream into the same bytes. Invariants: a stream
//! has the same bytes whatever instruction set wrote it; a decoder accepts only what an encoder
//! can have written, and reads nothing beyond its stream. Tables and estimates use integer
//! arithmetic alone, so that all platforms agree on them.

use crate::simd::Isa;
use crate::simd::rans::{
    self as kernels, DecodeTable, ENCODE_SLACK, EncodeTable, ROW_WORDS_LEN, STATE_MIN, States,
};
use lmc_format::coder::RansTable;
use lmc_format::error::{Error, Result};
use lmc_format::limits::{RANS_LANES, RANS_SCALE_BITS, VARINT_LEN_MAX};
use lmc_format::reader::Reader;
use lmc_format::varint;
use std::cmp::Ordering;

/// What frequencies sum to.
const SCALE: u16 = 1 << RANS_SCALE_BITS;
/// Bytes of the states in a stream.
const STATES_LEN: usize = 4 * RANS_LANES;
/// Most bytes of a stream before its words.
const HEAD_LEN_MAX: usize = VARINT_LEN_MAX + STATES_LEN;
/// Bytes encoded between two looks at the room left for words.
const CHUNK: usize = 64 * RANS_LANES;
/// Fractional bits of [`LOG2`].
const LOG2_BITS: u32 = 20;

/// `floor(2^20 * log2(i))`, to within one unit; entry 0 is not used.
static LOG2: [u32; SCALE as usize + 1] = log2_table();

const fn log2_table() -> [u32; SCALE as usize + 1] {
    let mut table = [0; SCALE as usize + 1];
    let mut i = 1;
    while i < table.len() {
        let whole = i.ilog2();
        // The mantissa has 31 fractional bits; squaring it doubles the logarithm, whose next bit
        // is whether the square reaches two.
        let mut mantissa = (i as u64) << (31 - whole);
        let mut log = whole;
        let mut bit = 0;
        while bit < LOG2_BITS {
            mantissa = (mantissa * mantissa) >> 31;
            let carry = mantissa >> 32;
            mantissa >>= carry;
            log = log << 1 | carry as u32;
            bit += 1;
        }
        table[i] = log;
        i += 1;
    }
    table
}

/// The table for bytes that occur as often as `histogram` says; `None` if fewer than two differ.
///
/// Moving one unit of frequency from one symbol to another would not lower [`cost_bits`].
pub fn build(histogram: &[u32; 256]) -> Option<RansTable> {
    let mut freqs = first_guess(histogram)?;
    let mut sum: u16 = freqs.iter().sum();
    let mut gains = [0; 256];
    let mut losses = [u64::MAX; 256];
    for symbol in 0..256 {
        update_margins(symbol, histogram, &freqs, &mut gains, &mut losses);
    }
    loop {
        let up = position_of(&gains, |a, b| a > b);
        let down = position_of(&losses, |a, b| a < b);
        let balance = sum.cmp(&SCALE);
        // An exchange must lower the cost, which is why this ends.
        if balance == Ordering::Equal && (up == down || gains[up] <= losses[down]) {
            break;
        }
        if balance != Ordering::Greater {
            freqs[up] += 1;
            sum += 1;
            update_margins(up, histogram, &freqs, &mut gains, &mut losses);
        }
        if balance != Ordering::Less {
            freqs[down] -= 1;
            sum -= 1;
            update_margins(down, histogram, &freqs, &mut gains, &mut losses);
        }
    }
    RansTable::new(freqs).ok()
}

/// Frequencies in proportion to the histogram, 1 for the rare symbols; they sum to about 4096.
fn first_guess(histogram: &[u32; 256]) -> Option<[u16; 256]> {
    let scale = u64::from(SCALE);
    let total: u64 = histogram.iter().map(|&count| u64::from(count)).sum();
    let is_rare = |count: u64| count * scale < total;
    if histogram.iter().filter(|&&count| count > 0).count() < 2 {
        return None;
    }
    // Rare symbols are set aside first: the 1 they get is more than their share.
    let mut shared = (total, scale);
    for &count in histogram.iter().filter(|&&count| count > 0 && is_rare(count.into())) {
        shared = (shared.0 - u64::from(count), shared.1 - 1);
    }
    let mut freqs = [0; 256];
    for (freq, &count) in freqs.iter_mut().zip(histogram).filter(|&(_, &count)| count > 0) {
        let share = (u64::from(count) * shared.1 + shared.0 / 2) / shared.0;
        *freq = share.clamp(1, scale - 1) as u16;
    }
    Some(freqs)
}

/// Sets what one unit more of `symbol` saves and what one unit less costs.
fn update_margins(
    symbol: usize,
    histogram: &[u32; 256],
    freqs: &[u16; 256],
    gains: &mut [u64; 256],
    losses: &mut [u64; 256],
) {
    let log = |freq: u16| u64::from(LOG2[usize::from(freq)]);
    let (count, freq) = (u64::from(histogram[symbol]), freqs[symbol]);
    if freq == 0 {
        return;
    }
    gains[symbol] = if freq + 1 < SCALE { count * (log(freq + 1) - log(freq)) } else { 0 };
    losses[symbol] = if freq > 1 { count * (log(freq) - log(freq - 1)) } else { u64::MAX };
}

/// Where the first of the values stands that `is_better` than all others.
fn position_of(values: &[u64; 256], is_better: impl Fn(u64, u64) -> bool) -> usize {
    let mut best = (0, values[0]);
    for (i, &value) in values.iter().enumerate() {
        if is_better(value, best.1) {
            best = (i, value);
        }
    }
    best.0
}

/// Estimated bits that bytes of this histogram take with `table`, rounded up; `None` if one that
/// occurs is absent from the table.
///
/// This leaves out the fixed cost of a stream: 128 bytes of states and the varint, of which about
/// 32 bytes are regained because the states carry the last bits of the bytes.
pub fn cost_bits(table: &RansTable, histogram: &[u32; 256]) -> Option<u64> {
    let mut cost = 0_u64;
    for (&freq, &count) in table.freqs().iter().zip(histogram).filter(|&(_, &count)| count > 0) {
        if freq == 0 {
            return None;
        }
        // Fewer than 2^40 bytes of 12 bits with 20 fractional ones stay below 2^64.
        cost += u64::from(count) * u64::from(symbol_cost(freq));
    }
    Some(cost.div_ceil(1 << LOG2_BITS))
}

/// Bits of a symbol, with 20 fractional bits.
fn symbol_cost(freq: u16) -> u32 {
    (RANS_SCALE_BITS << LOG2_BITS) - LOG2[usize::from(freq)]
}

/// Writes streams with one table.
#[derive(Clone, Debug)]
pub struct Encoder {
    entries: Box<EncodeTable>,
    /// Bits of a byte on average if the frequencies are true, with 20 fractional bits.
    mean_cost: u64,
}

impl Encoder {
    /// An encoder for the frequencies of `table`.
    pub fn new(table: &RansTable) -> Self {
        let mut entries = Box::new([0; 256]);
        let mut start = 0;
        let mut cost = 0;
        for (entry, &freq) in entries.iter_mut().zip(table.freqs()).filter(|&(_, &f)| f > 0) {
            *entry = kernels::encode_entry(freq, start);
            start += freq;
            cost += u64::from(freq) * u64::from(symbol_cost(freq));
        }
        Self { entries, mean_cost: cost >> RANS_SCALE_BITS }
    }

    /// Appends the stream of `src`; returns false, with `out` as it was, if some byte is absent
    /// from the table.
    pub fn encode(&self, isa: Isa, src: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let chunk_room = 2 * src.len().min(CHUNK) + ENCODE_SLACK;
        out.resize(start + HEAD_LEN_MAX + chunk_room + self.expected_len(src.len()), 0);
        let mut states = [STATE_MIN; RANS_LANES];
        // The words grow down from the end of `out`, since a decoder reads them the other way.
        let mut words_len = 0;
        for chunk in src.chunks(CHUNK).rev() {
            if out.len() - words_len < start + HEAD_LEN_MAX + chunk_room {
                make_room(out, words_len, chunk_room);
            }
            let words_start = out.len() - words_len;
            let free = &mut out[start + HEAD_LEN_MAX..words_start];
            let done = kernels::encode(isa, &self.entries, &mut states, chunk, free);
            if !done.all_present {
                out.truncate(start);
                return false;
            }
            words_len += done.len;
        }
        close_stream(out, start, words_len, &states);
        true
    }

    /// Bytes of words to expect for `len` bytes, and a little more.
    fn expected_len(&self, len: usize) -> usize {
        let bits = (len as u128 * u128::from(self.mean_cost)) >> LOG2_BITS;
        let bytes = (bits / 8) as usize;
        bytes + bytes / 64
    }
}

/// Moves the last `words_len` bytes up, by `least` bytes or their own length, whichever is more.
fn make_room(out: &mut Vec<u8>, words_len: usize, least: usize) {
    let end = out.len();
    let extra = least.max(words_len);
    out.resize(end + extra, 0);
    out.copy_within(end - words_len..end, end - words_len + extra);
}

/// Writes the head of the stream at `start` and moves the words, which end `out`, behind it.
fn close_stream(out: &mut Vec<u8>, start: usize, words_len: usize, states: &States) {
    let mut head = Vec::with_capacity(HEAD_LEN_MAX);
    varint::write(&mut head, (words_len / 2) as u64);
    head.extend(states.iter().flat_map(|state| state.to_le_bytes()));
    let words_start = start + head.len();
    out[start..words_start].copy_from_slice(&head);
    let words = out.len() - words_len..out.len();
    out.copy_within(words, words_start);
    out.truncate(words_start + words_len);
}

/// Reads streams with one table.
#[derive(Clone, Debug)]
pub struct Decoder {
    slots: Box<DecodeTable>,
}

impl Decoder {
    /// A decoder for the frequencies of `table`.
    pub fn new(table: &RansTable) -> Self {
        let mut slots = Box::new([0; SCALE as usize]);
        let mut rest = slots.as_mut_slice();
        for (symbol, &freq) in (0..=255).zip(table.freqs()) {
            let (own, others) = rest.split_at_mut(freq.into());
            for (bias, slot) in (0..freq).zip(own) {
                *slot = kernels::decode_entry(symbol, freq, bias);
            }
            rest = others;
        }
        Self { slots }
    }

    /// Reads one stream of `dst.len()` bytes and leaves `input` after it.
    ///
    /// After an error, `dst` and the place of `input` mean nothing.
    pub fn decode(&self, isa: Isa, input: &mut Reader, dst: &mut [u8]) -> Result<()> {
        let count = input.varint("rans word count")?;
        if count > dst.len() as u64 {
            let len = dst.len();
            return Err(Error::corrupt(format!("{count} rans words for {len} bytes")));
        }
        let mut states = read_states(input)?;
        // A slice has fewer than 2^63 bytes, so that twice the count cannot overflow.
        let words = input.take(2 * count as usize, "rans words")?;
        let used = self.decode_words(isa, &mut states, words, dst).ok_or_else(|| {
            Error::corrupt(format!("{count} rans words are too few for {} bytes", dst.len()))
        })?;
        let left = words.len() - used;
        if left != 0 {
            return Err(Error::corrupt(format!(
                "{} of {count} rans words are left over",
                left / 2
            )));
        }
        match states.iter().find(|&&state| state != STATE_MIN) {
            Some(state) => {
                Err(Error::corrupt(format!("rans state {state:#x} after the last byte")))
            }
            None => Ok(()),
        }
    }

    /// Decodes all of `dst`; returns the bytes of words used, or `None` if there are too few.
    fn decode_words(
        &self,
        isa: Isa,
        states: &mut States,
        words: &[u8],
        dst: &mut [u8],
    ) -> Option<usize> {
        let whole = dst.len() - dst.len() % RANS_LANES;
        let (rows, last) = dst.split_at_mut(whole);
        let most = kernels::decode_rows(isa, &self.slots, states, words, rows);
        let mut used = most.used;
        let rows = &mut rows[most.written..];
        if !rows.is_empty() {
            used += self.decode_padded(isa, states, &words[used..], rows)?;
        }
        Some(used + kernels::decode_last(&self.slots, states, &words[used..], last)?)
    }

    /// Decodes whole rows from fewer words than the kernel wants for one: bytes that cost little
    /// can have thousands of rows left here, so that they must not go through slower code.
    fn decode_padded(
        &self,
        isa: Isa,
        states: &mut States,
        words: &[u8],
        rows: &mut [u8],
    ) -> Option<usize> {
        let mut padded = [0; 2 * ROW_WORDS_LEN];
        padded.get_mut(..words.len())?.copy_from_slice(words);
        let done = kernels::decode_rows(isa, &self.slots, states, &padded, rows);
        // The kernel goes on for as long as the words used so far are at most the first half,
        // which holds all real ones: when it stops early, it has used more than there were.
        (done.written == rows.len() && done.used <= words.len()).then_some(done.used)
    }
}

/// Reads the states that a stream starts with.
fn read_states(input: &mut Reader) -> Result<States> {
    let bytes = input.take(STATES_LEN, "rans states")?;
    let mut states = [0; RANS_LANES];
    for (state, chunk) in states.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *state = u32::from_le_bytes(*chunk);
        if *state < STATE_MIN {
            return Err(Error::corrupt(format!("rans state {state:#x} is below 0x10000")));
        }
    }
    Ok(states)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct XorShift(u64);

    impl XorShift {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Bytes that follow the frequencies of `table`.
        fn bytes(&mut self, table: &RansTable, len: usize) -> Vec<u8> {
            let slots: Vec<u8> = (0..=255_u8)
                .flat_map(|s| vec![s; usize::from(table.freqs()[usize::from(s)])])
                .collect();
            (0..len).map(|_| slots[(self.next() >> 40) as usize % 4096]).collect()
        }
    }

    fn histogram(bytes: &[u8]) -> [u32; 256] {
        let mut counts = [0; 256];
        for &byte in bytes {
            counts[usize::from(byte)] += 1;
        }
        counts
    }

    fn table_of(freqs: &[(u8, u16)]) -> RansTable {
        let mut all = [0; 256];
        for &(symbol, freq) in freqs {
            all[usize::from(symbol)] = freq;
        }
        RansTable::new(all).unwrap()
    }

    /// Skewed, uniform, two symbols, one that dominates either way round, and one frequency whose
    /// reciprocal must be rounded down.
    fn tables() -> Vec<RansTable> {
        let mut skewed = [0; 256];
        for (i, count) in skewed.iter_mut().skip(100).take(60).enumerate() {
            *count = 1_000_000 >> (i / 3);
        }
        vec![
            build(&skewed).unwrap(),
            RansTable::new([16; 256]).unwrap(),
            table_of(&[(3, 2048), (200, 2048)]),
            table_of(&[(0, 4095), (255, 1)]),
            table_of(&[(7, 1), (8, 4095)]),
            table_of(&[(1, 2731), (2, 1000), (9, 365)]),
        ]
    }

    fn encode(isa: Isa, table: &RansTable, src: &[u8]) -> Vec<u8> {
        let mut out = vec![0xaa];
        assert!(Encoder::new(table).encode(isa, src, &mut out));
        assert_eq!(out.remove(0), 0xaa);
        out
    }

    fn decode(isa: Isa, table: &RansTable, stream: &[u8], len: usize) -> Result<Vec<u8>> {
        let mut dst = vec![0; len];
        let mut input = Reader::new(stream);
        Decoder::new(table).decode(isa, &mut input, &mut dst)?;
        input.finish("the stream")?;
        Ok(dst)
    }

    /// Decodes by the words of the format and nothing else; panics on a bad stream.
    fn decode_by_the_text(table: &RansTable, stream: &[u8], len: usize) -> Vec<u8> {
        let mut input = Reader::new(stream);
        let words = input.varint("words").unwrap();
        let mut x: Vec<u32> =
            (0..32).map(|_| u32::from_le_bytes(input.array("state").unwrap())).collect();
        assert_eq!(input.rest().len() as u64, 2 * words);
        let mut out = Vec::new();
        for i in 0..len {
            let x = &mut x[i % 32];
            let (slot, mut below, mut symbol) = (*x % 4096, 0, 0_usize);
            while slot >= below + u32::from(table.freqs()[symbol]) {
                below += u32::from(table.freqs()[symbol]);
                symbol += 1;
            }
            *x = u32::from(table.freqs()[symbol]) * (*x / 4096) + slot - below;
            if *x < 1 << 16 {
                *x = *x << 16 | u32::from(input.u16("word").unwrap());
            }
            out.push(symbol as u8);
        }
        assert!(input.rest().is_empty() && x.iter().all(|&x| x == 1 << 16));
        out
    }

    fn check_all_isas(table: &RansTable, src: &[u8]) {
        let stream = encode(Isa::PORTABLE, table, src);
        assert_eq!(decode_by_the_text(table, &stream, src.len()), src);
        for isa in Isa::available() {
            assert_eq!(encode(isa, table, src), stream, "{isa:?} writes other bytes");
            assert_eq!(decode(isa, table, &stream, src.len()).as_deref(), Ok(src), "{isa:?}");
        }
    }

    /// All instruction sets write the same bytes, read them back, and agree with the format's text.
    #[test]
    fn all_isas_agree() {
        let mut random = XorShift(0x9e37_79b9_7f4a_7c15);
        for table in tables() {
            for len in (0..=260).chain([2047, 2048, 2049, 4096, 10_007, 131_072]) {
                check_all_isas(&table, &random.bytes(&table, len));
            }
        }
    }

    /// Bytes that the table does not expect still make a stream, though a much longer one: the
    /// room for words grows as it must.
    #[test]
    fn unexpected_bytes_survive() {
        for (table, byte) in [(&tables()[3], 255), (&tables()[4], 7)] {
            for len in [1, 31, 32, 5_000, 50_000] {
                check_all_isas(table, &vec![byte; len]);
            }
            check_all_isas(table, &vec![if byte == 7 { 8 } else { 0 }; 100_000]);
        }
    }

    /// An empty stream has no words and 32 states of 2^16, as the format says.
    #[test]
    fn empty_stream_is_fixed() {
        let mut expected = vec![0];
        expected.extend([0, 0, 1, 0].repeat(32));
        for isa in Isa::available() {
            assert_eq!(encode(isa, &tables()[0], &[]), expected);
        }
    }

    /// Every truncation is an error, and what follows a stream is left alone.
    #[test]
    fn ends_are_exact() {
        let table = &tables()[0];
        let src = XorShift(7).bytes(table, 150);
        let mut stream = encode(Isa::PORTABLE, table, &src);
        for isa in Isa::available() {
            for len in 0..stream.len() {
                assert!(decode(isa, table, &stream[..len], src.len()).is_err(), "{len} bytes");
            }
        }
        stream.extend([1, 2, 3]);
        for isa in Isa::available() {
            let (mut input, mut dst) = (Reader::new(&stream), vec![0; src.len()]);
            Decoder::new(table).decode(isa, &mut input, &mut dst).unwrap();
            assert_eq!(input.rest(), [1, 2, 3]);
        }
    }

    /// No flipped bit makes a decoder panic, and all instruction sets judge it alike.
    #[test]
    fn flipped_bits_are_harmless() {
        for table in tables() {
            let src = XorShift(99).bytes(&table, 333);
            let stream = encode(Isa::PORTABLE, &table, &src);
            for bit in 0..8 * stream.len() {
                let mut flipped = stream.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let expected = decode(Isa::PORTABLE, &table, &flipped, src.len());
                for isa in Isa::available() {
                    assert_eq!(decode(isa, &table, &flipped, src.len()), expected, "bit {bit}");
                }
            }
        }
    }

    /// Random states and words never panic, whatever the lengths; nearly all are errors.
    #[test]
    fn noise_is_harmless() {
        let mut random = XorShift(12_345);
        for table in tables() {
            for round in 0..300 {
                let count = random.next() as usize % 200;
                let mut stream = Vec::new();
                varint::write(&mut stream, count as u64);
                stream.extend((0..STATES_LEN + 2 * count).map(|_| random.next() as u8 | 1));
                let len = if round % 2 == 0 { random.next() as usize % 1000 } else { 100_000 };
                let expected = decode(Isa::PORTABLE, &table, &stream, len);
                for isa in Isa::available() {
                    assert_eq!(decode(isa, &table, &stream, len), expected);
                }
            }
        }
    }

    /// Low states, wrong final states, too many words and too few are all refused.
    #[test]
    fn bad_streams_are_refused() {
        let table = &tables()[0];
        let src = XorShift(5).bytes(table, 640);
        let good = encode(Isa::PORTABLE, table, &src);
        let mut low = good.clone();
        low[2..6].copy_from_slice(&0xffff_u32.to_le_bytes());
        let mut more = good.clone();
        more[0] += 1;
        more.extend([0, 0]);
        let mut fewer = good.clone();
        fewer[0] -= 1;
        fewer.truncate(good.len() - 2);
        let mut other = good.clone();
        *other.last_mut().unwrap() ^= 1;
        assert!(good[0] > 0x80 && good[0] < 0xff, "the count must have two bytes for this test");
        for isa in Isa::available() {
            assert!(decode(isa, table, &good, 640).is_ok());
            for bad in [&low, &more, &fewer, &other] {
                assert!(decode(isa, table, bad, 640).is_err());
            }
            assert!(decode(isa, table, &good, 639).is_err());
            assert!(decode(isa, table, &good, 641).is_err());
        }
    }

    /// A byte without a frequency, wherever it stands, is refused and leaves `out` unchanged.
    #[test]
    fn absent_bytes_are_refused() {
        let table = &tables()[0];
        let encoder = Encoder::new(table);
        for len in [1, 32, 100, 5000] {
            for place in [0, len / 2, len - 1] {
                let mut src = XorShift(3).bytes(table, len);
                src[place] = 0;
                for isa in Isa::available() {
                    let mut out = vec![1, 2, 3];
                    assert!(!encoder.encode(isa, &src, &mut out));
                    assert_eq!(out, [1, 2, 3]);
                }
            }
        }
    }

    /// Extreme histograms give valid tables with every symbol in them; fewer than two give none.
    #[test]
    fn extreme_histograms_build() {
        assert_eq!(build(&[0; 256]), None);
        let mut counts = [0; 256];
        counts[9] = 77;
        assert_eq!(build(&counts), None);
        counts[10] = u32::MAX;
        assert_eq!(build(&counts), Some(table_of(&[(9, 1), (10, 4095)])));
        for dominant in [0, 1, 5, 255] {
            let mut counts = [1; 256];
            counts[dominant] = u32::MAX;
            let table = build(&counts).unwrap();
            assert_eq!(table.freqs()[dominant], 4096 - 255);
        }
        assert_eq!(build(&[u32::MAX; 256]), RansTable::new([16; 256]).ok());
        assert_eq!(build(&[1; 256]), RansTable::new([16; 256]).ok());
    }

    /// Moving one unit of frequency between any two symbols never lowers the cost.
    #[test]
    fn tables_cannot_be_bettered() {
        let mut random = XorShift(4711);
        for round in 0..60 {
            let mut counts = [0_u32; 256];
            let symbols = 2 + random.next() as usize % 100;
            for count in counts.iter_mut().take(symbols) {
                *count = 1 + (random.next() >> 40 >> (random.next() % (1 + round % 24))) as u32;
            }
            let table = build(&counts).unwrap();
            let cost = |freqs: &[u16; 256]| -> f64 {
                let bits = |(&f, &c): (&u16, &u32)| f64::from(c) * -(f64::from(f) / 4096.0).log2();
                freqs.iter().zip(&counts).filter(|&(_, &c)| c > 0).map(bits).sum()
            };
            let best = cost(table.freqs());
            for (up, down) in (0..symbols).flat_map(|a| (0..symbols).map(move |b| (a, b))) {
                let mut other = *table.freqs();
                if up != down && other[down] > 1 {
                    (other[up], other[down]) = (other[up] + 1, other[down] - 1);
                    // The logarithms have 20 fractional bits, hence the tolerance.
                    let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
                    assert!(cost(&other) > best - total as f64 / 200_000.0);
                }
            }
        }
    }

    /// The estimate is exact for powers of two, close to the real length, and `None` where a byte
    /// is absent.
    #[test]
    fn estimates_hold() {
        let uniform = RansTable::new([16; 256]).unwrap();
        assert_eq!(cost_bits(&uniform, &[3; 256]), Some(8 * 3 * 256));
        assert_eq!(cost_bits(&uniform, &[u32::MAX; 256]), Some(8 * 256 * u64::from(u32::MAX)));
        assert_eq!(cost_bits(&tables()[2], &[1; 256]), None);
        for table in tables() {
            let src = XorShift(31).bytes(&table, 100_000);
            let estimate = cost_bits(&table, &histogram(&src)).unwrap() as f64 / 8.0;
            let real = encode(Isa::PORTABLE, &table, &src).len() as f64 - 131.0 + 32.0;
            assert!((real - estimate).abs() < 40.0 + estimate / 1000.0, "{real} for {estimate}");
        }
    }
}
