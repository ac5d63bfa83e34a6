//! Bins with AVX2: 32 values per step. Differences are words of 2 bytes, whatever the width of a
//! value; a difference that does not fit is an exception.
//!
//! The bytes of 32 values are in the order that `vpackuswb` gives them when it packs two vectors of
//! words: the second and third groups of eight are swapped. Unpacking undoes that.

use super::avx2_words::{Apart, Eights, Fours, Ones, SWAPPED, Twos, Words};
use super::lanes::ROWS;
use super::{BINS, EXCEPTION, FLIP, GROUP, Joined, Parts, Progress, Tables, too_few_exceptions};
use crate::simd::classes::Writer;
use crate::simd::prefetch;
use lmc_format::Result;
use lmc_format::limits::BIN_MAX;
use std::arch::x86_64::*;

/// How far ahead to prefetch, in bytes.
const AHEAD: usize = 1024;
/// The order of the 8-byte words of 32 values.
const ORDER: [usize; 4] = [0, 2, 1, 3];

/// One byte for each of 32 bins.
#[derive(Clone, Copy)]
struct ByBin([__m256i; 2]);

/// Places of 32 bins in both halves of a [`ByBin`]. In the half that does not hold a bin, its place
/// has the top bit set and gives 0.
#[derive(Clone, Copy)]
struct Bins {
    numbers: __m256i,
    places: [__m256i; 2],
}

impl ByBin {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bytes: &[u8; BINS]) -> Self {
        Self([0, 16].map(|at| {
            let half = &bytes[at..at + 16];
            // SAFETY: `half` has 16 bytes.
            unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(half.as_ptr().cast())) }
        }))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(&self, bins: Bins) -> __m256i {
        _mm256_or_si256(
            _mm256_shuffle_epi8(self.0[0], bins.places[0]),
            _mm256_shuffle_epi8(self.0[1], bins.places[1]),
        )
    }
}

/// A recipe's rules, by bin.
struct Table {
    /// The bits of the payload that belong to the difference.
    low: ByBin,
    /// The bit of the payload that says whether the sign changed; 0 if there is none.
    flip: ByBin,
    centre: ByBin,
    /// High and low bytes of the factor that shifts by the width of a bin and changes the sign.
    factor: [ByBin; 2],
    first: __m256i,
    last: __m256i,
    exponent_shift: __m128i,
    /// For each row, the last bin before it, and how it changes symbols.
    rows: [(__m256i, __m256i); ROWS],
    row_count: usize,
    /// The least and the largest step that are not exceptions: of values that keep their sign, and
    /// of those that do not.
    reach: [[ByBin; 2]; 2],
    has_reach: bool,
}

impl Table {
    #[target_feature(enable = "avx2")]
    fn new(tables: &Tables, rows: &[[u8; 16]; ROWS]) -> Self {
        let lanes = &tables.lanes;
        let exponent_shift = 16 - i32::from(tables.exponent_bits);
        Self {
            low: ByBin::new(&lanes.low),
            flip: ByBin::new(&lanes.flip),
            centre: ByBin::new(&lanes.centre),
            factor: [ByBin::new(&lanes.factor[1]), ByBin::new(&lanes.factor[0])],
            first: _mm256_set1_epi16(tables.exponent_first as i16),
            last: _mm256_set1_epi8(tables.last as i8),
            exponent_shift: _mm_cvtsi32_si128(exponent_shift),
            rows: std::array::from_fn(|row| {
                // SAFETY: a row has 16 bytes.
                let own = unsafe { _mm_loadu_si128(rows[row].as_ptr().cast()) };
                let before = _mm256_set1_epi8(lanes.row_starts[row] as i8 - 1);
                (before, _mm256_broadcastsi128_si256(own))
            }),
            row_count: lanes.row_count,
            reach: lanes.reach.map(|ends| ends.map(|end| ByBin::new(&end))),
            has_reach: tables.has_reach,
        }
    }

