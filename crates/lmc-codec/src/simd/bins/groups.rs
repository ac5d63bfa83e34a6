//! Bins in safe Rust, 64 values at a time: loops that compilers turn into vector code, and between
//! them a loop that looks up the entry for a value's bin and symbol.

use super::{BINS, EXCEPTION, FLIP, GROUP, Joined, Parts, Progress, Tables, parts_of, through};
use crate::simd::classes::BitString;
use lmc_format::{Bin, Result};

/// Number of distinct steps, from -64 on. The last one, and all beyond it, have no symbol.
const STEPS: usize = 128;

/// The data that an encoder needs about a bin, for values that keep their sign and for those that
/// do not.
#[derive(Clone, Copy, Debug, Default)]
struct Case {
    shift: u8,
    /// Half the width of a step.
    half: u8,
    /// The bits of the payload that belong to the difference.
    low: u8,
    /// The flip bit, if it is set.
    flip: u8,
    payload_bits: u8,
}

/// The symbol of a step, by bin and by whether the sign changes.
#[derive(Debug)]
pub(super) struct Forward {
    cases: [Case; 2 * BINS],
    symbols: Box<[[u8; STEPS]; 2 * BINS]>,
}

/// The data that a decoder needs about a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    low: u8,
    /// The place of the flip bit, if there is one.
    flip: u8,
    payload_bits: u8,
}

/// The meaning of a symbol, by bin.
#[derive(Debug)]
pub(super) struct Backward {
    bins: [Own; BINS],
    /// Twice the least difference of the step, plus 1 if the sign changes.
    steps: Box<[[i32; 256]; BINS]>,
}

/// All entries 0, without a copy on the stack.
fn zeros<T: Copy, const N: usize>(zero: T) -> Box<[T; N]> {
    vec![zero; N].into_boxed_slice().try_into().unwrap_or_else(|_| unreachable!("N entries"))
}

impl Forward {
    pub(super) fn new(tables: &Tables) -> Self {
        let mut forward =
            Self { cases: [Case::default(); 2 * BINS], symbols: zeros([EXCEPTION; STEPS]) };
        for number in 0..=usize::from(tables.last) {
            let Bin { shift, has_flip_bit, centre } = tables.bins[number];
            for is_flipped in [false, true] {
                let at = 2 * number + usize::from(is_flipped);
                let case = &mut forward.cases[at];
                case.shift = shift;
                case.half = (1_u16 << shift >> 1) as u8;
                case.low = ((1_u16 << shift) - 1) as u8;
                case.flip = u8::from(is_flipped && has_flip_bit) << (shift % 8);
                case.payload_bits = tables.bins[number].payload_bits();
                let flip = if is_flipped && !has_flip_bit { FLIP } else { 0 };
                let (least, most) = tables.reach[number][usize::from(is_flipped)];
                for step in least..=most {
                    let (step_after, flip) = parts_of((step - centre) as u8 ^ flip);
                    let symbol = through(&tables.forward[number], step_after, flip);
                    forward.symbols[at][(i16::from(step) + 64) as usize] = symbol;
                }
            }
        }
        forward
    }
}

impl Backward {
    pub(super) fn new(tables: &Tables) -> Self {
        let mut backward = Self { bins: [Own::default(); BINS], steps: zeros([0; 256]) };
        for number in 0..=usize::from(tables.last) {
            let Bin { shift, has_flip_bit, centre } = tables.bins[number];
            backward.bins[number] = Own {
                low: ((1_u16 << shift) - 1) as u8,
                flip: u8::from(has_flip_bit) << (shift % 8),
                payload_bits: tables.bins[number].payload_bits(),
            };
            for (symbol, entry) in (0..=255).zip(&mut backward.steps[number]) {
                let (step, flip) = parts_of(symbol);
                let (step, flip) = parts_of(through(&tables.backward[number], step, flip));
                let step = i32::from(step) + i32::from(centre);
                let least = (step << shift) - (1 << shift >> 1);
                *entry = 2 * least + i32::from(flip);
            }
        }
        backward
    }
}

/// Whether any of these values is outside its bins.
#[inline(always)]
fn has_exception(plane: &[u8; GROUP]) -> bool {
    plane.iter().fold(false, |any, &symbol| any | (symbol == EXCEPTION))
}

/// Appends the payloads of a group, at most eight bits each.
#[inline(always)]
fn push_all(payloads: &[u8; GROUP], widths: &[u8; GROUP], out: &mut BitString) {
    for (payloads, widths) in payloads.as_chunks::<8>().0.iter().zip(widths.as_chunks::<8>().0) {
        let (mut bits, mut count) = (0, 0);
        for (&payload, &width) in payloads.iter().zip(widths) {
            bits |= u64::from(payload) << count;
            count += u32::from(width);
        }
        out.push(bits, count);
    }
}

