//! Writes bytes one after another through a small buffer, past the caches if wanted.

use std::arch::x86_64::*;

/// Bytes that are collected before they are written.
const STAGE: usize = 512;

/// Bytes that may be written in one go.
const ROOM: usize = 256;

/// Writes bytes one after another.
///
/// Streaming stores must be aligned and cover whole lines. The pieces that arrive may not, so they
/// are put together in a buffer.
pub(in crate::simd) struct StagedWriter {
    to: *mut u8,
    streaming: bool,
    buffer: [u8; STAGE + ROOM],
    filled: usize,
}

impl StagedWriter {
    /// A writer to `to`.
    ///
    /// # Safety
    /// `to` has room for all bytes that the writer will be advanced by.
    pub(in crate::simd) unsafe fn new(to: *mut u8, streaming: bool) -> Self {
        Self { to, streaming, buffer: [0; STAGE + ROOM], filled: 0 }
    }

    /// Where the next bytes go; there is room for 256.
    #[inline(always)]
    pub(in crate::simd) fn room(&mut self) -> *mut u8 {
        self.buffer[self.filled..][..ROOM].as_mut_ptr()
    }

    /// Counts the next `len` bytes, at most 192, as written. The caller fences streaming stores.
    #[inline(always)]
    pub(in crate::simd) fn advance(&mut self, len: usize) {
        assert!(len <= ROOM - 64);
        self.filled += len;
        if self.filled > STAGE {
            self.flush();
        }
    }

    /// Writes the rest.
    pub(in crate::simd) fn finish(mut self) {
        self.copy(self.filled);
    }

    /// Writes the buffer. With streaming, less than a line stays in it.
    fn flush(&mut self) {
        let mut taken = self.filled;
        if self.streaming {
            let head = self.to.addr().wrapping_neg() % 64;
            taken = self.filled - (self.filled - head) % 64;
            self.copy(head);
            for part in self.buffer[head..taken].as_chunks::<16>().0 {
                // SAFETY: the parts make whole lines. Their places are aligned and among those
                // promised to `new`; SSE2 is part of every x86-64.
                unsafe {
                    _mm_stream_si128(self.to.cast(), _mm_loadu_si128(part.as_ptr().cast()));
                    self.to = self.to.add(16);
                }
            }
        } else {
            self.copy(taken);
        }
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
    }

    /// Writes the first `len` bytes of the buffer through the caches.
    fn copy(&mut self, len: usize) {
        let bytes = &self.buffer[..len];
        // SAFETY: these bytes' places are among those promised to `new`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.to, len);
            self.to = self.to.add(len);
        }
    }
}
