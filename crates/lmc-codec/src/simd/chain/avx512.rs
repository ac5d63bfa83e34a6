//! The chain code with AVX-512 VBMI2: 64 bytes a step, closed up by `vpcompressb` and spread by
//! `vpexpandb`.

use super::{Level, Scratch, Tables, Walk, low_bits};
use std::arch::x86_64::*;

/// Writes the chain stream of `src` at `out`; returns its length.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI2. Both scratch buffers have `src.len() + 64` bytes,
/// `out` has room for `tables.stream_len_max(src.len()) + 64`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn encode(
    tables: &Tables,
    src: &[u8],
    scratch: &mut Scratch,
    out: *mut u8,
) -> usize {
    let near = scratch.near.as_mut_ptr();
    let far = scratch.far.as_mut_ptr();
    // SAFETY: the caller gives both buffers enough room. Every level writes at most its
    // `stream_len` and at most 56 bytes beyond it, and `near` only at places below the number
    // of bytes read so far, plus 64.
    unsafe {
        write_labels(tables, src, near, far);
        let mut end = out;
        let mut n = src.len();
        for &level in &tables.levels {
            n = if level.two_bits {
                encode_level::<true>(level, near, n, &mut end)
            } else {
                encode_level::<false>(level, near, n, &mut end)
            };
        }
        std::ptr::copy_nonoverlapping(far, end, n);
        end.add(n).offset_from_unsigned(out)
    }
}

/// Writes the label of every byte to `near`, and the bytes that have no symbol to `far`.
///
/// # Safety
/// As [`encode`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
unsafe fn write_labels(tables: &Tables, src: &[u8], near: *mut u8, mut far: *mut u8) {
    let escape = _mm512_set1_epi8(tables.escape as i8);
    // SAFETY: stores reach at most 63 bytes beyond `src.len()` in `near`, and beyond the number of
    // escapes in `far`.
    let mut put = |at: usize, v: __m512i, label: __m512i| unsafe {
        _mm512_storeu_si512(near.add(at).cast(), label);
        let escapes = _mm512_cmpeq_epi8_mask(label, escape) & low_bits(src.len() - at);
        if escapes != 0 {
            _mm512_storeu_si512(far.cast(), _mm512_maskz_compress_epi8(escapes, v));
            far = far.add(escapes.count_ones() as usize);
        }
    };
    if let Some(low) = tables.window {
        let window = Window::new(tables, low);
        for_each_64(src, |at, v| put(at, v, window.labels(v)));
    } else {
        // SAFETY: the table has 256 bytes.
        let quarter =
            |q: usize| unsafe { _mm512_loadu_si512(tables.labels.as_ptr().add(64 * q).cast()) };
        let (t0, t1, t2, t3) = (quarter(0), quarter(1), quarter(2), quarter(3));
        for_each_64(src, |at, v| {
            let lower = _mm512_permutex2var_epi8(t0, v, t1);
            let upper = _mm512_permutex2var_epi8(t2, v, t3);
            put(at, v, _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(v), upper));
        });
    }
}

/// Labels of symbols that all lie in 63 places from `low`: one `vpermb` for 64 bytes.
pub(super) struct Window {
    table: __m512i,
    low: __m512i,
    last: __m512i,
}

impl Window {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn new(tables: &Tables, low: u8) -> Self {
        let mut places = [tables.escape; 64];
        for (place, label) in places.iter_mut().take(63).enumerate() {
            *label = tables.labels[(place + usize::from(low)) & 255];
        }
        // SAFETY: `places` has 64 bytes.
        let table = unsafe { _mm512_loadu_si512(places.as_ptr().cast()) };
        Self { table, low: _mm512_set1_epi8(low as i8), last: _mm512_set1_epi8(63) }
    }

    /// The labels of 64 bytes. Those outside of the window are moved to its last place, which is an
    /// escape.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn labels(&self, v: __m512i) -> __m512i {
        let place = _mm512_min_epu8(_mm512_sub_epi8(v, self.low), self.last);
        _mm512_permutexvar_epi8(place, self.table)
    }
}

/// Calls `step` with each 64 bytes of `src` and their place; the last call's missing bytes are 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn for_each_64(src: &[u8], mut step: impl FnMut(usize, __m512i)) {
    let full = src.len() / 64 * 64;
    for at in (0..full).step_by(64) {
        // SAFETY: `at + 64 <= src.len()`.
        step(at, unsafe { _mm512_loadu_si512(src.as_ptr().add(at).cast()) });
    }
    if full < src.len() {
        // SAFETY: the mask ends the load at `src.len()`.
        step(full, unsafe {
            _mm512_maskz_loadu_epi8(low_bits(src.len() - full), src.as_ptr().add(full).cast())
        });
    }
}

/// Writes one level's digits of the `n` labels at `near`, and closes up in place those that go on;
/// returns their number.
///
/// # Safety
/// `near` has `n + 64` bytes and `*end` room for the level's stream and 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn encode_level<const TWO_BITS: bool>(
    level: Level,
    near: *mut u8,
    n: usize,
    end: &mut *mut u8,
) -> usize {
    let bound = |k: u8| _mm512_set1_epi8((level.base + k) as i8);
    let (bound1, bound2, bound3) = (bound(1), bound(2), bound(3));
    let mut kept = 0;
    let mut at = 0;
    let mut out = *end;
    while at < n {
        let valid = low_bits(n - at);
        // SAFETY: `at < n`, so 64 bytes from `near + at` lie in its `n + 64` bytes. The compressed
        // bytes go to `kept <= at`, over bytes that have been read. Each group writes its
        // words where the stream has room for them.
        unsafe {
            let v = _mm512_loadu_si512(near.add(at).cast());
            let over1 = _mm512_cmpge_epu8_mask(v, bound1) & valid;
            let on;
            let step = if n - at >= 64 { 8 } else { (n - at).div_ceil(8) };
            if TWO_BITS {
                let over2 = _mm512_cmpge_epu8_mask(v, bound2) & valid;
                on = _mm512_cmpge_epu8_mask(v, bound3) & valid;
                out.cast::<u64>().write_unaligned((over1 & !over2) | on);
                out.add(step).cast::<u64>().write_unaligned(over2);
                out = out.add(2 * step);
            } else {
                on = over1;
                out.cast::<u64>().write_unaligned(over1);
                out = out.add(step);
            }
            _mm512_storeu_si512(near.add(kept).cast(), _mm512_maskz_compress_epi8(on, v));
            kept += on.count_ones() as usize;
        }
        at += 64;
    }
    *end = out;
    kept
}

/// Decodes what `walk` found into all of `dst`.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI2; `walk` was made by [`super::walk`] for `dst.len()` bytes;
/// both scratch buffers have `dst.len() + 64` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn decode(tables: &Tables, walk: &Walk, dst: &mut [u8], scratch: &mut Scratch) {
    let level = tables.levels[0];
    // SAFETY: the caller's promise is that of `decode_lower`, which returns as many bytes as the
    // first level passes on.
    unsafe {
        let next = decode_lower(tables, walk, scratch);
        if level.two_bits {
            decode_level::<true>(level, walk.streams[0], next, dst.as_mut_ptr(), dst.len());
        } else {
            decode_level::<false>(level, walk.streams[0], next, dst.as_mut_ptr(), dst.len());
        }
    }
}

/// Decodes all levels but the first; returns where the bytes are that the first passes on.
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

/// Writes `count` bytes of one level at `target`; returns `next` moved behind the bytes used.
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
