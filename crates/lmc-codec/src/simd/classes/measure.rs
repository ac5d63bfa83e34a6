//! Differences of floats: symbols, payload and raw bytes, and back.

use super::Symbols;
use crate::simd::{Isa, words::per_isa};

/// Cuts `values` against `base`.
///
/// Fills `symbols`, one per value; `payload`, one plane for each byte that a payload can have, with
/// one byte per value; and `records` with the raw bytes of each value.
pub(crate) fn measure(
    isa: Isa,
    table: &Symbols,
    values: &[u8],
    base: &[u8],
    symbols: &mut [u8],
    payload: &mut [u8],
    records: &mut [u8],
) {
    let (layout, n) = (table.layout, symbols.len());
    assert_eq!(values.len(), n << layout.width_log2);
    assert_eq!(base.len(), values.len());
    assert_eq!(payload.len(), n * layout.payload_bytes());
    assert_eq!(records.len(), n * usize::from(layout.raw_bytes));
    match layout.width_log2 {
        0 => measure1(isa, table, values, base, symbols, payload, records),
        1 => measure2(isa, table, values, base, symbols, payload, records),
        2 => measure4(isa, table, values, base, symbols, payload, records),
        _ => measure8(isa, table, values, base, symbols, payload, records),
    }
}

/// Undoes [`measure`]. No symbol may be above the largest possible one.
pub(crate) fn restore(
    isa: Isa,
    table: &Symbols,
    base: &[u8],
    symbols: &[u8],
    payload: &[u8],
    records: &[u8],
    dst: &mut [u8],
) {
    let (layout, n) = (table.layout, symbols.len());
    assert_eq!(dst.len(), n << layout.width_log2);
    assert_eq!(base.len(), dst.len());
    assert_eq!(payload.len(), n * layout.payload_bytes());
    assert_eq!(records.len(), n * usize::from(layout.raw_bytes));
    match layout.width_log2 {
        0 => restore1(isa, table, base, symbols, payload, records, dst),
        1 => restore2(isa, table, base, symbols, payload, records, dst),
        2 => restore4(isa, table, base, symbols, payload, records, dst),
        _ => restore8(isa, table, base, symbols, payload, records, dst),
    }
}

macro_rules! for_word {
    ($measure:ident, $restore:ident, $word:ty, $signed:ty, $len:literal) => {
        per_isa! {
            /// [`measure`] for words of this width.
            fn $measure(
                table: &Symbols,
                values: &[u8],
                base: &[u8],
                symbols: &mut [u8],
                payload: &mut [u8],
                records: &mut [u8],
            ) {
                let layout = table.layout;
                let (sign, top_bit) = (u32::from(layout.has_sign), u32::from(layout.has_top_bit));
                let raw_bytes = usize::from(layout.raw_bytes);
                let (magnitudes, n) = (<$word>::MAX >> 1, symbols.len());
                let half_symbols = layout.half() as u8;
                let half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
                let values = values.as_chunks::<$len>().0;
                let base = base.as_chunks::<$len>().0;
                for i in 0..n {
                    let value = <$word>::from_le_bytes(values[i]);
                    let base = <$word>::from_le_bytes(base[i]);
                    let grown = (value & magnitudes).wrapping_sub(base & magnitudes);
                    let apart = grown.wrapping_add(half);
                    let coded = (apart as $signed) >> (8 * raw_bytes);
                    let (size, negative) = (coded.unsigned_abs(), <$word>::from(coded < 0));
                    let class = <$word>::BITS - size.leading_zeros();
                    let rest = class.saturating_sub(1 + top_bit);
                    let top = if top_bit == 1 && class > 1 { size >> (class - 2) & 1 } else { 0 };
                    let mut symbol = class << top_bit | top as u32;
                    symbol = symbol << sign | (negative as u32 & sign);
                    let flip = ((value ^ base) >> (<$word>::BITS - 1)) as u8;
                    symbols[i] = symbol as u8 + flip * half_symbols;
                    let mut bits = size & !(<$word>::MAX << rest);
                    if sign == 0 && class > 0 {
                        bits |= negative << rest;
                    }
                    let bits = bits.to_le_bytes();
                    for (plane, &byte) in bits[..$len - raw_bytes].iter().enumerate() {
                        payload[plane * n + i] = byte;
                    }
                    let low = apart.to_le_bytes();
                    records[i * raw_bytes..(i + 1) * raw_bytes].copy_from_slice(&low[..raw_bytes]);
                }
            }
        }

        per_isa! {
            /// [`restore`] for words of this width.
            fn $restore(
                table: &Symbols,
                base: &[u8],
                symbols: &[u8],
                payload: &[u8],
                records: &[u8],
                dst: &mut [u8],
            ) {
                let layout = table.layout;
                let raw_bytes = usize::from(layout.raw_bytes);
                let (magnitudes, n) = (<$word>::MAX >> 1, symbols.len());
                let half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
                let base = base.as_chunks::<$len>().0;
                let dst = dst.as_chunks_mut::<$len>().0;
                for i in 0..n {
                    let symbol = symbols[i];
                    let head = table.heads[usize::from(symbol)];
                    let mut bits = [0; $len];
                    for (plane, byte) in bits[..$len - raw_bytes].iter_mut().enumerate() {
                        *byte = payload[plane * n + i];
                    }
                    let mut bits = <$word>::from_le_bytes(bits);
                    let mut is_negative = head.is_negative;
                    if let Some(place) = head.sign_bit {
                        is_negative = bits >> place & 1 == 1;
                        bits &= !(1 << place);
                    }
                    let size = head.magnitude as $word | bits;
                    let coded = if is_negative { size.wrapping_neg() } else { size };
                    let mut low = [0; $len];
                    low[..raw_bytes].copy_from_slice(&records[i * raw_bytes..(i + 1) * raw_bytes]);
                    let shifted = (coded as u64).wrapping_shl(8 * raw_bytes as u32) as $word;
                    let sum = shifted.wrapping_add(<$word>::from_le_bytes(low));
                    let apart = sum.wrapping_sub(half);
                    let word = <$word>::from_le_bytes(base[i]);
                    let magnitude = (word & magnitudes).wrapping_add(apart) & magnitudes;
                    let flip = <$word>::from(head.is_flipped) << (<$word>::BITS - 1);
                    dst[i] = (magnitude | (word & !magnitudes) ^ flip).to_le_bytes();
                }
            }
        }
    };
}

for_word!(measure1, restore1, u8, i8, 1);
for_word!(measure2, restore2, u16, i16, 2);
for_word!(measure4, restore4, u32, i32, 4);
for_word!(measure8, restore8, u64, i64, 8);
