//! The chain code with AVX-512 VBMI2: 64 bytes per step, closed up by `vpcompressb` and spread by
//! `vpexpandb`.

use super::{Level, Scratch, Tables, Target, Walk, low_bits};
use std::arch::x86_64::*;

/// Writes the chain stream of `src` at `out`; returns its length.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI2. `near` has room for `src.len() + 64` bytes, `out` for
/// `tables.stream_len_max(src.len()) + 64`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn encode(tables: &Tables, src: &[u8], near: *mut u8, out: *mut u8) -> usize {
    // SAFETY: the mask ends the load at `src.len()`; the caller guarantees the rest.
    unsafe {
        let group = |at: usize| {
            let rest = &src[at..];
            _mm512_maskz_loadu_epi8(low_bits(rest.len()), rest.as_ptr().cast())
        };
        let mut end = out;
        let kept = encode_level(tables.levels[0], src.len(), group, near, &mut end);
        encode_lower(tables, near, kept, end).offset_from_unsigned(out)
    }
}

/// Writes all levels after the first, and the escapes, at `end`, for the `n` bytes at `near` that
/// the first level passes on. Returns where they end.
///
/// # Safety
/// As [`encode`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
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
            let group = |at: usize| _mm512_loadu_si512(near.add(at).cast());
            n = encode_level(level, n, group, near, &mut end);
        }
        std::ptr::copy_nonoverlapping(near, end, n);
        end.add(n)
    }
}

/// Writes one level's digits of `n` bytes at `*end`, and closes up at `near` the bytes that go on;
/// returns their number. `group` gives the 64 bytes from a place on; those beyond `n` are ignored.
///
/// # Safety
/// `near` has `n + 64` bytes and `*end` room for the level's stream and 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn encode_level(
    level: Level,
    n: usize,
    group: impl FnMut(usize) -> __m512i,
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
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn encode_level_of<const TWO_BITS: bool>(
    level: Level,
    n: usize,
    mut group: impl FnMut(usize) -> __m512i,
    near: *mut u8,
    end: &mut *mut u8,
) -> usize {
    let symbols = level.symbols.map(|s| _mm512_set1_epi8(s as i8));
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

/// Writes the digits of the first `len` bytes of `v`, and the bytes that go on.
///
/// # Safety
/// There is room for 64 bytes at both places.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
unsafe fn encode_group<const TWO_BITS: bool>(
    [s0, s1, s2]: [__m512i; 3],
    v: __m512i,
    len: usize,
    to: &mut Target,
) {
    let step = len.div_ceil(8);
    let not_0 = _mm512_cmpneq_epi8_mask(v, s0) & low_bits(len);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let on = if TWO_BITS {
            // The first of several equal symbols counts.
            let is_1 = _mm512_cmpeq_epi8_mask(v, s1);
            let (p0, p1) = (not_0 & (is_1 | _mm512_cmpneq_epi8_mask(v, s2)), not_0 & !is_1);
            to.out.cast::<u64>().write_unaligned(p0);
            to.out.add(step).cast::<u64>().write_unaligned(p1);
            to.out = to.out.add(2 * step);
            p0 & p1
        } else {
            to.out.cast::<u64>().write_unaligned(not_0);
            to.out = to.out.add(step);
            not_0
        };
        _mm512_storeu_si512(to.near.cast(), _mm512_maskz_compress_epi8(on, v));
        to.near = to.near.add(on.count_ones() as usize);
    }
}

/// Decodes the stream of `walk` into all of `dst`.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI2; `walk` was made by [`super::walk`] for `dst.len()` bytes;
/// both scratch buffers have `dst.len() + 64` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    let level = tables.levels[0];
    // SAFETY: the caller's promise covers `decode_lower`, which returns as many bytes as the first
    // level passes on.
    unsafe {
        let next = decode_lower(tables, walk, scratch);
        if level.two_bits {
            decode_level::<true>(level, walk.streams[0], next, dst.as_mut_ptr(), dst.len());
        } else {
            decode_level::<false>(level, walk.streams[0], next, dst.as_mut_ptr(), dst.len());
        }
    }
}

/// Decodes all levels after the first. Returns a pointer to the bytes that the first level passes
/// on.
///
/// # Safety
/// As [`decode`]. The pointer is into `walk` or `scratch`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn decode_lower(
    tables: &Tables,
    walk: &Walk,
    scratch: &mut Scratch,
) -> *const u8 {
    let mut next: *const u8 = walk.escapes.as_ptr();
    let mut buffers = [scratch.near.as_mut_ptr(), scratch.far.as_mut_ptr()];
    for (i, &level) in tables.levels.iter().enumerate().skip(1).rev() {
        let (count, stream) = (walk.counts[i], walk.streams[i]);
        let target = buffers[0];
        // SAFETY: `target` has `count` bytes, `stream` the digits of `count` bytes, and `next` as
        // many bytes as there are largest digits in `stream`: all by the walk's
        // construction.
        unsafe {
            if level.two_bits {
                decode_level::<true>(level, stream, next, target, count);
            } else {
                decode_level::<false>(level, stream, next, target, count);
            }
        }
        next = target;
        buffers.swap(0, 1);
    }
    next
}

/// Writes `count` bytes of one level at `target`. Returns `next` advanced past the bytes used.
///
/// # Safety
/// As said in [`decode`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn decode_level<const TWO_BITS: bool>(
    level: Level,
    stream: &[u8],
    mut next: *const u8,
    target: *mut u8,
    count: usize,
) -> *const u8 {
    let [s0, s1, s2] = level.symbols.map(|s| _mm512_set1_epi8(s as i8));
    let step = if TWO_BITS { 16 } else { 8 };
    let mut digits = stream.as_ptr();
    // SAFETY: a full group has `step` bytes of digits and 64 bytes of room at `target`; the tail's
    // loads and stores are masked to its length. An expanding load reads only as many bytes as
    // its mask has bits, and all masks together have as many as `next` has bytes.
    unsafe {
        for group in 0..count / 64 {
            let p0 = digits.cast::<u64>().read_unaligned();
            let (on, leaf) = if TWO_BITS {
                let p1 = digits.add(8).cast::<u64>().read_unaligned();
                (p0 & p1, _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(s0, p0, s1), p1, s2))
            } else {
                (p0, s0)
            };
            let v = _mm512_mask_expandloadu_epi8(leaf, on, next.cast());
            _mm512_storeu_si512(target.add(64 * group).cast(), v);
            next = next.add(on.count_ones() as usize);
            digits = digits.add(step);
        }
        let rest = count % 64;
        if rest > 0 {
            let bytes = rest.div_ceil(8);
            let p0 = super::word(std::slice::from_raw_parts(digits, bytes));
            let (on, leaf) = if TWO_BITS {
                let p1 = super::word(std::slice::from_raw_parts(digits.add(bytes), bytes));
                (p0 & p1, _mm512_mask_mov_epi8(_mm512_mask_mov_epi8(s0, p0, s1), p1, s2))
            } else {
                (p0, s0)
            };
            let v = _mm512_mask_expandloadu_epi8(leaf, on, next.cast());
            _mm512_mask_storeu_epi8(target.add(count - rest).cast(), low_bits(rest), v);
            next = next.add(on.count_ones() as usize);
        }
    }
    next
}
