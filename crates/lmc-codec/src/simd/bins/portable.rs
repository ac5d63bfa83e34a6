//! Bins in safe Rust: what the kernels must give too.

use super::{EXCEPTION, Joined, Parts, Progress, Tables, too_few_exceptions};
use lmc_format::Result;

/// Cuts all of `values`.
pub(super) fn cut(tables: &Tables, values: &[u8], base: &[u8], parts: Parts) {
    match tables.width_log2 {
        0 => cut1(tables, values, base, parts),
        1 => cut2(tables, values, base, parts),
        2 => cut4(tables, values, base, parts),
        _ => cut8(tables, values, base, parts),
    }
}

/// Joins what is left of `dst`.
pub(super) fn join(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    done: Progress,
    dst: &mut [u8],
) -> Result<Progress> {
    match tables.width_log2 {
        0 => join1(tables, base, parts, done, dst),
        1 => join2(tables, base, parts, done, dst),
        2 => join4(tables, base, parts, done, dst),
        _ => join8(tables, base, parts, done, dst),
    }
}

/// The `count` bits from bit `at` on, at most 8 of them.
#[inline(always)]
fn bits_at(payload: &[u8], at: usize, count: u8) -> u16 {
    let both = u16::from_le_bytes([payload[at / 8], payload[at / 8 + 1]]);
    both >> (at % 8) & ((1 << count) - 1)
}

macro_rules! for_word {
    ($cut:ident, $join:ident, $word:ty, $signed:ty, $len:literal) => {
        fn $cut(tables: &Tables, values: &[u8], base: &[u8], parts: Parts) {
            let Parts { plane, records, payload, exceptions } = parts;
            let raw_bytes = tables.raw_bytes();
            let magnitudes = <$word>::MAX >> 1;
            let raw_half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
            let exponent_shift = <$word>::BITS - 1 - u32::from(tables.exponent_bits);
            let pairs = values.as_chunks::<$len>().0.iter().zip(base.as_chunks::<$len>().0);
            for (i, ((value, base), symbol)) in pairs.zip(plane).enumerate() {
                let (x, b) = (<$word>::from_le_bytes(*value), <$word>::from_le_bytes(*base));
                let number = tables.bin(u64::from((b & magnitudes) >> exponent_shift));
                let bin = tables.bins[number];
                let apart = (x & magnitudes).wrapping_sub(b & magnitudes).wrapping_add(raw_half);
                let low = apart.to_le_bytes();
                records[i * raw_bytes..(i + 1) * raw_bytes].copy_from_slice(&low[..raw_bytes]);
                let rounded = i64::from((apart as $signed) >> (8 * raw_bytes))
                    .wrapping_add(1 << bin.shift >> 1);
                let is_flipped = (x ^ b) & !magnitudes != 0;
                let bits = u32::from(bin.payload_bits());
                match tables.symbol(number, rounded, is_flipped) {
                    Some(own) => {
                        *symbol = own;
                        let low = rounded as u64 & ((1 << bin.shift) - 1);
                        let flip = u64::from(is_flipped && bin.has_flip_bit) << bin.shift;
                        payload.push(low | flip, bits);
                    }
                    None => {
                        *symbol = EXCEPTION;
                        exceptions.extend_from_slice(&value[raw_bytes..]);
                        payload.push(0, bits);
                    }
                }
            }
        }

        fn $join(
            tables: &Tables,
            base: &[u8],
            parts: Joined,
            mut done: Progress,
            dst: &mut [u8],
        ) -> Result<Progress> {
            let raw_bytes = tables.raw_bytes();
            let magnitudes = <$word>::MAX >> 1;
            let raw_half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
            let exponent_shift = <$word>::BITS - 1 - u32::from(tables.exponent_bits);
            let (base, dst) = (base.as_chunks::<$len>().0, dst.as_chunks_mut::<$len>().0);
            for i in done.values..parts.plane.len() {
                let b = <$word>::from_le_bytes(base[i]);
                let number = tables.bin(u64::from((b & magnitudes) >> exponent_shift));
                let bin = tables.bins[number];
                let bits = bits_at(parts.payload, done.bits, bin.payload_bits());
                done.bits += usize::from(bin.payload_bits());
                let mut record = [0; $len];
                record[..raw_bytes].copy_from_slice(&parts.records[i * raw_bytes..][..raw_bytes]);
                let low = <$word>::from_le_bytes(record).wrapping_sub(raw_half);
                let symbol = parts.plane[i];
                let (number, mut is_flipped) = tables.meaning(number, symbol);
                is_flipped ^= bin.has_flip_bit && bits >> bin.shift & 1 == 1;
                let rest = bits & ((1 << bin.shift) - 1);
                let coded = (number << bin.shift) + i64::from(rest) - (1 << bin.shift >> 1);
                let apart = ((coded << (8 * raw_bytes)) as $word).wrapping_add(low);
                let magnitude = (b & magnitudes).wrapping_add(apart) & magnitudes;
                let sign = (b & !magnitudes) ^ if is_flipped { !magnitudes } else { 0 };
                dst[i] = (magnitude | sign).to_le_bytes();
                if symbol == EXCEPTION {
                    let high =
                        parts.exceptions.get(done.exceptions..done.exceptions + $len - raw_bytes);
                    dst[i][raw_bytes..].copy_from_slice(high.ok_or_else(too_few_exceptions)?);
                    done.exceptions += $len - raw_bytes;
                }
                done.values += 1;
            }
            Ok(done)
        }
    };
}

for_word!(cut1, join1, u8, i8, 1);
for_word!(cut2, join2, u16, i16, 2);
for_word!(cut4, join4, u32, i32, 4);
for_word!(cut8, join8, u64, i64, 8);
