//! How much is read of bases to restore something: files that stand on each other may each ask twice
//! for what is below them, so that a small hostile chain would never end.

use lmc_format::{Error, ErrorKind, Result};
use std::cell::Cell;

/// What is read of bases, all of them one on the other, may come to so many times what is asked for.
const TIMES_MAX: u64 = 256;
/// What every read costs beside its bytes.
const READ_COST: u64 = 4096;
/// What may be read whatever is asked for: blocks are decoded as a whole.
const FREE: u64 = 1 << 20;

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
