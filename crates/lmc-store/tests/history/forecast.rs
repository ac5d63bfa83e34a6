//! What a prune should remove, worked out from the model and a look at every object.

use super::Broken;
use super::model::Model;
use crate::common::is_marker;
use crate::ensure;
use lmc_store::storage::{ObjectInfo, Storage};
use lmc_store::{PackName, Pending, PruneOptions, Pruned, SnapshotName, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Folders of a store.
const FOLDERS: [&str; 7] =
    ["snapshots", "forgotten", "tags", "packs", "pending", "pruning", "probe"];

/// All objects with size and time.
pub fn objects(storage: &dyn Storage) -> BTreeMap<String, (u64, u64)> {
    let entries = FOLDERS.iter().flat_map(|folder| entries(storage, folder));
    entries.map(|entry| (entry.name, (entry.stat.size, entry.stat.modified_ms))).collect()
}

/// The objects of a folder.
fn entries(storage: &dyn Storage, folder: &str) -> Vec<ObjectInfo> {
    let entries = storage.list(folder).expect("a list").into_iter();
    entries.filter(|entry| !is_marker(&entry.name)).collect()
}

/// The time that a dry run goes by, which writes nothing: that of its machine, if no pack is newer.
pub fn dry_now_ms(storage: &dyn Storage, machine_ms: u64) -> u64 {
    let packs = entries(storage, "packs").into_iter();
    packs.map(|pack| pack.stat.modified_ms).max().unwrap_or(0).max(machine_ms)
}

/// What a prune should do.
#[derive(Debug)]
pub struct Forecast {
    pub snapshots: Vec<SnapshotName>,
    pub packs: BTreeSet<PackName>,
    bytes: u64,
    bytes_young: u64,
    /// Leases of processes that must be dead.
    dead: Vec<String>,
}

impl Forecast {
    /// Of a prune that begins at `now_ms` by the clock of the storage, with nobody beside it.
    pub fn new(store: &Store, model: &Model, options: &PruneOptions, now_ms: u64) -> Self {
        let storage = &**store.storage();
        let store_grace_ms = store.config().grace_seconds * 1000;
        let (mut dead, mut alive) = (Vec::new(), Vec::new());
        for lease in entries(storage, "pending") {
            if now_ms.saturating_sub(lease.stat.modified_ms) > store_grace_ms {
                dead.push(lease.name);
            } else {
                let bytes = storage.read_all(&lease.name, 1 << 20).expect("a lease");
                alive.push(serde_json::from_slice::<Pending>(&bytes).expect("a lease"));
            }
        }
        let is_there = |object: String| storage.stat(&object).expect("a stat").is_some();
        let is_leased = |name: &SnapshotName| {
            alive.iter().any(|lease| lease.parents.contains(&name.key().unwrap()))
        };
        let left = model.marked.iter().filter(|name| is_there(name.object().unwrap()));
        let (stay, snapshots): (Vec<_>, Vec<_>) = left.cloned().partition(&is_leased);
        let shown = model.snaps.iter().map(|snap| &snap.name);
        let mut needed: BTreeSet<PackName> =
            shown.chain(&stay).flat_map(|name| packs_of(store, name)).collect();
        let named = alive.iter().flat_map(|lease| &lease.packs);
        needed.extend(named.map(|pack| PackName::parse(pack).expect("a pack")));
        let given_ms = options.grace_ms.unwrap_or(store_grace_ms);
        let grace_ms = if alive.is_empty() { given_ms } else { given_ms.max(store_grace_ms) };
        let mut forecast =
            Self { snapshots, packs: BTreeSet::new(), bytes: 0, bytes_young: 0, dead };
        for entry in entries(storage, "packs") {
            let name = PackName::from_object(&entry.name).expect("a pack");
            if needed.contains(&name) {
                continue;
            }
            if now_ms.saturating_sub(entry.stat.modified_ms) < grace_ms {
                forecast.bytes_young += entry.stat.size;
            } else {
                forecast.bytes += entry.stat.size;
                forecast.packs.insert(name);
            }
        }
        forecast
    }

    /// Fails unless a prune said what it should have said.
    pub fn check_said(&self, pruned: &Pruned) -> Result<(), Broken> {
        let ids = |names: &[SnapshotName]| -> BTreeSet<String> {
            names.iter().map(|name| name.id.clone()).collect()
        };
        ensure!(
            ids(&pruned.snapshots) == ids(&self.snapshots),
            "pruned snapshots {:?} and not {:?}",
            pruned.snapshots,
            self.snapshots
        );
        let packs: BTreeSet<PackName> = pruned.packs.iter().cloned().collect();
        ensure!(packs == self.packs, "pruned packs {packs:?} and not {:?}", self.packs);
        let (said, bytes) = ((pruned.bytes, pruned.bytes_young), (self.bytes, self.bytes_young));
        ensure!(said == bytes, "said (bytes, young) {said:?}, not {bytes:?}");
        Ok(())
    }

    /// Fails unless a prune left what it should have left.
    pub fn check_done(
        &self,
        before: &BTreeMap<String, (u64, u64)>,
        after: &BTreeMap<String, (u64, u64)>,
    ) -> Result<(), Broken> {
        let packs = |objects: &BTreeMap<String, (u64, u64)>| -> BTreeSet<PackName> {
            objects.keys().filter_map(|object| PackName::from_object(object)).collect()
        };
        let left: BTreeSet<PackName> = packs(before).difference(&self.packs).cloned().collect();
        ensure!(packs(after) == left, "packs are {:?} and not {left:?}", packs(after));
        let gone =
            self.snapshots.iter().flat_map(|name| [name.object().unwrap(), name.forgotten()]);
        for object in gone.chain(self.dead.iter().cloned()) {
            ensure!(!after.contains_key(&object), "{object} is still there");
        }
        Ok(())
    }
}

/// The packs that a snapshot needs.
pub fn packs_of(store: &Store, name: &SnapshotName) -> Vec<PackName> {
    let manifest = store.manifest(name).expect("a manifest");
    manifest.packs.into_iter().map(|pack| pack.name).collect()
}
