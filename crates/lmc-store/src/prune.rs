//! Removing what nobody needs, beside saves and restores that go on.
//!
//! The order of the steps is the argument; `docs/store.md` has it case by case. Any error while
//! looking ends the prune before anything is removed.

use crate::Store;
use crate::lease::{Found, PruneLease, is_stale, pendings};
use crate::manifest::MANIFEST_LEN_MAX;
use crate::manifest::Manifest;
use crate::names::{FORGOTTEN, PACKS, PRUNING, PackName, SNAPSHOTS, SnapshotName, TAGS, is_id};
use crate::storage::{self, Stat};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How to prune.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// How old a pack that nobody needs must be, in milliseconds; the store's own time if none is
    /// given. While a save is under way it is never less than that.
    pub grace_ms: Option<u64>,
    /// Only say what would be removed.
    pub dry_run: bool,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Snapshots that were forgotten before.
    pub snapshots: Vec<SnapshotName>,
    /// Packs.
    pub packs: Vec<PackName>,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that stay because they are too young.
    pub bytes_young: u64,
    /// Leases, tags and temporary files of what has ended.
    pub leftovers: u64,
    /// Leases of saves that are under way, or were killed not long ago.
    pub leases: u64,
    /// Bytes that stay only because what is kept is coded against them.
    pub bytes_bases: u64,
    /// Bytes that nobody needs, in packs of which something is needed.
    pub bytes_beside: u64,
}

/// What the snapshots that stay need.
#[derive(Default)]
struct Live {
    /// Packs, by their objects.
    packs: HashSet<String>,
    /// Places of archives, and whether a file is in them or only others stand on them.
    places: HashMap<(PackName, u64, u64), bool>,
}

impl Live {
    fn add(&mut self, manifest: &Manifest) {
        self.packs.extend(manifest.packs.iter().map(|pack| pack.name.object()));
        let files: HashSet<usize> = manifest.files().map(|(_, file)| file.archive).collect();
        for (i, archive) in manifest.archives.iter().enumerate() {
            for extent in &archive.extents {
                let pack = manifest.packs[extent.pack].name.clone();
                let has_file = self.places.entry((pack, extent.offset, extent.len)).or_default();
                *has_file |= files.contains(&i);
            }
        }
    }

    /// Bytes of archives that only others stand on, and bytes of packs in no archive at all.
    fn held(&self, packs: &[storage::Entry]) -> (u64, u64) {
        let len = |((_, _, len), _): (&(PackName, u64, u64), &bool)| *len;
        let needed: u64 = self.places.iter().map(len).sum();
        let bases = self.places.iter().filter(|(_, has_file)| !**has_file).map(len).sum();
        let live = packs.iter().filter(|entry| self.packs.contains(&entry.name));
        let size: u64 = live.map(|entry| entry.stat.size).sum();
        (bases, size.saturating_sub(needed))
    }
}

/// What was seen, in this order.
struct Seen {
    /// When the prune began, by the clock of the storage.
    now_ms: u64,
    packs: Vec<storage::Entry>,
    /// Ids of what is to go.
    marks: HashSet<String>,
    pendings: Vec<Found>,
    /// Snapshots as run, page and name, with those that cannot be read.
    keys: BTreeMap<String, Option<SnapshotName>>,
}

impl Store {
    /// Removes forgotten snapshots and the packs that no snapshot and no save under way needs.
    ///
    /// On an error some of what it would have removed is still there, and nothing else is missing.
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned> {
        let lease = PruneLease::create(self)?;
        let seen = self.look(&lease)?;
        let live_leases: Vec<&Found> =
            seen.pendings.iter().filter(|found| !self.is_dead(&found.entry.stat, &seen)).collect();
        let needed: HashSet<&String> =
            live_leases.iter().flat_map(|found| &found.pending.parents).collect();
        // A mark counts only if it was there before the leases were listed.
        let is_marked = |name: &SnapshotName| seen.marks.contains(&name.id);
        let mut going: BTreeMap<&String, &SnapshotName> = BTreeMap::new();
        let mut staying = Vec::new();
        for (key, name) in &seen.keys {
            match name {
                Some(name) if is_marked(name) && !needed.contains(key) => {
                    going.insert(key, name);
                }
                name => staying.push((key, name)),
            }
        }
        let live = self.live(&staying)?;
        let (bytes_bases, bytes_beside) = live.held(&seen.packs);
        let mut live = live.packs;
        for pack in live_leases.iter().flat_map(|found| &found.pending.packs) {
            live.extend(PackName::parse(pack).map(|name| name.object()));
        }
        let grace_ms = match options.grace_ms {
            Some(given) if live_leases.is_empty() => given,
            Some(given) => given.max(self.grace_ms()),
            None => self.grace_ms(),
        };
        let leases = live_leases.len() as u64;
        let mut pruned = Pruned { leases, bytes_bases, bytes_beside, ..Pruned::default() };
        for entry in &seen.packs {
            let Some(name) = PackName::from_object(&entry.name) else { continue };
            if live.contains(&entry.name) {
                continue;
            }
            if seen.now_ms.saturating_sub(entry.stat.modified_ms) < grace_ms {
                pruned.bytes_young += entry.stat.size;
            } else {
                pruned.packs.push(name);
                pruned.bytes += entry.stat.size;
            }
        }
        pruned.snapshots = going.values().map(|&name| name.clone()).collect();
        pruned.snapshots.sort();
        if !options.dry_run {
            pruned.leftovers = self.remove(&lease, &seen, &going, &pruned.packs)?;
        }
        Ok(pruned)
    }

