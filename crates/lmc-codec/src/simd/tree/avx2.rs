//! The tree code with AVX2 and BMI2: compared 64 bytes at a time, closed up and spread eight at a time
//! by one `vpshufb` for both sides, looked up by `vpshufb` in rows of 16 entries.

use super::super::chain::eights::{ONES, counts_to};
use super::super::chain::{low_bits, word};
use super::{Side, Tables, append_absent, low_mask};
use std::arch::x86_64::*;

/// `SPLIT[b]` brings those of eight bytes whose bit is clear in `b` to the lower half of a vector, and
/// the others to the upper half, closed up.
static SPLIT: [[u8; 16]; 256] = split_orders();

const fn split_orders() -> [[u8; 16]; 256] {
    let mut orders = [[0; 16]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut place, mut ends) = (0, [0, 8]);
        while place < 8 {
            let side = bits >> place & 1;
            orders[bits][ends[side]] = place;
            ends[side] += 1;
            place += 1;
        }
        bits += 1;
    }
    orders
}

/// `MERGE[b]` undoes `SPLIT[b]`.
static MERGE: [[u8; 8]; 256] = merge_orders();

const fn merge_orders() -> [[u8; 8]; 256] {
    let mut orders = [[0; 8]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut place, mut ends) = (0, [0, 8]);
        while place < 8 {
            let side = bits >> place & 1;
            orders[bits][place] = ends[side];
            ends[side] += 1;
            place += 1;
        }
        bits += 1;
    }
    orders
}

/// Vectors that are looked up together, so that an entry of a table is loaded once for all.
const TOGETHER: usize = 4;

/// Bytes of these.
const STEP: usize = 32 * TOGETHER;

/// Rows of a table, each as what it differs in from the one before.
struct Rows {
    rows: [[u8; 16]; 16],
    count: usize,
    /// The number of the first entry.
    first: u8,
}

impl Rows {
    /// The `count` rows of `table` from number `first` on.
    fn new(table: &[u8; 256], first: u8, count: usize) -> Self {
        let mut rows = [[0; 16]; 16];
        let entries = table.as_chunks().0.iter().skip(usize::from(first) / 16);
        for (row, entries) in rows[..count].iter_mut().zip(entries) {
            *row = *entries;
        }
        // Each half is looked up by itself, so that the first row of the second differs from none.
        for i in (1..16).rev().filter(|&i| i != 8) {
            rows[i] = std::array::from_fn(|j| rows[i][j] ^ rows[i - 1][j]);
        }
        Self { rows, count, first }
    }

    /// The entries of numbers; where these are beyond the last row, its entries, and nothing in the
    /// half of the table that has no rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn look_up(&self, v: [__m256i; TOGETHER]) -> [__m256i; TOGETHER] {
        let mut found = [_mm256_setzero_si256(); TOGETHER];
        let first = _mm256_set1_epi8(self.first as i8);
        let mut v = v.map(|v| _mm256_sub_epi8(v, first));
        let step = _mm256_set1_epi8(16);
        for eight in self.rows[..self.count].chunks(8) {
            // Of a number, all rows up to its own count, which make up its entry. It is negative in
            // the others, where `vpshufb` gives 0, as all numbers are that are not of this half.
            let mut left = v;
            for row in eight {
                // SAFETY: a row has 16 bytes.
                let row = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
                let row = _mm256_broadcastsi128_si256(row);
                for (found, left) in found.iter_mut().zip(&mut left) {
                    *found = _mm256_xor_si256(*found, _mm256_shuffle_epi8(row, *left));
                    *left = _mm256_subs_epi8(*left, step);
                }
            }
            v = v.map(|v| _mm256_xor_si256(v, _mm256_set1_epi8(-128)));
        }
        found
    }
}

/// # Safety
/// The CPU has AVX2; both slices are as long.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn to_ranks(
    tables: &Tables,
    src: &[u8],
    dst: &mut [u8],
    absent_bytes: &mut Vec<u8>,
) {
    // Beyond the rows 0 is found, which is to stand for no code: all bytes there have none.
    let absent = tables.absent.unwrap_or(0);
    let has_code = |&byte: &u8| tables.ranks[usize::from(byte)] != absent;
    let first = (0..=255).find(has_code).unwrap_or(0) & 0xf0;
    let last = (0..=255).rfind(has_code).unwrap_or(0);
    // One more row, of zeros, where there is one.
    let count = (usize::from(last - first) / 16 + 2).min(16);
    let rows = Rows::new(&tables.ranks.map(|rank| rank ^ absent), first, count);
    let absent = _mm256_set1_epi8(absent as i8);
    let mut ranks = |from: &[u8; STEP], to: &mut [u8; STEP], len: usize| {
        // SAFETY: both have `STEP` bytes.
        unsafe {
            let v = std::array::from_fn(|i| _mm256_loadu_si256(from.as_ptr().add(32 * i).cast()));
            let found = rows.look_up(v);
            let mut any = _mm256_setzero_si256();
            for (i, ranks) in found.into_iter().enumerate() {
                any = _mm256_or_si256(any, _mm256_cmpeq_epi8(ranks, _mm256_setzero_si256()));
                let ranks = _mm256_xor_si256(ranks, absent);
                _mm256_storeu_si256(to.as_mut_ptr().add(32 * i).cast(), ranks);
            }
            if _mm256_testz_si256(any, any) == 0 {
                append_absent(tables, &from[..len], &to[..len], absent_bytes);
            }
        }
    };
    let (from, from_tail) = src.as_chunks::<STEP>();
    let (to, to_tail) = dst.as_chunks_mut::<STEP>();
    for (from, to) in from.iter().zip(to) {
        ranks(from, to, STEP);
    }
    if !from_tail.is_empty() {
        let (mut from, mut to) = ([0; STEP], [0; STEP]);
        from[..from_tail.len()].copy_from_slice(from_tail);
        ranks(&from, &mut to, from_tail.len());
        to_tail.copy_from_slice(&to[..from_tail.len()]);
    }
}

