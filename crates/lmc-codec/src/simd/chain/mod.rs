//! Kernels of the chain code (`docs/format.md`, section 5.2).
//!
//! Both directions go level by level over the bytes of a segment, which stay in the L1 cache:
//!
//! ```text
//! encode:  x = the plane's bytes
//!          for each level: compare x with the level's symbols, write the digits as bit planes;
//!                          x = those of x that go on, closed up
//!          what is left of x are the escapes
//! decode:  walk the levels once to count who goes on: gives every stream's place and length
//!          for the last level up to the first: fill in the level's symbols,
//!                          and spread the next level's bytes over the places that go on
//! ```
//!
//! Bit positions never depend on a decoded symbol, only on counts of bits. The speed comes from how
//! an instruction set closes up and spreads bytes: `vpcompressb` and `vpexpandb` with AVX-512,
//! `vpshufb` by table with AVX2, shifts and masks by table elsewhere.

pub(super) mod eights;
mod portable;
mod words;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx2_orders;
#[cfg(target_arch = "x86_64")]
mod avx2_words;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_words;

pub use words::Hints;
pub(crate) use words::{decode_words, encode_words};

use super::{Isa, IsaKind};
use lmc_format::limits::CHAIN_LEVELS_MAX;
use lmc_format::{ChainTable, Error, Reader, Result};

/// Bytes that kernels may read and write beyond the end of a scratch buffer's payload: a group, and
/// eight more, which save the portable path a check at every place in a group.
const SLACK: usize = 72;

/// A chain table made ready for both directions.
#[derive(Clone, Debug)]
pub struct Tables {
    levels: Vec<Level>,
}

/// One level: three symbols. With digits of one bit, one symbol and two unused places.
#[derive(Clone, Copy, Debug)]
struct Level {
    two_bits: bool,
    symbols: [u8; 3],
}

/// Working memory of the kernels; its contents mean nothing between calls.
#[derive(Debug, Default)]
pub struct Scratch {
    near: Vec<u8>,
    far: Vec<u8>,
}

/// Where a kernel writes the next bytes that go on, and the next digits.
#[cfg(target_arch = "x86_64")]
struct Target {
    near: *mut u8,
    out: *mut u8,
}

impl Scratch {
    fn grow(&mut self, len: usize) {
        for buffer in [&mut self.near, &mut self.far] {
            crate::segment::sized(buffer, len + SLACK);
        }
    }
}

impl Level {
    fn digit_bits(self) -> usize {
        if self.two_bits { 2 } else { 1 }
    }

    /// Bytes of the level's stream for `n` bytes.
    fn stream_len(self, n: usize) -> usize {
        self.digit_bits() * (n / 64 * 8 + (n % 64).div_ceil(8))
    }
}

impl Tables {
    /// Prepares `table`.
    pub fn new(table: &ChainTable) -> Self {
        let mut symbols = table.symbols();
        let levels = table.widths().iter().map(|&width| {
            let (own, rest) = symbols.split_at((1 << width) - 1);
            symbols = rest;
            let mut places = [0; 3];
            places[..own.len()].copy_from_slice(own);
            Level { two_bits: width == 2, symbols: places }
        });
        Self { levels: levels.collect() }
    }

    /// An upper bound on the bytes that [`encode`] appends for `n` bytes.
    fn stream_len_max(&self, n: usize) -> usize {
        self.levels.iter().map(|level| level.stream_len(n)).sum::<usize>() + n
    }
}

