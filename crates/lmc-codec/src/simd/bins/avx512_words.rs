//! Loads and stores of 64 values for the kernels with AVX-512, by width.

use super::eights;
use std::arch::x86_64::*;

/// The bytes of a vector as 64 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::simd) fn widened(bytes: __m512i) -> [__m512i; 2] {
    [
        _mm512_cvtepu8_epi16(_mm512_castsi512_si256(bytes)),
        _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(bytes)),
    ]
}

/// The differences of 64 values from their base.
pub(in crate::simd) struct Apart {
    /// Differences without the raw bytes; those that do not fit have the largest possible value.
    pub coded: [__m512i; 2],
    /// The top 16 bits of the bases.
    pub tops: [__m512i; 2],
    /// Values whose sign differs from their base.
    pub changed: __mmask64,
}

/// Values of one width, each with the same number of raw bytes.
pub(in crate::simd) trait Words {
    const WIDTH: usize;
    const RAW: usize;

    /// Computes the differences of 64 values from their base. Their raw bytes go to `records`.
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `values` and at `base`, and their raw bytes
    /// written at `records`.
    unsafe fn load(values: *const u8, base: *const u8, records: *mut u8, is_integer: bool)
    -> Apart;

    /// The top 16 bits of 64 bases.
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `base`.
    unsafe fn tops(base: *const u8) -> [__m512i; 2];

    /// Undoes [`Words::load`].
    ///
    /// # Safety
    /// The CPU has AVX-512; 64 values can be read at `base` and written at `to`, and their raw
    /// bytes read at `records`. `to` is aligned to 64 bytes if `STREAM`.
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        records: *const u8,
        to: *mut u8,
        is_integer: bool,
    );
}

/// # Safety
/// 64 bytes can be written at `to`, which is aligned to 64 bytes if `STREAM`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::simd) unsafe fn put<const STREAM: bool>(to: *mut u8, bytes: __m512i) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if STREAM {
            _mm512_stream_si512(to.cast(), bytes);
        } else {
            _mm512_storeu_si512(to.cast(), bytes);
        }
    }
}

/// Words of 2 bytes.
pub(in crate::simd) struct Twos;

impl Words for Twos {
    const WIDTH: usize = 2;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        _records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm512_set1_epi16(if is_integer { -1 } else { i16::MAX });
        // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let magnitudes = _mm512_set1_epi16(if is_integer { -1 } else { i16::MAX });
        let signs = _mm512_set1_epi16(i16::MIN);
        // SAFETY: guaranteed by the caller.
        let bs = unsafe { Self::tops(base) };
        for half in 0..2 {
            let magnitude = _mm512_add_epi16(_mm512_and_si512(bs[half], magnitudes), coded[half]);
            let flips = (flips >> (32 * half)) as u32;
            let sign = _mm512_xor_si512(bs[half], _mm512_maskz_mov_epi16(flips, signs));
            // The magnitude is from the first, the top bit from the second.
            let value = _mm512_ternarylogic_epi64::<0xca>(magnitudes, magnitude, sign);
            // SAFETY: guaranteed by the caller.
            unsafe { put::<STREAM>(to.add(64 * half), value) };
        }
    }
}

/// Bytes.
pub(in crate::simd) struct Ones;

impl Words for Ones {
    const WIDTH: usize = 1;
    const RAW: usize = 0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        _records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm512_set1_epi8(if is_integer { -1 } else { i8::MAX });
        // SAFETY: guaranteed by the caller.
        let (x, b) =
            unsafe { (_mm512_loadu_si512(values.cast()), _mm512_loadu_si512(base.cast())) };
        let m = |bytes| _mm512_and_si512(bytes, magnitudes);
        let apart = _mm512_sub_epi8(m(x), m(b));
        Apart {
            coded: [
                _mm512_cvtepi8_epi16(_mm512_castsi512_si256(apart)),
                _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(apart)),
            ],
            tops: widened(b).map(|b| _mm512_slli_epi16::<8>(b)),
            changed: _mm512_movepi8_mask(_mm512_xor_si512(x, b)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn tops(base: *const u8) -> [__m512i; 2] {
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let low_bytes: [u8; 64] = std::array::from_fn(|i| 2 * i as u8);
        // SAFETY: guaranteed by the caller, and `low_bytes` has 64 bytes.
        unsafe {
            let low_bytes = _mm512_loadu_si512(low_bytes.as_ptr().cast());
            let b = _mm512_loadu_si512(base.cast());
            let coded = _mm512_permutex2var_epi8(coded[0], low_bytes, coded[1]);
            let magnitudes = _mm512_set1_epi8(if is_integer { -1 } else { i8::MAX });
            let signs = _mm512_set1_epi8(i8::MIN);
            let magnitude = _mm512_add_epi8(_mm512_and_si512(b, magnitudes), coded);
            let sign = _mm512_xor_si512(b, _mm512_maskz_mov_epi8(flips, signs));
            let value = _mm512_ternarylogic_epi64::<0xca>(magnitudes, magnitude, sign);
            put::<STREAM>(to, value);
        }
    }
}

/// Words of 4 bytes with `RAW` raw bytes.
pub(in crate::simd) struct Fours<const RAW: usize>;

impl<const RAW: usize> Fours<RAW> {
    const HALF: i32 = if RAW > 0 { 1 << (8 * RAW - 1) } else { 0 };

