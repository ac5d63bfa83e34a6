//! Bins with AVX2: 32 values at once. Differences are worked on as words of 2 bytes, whatever the
//! width of a value is; what does not fit them is an exception.
//!
//! Bytes of 32 values stand in the order in which `vpackuswb` leaves those of two vectors of words:
//! the second and third eight of them are swapped. Unpacking undoes that.

use super::{BINS, EXCEPTION, FLIP, GROUP, Joined, Parts, Progress, Tables, too_few_exceptions};
use crate::simd::prefetch;
use lmc_format::Result;
use lmc_format::limits::{BIN_MAX, BIN_ROWS_MAX};
use std::arch::x86_64::*;

/// How far ahead memory is asked for, in bytes.
const AHEAD: usize = 1024;
/// The order of the eights, which is its own inverse.
const SWAPPED: i32 = 0b11_01_10_00;

/// A byte for each of 32 bins.
#[derive(Clone, Copy)]
struct ByBin([__m256i; 2]);

/// Places of 32 bins in both halves of a [`ByBin`]; in the half that a bin is not in, its place has
/// its top bit set and gives 0.
#[derive(Clone, Copy)]
struct Bins {
    numbers: __m256i,
    places: [__m256i; 2],
}

impl ByBin {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(value: impl Fn(usize) -> u8) -> Self {
        let bytes: [u8; BINS] = std::array::from_fn(value);
        Self([0, 16].map(|at| {
            let half = &bytes[at..at + 16];
            // SAFETY: 16 bytes.
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

/// What a recipe says, by bin.
struct Table {
    /// The bits of the payload that are those of the difference.
    low: ByBin,
    /// The bit of the payload that says that the sign changed; 0 if there is none.
    flip: ByBin,
    centre: ByBin,
    /// High and low bytes of the factor that shifts by the width of a bin and changes the sign.
    factor: [ByBin; 2],
    first: __m256i,
    last: __m256i,
    exponent_shift: __m128i,
    exponent_mask: __m256i,
    /// For each row the last bin that is not its own, and what it makes of symbols.
    rows: [(__m256i, __m256i); BIN_ROWS_MAX as usize],
    row_count: usize,
}

impl Table {
    #[target_feature(enable = "avx2")]
    fn new(tables: &Tables, rows: &[[u8; 16]; BINS]) -> Self {
        let bins = &tables.bins;
        let factor = |bin: usize| (-(1_i32 << (15 - bins[bin].shift)) as i16).to_le_bytes();
        let symbol = |to: u8| ((to << 5) as i8 >> 5) as u8 ^ if to >= 8 { FLIP } else { 0 };
        let exponent_shift = 8 - i32::from(tables.exponent_bits);
        let mut table = Self {
            low: ByBin::new(|bin| ((1_u16 << bins[bin].shift) - 1) as u8),
            flip: ByBin::new(|bin| if bins[bin].has_flip_bit { 1 << bins[bin].shift } else { 0 }),
            centre: ByBin::new(|bin| bins[bin].centre as u8),
            factor: [ByBin::new(|bin| factor(bin)[1]), ByBin::new(|bin| factor(bin)[0])],
            first: _mm256_set1_epi8(tables.exponent_first.min(255) as i8),
            last: _mm256_set1_epi8(tables.last as i8),
            exponent_shift: _mm_cvtsi32_si128(exponent_shift),
            exponent_mask: _mm256_set1_epi8((0xff_u8 >> exponent_shift) as i8),
            rows: [(_mm256_setzero_si256(), _mm256_setzero_si256()); BIN_ROWS_MAX as usize],
            row_count: 0,
        };
        for bin in 0..BINS {
            let is_new = tables.has_rows && (bin == 0 || rows[bin] != rows[bin - 1]);
            if is_new && table.row_count < table.rows.len() {
                let row = rows[bin].map(symbol);
                // SAFETY: 16 bytes.
                let row =
                    unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(row.as_ptr().cast())) };
                table.rows[table.row_count] = (_mm256_set1_epi8(bin as i8 - 1), row);
                table.row_count += 1;
            }
        }
        table
    }

    /// The bins of 32 bases, by their top 16 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bins(&self, [b0, b1]: [__m256i; 2]) -> Bins {
        let top = |b: __m256i| _mm256_srli_epi16::<8>(_mm256_add_epi16(b, b));
        let top = _mm256_packus_epi16(top(b0), top(b1));
        let exponents =
            _mm256_and_si256(_mm256_srl_epi16(top, self.exponent_shift), self.exponent_mask);
        let numbers = _mm256_min_epu8(_mm256_subs_epu8(exponents, self.first), self.last);
        let places = [
            _mm256_add_epi8(numbers, _mm256_set1_epi8(0x70)),
            _mm256_sub_epi8(numbers, _mm256_set1_epi8(0x10)),
        ];
        Bins { numbers, places }
    }

    /// Symbols after their rows; `flips` has the top bit of those whose sign changed, if the symbol
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

/// The numbers of symbols, and the top bit of those whose sign changed.
#[inline]
#[target_feature(enable = "avx2")]
fn split(symbols: __m256i) -> (__m256i, __m256i) {
    let differs = _mm256_xor_si256(symbols, _mm256_add_epi8(symbols, symbols));
    let flips = _mm256_and_si256(differs, _mm256_set1_epi8(FLIP as i8));
    (_mm256_xor_si256(symbols, flips), flips)
}

/// 32 values set against their base.
struct Apart {
    /// Differences without the bytes that stand raw; those that do not fit are as large as can be.
    coded: [__m256i; 2],
    /// The top 16 bits of the bases.
    tops: [__m256i; 2],
    /// Words that are negative where the sign is not that of the base.
    changed: [__m256i; 2],
}

/// Values of one width, with as many raw bytes each.
trait Words {
    const WIDTH: usize;
    const RAW: usize;

    /// Sets 32 values against their base; their raw bytes go to `records`.
    ///
    /// # Safety
    /// The CPU has AVX2; 32 values can be read at `values` and at `base`, and their raw bytes written
    /// at `records`.
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8) -> Apart;

    /// The top 16 bits of 32 bases.
    ///
    /// # Safety
    /// The CPU has AVX2; 32 values can be read at `base`.
    unsafe fn tops(base: *const u8) -> [__m256i; 2];

    /// Undoes [`Words::load`]; the top bits of `flips` say where the sign changes.
    ///
    /// # Safety
    /// The CPU has AVX2; 32 values can be read at `base` and written at `to`, and their raw bytes
    /// read at `records`. `to` is aligned to 32 bytes if `STREAM`.
    unsafe fn store<const STREAM: bool>(
        coded: [__m256i; 2],
        flips: [__m256i; 2],
        base: *const u8,
        records: *const u8,
        to: *mut u8,
    );
}

/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn get(from: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// 32 bytes can be written at `to`, which is aligned to 32 bytes if `STREAM`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put<const STREAM: bool>(to: *mut u8, bytes: __m256i) {
    // SAFETY: the caller's.
    unsafe {
        if STREAM {
            _mm256_stream_si256(to.cast(), bytes);
        } else {
            _mm256_storeu_si256(to.cast(), bytes);
        }
    }
}

/// The bits of `a` where `mask` has them, and elsewhere those of `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn select(mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b))
}

/// The bytes of a vector as 32 words.
#[inline]
#[target_feature(enable = "avx2")]
fn widened(bytes: __m256i) -> [__m256i; 2] {
    [
        _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes)),
        _mm256_cvtepu8_epi16(_mm256_extracti128_si256::<1>(bytes)),
    ]
}

