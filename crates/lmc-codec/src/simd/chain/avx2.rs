//! The chain code with AVX2 and BMI2: labels and digits 32 bytes at a time, closing up and
//! spreading eight bytes at a time by `pext` and `pdep`.

use super::{Level, Scratch, Tables, Walk, low_bits, word};
use std::arch::x86_64::*;

/// Writes the chain stream of `src` at `out`; returns its length.
///
/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `near` has room for `src.len() + 64` bytes, `out` for
/// `tables.stream_len_max(src.len()) + 64`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode(tables: &Tables, src: &[u8], near: *mut u8, out: *mut u8) -> usize {
    // SAFETY: the caller gives both buffers enough room. Every level writes at most its
    // `stream_len` and 56 bytes beyond it, and `near` only at places below the number of bytes
    // read so far, plus 8.
    unsafe {
        write_labels(tables, std::slice::from_raw_parts_mut(near, src.len()), src);
        let mut end = out;
        let mut n = src.len();
        for &level in &tables.levels {
            n = if level.two_bits {
                encode_level::<true>(level, near, n, &mut end)
            } else {
                encode_level::<false>(level, near, n, &mut end)
            };
        }
        if n > 0 {
            for &byte in src.iter().filter(|&&b| tables.labels[usize::from(b)] == tables.escape) {
                end.write(byte);
                end = end.add(1);
            }
        }
        end.offset_from_unsigned(out)
    }
}

/// Looks up the label of every byte.
#[target_feature(enable = "avx2")]
fn write_labels(tables: &Tables, near: &mut [u8], src: &[u8]) {
    let vectors = match tables.window {
        Some(low) => write_labels_32(tables, low, near, src),
        None => 0,
    };
    for (label, &byte) in near.iter_mut().zip(src).skip(vectors) {
        *label = tables.labels[usize::from(byte)];
    }
}

/// The same for whole vectors, with symbols in a window of 63 from `low`; returns how many bytes it
/// did.
#[target_feature(enable = "avx2")]
fn write_labels_32(tables: &Tables, low: u8, near: &mut [u8], src: &[u8]) -> usize {
    // `vpshufb` gives 0 where an index has its top bit set. Lookup `k` serves the places 16k to 16k
    // + 15: the saturating addition moves every place above them past 127, and places below
    // wrap there in the subtraction. Labels are kept with all bits turned around relative to
    // the escape, so that 0 stands for an escape and the lookups can be merged by OR.
    let mut lookups = [_mm256_setzero_si256(); 4];
    for (k, lookup) in lookups.iter_mut().enumerate() {
        let mut places = [0_u8; 16];
        for (j, place) in places.iter_mut().enumerate() {
            let offset = 16 * k + j;
            if offset < 63 {
                *place = tables.labels[(usize::from(low) + offset) & 255] ^ tables.escape;
            }
        }
        // SAFETY: `places` has 16 bytes.
        *lookup = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(places.as_ptr().cast())) };
    }
    let widest = (0..=255_u8).filter(|&b| tables.labels[usize::from(b)] != tables.escape).max();
    let used = usize::from(widest.unwrap_or(low) - low) / 16 + 1;
    let low = _mm256_set1_epi8(low as i8);
    let escape = _mm256_set1_epi8(tables.escape as i8);
    let lift = _mm256_set1_epi8(112);
    let full = src.len().min(near.len()) / 32 * 32;
    for at in (0..full).step_by(32) {
        // SAFETY: `at + 32` is at most the length of both slices.
        unsafe {
            let v = _mm256_loadu_si256(src.as_ptr().add(at).cast());
            let place = _mm256_sub_epi8(v, low);
            let mut label = escape;
            for (k, &lookup) in lookups.iter().enumerate().take(used) {
                let near_zero = _mm256_sub_epi8(place, _mm256_set1_epi8(16 * k as i8));
                let index = _mm256_adds_epu8(near_zero, lift);
                label = _mm256_xor_si256(label, _mm256_shuffle_epi8(lookup, index));
            }
            _mm256_storeu_si256(near.as_mut_ptr().add(at).cast(), label);
        }
    }
    full
}

/// Bit `j` is set where byte `j` of the 64 at `group` is at least `bound`.
///
/// # Safety
/// 64 bytes can be read at `group`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn at_least(bound: __m256i, group: *const u8) -> u64 {
    // SAFETY: the caller's.
    let half = |at: usize| unsafe {
        let v = _mm256_loadu_si256(group.add(at).cast());
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(v, bound), v)) as u32
    };
    u64::from(half(0)) | u64::from(half(32)) << 32
}

