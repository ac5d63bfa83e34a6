//! The order that the bytes of an original have in an archive (`docs/format.md`, section 7.6).
//!
//! Tensors are *stretches* of the original. The archive holds all bytes outside them first, and
//! then the stretches. A file may have thousands of short headers between its tensors: together
//! they compress well, and small tensors can share spans.

use crate::error::{Error, Result};
use crate::hash::Hasher;
use crate::limits::{FIRST_ITEM_LEN_MAX, STRETCHES_MAX};
use std::ops::Range;

/// A stretch of the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    /// Where it starts in the original.
    original: u64,
    /// Bytes of the stretches before it.
    data: u64,
}

impl Stretch {
    /// Bytes outside all stretches that come before it.
    fn outside(self) -> u64 {
        self.original.saturating_sub(self.data)
    }
}

/// An order of the bytes of an original: those outside all stretches, then the stretches.
///
/// Positions in this order are called *arranged*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrangement {
    stretches: Vec<Stretch>,
    data_len: u64,
    len: u64,
    is_plain: bool,
    /// Tells different arrangements apart.
    digest: u128,
}

impl Arrangement {
    /// The order of the original itself, which has `len` bytes.
    pub fn plain(len: u64) -> Self {
        Self::build(len, Vec::new(), 0)
    }

    /// Stretches of an original of `len` bytes: for each, the bytes between it and the one before
    /// it, and its length.
    pub fn new(len: u64, stretches: impl IntoIterator<Item = (u64, u64)>) -> Result<Self> {
        let (mut found, mut end, mut data_len) = (Vec::new(), 0_u64, 0_u64);
        for (before, len) in stretches {
            let next = end.checked_add(before).and_then(|original| {
                let stretch = Stretch { original, data: data_len };
                Some((stretch, original.checked_add(len).filter(|_| len > 0)?))
            });
            let (stretch, next_end) = next.ok_or_else(|| Error::corrupt("an empty stretch"))?;
            found.push(stretch);
            end = next_end;
            data_len = data_len.saturating_add(len);
        }
        let outside = len.saturating_sub(data_len);
        if end > len || found.len() > STRETCHES_MAX || outside > FIRST_ITEM_LEN_MAX {
            let message = format!(
                "{} stretches up to byte {end} of {len}, with {outside} bytes outside them",
                found.len()
            );
            return Err(Error::corrupt(message));
        }
        Ok(Self::build(len, found, data_len))
    }

    fn build(len: u64, stretches: Vec<Stretch>, data_len: u64) -> Self {
        let mut hasher = Hasher::default();
        for number in stretches.iter().flat_map(|own| [own.original, own.data]) {
            hasher.write(&number.to_le_bytes());
        }
        [len, data_len].iter().for_each(|number| hasher.write(&number.to_le_bytes()));
        let mut order = Self { stretches, data_len, len, is_plain: true, digest: hasher.finish() };
        let first_len = order.first_len();
        order.is_plain = order.stretches.iter().all(|own| own.outside() == first_len);
        order
    }

