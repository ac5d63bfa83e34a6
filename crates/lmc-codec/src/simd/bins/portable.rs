//! Bins in safe Rust: what the kernels must give too.

use super::{
    BINS, EXCEPTION, Joined, Parts, Progress, Tables, parts_of, through, too_few_exceptions,
};
use lmc_format::Result;

/// What becomes of each symbol, by bin.
struct Lookup {
    /// One for each row that differs.
    symbols: Vec<[u8; 256]>,
    /// Which of them a bin has.
    by_bin: [u8; BINS],
}

impl Lookup {
    fn new(rows: &[[u8; 16]; BINS]) -> Self {
        let mut lookup = Self { symbols: Vec::new(), by_bin: [0; BINS] };
        for bin in 0..BINS {
            if bin == 0 || rows[bin] != rows[bin - 1] {
                lookup.symbols.push(std::array::from_fn(|symbol| {
                    let (number, flip) = parts_of(symbol as u8);
                    through(&rows[bin], number, flip)
                }));
            }
            lookup.by_bin[bin] = lookup.symbols.len() as u8 - 1;
        }
        lookup
    }

    #[inline(always)]
    fn get(&self, bin: usize, symbol: u8) -> u8 {
        self.symbols[usize::from(self.by_bin[bin])][usize::from(symbol)]
    }
}

/// The contexts of all values with this base.
pub(super) fn contexts(tables: &Tables, by_bin: &[u8; BINS], base: &[u8], out: &mut [u8]) {
    match tables.width_log2 {
        0 => contexts1(tables, by_bin, base, out),
        1 => contexts2(tables, by_bin, base, out),
        2 => contexts4(tables, by_bin, base, out),
        _ => contexts8(tables, by_bin, base, out),
    }
}

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
    ($contexts:ident, $cut:ident, $join:ident, $word:ty, $signed:ty, $len:literal) => {
        fn $contexts(tables: &Tables, by_bin: &[u8; BINS], base: &[u8], out: &mut [u8]) {
            let exponent_shift = <$word>::BITS - 1 - u32::from(tables.exponent_bits);
            for (base, context) in base.as_chunks::<$len>().0.iter().zip(out) {
                let magnitude = <$word>::from_le_bytes(*base) & <$word>::MAX >> 1;
                *context = by_bin[tables.bin(u64::from(magnitude >> exponent_shift))];
            }
        }

        fn $cut(tables: &Tables, values: &[u8], base: &[u8], parts: Parts) {
            let Parts { plane, records, payload, exceptions } = parts;
            let raw_bytes = tables.raw_bytes();
            let magnitudes = if tables.is_integer { <$word>::MAX } else { <$word>::MAX >> 1 };
            let raw_half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
            let exponent_shift = <$word>::BITS - 1 - u32::from(tables.exponent_bits);
            let lookup = Lookup::new(&tables.forward);
            let pairs = values.as_chunks::<$len>().0.iter().zip(base.as_chunks::<$len>().0);
            for (i, ((value, base), symbol)) in pairs.zip(plane).enumerate() {
                let (x, b) = (<$word>::from_le_bytes(*value), <$word>::from_le_bytes(*base));
                let number = tables.bin(u64::from((b & <$word>::MAX >> 1) >> exponent_shift));
                let bin = tables.bins[number];
                let apart = (x & magnitudes).wrapping_sub(b & magnitudes).wrapping_add(raw_half);
                // Most values have no raw bytes, and copying none takes as long as copying some.
                if raw_bytes > 0 {
                    let low = apart.to_le_bytes();
                    records[i * raw_bytes..(i + 1) * raw_bytes].copy_from_slice(&low[..raw_bytes]);
                }
                let is_flipped = (x ^ b) & !magnitudes != 0;
                let mut coded = i64::from((apart as $signed) >> (8 * raw_bytes));
                if tables.skips_zero && !is_flipped && coded > 0 {
                    coded -= 1;
                }
                let rounded = coded.wrapping_add(1 << bin.shift >> 1);
                let bits = u32::from(bin.payload_bits());
                match tables.symbol(number, rounded, is_flipped) {
                    Some(own) => {
                        *symbol = lookup.get(number, own);
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
            let magnitudes = if tables.is_integer { <$word>::MAX } else { <$word>::MAX >> 1 };
            let raw_half: $word = if raw_bytes > 0 { 1 << (8 * raw_bytes - 1) } else { 0 };
            let exponent_shift = <$word>::BITS - 1 - u32::from(tables.exponent_bits);
            let lookup = Lookup::new(&tables.backward);
            let (base, dst) = (base.as_chunks::<$len>().0, dst.as_chunks_mut::<$len>().0);
            for i in done.values..parts.plane.len() {
                let b = <$word>::from_le_bytes(base[i]);
                let number = tables.bin(u64::from((b & <$word>::MAX >> 1) >> exponent_shift));
                let bin = tables.bins[number];
                let bits = bits_at(parts.payload, done.bits, bin.payload_bits());
                done.bits += usize::from(bin.payload_bits());
                let mut record = [0; $len];
                if raw_bytes > 0 {
                    let own = &parts.records[i * raw_bytes..][..raw_bytes];
                    record[..raw_bytes].copy_from_slice(own);
                }
                let low = <$word>::from_le_bytes(record).wrapping_sub(raw_half);
                let symbol = parts.plane[i];
                let (number, mut is_flipped) = parts_of(lookup.get(number, symbol));
                let number = i64::from(number) + i64::from(bin.centre);
                is_flipped ^= bin.has_flip_bit && bits >> bin.shift & 1 == 1;
                is_flipped &= !tables.is_integer;
                let rest = bits & ((1 << bin.shift) - 1);
                let mut coded = (number << bin.shift) + i64::from(rest) - (1 << bin.shift >> 1);
                if tables.skips_zero && !is_flipped && coded >= 0 {
                    coded += 1;
                }
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

for_word!(contexts1, cut1, join1, u8, i8, 1);
for_word!(contexts2, cut2, join2, u16, i16, 2);
for_word!(contexts4, cut4, join4, u32, i32, 4);
for_word!(contexts8, cut8, join8, u64, i64, 8);