    /// The bins of 32 bases, by their top 16 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bins(&self, [b0, b1]: [__m256i; 2]) -> Bins {
        let above = |top: __m256i| {
            let exponent = _mm256_srl_epi16(_mm256_add_epi16(top, top), self.exponent_shift);
            _mm256_subs_epu16(exponent, self.first)
        };
        let numbers = _mm256_min_epu8(_mm256_packus_epi16(above(b0), above(b1)), self.last);
        let places = [
            _mm256_add_epi8(numbers, _mm256_set1_epi8(0x70)),
            _mm256_sub_epi8(numbers, _mm256_set1_epi8(0x10)),
        ];
        Bins { numbers, places }
    }

    /// Symbols after their rows. `flips` has the top bit set where the sign changed, if the symbol
    /// says so.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn through(&self, bins: Bins, numbers: __m256i, flips: __m256i) -> __m256i {
        let plain = _mm256_xor_si256(numbers, flips);
        if self.row_count == 0 {
            return plain;
        }
        let place = _mm256_or_si256(
            _mm256_and_si256(numbers, _mm256_set1_epi8(7)),
            _mm256_and_si256(_mm256_srli_epi16::<4>(flips), _mm256_set1_epi8(8)),
        );
        let mut other = _mm256_shuffle_epi8(self.rows[0].1, place);
        for &(before, row) in &self.rows[1..self.row_count] {
            let is_own = _mm256_cmpgt_epi8(bins.numbers, before);
            other = _mm256_blendv_epi8(other, _mm256_shuffle_epi8(row, place), is_own);
        }
        let near = _mm256_add_epi8(numbers, _mm256_set1_epi8(4));
        let far = _mm256_and_si256(near, _mm256_set1_epi8(0xf8_u8 as i8));
        let is_near = _mm256_cmpeq_epi8(far, _mm256_setzero_si256());
        _mm256_blendv_epi8(plain, other, is_near)
    }
}

/// Finds the contexts of whole groups of values.
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn contexts(tables: &Tables, by_bin: &[u8; BINS], base: &[u8], out: &mut [u8]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match tables.width_log2 {
            0 => contexts_words::<Ones>(tables, by_bin, base, out),
            1 => contexts_words::<Twos>(tables, by_bin, base, out),
            2 => contexts_words::<Fours<0>>(tables, by_bin, base, out),
            _ => contexts_words::<Eights<0>>(tables, by_bin, base, out),
        }
    }
}

/// [`contexts`] for one width.
///
/// # Safety
/// As [`contexts`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn contexts_words<W: Words>(
    tables: &Tables,
    by_bin: &[u8; BINS],
    base: &[u8],
    out: &mut [u8],
) {
    assert_eq!(base.len(), W::WIDTH * out.len());
    let table = Table::new(tables, &tables.lanes.forward);
    let by_bin = ByBin::new(by_bin);
    for (i, group) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        // SAFETY: the base of these 32 values has the same length as the values.
        unsafe {
            let bins = table.bins(W::tops(base.as_ptr().add(32 * W::WIDTH * i)));
            let own = _mm256_permute4x64_epi64::<SWAPPED>(by_bin.of(bins));
            _mm256_storeu_si256(group.as_mut_ptr().cast(), own);
        }
    }
}

/// The numbers of symbols, and the top bit set where the sign changed.
#[inline]
#[target_feature(enable = "avx2")]
fn split(symbols: __m256i) -> (__m256i, __m256i) {
    let differs = _mm256_xor_si256(symbols, _mm256_add_epi8(symbols, symbols));
    let flips = _mm256_and_si256(differs, _mm256_set1_epi8(FLIP as i8));
    (_mm256_xor_si256(symbols, flips), flips)
}

/// Cuts whole groups of values.
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn cut(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (tables.width_log2, tables.raw_bytes) {
            (0, _) => cut_words::<Ones>(tables, values, base, parts),
            (1, _) => cut_words::<Twos>(tables, values, base, parts),
            (2, 0) => cut_words::<Fours<0>>(tables, values, base, parts),
            (2, 1) => cut_words::<Fours<1>>(tables, values, base, parts),
            (2, 2) => cut_words::<Fours<2>>(tables, values, base, parts),
            (2, _) => cut_words::<Fours<3>>(tables, values, base, parts),
            (_, 0) => cut_words::<Eights<0>>(tables, values, base, parts),
            (_, 1) => cut_words::<Eights<1>>(tables, values, base, parts),
            (_, 2) => cut_words::<Eights<2>>(tables, values, base, parts),
            (_, 3) => cut_words::<Eights<3>>(tables, values, base, parts),
            (_, 4) => cut_words::<Eights<4>>(tables, values, base, parts),
            (_, 5) => cut_words::<Eights<5>>(tables, values, base, parts),
            (_, 6) => cut_words::<Eights<6>>(tables, values, base, parts),
            _ => cut_words::<Eights<7>>(tables, values, base, parts),
        }
    }
}