    /// Packs before leases: what a save that is not among the leases puts is not among the packs.
    /// Marks before leases: what such a save takes for its parent is not among the marks. Leases
    /// before snapshots: a save that ended in between is among the snapshots.
    fn look(&self, lease: &PruneLease) -> Result<Seen> {
        let packs = self.storage.list(PACKS)?;
        let marks = self.marks()?.into_iter().filter(|mark| is_id(mark)).collect();
        let pendings = pendings(self, lease.stored_ms)?;
        let keys = self.keys(SNAPSHOTS)?.into_iter();
        let keys = keys.map(|key| (key.clone(), SnapshotName::parse(&key))).collect();
        Ok(Seen { now_ms: lease.stored_ms, packs, marks, pendings, keys })
    }

    fn is_dead(&self, stat: &Stat, seen: &Seen) -> bool {
        is_stale(self, stat, seen.now_ms)
    }

    /// What all these snapshots need; each must be readable.
    fn live(&self, snapshots: &[(&String, &Option<SnapshotName>)]) -> Result<Live> {
        let mut live = Live::default();
        for (key, name) in snapshots {
            let object = format!("{SNAPSHOTS}/{key}");
            let name = name.as_ref().ok_or_else(|| {
                let message = "is no snapshot; nothing was removed, lmc repair moves it away";
                Error::corrupt(format!("{object} {message}"))
            })?;
            let bytes = self.storage.read_all(&object, MANIFEST_LEN_MAX);
            let manifest = bytes.and_then(|bytes| Manifest::read(&bytes, name));
            let manifest = manifest.map_err(|e| match e.kind {
                ErrorKind::NotFound => {
                    let message = format!("{object} was removed meanwhile; prune again");
                    Error::new(ErrorKind::Conflict, message)
                }
                _ => e.at(format_args!("{object}, so nothing was removed")),
            })?;
            live.add(&manifest);
        }
        Ok(live)
    }

    /// Snapshots first, so that none is ever without its packs; marks after them, so that none
    /// comes back.
    fn remove(
        &self,
        lease: &PruneLease,
        seen: &Seen,
        going: &BTreeMap<&String, &SnapshotName>,
        packs: &[PackName],
    ) -> Result<u64> {
        lease.check()?;
        let snapshots: Vec<String> = going.keys().map(|key| format!("{SNAPSHOTS}/{key}")).collect();
        self.remove_all(lease, &snapshots)?;
        let leftovers = self.leftovers(seen, going)?;
        // Those of what stays stay; those of what went, now or before, go.
        let staying = seen.keys.iter().filter(|(key, _)| !going.contains_key(key));
        let staying: HashSet<&str> =
            staying.filter_map(|(_, name)| Some(name.as_ref()?.id.as_str())).collect();
        let marks = seen.marks.iter().filter(|id| !staying.contains(id.as_str()));
        let marks: Vec<String> = marks.map(|id| format!("{FORGOTTEN}/{id}")).collect();
        self.remove_all(lease, &marks)?;
        self.remove_all(lease, &packs.iter().map(PackName::object).collect::<Vec<_>>())?;
        self.remove_all(lease, &leftovers)?;
        let before_ms = seen.now_ms.saturating_sub(self.grace_ms());
        let temporaries = self.storage.remove_temporaries(before_ms)?;
        Ok(leftovers.len() as u64 + temporaries)
    }

    /// Removes objects a few at a time, so that a prune that became too slow to be safe stops; each
    /// may take a second.
    fn remove_all(&self, lease: &PruneLease, objects: &[String]) -> Result<()> {
        let at_once = (self.grace_ms() / 2000).clamp(1, 256) as usize;
        for some in objects.chunks(at_once) {
            lease.check()?;
            self.storage.delete(some)?;
        }
        Ok(())
    }

    /// Leases of the dead, and tags of what is gone.
    fn leftovers(
        &self,
        seen: &Seen,
        going: &BTreeMap<&String, &SnapshotName>,
    ) -> Result<Vec<String>> {
        let dead = seen.pendings.iter().filter(|found| self.is_dead(&found.entry.stat, seen));
        let is_ours = |name: &str| name.rsplit('/').next().is_some_and(is_id);
        let mut names: Vec<String> = dead.map(|found| found.entry.name.clone()).collect();
        let prunes = self.storage.list(PRUNING)?;
        let dead = prunes.into_iter().filter(|entry| self.is_dead(&entry.stat, seen));
        names.extend(dead.map(|entry| entry.name));
        names.retain(|name| is_ours(name));
        for entry in self.storage.list(TAGS)? {
            let key = entry.name.splitn(3, '/').nth(2).unwrap_or_default().to_string();
            if SnapshotName::parse(&key).is_none() {
                continue;
            }
            let is_gone = going.contains_key(&key);
            // A save makes tags before its snapshot.
            let is_lost = !seen.keys.contains_key(&key) && self.is_dead(&entry.stat, seen);
            if is_gone || is_lost {
                names.push(entry.name);
            }
        }
        Ok(names)
    }
}