    /// The low words of four vectors of 16 values. A word that does not fit gets the largest
    /// possible value.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn packed(words: [__m512i; 4]) -> [__m512i; 2] {
        let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
        let pair = |a, b| _mm512_permutexvar_epi64(order, _mm512_packs_epi32(a, b));
        [pair(words[0], words[1]), pair(words[2], words[3])]
    }
}

/// Places of the three low bytes of each of 16 words of 4 bytes.
const THREE_OF_FOUR: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 48 {
        places[i] = (i / 3 * 4 + i % 3) as u8;
        i += 1;
    }
    places
};
/// Places, among 48 bytes, of the bytes of each of 16 words of 4 bytes; those of the fourth byte
/// mean nothing.
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
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        let magnitudes = _mm512_set1_epi32(if is_integer { -1 } else { i32::MAX });
        let half = _mm512_set1_epi32(Self::HALF);
        let mut coded = [_mm512_setzero_si512(); 4];
        let mut tops = coded;
        let mut changed = 0;
        for i in 0..4 {
            // SAFETY: guaranteed by the caller.
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
        // SAFETY: guaranteed by the caller.
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
        is_integer: bool,
    ) {
        let magnitudes = _mm512_set1_epi32(if is_integer { -1 } else { i32::MAX });
        let signs = _mm512_set1_epi32(i32::MIN);
        for i in 0..4 {
            let words = match i % 2 {
                0 => _mm512_castsi512_si256(coded[i / 2]),
                _ => _mm512_extracti64x4_epi64::<1>(coded[i / 2]),
            };
            let shift = _mm_cvtsi32_si128(8 * RAW as i32);
            let high = _mm512_sll_epi32(_mm512_cvtepi16_epi32(words), shift);
            // SAFETY: guaranteed by the caller.
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

/// Words of 8 bytes with `RAW` raw bytes.
pub(in crate::simd) struct Eights<const RAW: usize>;

/// 64 words of 2 bytes as two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn vectors<T>(words: [T; 64]) -> [__m512i; 2] {
    assert!(size_of::<T>() == 2);
    // SAFETY: `words` has 128 bytes.
    [0, 32].map(|at| unsafe { _mm512_loadu_si512(words.as_ptr().add(at).cast()) })
}

/// Undoes [`vectors`].
#[inline]
#[target_feature(enable = "avx512f")]
fn words<T: Copy + Default>(vectors: [__m512i; 2]) -> [T; 64] {
    assert!(size_of::<T>() == 2);
    let mut words = [T::default(); 64];
    for (half, vector) in vectors.into_iter().enumerate() {
        // SAFETY: `words` has 128 bytes.
        unsafe { put::<false>(words.as_mut_ptr().add(32 * half).cast(), vector) };
    }
    words
}

impl<const RAW: usize> Words for Eights<RAW> {
    const WIDTH: usize = 8;
    const RAW: usize = RAW;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn load(
        values: *const u8,
        base: *const u8,
        records: *mut u8,
        is_integer: bool,
    ) -> Apart {
        // SAFETY: guaranteed by the caller.
        let eights::Apart { coded, tops, changed } =
            unsafe { eights::load::<64, RAW>(values, base, records, is_integer) };
        let [low, high] = vectors(changed).map(|changed| u64::from(_mm512_movepi16_mask(changed)));
        Apart { coded: vectors(coded), tops: vectors(tops), changed: low | high << 32 }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn tops(base: *const u8) -> [__m512i; 2] {
        // SAFETY: guaranteed by the caller.
        vectors(unsafe { eights::tops::<64>(base) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store<const STREAM: bool>(
        coded: [__m512i; 2],
        flips: __mmask64,
        base: *const u8,
        records: *const u8,
        to: *mut u8,
        is_integer: bool,
    ) {
        let flips = [0, 32].map(|at| _mm512_movm_epi16((flips >> at) as u32));
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (coded, flips) = (words(coded), words(flips));
            eights::store::<64, RAW>(coded, flips, base, records, to, is_integer);
        }
    }
}
