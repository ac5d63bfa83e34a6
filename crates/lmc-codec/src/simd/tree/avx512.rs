//! The tree code with AVX-512 VBMI2: 64 bytes per step, closed up by `vpcompressb`, spread by
//! `vpexpandb`, looked up by `vpermb` and `vpermi2b`.

use super::super::chain::low_bits;
use super::super::pack::x86::Spread;
use super::{Side, Tables, low_mask};
use std::arch::x86_64::*;

/// A table of 256 bytes.
struct Lookup([__m512i; 4]);

impl Lookup {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new(table: &[u8; 256]) -> Self {
        // SAFETY: each quarter has 64 bytes.
        let load = |i: usize| unsafe { _mm512_loadu_si512(table[64 * i..].as_ptr().cast()) };
        Self([load(0), load(1), load(2), load(3)])
    }

    /// The entries of 64 numbers, which all have at most `BITS` bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn get<const BITS: u8>(&self, v: __m512i) -> __m512i {
        let [a, b, c, d] = self.0;
        match BITS {
            ..=6 => _mm512_permutexvar_epi8(v, a),
            7 => _mm512_permutex2var_epi8(a, v, b),
            _ => {
                let low = _mm512_permutex2var_epi8(a, v, b);
                let high = _mm512_permutex2var_epi8(c, v, d);
                _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(v), high)
            }
        }
    }
}

/// # Safety
/// The CPU has AVX-512 VBMI2; both slices have the same length.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
pub(super) unsafe fn to_ranks(tables: &Tables, src: &[u8], dst: &mut [u8], absent: &mut Vec<u8>) {
    let ranks = Lookup::new(&tables.ranks);
    let has_absent = if tables.absent.is_some() { u64::MAX } else { 0 };
    let absent_rank = _mm512_set1_epi8(tables.absent.unwrap_or(0) as i8);
    let mut append = |v, ranks, valid: u64| {
        let others = _mm512_mask_cmpeq_epi8_mask(valid & has_absent, ranks, absent_rank);
        if others != 0 {
            let mut closed = [0; 64];
            // SAFETY: `closed` has 64 bytes.
            unsafe {
                let v = _mm512_maskz_compress_epi8(others, v);
                _mm512_storeu_si512(closed.as_mut_ptr().cast(), v);
            }
            absent.extend_from_slice(&closed[..others.count_ones() as usize]);
        }
    };
    let full = src.len() / 64 * 64;
    // SAFETY: whole groups are inside both slices, and masks end the last one where they end.
    unsafe {
        for at in (0..full).step_by(64) {
            let v = _mm512_loadu_si512(src.as_ptr().add(at).cast());
            let found = ranks.get::<8>(v);
            _mm512_storeu_si512(dst.as_mut_ptr().add(at).cast(), found);
            append(v, found, u64::MAX);
        }
        let valid = low_bits(src.len() - full);
        let v = _mm512_maskz_loadu_epi8(valid, src.as_ptr().add(full).cast());
        let found = ranks.get::<8>(v);
        _mm512_mask_storeu_epi8(dst.as_mut_ptr().add(full).cast(), valid, found);
        append(v, found, valid);
    }
}

/// # Safety
/// The CPU has AVX-512 VBMI2. `own` and `right` have `len + 64` bytes, `bits` has `len` bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
pub(super) unsafe fn split(
    first: u8,
    keep: [bool; 2],
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match keep {
            [true, true] => split_sides::<true, true>(first, own, len, right, bits),
            [true, false] => split_sides::<true, false>(first, own, len, right, bits),
            [false, true] => split_sides::<false, true>(first, own, len, right, bits),
            [false, false] => split_sides::<false, false>(first, own, len, right, bits),
        }
    }
}

/// [`split`] for given sides.
///
/// # Safety
/// As [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
unsafe fn split_sides<const LEFT: bool, const RIGHT: bool>(
    first: u8,
    own: &mut [u8],
    len: usize,
    right: &mut [u8],
    bits: &mut [u8],
) -> usize {
    let first = _mm512_set1_epi8(first as i8);
    let own = own.as_mut_ptr();
    let (mut to_left, mut to_right) = (own, right.as_mut_ptr());
    let mut count = 0;
    let mut group = |v, set: u64, others: u64| {
        // SAFETY: neither side has more bytes than were read, so there is room for 64. Bytes closed
        // up in place come before those still to be read.
        unsafe {
            if LEFT {
                _mm512_storeu_si512(to_left.cast(), _mm512_maskz_compress_epi8(others, v));
                to_left = to_left.add(others.count_ones() as usize);
            }
            if RIGHT {
                _mm512_storeu_si512(to_right.cast(), _mm512_maskz_compress_epi8(set, v));
                to_right = to_right.add(set.count_ones() as usize);
            }
            count += set.count_ones() as usize;
        }
    };
    let (words, tail) = bits.as_chunks_mut::<8>();
    let full = len / 64;
    for (i, word) in words[..full].iter_mut().enumerate() {
        // SAFETY: a whole group is inside `len`.
        let v = unsafe { _mm512_loadu_si512(own.add(64 * i).cast()) };
        let set = _mm512_cmpge_epu8_mask(v, first);
        *word = set.to_le_bytes();
        group(v, set, !set);
    }
    let valid = low_bits(len % 64);
    if valid != 0 {
        // SAFETY: there are 64 bytes after `len`.
        let v = unsafe { _mm512_loadu_si512(own.add(64 * full).cast()) };
        let set = _mm512_mask_cmpge_epu8_mask(valid, v, first);
        let last = _mm_cvtsi64_si128(set as i64);
        // A last group of more than 56 bytes has a whole word.
        let to = if words.len() > full { &mut words[full][..] } else { tail };
        // SAFETY: the mask ends the store with the last byte of `to`, which has at most eight.
        unsafe { _mm_mask_storeu_epi8(to.as_mut_ptr().cast(), low_bits(to.len()) as u16, last) };
        group(v, set, valid & !set);
    }
    count
}

