//! How much work a file may cause: a small hostile one would otherwise cost hours.
//!
//! Two things are counted. What is read of bases, all of them one on the other, for one read of a
//! base ([`spend`]): files that stand on each other may each ask twice for what is below them. And all
//! bytes that decoders write for one restore or one read, on all threads ([`Budget`]): for a byte that
//! is asked for, a decoder writes a whole segment.

use crate::recent::{LEN_MAX, Recent};
use lmc_format::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is read of bases, all of them one on the other, may come to so many times what is asked for.
const TIMES_MAX: u64 = 256;
/// What every read costs beside its bytes.
const READ_COST: u64 = 4096;
/// What may be read whatever is asked for: blocks are decoded as a whole.
const FREE: u64 = 1 << 20;
/// Decoders may write so many times the length of the original, for it and for each base below it.
/// Its own bytes are written once, those of a base twice where f32 is rounded.
const DECODED_TIMES: u64 = 4;
/// What they may write whatever the length is: whole segments, where little of each is wanted.
const DECODED_FREE: u64 = 64 << 20;
/// Bytes that are hashed for the cost of one that is decoded.
pub(crate) const HASHED_FOR_ONE: u64 = 16;
/// A new file may cost this much to restore; what is left of the budget is for what is not known
/// before it is coded.
const NEW_TIMES: u64 = DECODED_TIMES / 2;
const NEW_FREE: u64 = DECODED_FREE / 2;

/// What decoders may write for one restore or one read of a file.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Bytes of the original.
    len: u64,
    /// How many files have been found one on the other.
    depth: AtomicUsize,
    spent: AtomicU64,
}

/// A budget, and how many files stand on the one that is decoded here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort<'a> {
    budget: &'a Budget,
    pub depth: usize,
}

impl Budget {
    /// For a file with an original of `len` bytes.
    pub(crate) fn new(len: u64) -> Self {
        Self { len, depth: AtomicUsize::new(0), spent: AtomicU64::new(0) }
    }

    /// For work on the file itself.
    pub(crate) fn effort(&self) -> Effort<'_> {
        Effort { budget: self, depth: 0 }
    }

    /// What has been spent.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }
}

/// What decoders may write for an original of `len` bytes on `depth` files.
fn most(times: u64, free: u64, len: u64, depth: usize) -> u64 {
    times.saturating_mul(depth as u64 + 1).saturating_mul(len).saturating_add(free)
}

/// What a new file of `len` bytes may make decoders write of bases, up to `depth` of them one on the
/// other.
pub(crate) fn most_for_new(len: u64, depth: usize) -> u64 {
    most(NEW_TIMES, NEW_FREE, len, depth)
}

impl Effort<'_> {
    /// The same, one file deeper.
    pub(crate) fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// Counts bytes that are about to be decoded; fails if all come to too much.
    pub(crate) fn decode(self, bytes: u64) -> Result<()> {
        let Budget { len, depth, spent } = self.budget;
        let depth = depth.fetch_max(self.depth, Ordering::Relaxed).max(self.depth);
        let most = most(DECODED_TIMES, DECODED_FREE, *len, depth);
        let spent = spent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if spent <= most {
            return Ok(());
        }
        let message = format!(
            "its parts refer to each other and to its bases so often that more than {most} bytes would \
             be decoded for an original of {len}; no file that lmc makes does, so it may be meant to \
             waste time"
        );
        Err(Error::new(ErrorKind::LimitExceeded, message))
    }
}

/// What reading parts of bases will cost, added up before it is done.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Bytes that decoders will write.
    pub writes: u64,
    /// How many files are one on the other.
    pub depth: usize,
    steps: u64,
    /// What will be kept of each file, by a number that it has.
    kept: HashMap<usize, Recent<()>>,
}

impl Cost {
    /// Nothing yet; `steps` is how many parts of spans are looked at before the rest is taken to cost
    /// too much.
    pub(crate) fn new(steps: u64) -> Self {
        Self { writes: 0, depth: 0, steps, kept: HashMap::new() }
    }

    /// The part of a file that holds byte `at` of its original, if it will be there still.
    pub(crate) fn kept(&mut self, file: usize, at: u64) -> Option<Range<u64>> {
        Some(self.kept.get_mut(&file)?.find(at)?.0.clone())
    }

    /// A part of a file will be kept. Half as much is counted on as there is room for: several threads
    /// change the order.
    pub(crate) fn keep(&mut self, file: usize, range: Range<u64>) {
        let kept = self.kept.entry(file).or_insert_with(|| Recent::new(LEN_MAX / 2));
        kept.keep(range, ());
    }

    /// Looks at one more part of a span; says whether it may.
    pub(crate) fn step(&mut self, depth: usize) -> bool {
        self.depth = self.depth.max(depth);
        if self.steps == 0 {
            self.writes = u64::MAX;
            return false;
        }
        self.steps -= 1;
        true
    }
}

thread_local! {
    /// What is left of the read under way; none if there is none. Bases are read on the thread that
    /// asks for them.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A read of a base that is under way.
pub(crate) struct Spent {
    is_outermost: bool,
}

/// Counts a read of `len` bytes of a base, which lasts as long as what is returned; fails if those
/// that it is part of have come to too much.
pub(crate) fn spend(len: usize) -> Result<Spent> {
    let cost = READ_COST + len as u64;
    let Some(left) = LEFT.get() else {
        LEFT.set(Some((len as u64 + FREE).saturating_mul(TIMES_MAX)));
        return Ok(Spent { is_outermost: true });
    };
    let Some(left) = left.checked_sub(cost) else {
        let message = format!(
            "its bases refer to each other so often that reading {len} bytes would read more than \
             {TIMES_MAX} times as much"
        );
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    };
    LEFT.set(Some(left));
    Ok(Spent { is_outermost: false })
}

impl Drop for Spent {
    fn drop(&mut self) {
        if self.is_outermost {
            LEFT.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads level by level, each of which asks `times` for all of the one below.
    fn read(levels: usize, times: usize, reads: &mut u64) -> Result<()> {
        let _spent = spend(512)?;
        *reads += 1;
        (0..if levels > 0 { times } else { 0 }).try_for_each(|_| read(levels - 1, times, reads))
    }

    /// Long chains are read, those that grow with every level end soon, and the next read is free.
    #[test]
    fn chains_end() {
        for _ in 0..2 {
            let mut reads = 0;
            read(64, 1, &mut reads).unwrap();
            assert_eq!(read(60, 2, &mut reads).unwrap_err().kind, ErrorKind::LimitExceeded);
            assert!(reads < 200_000, "{reads}");
        }
    }
}
