//! Kernels of the rANS coder (`docs/format.md`, section 5.4): from tables and states they make
//! bytes or words.
//!
//! A row is 32 consecutive bytes, one for each lane. Each byte has a context, which chooses one of
//! `N` tables, a power of two; with one table there are no contexts. Every instruction set gives
//! the results of `portable`, bit for bit. The functions here check the lengths once and then
//! dispatch. No input, however hostile, makes a kernel read or write outside its slices.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use super::{Isa, IsaKind};
use lmc_format::limits::{RANS_LANES, RANS_SCALE_BITS};

/// The states of all lanes.
pub(crate) type States = [u32; RANS_LANES];
/// One [`encode_entry`] for each symbol.
pub(crate) type EncodeTable = [u64; 256];
/// One [`decode_entry`] for each slot.
pub(crate) type DecodeTable = [u32; 1 << RANS_SCALE_BITS];

/// States start and end here and never fall below it between two bytes.
pub(crate) const STATE_MIN: u32 = 1 << 16;
/// The largest number of bytes of words that a row can read or write.
pub(crate) const ROW_WORDS_LEN: usize = 2 * RANS_LANES;
/// Room that [`encode`] needs below its words: the AVX2 kernel stores 16 bytes at a time.
pub(crate) const ENCODE_SLACK: usize = 16;

/// Bit positions of the fields of an encode entry; the reciprocal is in the low 32 bits.
const ENC_SHIFT: u32 = 32;
const ENC_BUMP: u32 = 38;
const ENC_PRESENT: u32 = 39;
const ENC_START: u32 = 40;
const ENC_COMPLEMENT: u32 = 52;
/// Bit positions of the fields of a decode entry; the symbol is in the low 8 bits.
const DEC_BIAS: u32 = 8;
const DEC_FREQ: u32 = 20;
/// The low 12 bits: a slot, a frequency or a sum of frequencies.
const SLOT_MASK: u32 = (1 << RANS_SCALE_BITS) - 1;

/// The result of [`encode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Bytes of words at the end of the buffer.
    pub len: usize,
    /// Whether every byte had an entry. If not, words and states mean nothing.
    pub all_present: bool,
}

/// How far [`decode_rows`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// Bytes written, a multiple of 32.
    pub written: usize,
    /// Bytes of words used.
    pub used: usize,
}

/// The entry of a symbol with frequency `freq` (1 to 4095) above `start`; 0 if `freq` is 0.
///
/// With `k` the shift and `b` the bump, `floor(x / freq) = (x + b) * reciprocal >> k` for every
/// state `x` below `freq * 2^20`, which is the range after renormalising. Rounding the reciprocal
/// up is off by less than `freq` parts in `2^k`; where that is too much, rounding down and adding
/// one to `x` is not, because the two errors sum to `freq`.
pub(crate) fn encode_entry(freq: u16, start: u16) -> u64 {
    if freq == 0 {
        return 0;
    }
    let f = u64::from(freq);
    let shift = 31 + f.next_power_of_two().trailing_zeros();
    let power = 1_u64 << shift;
    let rounded_up = power.div_ceil(f);
    let error = rounded_up * f - power;
    let is_exact = error * (f << 20) <= power;
    let (reciprocal, bump) = if is_exact { (rounded_up, 0) } else { (rounded_up - 1, 1) };
    let complement = (1 << RANS_SCALE_BITS) - f;
    reciprocal
        | u64::from(shift) << ENC_SHIFT
        | bump << ENC_BUMP
        | 1 << ENC_PRESENT
        | u64::from(start) << ENC_START
        | complement << ENC_COMPLEMENT
}

/// The entry of a slot of `symbol` with frequency `freq`, `bias` slots above the symbol's first.
pub(crate) fn decode_entry(symbol: u8, freq: u16, bias: u16) -> u32 {
    u32::from(symbol) | u32::from(bias) << DEC_BIAS | u32::from(freq) << DEC_FREQ
}