/// [`cut`] for one width.
///
/// # Safety
/// As [`cut`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn cut_words<W: Words>(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    let Parts { plane, records, payload, exceptions } = parts;
    let n = plane.len();
    assert!(n.is_multiple_of(GROUP) && records.len() == W::RAW * n);
    assert!(values.len() == W::WIDTH * n && base.len() == values.len());
    let table = Table::new(tables, &tables.lanes.forward);
    let low_bytes = _mm256_set1_epi16(0xff);
    let zero = _mm256_setzero_si256();
    let top = _mm256_set1_epi8(FLIP as i8);
    let mut writer = Writer::new(payload, n);
    for i in 0..n / 32 {
        // SAFETY: these 32 values are inside all slices, and the payload of all values so far takes
        // at most eight bits each.
        unsafe {
            let place = 32 * W::WIDTH * i;
            let (x, b) = (values.as_ptr().add(place), base.as_ptr().add(place));
            for line in 0..W::WIDTH.div_ceil(2) {
                prefetch(x.wrapping_add(AHEAD + 64 * line));
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let to = records.as_mut_ptr().add(32 * W::RAW * i);
            let Apart { mut coded, tops, mut changed } = W::load(x, b, to, tables.is_integer);
            if tables.is_integer {
                changed = [zero; 2];
            }
            if tables.skips_zero {
                for (coded, changed) in coded.iter_mut().zip(changed) {
                    let above = _mm256_cmpgt_epi16(*coded, zero);
                    let one_less = _mm256_andnot_si256(_mm256_srai_epi16::<15>(changed), above);
                    *coded = _mm256_add_epi16(*coded, one_less);
                }
            }
            let bins = table.bins(tops);
            let low = table.low.of(bins);
            let flip = table.flip.of(bins);
            let half = _mm256_avg_epu8(low, zero);
            let changed = _mm256_and_si256(_mm256_packs_epi16(changed[0], changed[1]), top);
            // The number of a bin is the difference, minus half a bin and plus one, divided by the
            // width of a bin and rounded up: minus the high half of a product with a negative
            // factor.
            let less = _mm256_sub_epi8(low, half);
            let (high, rest) = (table.factor[0].of(bins), table.factor[1].of(bins));
            let product = |coded, less, factor| {
                let coded = _mm256_subs_epi16(coded, less);
                _mm256_mulhi_epi16(_mm256_adds_epi16(coded, coded), factor)
            };
            let minus = _mm256_packs_epi16(
                product(
                    coded[0],
                    _mm256_unpacklo_epi8(less, zero),
                    _mm256_unpacklo_epi8(rest, high),
                ),
                product(
                    coded[1],
                    _mm256_unpackhi_epi8(less, zero),
                    _mm256_unpackhi_epi8(rest, high),
                ),
            );
            let mut outside = _mm256_or_si256(
                _mm256_cmpgt_epi8(minus, _mm256_set1_epi8(BIN_MAX as i8)),
                _mm256_cmpgt_epi8(_mm256_set1_epi8(1 - BIN_MAX as i8), minus),
            );
            if table.has_reach {
                let [least, most] = [0, 1].map(|end| {
                    let [kept, flipped] = table.reach.map(|ends| ends[end].of(bins));
                    _mm256_blendv_epi8(kept, flipped, changed)
                });
                let steps = _mm256_subs_epi8(zero, minus);
                outside = _mm256_or_si256(outside, _mm256_cmpgt_epi8(least, steps));
                outside = _mm256_or_si256(outside, _mm256_cmpgt_epi8(steps, most));
            }
            let numbers = _mm256_sub_epi8(_mm256_sub_epi8(zero, table.centre.of(bins)), minus);
            let has_no_bit = _mm256_cmpeq_epi8(flip, zero);
            let symbols = table.through(bins, numbers, _mm256_and_si256(changed, has_no_bit));
            let symbols = _mm256_blendv_epi8(symbols, _mm256_set1_epi8(EXCEPTION as i8), outside);
            let symbols = _mm256_permute4x64_epi64::<SWAPPED>(symbols);
            _mm256_storeu_si256(plane.as_mut_ptr().add(32 * i).cast(), symbols);
            if _mm256_testz_si256(outside, outside) == 0 {
                let outside = _mm256_permute4x64_epi64::<SWAPPED>(outside);
                let mut left = _mm256_movemask_epi8(outside) as u32;
                while left != 0 {
                    let at = place + W::WIDTH * left.trailing_zeros() as usize;
                    exceptions.extend_from_slice(&values[at + W::RAW..at + W::WIDTH]);
                    left &= left - 1;
                }
            }
            let bytes = _mm256_packus_epi16(
                _mm256_and_si256(coded[0], low_bytes),
                _mm256_and_si256(coded[1], low_bytes),
            );
            let own = _mm256_and_si256(_mm256_add_epi8(bytes, half), low);
            // All bits set in each byte whose sign changed.
            let is_changed = _mm256_cmpgt_epi8(zero, changed);
            let own = _mm256_or_si256(own, _mm256_and_si256(flip, is_changed));
            // An exception needs no payload.
            let own = _mm256_andnot_si256(outside, own);
            let mut owns = [0_u64; 4];
            let mut masks = [0_u64; 4];
            _mm256_storeu_si256(owns.as_mut_ptr().cast(), own);
            _mm256_storeu_si256(masks.as_mut_ptr().cast(), _mm256_or_si256(low, flip));
            for place in ORDER {
                writer.push(owns[place], masks[place]);
            }
        }
    }
    writer.finish(payload);
}

