//! The bytes of a save, cut into packs. Packs are put while the next ones are coded.

use crate::Store;
use crate::layout::lease::{SaveLease, is_pruning, numbers_of_others};
use crate::layout::manifest::{Extent, Pack};
use crate::layout::names::PackName;
use crate::read::library::Packs;
use crate::save::pack_bytes::PackBytes;
use crate::save::pack_pieces::PackPieces;
use crate::save::reuse::is_unreadable;
use crate::save::warning::Warning;
use crate::storage::{Put, Storage};
use crate::upkeep::check::{has_bad_bytes, is_lost};
use crossbeam_channel::{Receiver, bounded};
use lmc::{Context, Crew, KeepBytes, Urgency};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, ScopedJoinHandle};

/// Bytes of a pack. Each running put has one in memory, and another one is being filled.
pub const PACK_LEN: usize = 64 << 20;
/// The fewest and the most packs that are put concurrently, unless the memory is given.
const PUTS_MIN: usize = 2;
const PUTS_MAX: usize = 8;
/// Packs may have this part of the memory that is given.
const PACKS_SHARE: u64 = 2;

/// How many packs of a save are put concurrently.
fn concurrent_puts(storage: &dyn Storage, context: &Context, pack_len: usize) -> usize {
    let puts = match context.memory {
        0 => (context.thread_count() / 2).clamp(PUTS_MIN, PUTS_MAX),
        memory => (memory / PACKS_SHARE / pack_len as u64).saturating_sub(1) as usize,
    };
    puts.min(storage.concurrent_puts()).max(1)
}

impl Store {
    /// A context for reading several packs concurrently. Those that are far away are held in
    /// memory.
    pub(crate) fn context_for_packs(&self) -> Context {
        match self.storage.has_cheap_stat() {
            true => self.context.clone(),
            false => self.context_with_packs(&self.context),
        }
    }

    /// The same for work that holds each pack in memory.
    pub(crate) fn context_with_packs(&self, context: &Context) -> Context {
        context.on_threads(concurrent_puts(&*self.storage, context, PACK_LEN))
    }
}

/// What became of the packs of a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackCount {
    /// Put.
    pub put: u64,
    /// Found, as an earlier save left them.
    pub found: u64,
}

/// Which existing packs may be relied on.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Packs of the parent, by the hashes of their bytes.
    pub known: HashMap<String, PackName>,
    /// Whether a prune was running when the save began; it may be about to remove other packs.
    pub is_pruning: bool,
}

impl Reuse {
    pub(crate) fn new<'a>(packs: impl Iterator<Item = &'a Pack>, is_pruning: bool) -> Self {
        let mut known = HashMap::new();
        for Pack { name, .. } in packs {
            known.entry(name.hash().to_string()).or_insert_with(|| name.clone());
        }
        Self { known, is_pruning }
    }
}

/// Puts packs under a lease that names them.
pub(crate) struct Putter<'a> {
    store: &'a Store,
    lease: Mutex<SaveLease<'a>>,
    reuse: Reuse,
    state: Mutex<State>,
}

/// What a putter has done so far.
#[derive(Default)]
struct State {
    count: PackCount,
    /// Packs that were put or found, by the hashes of their bytes.
    done: HashMap<String, PackName>,
    /// Packs that were damaged and have been repaired.
    healed: Vec<PackName>,
    /// Leases of others that were looked at. Also the numbers of the packs that they put while a
    /// prune is running, with the time of the first lease of each.
    leases: HashSet<String>,
    numbers: HashMap<u32, u64>,
}

/// What the threads that put packs share.
struct Shared<'a> {
    putter: Putter<'a>,
    bytes: Arc<PackBytes>,
    crew: &'a Crew,
    done: Mutex<PutResults>,
    has_failed: AtomicBool,
}

#[derive(Default)]
struct PutResults {
    packs: BTreeMap<usize, Pack>,
    failure: Option<Error>,
}

