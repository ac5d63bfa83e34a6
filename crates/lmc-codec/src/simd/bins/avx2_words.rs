//! Loads and stores of 32 values for the kernels with AVX2, by width.

use super::eights;
use std::arch::x86_64::*;

/// The order of the groups of eight bytes that `vpackuswb` leaves; it is its own inverse.
pub(in crate::simd) const SWAPPED: i32 = 0b11_01_10_00;

/// The differences of 32 values from their base.
pub(in crate::simd) struct Apart {
    /// Differences without the raw bytes; those that do not fit have the largest possible value.
    pub coded: [__m256i; 2],
    /// The top 16 bits of the bases.
    pub tops: [__m256i; 2],
    /// Words that are negative where the sign differs from the base.
    pub changed: [__m256i; 2],
}

/// Values of one width, each with the same number of raw bytes.
pub(in crate::simd) trait Words {
    const WIDTH: usize;
    const RAW: usize;

    /// Computes the differences of 32 values from their base. Their raw bytes go to `records`.
    ///
    /// # Safety
    /// The CPU has AVX2; 32 values can be read at `values` and at `base`, and their raw bytes
    /// written at `records`.
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8, is_integer: bool)
    -> Apart;

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
        is_integer: bool,
    );
}

/// # Safety
/// 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) unsafe fn get(from: *const u8) -> __m256i {
    // SAFETY: guaranteed by the caller.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// 32 bytes can be written at `to`, which is aligned to 32 bytes if `STREAM`.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) unsafe fn put<const STREAM: bool>(to: *mut u8, bytes: __m256i) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if STREAM {
            _mm256_stream_si256(to.cast(), bytes);
        } else {
            _mm256_storeu_si256(to.cast(), bytes);
        }
    }
}

/// The bits of `a` where `mask` is set, and elsewhere those of `b`.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn select(mask: __m256i, a: __m256i, b: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b))
}

/// The bytes of a vector as 32 words.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn widened(bytes: __m256i) -> [__m256i; 2] {
    [
        _mm256_cvtepu8_epi16(_mm256_castsi256_si128(bytes)),
        _mm256_cvtepu8_epi16(_mm256_extracti128_si256::<1>(bytes)),
    ]
}

/// Words of 2 bytes.
pub(in crate::simd) struct Twos;

impl Words for Twos {
    const WIDTH: usize = 2;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        _records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm256_set1_epi16(if is_integer { -1 } else { i16::MAX });
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let magnitudes = _mm256_set1_epi16(if is_integer { -1 } else { i16::MAX });
        // SAFETY: guaranteed by the caller.
        let bs = unsafe { Self::tops(base) };
        for half in 0..2 {
            let magnitude = _mm256_add_epi16(_mm256_and_si256(bs[half], magnitudes), coded[half]);
            let sign = _mm256_xor_si256(bs[half], flips[half]);
            // SAFETY: guaranteed by the caller.
            unsafe { put::<STREAM>(to.add(32 * half), select(magnitudes, magnitude, sign)) };
        }
    }
}

/// Bytes.
pub(in crate::simd) struct Ones;