    /// Whether both are the same order.
    pub fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest || self.is_plain && other.is_plain
    }

    /// Whether it is the order of the original.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The number of stretches.
    pub fn count(&self) -> usize {
        self.stretches.len()
    }

    /// Bytes of the original.
    pub fn original_len(&self) -> u64 {
        self.len
    }

    /// Bytes outside all stretches, which come first. Without stretches there are none: the
    /// original is in its own order.
    pub fn first_len(&self) -> u64 {
        match self.stretches[..] {
            [] => 0,
            _ => self.len.saturating_sub(self.data_len),
        }
    }

    /// The stretches: for each, the bytes between it and the one before it, and its length.
    pub fn stretches(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut end = 0;
        (0..self.stretches.len()).filter_map(move |i| {
            let range = self.stretch(i)?;
            let before = range.start.saturating_sub(end);
            end = range.end;
            Some((before, range.end.saturating_sub(range.start)))
        })
    }

    /// Where stretch `i` is in the original.
    pub fn stretch(&self, i: usize) -> Option<Range<u64>> {
        let own = self.stretches.get(i)?;
        let data_end = self.data_before(i.saturating_add(1));
        Some(own.original..own.original.saturating_add(data_end.saturating_sub(own.data)))
    }

    /// The stretch with exactly this range in the original, and its arranged range.
    pub fn find(&self, range: &Range<u64>) -> Option<(usize, Range<u64>)> {
        let i = self.stretches.binary_search_by_key(&range.start, |own| own.original).ok()?;
        let start = self.first_len().saturating_add(self.stretches.get(i)?.data);
        let len = range.end.saturating_sub(range.start);
        let is_it = self.stretch(i)? == *range;
        is_it.then(|| (i, start..start.saturating_add(len)))
    }

    /// Bytes of the first `i` stretches.
    fn data_before(&self, i: usize) -> u64 {
        self.stretches.get(i).map_or(self.data_len, |stretch| stretch.data)
    }

    /// Where the arranged bytes `range` are in the original: ranges of it, in the arranged order.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let left = range.end.saturating_sub(at);
            if left == 0 {
                return None;
            }
            let (start, room) = self.place(at);
            let len = left.min(room.max(1));
            at = at.saturating_add(len);
            Some(start..start.saturating_add(len))
        })
    }

    /// Where arranged byte `at` is in the original, and how many bytes follow each other from there
    /// in both orders.
    fn place(&self, at: u64) -> (u64, u64) {
        let first_len = self.first_len();
        match at.checked_sub(first_len) {
            _ if self.is_plain => (at, self.len.saturating_sub(at)),
            None => {
                let i = self.stretches.partition_point(|own| own.outside() <= at);
                let end = self.stretches.get(i).map_or(first_len, |own| own.outside());
                (at.saturating_add(self.data_before(i)), end.saturating_sub(at))
            }
            Some(data) => {
                let i = self.stretches.partition_point(|own| own.data <= data).saturating_sub(1);
                let own = self.stretches.get(i).map_or(0, |own| own.original);
                let start = self.data_before(i);
                let end = self.data_before(i.saturating_add(1));
                (own.saturating_add(data.saturating_sub(start)), end.saturating_sub(data))
            }
        }
    }

    /// The arranged bytes that make up the bytes `range` of the original: those outside all
    /// stretches, and those of stretches. Both follow each other in either order.
    pub fn parts(&self, range: &Range<u64>) -> (Range<u64>, Range<u64>) {
        let first_len = self.first_len();
        let data = |at: u64| match self.stretches.is_empty() {
            true => at,
            false => {
                let i = self.stretches.partition_point(|own| own.original < at);
                let own = i.checked_sub(1).and_then(|i| self.stretches.get(i));
                let reached =
                    own.map_or(0, |own| own.data.saturating_add(at.saturating_sub(own.original)));
                reached.min(self.data_before(i))
            }
        };
        let (from, to) = (data(range.start), data(range.end));
        let outside = range.start.saturating_sub(from)..range.end.saturating_sub(to);
        (outside, first_len.saturating_add(from)..first_len.saturating_add(to))
    }

    /// The bytes `range` of the original one after the other: lengths of pieces, and whether they
    /// belong to a stretch.
    pub fn weave(&self, range: Range<u64>) -> impl Iterator<Item = (u64, bool)> + '_ {
        let mut at = range.start;
        let mut i = self.stretches.partition_point(|own| own.original <= at).saturating_sub(1);
        std::iter::from_fn(move || {
            while at < range.end {
                let own = self.stretch(i).unwrap_or(self.len..self.len);
                let (end, is_data) = match () {
                    () if self.stretches.is_empty() => (range.end, true),
                    () if at < own.start => (own.start, false),
                    () if at < own.end => (own.end, true),
                    () => {
                        i = i.saturating_add(1);
                        continue;
                    }
                };
                let len = end.min(range.end).saturating_sub(at);
                at = at.saturating_add(len);
                return Some((len, is_data));
            }
            None
        })
    }

    /// The bytes of the original that go with the arranged bytes `data`, which belong to
    /// stretches: these bytes, and those outside stretches that are directly before any of them.
    pub fn covered(&self, data: &Range<u64>) -> Range<u64> {
        let after = |at: u64| match at.checked_sub(1) {
            Some(last) if at > self.first_len() => self.place(last).0.saturating_add(1),
            _ => 0,
        };
        after(data.start)..after(data.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The original, as numbers of bytes, in the arranged order.
    fn arranged(len: u64, stretches: &[(u64, u64)]) -> Vec<u64> {
        let (mut at, mut outside, mut data) = (0, Vec::new(), Vec::new());
        for &(before, own) in stretches {
            outside.extend(at..at + before);
            data.extend(at + before..at + before + own);
            at += before + own;
        }
        outside.extend(at..len);
        [outside, data].concat()
    }

    const CASES: [(u64, &[(u64, u64)]); 7] = [
        (0, &[]),
        (9, &[]),
        (9, &[(0, 9)]),
        (20, &[(3, 4), (0, 5), (2, 1)]),
        (20, &[(0, 4), (1, 5), (2, 8)]),
        (20, &[(10, 4), (0, 6)]),
        (6, &[(1, 1), (1, 1), (1, 1)]),
    ];

    /// Every range is found in both directions, and the pieces put the original together again.
    #[test]
    fn orders_by_hand() {
        for (len, stretches) in CASES {
            let order = Arrangement::new(len, stretches.iter().copied()).unwrap();
            let expected = arranged(len, stretches);
            assert_eq!(order.stretches().collect::<Vec<_>>(), stretches);
            let is_sorted = expected.iter().copied().eq(0..len);
            assert_eq!(order.is_plain(), is_sorted, "{stretches:?}");
            for start in 0..=len {
                for end in start..=len {
                    let found: Vec<u64> = order.pieces(start..end).flatten().collect();
                    assert_eq!(found, expected[start as usize..end as usize]);
                    let (outside, data) = order.parts(&(start..end));
                    let mut places = (outside.start, data.start);
                    let mut at = start;
                    for (len, is_data) in order.weave(start..end) {
                        let from = if is_data { &mut places.1 } else { &mut places.0 };
                        for _ in 0..len {
                            assert_eq!(expected[*from as usize], at);
                            (*from, at) = (*from + 1, at + 1);
                        }
                    }
                    assert_eq!((places, at), ((outside.end, data.end), end));
                }
            }
        }
    }

    /// The parts that go with stretches of the data follow each other, up to the end of the last.
    #[test]
    fn covered_parts_are_all() {
        for (len, stretches) in CASES {
            let order = Arrangement::new(len, stretches.iter().copied()).unwrap();
            for step in 1..5 {
                let mut end = 0;
                for at in (order.first_len()..len).step_by(step) {
                    let covered = order.covered(&(at..len.min(at + step as u64)));
                    assert_eq!(covered.start, end);
                    end = covered.end;
                }
                let last = stretches.len().checked_sub(1).and_then(|i| order.stretch(i));
                assert_eq!(end, last.map_or(if stretches.is_empty() { len } else { 0 }, |r| r.end));
            }
        }
    }

    /// What no original can have is refused.
    #[test]
    fn impossible_stretches() {
        for stretches in [&[(0_u64, 0_u64)][..], &[(1, 10)], &[(u64::MAX, 1)], &[(5, u64::MAX)]] {
            assert!(Arrangement::new(10, stretches.iter().copied()).is_err(), "{stretches:?}");
        }
        assert!(Arrangement::new((1 << 26) + 2, [(0, 1)]).is_err());
        assert!(Arrangement::new((1 << 26) + 1, [(0, 1)]).is_ok());
        assert!(Arrangement::new(1 << 30, (0..(1 << 20) + 1).map(|_| (0, 1))).is_err());
    }
}
