//! The tree code with AVX2 and BMI2: bytes are compared 64 at a time, closed up eight at a time by
//! one `vpshufb` for both sides, spread 32 at a time, and looked up by `vpshufb` in rows of 16
//! entries.

use super::super::chain::eights::ONES;
use super::super::chain::{low_bits, word};
use super::{Side, Tables};
use std::arch::x86_64::*;
use std::ops::Range;

/// `SPLIT[b]` moves those of eight bytes whose bit is clear in `b` to the lower half of a vector
/// and the others to the upper half, closed up.
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

/// Vectors that are looked up together, so that each table entry is loaded once for all of them.
pub(super) const TOGETHER: usize = 4;

/// Bytes of these vectors.
pub(super) const STEP: usize = 32 * TOGETHER;

/// A table in rows of 16, each stored as its difference from the row before.
pub(super) struct Rows {
    /// Each half of the table is looked up separately.
    halves: [[[u8; 16]; 8]; 2],
    /// The rows of each half that differ from the row before.
    ranges: [Range<usize>; 2],
}

impl Rows {
    /// The rows of `table` for numbers in its first `count` rows.
    pub(super) fn new(table: &[u8; 256], count: usize) -> Self {
        let mut halves = [[[0; 16]; 8]; 2];
        let mut ranges = [const { 0..0 }; 2];
        let rows = table.as_chunks::<16>().0.as_chunks::<8>().0;
        for (i, (half, rows)) in halves.iter_mut().zip(rows).enumerate() {
            let count = count.saturating_sub(8 * i).min(8);
            let mut before = [0; 16];
            for (row, entries) in half.iter_mut().zip(rows).take(count) {
                *row = std::array::from_fn(|j| entries[j] ^ before[j]);
                before = *entries;
            }
            let differs = |row: &[u8; 16]| *row != [0; 16];
            if let Some(start) = half.iter().position(differs) {
                let end = half.iter().rposition(differs).unwrap_or(start);
                ranges[i] = start..end + 1;
            }
        }
        Self { halves, ranges }
    }

    /// The entries of numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn look_up(&self, v: [__m256i; TOGETHER]) -> [__m256i; TOGETHER] {
        let mut found = [_mm256_setzero_si256(); TOGETHER];
        let mut v = v;
        let step = _mm256_set1_epi8(16);
        for (half, range) in self.halves.iter().zip(&self.ranges) {
            // For a number, all rows up to its own add up to its entry. In the other rows it is
            // negative, and `vpshufb` gives 0. The same holds for all numbers outside this half.
            let before = _mm256_set1_epi8(16 * range.start as i8);
            let mut left = v.map(|v| _mm256_subs_epi8(v, before));
            for row in &half[range.clone()] {
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

/// One bit per byte: whether the byte is 0.
#[inline]
#[target_feature(enable = "avx2")]
fn zeros(v: __m256i) -> u32 {
    _mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256())) as u32
}

/// Appends those of the first `len` of `bytes` whose entry is 0.
#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn append_zeros(bytes: &[u8; STEP], len: usize, found: [__m256i; TOGETHER], out: &mut Vec<u8>) {
    out.reserve(STEP);
    let (to, mut end) = (out.as_mut_ptr(), out.len());
    let (pairs, _) = found.as_chunks::<2>();
    for ((bytes, &[low, high]), at) in bytes.as_chunks::<64>().0.iter().zip(pairs).zip([0, 64]) {
        let found = u64::from(zeros(low)) | u64::from(zeros(high)) << 32;
        let mut left = found & low_bits(len.saturating_sub(at));
        // The first one is written even if there is none: often there is one, and rarely more.
        loop {
            // SAFETY: there is room for all `STEP` bytes; `end` has advanced only by the set bits
            // before this one, which are fewer.
            unsafe { to.add(end).write(bytes[left.trailing_zeros() as usize % 64]) };
            end += usize::from(left != 0);
            left &= left.wrapping_sub(1);
            if left == 0 {
                break;
            }
        }
    }
    // SAFETY: all bytes up to the end have been written.
    unsafe { out.set_len(end) };
}

