//! Ending work that is under way, from another thread.
//!
//! Work that an [`Interrupt`] runs looks for it before each part of a file, on every thread that it
//! takes, and fails by [`ErrorKind::Interrupted`]. It ends as on any other error: what was not
//! published is gone. The interrupt belongs to the thread, so that nothing that works on parts has
//! to be handed one; threads that are started take over that of the thread that starts them.

use lmc_format::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

thread_local! {
    static CURRENT: RefCell<Interrupt> = RefCell::default();
}

/// What ends work. One that nobody sends changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// That of the work which this thread does; if it does none, one that nobody has.
    pub fn current() -> Self {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Makes the work end: it fails soon, unless it is nearly done.
    pub fn send(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Does work that ends when this is sent.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let _before = Before(CURRENT.replace(self.clone()));
        work()
    }
}

/// The interrupt of the work that this is part of.
struct Before(Interrupt);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(std::mem::take(&mut self.0));
    }
}

/// Whether the work of this thread should end.
pub fn is_interrupted() -> bool {
    CURRENT.with_borrow(|current| current.0.load(Ordering::Acquire))
}

/// Fails if the work of this thread should end.
pub(crate) fn check() -> Result<()> {
    match is_interrupted() {
        true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        false => Ok(()),
    }
}

/// What is found out when it is first asked for, by one thread. That it cannot be is kept too, but
/// not if that comes of an interrupt.
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
        let found = find();
        if found.is_err() {
            check()?;
        }
        self.found.get_or_init(|| found).as_ref().map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the work of the interrupt is ended, and what is done after it is not.
    #[test]
    fn belongs_to_its_work() {
        let (outer, inner) = (Interrupt::default(), Interrupt::default());
        inner.send();
        outer.run(|| {
            assert!(!is_interrupted());
            assert_eq!(inner.run(check).unwrap_err().kind, ErrorKind::Interrupted);
            assert!(!is_interrupted());
            outer.send();
            assert!(is_interrupted() && Interrupt::current().run(is_interrupted));
        });
        assert!(check().is_ok());
    }

    /// A failure is kept, that of an interrupt is not, and what was found is found once.
    #[test]
    fn once() {
        let fail = || Err(Error::corrupt("no"));
        let once: Once<u32> = Once::default();
        let interrupt = Interrupt::default();
        interrupt.send();
        assert_eq!(interrupt.run(|| once.get(fail)).unwrap_err().kind, ErrorKind::Interrupted);
        assert_eq!(once.get(|| Ok(7)), Ok(&7));
        assert_eq!(once.get(fail), Ok(&7));
        let once: Once<u32> = Once::default();
        assert!(once.get(fail).is_err() && once.get(|| Ok(7)).is_err());
    }
}
