//! Leases: saves and prunes announce themselves with objects, so that neither needs a lock.
//!
//! A save makes its lease before it relies on anything. A prune looks for leases before it decides
//! what is unreferenced. `docs/store.md` shows why that is enough.

use crate::Store;
use crate::layout::names::{PENDING, PRUNING, random_copy_number, random_id};
use crate::storage::ObjectInfo;
use lmc_format::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

const LEASE_LEN_MAX: u64 = 1 << 26;

/// What a running save needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The save.
    pub save: String,
    /// The process that runs it.
    pub pid: u32,
    /// Snapshots whose packs it relies on, as run, page and name.
    pub parents: Vec<String>,
    /// Packs that it had put or found when the lease was made.
    pub packs: Vec<String>,
    /// The number that its packs get if it puts them while a prune is running; 0 if not stated.
    #[serde(default)]
    pub number: u32,
}

/// A lease that was found, and how old it is.
#[derive(Debug)]
pub(crate) struct Found {
    pub entry: ObjectInfo,
    pub pending: Pending,
}

/// The lease of a save. It is renewed now and then, and all its objects are removed at the end.
#[derive(Debug)]
pub(crate) struct SaveLease<'a> {
    store: &'a Store,
    pending: Pending,
    objects: Vec<String>,
    /// When it was last made: by the clock that nobody can set, and by the clock of the storage.
    made_boot_ms: u64,
    stored_ms: u64,
    /// When the storage's time was known, by the clock that nobody can set.
    known_boot_ms: u64,
}

impl<'a> SaveLease<'a> {
    /// Announces a save that relies on `parents`.
    pub(crate) fn create(store: &'a Store, save: &str, parents: Vec<String>) -> Result<Self> {
        let (pid, packs, number) = (std::process::id(), Vec::new(), random_copy_number()?);
        let pending = Pending { save: save.to_string(), pid, parents, packs, number };
        let objects = Vec::new();
        let mut lease =
            Self { store, pending, objects, made_boot_ms: 0, stored_ms: 0, known_boot_ms: 0 };
        lease.make()?;
        Ok(lease)
    }

    /// The older objects stay: a list in progress may miss an object that is created while another
    /// one is removed.
    fn make(&mut self) -> Result<()> {
        let object = format!("{PENDING}/{}", random_id()?);
        let made_boot_ms = self.store.clock.boot_ms();
        let bytes = serde_json::to_vec(&self.pending)
            .map_err(|e| Error::invalid(format!("cannot write a lease: {e}")))?;
        // Before the put, so that the object is removed even if the put fails after creating it.
        self.objects.push(object.clone());
        // The name is random: if the object already exists, the put was sent twice.
        self.store.storage.put_new(&object, &bytes)?;
        let stat = self.store.storage.stat(&object)?.ok_or_else(lost)?;
        (self.made_boot_ms, self.stored_ms) = (made_boot_ms, stat.modified_ms);
        self.known_boot_ms = self.store.clock.boot_ms();
        Ok(())
    }

    /// Names packs that the save relies on from now on.
    pub(crate) fn add_packs(&mut self, packs: impl IntoIterator<Item = String>) {
        self.pending.packs.extend(packs);
    }

    /// Renews the lease if it is getting old. Fails if it is so old that a prune may have taken the
    /// save for dead.
    pub(crate) fn keep(&mut self) -> Result<()> {
        let grace = self.store.grace_ms();
        if self.is_late() {
            return Err(lost());
        }
        if self.age_ms() > grace / 4 { self.make() } else { Ok(()) }
    }

    /// How long ago it was last made.
    fn age_ms(&self) -> u64 {
        self.store.clock.boot_ms().saturating_sub(self.made_boot_ms)
    }

    /// Whether a prune may soon take the save for dead.
    pub(crate) fn is_late(&self) -> bool {
        self.age_ms() > self.store.grace_ms() / 2
    }

    /// Renews the lease now, with everything that it names.
    pub(crate) fn renew(&mut self) -> Result<()> {
        self.make()
    }

    /// Fails unless the lease has been valid until now.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.keep()?;
        if self.is_there()? { Ok(()) } else { Err(lost()) }
    }

    /// Whether the lease still exists.
    pub(crate) fn is_there(&self) -> Result<bool> {
        let newest = self.objects.last().map(|object| self.store.storage.stat(object));
        Ok(newest.transpose()?.flatten().is_some())
    }

    /// The number for packs that are put under this lease. It never changes.
    pub(crate) fn number(&self) -> u32 {
        self.pending.number
    }

    /// A time that has certainly passed by the clock of the storage, however long it took to make
    /// the lease.
    pub(crate) fn storage_past_ms(&self) -> u64 {
        let since = self.store.clock.boot_ms().saturating_sub(self.known_boot_ms);
        self.stored_ms.saturating_add(since)
    }

    /// The current time by the clock of the storage, or a later one if making the lease took long.
    pub(crate) fn storage_now_ms(&self) -> u64 {
        self.stored_ms.saturating_add(self.age_ms())
    }

    /// Leaves the lease for others to end; returns its objects, the newest last.
    pub(crate) fn leave(mut self) -> Vec<String> {
        std::mem::take(&mut self.objects)
    }

    /// Fails unless a lease that was left, given by its objects, has been valid until now and stays
    /// valid long enough for a commit.
    pub(crate) fn check_left(&self, objects: &[String]) -> Result<()> {
        let newest = objects.last().map(|object| self.store.storage.stat(object));
        let stat = newest.transpose()?.flatten().ok_or_else(lost)?;
        let age = self.storage_now_ms().saturating_sub(stat.modified_ms);
        if age > self.store.grace_ms() / 2 { Err(lost()) } else { Ok(()) }
    }

    /// Ends the lease.
    pub(crate) fn end(mut self) -> Result<()> {
        let objects = std::mem::take(&mut self.objects);
        self.store.storage.delete(&objects)
    }
}

