//! Decoded parts of files that are likely to be wanted again, and what reads them.
//!
//! Whatever is wanted of a segment, all of it is decoded. Where many small tensors refer to one, in
//! another order than it has them, each would decode it anew. All files that are open together
//! share one allowance: a file of a few bytes may be on a thousand bases. Every thread works on
//! another part of a file, so that many threads need room for more.

use crate::pipeline::Pool;
use crate::span::SpanDecoder;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are kept of all files that are open together.
pub(crate) const LEN_MAX: u64 = 32 << 20;
/// Bytes more for each thread but the first.
const THREAD_LEN: u64 = 16 << 20;
/// The least that a part counts for: it takes more than its bytes.
const PART_LEN_MIN: u64 = 256;

/// Bytes that may be kept where this many threads work.
pub(crate) fn len_max(threads: usize) -> u64 {
    LEN_MAX + THREAD_LEN * threads.saturating_sub(1) as u64
}

/// What the files that are open together share.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// One for each thread and each file that it has come down to.
    pub decoders: Pool<SpanDecoder>,
    /// Segments that were decoded for a part of them. All threads share them, so that what a file
    /// costs does not depend on how many there are.
    recent: Mutex<Recent<Arc<Vec<u8>>>>,
    files: AtomicUsize,
}

impl Desk {
    /// A number for one more file.
    pub(crate) fn number(&self) -> usize {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    fn recent(&self) -> MutexGuard<'_, Recent<Arc<Vec<u8>>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills the start of `out` with the original bytes of a file from `start` on, as far as a part
    /// that was kept holds them. Returns how many bytes that are.
    pub(crate) fn copy(&self, file: usize, start: u64, out: &mut [u8]) -> usize {
        let found = self.recent().find(file, start).map(|(range, part)| (range, part.clone()));
        let Some((range, part)) = found else { return 0 };
        let from = &part[(start - range.start) as usize..];
        let count = from.len().min(out.len());
        out[..count].copy_from_slice(&from[..count]);
        count
    }

    /// Keeps the original bytes of a file from `start` on; `len_max` of all are kept.
    pub(crate) fn keep(&self, file: usize, start: u64, bytes: Vec<u8>, len_max: u64) {
        let range = start..start + bytes.len() as u64;
        self.recent().keep(file, range, Arc::new(bytes), len_max);
    }
}

/// A place in a file: the number of the file, and a byte of its original.
type Place = (usize, u64);

/// Parts of originals, of which those go first that were not wanted for long; `T` is what is known
/// of each.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    /// By where they start: where they end, what is known of them, and when they were wanted.
    parts: BTreeMap<Place, (u64, T, u64)>,
    /// Where parts start, by when they were wanted.
    order: BTreeMap<u64, Place>,
    clock: u64,
    len: u64,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { parts: BTreeMap::new(), order: BTreeMap::new(), clock: 0, len: 0 }
    }
}

impl<T> Recent<T> {
    /// The part that holds byte `at` of the original of a file: where it is, and what is known of
    /// it.
    pub(crate) fn find(&mut self, file: usize, at: u64) -> Option<(Range<u64>, &T)> {
        let places = (file, 0)..=(file, at);
        let (&place, (end, part, used)) = self.parts.range_mut(places).next_back()?;
        if *end <= at {
            return None;
        }
        self.order.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.order.insert(self.clock, place);
        Some((place.1..*end, part))
    }

    /// Keeps a part, and drops what was not wanted for long, until there are `len_max` bytes.
    pub(crate) fn keep(&mut self, file: usize, range: Range<u64>, part: T, len_max: u64) {
        let (place, len) = ((file, range.start), counted(range.end - range.start));
        if len > len_max {
            return;
        }
        self.remove(place);
        self.clock += 1;
        self.parts.insert(place, (range.end, part, self.clock));
        self.order.insert(self.clock, place);
        self.len += len;
        while self.len > len_max {
            let Some((_, place)) = self.order.pop_first() else { break };
            self.remove(place);
        }
    }

    fn remove(&mut self, place: Place) {
        if let Some((end, _, used)) = self.parts.remove(&place) {
            self.order.remove(&used);
            self.len -= counted(end - place.1);
        }
    }
}

fn counted(len: u64) -> u64 {
    len.max(PART_LEN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was kept is there until other parts have taken its place, of whatever file; what was
    /// wanted goes last.
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
