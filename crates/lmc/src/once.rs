//! A value that is computed once, however many threads ask for it.

use lmc_format::{ErrorKind, Result};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A value that one thread computes when it is first asked for. A failure is kept too, but not if
/// the cause is an interrupt.
#[derive(Debug)]
pub(crate) struct Once<T> {
    found: OnceLock<Result<T>>,
    turn: Mutex<()>,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self { found: OnceLock::new(), turn: Mutex::new(()) }
    }
}

impl<T> Once<T> {
    pub(crate) fn get(&self, find: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(found) = self.found.get() {
            return found.as_ref().map_err(Clone::clone);
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.found.get() {
            return found.as_ref().map_err(Clone::clone);
        }
        let found = match find() {
            Err(error) if error.kind == ErrorKind::Interrupted => return Err(error),
            found => found,
        };
        self.found.get_or_init(|| found).as_ref().map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::Error;

    /// A failure is kept, that of an interrupt is not, and a value is computed once.
    #[test]
    fn once() {
        let fail = || Err(Error::corrupt("no"));
        let stop = || Err(Error::new(ErrorKind::Interrupted, "interrupted"));
        let once: Once<u32> = Once::default();
        assert_eq!(once.get(stop).unwrap_err().kind, ErrorKind::Interrupted);
        assert_eq!(once.get(|| Ok(7)), Ok(&7));
        assert_eq!(once.get(fail), Ok(&7));
        let once: Once<u32> = Once::default();
        assert!(once.get(fail).is_err() && once.get(|| Ok(7)).is_err());
    }
}
