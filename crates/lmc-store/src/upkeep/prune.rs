//! Removing unreferenced objects, concurrently with saves and restores.
//!
//! The order of the steps makes this safe; `docs/store.md` shows why, case by case. Any error while
//! looking ends the prune before anything is removed.

use crate::Store;
use crate::layout::lease::{Found, PruneLease, check_times, is_stale, save_leases};
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest, total};
use crate::layout::names::{
    DAMAGED, FORGOTTEN, PACKS, PRUNING, PackName, SNAPSHOTS, SnapshotName, TAGS, is_id,
};
use crate::storage::{self, Stat};
use crate::upkeep::check::misnamed;
use crate::upkeep::damaged::Damaged;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};

/// How to prune.
#[derive(Clone, Copy, Debug, Default)]
pub struct PruneOptions {
    /// How old an unreferenced pack must be, in milliseconds; by default the grace period of the
    /// store. While a save is running, it is never less than that.
    pub grace_ms: Option<u64>,
    /// Only report what would be removed, by the clock of this machine. Nothing is written.
    pub dry_run: bool,
    /// Remove packs even if there is not a single snapshot.
    pub allow_empty: bool,
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
    /// Leases, tags and temporary files of ended work.
    pub leftovers: u64,
    /// Leases of saves that are running or were killed recently.
    pub leases: u64,
    /// Bytes that stay only because kept snapshots are coded against them.
    pub bytes_bases: u64,
    /// Unreferenced bytes in packs that are partly needed.
    pub bytes_beside: u64,
    /// Objects in `damaged/` that are not whole manifests, of snapshots that do not exist
    /// elsewhere. While such objects exist, all packs stay.
    pub unreadable: Vec<String>,
    /// The same for objects that are too long to be read.
    pub too_long: Vec<String>,
}

/// What the remaining snapshots need.
#[derive(Default)]
struct Live {
    /// Packs, by their objects.
    packs: HashSet<String>,
    /// Places of archives, and whether they hold a file or are only bases of others.
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

    /// Bytes of archives that are only bases of others, and bytes of packs outside all archives.
    fn held(&self, packs: &[storage::ObjectInfo]) -> (u64, u64) {
        let len = |((_, _, len), _): (&(PackName, u64, u64), &bool)| *len;
        let needed = total(self.places.iter().map(len));
        let bases = total(self.places.iter().filter(|(_, has_file)| !**has_file).map(len));
        let live = packs.iter().filter(|entry| self.packs.contains(&entry.name));
        let size = total(live.map(|entry| entry.stat.size));
        (bases, size.saturating_sub(needed))
    }
}

/// Everything that was listed, in this order.
struct Seen {
    /// When the prune began, by the clock of the storage.
    now_ms: u64,
    packs: Vec<storage::ObjectInfo>,
    /// Ids of forgotten snapshots.
    marks: HashSet<String>,
    /// Live leases.
    leases: Vec<Found>,
    /// Expired leases, which are already removed unless this is a dry run.
    dead: Vec<String>,
    /// Leases of prunes.
    prunes: Vec<storage::ObjectInfo>,
    tags: Vec<storage::ObjectInfo>,
    /// Snapshots as run, page and name, including those that cannot be parsed.
    keys: BTreeMap<String, Option<SnapshotName>>,
    damaged: Damaged,
}

