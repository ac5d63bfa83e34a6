//! A file that is read in parts: only what is asked for, and never beyond its end.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

/// Fills a buffer with the bytes of a file from a position on, or fails.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + 'a;

/// A file, and the first error that reading it gave.
pub(crate) struct Source<'a> {
    read: &'a ReadAt<'a>,
    len: u64,
    error: RefCell<Option<io::Error>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(read: &'a ReadAt<'a>, len: u64) -> Self {
        Self { read, len, error: RefCell::new(None) }
    }

    /// Bytes of the whole file.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer`; None if the file ends before that, or if it cannot be read.
    pub(crate) fn fill(&self, at: u64, buffer: &mut [u8]) -> Option<()> {
        let end = at.checked_add(buffer.len() as u64)?;
        if end > self.len {
            return None;
        }
        match (self.read)(at, buffer) {
            Ok(()) => Some(()),
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                None
            }
        }
    }

    /// The bytes of a range that the caller has found to be short enough for memory.
    pub(crate) fn bytes(&self, range: Range<u64>) -> Option<Vec<u8>> {
        if range.end > self.len {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(range.end.checked_sub(range.start)?).ok()?];
        self.fill(range.start, &mut bytes)?;
        Some(bytes)
    }

    /// What was found, unless reading has failed: then nothing is known.
    pub(crate) fn finish<T>(self, found: Option<T>) -> io::Result<Option<T>> {
        match self.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }
}
