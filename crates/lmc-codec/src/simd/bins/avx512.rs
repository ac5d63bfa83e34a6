//! Bins with AVX-512: 64 values per step. Differences are words of 2 bytes, whatever the width of a
//! value; a difference that does not fit is an exception.

use super::avx512_words::{Apart, Eights, Fours, Ones, Twos, Words, widened};
use super::lanes::ROWS;
use super::stage::{STAGE, Stage};
use super::{BINS, EXCEPTION, FLIP, GROUP, Joined, Parts, Progress, Tables, too_few_exceptions};
use crate::simd::classes::Writer;
use crate::simd::prefetch;
use lmc_format::Result;
use lmc_format::limits::BIN_MAX;
use std::arch::x86_64::*;

/// How far ahead to prefetch, in bytes.
const AHEAD: usize = 1024;

/// A recipe's rules, one byte for each bin.
struct ByBin {
    shift: __m512i,
    centre: __m512i,
    /// The bits of the payload that belong to the difference.
    low: __m512i,
    /// The bit of the payload that says whether the sign changed; 0 if there is none.
    flip: __m512i,
    /// Where the bin's row starts.
    row: __m512i,
    first: __m512i,
    last: __m512i,
    exponent_shift: __m128i,
    /// Places of the low bytes of 64 words in two vectors.
    low_bytes: __m512i,
    /// All rows.
    rows: [__m512i; 2],
    has_rows: bool,
    /// The least and the largest step that are not exceptions: of values that keep their sign, and
    /// of those that do not.
    reach: [[__m512i; 2]; 2],
    has_reach: bool,
}

impl ByBin {
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn new(tables: &Tables, rows: &[[u8; 16]; ROWS]) -> Self {
        let by_bin = |bytes: &[u8; BINS]| {
            // SAFETY: `bytes` has 32 bytes.
            _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
        };
        let places: [u8; 64] = std::array::from_fn(|i| 2 * i as u8);
        // SAFETY: `places` has 64 bytes.
        let places = unsafe { _mm512_loadu_si512(places.as_ptr().cast()) };
        let lanes = &tables.lanes;
        let exponent_shift = 16 - i32::from(tables.exponent_bits);
        Self {
            shift: by_bin(&lanes.shift),
            centre: by_bin(&lanes.centre),
            low: by_bin(&lanes.low),
            flip: by_bin(&lanes.flip),
            row: by_bin(&lanes.row),
            first: _mm512_set1_epi16(tables.exponent_first as i16),
            last: _mm512_set1_epi16(i16::from(tables.last)),
            exponent_shift: _mm_cvtsi32_si128(exponent_shift),
            low_bytes: places,
            // SAFETY: there are two times four rows of 16 bytes.
            rows: [0, 4].map(|at| unsafe { _mm512_loadu_si512(rows[at..].as_ptr().cast()) }),
            has_rows: tables.has_rows,
            reach: lanes.reach.map(|ends| ends.map(|end| by_bin(&end))),
            has_reach: tables.has_reach,
        }
    }

    /// The bins of 64 bases, by their top 16 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn bins(&self, [b0, b1]: [__m512i; 2]) -> __m512i {
        let above = |top: __m512i| {
            let exponent = _mm512_srl_epi16(_mm512_add_epi16(top, top), self.exponent_shift);
            let above = _mm512_subs_epu16(exponent, self.first);
            _mm512_min_epu16(above, self.last)
        };
        _mm512_permutex2var_epi8(above(b0), self.low_bytes, above(b1))
    }

    /// Symbols after their rows. The sign changed for those in `flips`, which the symbol says.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn through(&self, bins: __m512i, numbers: __m512i, flips: __mmask64) -> __m512i {
        let top = _mm512_set1_epi8(FLIP as i8);
        let plain = xor_where(numbers, flips, top);
        if !self.has_rows {
            return plain;
        }
        let place = _mm512_and_si512(numbers, _mm512_set1_epi8(7));
        let place = _mm512_or_si512(place, _mm512_maskz_mov_epi8(flips, _mm512_set1_epi8(8)));
        let place = _mm512_or_si512(place, _mm512_permutexvar_epi8(bins, self.row));
        let near = _mm512_add_epi8(numbers, _mm512_set1_epi8(4));
        let is_near = _mm512_testn_epi8_mask(near, _mm512_set1_epi8(0xf8_u8 as i8));
        let other = _mm512_permutex2var_epi8(self.rows[0], place, self.rows[1]);
        _mm512_mask_mov_epi8(plain, is_near, other)
    }
}