/// Words of 2 bytes.
struct Twos;

impl Words for Twos {
    const WIDTH: usize = 2;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(values: *const u8, base: *const u8, _records: *mut u8) -> Apart {
        let magnitudes = _mm256_set1_epi16(i16::MAX);
        // SAFETY: the caller's.
        let ([x0, x1], [b0, b1]) = unsafe { (Self::tops(values), Self::tops(base)) };
        let m = |word| _mm256_and_si256(word, magnitudes);
        Apart {
            coded: [_mm256_sub_epi16(m(x0), m(b0)), _mm256_sub_epi16(m(x1), m(b1))],
            tops: [b0, b1],
            changed: [_mm256_xor_si256(x0, b0), _mm256_xor_si256(x1, b1)],
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tops(base: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's.
        unsafe { [get(base), get(base.add(32))] }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m256i; 2],
        flips: [__m256i; 2],
        base: *const u8,
        _records: *const u8,
        to: *mut u8,
    ) {
        let magnitudes = _mm256_set1_epi16(i16::MAX);
        // SAFETY: the caller's.
        let bs = unsafe { Self::tops(base) };
        for half in 0..2 {
            let magnitude = _mm256_add_epi16(_mm256_and_si256(bs[half], magnitudes), coded[half]);
            let sign = _mm256_xor_si256(bs[half], flips[half]);
            // SAFETY: the caller's.
            unsafe { put::<STREAM>(to.add(32 * half), select(magnitudes, magnitude, sign)) };
        }
    }
}

/// Bytes.
struct Ones;

impl Words for Ones {
    const WIDTH: usize = 1;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(values: *const u8, base: *const u8, _records: *mut u8) -> Apart {
        let magnitudes = _mm256_set1_epi16(0x7f);
        // SAFETY: the caller's.
        let ([x0, x1], [b0, b1]) = unsafe { (widened(get(values)), widened(get(base))) };
        let m = |word| _mm256_and_si256(word, magnitudes);
        let top = |word| _mm256_slli_epi16::<8>(word);
        Apart {
            coded: [_mm256_sub_epi16(m(x0), m(b0)), _mm256_sub_epi16(m(x1), m(b1))],
            tops: [top(b0), top(b1)],
            changed: [top(_mm256_xor_si256(x0, b0)), top(_mm256_xor_si256(x1, b1))],
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tops(base: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's.
        let [b0, b1] = widened(unsafe { get(base) });
        [_mm256_slli_epi16::<8>(b0), _mm256_slli_epi16::<8>(b1)]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m256i; 2],
        flips: [__m256i; 2],
        base: *const u8,
        _records: *const u8,
        to: *mut u8,
    ) {
        let low = _mm256_set1_epi16(0xff);
        let bytes = |a, b| _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packus_epi16(a, b));
        let coded = bytes(_mm256_and_si256(coded[0], low), _mm256_and_si256(coded[1], low));
        let flips = bytes(_mm256_srli_epi16::<8>(flips[0]), _mm256_srli_epi16::<8>(flips[1]));
        let magnitudes = _mm256_set1_epi8(i8::MAX);
        // SAFETY: the caller's.
        unsafe {
            let b = get(base);
            let magnitude = _mm256_add_epi8(_mm256_and_si256(b, magnitudes), coded);
            put::<STREAM>(to, select(magnitudes, magnitude, _mm256_xor_si256(b, flips)));
        }
    }
}

/// Words of 4 bytes, `RAW` of which stand raw.
struct Fours<const RAW: usize>;

impl<const RAW: usize> Fours<RAW> {
    const HALF: i32 = if RAW > 0 { 1 << (8 * RAW - 1) } else { 0 };