/// Joins whole groups of values. Returns how far it got.
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn join(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    dst: &mut [u8],
    streaming: bool,
) -> Result<Progress> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (tables.width_log2, tables.raw_bytes) {
            (0, _) => join_words::<Ones>(tables, base, parts, dst, streaming),
            (1, _) => join_words::<Twos>(tables, base, parts, dst, streaming),
            (2, 0) => join_words::<Fours<0>>(tables, base, parts, dst, streaming),
            (2, 1) => join_words::<Fours<1>>(tables, base, parts, dst, streaming),
            (2, 2) => join_words::<Fours<2>>(tables, base, parts, dst, streaming),
            (2, _) => join_words::<Fours<3>>(tables, base, parts, dst, streaming),
            (_, 0) => join_words::<Eights<0>>(tables, base, parts, dst, streaming),
            (_, 1) => join_words::<Eights<1>>(tables, base, parts, dst, streaming),
            (_, 2) => join_words::<Eights<2>>(tables, base, parts, dst, streaming),
            (_, 3) => join_words::<Eights<3>>(tables, base, parts, dst, streaming),
            (_, 4) => join_words::<Eights<4>>(tables, base, parts, dst, streaming),
            (_, 5) => join_words::<Eights<5>>(tables, base, parts, dst, streaming),
            (_, 6) => join_words::<Eights<6>>(tables, base, parts, dst, streaming),
            _ => join_words::<Eights<7>>(tables, base, parts, dst, streaming),
        }
    }
}