/// Finds the contexts of whole groups of values.
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2")]
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2")]
unsafe fn contexts_words<W: Words>(
    tables: &Tables,
    by_bin: &[u8; BINS],
    base: &[u8],
    out: &mut [u8],
) {
    assert_eq!(base.len(), W::WIDTH * out.len());
    // SAFETY: guaranteed by the caller.
    let table = unsafe { ByBin::new(tables, &tables.lanes.forward) };
    // SAFETY: `by_bin` has 32 bytes.
    let by_bin = unsafe { _mm256_loadu_si256(by_bin.as_ptr().cast()) };
    let by_bin = _mm512_broadcast_i64x4(by_bin);
    for (i, group) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        // SAFETY: group `i` of the base has the same length as that of the output.
        unsafe {
            let bins = table.bins(W::tops(base.as_ptr().add(W::WIDTH * GROUP * i)));
            let own = _mm512_permutexvar_epi8(bins, by_bin);
            _mm512_storeu_si512(group.as_mut_ptr().cast(), own);
        }
    }
}

/// `a`, with the bits of `b` flipped in the bytes of `mask`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_where(a: __m512i, mask: __mmask64, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, _mm512_maskz_mov_epi8(mask, b))
}

/// Cuts whole groups of values.
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
unsafe fn cut_words<W: Words>(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    let Parts { plane, records, payload, exceptions } = parts;
    let n = plane.len();
    assert!(n.is_multiple_of(GROUP) && records.len() == W::RAW * n);
    assert!(values.len() == W::WIDTH * n && base.len() == values.len());
    // SAFETY: guaranteed by the caller.
    let by_bin = unsafe { ByBin::new(tables, &tables.lanes.forward) };
    let one = _mm512_set1_epi16(1);
    let mut writer = Writer::new(payload, n);
    let mut stage = Stage::new();
    for i in 0..n / GROUP {
        let staged = i % (STAGE / GROUP);
        let (masks, rests) = stage.group_mut(staged);
        // SAFETY: group `i` is inside all slices, and the payload of all groups so far takes at
        // most eight bits per value.
        unsafe {
            let place = W::WIDTH * GROUP * i;
            let (x, b) = (values.as_ptr().add(place), base.as_ptr().add(place));
            for line in 0..W::WIDTH {
                prefetch(x.wrapping_add(AHEAD + 64 * line));
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let to = records.as_mut_ptr().add(W::RAW * GROUP * i);
            let Apart { mut coded, tops, mut changed } = W::load(x, b, to, tables.is_integer);
            if tables.is_integer {
                changed = 0;
            }
            if tables.skips_zero {
                for (half, coded) in coded.iter_mut().enumerate() {
                    let above = _mm512_cmpgt_epi16_mask(*coded, _mm512_setzero_si512());
                    let kept = !(changed >> (32 * half)) as u32;
                    *coded = _mm512_mask_sub_epi16(*coded, above & kept, *coded, one);
                }
            }
            let bins = by_bin.bins(tops);
            let shifts = widened(_mm512_permutexvar_epi8(bins, by_bin.shift));
            let mut rounded = coded;
            let mut numbers = coded;
            let mut outside = [0_u32; 2];
            for half in 0..2 {
                let width = _mm512_sllv_epi16(one, shifts[half]);
                rounded[half] = _mm512_adds_epi16(coded[half], _mm512_srli_epi16::<1>(width));
                numbers[half] = _mm512_srav_epi16(rounded[half], shifts[half]);
                let above = _mm512_add_epi16(numbers[half], _mm512_set1_epi16(BIN_MAX as i16));
                let most = _mm512_set1_epi16(2 * BIN_MAX as i16 - 1);
                outside[half] = _mm512_cmpgt_epu16_mask(above, most);
            }
            let mut outside = u64::from(outside[0]) | u64::from(outside[1]) << 32;
            let flip = _mm512_permutexvar_epi8(bins, by_bin.flip);
            let low = _mm512_permutexvar_epi8(bins, by_bin.low);
            let rest = _mm512_permutex2var_epi8(rounded[0], by_bin.low_bytes, rounded[1]);
            let rest = _mm512_and_si512(rest, low);
            let rest = _mm512_or_si512(rest, _mm512_maskz_mov_epi8(changed, flip));
            let numbers = _mm512_permutex2var_epi8(numbers[0], by_bin.low_bytes, numbers[1]);
            if by_bin.has_reach {
                let [least, most] = [0, 1].map(|end| {
                    let [kept, flipped] = by_bin.reach.map(|ends| ends[end]);
                    let kept = _mm512_permutexvar_epi8(bins, kept);
                    _mm512_mask_permutexvar_epi8(kept, changed, bins, flipped)
                });
                outside |= _mm512_cmplt_epi8_mask(numbers, least);
                outside |= _mm512_cmpgt_epi8_mask(numbers, most);
            }
            let numbers = _mm512_sub_epi8(numbers, _mm512_permutexvar_epi8(bins, by_bin.centre));
            let flips = changed & _mm512_testn_epi8_mask(flip, flip);
            let symbols = by_bin.through(bins, numbers, flips);
            let symbols = _mm512_mask_mov_epi8(symbols, outside, _mm512_set1_epi8(EXCEPTION as i8));
            _mm512_storeu_si512(plane.as_mut_ptr().add(GROUP * i).cast(), symbols);
            let mut left = outside;
            while left != 0 {
                let at = place + W::WIDTH * left.trailing_zeros() as usize;
                exceptions.extend_from_slice(&values[at + W::RAW..at + W::WIDTH]);
                left &= left - 1;
            }
            // An exception needs no payload.
            let rest = _mm512_maskz_mov_epi8(!outside, rest);
            _mm512_store_si512(rests, rest);
            _mm512_store_si512(masks, _mm512_or_si512(low, flip));
            if staged + 1 == STAGE / GROUP || i + 1 == n / GROUP {
                stage.put(staged + 1, &mut writer);
            }
        }
    }
    writer.finish(payload);
}

/// Joins whole groups of values. Returns how far it got.
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
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
    // SAFETY: guaranteed by the caller.
    let by_bin = unsafe { ByBin::new(tables, &tables.lanes.backward) };
    let one = _mm512_set1_epi16(1);
    let top = _mm512_set1_epi8(FLIP as i8);
    let streaming = streaming && dst.as_ptr().cast::<__m512i>().is_aligned();
    let (mut bits, mut exceptions) = (0, 0);
    for i in 0..n / GROUP {
        // SAFETY: group `i` is inside all slices. Before it, at most eight bits were read for each
        // value. At most 64 bytes are read now, so all reads end within the payload's padding.
        unsafe {
            let place = W::WIDTH * GROUP * i;
            let b = base.as_ptr().add(place);
            for line in 0..W::WIDTH {
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let bins = by_bin.bins(W::tops(b));
            let flip = _mm512_permutexvar_epi8(bins, by_bin.flip);
            let low = _mm512_permutexvar_epi8(bins, by_bin.low);
            let mut masks = [0_u64; 8];
            _mm512_storeu_si512(masks.as_mut_ptr().cast(), _mm512_or_si512(low, flip));
            let mut rests = [0_u64; 8];
            for (rest, mask) in rests.iter_mut().zip(masks) {
                let from = parts.payload.as_ptr().add(bits / 8);
                let word = from.cast::<u64>().read_unaligned();
                let over = u64::from(*from.add(8));
                let shift = (bits % 8) as u32;
                *rest = _pdep_u64(word >> shift | over << 1 << (63 - shift), mask);
                bits += mask.count_ones() as usize;
            }
            let rest = _mm512_loadu_si512(rests.as_ptr().cast());
            let symbols = _mm512_loadu_si512(parts.plane.as_ptr().add(GROUP * i).cast());
            let outside = _mm512_cmpeq_epi8_mask(symbols, _mm512_set1_epi8(EXCEPTION as i8));
            let split = |symbols: __m512i| {
                let flips = _mm512_xor_si512(symbols, _mm512_add_epi8(symbols, symbols));
                let numbers = _mm512_xor_si512(symbols, _mm512_and_si512(flips, top));
                (numbers, _mm512_movepi8_mask(flips))
            };
            let (mut numbers, mut flips) = split(symbols);
            if by_bin.has_rows {
                (numbers, flips) = split(by_bin.through(bins, numbers, flips));
            }
            let numbers = _mm512_add_epi8(numbers, _mm512_permutexvar_epi8(bins, by_bin.centre));
            let mut flips = flips ^ _mm512_test_epi8_mask(rest, flip);
            if tables.is_integer {
                flips = 0;
            }
            let rests = widened(_mm512_and_si512(rest, low));
            let shifts = widened(_mm512_permutexvar_epi8(bins, by_bin.shift));
            let numbers = [
                _mm512_cvtepi8_epi16(_mm512_castsi512_si256(numbers)),
                _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(numbers)),
            ];
            let coded = |half: usize| {
                let width = _mm512_sllv_epi16(one, shifts[half]);
                _mm512_add_epi16(
                    _mm512_sllv_epi16(numbers[half], shifts[half]),
                    _mm512_sub_epi16(rests[half], _mm512_srli_epi16::<1>(width)),
                )
            };
            let mut coded = [coded(0), coded(1)];
            if tables.skips_zero {
                for (half, coded) in coded.iter_mut().enumerate() {
                    let kept = !(flips >> (32 * half)) as u32;
                    let above = kept & !_mm512_movepi16_mask(*coded);
                    *coded = _mm512_mask_add_epi16(*coded, above, *coded, one);
                }
            }
            let records = parts.records.as_ptr().add(W::RAW * GROUP * i);
            let to = dst.as_mut_ptr().add(place);
            if streaming {
                W::store::<true>(coded, flips, b, records, to, tables.is_integer);
            } else {
                W::store::<false>(coded, flips, b, records, to, tables.is_integer);
            }
            let mut left = outside;
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
    Ok(Progress { values: n / GROUP * GROUP, bits, exceptions })
}
