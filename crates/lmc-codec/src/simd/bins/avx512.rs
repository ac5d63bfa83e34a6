//! Bins with AVX-512: 64 values a step. Differences are worked on as words of 2 bytes, whatever the
//! width of a value is; what does not fit them is an exception.

use super::{BINS, EXCEPTION, FLIP, GROUP, Joined, Parts, Progress, Tables, too_few_exceptions};
use crate::simd::prefetch;
use lmc_format::Result;
use lmc_format::limits::BIN_MAX;
use std::arch::x86_64::*;

/// How far ahead memory is asked for, in bytes.
const AHEAD: usize = 1024;

/// What is known of a value by the bin of its base, one byte for each bin.
struct ByBin {
    shift: __m512i,
    centre: __m512i,
    /// The bits of the payload that are those of the difference.
    low: __m512i,
    /// The bit of the payload that says that the sign changed; 0 if there is none.
    flip: __m512i,
    /// Where the bin's row starts.
    row: __m512i,
    first: __m512i,
    last: __m512i,
    exponent_shift: __m128i,
    exponent_mask: __m512i,
    /// Places of the low bytes of 64 words in two vectors, and of the high ones.
    low_bytes: __m512i,
    high_bytes: __m512i,
    /// All rows.
    rows: [__m512i; 2],
    has_rows: bool,
}

impl ByBin {
    /// # Safety
    /// The CPU has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn new(tables: &Tables, rows: &[[u8; 16]; BINS]) -> Self {
        let by_bin = |value: &dyn Fn(usize) -> u8| {
            let bytes: [u8; 64] = std::array::from_fn(|i| value(i % BINS));
            // SAFETY: 64 bytes.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        };
        let places = |first: u8| {
            let bytes: [u8; 64] = std::array::from_fn(|i| 2 * i as u8 + first);
            // SAFETY: 64 bytes.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        };
        // Rows that are the same have one place.
        let mut distinct: Vec<[u8; 16]> = Vec::new();
        let mut numbers = [0_u8; BINS];
        for (number, row) in numbers.iter_mut().zip(rows) {
            let known = distinct.iter().position(|known| known == row);
            *number = known.unwrap_or(distinct.len()) as u8;
            if known.is_none() {
                distinct.push(*row);
            }
        }
        let symbol = |to: u8| ((to << 5) as i8 >> 5) as u8 ^ if to >= 8 { FLIP } else { 0 };
        let mut flat = [0; 128];
        for (to, row) in flat.as_chunks_mut::<16>().0.iter_mut().zip(&distinct) {
            *to = row.map(symbol);
        }
        let bins = &tables.bins;
        let exponent_shift = 8 - i32::from(tables.exponent_bits);
        Self {
            shift: by_bin(&|i| bins[i].shift),
            centre: by_bin(&|i| bins[i].centre as u8),
            low: by_bin(&|i| ((1_u16 << bins[i].shift) - 1) as u8),
            flip: by_bin(&|i| if bins[i].has_flip_bit { 1 << bins[i].shift } else { 0 }),
            row: by_bin(&|i| numbers[i] << 4),
            first: _mm512_set1_epi8(tables.exponent_first.min(255) as i8),
            last: _mm512_set1_epi8(tables.last as i8),
            exponent_shift: _mm_cvtsi32_si128(exponent_shift),
            exponent_mask: _mm512_set1_epi8((0xff_u8 >> exponent_shift) as i8),
            low_bytes: places(0),
            high_bytes: places(1),
            // SAFETY: two times 64 bytes.
            rows: [0, 64].map(|at| unsafe { _mm512_loadu_si512(flat.as_ptr().add(at).cast()) }),
            has_rows: tables.has_rows,
        }
    }

    /// The bins of 64 bases, by their top 16 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn bins(&self, [b0, b1]: [__m512i; 2]) -> __m512i {
        let (b0, b1) = (_mm512_add_epi16(b0, b0), _mm512_add_epi16(b1, b1));
        let top = _mm512_permutex2var_epi8(b0, self.high_bytes, b1);
        let exponents =
            _mm512_and_si512(_mm512_srl_epi16(top, self.exponent_shift), self.exponent_mask);
        _mm512_min_epu8(_mm512_subs_epu8(exponents, self.first), self.last)
    }

    /// Symbols after their rows. `flips` have their sign changed, which the symbol says.
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

/// `a`, in the bytes of `mask` with the bits of `b` changed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_where(a: __m512i, mask: __mmask64, b: __m512i) -> __m512i {
    _mm512_xor_si512(a, _mm512_maskz_mov_epi8(mask, b))
}

/// The bytes of a vector as 64 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn widened(bytes: __m512i) -> [__m512i; 2] {
    [
        _mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)),
        _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(bytes)),
    ]
}

