//! Bins in safe Rust, value by value. This code defines the results of all other kernels, and
//! handles the values that they leave over.

use super::{BINS, EXCEPTION, Joined, Parts, Progress, Tables};
use super::{parts_of, through, too_few_exceptions};
use lmc_format::Result;

/// The contexts of all values with this base.
pub(super) fn contexts(tables: &Tables, by_bin: &[u8; BINS], base: &[u8], out: &mut [u8]) {
    for_width!(tables.width_log2, contexts_of(tables, by_bin, base, out));
}

/// Cuts all of `values`.
pub(super) fn cut(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    for_width!(tables.width_log2, cut_of(tables, values, base, parts));
}

/// Joins the rest of `dst`.
pub(super) fn join(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    done: Progress,
    dst: &mut [u8],
) -> Result<Progress> {
    for_width!(tables.width_log2, join_of(tables, base, parts, done, dst))
}

/// The lowest `bits` bits, from 1 to 64.
#[inline(always)]
fn low(bits: usize) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Up to eight bytes as a word.
#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

impl Tables {
    /// The bin of a base of `width` bytes.
    #[inline(always)]
    fn bin_of(&self, base: u64, width: usize) -> usize {
        let below_sign = 8 * width - 1;
        let exponent_bits = usize::from(self.exponent_bits);
        self.bin((base & low(below_sign)) >> (below_sign - exponent_bits))
    }

    /// The bits of a word of `width` bytes that make up its magnitude.
    #[inline(always)]
    fn magnitudes(&self, width: usize) -> u64 {
        low(8 * width - usize::from(!self.is_integer))
    }

    /// Added to differences to round them to multiples of the unit above the raw bytes.
    #[inline(always)]
    fn raw_half(&self) -> u64 {
        1 << (8 * self.raw_bytes()) >> 1
    }
}

fn contexts_of<const W: usize>(tables: &Tables, by_bin: &[u8; BINS], base: &[u8], out: &mut [u8]) {
    for (base, context) in base.as_chunks::<W>().0.iter().zip(out) {
        *context = by_bin[tables.bin_of(word(base), W)];
    }
}

fn cut_of<const W: usize>(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    let Parts { plane, records, payload, exceptions } = parts;
    let (raw_bytes, magnitudes) = (tables.raw_bytes(), tables.magnitudes(W));
    let pairs = values.as_chunks::<W>().0.iter().zip(base.as_chunks::<W>().0);
    for (i, ((value, base), symbol)) in pairs.zip(plane.iter_mut()).enumerate() {
        let (x, b) = (word(value), word(base));
        let number = tables.bin_of(b, W);
        let bin = tables.bins[number];
        let apart = (x & magnitudes).wrapping_sub(b & magnitudes).wrapping_add(tables.raw_half());
        records[i * raw_bytes..(i + 1) * raw_bytes]
            .copy_from_slice(&apart.to_le_bytes()[..raw_bytes]);
        let is_flipped = (x ^ b) & !magnitudes != 0;
        let above = 64 - 8 * W;
        let mut coded = (apart << above) as i64 >> above >> (8 * raw_bytes);
        if tables.skips_zero && !is_flipped && coded > 0 {
            coded -= 1;
        }
        let rounded = coded.wrapping_add(1 << bin.shift >> 1);
        let bits = u32::from(bin.payload_bits());
        match tables.symbol(number, rounded, is_flipped) {
            Some(own) => {
                let (step, flip) = parts_of(own);
                *symbol = through(&tables.forward[number], step, flip);
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

fn join_of<const W: usize>(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    mut done: Progress,
    dst: &mut [u8],
) -> Result<Progress> {
    let (raw_bytes, magnitudes) = (tables.raw_bytes(), tables.magnitudes(W));
    let (base, dst) = (base.as_chunks::<W>().0, dst.as_chunks_mut::<W>().0);
    for i in done.values..parts.plane.len() {
        let b = word(&base[i]);
        let number = tables.bin_of(b, W);
        let bin = tables.bins[number];
        let at = done.bits / 8;
        let both = u16::from_le_bytes([parts.payload[at], parts.payload[at + 1]]);
        let bits = both >> (done.bits % 8) & ((1 << bin.payload_bits()) - 1);
        done.bits += usize::from(bin.payload_bits());
        let record = word(&parts.records[i * raw_bytes..][..raw_bytes]);
        let symbol = parts.plane[i];
        let (step, flip) = parts_of(symbol);
        let (step, mut is_flipped) = parts_of(through(&tables.backward[number], step, flip));
        let step = i64::from(step) + i64::from(bin.centre);
        is_flipped ^= bin.has_flip_bit && bits >> bin.shift & 1 == 1;
        is_flipped &= !tables.is_integer;
        let rest = bits & ((1 << bin.shift) - 1);
        let mut coded = (step << bin.shift) + i64::from(rest) - (1 << bin.shift >> 1);
        if tables.skips_zero && !is_flipped && coded >= 0 {
            coded += 1;
        }
        let apart = (coded << (8 * raw_bytes)) as u64;
        let apart = apart.wrapping_add(record).wrapping_sub(tables.raw_half());
        let magnitude = (b & magnitudes).wrapping_add(apart) & magnitudes;
        let sign = (b & !magnitudes) ^ if is_flipped { !magnitudes } else { 0 };
        dst[i].copy_from_slice(&(magnitude | sign).to_le_bytes()[..W]);
        if symbol == EXCEPTION {
            done.restore_exception(parts.exceptions, &mut dst[i][raw_bytes..])?;
        }
        done.values += 1;
    }
    Ok(done)
}

impl Progress {
    /// Reads the next exception into all of `high`.
    #[inline(always)]
    pub(super) fn restore_exception(&mut self, exceptions: &[u8], high: &mut [u8]) -> Result<()> {
        let own = exceptions.get(self.exceptions..self.exceptions + high.len());
        high.copy_from_slice(own.ok_or_else(too_few_exceptions)?);
        self.exceptions += high.len();
        Ok(())
    }
}