/// Writes a stream of bytes into packs.
pub(crate) struct PackWriter<'a> {
    has_failed: &'a AtomicBool,
    /// Gives a pack with its number to the threads that put packs, or puts it directly if there are
    /// none; returns whether that worked.
    send: &'a (dyn Fn(usize, Arc<PackPieces>) -> bool + Sync),
    pack_len: usize,
    bytes: Arc<PackBytes>,
    /// Where each pack starts in the stream; the last one is being filled.
    starts: Vec<u64>,
    /// Bytes of the pack that is being filled.
    filled: usize,
}

/// The packs of a save, and its lease, which is handed back.
pub(crate) struct Packed<'a> {
    pub packs: Vec<Pack>,
    pub count: PackCount,
    /// Packs that were damaged and have been repaired.
    pub healed: Vec<PackName>,
    pub lease: SaveLease<'a>,
}

/// Runs `write` with a writer whose bytes are put as packs of `pack_len`; returns when all packs
/// exist.
pub(crate) fn write_packs<'a, T>(
    store: &'a Store,
    lease: SaveLease<'a>,
    reuse: Reuse,
    pack_len: usize,
    write: impl FnOnce(&mut PackWriter) -> Result<T>,
) -> Result<(T, Packed<'a>)> {
    let putter = Putter::new(store, lease, reuse);
    let bytes = PackBytes::new(&store.storage);
    let (bytes, has_failed) = (Arc::new(bytes), AtomicBool::new(false));
    let (crew, done) = (&store.context.crew, Mutex::default());
    let shared = Shared { putter, bytes: bytes.clone(), crew, done, has_failed };
    let written = std::thread::scope(|scope| {
        let (sender, receiver) = bounded(0);
        let start = |_| {
            let (receiver, shared) = (receiver.clone(), &shared);
            let put_all = move || store.context.employ(|| shared.put_all(&receiver));
            // The system may refuse threads; those that were started do the work.
            Builder::new().spawn_scoped(scope, put_all).ok()
        };
        let threads: Vec<ScopedJoinHandle<()>> =
            (0..concurrent_puts(&*store.storage, &store.context, pack_len))
                .map_while(start)
                .collect();
        drop(receiver);
        let has_threads = !threads.is_empty();
        let send = |i, pieces: Arc<PackPieces>| {
            if has_threads {
                return sender.send((i, pieces)).is_ok();
            }
            shared.put(i, pieces);
            !shared.has_failed.load(Ordering::Acquire)
        };
        let has_failed = &shared.has_failed;
        let starts = vec![0];
        let mut writer = PackWriter { has_failed, send: &send, pack_len, bytes, starts, filled: 0 };
        let written = write(&mut writer).and_then(|value| writer.cut().map(|()| value));
        drop(sender);
        for thread in threads {
            if thread.join().is_err() {
                shared.fail(Error::new(ErrorKind::Io, "a thread failed; please report it"));
            }
        }
        written
    });
    let done = shared.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Report the cause and not the error that the writer saw because of it.
    if let Some(failure) = done.failure {
        return Err(failure);
    }
    let value = written?;
    let (count, healed, lease) = shared.putter.into_parts();
    let packs = done.packs.into_values().collect();
    Ok((value, Packed { packs, count, healed, lease }))
}

