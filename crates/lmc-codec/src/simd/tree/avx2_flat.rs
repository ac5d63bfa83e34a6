//! Flat nodes with AVX2 and BMI2: numbers of a few bits, packed and unpacked 32 at a time.

use super::super::chain::eights::ONES;
use super::avx2::{Rows, STEP, load_sixteens};
use super::low_mask;
use std::arch::x86_64::*;

/// The largest number of bits for which [`pack_groups`] works: factors are signed bytes.
const GROUPED_BITS_MAX: u8 = 6;

/// Like [`super::pack`], for fewer than 8 bits.
#[target_feature(enable = "avx2,bmi2")]
pub(super) fn pack(first: u8, bits: u8, ranks: &[u8], out: &mut Vec<u8>) {
    let mut ranks = ranks;
    if bits <= GROUPED_BITS_MAX {
        let (groups, rest) = ranks.as_chunks();
        pack_groups(first, bits, groups, out);
        ranks = rest;
    }
    let (mask, firsts) = (ONES * u64::from(low_mask(bits)), ONES * u64::from(first));
    let (eights, tail) = ranks.as_chunks::<8>();
    let bits = usize::from(bits);
    out.reserve(bits * eights.len() + 8);
    // SAFETY: each step writes eight bytes and moves on by at most eight, within what was reserved;
    // the bytes up to the last step's `bits` have been written when they become part of `out`.
    unsafe {
        let mut to = out.as_mut_ptr().add(out.len());
        for &eight in eights {
            // No rank is below the first one, so nothing is borrowed from a neighbour.
            let numbers = u64::from_le_bytes(eight).wrapping_sub(firsts);
            to.cast::<u64>().write_unaligned(_pext_u64(numbers, mask).to_le());
            to = to.add(bits);
        }
        out.set_len(out.len() + bits * eights.len());
    }
    super::portable::pack(first, bits as u8, tail, out);
}

/// [`pack`] for whole groups.
#[target_feature(enable = "avx2")]
fn pack_groups(first: u8, bits: u8, groups: &[[u8; 32]], out: &mut Vec<u8>) {
    let first = _mm256_set1_epi8(first as i8);
    // Numbers are joined in pairs, three times, and are then at the start of each eight bytes.
    let twos = _mm256_set1_epi16(1 | 256 << bits);
    let fours = _mm256_set1_epi32(1 | 65536 << (2 * bits));
    let apart = 32 - 4 * i32::from(bits);
    let (up, down) = (_mm256_set1_epi64x(i64::from(apart)), _mm_cvtsi32_si128(apart));
    let bits = usize::from(bits);
    let own = |i: usize| if i < 2 * bits { i / bits * 8 + i % bits } else { 0 };
    let order: [u8; 16] = std::array::from_fn(|i| own(i) as u8);
    out.reserve(4 * bits * groups.len() + 16);
    // SAFETY: a group has 32 bytes and an order 16. Each half of a group writes 16 bytes and moves
    // on by `2 * bits`, within what was reserved; the bytes up to there have been written when they
    // become part of `out`.
    unsafe {
        let order = _mm256_broadcastsi128_si256(_mm_loadu_si128(order.as_ptr().cast()));
        let mut to = out.as_mut_ptr().add(out.len());
        for group in groups {
            let v = _mm256_sub_epi8(_mm256_loadu_si256(group.as_ptr().cast()), first);
            let v = _mm256_madd_epi16(_mm256_maddubs_epi16(v, twos), fours);
            let v = _mm256_srl_epi64(_mm256_sllv_epi32(v, up), down);
            let v = _mm256_shuffle_epi8(v, order);
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(v));
            _mm_storeu_si128(to.add(2 * bits).cast(), _mm256_extracti128_si256::<1>(v));
            to = to.add(4 * bits);
        }
        out.set_len(out.len() + 4 * bits * groups.len());
    }
}

/// Unpacks numbers of a few bits.
struct Numbers {
    bits: usize,
    /// For 16 numbers, the places of the two bytes that hold each number, for the lower and the
    /// upper eight.
    places: [__m256i; 2],
    /// Moves each of eight numbers to the top of its two bytes.
    up: __m256i,
    /// How far all numbers move down from there.
    down: __m128i,
}

impl Numbers {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bits: usize) -> Self {
        let (mut places, mut up) = ([[0; 16]; 2], [0_u16; 8]);
        for i in 0..16 {
            // With eight bits the second byte is ignored, so its place does not matter.
            let at = (i * bits / 8) as u8;
            places[i / 8][2 * (i % 8)..][..2].copy_from_slice(&[at, at + 1]);
            up[i % 8] = 1 << (16 - bits - i * bits % 8);
        }
        // SAFETY: both have 16 bytes.
        unsafe {
            let load = |at: *const u8| _mm256_broadcastsi128_si256(_mm_loadu_si128(at.cast()));
            Self {
                bits,
                places: places.map(|places| load(places.as_ptr())),
                up: load(up.as_ptr().cast()),
                down: _mm_cvtsi64_si128(16 - bits as i64),
            }
        }
    }

    /// The 32 numbers at `from`.
    ///
    /// # Safety
    /// There are 16 bytes more than their first half takes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn at(&self, from: *const u8) -> __m256i {
        // SAFETY: guaranteed by the caller.
        let own = unsafe { load_sixteens(from, from.add(2 * self.bits)) };
        let [lower, upper] = self.places.map(|places| {
            let words = _mm256_mullo_epi16(_mm256_shuffle_epi8(own, places), self.up);
            _mm256_srl_epi16(words, self.down)
        });
        _mm256_packus_epi16(lower, upper)
    }
}

/// # Safety
/// The CPU has AVX2; `packed` has `bits` bits for each byte of `dst`.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn unpack(bits: u8, symbols: &[u8; 256], packed: &[u8], dst: &mut [u8]) {
    let rows = Rows::new(symbols, (1_usize << bits).div_ceil(16));
    let numbers = Numbers::new(usize::from(bits));
    let (steps, tail) = dst.as_chunks_mut::<STEP>();
    let step = STEP / 8 * usize::from(bits);
    // A step may read up to 14 bytes beyond its own.
    let direct = (packed.len().saturating_sub(BEHIND) / step).min(steps.len());
    let look_up_at = |from: *const u8, to: &mut [u8; STEP]| {
        // SAFETY: the caller of this closure ensures that there are `step + BEHIND` bytes at
        // `from`; `to` has `STEP`.
        unsafe {
            let v = std::array::from_fn(|i| numbers.at(from.add(4 * i * numbers.bits)));
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

/// Bytes that may be read after those of a step.
const BEHIND: usize = 16;

/// At most the bytes of a step, followed by zeros.
fn padded(bytes: &[u8]) -> [u8; STEP + BEHIND] {
    let mut all = [0; STEP + BEHIND];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}
