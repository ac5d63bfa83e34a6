//! Takes out the bytes that are not the common one, and puts them back.

use super::{Isa, IsaKind, words::per_isa};

/// How many flags are set.
pub(crate) fn count(isa: Isa, flags: &[u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if isa.kind() == IsaKind::Avx512 {
        // SAFETY: the isa proves AVX-512 VPOPCNTDQ.
        return unsafe { avx512::count(flags) };
    }
    count_words(isa, flags)
}

per_isa! {
    /// [`count`], eight bytes at a time.
    fn count_words(flags: &[u8]) -> usize {
        let (words, rest) = flags.as_chunks::<8>();
        let words = words.iter().map(|word| u64::from_le_bytes(*word).count_ones() as usize);
        words.sum::<usize>() + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
    }
}

/// Appends a flag for each byte of `src`, eight per byte (1: it is not `common`), and the bytes
/// that are not `common`.
pub(crate) fn take_out(
    isa: Isa,
    common: u8,
    src: &[u8],
    flags: &mut Vec<u8>,
    others: &mut Vec<u8>,
) {
    flags.reserve(src.len().div_ceil(8));
    let mut rest = src;
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let (groups, after) = src.as_chunks();
        // SAFETY: the isa proves that the instructions exist.
        unsafe {
            match isa.kind() {
                IsaKind::Avx512 => avx512::take_out(common, groups, flags, others),
                _ => avx2::take_out(common, groups, flags, others),
            }
        }
        rest = after;
    }
    let start = others.len();
    // Every byte is written, but the position advances only after those that stay: no branch
    // depends on the data.
    others.resize(start + rest.len(), 0);
    let mut end = start;
    for eight in rest.chunks(8) {
        let mut byte = 0;
        for (i, &value) in eight.iter().enumerate() {
            others[end] = value;
            end += usize::from(value != common);
            byte |= u8::from(value != common) << i;
        }
        flags.push(byte);
    }
    others.truncate(end);
}

