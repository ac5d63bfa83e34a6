//! The chain code with AVX2: digits 32 bytes at a time; bytes are closed up and spread 16 at a time
//! by `vpshufb`, with orders from a table.

use super::avx2_orders::{close_up, spread, spread_bits};
use super::{Level, Scratch, Tables, Target, Walk, low_bits, word};
use std::arch::x86_64::*;

/// Writes the chain stream of `src` at `out`; returns its length.
///
/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT. `near` has room for `src.len() + 64` bytes, `out` for
/// `tables.stream_len_max(src.len()) + 64`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode(tables: &Tables, src: &[u8], near: *mut u8, out: *mut u8) -> usize {
    let full = src.len() / 64 * 64;
    let mut last = [0; 64];
    last[..src.len() - full].copy_from_slice(&src[full..]);
    let group = |at: usize| if at < full { src[at..].as_ptr() } else { last.as_ptr() };
    // SAFETY: 64 bytes can be read at every group; the caller guarantees the rest.
    unsafe {
        let mut end = out;
        let kept = encode_level(tables.levels[0], src.len(), |at| load(group(at)), near, &mut end);
        encode_lower(tables, near, kept, end).offset_from_unsigned(out)
    }
}

/// Writes all levels after the first, and the escapes, at `end`, for the `n` bytes at `near` that
/// the first level passes on. Returns where they end.
///
/// # Safety
/// As [`encode`].
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode_lower(
    tables: &Tables,
    near: *mut u8,
    mut n: usize,
    mut end: *mut u8,
) -> *mut u8 {
    // SAFETY: the caller gives both buffers enough room. Every level writes at most its
    // `stream_len` and 56 bytes beyond it, and to `near` only in groups that have been read.
    unsafe {
        for &level in &tables.levels[1..] {
            n = encode_level(level, n, |at| load(near.add(at)), near, &mut end);
        }
        std::ptr::copy_nonoverlapping(near, end, n);
        end.add(n)
    }
}

/// # Safety
/// 64 bytes can be read at `group`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(group: *const u8) -> [__m256i; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe { [_mm256_loadu_si256(group.cast()), _mm256_loadu_si256(group.add(32).cast())] }
}

/// Writes one level's digits of `n` bytes at `*end`, and closes up at `near` the bytes that go on;
/// returns their number. `group` gives the 64 bytes from a place on; those beyond `n` are ignored.
///
/// # Safety
/// `near` has `n + 64` bytes and `*end` room for the level's stream and 64 bytes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn encode_level(
    level: Level,
    n: usize,
    group: impl FnMut(usize) -> [__m256i; 2],
    near: *mut u8,
    end: &mut *mut u8,
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if level.two_bits {
            encode_level_of::<true>(level, n, group, near, end)
        } else {
            encode_level_of::<false>(level, n, group, near, end)
        }
    }
}

/// [`encode_level`] for one width of digits.
///
/// # Safety
/// As [`encode_level`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn encode_level_of<const TWO_BITS: bool>(
    level: Level,
    n: usize,
    mut group: impl FnMut(usize) -> [__m256i; 2],
    near: *mut u8,
    end: &mut *mut u8,
) -> usize {
    let symbols = level.symbols.map(|s| _mm256_set1_epi8(s as i8));
    let mut to = Target { near, out: *end };
    let full = n / 64 * 64;
    // SAFETY: each group writes its words where the stream has room for them, and writes to `near`
    // no further on than the groups that have been read.
    unsafe {
        for at in (0..full).step_by(64) {
            encode_group::<TWO_BITS>(symbols, group(at), 64, &mut to);
        }
        if full < n {
            encode_group::<TWO_BITS>(symbols, group(full), n - full, &mut to);
        }
        *end = to.out;
        to.near.offset_from_unsigned(near)
    }
}

/// Writes the digits of the first `len` of 64 bytes, and the bytes that go on.
///
/// # Safety
/// There is room for 64 bytes at both places.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn encode_group<const TWO_BITS: bool>(
    [s0, s1, s2]: [__m256i; 3],
    bytes: [__m256i; 2],
    len: usize,
    to: &mut Target,
) {
    let (step, valid) = (len.div_ceil(8), low_bits(len));
    let is_0 = bytes.map(|v| _mm256_cmpeq_epi8(v, s0));
    // SAFETY: guaranteed by the caller.
    unsafe {
        let on = if TWO_BITS {
            let is_1 = bytes.map(|v| _mm256_cmpeq_epi8(v, s1));
            let is_2 = bytes.map(|v| _mm256_cmpeq_epi8(v, s2));
            // The first of several equal symbols counts.
            let even =
                [0, 1].map(|i| _mm256_or_si256(is_0[i], _mm256_andnot_si256(is_1[i], is_2[i])));
            let low = [0, 1].map(|i| _mm256_or_si256(is_0[i], is_1[i]));
            let (p0, p1) = (!bits(even) & valid, !bits(low) & valid);
            to.out.cast::<u64>().write_unaligned(p0);
            to.out.add(step).cast::<u64>().write_unaligned(p1);
            to.out = to.out.add(2 * step);
            p0 & p1
        } else {
            let p0 = !bits(is_0) & valid;
            to.out.cast::<u64>().write_unaligned(p0);
            to.out = to.out.add(step);
            p0
        };
        to.near = close_up(bytes, on, to.near);
    }
}

