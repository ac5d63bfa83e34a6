//! The tree code with AVX2: 64 bytes a step, closed up and spread by `vpshufb` with orders from a
//! table, looked up 16 entries at a time.

use super::super::chain::avx2_orders::{close_up, spread};
use super::super::chain::eights::ONES;
use super::super::chain::{low_bits, word};
use super::{Side, Tables, low_mask};
use std::arch::x86_64::*;
use std::ops::RangeInclusive;

/// Vectors that are looked up together, so that an entry of a table is loaded once for all.
const TOGETHER: usize = 4;

/// Bytes of these.
const STEP: usize = 32 * TOGETHER;

/// The entries of numbers in a table, or 0 where a number is not in one of the `rows` of 16 entries.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(
    table: &[u8; 256],
    rows: RangeInclusive<usize>,
    v: [__m256i; TOGETHER],
) -> [__m256i; TOGETHER] {
    let mut found = [_mm256_setzero_si256(); TOGETHER];
    // Numbers of the row are below 16 after the XOR, and below 128 after the addition; all others
    // are not, and for them `vpshufb` gives 0.
    let beyond = _mm256_set1_epi8(0x70);
    for (i, row) in table.as_chunks::<16>().0.iter().enumerate().skip(*rows.start()) {
        if i > *rows.end() {
            break;
        }
        // SAFETY: a row has 16 bytes.
        let row = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(row.as_ptr().cast())) };
        let this = _mm256_set1_epi8((16 * i) as i8);
        for (found, &v) in found.iter_mut().zip(&v) {
            let place = _mm256_adds_epu8(_mm256_xor_si256(v, this), beyond);
            *found = _mm256_or_si256(*found, _mm256_shuffle_epi8(row, place));
        }
    }
    found
}

/// # Safety
/// The CPU has AVX2; both slices are as long.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn to_ranks(tables: &Tables, src: &[u8], dst: &mut [u8]) {
    // What no row names comes out as 0, which is to stand for no code.
    let absent = tables.absent.unwrap_or(0);
    let has_code = |&byte: &usize| tables.ranks[byte] != absent;
    let first = (0..256).find(has_code).unwrap_or(0);
    let last = (0..256).rfind(has_code).unwrap_or(0);
    let changed = tables.ranks.map(|rank| rank ^ absent);
    let absent = _mm256_set1_epi8(absent as i8);
    let ranks = |from: &[u8; STEP], to: &mut [u8; STEP]| {
        // SAFETY: both have `STEP` bytes.
        unsafe {
            let v = std::array::from_fn(|i| _mm256_loadu_si256(from.as_ptr().add(32 * i).cast()));
            let found = look_up(&changed, first / 16..=last / 16, v);
            for (i, ranks) in found.into_iter().enumerate() {
                let ranks = _mm256_xor_si256(ranks, absent);
                _mm256_storeu_si256(to.as_mut_ptr().add(32 * i).cast(), ranks);
            }
        }
    };
    let (from, from_tail) = src.as_chunks::<STEP>();
    let (to, to_tail) = dst.as_chunks_mut::<STEP>();
    for (from, to) in from.iter().zip(to) {
        ranks(from, to);
    }
    if !from_tail.is_empty() {
        let (mut from, mut to) = ([0; STEP], [0; STEP]);
        from[..from_tail.len()].copy_from_slice(from_tail);
        ranks(&from, &mut to);
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
        // so that there is room for 64; what is closed up in place lies before what is still to be
        // read.
        unsafe {
            let v = [0, 32].map(|i| _mm256_loadu_si256(own.add(at + i).cast()));
            let is_right = v.map(|v| _mm256_cmpeq_epi8(_mm256_max_epu8(v, first), v));
            let [low, high] = is_right.map(|v| u64::from(_mm256_movemask_epi8(v) as u32));
            let set = (low | high << 32) & valid;
            if LEFT {
                to_left = close_up(v, !set & valid, to_left);
            }
            if RIGHT {
                to_right = close_up(v, set, to_right);
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
/// each side has as many bytes as there are bits for it, and eight more.
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
    let mut group = |set: u64, valid: u64, to: &mut [u8; 64]| {
        for (i, to) in to.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (set, others) = (set >> (16 * i), (valid & !set) >> (16 * i));
            // SAFETY: at most the bits seen so far have been taken from a side; eight bytes more are
            // readable. `to` has 16 bytes.
            unsafe {
                let v = match (LEFT, RIGHT) {
                    (true, true) => {
                        _mm_or_si128(spread(others, &mut from_left), spread(set, &mut from_right))
                    }
                    (true, false) => {
                        let v = spread(others, &mut from_left);
                        _mm_blendv_epi8(v, b, spread_bits(set))
                    }
                    (false, true) => {
                        let v = spread(set, &mut from_right);
                        _mm_blendv_epi8(a, v, spread_bits(set))
                    }
                    (false, false) => _mm_blendv_epi8(a, b, spread_bits(set)),
                };
                _mm_storeu_si128(to.as_mut_ptr().cast(), v);
            }
        }
    };
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let (words, last) = bits.split_at(8 * groups.len());
    for (to, &word) in groups.iter_mut().zip(words.as_chunks().0) {
        group(u64::from_le_bytes(word), u64::MAX, to);
    }
    if !tail.is_empty() {
        let mut to = [0; 64];
        group(word(last), low_bits(tail.len()), &mut to);
        tail.copy_from_slice(&to[..tail.len()]);
    }
}

/// 16 bits to 16 bytes, all ones where the bit is set.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_bits(bits: u64) -> __m128i {
    let places = _mm_set_epi64x(ONES as i64, 0);
    let bytes = _mm_shuffle_epi8(_mm_set1_epi16(bits as i16), places);
    let one_each = _mm_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm_cmpeq_epi8(_mm_and_si128(bytes, one_each), one_each)
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
    let last_row = (1_usize << bits).div_ceil(16) - 1;
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
            for (i, v) in look_up(symbols, 0..=last_row, v).into_iter().enumerate() {
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
