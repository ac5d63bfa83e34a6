//! Splits the top bytes of rotated words from all others, and merges them again.

use super::per_isa;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::simd::{Isa, IsaKind, prefetch};

/// The split that floats use most, for rotated words of 2 or 4 bytes: `top[i]` is the top byte, and
/// the other bytes, the records, are appended to `out` in order.
///
/// Panics unless `src` and `top` hold the same number of words.
pub(crate) fn split_top(isa: Isa, width: usize, src: &[u8], top: &mut [u8], out: &mut Vec<u8>) {
    let n = top.len();
    assert!(src.len() == n * width && (width == 2 || width == 4));
    let start = out.len();
    out.reserve(n * (width - 1));
    let done = match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => {
            // SAFETY: the isa proves AVX2; `out` has room for the records of all words, and the
            // kernel has written those of the first `done`.
            unsafe {
                let records = out.as_mut_ptr().add(start);
                let done = match width {
                    2 => avx2::split::<2>(src, top, records),
                    _ => avx2::split::<4>(src, top, records),
                };
                out.set_len(start + (width - 1) * done);
                done
            }
        }
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => {
            // SAFETY: as above, with AVX-512 VBMI2.
            unsafe {
                let records = out.as_mut_ptr().add(start);
                let done = match width {
                    2 => avx512::split2(src, top, records),
                    _ => avx512::split4(src, top, records),
                };
                out.set_len(start + (width - 1) * done);
                done
            }
        }
        _ => 0,
    };
    out.resize(start + n * (width - 1), 0);
    let (src, top) = (&src[done * width..], &mut top[done..]);
    let records = &mut out[start + done * (width - 1)..];
    match width {
        2 => split2_plain(isa, src, top, records),
        _ => split4_plain(isa, src, top, records),
    }
}

per_isa! {
    fn split2_plain(src: &[u8], top: &mut [u8], low: &mut [u8]) {
        for ((word, top), low) in src.as_chunks().0.iter().zip(top).zip(low) {
            let word = u16::from_le_bytes(*word).rotate_left(1);
            *low = word as u8;
            *top = (word >> 8) as u8;
        }
    }
}

per_isa! {
    fn split4_plain(src: &[u8], top: &mut [u8], records: &mut [u8]) {
        let records = records.as_chunks_mut::<3>().0;
        for ((word, top), record) in src.as_chunks().0.iter().zip(top).zip(records) {
            let [b0, b1, b2, b3] = u32::from_le_bytes(*word).rotate_left(1).to_le_bytes();
            *record = [b0, b1, b2];
            *top = b3;
        }
    }
}

/// Undoes [`split_top`]. With `streaming`, most words bypass the caches.
///
/// Panics unless `dst`, `top` and `records` hold the same number of words.
pub(crate) fn merge_top(
    isa: Isa,
    width: usize,
    top: &[u8],
    records: &[u8],
    dst: &mut [u8],
    streaming: bool,
) {
    TopMerge::new(isa, width, records, dst, streaming).finish(top);
}

/// [`merge_top`] in steps, as the top bytes become known. This spreads the stores over the time
/// that finding them takes.
pub(crate) struct TopMerge<'a> {
    isa: Isa,
    width: usize,
    records: &'a [u8],
    dst: &'a mut [u8],
    streaming: bool,
    done: usize,
}

impl<'a> TopMerge<'a> {
    /// A merge of `records` into all of `dst`; panics unless they hold the same number of words.
    pub(crate) fn new(
        isa: Isa,
        width: usize,
        records: &'a [u8],
        dst: &'a mut [u8],
        streaming: bool,
    ) -> Self {
        assert!(width == 2 || width == 4);
        assert_eq!(dst.len() / width * (width - 1), records.len());
        assert_eq!(dst.len() % width, 0);
        Self { isa, width, records, dst, streaming, done: 0 }
    }

    /// Prefetches the first records.
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in self.records.chunks(64).take(16) {
            prefetch(line.as_ptr());
        }
    }

    /// Merges most words whose top bytes are known: `top` holds those from the first word on.
    pub(crate) fn advance(&mut self, top: &[u8]) {
        let n = top.len().min(self.dst.len() / self.width);
        if self.done == 0 && self.streaming {
            // Streaming stores must be aligned; the words before the first aligned place are stored
            // as usual.
            let head = aligned_after(self.dst, self.width);
            if head > n {
                return;
            }
            self.plain(&top[..head]);
        }
        let from = self.done.min(n);
        let records = &self.records[from * (self.width - 1)..n * (self.width - 1)];
        let dst = &mut self.dst[from * self.width..n * self.width];
        self.done +=
            merge_vectors(self.isa, self.width, &top[from..n], records, dst, self.streaming);
    }

    /// Merges the rest; panics unless `top` has a byte for each word.
    pub(crate) fn finish(mut self, top: &[u8]) {
        assert_eq!(top.len(), self.dst.len() / self.width);
        self.advance(top);
        self.plain(top);
    }

    /// Merges the words up to the end of `top` without streaming.
    fn plain(&mut self, top: &[u8]) {
        let (from, n) = (self.done, top.len());
        let records = &self.records[from * (self.width - 1)..n * (self.width - 1)];
        let dst = &mut self.dst[from * self.width..n * self.width];
        match self.width {
            2 => merge2_plain(self.isa, &top[from..], records, dst),
            _ => merge4_plain(self.isa, &top[from..], records, dst),
        }
        self.done = n;
    }
}

/// Merges as many words as make whole vectors, from the first on. Returns their number.
fn merge_vectors(
    isa: Isa,
    width: usize,
    top: &[u8],
    records: &[u8],
    dst: &mut [u8],
    streaming: bool,
) -> usize {
    assert!(dst.len() == top.len() * width && records.len() == top.len() * (width - 1));
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX2; the lengths were checked above.
        IsaKind::Avx2 => unsafe {
            match width {
                2 => avx2::merge2(top, records, dst, streaming),
                _ => avx2::merge4(top, records, dst, streaming),
            }
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the isa proves AVX-512 VBMI; the lengths were checked above.
        IsaKind::Avx512 => unsafe {
            match width {
                2 => avx512::merge2(top, records, dst, streaming),
                _ => avx512::merge4(top, records, dst, streaming),
            }
        },
        _ => 0,
    }
}

/// Words of `dst` before the first one that is aligned to 64 bytes; 0 if none is ever aligned.
pub(super) fn aligned_after(dst: &[u8], width: usize) -> usize {
    let gap = dst.as_ptr().addr().wrapping_neg() % 64;
    if gap.is_multiple_of(width) { gap / width } else { 0 }
}

per_isa! {
    fn merge2_plain(top: &[u8], low: &[u8], dst: &mut [u8]) {
        for ((word, &top), &low) in dst.as_chunks_mut().0.iter_mut().zip(top).zip(low) {
            *word = u16::from_le_bytes([low, top]).rotate_right(1).to_le_bytes();
        }
    }
}

per_isa! {
    fn merge4_plain(top: &[u8], records: &[u8], dst: &mut [u8]) {
        let records = records.as_chunks::<3>().0;
        let words = dst.as_chunks_mut().0.iter_mut();
        for ((word, &top), &[b0, b1, b2]) in words.zip(top).zip(records) {
            *word = u32::from_le_bytes([b0, b1, b2, top]).rotate_right(1).to_le_bytes();
        }
    }
}