/// Writes one level's digits of the `n` labels at `near`, and closes up in place those that go on;
/// returns their number.
///
/// # Safety
/// `near` has `n + 64` bytes and `*end` room for the level's stream and 64 bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn encode_level<const TWO_BITS: bool>(
    level: Level,
    near: *mut u8,
    n: usize,
    end: &mut *mut u8,
) -> usize {
    let bound = |k: u8| _mm256_set1_epi8((level.base + k) as i8);
    let (bound1, bound2, bound3) = (bound(1), bound(2), bound(3));
    let mut kept = 0;
    let mut out = *end;
    for at in (0..n).step_by(64) {
        let valid = low_bits(n - at);
        // SAFETY: `at < n`, so 64 bytes from `near + at` lie in its `n + 64` bytes; closing up
        // writes at `kept <= at + 8j` after the eight bytes there have been read. Each
        // group writes its words where the stream has room for them.
        unsafe {
            let group = near.add(at);
            let over1 = at_least(bound1, group) & valid;
            let on;
            let step = if n - at >= 64 { 8 } else { (n - at).div_ceil(8) };
            if TWO_BITS {
                let over2 = at_least(bound2, group) & valid;
                on = at_least(bound3, group) & valid;
                out.cast::<u64>().write_unaligned((over1 & !over2) | on);
                out.add(step).cast::<u64>().write_unaligned(over2);
                out = out.add(2 * step);
            } else {
                on = over1;
                out.cast::<u64>().write_unaligned(over1);
                out = out.add(step);
            }
            for j in 0..8 {
                let bits = on >> (8 * j) & 0xff;
                let eight = group.add(8 * j).cast::<u64>().read_unaligned();
                let closed = _pext_u64(eight, byte_mask(bits));
                near.add(kept).cast::<u64>().write_unaligned(closed);
                kept += bits.count_ones() as usize;
            }
        }
    }
    *end = out;
    kept
}

/// Eight bits to eight bytes of all ones or zeros.
#[inline]
#[target_feature(enable = "bmi2")]
fn byte_mask(bits: u64) -> u64 {
    _pdep_u64(bits, 0x0101_0101_0101_0101) * 0xff
}

/// Decodes what `walk` found into all of `dst`.
///
/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT; `walk` was made by [`super::walk`] for `dst.len()` bytes;
/// both scratch buffers have `dst.len() + 64` bytes.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    let (mut next, mut own) = (&mut scratch.near, &mut scratch.far);
    // Spreading reads eight bytes at a time, so the escapes are moved to where there is slack
    // behind them.
    next[..walk.escapes.len()].copy_from_slice(walk.escapes);
    for (i, &level) in tables.levels.iter().enumerate().rev() {
        let (count, stream) = (walk.counts[i], walk.streams[i]);
        let target = if i == 0 { &mut *dst } else { &mut own[..count] };
        // SAFETY: `stream` has the digits of `count` bytes, and `next` as many bytes as there are
        // largest digits in it, and 64 more.
        unsafe {
            if level.two_bits {
                decode_level::<true>(level, stream, next.as_ptr(), target);
            } else {
                decode_level::<false>(level, stream, next.as_ptr(), target);
            }
        }
        std::mem::swap(&mut next, &mut own);
    }
}

/// Fills `dst` with one level's bytes.
///
/// # Safety
/// As said in [`decode`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn decode_level<const TWO_BITS: bool>(
    level: Level,
    stream: &[u8],
    mut next: *const u8,
    dst: &mut [u8],
) {
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let step = if TWO_BITS { 16 } else { 8 };
    let (full, rest) = stream.split_at(groups.len() * step);
    for (group, digits) in groups.iter_mut().zip(full.chunks_exact(step)) {
        let second = if TWO_BITS { word(&digits[8..]) } else { u64::MAX };
        // SAFETY: `next` has a byte for each largest digit, and the slack, by the caller's promise.
        next = unsafe { decode_group::<TWO_BITS>(level, word(&digits[..8]), second, next, group) };
    }
    if !tail.is_empty() {
        let (first, second) = rest.split_at(tail.len().div_ceil(8));
        let second = if TWO_BITS { word(second) } else { u64::MAX };
        let mut group = [0; 64];
        // SAFETY: as above; the tail's padding bits are 0, so nothing goes on there.
        unsafe { decode_group::<TWO_BITS>(level, word(first), second, next, &mut group) };
        tail.copy_from_slice(&group[..tail.len()]);
    }
}

/// Decodes 64 digits; returns `next` moved behind the bytes used.
///
/// # Safety
/// As many bytes as `p0 & p1` has bits, and 64 more, can be read at `next`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn decode_group<const TWO_BITS: bool>(
    level: Level,
    p0: u64,
    p1: u64,
    mut next: *const u8,
    group: &mut [u8; 64],
) -> *const u8 {
    let [s0, s1, s2] = level.symbols.map(|s| _mm256_set1_epi8(s as i8));
    for half in 0..2 {
        let m0 = spread_bits((p0 >> (32 * half)) as u32);
        let leaf = if TWO_BITS {
            let m1 = spread_bits((p1 >> (32 * half)) as u32);
            let chosen = _mm256_blendv_epi8(_mm256_blendv_epi8(s0, s1, m0), s2, m1);
            _mm256_andnot_si256(_mm256_and_si256(m0, m1), chosen)
        } else {
            _mm256_andnot_si256(m0, s0)
        };
        // SAFETY: `group` has 64 bytes.
        unsafe { _mm256_storeu_si256(group.as_mut_ptr().add(32 * half).cast(), leaf) };
    }
    let on = p0 & p1;
    for (j, eight) in group.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let bits = on >> (8 * j) & 0xff;
        // SAFETY: at most the bits seen so far have been taken from `next`; eight bytes more are
        // readable.
        unsafe {
            let spread = _pdep_u64(next.cast::<u64>().read_unaligned(), byte_mask(bits));
            *eight = (u64::from_le_bytes(*eight) | spread).to_le_bytes();
            next = next.add(bits.count_ones() as usize);
        }
    }
    next
}

/// 32 bits to 32 bytes of all ones or zeros.
#[inline]
#[target_feature(enable = "avx2")]
fn spread_bits(bits: u32) -> __m256i {
    let places = _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES);
    let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), places);
    let one_each = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one_each), one_each)
}

const ONES: i64 = 0x0101_0101_0101_0101;