impl Shared<'_> {
    fn put_all(&self, receiver: &Receiver<(usize, Arc<PackPieces>)>) {
        for (i, pieces) in receiver {
            self.put(i, pieces);
            if self.has_failed.load(Ordering::Acquire) {
                return;
            }
        }
    }

    fn put(&self, i: usize, pieces: Arc<PackPieces>) {
        match self.putter.put(&pieces.slices()) {
            Ok(name) => {
                self.bytes.was_put(i, name.clone());
                let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
                done.packs.insert(i, Pack { name, size: pieces.len() });
            }
            Err(error) => self.fail(error),
        }
        // Somebody may be reading this pack just now.
        if let Some(pieces) = Arc::into_inner(pieces) {
            pieces.give_back(self.crew);
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
        Self { store, lease: Mutex::new(lease), reuse, state: Mutex::default() }
    }

    /// A pack with the bytes of `name` that exists and stays, if one is known.
    pub(crate) fn known(&self, name: &PackName) -> Option<PackName> {
        self.reuse.known.get(name.hash()).cloned()
    }

    /// Makes sure that a pack of these bytes exists and stays.
    pub(crate) fn put(&self, pieces: &[&[u8]]) -> Result<PackName> {
        let plain = lmc::in_turn(Urgency::Urgent, || PackName::of_pieces(pieces));
        if let Some(name) = self.state().done.get(plain.hash()) {
            return Ok(name.clone());
        }
        let (name, is_new) = self.place(&plain, pieces)?;
        if !is_new {
            self.store.storage.make_durable(&name.object())?;
            self.compare(&name, pieces)?;
        }
        let mut state = self.state();
        state.count.put += u64::from(is_new);
        state.count.found += u64::from(!is_new);
        state.done.insert(plain.hash().to_string(), name.clone());
        drop(state);
        let mut lease = self.lease();
        lease.add_packs([name.as_str().to_string()]);
        lease.keep()?;
        Ok(name)
    }

    /// A pack that may be relied on, or a new one of these bytes, and whether it is new.
    fn place(&self, plain: &PackName, pieces: &[&[u8]]) -> Result<(PackName, bool)> {
        if let Some(known) = self.known(plain) {
            return Ok((known, false));
        }
        let mut name = plain.clone();
        loop {
            match self.store.storage.stat(&name.object())? {
                Some(stat) if self.may_rely(stat.modified_ms) => return Ok((name, false)),
                Some(_) => name = name.next_copy(),
                None => {
                    // Looked for after the pack: the pack may be missing because one prune removed
                    // it, while another prune still has it in its list and would remove ours.
                    if self.is_pruning_now()? {
                        return self.place_beside_prune(plain, pieces);
                    }
                    match self.store.storage.put_pieces(&name.object(), pieces)? {
                        Put::Created => return Ok((name, true)),
                        // Another writer was faster, or our put succeeded and we did not hear of
                        // it.
                        Put::Exists => {}
                    }
                }
            }
        }
    }

    /// Like `place`, while a prune may remove packs by their plain names.
    fn place_beside_prune(&self, plain: &PackName, pieces: &[&[u8]]) -> Result<(PackName, bool)> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        if let Some(name) = self.put_by_another(plain, len)? {
            return Ok((name, false));
        }
        let name = plain.numbered_copy(self.lease().number());
        // If it exists, another of our threads was faster: nobody else has this number.
        let put = self.store.storage.put_pieces(&name.object(), pieces)?;
        Ok((name, put == Put::Created))
    }

    /// A pack of the same bytes that another writer put while a prune was running, under a number
    /// that its lease had before it put any pack. Every prune that has listed the pack has seen
    /// that lease, or else it sees ours.
    fn put_by_another(&self, plain: &PackName, len: usize) -> Result<Option<PackName>> {
        let (now_ms, own) = {
            let lease = self.lease();
            (lease.storage_now_ms(), lease.number())
        };
        let mut state = self.state();
        for (number, made_ms) in numbers_of_others(self.store, now_ms, &mut state.leases)? {
            if number != own {
                let first_ms = state.numbers.entry(number).or_insert(made_ms);
                *first_ms = made_ms.min(*first_ms);
            }
        }
        let numbers: Vec<(u32, u64)> = state.numbers.iter().map(|(n, ms)| (*n, *ms)).collect();
        drop(state);
        for (number, lease_ms) in numbers {
            let name = plain.numbered_copy(number);
            let Some(stat) = self.store.storage.stat(&name.object())? else { continue };
            let is_young = now_ms.saturating_sub(stat.modified_ms) < self.store.grace_ms() / 2;
            if stat.size == len as u64 && is_young && stat.modified_ms >= lease_ms {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Compares a pack that is relied on with the bytes that it should have, and writes them again
    /// if they differ.
    fn compare(&self, name: &PackName, pieces: &[&[u8]]) -> Result<()> {
        let bytes = pieces.concat();
        let storage = &self.store.storage;
        let is_good = match storage.read_all(&name.object(), bytes.len() as u64) {
            Ok(found) => found == bytes,
            Err(e) if is_lost(&e) => false,
            Err(e) if has_bad_bytes(&**storage, &name.object(), &e) => false,
            Err(e) => return Err(e),
        };
        if !is_good {
            storage.replace(&name.object(), &bytes)?;
            self.state().healed.push(name.clone());
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a pack that no known snapshot needs will stay. No running prune has missed our
    /// lease. For prunes that have seen it, the pack stays too young to be removed until the lease
    /// names it.
    fn may_rely(&self, modified_ms: u64) -> bool {
        let age = self.lease().storage_now_ms().saturating_sub(modified_ms);
        !self.reuse.is_pruning && age < self.store.grace_ms() / 4
    }

    fn is_pruning_now(&self) -> Result<bool> {
        let now_ms = self.lease().storage_now_ms();
        is_pruning(self.store, now_ms)
    }

    fn lease(&self) -> MutexGuard<'_, SaveLease<'a>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts, the packs that were repaired, and the lease.
    pub(crate) fn into_parts(self) -> (PackCount, Vec<PackName>, SaveLease<'a>) {
        let State { count, healed, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (count, healed, self.lease.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The bytes of a pack, if they are at the start of an object of at least that length: a pack that
/// grew still has them all.
pub(crate) fn bytes_at_start(
    storage: &dyn Storage,
    name: &PackName,
    size: u64,
) -> Result<Option<Vec<u8>>> {
    let object = name.object();
    // A manifest cannot name a pack that is too long for memory.
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    match storage.read(&object, 0, &mut bytes) {
        Err(e) if is_unreadable(&e) || has_bad_bytes(storage, &object, &e) => Ok(None),
        read => read.map(|()| name.fits(&bytes).then_some(bytes)),
    }
}

/// The warning about a pack that was damaged.
pub(crate) fn healed_warning(name: &PackName) -> Warning {
    let object = name.object();
    Warning::new(format!("{object} was damaged; it was written again and is good now"))
}

impl PackWriter<'_> {
    /// Bytes written so far.
    pub(crate) fn position(&self) -> u64 {
        self.pack_start() + self.filled as u64
    }

    /// The bytes written so far, to be read again.
    pub(crate) fn packs(&self) -> Arc<dyn Packs> {
        self.bytes.clone()
    }

    fn pack_start(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Ends the current pack, so that the bytes that follow can be removed separately.
    pub(crate) fn cut(&mut self) -> Result<()> {
        if self.filled > 0 {
            self.send().map_err(|e| Error::new(ErrorKind::Io, e.to_string()).with_source(e))?;
        }
        Ok(())
    }

    /// Where the bytes from `start` on will be; packs are numbered from 0.
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
        let pieces = self.bytes.end_pack();
        let start = self.position();
        let number = self.starts.len() - 1;
        self.starts.push(start);
        self.filled = 0;
        if (self.send)(number, pieces) { Ok(()) } else { Err(failed()) }
    }
}

fn failed() -> io::Error {
    io::Error::other("a pack could not be stored")
}

impl KeepBytes for PackWriter<'_> {
    fn keep(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let bytes = Arc::new(bytes);
        let mut start = 0;
        while start < bytes.len() {
            if self.has_failed.load(Ordering::Acquire) {
                return Err(failed());
            }
            let end = bytes.len().min(start + self.pack_len - self.filled);
            self.bytes.push(&bytes, start..end);
            self.filled += end - start;
            start = end;
            if self.filled == self.pack_len {
                self.send()?;
            }
        }
        Ok(())
    }
}