impl Words for Ones {
    const WIDTH: usize = 1;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        _records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm256_set1_epi8(if is_integer { -1 } else { i8::MAX });
        // SAFETY: guaranteed by the caller.
        let (x, b) = unsafe { (get(values), get(base)) };
        let m = |bytes| _mm256_and_si256(bytes, magnitudes);
        let apart = _mm256_sub_epi8(m(x), m(b));
        let tops = |bytes| widened(bytes).map(|word| _mm256_slli_epi16::<8>(word));
        Apart {
            coded: tops(apart).map(|word| _mm256_srai_epi16::<8>(word)),
            tops: tops(b),
            changed: tops(_mm256_xor_si256(x, b)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tops(base: *const u8) -> [__m256i; 2] {
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let low = _mm256_set1_epi16(0xff);
        let bytes = |a, b| _mm256_permute4x64_epi64::<SWAPPED>(_mm256_packus_epi16(a, b));
        let coded = bytes(_mm256_and_si256(coded[0], low), _mm256_and_si256(coded[1], low));
        let flips = bytes(_mm256_srli_epi16::<8>(flips[0]), _mm256_srli_epi16::<8>(flips[1]));
        let magnitudes = _mm256_set1_epi8(if is_integer { -1 } else { i8::MAX });
        // SAFETY: guaranteed by the caller.
        unsafe {
            let b = get(base);
            let magnitude = _mm256_add_epi8(_mm256_and_si256(b, magnitudes), coded);
            put::<STREAM>(to, select(magnitudes, magnitude, _mm256_xor_si256(b, flips)));
        }
    }
}

/// Words of 4 bytes with `RAW` raw bytes.
pub(in crate::simd) struct Fours<const RAW: usize>;

impl<const RAW: usize> Fours<RAW> {
    const HALF: i32 = if RAW > 0 { 1 << (8 * RAW - 1) } else { 0 };

    /// The low words of four vectors of 8 values. A word that does not fit gets the largest
    /// possible value.
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
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm256_set1_epi32(if is_integer { -1 } else { i32::MAX });
        let half = _mm256_set1_epi32(Self::HALF);
        let shift = _mm_cvtsi32_si128(8 * RAW as i32);
        let mut coded = [_mm256_setzero_si256(); 4];
        let (mut tops, mut changed) = (coded, coded);
        for i in 0..4 {
            // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let magnitudes = _mm256_set1_epi32(if is_integer { -1 } else { i32::MAX });
        let shift = _mm_cvtsi32_si128(8 * RAW as i32);
        let eight = |words: [__m256i; 2], i: usize| {
            let words = match i % 2 {
                0 => _mm256_castsi256_si128(words[i / 2]),
                _ => _mm256_extracti128_si256::<1>(words[i / 2]),
            };
            _mm256_cvtepi16_epi32(words)
        };
        for i in 0..4 {
            // SAFETY: guaranteed by the caller.
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

/// Words of 8 bytes with `RAW` raw bytes.
pub(in crate::simd) struct Eights<const RAW: usize>;

/// 32 words of 2 bytes as two vectors.
///
/// # Safety
/// The CPU has AVX2.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn vectors<T>(words: [T; 32]) -> [__m256i; 2] {
    assert!(size_of::<T>() == 2);
    // SAFETY: `words` has 64 bytes.
    unsafe { [get(words.as_ptr().cast()), get(words.as_ptr().add(16).cast())] }
}

/// Undoes [`vectors`].
#[inline]
#[target_feature(enable = "avx2")]
fn words<T: Copy + Default>(vectors: [__m256i; 2]) -> [T; 32] {
    assert!(size_of::<T>() == 2);
    let mut words = [T::default(); 32];
    for (half, vector) in vectors.into_iter().enumerate() {
        // SAFETY: `words` has 64 bytes.
        unsafe { put::<false>(words.as_mut_ptr().add(16 * half).cast(), vector) };
    }
    words
}

impl<const RAW: usize> Words for Eights<RAW> {
    const WIDTH: usize = 8;
    const RAW: usize = RAW;

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let eights::Apart { coded, tops, changed } =
                eights::load::<32, RAW>(values, base, records, is_integer);
            Apart { coded: vectors(coded), tops: vectors(tops), changed: vectors(changed) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tops(base: *const u8) -> [__m256i; 2] {
        // SAFETY: guaranteed by the caller.
        unsafe { vectors(eights::tops::<32>(base)) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m256i; 2],
        flips: [__m256i; 2],
        base: *const u8,
        records: *const u8,
        to: *mut u8,
        is_integer: bool,
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (coded, flips) = (words(coded), words(flips));
            eights::store::<32, RAW>(coded, flips, base, records, to, is_integer);
        }
    }
}
