//! A file that is read mostly from front to back, with what is not needed left out.

use crate::source::Source;

/// Bytes that are read at once.
const CHUNK_LEN: u64 = 1 << 14;

/// A place in a file.
pub(crate) struct Cursor<'s> {
    source: &'s Source<'s>,
    at: u64,
    /// Nothing from here on is read.
    end: u64,
    chunk: Vec<u8>,
    /// Where the chunk begins.
    chunk_at: u64,
}

impl<'s> Cursor<'s> {
    /// The start of a file of which no more than `len_max` bytes are looked at.
    pub(crate) fn new(source: &'s Source<'s>, len_max: u64) -> Self {
        let end = source.len().min(len_max);
        Self { source, at: 0, end, chunk: Vec::new(), chunk_at: 0 }
    }

    /// Where in the file it is.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The next bytes; None if the file ends before.
    pub(crate) fn take(&mut self, len: u64) -> Option<&[u8]> {
        let (start, end) = (self.at, self.at.checked_add(len)?);
        if end > self.end {
            return None;
        }
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        if start < self.chunk_at || end > chunk_end {
            let new_end = self.end.min(end.max(start.saturating_add(CHUNK_LEN)));
            self.chunk = self.source.bytes(start..new_end)?;
            self.chunk_at = start;
        }
        self.at = end;
        let from = usize::try_from(start - self.chunk_at).ok()?;
        self.chunk.get(from..)?.get(..usize::try_from(len).ok()?)
    }

    /// Passes over bytes without reading them.
    pub(crate) fn skip(&mut self, len: u64) -> Option<()> {
        let end = self.at.checked_add(len)?;
        (end <= self.end).then(|| self.at = end)
    }

    /// Goes to a place in the file.
    pub(crate) fn go_to(&mut self, at: u64) -> Option<()> {
        (at <= self.end).then(|| self.at = at)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N as u64)?.first_chunk().copied()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}
