//! A file that is read in parts: only what is asked for, and never beyond its end.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

/// Fills a buffer with the bytes of a file from a position on, or fails.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + 'a;

/// A file or a part of one, and the first error that reading it gave.
pub(crate) struct Source<'a> {
    read: &'a ReadAt<'a>,
    /// Where the part begins. Positions count from there.
    start: u64,
    len: u64,
    error: Rc<RefCell<Option<io::Error>>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(read: &'a ReadAt<'a>, len: u64) -> Self {
        Self { read, start: 0, len, error: Rc::default() }
    }

    /// A part, which is read as if it were the whole file; None if it is not in there.
    pub(crate) fn part(&self, range: Range<u64>) -> Option<Self> {
        let len = range.end.checked_sub(range.start)?;
        let start = self.start.checked_add(range.start)?;
        let error = Rc::clone(&self.error);
        (range.end <= self.len).then_some(Self { read: self.read, start, len, error })
    }

    /// Bytes of the whole file, or of the part.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `buffer`; None if the file ends before that, or if it cannot be read.
    pub(crate) fn fill(&self, at: u64, buffer: &mut [u8]) -> Option<()> {
        let end = at.checked_add(buffer.len() as u64)?;
        if end > self.len {
            return None;
        }
        match (self.read)(self.start + at, buffer) {
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
    pub(crate) fn finish<T>(self, found: T) -> io::Result<T> {
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }
}
