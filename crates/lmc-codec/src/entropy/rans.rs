//! rANS with 32 interleaved states (`docs/format.md`, sections 5.4 and 5.7).
//!
//! [`build`] makes a table of frequencies from a histogram. With it, [`Encoder`] turns bytes into a
//! stream and [`Decoder`] turns a stream into the same bytes. Invariants: every instruction set
//! writes the same stream. A decoder accepts only streams that an encoder can have written, and
//! reads nothing beyond its stream. Tables and estimates use only integer arithmetic, so that all
//! platforms agree on them.

use crate::express::{CannotExpress, Encoded};
use crate::simd::Isa;
use crate::simd::rans::{
    self as kernels, DecodeTable, ENCODE_SLACK, EncodeTable, ROW_WORDS_LEN, STATE_MIN, States,
};
use lmc_format::ContextTables;
use lmc_format::coder::RansTable;
use lmc_format::error::{Error, Result};
use lmc_format::limits::{RANS_CONTEXTS_MAX, RANS_LANES, RANS_SCALE_BITS, VARINT_LEN_MAX};
use lmc_format::reader::Reader;
use lmc_format::varint;
use std::cmp::Ordering;

/// The sum of all frequencies.
const SCALE: u16 = 1 << RANS_SCALE_BITS;
/// Bytes of the states in a stream.
const STATES_LEN: usize = 4 * RANS_LANES;
/// The largest number of bytes of a stream before its words.
const HEAD_LEN_MAX: usize = VARINT_LEN_MAX + STATES_LEN;
/// Bytes encoded between two checks of the room left for words.
const CHUNK: usize = 64 * RANS_LANES;
/// Fractional bits of [`LOG2`].
const LOG2_BITS: u32 = 20;

/// `floor(2^20 * log2(i))`, to within one unit; entry 0 is not used.
static LOG2: [u32; SCALE as usize + 1] = log2_table();