/// 64 values set against their base.
struct Apart {
    /// Differences without the bytes that stand raw; those that do not fit are as large as can be.
    coded: [__m512i; 2],
    /// The top 16 bits of the bases.
    tops: [__m512i; 2],
    /// Values whose sign is not that of their base.
    changed: __mmask64,
}

/// Values of one width, with as many raw bytes each.
trait Words {
    const WIDTH: usize;
    const RAW: usize;

    /// Sets 64 values against their base; their raw bytes go to `records`.
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `values` and at `base`, and their raw bytes
    /// written at `records`.
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8) -> Apart;

    /// The top 16 bits of 64 bases.
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `base`.
    unsafe fn tops(base: *const u8) -> [__m512i; 2];

    /// Undoes [`Words::load`].
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `base` and written at `to`, and their raw bytes
    /// read at `records`. `to` is aligned to 64 bytes if `STREAM`.
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        records: *const u8,
        to: *mut u8,
    );
}

/// # Safety
/// 64 bytes can be written at `to`, which is aligned to 64 bytes if `STREAM`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn put<const STREAM: bool>(to: *mut u8, bytes: __m512i) {
    // SAFETY: the caller's.
    unsafe {
        if STREAM {
            _mm512_stream_si512(to.cast(), bytes);
        } else {
            _mm512_storeu_si512(to.cast(), bytes);
        }
    }
}

/// Words of 2 bytes.
struct Twos;

impl Words for Twos {
    const WIDTH: usize = 2;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(values: *const u8, base: *const u8, _records: *mut u8) -> Apart {
        let magnitudes = _mm512_set1_epi16(i16::MAX);
        // SAFETY: the caller's.
        let (xs, bs) = unsafe { (Self::tops(values), Self::tops(base)) };
        let coded = |i: usize| {
            _mm512_sub_epi16(
                _mm512_and_si512(xs[i], magnitudes),
                _mm512_and_si512(bs[i], magnitudes),
            )
        };
        let changed = |i: usize| u64::from(_mm512_movepi16_mask(_mm512_xor_si512(xs[i], bs[i])));
        Apart { coded: [coded(0), coded(1)], tops: bs, changed: changed(0) | changed(1) << 32 }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn tops(base: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller's.
        unsafe { [_mm512_loadu_si512(base.cast()), _mm512_loadu_si512(base.add(64).cast())] }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        _records: *const u8,
        to: *mut u8,
    ) {
        let (magnitudes, signs) = (_mm512_set1_epi16(i16::MAX), _mm512_set1_epi16(i16::MIN));
        // SAFETY: the caller's.
        let bs = unsafe { Self::tops(base) };
        for half in 0..2 {
            let magnitude = _mm512_add_epi16(_mm512_and_si512(bs[half], magnitudes), coded[half]);
            let flips = (flips >> (32 * half)) as u32;
            let sign = _mm512_xor_si512(bs[half], _mm512_maskz_mov_epi16(flips, signs));
            // The magnitude from the first, the top bit from the second.
            let value = _mm512_ternarylogic_epi64::<0xca>(magnitudes, magnitude, sign);
            // SAFETY: the caller's.
            unsafe { put::<STREAM>(to.add(64 * half), value) };
        }
    }
}

/// Bytes.
struct Ones;

impl Words for Ones {
    const WIDTH: usize = 1;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(values: *const u8, base: *const u8, _records: *mut u8) -> Apart {
        let magnitudes = _mm512_set1_epi8(i8::MAX);
        // SAFETY: the caller's.
        let (x, b) =
            unsafe { (_mm512_loadu_si512(values.cast()), _mm512_loadu_si512(base.cast())) };
        let xs = widened(_mm512_and_si512(x, magnitudes));
        let bs = widened(_mm512_and_si512(b, magnitudes));
        Apart {
            coded: [_mm512_sub_epi16(xs[0], bs[0]), _mm512_sub_epi16(xs[1], bs[1])],
            tops: widened(b).map(|b| _mm512_slli_epi16::<8>(b)),
            changed: _mm512_movepi8_mask(_mm512_xor_si512(x, b)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn tops(base: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller's.
        let bytes = unsafe { _mm512_loadu_si512(base.cast()) };
        widened(bytes).map(|b| _mm512_slli_epi16::<8>(b))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        _records: *const u8,
        to: *mut u8,
    ) {
        let low_bytes: [u8; 64] = std::array::from_fn(|i| 2 * i as u8);
        // SAFETY: the caller's, and 64 bytes.
        unsafe {
            let low_bytes = _mm512_loadu_si512(low_bytes.as_ptr().cast());
            let b = _mm512_loadu_si512(base.cast());
            let coded = _mm512_permutex2var_epi8(coded[0], low_bytes, coded[1]);
            let (magnitudes, signs) = (_mm512_set1_epi8(i8::MAX), _mm512_set1_epi8(i8::MIN));
            let magnitude = _mm512_add_epi8(_mm512_and_si512(b, magnitudes), coded);
            let sign = _mm512_xor_si512(b, _mm512_maskz_mov_epi8(flips, signs));
            let value = _mm512_ternarylogic_epi64::<0xca>(magnitudes, magnitude, sign);
            put::<STREAM>(to, value);
        }
    }
}

/// Words of 4 bytes, `RAW` of which stand raw.
struct Fours<const RAW: usize>;

impl<const RAW: usize> Fours<RAW> {
    const HALF: i32 = if RAW > 0 { 1 << (8 * RAW - 1) } else { 0 };

    /// The low words of four vectors of 16 values, each as large as it can be if it does not fit.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn packed(words: [__m512i; 4]) -> [__m512i; 2] {
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        let pair = |a, b| _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b));
        [pair(words[0], words[1]), pair(words[2], words[3])]
    }
}

/// Where the three low bytes of each of 16 words of 4 bytes are.
const THREE_OF_FOUR: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 48 {
        places[i] = (i / 3 * 4 + i % 3) as u8;
        i += 1;
    }
    places
};
/// Where the bytes of each of 16 words of 4 bytes are among 48; those of the fourth mean nothing.
const FOUR_OF_THREE: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 64 {
        places[i] = (i / 4 * 3 + i % 4) as u8;
        i += 1;
    }
    places
};
/// The 48 low bits.
const THREES: u64 = (1 << 48) - 1;

