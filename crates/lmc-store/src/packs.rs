//! The bytes of a save, cut into packs that are put while the next ones are coded.

use crate::Store;
use crate::lease::{SaveLease, is_pruning};
use crate::manifest::{Extent, Pack};
use crate::names::PackName;
use crate::storage::Put;
use crossbeam_channel::{Receiver, Sender, bounded};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Bytes of a pack. One is in memory for each put that is under way, and one is being filled.
pub const PACK_LEN: usize = 64 << 20;

/// What became of the packs of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackCount {
    /// Put.
    pub put: u64,
    /// Found as an earlier save left them.
    pub found: u64,
}

/// Which packs that are there already may be relied on.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Packs of the parent.
    pub known: HashSet<PackName>,
    /// Whether a prune was under way when the save began, which may be about to remove others.
    pub is_pruning: bool,
}

/// Puts packs, under a lease that names them.
pub(crate) struct Putter<'a> {
    store: &'a Store,
    lease: Mutex<SaveLease<'a>>,
    reuse: Reuse,
    count: Mutex<PackCount>,
}

/// What the threads that put packs share.
struct Shared<'a> {
    putter: Putter<'a>,
    done: Mutex<Done>,
    has_failed: AtomicBool,
}

#[derive(Default)]
struct Done {
    packs: BTreeMap<usize, Pack>,
    failure: Option<Error>,
}

/// A stream of bytes into packs.
pub(crate) struct PackWriter<'a> {
    has_failed: &'a AtomicBool,
    sender: Sender<(usize, Vec<u8>)>,
    pack_len: usize,
    buffer: Vec<u8>,
    /// Where each pack starts in the stream; the last one is being filled.
    starts: Vec<u64>,
}

/// The packs of a save, and its lease again.
pub(crate) struct Packed<'a> {
    pub packs: Vec<Pack>,
    pub count: PackCount,
    pub lease: SaveLease<'a>,
}

/// Runs `write` with a writer whose bytes are put as packs of `pack_len`; returns when all are
/// there.
pub(crate) fn write_packs<'a, T>(
    store: &'a Store,
    lease: SaveLease<'a>,
    reuse: Reuse,
    pack_len: usize,
    write: impl FnOnce(&mut PackWriter) -> Result<T>,
) -> Result<(T, Packed<'a>)> {
    let putter = Putter::new(store, lease, reuse);
    let shared = Shared { putter, done: Mutex::default(), has_failed: AtomicBool::new(false) };
    let written = std::thread::scope(|scope| {
        let (sender, receiver) = bounded(0);
        let threads: Vec<ScopedJoinHandle<()>> = (0..store.storage.puts_at_once().max(1))
            .map(|_| {
                let (receiver, shared) = (receiver.clone(), &shared);
                let interrupt = lmc::Interrupt::current();
                scope.spawn(move || interrupt.run(|| shared.put_all(&receiver)))
            })
            .collect();
        drop(receiver);
        let (buffer, starts) = (Vec::new(), vec![0]);
        let mut writer =
            PackWriter { has_failed: &shared.has_failed, sender, pack_len, buffer, starts };
        let written = write(&mut writer).and_then(|value| writer.cut().map(|()| value));
        drop(writer);
        for thread in threads {
            if thread.join().is_err() {
                shared.fail(Error::new(ErrorKind::Io, "a thread failed; please report it"));
            }
        }
        written
    });
    let done = shared.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The cause, not what the writer made of it.
    if let Some(failure) = done.failure {
        return Err(failure);
    }
    let value = written?;
    let (count, lease) = shared.putter.into_parts();
    let packs = done.packs.into_values().collect();
    Ok((value, Packed { packs, count, lease }))
}