/// # Safety
/// The CPU has AVX-512 VBMI2. `bits` has a bit for each byte of `dst`, followed by zeros; each side
/// has as many bytes as there are bits for it, and 64 more.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
pub(super) unsafe fn merge(bits: &[u8], left: Side, right: Side, dst: &mut [u8]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (left, right) {
            (Side::Symbol(a), Side::Symbol(b)) => {
                merge_sides::<false, false>(bits, (a, &[]), (b, &[]), dst);
            }
            (Side::Symbol(a), Side::Bytes(b)) => {
                merge_sides::<false, true>(bits, (a, &[]), (0, b), dst);
            }
            (Side::Bytes(a), Side::Symbol(b)) => {
                merge_sides::<true, false>(bits, (0, a), (b, &[]), dst);
            }
            (Side::Bytes(a), Side::Bytes(b)) => {
                merge_sides::<true, true>(bits, (0, a), (0, b), dst);
            }
        }
    }
}

/// [`merge`] for sides that are bytes, or a symbol if not.
///
/// # Safety
/// As [`merge`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
unsafe fn merge_sides<const LEFT: bool, const RIGHT: bool>(
    bits: &[u8],
    left: (u8, &[u8]),
    right: (u8, &[u8]),
    dst: &mut [u8],
) {
    let (a, b) = (_mm512_set1_epi8(left.0 as i8), _mm512_set1_epi8(right.0 as i8));
    let (mut from_left, mut from_right) = (left.1.as_ptr(), right.1.as_ptr());
    let mut group = |set: u64, others: u64| {
        // SAFETY: at most the bits seen so far have been taken from a side, and 64 more bytes are
        // readable.
        unsafe {
            let mut v = a;
            if LEFT {
                v = _mm512_maskz_expand_epi8(others, _mm512_loadu_si512(from_left.cast()));
                from_left = from_left.add(others.count_ones() as usize);
            }
            if LEFT && RIGHT {
                // Two expands and an OR are faster than one expand into the other (2.2 and 2.9 ns,
                // Zen 4).
                let w = _mm512_maskz_expand_epi8(set, _mm512_loadu_si512(from_right.cast()));
                v = _mm512_or_si512(v, w);
            } else if RIGHT {
                v = _mm512_mask_expand_epi8(v, set, _mm512_loadu_si512(from_right.cast()));
            } else {
                v = _mm512_mask_mov_epi8(v, set, b);
            }
            if RIGHT {
                from_right = from_right.add(set.count_ones() as usize);
            }
            v
        }
    };
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let (words, last) = bits.split_at(8 * groups.len());
    for (to, &word) in groups.iter_mut().zip(words.as_chunks().0) {
        let set = u64::from_le_bytes(word);
        let v = group(set, !set);
        // SAFETY: a group has 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), v) };
    }
    if !tail.is_empty() {
        let valid = low_bits(tail.len());
        // SAFETY: the mask ends the load with `last`, which has at most eight bytes.
        let set =
            unsafe { _mm_maskz_loadu_epi8(low_bits(last.len()) as u16, last.as_ptr().cast()) };
        let set = _mm_cvtsi128_si64(set) as u64;
        let v = group(set, valid & !set);
        // SAFETY: the mask ends the store with the tail.
        unsafe { _mm512_mask_storeu_epi8(tail.as_mut_ptr().cast(), valid, v) };
    }
}

/// # Safety
/// The CPU has AVX-512 VBMI; `packed` has `bits` bits for each byte of `dst`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn unpack(bits: u8, symbols: &[u8; 256], packed: &[u8], dst: &mut [u8]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match bits {
            ..=6 => unpack_up_to::<6>(bits, symbols, packed, dst),
            7 => unpack_up_to::<7>(bits, symbols, packed, dst),
            _ => unpack_up_to::<8>(bits, symbols, packed, dst),
        }
    }
}

/// [`unpack`] for at most `BITS` bits.
///
/// # Safety
/// As [`unpack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn unpack_up_to<const BITS: u8>(
    bits: u8,
    symbols: &[u8; 256],
    packed: &[u8],
    dst: &mut [u8],
) {
    let lookup = Lookup::new(symbols);
    let spread = Spread::new(low_mask(bits));
    let (groups, tail) = dst.as_chunks_mut::<64>();
    let (full, last) = packed.split_at(spread.step * groups.len());
    // SAFETY: a group has `step` bytes of `full` and 64 of its own; masks end the loads and stores
    // of the tail with `last` and with the tail.
    unsafe {
        for (i, group) in groups.iter_mut().enumerate() {
            let v = spread.group(full.as_ptr().add(spread.step * i), spread.step);
            _mm512_storeu_si512(group.as_mut_ptr().cast(), lookup.get::<BITS>(v));
        }
        if !tail.is_empty() {
            let v = lookup.get::<BITS>(spread.group(last.as_ptr(), last.len()));
            _mm512_mask_storeu_epi8(tail.as_mut_ptr().cast(), low_bits(tail.len()), v);
        }
    }
}