/// Cuts whole groups.
pub(super) fn cut(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    let forward = tables.groups_forward.get_or_init(|| Forward::new(tables));
    match tables.width_log2 {
        0 => cut1(tables, forward, values, base, parts),
        1 => cut2(tables, forward, values, base, parts),
        2 => cut4(tables, forward, values, base, parts),
        _ => cut8(tables, forward, values, base, parts),
    }
}

/// Joins whole groups.
pub(super) fn join(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    dst: &mut [u8],
) -> Result<Progress> {
    let backward = tables.groups_backward.get_or_init(|| Backward::new(tables));
    match tables.width_log2 {
        0 => join1(tables, backward, base, parts, dst),
        1 => join2(tables, backward, base, parts, dst),
        2 => join4(tables, backward, base, parts, dst),
        _ => join8(tables, backward, base, parts, dst),
    }
}

/// Writes the low `raw_bytes` bytes of each difference to all of `records`.
#[inline(always)]
fn put_records<const W: usize>(apart: &[[u8; W]; GROUP], raw_bytes: usize, records: &mut [u8]) {
    fn put<const W: usize, const R: usize>(apart: &[[u8; W]; GROUP], records: &mut [u8]) {
        for (apart, record) in apart.iter().zip(records.as_chunks_mut::<R>().0) {
            record.copy_from_slice(&apart[..R]);
        }
    }
    match raw_bytes {
        0 => {}
        1 => put::<W, 1>(apart, records),
        2 => put::<W, 2>(apart, records),
        3 => put::<W, 3>(apart, records),
        _ => {
            let all = records.chunks_exact_mut(raw_bytes);
            all.zip(apart).for_each(|(to, apart)| to.copy_from_slice(&apart[..raw_bytes]));
        }
    }
}

/// Undoes [`put_records`]; the other bytes are not touched.
#[inline(always)]
fn take_records<const W: usize>(records: &[u8], raw_bytes: usize, apart: &mut [[u8; W]; GROUP]) {
    fn take<const W: usize, const R: usize>(records: &[u8], apart: &mut [[u8; W]; GROUP]) {
        for (apart, record) in apart.iter_mut().zip(records.as_chunks::<R>().0) {
            apart[..R].copy_from_slice(record);
        }
    }
    match raw_bytes {
        0 => {}
        1 => take::<W, 1>(records, apart),
        2 => take::<W, 2>(records, apart),
        3 => take::<W, 3>(records, apart),
        _ => {
            let all = records.chunks_exact(raw_bytes);
            all.zip(apart).for_each(|(from, apart)| apart[..raw_bytes].copy_from_slice(from));
        }
    }
}

/// Operations on whole words of any width.
#[derive(Clone, Copy)]
struct Words<T> {
    magnitudes: T,
    raw_half: T,
    exponent_shift: u32,
    exponent_first: T,
    last: T,
}