/// Undoes [`take_out`]: `flags` has a bit for each byte of `dst`, and as many set bits as there are
/// `others`.
pub(crate) fn put_back(isa: Isa, common: u8, flags: &[u8], others: &[u8], dst: &mut [u8]) {
    let (mut flags, mut others, mut dst) = (flags, others, dst);
    #[cfg(target_arch = "x86_64")]
    if isa.kind() >= IsaKind::Avx2 {
        let (groups, after) = dst.as_chunks_mut();
        let (own, rest) = flags.split_at(8 * groups.len());
        let own = own.as_chunks().0;
        // SAFETY: the isa proves that the instructions exist.
        let used = unsafe {
            match isa.kind() {
                IsaKind::Avx512 => avx512::put_back(common, own, others, groups),
                _ => avx2::put_back(common, own, others, groups),
            }
        };
        (flags, others, dst) = (rest, &others[used..], after);
    }
    dst.fill(common);
    let mut others = others.iter();
    for (eight, &byte) in dst.chunks_mut(8).zip(flags) {
        let mut left = byte;
        while left != 0 {
            let place = left.trailing_zeros() as usize;
            if let (Some(to), Some(&other)) = (eight.get_mut(place), others.next()) {
                *to = other;
            }
            left &= left - 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use crate::simd::chain::avx2_orders::{close_up, spread, spread_bits};
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU has these instructions.
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) unsafe fn take_out(
        common: u8,
        groups: &[[u8; 64]],
        flags: &mut Vec<u8>,
        others: &mut Vec<u8>,
    ) {
        let common = _mm256_set1_epi8(common as i8);
        for group in groups {
            // SAFETY: the group has 64 bytes.
            let halves =
                [0, 32].map(|at| unsafe { _mm256_loadu_si256(group.as_ptr().add(at).cast()) });
            let [low, high] =
                halves.map(|half| _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, common)) as u32);
            let kept = !(u64::from(low) | u64::from(high) << 32);
            flags.extend_from_slice(&kept.to_le_bytes());
            if kept == 0 {
                continue;
            }
            others.reserve(64);
            let end = others.len() + kept.count_ones() as usize;
            // SAFETY: there is room for 64 bytes, and those up to the new end have been written.
            unsafe {
                close_up(halves, kept, others.as_mut_ptr().add(others.len()));
                others.set_len(end);
            }
        }
    }

    /// Returns how many of the others were used.
    ///
    /// # Safety
    /// The CPU has these instructions.
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) unsafe fn put_back(
        common: u8,
        flags: &[[u8; 8]],
        others: &[u8],
        groups: &mut [[u8; 64]],
    ) -> usize {
        let (common, zero) = (_mm256_set1_epi8(common as i8), _mm256_setzero_si256());
        let mut used = 0;
        let mut padded = [0; 64 + 16];
        for (group, flags) in groups.iter_mut().zip(flags) {
            let kept = u64::from_le_bytes(*flags);
            let count = kept.count_ones() as usize;
            // The last others are not followed by bytes that could be read.
            let mut next = match others.get(used..used + padded.len()) {
                Some(own) => own.as_ptr(),
                None => {
                    padded[..count].copy_from_slice(&others[used..used + count]);
                    padded.as_ptr()
                }
            };
            used += count;
            for i in 0..2 {
                let on = kept >> (32 * i);
                // SAFETY: 64 others and 16 bytes more can be read, and the group has 64 bytes.
                unsafe {
                    let low = spread(on, &mut next);
                    let bytes = _mm256_set_m128i(spread(on >> 16, &mut next), low);
                    let is_common = _mm256_cmpeq_epi8(spread_bits(on as u32), zero);
                    let rest = _mm256_and_si256(is_common, common);
                    let to = group.as_mut_ptr().add(32 * i).cast();
                    _mm256_storeu_si256(to, _mm256_or_si256(bytes, rest));
                }
            }
        }
        used
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq")]
    pub(super) fn count(flags: &[u8]) -> usize {
        let (groups, rest) = flags.as_chunks::<64>();
        let mut sums = _mm512_setzero_si512();
        // SAFETY: a group has 64 bytes, and the mask ends the last load with the flags.
        unsafe {
            for group in groups {
                let v = _mm512_loadu_si512(group.as_ptr().cast());
                sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(v));
            }
            let last = _mm512_maskz_loadu_epi8((1 << rest.len()) - 1, rest.as_ptr().cast());
            sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(last));
        }
        _mm512_reduce_add_epi64(sums) as usize
    }

    /// # Safety
    /// The CPU has these instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
    pub(super) unsafe fn take_out(
        common: u8,
        groups: &[[u8; 64]],
        flags: &mut Vec<u8>,
        others: &mut Vec<u8>,
    ) {
        let common = _mm512_set1_epi8(common as i8);
        for group in groups {
            // SAFETY: the group has 64 bytes.
            let bytes = unsafe { _mm512_loadu_si512(group.as_ptr().cast()) };
            let kept = _mm512_cmpneq_epi8_mask(bytes, common);
            flags.extend_from_slice(&kept.to_le_bytes());
            if kept == 0 {
                continue;
            }
            others.reserve(64);
            let end = others.len() + kept.count_ones() as usize;
            // SAFETY: there is room for 64 bytes, and those up to the new end have been written.
            unsafe {
                let to = others.as_mut_ptr().add(others.len());
                _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi8(kept, bytes));
                others.set_len(end);
            }
        }
    }

    /// Returns how many of the others were used.
    ///
    /// # Safety
    /// The CPU has these instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt,bmi2")]
    pub(super) unsafe fn put_back(
        common: u8,
        flags: &[[u8; 8]],
        others: &[u8],
        groups: &mut [[u8; 64]],
    ) -> usize {
        let common = _mm512_set1_epi8(common as i8);
        let mut used = 0;
        for (group, flags) in groups.iter_mut().zip(flags) {
            let kept = u64::from_le_bytes(*flags);
            let count = kept.count_ones() as usize;
            let mut bytes = common;
            if kept != 0 {
                let own = &others[used..used + count];
                // SAFETY: only as many bytes are read as there are.
                let own = unsafe {
                    _mm512_maskz_loadu_epi8(_bzhi_u64(u64::MAX, count as u32), own.as_ptr().cast())
                };
                bytes = _mm512_mask_expand_epi8(common, kept, own);
                used += count;
            }
            // SAFETY: the group has 64 bytes.
            unsafe { _mm512_storeu_si512(group.as_mut_ptr().cast(), bytes) };
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_testkit::data::Random;

    /// All instruction sets take out the same bytes, at every length and share, and put them back.
    #[test]
    fn twins_agree() {
        let mut random = Random::new(9);
        for n in (0..140).chain([1000, 4099]) {
            for one_in in [1, 2, 10, 500] {
                let src: Vec<u8> = (0..n)
                    .map(|_| if random.below(one_in) == 0 { random.below(4) } else { 2 } as u8)
                    .collect();
                let (mut wanted_flags, mut wanted) = (Vec::new(), Vec::new());
                take_out(Isa::PORTABLE, 2, &src, &mut wanted_flags, &mut wanted);
                for isa in Isa::available() {
                    let (mut flags, mut others) = (Vec::new(), Vec::new());
                    take_out(isa, 2, &src, &mut flags, &mut others);
                    assert_eq!((&flags, &others), (&wanted_flags, &wanted));
                    let mut back = vec![7; n];
                    put_back(isa, 2, &flags, &others, &mut back);
                    assert_eq!(back, src);
                }
            }
        }
    }
}