/// [`join`] for one width.
///
/// # Safety
/// As [`join`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn join_words<W: Words>(
    tables: &Tables,
    base: &[u8],
    parts: Joined,
    dst: &mut [u8],
    streaming: bool,
) -> Result<Progress> {
    let n = parts.plane.len();
    assert!(base.len() == W::WIDTH * n && dst.len() == base.len());
    assert!(parts.payload.len() >= n + 16 && parts.records.len() == W::RAW * n);
    let table = Table::new(tables, &tables.lanes.backward);
    let (one, all) = (_mm256_set1_epi16(1), _mm256_set1_epi16(-1));
    let zero = _mm256_setzero_si256();
    let top = _mm256_set1_epi8(FLIP as i8);
    let streaming = streaming && dst.as_ptr().cast::<__m256i>().is_aligned();
    let (mut bits, mut exceptions) = (0, 0);
    for i in 0..n / 32 {
        // SAFETY: these 32 values are inside all slices. Before them, at most eight bits were read
        // for each value. At most 32 bytes are read now, so all reads end within the padding.
        unsafe {
            let place = 32 * W::WIDTH * i;
            let b = base.as_ptr().add(place);
            for line in 0..W::WIDTH.div_ceil(2) {
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let bins = table.bins(W::tops(b));
            let low = table.low.of(bins);
            let flip = table.flip.of(bins);
            let mut masks = [0_u64; 4];
            _mm256_storeu_si256(masks.as_mut_ptr().cast(), _mm256_or_si256(low, flip));
            let mut owns = [0_u64; 4];
            for place in ORDER {
                let mask = masks[place];
                let from = parts.payload.as_ptr().add(bits / 8);
                let word = from.cast::<u64>().read_unaligned();
                let over = u64::from(*from.add(8));
                let shift = (bits % 8) as u32;
                owns[place] = _pdep_u64(word >> shift | over << 1 << (63 - shift), mask);
                bits += mask.count_ones() as usize;
            }
            let own = _mm256_loadu_si256(owns.as_ptr().cast());
            let symbols = _mm256_loadu_si256(parts.plane.as_ptr().add(32 * i).cast());
            let outside = _mm256_cmpeq_epi8(symbols, _mm256_set1_epi8(EXCEPTION as i8));
            let (mut numbers, mut flips) = split(_mm256_permute4x64_epi64::<SWAPPED>(symbols));
            if table.row_count > 0 {
                (numbers, flips) = split(table.through(bins, numbers, flips));
            }
            let numbers = _mm256_add_epi8(numbers, table.centre.of(bins));
            let is_kept = _mm256_cmpeq_epi8(_mm256_and_si256(own, flip), zero);
            let flips = _mm256_xor_si256(flips, _mm256_andnot_si256(is_kept, top));
            let rest = _mm256_and_si256(own, low);
            let coded = |low, number, rest| {
                let width = _mm256_add_epi16(low, one);
                let high = _mm256_mullo_epi16(_mm256_srai_epi16::<8>(number), width);
                let rest = _mm256_sub_epi16(rest, _mm256_srli_epi16::<1>(width));
                _mm256_add_epi16(high, rest)
            };
            let mut coded = [
                coded(
                    _mm256_unpacklo_epi8(low, zero),
                    _mm256_unpacklo_epi8(zero, numbers),
                    _mm256_unpacklo_epi8(rest, zero),
                ),
                coded(
                    _mm256_unpackhi_epi8(low, zero),
                    _mm256_unpackhi_epi8(zero, numbers),
                    _mm256_unpackhi_epi8(rest, zero),
                ),
            ];
            let mut flips = [_mm256_unpacklo_epi8(zero, flips), _mm256_unpackhi_epi8(zero, flips)];
            if tables.is_integer {
                flips = [zero; 2];
            }
            if tables.skips_zero {
                for (coded, flips) in coded.iter_mut().zip(flips) {
                    let below = _mm256_or_si256(
                        _mm256_srai_epi16::<15>(flips),
                        _mm256_srai_epi16::<15>(*coded),
                    );
                    *coded = _mm256_sub_epi16(*coded, _mm256_andnot_si256(below, all));
                }
            }
            let records = parts.records.as_ptr().add(32 * W::RAW * i);
            let to = dst.as_mut_ptr().add(place);
            if streaming {
                W::store::<true>(coded, flips, b, records, to, tables.is_integer);
            } else {
                W::store::<false>(coded, flips, b, records, to, tables.is_integer);
            }
            let mut left = _mm256_movemask_epi8(outside) as u32;
            while left != 0 {
                let at = place + W::WIDTH * left.trailing_zeros() as usize;
                let high = parts.exceptions.get(exceptions..exceptions + W::WIDTH - W::RAW);
                dst[at + W::RAW..at + W::WIDTH]
                    .copy_from_slice(high.ok_or_else(too_few_exceptions)?);
                exceptions += W::WIDTH - W::RAW;
                left &= left - 1;
            }
        }
    }
    Ok(Progress { values: n / 32 * 32, bits, exceptions })
}