/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `own` and `right` have `len + 64` bytes, `bits` has `len`
/// bits.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn split(
    first: u8,
    keep: [bool; 2],
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    // SAFETY: the caller's.
    unsafe {
        match keep {
            [true, true] => split_sides::<true, true>(first, own, len, right, bits),
            [true, false] => split_sides::<true, false>(first, own, len, right, bits),
            [false, true] => split_sides::<false, true>(first, own, len, right, bits),
            [false, false] => split_sides::<false, false>(first, own, len, right, bits),
        }
    }
}

/// [`split`] for given sides.
///
/// # Safety
/// As [`split`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn split_sides<const LEFT: bool, const RIGHT: bool>(
    first: u8,
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    let first = _mm256_set1_epi8(first as i8);
    let own = own.as_mut_ptr();
    let (mut to_left, mut to_right) = (own, right.as_mut_ptr());
    let mut count = 0;
    let mut group = |at: usize, valid: u64| {
        // SAFETY: there are 64 bytes from every group on. No side has got more bytes than were read,
        // so that there is room for eight; what is closed up in place lies before what is still to
        // be read.
        unsafe {
            let v = [0, 32].map(|i| _mm256_loadu_si256(own.add(at + i).cast()));
            let is_right = v.map(|v| _mm256_cmpeq_epi8(_mm256_max_epu8(v, first), v));
            let [low, high] = is_right.map(|v| u64::from(_mm256_movemask_epi8(v) as u32));
            let set = (low | high << 32) & valid;
            for i in 0..8 {
                let bits = (set >> (8 * i)) as u8;
                let eight = _mm_loadl_epi64(own.add(at + 8 * i).cast());
                let order = _mm_loadu_si128(SPLIT[usize::from(bits)].as_ptr().cast());
                let sides = _mm_shuffle_epi8(eight, order);
                if LEFT {
                    _mm_storel_epi64(to_left.cast(), sides);
                    to_left = to_left.add(8 - bits.count_ones() as usize);
                }
                if RIGHT {
                    _mm_storel_epi64(to_right.cast(), _mm_unpackhi_epi64(sides, sides));
                    to_right = to_right.add(bits.count_ones() as usize);
                }
            }
            count += set.count_ones() as usize;
            set
        }
    };
    for (at, bits) in (0..len).step_by(64).zip(bits.chunks_mut(8)) {
        let set = group(at, low_bits(len - at)).to_le_bytes();
        match <&mut [u8; 8]>::try_from(&mut *bits) {
            Ok(bits) => *bits = set,
            Err(_) => bits.copy_from_slice(&set[..bits.len()]),
        }
    }
    count
}

/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `bits` has a bit for each byte of `dst` and zeros behind them;
/// each side has as many bytes as there are bits for it, and 64 more.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn merge(bits: &[u8], left: Side, right: Side, dst: &mut [u8]) {
    // SAFETY: the caller's.
    unsafe {
        match (left, right) {
            (Side::Symbol(a), Side::Symbol(b)) => {
                merge_sides::<false, false>(bits, (a, &[]), (b, &[]), dst);
            }
            (Side::Symbol(a), Side::Bytes(b)) => {
                merge_sides::<false, true>(bits, (a, &[]), (0, b), dst);
            }
            (Side::Bytes(a), Side::Symbol(b)) => {
                merge_sides::<true, false>(bits, (0, a), (b, &[]), dst);
            }
            (Side::Bytes(a), Side::Bytes(b)) => {
                merge_sides::<true, true>(bits, (0, a), (0, b), dst);
            }
        }
    }
}

