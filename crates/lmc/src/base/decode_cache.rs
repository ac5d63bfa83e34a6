//! Keeps decoded parts of files that are likely to be wanted again, and the decoders that read
//! them.
//!
//! Whatever is wanted of a segment, all of it is decoded. If many small tensors refer to one
//! segment, in a different order from its own, each would decode it again. All files that are open
//! together share one allowance: a file of a few bytes may have a thousand bases. Every thread
//! works on a different part of a file, so many threads need more room.

use crate::archive::PartReader;
use crate::pipeline::Pool;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are kept of all files that are open together.
pub(crate) const LEN_MAX: u64 = 32 << 20;
/// Additional bytes for each thread after the first.
const THREAD_LEN: u64 = 16 << 20;
/// The least that a part counts as: it takes more memory than its bytes.
const PART_LEN_MIN: u64 = 256;

/// Bytes that may be kept where this many threads work.
pub(crate) fn len_max(threads: usize) -> u64 {
    LEN_MAX + THREAD_LEN * threads.saturating_sub(1) as u64
}

/// What the files that are open together share.
#[derive(Debug, Default)]
pub(crate) struct DecodeCache {
    /// One for each thread and each level of the base chain that it has reached.
    pub readers: Pool<PartReader>,
    /// Segments of which only a part was asked for. All threads share them, so that the cost of a
    /// file does not depend on the number of threads.
    recent: Mutex<Recent<Arc<Vec<u8>>>>,
    files: AtomicUsize,
}

impl DecodeCache {
    /// The number for another file.
    pub(crate) fn number(&self) -> usize {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    fn recent(&self) -> MutexGuard<'_, Recent<Arc<Vec<u8>>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the start of `out` with the original bytes of a file from `start` on, as far as a kept
    /// part holds them. Returns the number of bytes.
    pub(crate) fn copy(&self, file: usize, start: u64, out: &mut [u8]) -> usize {
        let found = self.recent().find(file, start).map(|(range, part)| (range, part.clone()));
        let Some((range, part)) = found else { return 0 };
        let from = &part[(start - range.start) as usize..];
        let count = from.len().min(out.len());
        out[..count].copy_from_slice(&from[..count]);
        count
    }

    /// Keeps the original bytes of a file from `start` on; at most `len_max` bytes are kept in
    /// total.
    pub(crate) fn keep(&self, file: usize, start: u64, bytes: Vec<u8>, len_max: u64) {
        let range = start..start + bytes.len() as u64;
        self.recent().keep(file, range, Arc::new(bytes), len_max);
    }
}

/// A position in a file: the number of the file, and a byte of its original.
type FilePosition = (usize, u64);

/// Parts of originals. Those that have not been wanted for the longest time are dropped first. `T`
/// is the data of each part.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    /// By start: the end, the data, and when the part was last wanted.
    parts: BTreeMap<FilePosition, (u64, T, u64)>,
    /// Starts of parts, by when they were last wanted.
    order: BTreeMap<u64, FilePosition>,
    clock: u64,
    len: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), order: BTreeMap::new(), clock: 0, len: 0 }
    }
}

impl<T> Recent<T> {
    /// The part that holds byte `at` of the original of a file: its range and its data.
    pub(crate) fn find(&mut self, file: usize, at: u64) -> Option<(Range<u64>, &T)> {
        let positions = (file, 0)..=(file, at);
        let (&position, (end, part, used)) = self.parts.range_mut(positions).next_back()?;
        if *end <= at {
            return None;
        }
        self.order.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.order.insert(self.clock, position);
        Some((position.1..*end, part))
    }

    /// Keeps a part, and drops the parts that have not been wanted for the longest time until at
    /// most `len_max` bytes are left.
    pub(crate) fn keep(&mut self, file: usize, range: Range<u64>, part: T, len_max: u64) {
        let (position, len) = ((file, range.start), counted(range.end - range.start));
        if len > len_max {
            return;
        }
        self.remove(position);
        self.clock += 1;
        self.parts.insert(position, (range.end, part, self.clock));
        self.order.insert(self.clock, position);
        self.len += len;
        while self.len > len_max {
            let Some((_, position)) = self.order.pop_first() else { break };
            self.remove(position);
        }
    }

    fn remove(&mut self, position: FilePosition) {
        if let Some((end, _, used)) = self.parts.remove(&position) {
            self.order.remove(&used);
            self.len -= counted(end - position.1);
        }
    }
}

fn counted(len: u64) -> u64 {
    len.max(PART_LEN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part is kept until other parts, of any file, have replaced it; the most recently wanted
    /// part goes last.
    #[test]
    fn keeps_what_was_wanted_last() {
        let mut recent = Recent::default();
        let most = 100_000;
        recent.keep(1, 100_000..110_000, 1, most);
        assert_eq!(recent.find(1, 109_999), Some((100_000..110_000, &1)));
        assert!(recent.find(1, 99_999).is_none() && recent.find(1, 110_000).is_none());
        assert!(recent.find(0, 105_000).is_none() && recent.find(2, 105_000).is_none());
        for i in 0..20 {
            let start = 1_000_000 + 20_000 * i;
            recent.keep(i as usize % 3, start..start + 10_000, 2, most);
            assert!(recent.find(1, 105_000).is_some(), "{i}");
        }
        assert!(recent.len <= most);
        assert!(recent.find(0, 1_000_000).is_none() && recent.find(1, 1_380_000).is_some());
        (0..10_000).for_each(|i| recent.keep(2, 5_000_000 + i..5_000_001 + i, 3, most));
        assert!(recent.parts.len() <= 400 && recent.find(1, 105_000).is_none());
        assert_eq!(recent.parts.len(), recent.order.len());
        recent.keep(1, 0..100_001, 4, most);
        assert!(recent.find(1, 0).is_none());
    }

    /// A part that is kept again counts once.
    #[test]
    fn the_same_part_counts_once() {
        let mut recent = Recent::default();
        (0..10).for_each(|i| recent.keep(7, 0..500, i, 1000));
        assert_eq!((recent.len, recent.find(7, 3)), (500, Some((0..500, &9))));
    }
}