/// # Safety
/// The CPU has AVX2 and BMI1; both slices have the same length.
#[target_feature(enable = "avx2,bmi1")]
pub(super) unsafe fn to_ranks(
    tables: &Tables,
    src: &[u8],
    dst: &mut [u8],
    absent_bytes: &mut Vec<u8>,
) {
    // A lookup in rows without a code gives 0, so 0 must mean that there is no code.
    let absent = tables.absent.unwrap_or(0);
    let rows = Rows::new(&tables.ranks.map(|rank| rank ^ absent), 16);
    let (absent, has_absent) = (_mm256_set1_epi8(absent as i8), tables.absent.is_some());
    let mut ranks = |from: &[u8; STEP], to: &mut [u8; STEP], len: usize| {
        // SAFETY: both have `STEP` bytes.
        unsafe {
            let v = std::array::from_fn(|i| _mm256_loadu_si256(from.as_ptr().add(32 * i).cast()));
            let found = rows.look_up(v);
            for (i, ranks) in found.into_iter().enumerate() {
                let ranks = _mm256_xor_si256(ranks, absent);
                _mm256_storeu_si256(to.as_mut_ptr().add(32 * i).cast(), ranks);
            }
            if has_absent {
                append_zeros(from, len, found, absent_bytes);
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
    // SAFETY: guaranteed by the caller.
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
    let right = right.as_mut_ptr();
    // How many bytes have gone to the right: this gives the ends of both sides.
    let mut count = 0;
    // One loop that includes the last group: a closure for two loops was called and not inlined.
    for (i, word) in bits.chunks_mut(8).enumerate() {
        // SAFETY: there are 64 bytes from every group on. Neither side has more bytes than were
        // read, so there is room for eight. Bytes closed up in place come before those still to be
        // read.
        unsafe {
            let from = own.add(64 * i);
            let v = [0, 32].map(|i| _mm256_loadu_si256(from.add(i).cast()));
            let is_right = v.map(|v| _mm256_cmpeq_epi8(_mm256_max_epu8(v, first), v));
            let [low, high] = is_right.map(|v| u64::from(_mm256_movemask_epi8(v) as u32));
            let set = (low | high << 32) & low_bits((len - 64 * i).min(64));
            for i in 0..8 {
                let bits = (set >> (8 * i)) as u8;
                let eight = _mm_loadl_epi64(from.add(8 * i).cast());
                let order = _mm_loadu_si128(SPLIT[usize::from(bits)].as_ptr().cast());
                let sides = _mm_shuffle_epi8(eight, order);
                if LEFT {
                    _mm_storel_epi64(from.add(8 * i).sub(count).cast(), sides);
                }
                if RIGHT {
                    _mm_storeh_pd(right.add(count).cast(), _mm_castsi128_pd(sides));
                }
                count += bits.count_ones() as usize;
            }
            match word.first_chunk_mut::<8>() {
                Some(word) => *word = set.to_le_bytes(),
                None => word.copy_from_slice(&set.to_le_bytes()[..word.len()]),
            }
        }
    }
    count
}

/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `bits` has a bit for each byte of `dst`, followed by zeros;
/// each side has as many bytes as there are bits for it, and 64 more.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn merge(bits: &[u8], left: Side, right: Side, dst: &mut [u8]) {
    // SAFETY: guaranteed by the caller.
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

/// [`merge`] for sides that are bytes, or a symbol if not.
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
    let (a, b) = (_mm256_set1_epi8(left.0 as i8), _mm256_set1_epi8(right.0 as i8));
    let mut group = |set: u32| {
        let Places { is_right, is_left, left, right } = Places::of(set);
        let counts = [set as u16, (set >> 16) as u16].map(|set| set.count_ones() as usize);
        let (mut v, mut w) = (_mm256_and_si256(is_left, a), _mm256_and_si256(is_right, b));
        // SAFETY: at most the bits seen so far, including those beyond the last byte, have been
        // taken from a side, and 64 more bytes are readable.
        unsafe {
            if LEFT {
                let next = from_left.add(16 - counts[0]);
                v = _mm256_shuffle_epi8(load_sixteens(from_left, next), left);
                from_left = next.add(16 - counts[1]);
            }
            if RIGHT {
                let next = from_right.add(counts[0]);
                w = _mm256_shuffle_epi8(load_sixteens(from_right, next), right);
                from_right = next.add(counts[1]);
            }
        }
        _mm256_or_si256(v, w)
    };
    let (groups, tail) = dst.as_chunks_mut::<32>();
    let (words, last) = bits.split_at(4 * groups.len());
    for (to, &word) in groups.iter_mut().zip(words.as_chunks().0) {
        let v = group(u32::from_le_bytes(word));
        // SAFETY: a group has 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), v) };
    }
    if !tail.is_empty() {
        let v = group(word(last) as u32);
        let mut all = [0; 32];
        // SAFETY: `all` has 32 bytes.
        unsafe { _mm256_storeu_si256(all.as_mut_ptr().cast(), v) };
        tail.copy_from_slice(&all[..tail.len()]);
    }
}

/// Where the bytes of two sides go, 16 at a time: orders with the top bit set for the bytes of the
/// other side.
struct Places {
    is_left: __m256i,
    is_right: __m256i,
    left: __m256i,
    right: __m256i,
}

impl Places {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(set: u32) -> Self {
        let eights = _mm256_setr_epi64x(0, ONES as i64, 2 * ONES as i64, 3 * ONES as i64);
        let one_each = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let own = _mm256_shuffle_epi8(_mm256_set1_epi32(set as i32), eights);
        let own = _mm256_and_si256(own, one_each);
        let is_right = _mm256_cmpeq_epi8(own, one_each);
        let is_left = _mm256_cmpeq_epi8(own, _mm256_setzero_si256());
        // Minus the number of right-side bytes up to each place: first within each eight, then
        // adding those of the lower eight to the upper ones.
        let mut less = is_right;
        less = _mm256_add_epi8(less, _mm256_slli_epi64::<8>(less));
        less = _mm256_add_epi8(less, _mm256_slli_epi64::<16>(less));
        less = _mm256_add_epi8(less, _mm256_slli_epi64::<32>(less));
        let lower = _mm256_setr_epi64x(-1, 7 * ONES as i64, -1, 7 * ONES as i64);
        less = _mm256_add_epi8(less, _mm256_shuffle_epi8(less, lower));
        let iota = 0x0706_0504_0302_0100;
        let places = _mm256_setr_epi64x(iota, iota + 8 * ONES as i64, iota, iota + 8 * ONES as i64);
        Self {
            is_left,
            is_right,
            left: _mm256_or_si256(_mm256_add_epi8(places, less), is_right),
            right: _mm256_or_si256(_mm256_sub_epi8(is_right, less), is_left),
        }
    }
}

/// 16 bytes from each of two places.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn load_sixteens(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}
