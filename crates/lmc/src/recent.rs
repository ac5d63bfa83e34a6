//! Decoded parts of a file that are likely to be wanted again.
//!
//! Whatever is wanted of a segment, all of it is decoded. Where many small tensors refer to one, in
//! another order than it has them, each would decode it anew.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes that are kept of a file that is open.
pub(crate) const LEN_MAX: u64 = 16 << 20;
/// Parts that are kept: they are looked through one by one.
const COUNT_MAX: usize = 512;

/// Parts of an original, the one that was wanted last first; `T` is what is known of each.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    parts: VecDeque<(Range<u64>, T)>,
    len: u64,
    len_max: u64,
}

impl<T> Recent<T> {
    /// Nothing yet; parts of `len_max` bytes will be kept.
    pub(crate) fn new(len_max: u64) -> Self {
        Self { parts: VecDeque::new(), len: 0, len_max }
    }

    /// The part that holds byte `at` of the original.
    pub(crate) fn find(&mut self, at: u64) -> Option<&(Range<u64>, T)> {
        let i = self.parts.iter().position(|(range, _)| range.contains(&at))?;
        let found = self.parts.remove(i)?;
        self.parts.push_front(found);
        self.parts.front()
    }

    /// Keeps a part, and drops what was not wanted for long.
    pub(crate) fn keep(&mut self, range: Range<u64>, part: T) {
        let len = |range: &Range<u64>| range.end - range.start;
        if len(&range) > self.len_max {
            return;
        }
        self.len += len(&range);
        self.parts.push_front((range, part));
        while self.len > self.len_max || self.parts.len() > COUNT_MAX {
            let Some((range, _)) = self.parts.pop_back() else { break };
            self.len -= len(&range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was kept is there until other parts have taken its place; what was wanted goes last.
    #[test]
    fn keeps_what_was_wanted_last() {
        let mut recent = Recent::new(100);
        recent.keep(100..110, 1);
        assert_eq!(recent.find(109), Some(&(100..110, 1)));
        assert!(recent.find(99).is_none() && recent.find(110).is_none());
        for i in 0..20 {
            recent.keep(1000 + 20 * i..1010 + 20 * i, 2);
            assert!(recent.find(105).is_some(), "{i}");
        }
        assert!(recent.len <= 100);
        assert!(recent.find(1000).is_none() && recent.find(1380).is_some());
        (0..1000).for_each(|i| recent.keep(5000 + i..5000 + i, 3));
        assert!(recent.parts.len() <= COUNT_MAX && recent.find(105).is_none());
        recent.keep(0..101, 4);
        assert!(recent.find(0).is_none());
    }
}