    /// The low words of four vectors of 8 values, each as large as it can be if it does not fit.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn packed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 2] {
        [
            _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packs_epi32(a, b)),
            _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packs_epi32(c, d)),
        ]
    }

    /// Writes the raw bytes of 8 values.
    ///
    /// # Safety
    /// They can be written.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn put_raw(apart: __m256i, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            if RAW == 0 {
                return;
            }
            // The low bytes of each half, closed up.
            let places: [i8; 16] =
                std::array::from_fn(
                    |i| {
                        if i < 4 * RAW { (i / RAW * 4 + i % RAW) as i8 } else { -1 }
                    },
                );
            let places = _mm256_broadcastsi128_si256(_mm_loadu_si128(places.as_ptr().cast()));
            let bytes = _mm256_shuffle_epi8(apart, places);
            for (half, bytes) in
                [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)]
                    .into_iter()
                    .enumerate()
            {
                let to = to.add(4 * RAW * half);
                match RAW {
                    1 => _mm_storeu_si32(to.cast(), bytes),
                    2 => _mm_storeu_si64(to.cast(), bytes),
                    _ => {
                        _mm_storeu_si64(to.cast(), bytes);
                        _mm_storeu_si32(to.add(8).cast(), _mm_srli_si128::<8>(bytes));
                    }
                }
            }
        }
    }

    /// Reads the raw bytes of 8 values.
    ///
    /// # Safety
    /// They can be read.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn get_raw(from: *const u8) -> __m256i {
        // SAFETY: the caller's.
        unsafe {
            match RAW {
                0 => _mm256_setzero_si256(),
                1 => _mm256_cvtepu8_epi32(_mm_loadu_si64(from.cast())),
                2 => _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())),
                _ => {
                    let four = |from: *const u8| {
                        let high = _mm_loadu_si32(from.add(8).cast());
                        _mm_unpacklo_epi64(_mm_loadu_si64(from.cast()), high)
                    };
                    let both = _mm256_set_m128i(four(from.add(12)), four(from));
                    let places = _mm256_setr_epi8(
                        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 0, 1, 2, -1, 3, 4, 5,
                        -1, 6, 7, 8, -1, 9, 10, 11, -1,
                    );
                    _mm256_shuffle_epi8(both, places)
                }
            }
        }
    }
}