impl<const RAW: usize> Words for Fours<RAW> {
    const WIDTH: usize = 4;
    const RAW: usize = RAW;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi")]
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8) -> Apart {
        let (magnitudes, half) = (_mm512_set1_epi32(i32::MAX), _mm512_set1_epi32(Self::HALF));
        let mut coded = [_mm512_setzero_si512(); 4];
        let mut tops = coded;
        let mut changed = 0;
        for i in 0..4 {
            // SAFETY: the caller's.
            unsafe {
                let x = _mm512_loadu_si512(values.add(64 * i).cast());
                let b = _mm512_loadu_si512(base.add(64 * i).cast());
                let apart = _mm512_sub_epi32(
                    _mm512_and_si512(x, magnitudes),
                    _mm512_and_si512(b, magnitudes),
                );
                let apart = _mm512_add_epi32(apart, half);
                coded[i] = _mm512_sra_epi32(apart, _mm_cvtsi32_si128(8 * RAW as i32));
                tops[i] = _mm512_srai_epi32::<16>(b);
                changed |= u64::from(_mm512_movepi32_mask(_mm512_xor_si512(x, b))) << (16 * i);
                match RAW {
                    0 => {}
                    1 => _mm_storeu_si128(records.add(16 * i).cast(), _mm512_cvtepi32_epi8(apart)),
                    2 => _mm256_storeu_si256(
                        records.add(32 * i).cast(),
                        _mm512_cvtepi32_epi16(apart),
                    ),
                    _ => {
                        let places = _mm512_loadu_si512(THREE_OF_FOUR.as_ptr().cast());
                        let bytes = _mm512_permutexvar_epi8(places, apart);
                        _mm512_mask_storeu_epi8(records.add(48 * i).cast(), THREES, bytes);
                    }
                }
            }
        }
        Apart { coded: Self::packed(coded), tops: Self::packed(tops), changed }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn tops(base: *const u8) -> [__m512i; 2] {
        // SAFETY: the caller's.
        let top = |i: usize| unsafe {
            _mm512_srai_epi32::<16>(_mm512_loadu_si512(base.add(64 * i).cast()))
        };
        Self::packed([top(0), top(1), top(2), top(3)])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        records: *const u8,
        to: *mut u8,
    ) {
        let (magnitudes, signs) = (_mm512_set1_epi32(i32::MAX), _mm512_set1_epi32(i32::MIN));
        for i in 0..4 {
            let words = match i % 2 {
                0 => _mm512_castsi512_si256(coded[i / 2]),
                _ => _mm512_extracti64x4_epi64::<1>(coded[i / 2]),
            };
            let shift = _mm_cvtsi32_si128(8 * RAW as i32);
            let high = _mm512_sll_epi32(_mm512_cvtepi16_epi32(words), shift);
            // SAFETY: the caller's.
            unsafe {
                let low = match RAW {
                    0 => _mm512_setzero_si512(),
                    1 => _mm512_cvtepu8_epi32(_mm_loadu_si128(records.add(16 * i).cast())),
                    2 => _mm512_cvtepu16_epi32(_mm256_loadu_si256(records.add(32 * i).cast())),
                    _ => {
                        let places = _mm512_loadu_si512(FOUR_OF_THREE.as_ptr().cast());
                        let bytes = _mm512_maskz_loadu_epi8(THREES, records.add(48 * i).cast());
                        let words = _mm512_permutexvar_epi8(places, bytes);
                        _mm512_and_si512(words, _mm512_set1_epi32(0xff_ffff))
                    }
                };
                let b = _mm512_loadu_si512(base.add(64 * i).cast());
                let low = _mm512_sub_epi32(low, _mm512_set1_epi32(Self::HALF));
                let magnitude =
                    _mm512_add_epi32(_mm512_add_epi32(_mm512_and_si512(b, magnitudes), high), low);
                let flips = (flips >> (16 * i)) as u16;
                let sign = _mm512_xor_si512(b, _mm512_maskz_mov_epi32(flips, signs));
                let value = _mm512_ternarylogic_epi64::<0xca>(magnitudes, magnitude, sign);
                put::<STREAM>(to.add(64 * i), value);
            }
        }
    }
}

