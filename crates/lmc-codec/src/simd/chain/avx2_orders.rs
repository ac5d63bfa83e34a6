//! Closing up and spreading 16 bytes at a time with `vpshufb`, by orders from tables.

use super::eights::ONES;
use std::arch::x86_64::*;

/// Orders by the bits of the bytes to keep, for the lower and the upper eight of 16 bytes.
type Orders = [[u64; 256]; 2];

/// The places of the set bits, lowest first; the bytes above them are ignored.
static CLOSE: Orders = orders(false);

/// For each place, the number of set bits below it. If its own bit is clear, 128 or more, for which
/// `vpshufb` gives 0.
static SPREAD: Orders = orders(true);

const fn orders(spread: bool) -> Orders {
    let mut orders = [[if spread { 0x80 * ONES } else { 0 }; 256]; 2];
    let mut bits = 0;
    while bits < 256 {
        let (mut place, mut count) = (0, 0);
        while place < 8 {
            if bits >> place & 1 == 1 {
                orders[0][bits] ^=
                    if spread { (128 ^ count) << (8 * place) } else { place << (8 * count) };
                count += 1;
            }
            place += 1;
        }
        orders[1][bits] = orders[0][bits] | (8 * ONES);
        bits += 1;
    }
    orders
}

/// The order that closes up those of eight values whose bit is set.
#[inline(always)]
pub(in crate::simd) fn closing(bits: u8) -> u64 {
    CLOSE[0][usize::from(bits)]
}

/// The order that spreads values over those of eight places whose bit is set; the other places have
/// their top bit set.
#[inline(always)]
pub(in crate::simd) fn spreading(bits: u8) -> u64 {
    SPREAD[0][usize::from(bits)]
}

/// The order of 16 bytes for the low 16 bits of `bits`.
#[inline]
#[target_feature(enable = "avx2")]
fn order(orders: &Orders, bits: u64) -> __m128i {
    let lower = orders[0][(bits & 0xff) as usize];
    let upper = orders[1][(bits >> 8 & 0xff) as usize];
    _mm_set_epi64x(upper as i64, lower as i64)
}

/// Writes the bytes whose bit is set in `on` at `to`, closed up; returns where they end.
///
/// # Safety
/// There is room for 64 bytes at `to`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(in crate::simd) unsafe fn close_up(bytes: [__m256i; 2], on: u64, mut to: *mut u8) -> *mut u8 {
    for (half, v) in bytes.into_iter().enumerate() {
        let sixteens = [_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v)];
        for (quarter, v) in sixteens.into_iter().enumerate() {
            let on = on >> (32 * half + 16 * quarter);
            let closed = _mm_shuffle_epi8(v, order(&CLOSE, on));
            // SAFETY: each group of eight stored bytes is no further on than the bytes it comes
            // from.
            unsafe {
                _mm_storel_epi64(to.cast(), closed);
                to = to.add((on & 0xff).count_ones() as usize);
                _mm_storeh_pd(to.cast(), _mm_castsi128_pd(closed));
                to = to.add((on >> 8 & 0xff).count_ones() as usize);
            }
        }
    }
    to
}

/// Spreads bytes from `*next` on over those of 16 places whose bit is set in the low bits of `on`,
/// with 0 in the others. Advances `next` past the bytes used.
///
/// # Safety
/// As many bytes as there are bits, and eight more, can be read at `*next`.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(in crate::simd) unsafe fn spread(on: u64, next: &mut *const u8) -> __m128i {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let low = next.cast::<i64>().read_unaligned();
        *next = next.add((on & 0xff).count_ones() as usize);
        let high = next.cast::<i64>().read_unaligned();
        *next = next.add((on >> 8 & 0xff).count_ones() as usize);
        _mm_shuffle_epi8(_mm_set_epi64x(high, low), order(&SPREAD, on))
    }
}

/// 32 bits to 32 bytes of 0 or 1.
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::simd) fn spread_bits(bits: u32) -> __m256i {
    let places =
        _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), places);
    let one_each = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_min_epu8(_mm256_and_si256(bytes, one_each), _mm256_set1_epi8(1))
}
