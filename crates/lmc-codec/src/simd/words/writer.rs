//! Writes vectors one after another, past the caches if wanted.

use std::arch::x86_64::*;

/// Writes vectors one after another, past the caches if wanted.
///
/// Streaming stores must be aligned: each one takes the end of the previous vector and the start of
/// this one.
pub(in crate::simd) struct VectorWriter {
    to: *mut u8,
    /// Bytes from `to` to the next aligned place; None without streaming.
    gap: Option<usize>,
    order: __m512i,
    last: __m512i,
    started: bool,
}

impl VectorWriter {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(in crate::simd) fn new(to: *mut u8, streaming: bool) -> Self {
        let gap = to.addr().wrapping_neg() % 64;
        let order: [u8; 64] = std::array::from_fn(|i| (i + gap) as u8);
        // SAFETY: `order` has 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        let gap = streaming.then_some(gap);
        Self { to, gap, order, last: _mm512_setzero_si512(), started: false }
    }

    /// Writes `v` after the bytes written so far.
    ///
    /// # Safety
    /// There are 64 bytes of room.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(in crate::simd) unsafe fn put(&mut self, v: __m512i) {
        // SAFETY: guaranteed by the caller. With streaming, the store lags by `64 - gap` bytes,
        // which `finish` adds, and it is aligned.
        unsafe {
            match self.gap {
                Some(gap) if self.started => {
                    let whole = _mm512_permutex2var_epi8(self.last, self.order, v);
                    _mm512_stream_si512(self.to.sub(64 - gap).cast(), whole);
                }
                _ => _mm512_storeu_si512(self.to.cast(), v),
            }
            self.to = self.to.add(64);
        }
        self.started = true;
        self.last = v;
    }

    /// Writes what the last streaming store did not reach.
    ///
    /// # Safety
    /// As [`VectorWriter::put`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(in crate::simd) unsafe fn finish(self) {
        if self.gap.is_some() && self.started {
            // SAFETY: the last vector's place was promised to `put`.
            unsafe { _mm512_storeu_si512(self.to.sub(64).cast(), self.last) };
        }
    }
}
