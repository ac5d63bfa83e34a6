//! Floats to bins around the values of a base, and back (`docs/format.md`, section 3.7).
//!
//! The width of the bins, and so the number of payload bits of a value, follows from its base
//! alone. So the places of all payloads are known before any symbol is decoded.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx2_words;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512_words;
#[cfg(target_arch = "x86_64")]
mod eights;
mod groups;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod portable;
#[cfg(target_arch = "x86_64")]
mod stage;

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::IsaKind;
use super::chain::Hints;
use super::classes::BitString;
use lmc_format::limits::BIN_MAX;
use lmc_format::{Bin, BinRules, Error, Result};
use std::sync::OnceLock;

/// The symbol of a value that is stored unchanged.
pub(crate) const EXCEPTION: u8 = 0x40;
/// The largest number of bins.
const BINS: usize = 32;
/// The bit of the symbol that says whether the sign changed, if it differs from the bit below it.
pub(crate) const FLIP: u8 = 0x80;

/// Rules made ready for both directions.
#[derive(Debug)]
pub(crate) struct Tables {
    width_log2: u8,
    is_integer: bool,
    raw_bytes: u8,
    exponent_bits: u8,
    exponent_first: u16,
    /// The number of the last bin.
    last: u8,
    /// By bin; those after the last one are equal to it.
    bins: [Bin; BINS],
    /// By bin, the replacements of the sixteen symbols around the centre.
    forward: [[u8; 16]; BINS],
    /// The inverse.
    backward: [[u8; 16]; BINS],
    has_rows: bool,
    /// Whether all values differ from their base. Then no value that keeps its sign has a
    /// difference of 0, and differences above 0 move down by one.
    skips_zero: bool,
    /// By bin, which steps an encoder codes as symbols; it makes the other steps exceptions.
    reach: [Reach; BINS],
    /// Whether any bin has its own reach.
    has_reach: bool,
    #[cfg(target_arch = "x86_64")]
    lanes: lanes::Lanes,
    /// For safe Rust, made when needed.
    groups_forward: OnceLock<groups::Forward>,
    groups_backward: OnceLock<groups::Backward>,
}

/// The least and the largest step of a bin that are coded as symbols: for values that keep their
/// sign, and for those that do not. If the least is above the largest, no step is coded as a
/// symbol.
pub(crate) type Reach = [(i8, i8); 2];

const REACH_OF_ALL: Reach = [(-(BIN_MAX as i8), BIN_MAX as i8 - 1); 2];

/// The output of cutting a segment.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// One symbol for each value.
    pub plane: &'a mut [u8],
    /// The low bytes of each difference.
    pub records: &'a mut [u8],
    /// The low bits of the rest of each difference.
    pub payload: &'a mut BitString,
    /// The high bytes of values that are outside all bins.
    pub exceptions: &'a mut Vec<u8>,
}

/// The input for joining a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined<'a> {
    /// One symbol for each value.
    pub plane: &'a [u8],
    /// The low bytes of each difference.
    pub records: &'a [u8],
    /// The low bits of the rest of each difference, followed by zeros: as many bytes as there are
    /// values, plus [`PADDING`].
    pub payload: &'a [u8],
    /// How many of these bytes are payload.
    pub payload_len: usize,
    /// The high bytes of values that are outside all bins.
    pub exceptions: &'a [u8],
}

/// How far a segment has been joined.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    values: usize,
    /// Bits of the payload.
    bits: usize,
    /// Bytes of the exceptions.
    exceptions: usize,
}

/// Bytes that kernels may read after a payload.
pub(crate) const PADDING: usize = 16;
/// Values that kernels work on together.
const GROUP: usize = 64;