impl Shared<'_> {
    fn put_all(&self, receiver: &Receiver<(usize, Vec<u8>)>) {
        for (i, bytes) in receiver {
            match self.putter.put(&bytes) {
                Ok(name) => {
                    let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.packs.insert(i, Pack { name, size: bytes.len() as u64 });
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    fn fail(&self, error: Error) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.failure.get_or_insert(error);
        self.has_failed.store(true, Ordering::Release);
    }
}

impl<'a> Putter<'a> {
    pub(crate) fn new(store: &'a Store, lease: SaveLease<'a>, reuse: Reuse) -> Self {
        Self { store, lease: Mutex::new(lease), reuse, count: Mutex::default() }
    }

    /// A pack that is there and stays, if it is known to.
    pub(crate) fn known(&self, name: &PackName) -> Option<PackName> {
        self.reuse.known.get(name).cloned()
    }

    /// Sees to it that a pack of these bytes is there and stays.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<PackName> {
        let mut name = PackName::of(bytes, 0);
        let is_new = loop {
            if self.reuse.known.contains(&name) {
                break false;
            }
            match self.store.storage.stat(&name.object())? {
                Some(stat)
                    if stat.size == bytes.len() as u64 && self.may_rely(stat.modified_ms) =>
                {
                    self.store.storage.settle(&name.object())?;
                    break false;
                }
                Some(_) => name = name.next_copy(),
                None => {
                    // Looked for after the pack: it may be missing because one prune removed it,
                    // while another one has it in its list and would remove ours.
                    if self.is_pruning_now()? {
                        name = name.unheard_of_copy()?;
                    }
                    match self.store.storage.put_new(&name.object(), bytes)? {
                        Put::Created => break true,
                        // Another writer was faster, or we were and did not hear of it.
                        Put::Exists => {}
                    }
                }
            }
        };
        self.count(is_new);
        let mut lease = self.lease();
        lease.add_packs([name.as_str().to_string()]);
        lease.keep()?;
        Ok(name)
    }

    fn count(&self, is_new: bool) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        count.put += u64::from(is_new);
        count.found += u64::from(!is_new);
    }

    /// Whether a pack that no snapshot is known to need will stay: no prune that has not seen our
    /// lease is under way, and to those that have it is too young for longer than until the lease
    /// names it.
    fn may_rely(&self, modified_ms: u64) -> bool {
        let age = self.lease().storage_now_ms().saturating_sub(modified_ms);
        !self.reuse.is_pruning && age < self.store.grace_ms() / 4
    }

    fn is_pruning_now(&self) -> Result<bool> {
        let now_ms = self.lease().storage_now_ms();
        is_pruning(self.store, now_ms)
    }

    fn lease(&self) -> std::sync::MutexGuard<'_, SaveLease<'a>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done, and the lease.
    pub(crate) fn into_parts(self) -> (PackCount, SaveLease<'a>) {
        let count = self.count.into_inner().unwrap_or_else(PoisonError::into_inner);
        (count, self.lease.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PackWriter<'_> {
    /// Bytes written so far.
    pub(crate) fn position(&self) -> u64 {
        self.pack_start() + self.buffer.len() as u64
    }

    fn pack_start(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Ends the pack that is being filled, so that what comes can be removed apart from it.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.send().map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        }
        Ok(())
    }

    /// Where the bytes from `start` to here will be; packs are numbered from 0.
    pub(crate) fn extents_from(&self, start: u64) -> Vec<Extent> {
        let end = self.position();
        let mut extents = Vec::new();
        let mut pack = self.starts.partition_point(|&pack_start| pack_start <= start) - 1;
        let mut at = start;
        while at < end {
            let pack_end = self.starts.get(pack + 1).map_or(end, |&next| next.min(end));
            extents.push(Extent { pack, offset: at - self.starts[pack], len: pack_end - at });
            (at, pack) = (pack_end, pack + 1);
        }
        extents
    }

    fn send(&mut self) -> io::Result<()> {
        let next = Vec::with_capacity(self.buffer.capacity().min(self.pack_len));
        let bytes = std::mem::replace(&mut self.buffer, next);
        let start = self.pack_start() + bytes.len() as u64;
        let sent = self.sender.send((self.starts.len() - 1, bytes));
        self.starts.push(start);
        sent.map_err(|_| failed())
    }
}

fn failed() -> io::Error {
    io::Error::other("a pack could not be put")
}

impl Write for PackWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_failed.load(Ordering::Acquire) {
            return Err(failed());
        }
        let count = bytes.len().min(self.pack_len - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        if self.buffer.len() == self.pack_len {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
