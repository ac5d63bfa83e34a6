//! Decoded parts of a file that are likely to be wanted again.
//!
//! Whatever is wanted of a segment, all of it is decoded. Where many small tensors refer to one, in
//! another order than it has them, each would decode it anew. Every thread works on another part of a
//! file, so that many threads need room for more: beyond what each file has, they borrow from what the
//! whole process has to spare.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are kept of a file that is open, whatever others keep.
pub(crate) const LEN_MAX: u64 = 16 << 20;
/// Bytes to spare for each core.
const SPARE_EACH: u64 = 32 << 20;
/// The least that a part counts for: it takes more than its bytes.
const PART_LEN_MIN: u64 = 256;

/// What the process has to spare.
fn spare() -> &'static AtomicU64 {
    static SPARE: OnceLock<AtomicU64> = OnceLock::new();
    SPARE.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        // What is tried should not depend on the machine.
        AtomicU64::new(if cfg!(test) { 1 << 20 } else { SPARE_EACH * cores })
    })
}

/// Parts of an original, of which those go first that were not wanted for long; `T` is what is known of
/// each.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    /// By where they start: where they end, what is known of them, and when they were wanted.
    parts: BTreeMap<u64, (u64, T, u64)>,
    /// Where parts start, by when they were wanted.
    order: BTreeMap<u64, u64>,
    clock: u64,
    len: u64,
    len_max: u64,
    /// What it has from others, if it may have any.
    borrowed: Option<u64>,
}

impl<T> Recent<T> {
    /// Nothing yet; parts of `len_max` bytes will be kept.
    pub(crate) fn new(len_max: u64) -> Self {
        let (parts, order) = (BTreeMap::new(), BTreeMap::new());
        Self { parts, order, clock: 0, len: 0, len_max, borrowed: None }
    }

    /// The same, and more as long as the process has memory to spare.
    pub(crate) fn borrowing(len_max: u64) -> Self {
        let mut recent = Self::new(len_max);
        recent.borrowed = Some(0);
        recent
    }

    /// The part that holds byte `at` of the original: where it is, and what is known of it.
    pub(crate) fn find(&mut self, at: u64) -> Option<(Range<u64>, &T)> {
        let (&start, (end, part, used)) = self.parts.range_mut(..=at).next_back()?;
        if *end <= at {
            return None;
        }
        self.order.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.order.insert(self.clock, start);
        Some((start..*end, part))
    }

    /// Keeps a part, and drops what was not wanted for long.
    pub(crate) fn keep(&mut self, range: Range<u64>, part: T) {
        let len = counted(range.end - range.start);
        if len > self.len_max {
            return;
        }
        self.remove(range.start);
        self.clock += 1;
        self.parts.insert(range.start, (range.end, part, self.clock));
        self.order.insert(self.clock, range.start);
        self.len += len;
        self.borrow();
        while self.len > self.len_max + self.borrowed.unwrap_or(0) {
            let Some((_, start)) = self.order.pop_first() else { break };
            self.remove(start);
        }
    }

    fn remove(&mut self, start: u64) {
        if let Some((end, _, used)) = self.parts.remove(&start) {
            self.order.remove(&used);
            self.len -= counted(end - start);
        }
    }

    /// Borrows what there is no room for, if others can spare it.
    fn borrow(&mut self) {
        let Some(borrowed) = &mut self.borrowed else { return };
        let more = self.len.saturating_sub(self.len_max + *borrowed);
        let take = |spare: u64| spare.checked_sub(more);
        if spare().fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            *borrowed += more;
        }
    }
}

impl<T> Drop for Recent<T> {
    fn drop(&mut self) {
        if let Some(borrowed) = self.borrowed {
            spare().fetch_add(borrowed, Ordering::Relaxed);
        }
    }
}

fn counted(len: u64) -> u64 {
    len.max(PART_LEN_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was kept is there until other parts have taken its place; what was wanted goes last.
    #[test]
    fn keeps_what_was_wanted_last() {
        let mut recent = Recent::new(100_000);
        recent.keep(100_000..110_000, 1);
        assert_eq!(recent.find(109_999), Some((100_000..110_000, &1)));
        assert!(recent.find(99_999).is_none() && recent.find(110_000).is_none());
        for i in 0..20 {
            recent.keep(1_000_000 + 20_000 * i..1_010_000 + 20_000 * i, 2);
            assert!(recent.find(105_000).is_some(), "{i}");
        }
        assert!(recent.len <= 100_000);
        assert!(recent.find(1_000_000).is_none() && recent.find(1_380_000).is_some());
        (0..10_000).for_each(|i| recent.keep(5_000_000 + i..5_000_001 + i, 3));
        assert!(recent.parts.len() <= 400 && recent.find(105_000).is_none());
        assert_eq!(recent.parts.len(), recent.order.len());
        recent.keep(0..100_001, 4);
        assert!(recent.find(0).is_none());
    }

    /// A part that is kept again counts once.
    #[test]
    fn the_same_part_counts_once() {
        let mut recent = Recent::new(1000);
        (0..10).for_each(|i| recent.keep(0..500, i));
        assert_eq!((recent.len, recent.find(3)), (500, Some((0..500, &9))));
    }

    /// What is borrowed is given back.
    #[test]
    fn borrows_what_others_spare() {
        // More than there is, again and again, while other tests may borrow it.
        for _ in 0..100 {
            let mut recent = Recent::borrowing(1000);
            (0..2000).for_each(|i| recent.keep(i * 1000..(i + 1) * 1000, ()));
            assert_eq!(recent.len - 1000, recent.borrowed.unwrap() / 1000 * 1000);
            drop(recent);
            assert!(spare().load(Ordering::Relaxed) <= 1 << 20);
        }
    }
}