#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
const fn log2_table() -> [u32; SCALE as usize + 1] {
    let mut table = [0; SCALE as usize + 1];
    let mut i = 1;
    while i < table.len() {
        let whole = i.ilog2();
        // The mantissa has 31 fractional bits. Squaring it doubles the logarithm, and the next bit
        // says whether the square reaches two.
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

/// The table for bytes that occur as often as `histogram` says; `None` if there are fewer than two
/// different bytes.
///
/// Moving one unit of frequency from one symbol to another would not lower `cost_bits`.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
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
        // An exchange must lower the cost, so this loop ends.
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
    // Rare symbols are set aside first: the 1 that they get is more than their share.
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

/// Sets how much one more unit of `symbol` saves and how much one unit less costs.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
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

/// The index of the first value that `is_better` than all others.
fn position_of(values: &[u64; 256], is_better: impl Fn(u64, u64) -> bool) -> usize {
    let mut best = (0, values[0]);
    for (i, &value) in values.iter().enumerate() {
        if is_better(value, best.1) {
            best = (i, value);
        }
    }
    best.0
}

/// Estimated bits that bytes of this histogram take with `table`, rounded up; `None` if a byte that
/// occurs is not in the table.
///
/// This leaves out the fixed cost of a stream: 128 bytes of states, and the varint. About 32 of
/// these bytes are regained, because the states carry the last bits of the bytes.
pub(crate) fn cost_bits(table: &RansTable, histogram: &[u32; 256]) -> Option<u64> {
    let mut cost = 0_u64;
    for (&freq, &count) in table.freqs().iter().zip(histogram).filter(|&(_, &count)| count > 0) {
        if freq == 0 {
            return None;
        }
        // Fewer than 2^40 bytes at 12 bits with 20 fractional bits stay below 2^64.
        cost += u64::from(count) * u64::from(symbol_cost(freq));
    }
    Some(cost.div_ceil(1 << LOG2_BITS))
}

/// Bits per symbol, with 20 fractional bits.
#[expect(clippy::indexing_slicing, reason = "a table has an entry for each index")]
fn symbol_cost(freq: u16) -> u32 {
    (RANS_SCALE_BITS << LOG2_BITS) - LOG2[usize::from(freq)]
}

/// Writes streams with `N` tables: one, or the largest number of contexts.
#[derive(Clone, Debug)]
pub struct Encoder<const N: usize = 1> {
    tables: Box<[EncodeTable; N]>,
    /// Average bits per byte if the frequencies are right, with 20 fractional bits. With several
    /// tables, those of the most expensive one.
    mean_cost: u64,
}

impl Encoder {
    /// An encoder for the frequencies of `table`.
    pub fn new(table: &RansTable) -> Self {
        Self::of(std::slice::from_ref(table))
    }

    /// Appends the stream of `src`. If a byte is not in the table, this fails and leaves `out` as
    /// it was.
    pub fn encode(&self, isa: Isa, src: &[u8], out: &mut Vec<u8>) -> Encoded {
        self.encode_all(isa, src, &[], out)
    }
}

impl Encoder<RANS_CONTEXTS_MAX> {
    /// An encoder for the frequencies of `tables`.
    pub fn by_context(tables: &ContextTables) -> Self {
        Self::of(tables.tables())
    }

    /// Appends the stream of `src`, each byte with the table of its context. If a byte is not in
    /// its table, this fails and leaves `out` as it was.
    pub fn encode_by_context(
        &self,
        isa: Isa,
        src: &[u8],
        contexts: &[u8],
        out: &mut Vec<u8>,
    ) -> Encoded {
        self.encode_all(isa, src, contexts, out)
    }
}

impl<const N: usize> Encoder<N> {
    fn of(tables: &[RansTable]) -> Self {
        let mut entries = Box::new([[0; 256]; N]);
        let mut mean_cost = 0;
        for (entries, table) in entries.iter_mut().zip(tables) {
            let mut start = 0;
            let mut cost = 0;
            for (entry, &freq) in entries.iter_mut().zip(table.freqs()).filter(|&(_, &f)| f > 0) {
                *entry = kernels::encode_entry(freq, start);
                start += freq;
                cost += u64::from(freq) * u64::from(symbol_cost(freq));
            }
            mean_cost = mean_cost.max(cost >> RANS_SCALE_BITS);
        }
        Self { tables: entries, mean_cost }
    }

    #[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
    fn encode_all(&self, isa: Isa, src: &[u8], contexts: &[u8], out: &mut Vec<u8>) -> Encoded {
        let start = out.len();
        let chunk_room = 2 * src.len().min(CHUNK) + ENCODE_SLACK;
        out.resize(start + HEAD_LEN_MAX + chunk_room + self.expected_len(src.len()), 0);
        let mut states = [STATE_MIN; RANS_LANES];
        // The words grow down from the end of `out`, because a decoder reads them in the opposite
        // order.
        let mut words_len = 0;
        let mut contexts_left = contexts;
        for chunk in src.chunks(CHUNK).rev() {
            let at = contexts_left.len().saturating_sub(chunk.len());
            let (others, contexts) = contexts_left.split_at(at);
            contexts_left = others;
            if out.len() - words_len < start + HEAD_LEN_MAX + chunk_room {
                make_room(out, words_len, chunk_room);
            }
            let words_start = out.len() - words_len;
            let free = &mut out[start + HEAD_LEN_MAX..words_start];
            let done = kernels::encode(isa, &self.tables, &mut states, chunk, contexts, free);
            if !done.all_present {
                out.truncate(start);
                return Err(CannotExpress);
            }
            words_len += done.len;
        }
        close_stream(out, start, words_len, &states);
        Ok(())
    }

    /// Expected bytes of words for `len` bytes, and a little more.
    fn expected_len(&self, len: usize) -> usize {
        let bits = (len as u128 * u128::from(self.mean_cost)) >> LOG2_BITS;
        let bytes = (bits / 8) as usize;
        bytes + bytes / 64
    }
}

/// Moves the last `words_len` bytes up, by `least` bytes or by their own length, whichever is more.
fn make_room(out: &mut Vec<u8>, words_len: usize, least: usize) {
    let end = out.len();
    let extra = least.max(words_len);
    out.resize(end + extra, 0);
    out.copy_within(end - words_len..end, end - words_len + extra);
}

/// Writes the head of the stream at `start`, and moves the words from the end of `out` to after it.
#[expect(clippy::indexing_slicing, reason = "an encoder slices its own buffers")]
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

/// Reads streams with `N` tables: one, or the largest number of contexts.
#[derive(Clone, Debug)]
pub struct Decoder<const N: usize = 1> {
    tables: Box<[DecodeTable; N]>,
}

impl Decoder {
    /// A decoder for the frequencies of `table`.
    pub fn new(table: &RansTable) -> Self {
        Self::of(std::slice::from_ref(table))
    }

    /// Reads one stream of `dst.len()` bytes, and leaves `input` after it.
    ///
    /// After an error, the contents of `dst` and the position of `input` mean nothing.
    pub fn decode(&self, isa: Isa, input: &mut Reader, dst: &mut [u8]) -> Result<()> {
        self.decode_all(isa, input, &[], dst)
    }
}

impl Decoder<RANS_CONTEXTS_MAX> {
    /// A decoder for the frequencies of `tables`.
    pub fn by_context(tables: &ContextTables) -> Self {
        Self::of(tables.tables())
    }

    /// Reads one stream of `dst.len()` bytes with these contexts, and leaves `input` after it.
    ///
    /// After an error, the contents of `dst` and the position of `input` mean nothing.
    pub fn decode_by_context(
        &self,
        isa: Isa,
        input: &mut Reader,
        contexts: &[u8],
        dst: &mut [u8],
    ) -> Result<()> {
        self.decode_all(isa, input, contexts, dst)
    }
}

impl<const N: usize> Decoder<N> {
    #[expect(clippy::expect_used, reason = "a vector of N tables is an array of N")]
    fn of(tables: &[RansTable]) -> Self {
        let slots = vec![[0; SCALE as usize]; N].into_boxed_slice();
        let mut slots: Box<[DecodeTable; N]> = slots.try_into().expect("as many tables");
        for (slots, table) in slots.iter_mut().zip(tables) {
            let mut rest = slots.as_mut_slice();
            for (symbol, &freq) in (0..=255).zip(table.freqs()) {
                let (own, others) = rest.split_at_mut(freq.into());
                for (bias, slot) in (0..freq).zip(own) {
                    *slot = kernels::decode_entry(symbol, freq, bias);
                }
                rest = others;
            }
        }
        Self { tables: slots }
    }

    fn decode_all(
        &self,
        isa: Isa,
        input: &mut Reader,
        contexts: &[u8],
        dst: &mut [u8],
    ) -> Result<()> {
        let count = input.varint("rans word count")?;
        if count > dst.len() as u64 {
            let len = dst.len();
            return Err(Error::corrupt(format!("{count} rans words for {len} bytes")));
        }
        let mut states = read_states(input)?;
        // A slice has fewer than 2^63 bytes, so that twice the count cannot overflow.
        let words = input.take(2 * count as usize, "rans words")?;
        let used = self.decode_words(isa, &mut states, words, contexts, dst).ok_or_else(|| {
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

    /// Decodes all of `dst`. Returns the bytes of words used, or `None` if there are too few.
    #[expect(clippy::indexing_slicing, reason = "a kernel uses no more than it gets")]
    fn decode_words(
        &self,
        isa: Isa,
        states: &mut States,
        words: &[u8],
        contexts: &[u8],
        dst: &mut [u8],
    ) -> Option<usize> {
        let whole = dst.len() - dst.len() % RANS_LANES;
        let (rows, last) = dst.split_at_mut(whole);
        let (row_contexts, last_contexts) = contexts.split_at(whole.min(contexts.len()));
        let most = kernels::decode_rows(isa, &self.tables, states, words, row_contexts, rows);
        let mut used = most.used;
        let (rows, row_contexts) =
            (&mut rows[most.written..], &row_contexts[most.written.min(row_contexts.len())..]);
        if !rows.is_empty() {
            used += self.decode_padded(isa, states, &words[used..], row_contexts, rows)?;
        }
        let words = &words[used..];
        Some(used + kernels::decode_last(&self.tables, states, words, last_contexts, last)?)
    }

    /// Decodes whole rows when there are fewer words than the kernel wants for one. Cheap bytes can
    /// have thousands of rows left here, so they must not go through slower code.
    fn decode_padded(
        &self,
        isa: Isa,
        states: &mut States,
        words: &[u8],
        contexts: &[u8],
        rows: &mut [u8],
    ) -> Option<usize> {
        let mut padded = [0; 2 * ROW_WORDS_LEN];
        padded.get_mut(..words.len())?.copy_from_slice(words);
        let done = kernels::decode_rows(isa, &self.tables, states, &padded, contexts, rows);
        // The kernel continues while the words used so far are at most the first half, which holds
        // all real ones. If it stops early, it has used more than there were.
        (done.written == rows.len() && done.used <= words.len()).then_some(done.used)
    }
}

/// Reads the states at the start of a stream.
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
mod tests;