macro_rules! for_word {
    ($cut:ident, $join:ident, $word:ty, $signed:ty, $wide:ty, $steps:ty, $len:literal) => {
        impl Words<$word> {
            #[inline(always)]
            fn new(tables: &Tables) -> Self {
                let raw_bits = 8 * u32::from(tables.raw_bytes);
                Self {
                    magnitudes: <$word>::MAX >> u32::from(!tables.is_integer),
                    raw_half: if raw_bits > 0 { 1 << (raw_bits - 1) } else { 0 },
                    exponent_shift: <$word>::BITS - 1 - u32::from(tables.exponent_bits),
                    exponent_first: tables.exponent_first.try_into().unwrap_or(<$word>::MAX),
                    last: <$word>::from(tables.last),
                }
            }

            #[inline(always)]
            fn bin(&self, base: $word) -> $word {
                let exponent = (base & <$word>::MAX >> 1) >> self.exponent_shift;
                exponent.saturating_sub(self.exponent_first).min(self.last)
            }
        }

        fn $cut(
            tables: &Tables,
            forward: &Forward,
            values: &[u8],
            base: &[u8],
            parts: &mut Parts,
        ) {
            let words = Words::<$word>::new(tables);
            let magnitudes = words.magnitudes;
            let raw_bytes = tables.raw_bytes();
            let skips_zero = <$signed>::from(tables.skips_zero);
            let values = values.as_chunks::<$len>().0.as_chunks::<GROUP>().0;
            let base = base.as_chunks::<$len>().0.as_chunks::<GROUP>().0;
            let planes = parts.plane.as_chunks_mut::<GROUP>().0;
            for (i, ((values, base), plane)) in values.iter().zip(base).zip(planes).enumerate() {
                let (mut apart, mut cases) = ([0; GROUP], [0; GROUP]);
                for j in 0..GROUP {
                    let x = <$word>::from_le_bytes(values[j]);
                    let b = <$word>::from_le_bytes(base[j]);
                    let flip = ((x ^ b) & !magnitudes) >> (<$word>::BITS - 1);
                    cases[j] = (words.bin(b) << 1 | flip) as u8;
                    let grown = (x & magnitudes).wrapping_sub(b & magnitudes);
                    apart[j] = grown.wrapping_add(words.raw_half);
                }
                if raw_bytes > 0 {
                    let records = &mut parts.records[i * GROUP * raw_bytes..][..GROUP * raw_bytes];
                    put_records(&apart.map(<$word>::to_le_bytes), raw_bytes, records);
                }
                let mut coded = [0; GROUP];
                for j in 0..GROUP {
                    let own = apart[j] as $signed >> (8 * raw_bytes);
                    let is_less = <$signed>::from(own > 0) & !<$signed>::from(cases[j] & 1 == 1);
                    coded[j] = own - (is_less & skips_zero);
                }
                let (mut payloads, mut widths) = ([0; GROUP], [0; GROUP]);
                for j in 0..GROUP {
                    let at = usize::from(cases[j]) % (2 * BINS);
                    let case = forward.cases[at];
                    let rounded = <$wide>::from(coded[j]).wrapping_add(<$wide>::from(case.half));
                    let step = (rounded >> case.shift).wrapping_add(64) as $steps;
                    plane[j] = forward.symbols[at][step.min(STEPS as $steps - 1) as usize];
                    payloads[j] = rounded as u8 & case.low | case.flip;
                    widths[j] = case.payload_bits;
                }
                if has_exception(plane) {
                    for j in (0..GROUP).filter(|&j| plane[j] == EXCEPTION) {
                        parts.exceptions.extend_from_slice(&values[j][raw_bytes..]);
                        payloads[j] = 0;
                    }
                }
                push_all(&payloads, &widths, parts.payload);
            }
        }

        fn $join(
            tables: &Tables,
            backward: &Backward,
            base: &[u8],
            parts: Joined,
            dst: &mut [u8],
        ) -> Result<Progress> {
            let words = Words::<$word>::new(tables);
            let magnitudes = words.magnitudes;
            let raw_bytes = tables.raw_bytes();
            let skips_zero = i32::from(tables.skips_zero);
            let base = base.as_chunks::<$len>().0.as_chunks::<GROUP>().0;
            let dst = dst.as_chunks_mut::<$len>().0.as_chunks_mut::<GROUP>().0;
            let planes = parts.plane.as_chunks::<GROUP>().0;
            let mut done = Progress::default();
            for (i, ((base, plane), dst)) in base.iter().zip(planes).zip(dst).enumerate() {
                let bins = base.map(|base| words.bin(<$word>::from_le_bytes(base)) as u8);
                let mut codes = [0; GROUP];
                for j in (0..GROUP).step_by(4) {
                    // Four payloads have at most 32 bits, and the first byte has at most 7 bits
                    // before them.
                    let from = parts.payload[done.bits / 8..].first_chunk().expect("padding");
                    let mut bits = u64::from_le_bytes(*from) >> (done.bits % 8);
                    for j in j..j + 4 {
                        let at = usize::from(bins[j]) % BINS;
                        let own = backward.bins[at];
                        let step = backward.steps[at][usize::from(plane[j])];
                        let low = i32::from(bits as u8 & own.low);
                        codes[j] = (step + 2 * low) ^ i32::from(bits as u8 & own.flip != 0);
                        bits >>= own.payload_bits;
                        done.bits += usize::from(own.payload_bits);
                    }
                }
                let mut records = [[0; $len]; GROUP];
                if raw_bytes > 0 {
                    let own = &parts.records[i * GROUP * raw_bytes..][..GROUP * raw_bytes];
                    take_records(own, raw_bytes, &mut records);
                }
                for j in 0..GROUP {
                    let b = <$word>::from_le_bytes(base[j]);
                    let flip = codes[j] & 1 & !i32::from(tables.is_integer);
                    let coded = codes[j] >> 1;
                    let is_more = i32::from(coded >= 0) & !flip & skips_zero;
                    let coded = (coded + is_more) as $word << (8 * raw_bytes);
                    let record = <$word>::from_le_bytes(records[j]).wrapping_sub(words.raw_half);
                    let magnitude = (b & magnitudes).wrapping_add(coded).wrapping_add(record);
                    let sign = (b ^ (flip as $word) << (<$word>::BITS - 1)) & !magnitudes;
                    dst[j] = (magnitude & magnitudes | sign).to_le_bytes();
                }
                if has_exception(plane) {
                    for j in (0..GROUP).filter(|&j| plane[j] == EXCEPTION) {
                        done.restore_exception(parts.exceptions, &mut dst[j][raw_bytes..])?;
                    }
                }
                done.values += GROUP;
            }
            Ok(done)
        }
    };
}

for_word!(cut1, join1, u8, i8, i32, u32, 1);
for_word!(cut2, join2, u16, i16, i32, u32, 2);
for_word!(cut4, join4, u32, i32, i64, u64, 4);
for_word!(cut8, join8, u64, i64, i64, u64, 8);