impl Tables {
    /// Prepares `rules`.
    pub(crate) fn new(rules: &BinRules) -> Self {
        let last = rules.bins.len() - 1;
        let identity: [u8; 16] = std::array::from_fn(|i| i as u8);
        let row = |bin: usize| {
            let number = rules.bounds.iter().filter(|&&bound| usize::from(bound) <= bin).count();
            rules.rows.get(number).copied().unwrap_or(identity)
        };
        let forward: [[u8; 16]; BINS] = std::array::from_fn(row);
        let backward = forward.map(|row| {
            let mut back = [0; 16];
            row.iter().enumerate().for_each(|(i, &to)| back[usize::from(to)] = i as u8);
            back
        });
        let bins = std::array::from_fn(|bin| rules.bins[bin.min(last)]);
        Self {
            width_log2: rules.width_log2,
            is_integer: rules.is_integer,
            raw_bytes: rules.raw_bytes,
            exponent_bits: rules.exponent_bits,
            exponent_first: rules.exponent_first,
            last: last as u8,
            bins,
            forward,
            backward,
            has_rows: !rules.rows.is_empty(),
            skips_zero: false,
            reach: [REACH_OF_ALL; BINS],
            has_reach: false,
            #[cfg(target_arch = "x86_64")]
            lanes: lanes::Lanes::new(&bins, &rules.bounds, &rules.rows),
            groups_forward: OnceLock::new(),
            groups_backward: OnceLock::new(),
        }
    }

    /// The same, with exceptions for all steps outside the reach of their bin. Bins after the last
    /// one are equal to it.
    pub(crate) fn with_reach(self, reach: impl Fn(usize) -> Reach) -> Self {
        let last = usize::from(self.last);
        let reach: [Reach; BINS] = std::array::from_fn(|bin| reach(bin.min(last)));
        Self {
            reach,
            has_reach: reach != [REACH_OF_ALL; BINS],
            #[cfg(target_arch = "x86_64")]
            lanes: self.lanes.with_reach(&reach),
            ..self
        }
    }

    /// The same for values that all differ from their base (section 3.8).
    pub(crate) fn of_changes(rules: &BinRules) -> Self {
        Self { skips_zero: rules.raw_bytes == 0, ..Self::new(rules) }
    }

    /// Width of a value in bytes.
    pub(crate) fn width(&self) -> usize {
        1 << self.width_log2
    }

    /// Low bytes of each difference that are stored raw.
    pub(crate) fn raw_bytes(&self) -> usize {
        usize::from(self.raw_bytes)
    }

    /// Bytes of an exception.
    pub(crate) fn exception_len(&self) -> usize {
        self.width() - self.raw_bytes()
    }

    /// The bin of a base with this exponent.
    #[inline(always)]
    fn bin(&self, exponent: u64) -> usize {
        let above = exponent.saturating_sub(u64::from(self.exponent_first));
        above.min(u64::from(self.last)) as usize
    }

    /// The symbol, before its row, of a difference to which half the width of a bin has been added;
    /// None if it is outside all bins.
    #[inline(always)]
    fn symbol(&self, bin: usize, rounded: i64, is_flipped: bool) -> Option<u8> {
        let Bin { shift, has_flip_bit, centre } = self.bins[bin];
        let number = rounded >> shift;
        let (least, most) = self.reach[bin][usize::from(is_flipped)];
        if !(i64::from(least)..=i64::from(most)).contains(&number) {
            return None;
        }
        let flip = if is_flipped && !has_flip_bit { FLIP } else { 0 };
        Some((number - i64::from(centre)) as u8 ^ flip)
    }
}

/// The symbol for a number and whether the sign changed, after a row.
#[inline(always)]
fn through(row: &[u8; 16], number: i8, flip: bool) -> u8 {
    let (number, flip) = if (-4..4).contains(&number) {
        let to = row[usize::from(number as u8 & 7) | usize::from(flip) << 3];
        ((to << 5) as i8 >> 5, to >= 8)
    } else {
        (number, flip)
    };
    number as u8 ^ if flip { FLIP } else { 0 }
}

/// The number of a symbol, and whether the sign changed.
#[inline(always)]
fn parts_of(symbol: u8) -> (i8, bool) {
    let number = (symbol << 1) as i8 >> 1;
    (number, (number as u8 ^ symbol) & FLIP != 0)
}

/// Whether there are kernels for these tables: narrow words have no raw bytes.
#[cfg(target_arch = "x86_64")]
fn has_kernel(tables: &Tables) -> bool {
    tables.raw_bytes == 0 || tables.width_log2 >= 2
}