/// The top bit of each of 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(bytes: [__m256i; 2]) -> u64 {
    let [low, high] = bytes.map(|v| u64::from(_mm256_movemask_epi8(v) as u32));
    low | high << 32
}

/// Decodes the stream of `walk` into all of `dst`.
///
/// # Safety
/// The CPU has AVX2, BMI2 and POPCNT; `walk` was made by [`super::walk`] for `dst.len()` bytes;
/// both scratch buffers have `dst.len() + 64` bytes.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    // SAFETY: the caller's promise covers `decode_lower`, which returns as many bytes as the first
    // level passes on.
    unsafe {
        let next = decode_lower(tables, walk, scratch);
        decode_level(tables.levels[0], walk.streams[0], next, dst);
    }
}

/// Decodes all levels after the first. Returns a pointer to the bytes that the first level passes
/// on.
///
/// # Safety
/// As [`decode`]. The pointer is into `scratch`; 64 bytes more than those can be read.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode_lower(
    tables: &Tables,
    walk: &Walk,
    scratch: &mut Scratch,
) -> *const u8 {
    let (mut next, mut own) = (&mut scratch.near, &mut scratch.far);
    // Spreading reads eight bytes at a time, so the escapes are moved to a place with slack after
    // them.
    next[..walk.escapes.len()].copy_from_slice(walk.escapes);
    for (i, &level) in tables.levels.iter().enumerate().skip(1).rev() {
        let target = &mut own[..walk.counts[i]];
        // SAFETY: the stream has the digits of `target`, and `next` as many bytes as there are
        // largest digits in it, and 64 more.
        unsafe { decode_level(level, walk.streams[i], next.as_ptr(), target) };
        std::mem::swap(&mut next, &mut own);
    }
    next.as_ptr()
}

/// Fills `dst` with one level's bytes. Returns `next` advanced past the bytes used.
///
/// # Safety
/// `stream` starts with the digits of `dst`. As many bytes as there are largest digits in them, and
/// 64 more, can be read at `next`.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn decode_level(
    level: Level,
    stream: &[u8],
    next: *const u8,
    dst: &mut [u8],
) -> *const u8 {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if level.two_bits {
            decode_level_of::<true>(level, stream, next, dst)
        } else {
            decode_level_of::<false>(level, stream, next, dst)
        }
    }
}

/// [`decode_level`] for one width of digits.
///
/// # Safety
/// As [`decode_level`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn decode_level_of<const TWO_BITS: bool>(
    level: Level,
    stream: &[u8],
    mut next: *const u8,
    dst: &mut [u8],
) -> *const u8 {
    // The largest digit's place is 0: the byte for that place comes from the next level.
    let mut by_digit = [0; 16];
    let largest = if TWO_BITS { 3 } else { 1 };
    by_digit[..largest].copy_from_slice(&level.symbols[..largest]);
    // SAFETY: `by_digit` has 16 bytes.
    let symbols = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(by_digit.as_ptr().cast())) };
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let step = if TWO_BITS { 16 } else { 8 };
    let (full, rest) = stream.split_at(groups.len() * step);
    for (group, digits) in groups.iter_mut().zip(full.chunks_exact(step)) {
        let second = if TWO_BITS { word(&digits[8..]) } else { u64::MAX };
        // SAFETY: `next` has a byte for each largest digit, and the slack, by the caller's promise.
        next =
            unsafe { decode_group::<TWO_BITS>(symbols, word(&digits[..8]), second, next, group) };
    }
    if !tail.is_empty() {
        let (first, second) = rest.split_at(tail.len().div_ceil(8));
        let second = if TWO_BITS { word(second) } else { u64::MAX };
        let mut group = [0; 64];
        // SAFETY: as above; the tail's padding bits are 0, so nothing goes on there.
        next = unsafe { decode_group::<TWO_BITS>(symbols, word(first), second, next, &mut group) };
        tail.copy_from_slice(&group[..tail.len()]);
    }
    next
}

/// Decodes 64 digits. Returns `next` advanced past the bytes used.
///
/// # Safety
/// As many bytes as `p0 & p1` has bits, and 64 more, can be read at `next`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
unsafe fn decode_group<const TWO_BITS: bool>(
    symbols: __m256i,
    p0: u64,
    p1: u64,
    mut next: *const u8,
    group: &mut [u8; 64],
) -> *const u8 {
    let on = p0 & p1;
    for half in 0..2 {
        let digits = spread_bits((p0 >> (32 * half)) as u32);
        let digits = if TWO_BITS {
            let upper = spread_bits((p1 >> (32 * half)) as u32);
            _mm256_add_epi8(digits, _mm256_add_epi8(upper, upper))
        } else {
            digits
        };
        let leaf = _mm256_shuffle_epi8(symbols, digits);
        // SAFETY: at most the bits seen so far have been taken from `next`, and eight more bytes
        // are readable. `group` has 64 bytes.
        unsafe {
            let low = spread(on >> (32 * half), &mut next);
            let high = spread(on >> (32 * half + 16), &mut next);
            let all = _mm256_or_si256(leaf, _mm256_set_m128i(high, low));
            _mm256_storeu_si256(group.as_mut_ptr().add(32 * half).cast(), all);
        }
    }
    next
}