impl Store {
    /// Removes forgotten snapshots, and the packs that neither a snapshot nor a running save needs.
    ///
    /// On an error, some objects that should have been removed still exist, and nothing else is
    /// missing.
    pub fn prune(&self, options: &PruneOptions) -> Result<Pruned> {
        let lease = match options.dry_run {
            true => None,
            false => Some(PruneLease::create(self)?),
        };
        let mut seen = self.list_all(lease.as_ref())?;
        let needed: HashSet<&String> =
            seen.leases.iter().flat_map(|found| &found.pending.parents).collect();
        // A mark counts only if it existed before the leases were listed.
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
        live.extend(seen.damaged.packs.iter().cloned());
        for pack in seen.leases.iter().flat_map(|found| &found.pending.packs) {
            live.extend(PackName::parse(pack).map(|name| name.object()));
        }
        let grace_ms = match options.grace_ms {
            Some(given) if seen.leases.is_empty() => given,
            Some(given) => given.max(self.grace_ms()),
            None => self.grace_ms(),
        };
        let mut pruned = Pruned {
            leases: seen.leases.len() as u64,
            bytes_bases,
            bytes_beside,
            ..Pruned::default()
        };
        let staying: HashSet<&str> = staying.iter().map(|(key, _)| key.as_str()).collect();
        seen.damaged.forgive(|key| {
            staying.contains(key) || SnapshotName::parse(key).is_some_and(|name| is_marked(&name))
        });
        let stay_all = seen.damaged.keeps_all();
        pruned.unreadable.clone_from(&seen.damaged.unreadable);
        pruned.too_long.clone_from(&seen.damaged.too_long);
        for entry in &seen.packs {
            let Some(name) = PackName::from_object(&entry.name) else { continue };
            if stay_all || live.contains(&entry.name) {
                continue;
            }
            if seen.now_ms.saturating_sub(entry.stat.modified_ms) < grace_ms {
                pruned.bytes_young = pruned.bytes_young.saturating_add(entry.stat.size);
            } else {
                pruned.packs.push(name);
                pruned.bytes = pruned.bytes.saturating_add(entry.stat.size);
            }
        }
        if seen.keys.is_empty() && !pruned.packs.is_empty() && !options.allow_empty {
            return Err(no_snapshots(pruned.packs.len()));
        }
        pruned.snapshots = going.values().map(|&name| name.clone()).collect();
        pruned.snapshots.sort();
        if let Some(lease) = &lease {
            pruned.leftovers = self.remove(lease, &seen, &going, &pruned.packs)?;
        }
        Ok(pruned)
    }

    /// Lists everything that a prune must know. The order of the lists matters.
    ///
    /// * Packs before leases: a save without a listed lease puts no pack that is listed.
    /// * Marks before leases: such a save does not choose a parent whose mark is listed.
    /// * Leases before snapshots: a save that ended in between is among the snapshots.
    /// * Expired leases are removed before snapshots are listed: if such a save is alive after all,
    ///   because clocks are wrong, it is among the snapshots or finds its lease gone after its
    ///   commit.
    /// * Snapshots before `damaged/`: a manifest that a repair moves in between is listed there,
    ///   and one that it brings back has a lease.
    /// * Snapshots once more after `damaged/`: if that lease had expired, the manifest is among
    ///   them.
    fn list_all(&self, lease: Option<&PruneLease>) -> Result<Seen> {
        let packs = self.list_of(PACKS)?;
        let marks = self.marks()?.into_iter().filter(|mark| is_id(mark)).collect();
        let now_ms = lease.map_or_else(|| self.latest_ms(&packs), |lease| lease.stored_ms);
        let (mut leases, dead) = self.leases(now_ms)?;
        let prunes = self.list_of(PRUNING)?;
        if let Some(lease) = lease {
            let all = leases.iter().map(|found| &found.entry).chain(&prunes);
            check_times(self, all, now_ms)?;
            if !dead.is_empty() {
                self.remove_all(lease, &dead)?;
                // A lease that was made meanwhile may replace one of the expired ones.
                leases = self.leases(now_ms)?.0;
            }
        }
        let tags = self.list_of(TAGS)?;
        let first = self.keys(SNAPSHOTS)?;
        let damaged = self.look_at_damaged()?;
        let keys = first.into_iter().chain(self.keys(SNAPSHOTS)?);
        let keys: BTreeMap<String, Option<SnapshotName>> =
            keys.map(|key| (key.clone(), SnapshotName::parse(&key))).collect();
        if let Some(key) = damaged.gone.iter().find(|key| !keys.contains_key(*key)) {
            return Err(removed_meanwhile(&format!("{DAMAGED}/{key}")));
        }
        Ok(Seen { now_ms, packs, marks, leases, dead, prunes, tags, keys, damaged })
    }

    /// The time by the clock of this machine, or that of the newest pack if it is later.
    fn latest_ms(&self, packs: &[storage::ObjectInfo]) -> u64 {
        let newest = packs.iter().map(|entry| entry.stat.modified_ms).max();
        self.clock.now_ms().max(newest.unwrap_or(0))
    }

