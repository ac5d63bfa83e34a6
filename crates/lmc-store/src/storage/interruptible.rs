//! A storage that stops working after an interrupt, for a process or a call that is asked to end.
//!
//! From then on every call fails, except those that clean up. So all running work ends in the same
//! way as on any other error: leases are removed, and so are files that have no name yet.

use super::{ObjectInfo, Put, Stat, Storage};
use crate::layout::names::{FORGOTTEN, PENDING, PRUNING};
use lmc::Interrupt;
use lmc_format::Result;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Folders of objects that announce running work; they are removed when it ends, for any reason. A
/// mark is taken back if the look that must follow it is not possible.
const OWN: [&str; 4] = [PENDING, PRUNING, FORGOTTEN, "probe"];

/// Another storage, until an interrupt is sent. The interrupt is checked before each call.
pub struct Interruptible {
    inner: Arc<dyn Storage>,
    interrupt: Interrupt,
}

impl fmt::Debug for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Interruptible {
    /// The storage `inner` until `interrupt` is sent.
    pub fn new(inner: Arc<dyn Storage>, interrupt: &Interrupt) -> Self {
        Self { inner, interrupt: interrupt.clone() }
    }

    fn check(&self) -> Result<()> {
        self.interrupt.check()
    }
}

impl Storage for Interruptible {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.check()?;
        self.inner.put_new(name, bytes)
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        self.check()?;
        self.inner.put_pieces(name, pieces)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.check()?;
        self.inner.replace(name, bytes)
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        self.check()?;
        self.inner.move_new(from, to)
    }

    fn make_durable(&self, name: &str) -> Result<()> {
        self.check()?;
        self.inner.make_durable(name)
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        self.check()?;
        self.inner.read(name, at, out)
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        self.check()?;
        self.inner.stat(name)
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        self.check()?;
        self.inner.names(folder)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.check()?;
        self.inner.folders(folder)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        self.check()?;
        self.inner.list(folder)
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        let is_own = |name: &String| {
            OWN.iter().any(|folder| name.split_once('/').is_some_and(|(top, _)| top == *folder))
        };
        if !names.iter().all(is_own) {
            self.check()?;
        }
        self.inner.delete(names)
    }

    fn remove_temporaries(&self, before_ms: u64) -> Result<u64> {
        self.check()?;
        self.inner.remove_temporaries(before_ms)
    }

    fn has_cheap_stat(&self) -> bool {
        self.inner.has_cheap_stat()
    }

    fn concurrent_puts(&self) -> usize {
        self.inner.concurrent_puts()
    }

    fn directory(&self) -> Option<&Path> {
        self.inner.directory()
    }

    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        self.check()?;
        self.inner.read_all(name, len_max)
    }
}