/// Appends the chain stream of `src` to `out`.
pub(crate) fn encode(
    isa: Isa,
    tables: &Tables,
    src: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    scratch.grow(src.len());
    match isa.kind() {
        IsaKind::Portable => portable::encode(tables, src, scratch, out),
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            out.reserve(tables.stream_len_max(src.len()) + SLACK);
            assert!(scratch.near.len() >= src.len() + SLACK);
            // SAFETY: `out` has room for the longest stream of `src`, and the scratch buffers for
            // all of `src` and the slack, as the lines above ensure; the isa proves that its
            // instructions exist. The kernels return the number of bytes that they wrote.
            unsafe {
                let end = out.as_mut_ptr().add(out.len());
                let written = if isa.kind() == IsaKind::Avx2 {
                    avx2::encode(tables, src, scratch.near.as_mut_ptr(), end)
                } else {
                    avx512::encode(tables, src, scratch.near.as_mut_ptr(), end)
                };
                out.set_len(out.len() + written);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => portable::encode(tables, src, scratch, out),
    }
}

/// Where each level's stream is, and how many bytes reach it.
struct Walk<'a> {
    counts: [usize; CHAIN_LEVELS_MAX],
    streams: [&'a [u8]; CHAIN_LEVELS_MAX],
    escapes: &'a [u8],
}

/// Reads one chain stream from `input` into all of `dst`.
///
/// Fails, with `dst` in any state, if the stream is not a chain stream of `dst.len()` bytes.
pub(crate) fn decode(
    isa: Isa,
    tables: &Tables,
    input: &mut Reader,
    dst: &mut [u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let walk = walk(isa, tables, input, dst.len())?;
    scratch.grow(dst.len());
    match isa.kind() {
        IsaKind::Portable => portable::decode(tables, &walk, dst, scratch),
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => {
            // SAFETY: the isa proves AVX2, BMI2 and POPCNT; `walk` counted the bytes of every
            // level, and `scratch` holds `dst.len()` bytes and the slack in both
            // buffers.
            unsafe { avx2::decode(tables, &walk, dst, scratch) }
        }
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => {
            // SAFETY: as above, with AVX-512 VBMI2.
            unsafe { avx512::decode(tables, &walk, dst, scratch) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => portable::decode(tables, &walk, dst, scratch),
    }
    Ok(())
}

/// Finds all streams of a chain by counting the bytes that go on, level by level.
///
/// The result is consistent by construction: `counts[i + 1]` is the number of largest digits in
/// `streams[i]`, whose length is exactly that of `counts[i]` digits, and there are as many escapes
/// as the last level passes on.
fn walk<'a>(isa: Isa, tables: &Tables, input: &mut Reader<'a>, n: usize) -> Result<Walk<'a>> {
    let mut walk =
        Walk { counts: [0; CHAIN_LEVELS_MAX], streams: [&[]; CHAIN_LEVELS_MAX], escapes: &[] };
    let mut count = n;
    for (i, &level) in tables.levels.iter().enumerate() {
        let stream = input.take(level.stream_len(count), "chain level")?;
        walk.counts[i] = count;
        walk.streams[i] = stream;
        let (full, tail) = stream.split_at(count / 64 * 8 * level.digit_bits());
        let tail = tail_words(level, tail, count % 64)?;
        count = count_full(isa, level, full) + (tail.0 & tail.1).count_ones() as usize;
    }
    walk.escapes = input.take(count, "chain escapes")?;
    Ok(walk)
}

/// Bytes that go on in the full groups of a level.
fn count_full(isa: Isa, level: Level, full: &[u8]) -> usize {
    match isa.kind() {
        IsaKind::Portable => count_groups(level, full),
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 | IsaKind::Avx512 => {
            #[target_feature(enable = "popcnt")]
            fn with_popcnt(level: Level, full: &[u8]) -> usize {
                count_groups(level, full)
            }
            // SAFETY: both sets include POPCNT.
            unsafe { with_popcnt(level, full) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => count_groups(level, full),
    }
}

#[inline(always)]
fn count_groups(level: Level, full: &[u8]) -> usize {
    if level.two_bits {
        let (groups, _) = full.as_chunks::<16>();
        groups.iter().map(|g| (word(&g[..8]) & word(&g[8..])).count_ones() as usize).sum()
    } else {
        let (groups, _) = full.as_chunks::<8>();
        groups.iter().map(|&g| u64::from_le_bytes(g).count_ones() as usize).sum()
    }
}

/// The digit words of a level's last, partial group of `rest` bytes; a missing second plane counts
/// as all ones.
fn tail_words(level: Level, tail: &[u8], rest: usize) -> Result<(u64, u64)> {
    let (first, second) = tail.split_at(rest.div_ceil(8));
    let first = word(first);
    let second = if level.two_bits { word(second) } else { low_bits(rest) };
    if (first | second) & !low_bits(rest) != 0 {
        return Err(Error::corrupt("padding of a chain level is not zero"));
    }
    Ok((first, second))
}

/// The lowest `n` bits set, `n` at most 64.
#[inline(always)]
pub(super) fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Up to eight bytes as a little-endian word.
#[inline(always)]
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut buffer = [0; 8];
    let len = bytes.len().min(8);
    buffer[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(buffer)
}

#[cfg(test)]
mod tests;