/// Encodes `src`, its last byte first; the first byte belongs to lane 0.
///
/// The words end up at the end of `words`, in the order in which a decoder reads them. The bytes
/// below them are overwritten.
///
/// # Panics
/// If `words` is shorter than `2 * src.len() + ENCODE_SLACK`.
pub(crate) fn encode<const N: usize>(
    isa: Isa,
    tables: &[EncodeTable; N],
    states: &mut States,
    src: &[u8],
    contexts: &[u8],
    words: &mut [u8],
) -> Encoded {
    check_contexts::<N>(contexts, src.len());
    let whole = src.len() - src.len() % RANS_LANES;
    let (rows, last) = src.split_at(whole);
    let (row_contexts, last_contexts) = contexts.split_at(whole.min(contexts.len()));
    assert!(words.len() >= 2 * src.len() + ENCODE_SLACK, "no room for the words");
    let partial = portable::encode(tables, states, last, last_contexts, words);
    let words_left = words.len() - partial.len;
    let words = &mut words[..words_left];
    let whole = match isa.kind() {
        IsaKind::Portable => portable::encode(tables, states, rows, row_contexts, words),
        // SAFETY: `isa` proves the features. `rows` is whole rows, and after the assertion above
        // there are `2 * rows.len() + ENCODE_SLACK` bytes left, because `partial` took at most two
        // for each byte.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => unsafe { avx2::encode(tables, states, rows, row_contexts, words) },
        // SAFETY: as for AVX2.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => unsafe { avx512::encode(tables, states, rows, row_contexts, words) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => portable::encode(tables, states, rows, row_contexts, words),
    };
    Encoded { len: partial.len + whole.len, all_present: partial.all_present && whole.all_present }
}

/// Decodes whole rows into `dst` as long as there are 32 words left for the next one.
pub(crate) fn decode_rows<const N: usize>(
    isa: Isa,
    tables: &[DecodeTable; N],
    states: &mut States,
    words: &[u8],
    contexts: &[u8],
    dst: &mut [u8],
) -> Decoded {
    check_contexts::<N>(contexts, dst.len());
    match isa.kind() {
        IsaKind::Portable => portable::decode_rows(tables, states, words, contexts, dst),
        // SAFETY: `isa` proves the features; the kernel checks its slices row by row.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => unsafe { avx2::decode_rows(tables, states, words, contexts, dst) },
        // SAFETY: as for AVX2.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => unsafe { avx512::decode_rows(tables, states, words, contexts, dst) },
        #[cfg(not(target_arch = "x86_64"))]
        _ => portable::decode_rows(tables, states, words, contexts, dst),
    }
}

/// Decodes the last row, at most 32 bytes. Returns the bytes of words used, or `None` if there are
/// too few.
pub(crate) fn decode_last<const N: usize>(
    tables: &[DecodeTable; N],
    states: &mut States,
    words: &[u8],
    contexts: &[u8],
    dst: &mut [u8],
) -> Option<usize> {
    check_contexts::<N>(contexts, dst.len());
    portable::decode_last(tables, states, words, contexts, dst)
}

/// Fails unless there are as many contexts as bytes, or one table and no contexts.
fn check_contexts<const N: usize>(contexts: &[u8], bytes: usize) {
    const { assert!(N.is_power_of_two() && N <= 256) }
    assert_eq!(contexts.len(), if N == 1 { 0 } else { bytes }, "a context for each byte");
}

/// The contexts of row `row`; with one table, any value will do.
#[inline(always)]
fn row_contexts<const N: usize>(contexts: &[u8], row: usize) -> &[u8; RANS_LANES] {
    if N == 1 { &[0; RANS_LANES] } else { &contexts.as_chunks().0[row] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every frequency divides exactly at the ends of its range, where reciprocals fail first.
    #[test]
    fn reciprocals_are_exact() {
        for freq in 1..4096_u16 {
            let (entry, f) = (encode_entry(freq, 0), u64::from(freq));
            let (shift, bump) = (entry >> ENC_SHIFT & 63, entry >> ENC_BUMP & 1);
            let quotients = (0..64).chain((1 << 20) - 64..1 << 20).chain((0..1 << 20).step_by(997));
            for q in quotients {
                for x in [q * f, q * f + f / 2, q * f + f - 1] {
                    assert_eq!(((x + bump) * (entry & 0xffff_ffff)) >> shift, q, "{x} / {f}");
                }
            }
        }
    }
}