impl<const RAW: usize> Words for Fours<RAW> {
    const WIDTH: usize = 4;
    const RAW: usize = RAW;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8) -> Apart {
        let (magnitudes, half) = (_mm256_set1_epi32(i32::MAX), _mm256_set1_epi32(Self::HALF));
        let shift = _mm_cvtsi32_si128(8 * RAW as i32);
        let mut coded = [_mm256_setzero_si256(); 4];
        let (mut tops, mut changed) = (coded, coded);
        for i in 0..4 {
            // SAFETY: the caller's.
            unsafe {
                let (x, b) = (get(values.add(32 * i)), get(base.add(32 * i)));
                let apart = _mm256_sub_epi32(
                    _mm256_and_si256(x, magnitudes),
                    _mm256_and_si256(b, magnitudes),
                );
                let apart = _mm256_add_epi32(apart, half);
                Self::put_raw(apart, records.add(8 * RAW * i));
                coded[i] = _mm256_sra_epi32(apart, shift);
                tops[i] = _mm256_srai_epi32::<16>(b);
                changed[i] = _mm256_srai_epi32::<16>(_mm256_xor_si256(x, b));
            }
        }
        Apart {
            coded: Self::packed(coded),
            tops: Self::packed(tops),
            changed: Self::packed(changed),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tops(base: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller's.
        let top = |i: usize| unsafe { _mm256_srai_epi32::<16>(get(base.add(32 * i))) };
        Self::packed([top(0), top(1), top(2), top(3)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m256i; 2],
        flips: [__m256i; 2],
        base: *const u8,
        records: *const u8,
        to: *mut u8,
    ) {
        let magnitudes = _mm256_set1_epi32(i32::MAX);
        let shift = _mm_cvtsi32_si128(8 * RAW as i32);
        let eight = |words: [__m256i; 2], i: usize| {
            let words = match i % 2 {
                0 => _mm256_castsi256_si128(words[i / 2]),
                _ => _mm256_extracti128_si256::<1>(words[i / 2]),
            };
            _mm256_cvtepi16_epi32(words)
        };
        for i in 0..4 {
            // SAFETY: the caller's.
            unsafe {
                let b = get(base.add(32 * i));
                let low = Self::get_raw(records.add(8 * RAW * i));
                let low = _mm256_sub_epi32(low, _mm256_set1_epi32(Self::HALF));
                let high = _mm256_sll_epi32(eight(coded, i), shift);
                let magnitude = _mm256_add_epi32(_mm256_and_si256(b, magnitudes), high);
                let magnitude = _mm256_add_epi32(magnitude, low);
                let sign = _mm256_xor_si256(b, eight(flips, i));
                put::<STREAM>(to.add(32 * i), select(magnitudes, magnitude, sign));
            }
        }
    }
}

/// Cuts whole groups of values.
///
/// # Safety
/// The CPU has AVX2 and BMI2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) unsafe fn cut(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    // SAFETY: the caller's.
    unsafe {
        match (tables.width_log2, tables.raw_bytes) {
            (0, _) => cut_words::<Ones>(tables, values, base, parts),
            (1, _) => cut_words::<Twos>(tables, values, base, parts),
            (_, 0) => cut_words::<Fours<0>>(tables, values, base, parts),
            (_, 1) => cut_words::<Fours<1>>(tables, values, base, parts),
            (_, 2) => cut_words::<Fours<2>>(tables, values, base, parts),
            _ => cut_words::<Fours<3>>(tables, values, base, parts),
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
    let table = Table::new(tables, &tables.forward);
    let low_bytes = _mm256_set1_epi16(0xff);
    let zero = _mm256_setzero_si256();
    let top = _mm256_set1_epi8(FLIP as i8);
    let (bytes, mut word, mut bits) = payload.place();
    assert!(bytes.len() >= n + 16);
    let start = bytes.as_mut_ptr();
    let mut to = start;
    for i in 0..n / 32 {
        // SAFETY: these 32 values are inside of all slices, and the payload of all values up to them
        // takes at most eight bits for each.
        unsafe {
            let place = 32 * W::WIDTH * i;
            let (x, b) = (values.as_ptr().add(place), base.as_ptr().add(place));
            for line in 0..W::WIDTH.div_ceil(2) {
                prefetch(x.wrapping_add(AHEAD + 64 * line));
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let Apart { coded, tops, changed } =
                W::load(x, b, records.as_mut_ptr().add(32 * W::RAW * i));
            let bins = table.bins(tops);
            let low = table.low.of(bins);
            let flip = table.flip.of(bins);
            let half = _mm256_avg_epu8(low, zero);
            let changed = _mm256_and_si256(_mm256_packs_epi16(changed[0], changed[1]), top);
            // The number of a bin is the difference, less half a bin and more one, divided by the
            // width of a bin and rounded up: minus the high half of a product with a negative factor.
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
            let outside = _mm256_or_si256(
                _mm256_cmpgt_epi8(minus, _mm256_set1_epi8(BIN_MAX as i8)),
                _mm256_cmpgt_epi8(_mm256_set1_epi8(1 - BIN_MAX as i8), minus),
            );
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
            // All bits of a byte whose sign changed.
            let is_changed = _mm256_cmpgt_epi8(zero, changed);
            let own = _mm256_or_si256(own, _mm256_and_si256(flip, is_changed));
            // An exception needs no payload.
            let own = _mm256_andnot_si256(outside, own);
            let mut owns = [0_u64; 4];
            let mut masks = [0_u64; 4];
            _mm256_storeu_si256(owns.as_mut_ptr().cast(), own);
            _mm256_storeu_si256(masks.as_mut_ptr().cast(), _mm256_or_si256(low, flip));
            for place in [0, 2, 1, 3] {
                let own = _pext_u64(owns[place], masks[place]);
                word |= own << bits;
                to.cast::<u64>().write_unaligned(word);
                let total = bits + masks[place].count_ones();
                // Shifted twice: all 64 bits may have gone into the word.
                let over = (own >> 1) >> (63 - bits);
                let is_full = total >= 64;
                word = if is_full { over } else { word };
                to = to.add(8 * usize::from(is_full));
                bits = total & 63;
            }
        }
    }
    // SAFETY: both are in the same buffer.
    let len = unsafe { to.offset_from_unsigned(start) };
    payload.go_on(len, word, bits);
}

/// Joins whole groups of values; returns how far it came.
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
    // SAFETY: the caller's.
    unsafe {
        match (tables.width_log2, tables.raw_bytes) {
            (0, _) => join_words::<Ones>(tables, base, parts, dst, streaming),
            (1, _) => join_words::<Twos>(tables, base, parts, dst, streaming),
            (_, 0) => join_words::<Fours<0>>(tables, base, parts, dst, streaming),
            (_, 1) => join_words::<Fours<1>>(tables, base, parts, dst, streaming),
            (_, 2) => join_words::<Fours<2>>(tables, base, parts, dst, streaming),
            _ => join_words::<Fours<3>>(tables, base, parts, dst, streaming),
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
    let table = Table::new(tables, &tables.backward);
    let one = _mm256_set1_epi16(1);
    let zero = _mm256_setzero_si256();
    let top = _mm256_set1_epi8(FLIP as i8);
    let streaming = streaming && dst.as_ptr().cast::<__m256i>().is_aligned();
    let (mut bits, mut exceptions) = (0, 0);
    for i in 0..n / 32 {
        // SAFETY: these 32 values are inside of all slices. Before them, at most eight bits were read
        // for each value, and at most 32 bytes are now, so that all reads end in the padding.
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
            for place in [0, 2, 1, 3] {
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
            let coded = [
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
            let flips = [_mm256_unpacklo_epi8(zero, flips), _mm256_unpackhi_epi8(zero, flips)];
            let records = parts.records.as_ptr().add(32 * W::RAW * i);
            let to = dst.as_mut_ptr().add(place);
            if streaming {
                W::store::<true>(coded, flips, b, records, to);
            } else {
                W::store::<false>(coded, flips, b, records, to);
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