impl Drop for SaveLease<'_> {
    fn drop(&mut self) {
        // An object that cannot be removed expires, and a prune removes it.
        let _ = self.store.storage.delete(&self.objects);
    }
}

fn lost() -> Error {
    let message = "the save showed no sign of life for so long that its data may have been \
                   removed; save again";
    Error::new(ErrorKind::Conflict, message)
}

/// The leases of all saves. A lease that disappears while they are read has ended. A damaged lease
/// is an error unless it has expired, since an expired lease no longer counts. `now_ms` is by the
/// clock of the storage.
pub(crate) fn save_leases(store: &Store, now_ms: u64) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in store.list_of(PENDING)? {
        let bytes = match store.storage.read_all(&entry.name, LEASE_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.kind == ErrorKind::NotFound => continue,
            Err(_) if is_stale(store, &entry.stat, now_ms) => Vec::new(),
            Err(e) => return Err(e),
        };
        let pending = match serde_json::from_slice(&bytes) {
            Ok(pending) => pending,
            Err(_) if is_stale(store, &entry.stat, now_ms) => Pending::default(),
            Err(e) => {
                let name = &entry.name;
                let message = format!(
                    "the lease {name} is damaged: {e}; it stays valid for the grace period; remove \
                     it if no save is running"
                );
                return Err(Error::corrupt(message));
            }
        };
        found.push(Found { entry, pending });
    }
    Ok(found)
}

/// The pack numbers in leases that are younger than half the grace period and not in `seen`, and
/// when these leases were made. The leases are added to `seen`. A lease that cannot be read has no
/// number.
pub(crate) fn numbers_of_others(
    store: &Store,
    now_ms: u64,
    seen: &mut HashSet<String>,
) -> Result<Vec<(u32, u64)>> {
    let mut numbers = Vec::new();
    for entry in store.storage.list(PENDING)? {
        let is_young = now_ms.saturating_sub(entry.stat.modified_ms) < store.grace_ms() / 2;
        if !is_young || seen.contains(&entry.name) {
            continue;
        }
        let bytes = match store.storage.read_all(&entry.name, LEASE_LEN_MAX) {
            Ok(bytes) => bytes,
            Err(e) if e.kind == ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let pending: Pending = serde_json::from_slice(&bytes).unwrap_or_default();
        if pending.number != 0 {
            numbers.push((pending.number, entry.stat.modified_ms));
        }
        seen.insert(entry.name);
    }
    Ok(numbers)
}

/// The lease of a prune.
#[derive(Debug)]
pub(crate) struct PruneLease<'a> {
    store: &'a Store,
    object: String,
    made_boot_ms: u64,
    /// When it was made, by the clock of the storage.
    pub stored_ms: u64,
}

impl<'a> PruneLease<'a> {
    pub(crate) fn create(store: &'a Store) -> Result<Self> {
        let object = format!("{PRUNING}/{}", random_id()?);
        let made_boot_ms = store.clock.boot_ms();
        let mut lease = Self { store, object, made_boot_ms, stored_ms: 0 };
        // Empty, so that a prune can also start on a full disk, which has room only for names.
        store.storage.put_new(&lease.object, b"")?;
        lease.stored_ms = store.storage.stat(&lease.object)?.ok_or_else(lost)?.modified_ms;
        Ok(lease)
    }

    /// Fails if saves may take this prune for dead.
    pub(crate) fn check(&self) -> Result<()> {
        let age = self.store.clock.boot_ms().saturating_sub(self.made_boot_ms);
        if self.store.grace_ms() > 0 && age > self.store.grace_ms() / 2 {
            let message =
                "the prune took too long to be sure which data is unreferenced; prune again";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(())
    }
}

impl Drop for PruneLease<'_> {
    fn drop(&mut self) {
        let _ = self.store.storage.delete(&[std::mem::take(&mut self.object)]);
    }
}

/// Whether a prune with a live lease is running. `now_ms` is by the clock of the storage.
pub(crate) fn is_pruning(store: &Store, now_ms: u64) -> Result<bool> {
    let leases = store.list_of(PRUNING)?;
    Ok(leases.iter().any(|lease| !is_stale(store, &lease.stat, now_ms)))
}

/// Fails if a lease of a save or a prune is from the future. The clocks that give objects their
/// times are then so far apart that ages mean nothing. `now_ms` is by the clock of the storage.
pub(crate) fn check_times<'a>(
    store: &Store,
    mut leases: impl Iterator<Item = &'a ObjectInfo>,
    now_ms: u64,
) -> Result<()> {
    let limit_ms = now_ms.saturating_add(store.grace_ms() / 4);
    match leases.find(|lease| lease.stat.modified_ms > limit_ms) {
        None => Ok(()),
        Some(lease) => {
            let (name, minutes) = (&lease.name, (lease.stat.modified_ms - now_ms) / 60_000);
            let message = format!(
                "the lease {name} is {minutes} minutes newer than objects that are written now, so \
                 ages cannot be trusted and nothing was removed; set the clocks of all machines \
                 that use the store, or remove that lease if its process has ended"
            );
            Err(Error::new(ErrorKind::Conflict, message))
        }
    }
}

/// Whether a lease has expired: its process must have ended.
pub(crate) fn is_stale(store: &Store, stat: &crate::storage::Stat, now_ms: u64) -> bool {
    now_ms.saturating_sub(stat.modified_ms) > store.grace_ms()
}