/// The context of each value with this base: how many bounds its bin has reached.
pub(crate) fn contexts(isa: Isa, tables: &Tables, bounds: &[u8], base: &[u8], out: &mut [u8]) {
    assert_eq!(base.len(), out.len() << tables.width_log2);
    let by_bin = |bin: usize| bounds.partition_point(|&bound| usize::from(bound) <= bin) as u8;
    let by_bin: [u8; BINS] = std::array::from_fn(by_bin);
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        done = out.len() / GROUP * GROUP;
        let (base, out) = (&base[..done << tables.width_log2], &mut out[..done]);
        // SAFETY: the isa proves that the instructions exist.
        unsafe {
            match isa.kind() {
                IsaKind::Avx512 => avx512::contexts(tables, &by_bin, base, out),
                _ => avx2::contexts(tables, &by_bin, base, out),
            }
        }
    }
    portable::contexts(tables, &by_bin, &base[done << tables.width_log2..], &mut out[done..]);
}

/// From this many values on, tables for whole groups are worth making.
const GROUPED_MIN: usize = 8 * GROUP;

/// Cuts `values` against `base`, which has the same length.
pub(crate) fn cut(isa: Isa, tables: &Tables, values: &[u8], base: &[u8], parts: Parts) {
    let n = parts.plane.len();
    assert_eq!(values.len(), n << tables.width_log2);
    assert_eq!(base.len(), values.len());
    assert_eq!(parts.records.len(), n * tables.raw_bytes());
    let done = n / GROUP * GROUP;
    let (own, values) = values.split_at(done << tables.width_log2);
    let (own_base, base) = base.split_at(done << tables.width_log2);
    let Parts { plane, records, payload, exceptions } = parts;
    let (plane, plane_rest) = plane.split_at_mut(done);
    let (records, records_rest) = records.split_at_mut(done * tables.raw_bytes());
    let mut whole = Parts { plane, records, payload, exceptions };
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves that the instructions exist.
        IsaKind::Avx512 if has_kernel(tables) => unsafe {
            avx512::cut(tables, own, own_base, &mut whole);
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves that the instructions exist.
        IsaKind::Avx2 if has_kernel(tables) => unsafe {
            avx2::cut(tables, own, own_base, &mut whole);
        },
        _ if n < GROUPED_MIN => portable::cut(tables, own, own_base, &mut whole),
        _ => groups::cut(tables, own, own_base, &mut whole),
    }
    if done < n {
        let mut rest = Parts { plane: plane_rest, records: records_rest, payload, exceptions };
        portable::cut(tables, values, base, &mut rest);
    }
}

/// Undoes [`cut`]. Fails if the parts are not those of as many values as `dst` has.
pub(crate) fn join(
    isa: Isa,
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    dst: &mut [u8],
    hints: Hints,
) -> Result<()> {
    let n = parts.plane.len();
    assert_eq!(dst.len(), n << tables.width_log2);
    assert_eq!(base.len(), dst.len());
    assert_eq!(parts.records.len(), n * tables.raw_bytes());
    assert!(parts.payload.len() >= n + PADDING, "no payload is longer than its values");
    #[cfg(not(target_arch = "x86_64"))]
    let _ = hints;
    let done = match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves that the instructions exist.
        IsaKind::Avx512 if has_kernel(tables) => unsafe {
            avx512::join(tables, base, parts, dst, hints.streaming)?
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves that the instructions exist.
        IsaKind::Avx2 if has_kernel(tables) => unsafe {
            avx2::join(tables, base, parts, dst, hints.streaming)?
        },
        _ if n < GROUPED_MIN => Progress::default(),
        _ => groups::join(tables, base, parts, dst)?,
    };
    let done = match done.values == n {
        true => done,
        false => portable::join(tables, base, parts, done, dst)?,
    };
    if done.exceptions != parts.exceptions.len() {
        return Err(Error::corrupt("fewer exceptions than there are said to be"));
    }
    check_end(parts.payload, parts.payload_len, done.bits)
}

/// Fails unless payloads that end at bit `bits` are the first `len` bytes of `payload`.
fn check_end(payload: &[u8], len: usize, bits: usize) -> Result<()> {
    if bits.div_ceil(8) != len {
        return Err(Error::corrupt(format!("payloads of {bits} bits in {len} bytes")));
    }
    if !bits.is_multiple_of(8) && payload[len - 1] >> (bits % 8) != 0 {
        return Err(Error::corrupt("padding of payloads is not zero"));
    }
    Ok(())
}

fn too_few_exceptions() -> Error {
    Error::corrupt("more exceptions than there are said to be")
}

#[cfg(test)]
mod tests;