/// [`merge`] for sides that are bytes or, if not, a symbol.
///
/// # Safety
/// As [`merge`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn merge_sides<const LEFT: bool, const RIGHT: bool>(
    bits: &[u8],
    left: (u8, &[u8]),
    right: (u8, &[u8]),
    dst: &mut [u8],
) {
    let (mut from_left, mut from_right) = (left.1.as_ptr(), right.1.as_ptr());
    let (a, b) = (_mm_set1_epi8(left.0 as i8), _mm_set1_epi8(right.0 as i8));
    // The last group, if it is not whole, goes to the end by way of `last`. All groups are done in one
    // place of the code, because places far apart would keep the pointers in memory.
    let mut last = [0; 64];
    let full = dst.len() / 64;
    for (i, bits) in bits.chunks(8).enumerate() {
        let set = match bits.first_chunk() {
            Some(&bits) => u64::from_le_bytes(bits),
            None => word(bits),
        };
        let to = if i < full { dst[64 * i..].as_mut_ptr() } else { last.as_mut_ptr() };
        // How many bytes of the right side come before each eight.
        let counts = counts_to(set);
        let starts = counts << 8;
        for j in 0..8 {
            let bits = usize::from((set >> (8 * j)) as u8);
            let start = usize::from((starts >> (8 * j)) as u8);
            // SAFETY: at most the bits seen so far have been taken from a side, and those beyond the
            // last byte: 64 more are readable. `to` has 64 bytes.
            unsafe {
                let mut sides = _mm_unpacklo_epi64(a, b);
                if LEFT {
                    let eight = _mm_loadl_epi64(from_left.add(8 * j - start).cast());
                    sides = _mm_unpacklo_epi64(eight, b);
                }
                if RIGHT {
                    let eight = from_right.add(start).cast();
                    sides = _mm_castpd_si128(_mm_loadh_pd(_mm_castsi128_pd(sides), eight));
                }
                let order = _mm_loadl_epi64(MERGE[bits].as_ptr().cast());
                _mm_storel_epi64(to.add(8 * j).cast(), _mm_shuffle_epi8(sides, order));
            }
        }
        let count = (counts >> 56) as usize;
        // SAFETY: no side moves on by more than was taken from it.
        unsafe {
            if LEFT {
                from_left = from_left.add(64 - count);
            }
            if RIGHT {
                from_right = from_right.add(count);
            }
        }
    }
    let tail = &mut dst[64 * full..];
    tail.copy_from_slice(&last[..tail.len()]);
}

/// As [`super::pack`], for less than 8 bits.
#[target_feature(enable = "bmi2")]
pub(super) fn pack(first: u8, bits: u8, ranks: &[u8], out: &mut Vec<u8>) {
    let (mask, firsts) = (ONES * u64::from(low_mask(bits)), ONES * u64::from(first));
    let (eights, tail) = ranks.as_chunks::<8>();
    let bits = usize::from(bits);
    out.reserve(bits * eights.len() + 8);
    // SAFETY: each step writes eight bytes and moves on by at most eight, within what was reserved;
    // the bytes up to the last step's `bits` have been written when they become part of `out`.
    unsafe {
        let mut to = out.as_mut_ptr().add(out.len());
        for &eight in eights {
            // No rank is below the first one, so that nothing is borrowed from a neighbour.
            let numbers = u64::from_le_bytes(eight).wrapping_sub(firsts);
            to.cast::<u64>().write_unaligned(_pext_u64(numbers, mask).to_le());
            to = to.add(bits);
        }
        out.set_len(out.len() + bits * eights.len());
    }
    super::portable::pack(first, bits as u8, tail, out);
}

/// # Safety
/// The CPU has AVX2 and BMI2; `packed` has `bits` bits for each byte of `dst`.
#[target_feature(enable = "avx2,bmi2")]
pub(super) unsafe fn unpack(bits: u8, symbols: &[u8; 256], packed: &[u8], dst: &mut [u8]) {
    let mask = ONES * u64::from(low_mask(bits));
    let rows = Rows::new(symbols, 0, (1_usize << bits).div_ceil(16));
    let (steps, tail) = dst.as_chunks_mut::<STEP>();
    let step = STEP / 8 * usize::from(bits);
    // A step reads up to seven bytes more than its own.
    let direct = (packed.len().saturating_sub(8) / step).min(steps.len());
    let look_up_at = |from: *const u8, to: &mut [u8; STEP]| {
        // SAFETY: the caller of this closure sees to `step + 8` bytes at `from`; `to` has `STEP`.
        unsafe {
            let number = |i: usize| {
                let word = from.add(i * usize::from(bits)).cast::<u64>().read_unaligned();
                _pdep_u64(u64::from_le(word), mask) as i64
            };
            let v = std::array::from_fn(|i| {
                let at = 4 * i;
                _mm256_set_epi64x(number(at + 3), number(at + 2), number(at + 1), number(at))
            });
            for (i, v) in rows.look_up(v).into_iter().enumerate() {
                _mm256_storeu_si256(to.as_mut_ptr().add(32 * i).cast(), v);
            }
        }
    };
    for (i, to) in steps.iter_mut().enumerate() {
        let own = &packed[step * i..];
        if i < direct {
            look_up_at(own.as_ptr(), to);
        } else {
            look_up_at(padded(&own[..step]).as_ptr(), to);
        }
    }
    if !tail.is_empty() {
        let mut to = [0; STEP];
        look_up_at(padded(&packed[step * steps.len()..]).as_ptr(), &mut to);
        tail.copy_from_slice(&to[..tail.len()]);
    }
}

/// The bytes of a step at most, with zeros behind them.
fn padded(bytes: &[u8]) -> [u8; STEP + 8] {
    let mut all = [0; STEP + 8];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