/// Cuts whole groups of values.
///
/// # Safety
/// The CPU has AVX-512.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
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
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt,lzcnt"
)]
unsafe fn cut_words<W: Words>(tables: &Tables, values: &[u8], base: &[u8], parts: &mut Parts) {
    let Parts { plane, records, payload, exceptions } = parts;
    let n = plane.len();
    assert!(n.is_multiple_of(GROUP) && records.len() == W::RAW * n);
    assert!(values.len() == W::WIDTH * n && base.len() == values.len());
    // SAFETY: the caller's.
    let by_bin = unsafe { ByBin::new(tables, &tables.forward) };
    let one = _mm512_set1_epi16(1);
    let (bytes, mut word, mut bits) = payload.place();
    assert!(bytes.len() >= n + 16);
    let start = bytes.as_mut_ptr();
    let mut to = start;
    for i in 0..n / GROUP {
        // SAFETY: group `i` is inside of all slices, and the payload of all groups up to it takes at
        // most eight bits for each value.
        unsafe {
            let place = W::WIDTH * GROUP * i;
            let (x, b) = (values.as_ptr().add(place), base.as_ptr().add(place));
            for line in 0..W::WIDTH {
                prefetch(x.wrapping_add(AHEAD + 64 * line));
                prefetch(b.wrapping_add(AHEAD + 64 * line));
            }
            let Apart { coded, tops, changed } =
                W::load(x, b, records.as_mut_ptr().add(W::RAW * GROUP * i));
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
            let outside = u64::from(outside[0]) | u64::from(outside[1]) << 32;
            let flip = _mm512_permutexvar_epi8(bins, by_bin.flip);
            let low = _mm512_permutexvar_epi8(bins, by_bin.low);
            let rest = _mm512_permutex2var_epi8(rounded[0], by_bin.low_bytes, rounded[1]);
            let rest = _mm512_and_si512(rest, low);
            let rest = _mm512_or_si512(rest, _mm512_maskz_mov_epi8(changed, flip));
            // An exception needs no payload.
            let rest = _mm512_maskz_mov_epi8(!outside, rest);
            let numbers = _mm512_permutex2var_epi8(numbers[0], by_bin.low_bytes, numbers[1]);
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
            let mut rests = [0_u64; 8];
            let mut masks = [0_u64; 8];
            _mm512_storeu_si512(rests.as_mut_ptr().cast(), rest);
            _mm512_storeu_si512(masks.as_mut_ptr().cast(), _mm512_or_si512(low, flip));
            for (rest, mask) in rests.into_iter().zip(masks) {
                let own = _pext_u64(rest, mask);
                word |= own << bits;
                to.cast::<u64>().write_unaligned(word);
                let total = bits + mask.count_ones();
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
    // SAFETY: the caller's.
    let by_bin = unsafe { ByBin::new(tables, &tables.backward) };
    let one = _mm512_set1_epi16(1);
    let top = _mm512_set1_epi8(FLIP as i8);
    let streaming = streaming && dst.as_ptr().cast::<__m512i>().is_aligned();
    let (mut bits, mut exceptions) = (0, 0);
    for i in 0..n / GROUP {
        // SAFETY: group `i` is inside of all slices. Before it, at most eight bits were read for each
        // value, and at most 64 bytes are now, so that all reads end in the payload's padding.
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
            let flips = flips ^ _mm512_test_epi8_mask(rest, flip);
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
            let coded = [coded(0), coded(1)];
            let records = parts.records.as_ptr().add(W::RAW * GROUP * i);
            let to = dst.as_mut_ptr().add(place);
            if streaming {
                W::store::<true>(coded, flips, b, records, to);
            } else {
                W::store::<false>(coded, flips, b, records, to);
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