    /// The live leases of saves, and the names of the expired ones.
    fn leases(&self, now_ms: u64) -> Result<(Vec<Found>, Vec<String>)> {
        let found = save_leases(self, now_ms)?;
        let is_dead = |found: &Found| is_stale(self, &found.entry.stat, now_ms);
        let (dead, living): (Vec<Found>, Vec<Found>) = found.into_iter().partition(is_dead);
        let dead = dead.into_iter().map(|found| found.entry.name).filter(|name| is_ours(name));
        Ok((living, dead.collect()))
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
                misnamed(&object).at(format_args!("{object}, so nothing was removed"))
            })?;
            let bytes = self.storage.read_all(&object, MANIFEST_LEN_MAX);
            let manifest = bytes.and_then(|bytes| Manifest::read(&bytes, name));
            let manifest = manifest.map_err(|e| match e.kind {
                ErrorKind::NotFound => removed_meanwhile(&object),
                _ => e.at(format_args!("{object}, so nothing was removed")),
            })?;
            live.add(&manifest);
        }
        Ok(live)
    }

    /// Removes snapshots first, so that none is ever without its packs, and marks after them, so
    /// that none comes back.
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
        let leftovers = self.leftovers(seen, going);
        // Marks of remaining snapshots stay; marks of snapshots that are removed, now or earlier,
        // do not.
        let staying = seen.keys.iter().filter(|(key, _)| !going.contains_key(key));
        let staying = staying.filter_map(|(_, name)| name.clone());
        let damaged = seen.damaged.keys.iter().filter_map(|key| SnapshotName::parse(key));
        let staying: HashSet<String> = staying.chain(damaged).map(|name| name.id).collect();
        let marks = seen.marks.iter().filter(|id| !staying.contains(*id));
        let marks: Vec<String> = marks.map(|id| format!("{FORGOTTEN}/{id}")).collect();
        self.remove_all(lease, &marks)?;
        self.remove_all(lease, &packs.iter().map(PackName::object).collect::<Vec<_>>())?;
        self.remove_all(lease, &leftovers)?;
        let leftovers = leftovers.len() + seen.dead.len();
        let before_ms = seen.now_ms.saturating_sub(self.grace_ms());
        let temporaries = self.storage.remove_temporaries(before_ms)?;
        Ok(leftovers as u64 + temporaries)
    }

    /// Removes objects a few at a time, so that a prune that has become too slow to be safe stops.
    /// Each removal may take a second.
    fn remove_all(&self, lease: &PruneLease, objects: &[String]) -> Result<()> {
        let at_once = (self.grace_ms() / 2000).clamp(1, 256) as usize;
        for some in objects.chunks(at_once) {
            lease.check()?;
            self.storage.delete(some)?;
        }
        Ok(())
    }

    /// Leases of dead prunes, and tags of snapshots that are gone.
    fn leftovers(&self, seen: &Seen, going: &BTreeMap<&String, &SnapshotName>) -> Vec<String> {
        let is_left =
            |lease: &&storage::ObjectInfo| self.is_dead(&lease.stat, seen) && is_ours(&lease.name);
        let leases = seen.prunes.iter().filter(is_left);
        let tags = seen.tags.iter().filter(|tag| {
            let key = tag.name.splitn(3, '/').nth(2).unwrap_or_default().to_string();
            let is_there = seen.keys.contains_key(&key) || seen.damaged.keys.contains(&key);
            // A save makes tags before its snapshot, and the snapshot may follow much later.
            let is_lost = !is_there && seen.leases.is_empty() && self.is_dead(&tag.stat, seen);
            SnapshotName::parse(&key).is_some() && (going.contains_key(&key) || is_lost)
        });
        leases.chain(tags).map(|entry| entry.name.clone()).collect()
    }
}

/// Whether an object has a name that lmc gives to leases.
fn is_ours(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(is_id)
}

fn removed_meanwhile(object: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("{object} was removed meanwhile; prune again"))
}

fn no_snapshots(packs: usize) -> Error {
    let message = format!(
        "there are no snapshots, and {packs} packs would be lost, so nothing was removed: \
         snapshots/ may be elsewhere, or not copied yet"
    );
    Error::new(ErrorKind::NotFound, message).with_advice(Advice::AllowEmpty)
}
