//! Repairing what can be repaired, and never making anything worse.
//!
//! A damaged pack is atomically replaced by one with the right hash: a copy in this store, one in
//! another store, or the bytes at its own start if it grew. A damaged manifest is replaced in the
//! same way, or moved away whole, so that it does not stop prunes. It comes back when its bytes are
//! right again or a copy turns up. Objects that cannot be repaired stay as they are. So does
//! anything that is not a file and has no copy; a check names it.
//!
//! A manifest is replaced or moved under a lease that names it, so that a snapshot that is
//! forgotten and removed meanwhile does not come back. A manifest comes out of `damaged/` under a
//! lease that also names its packs, while no prune is running.

use crate::Store;
use crate::layout::lease::{SaveLease, check_times, is_pruning};
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::layout::names::{DAMAGED, PACKS, PRUNING, PackName, SNAPSHOTS, SnapshotName, random_id};
use crate::save::packs::bytes_at_start;
use crate::storage::Put;
use crate::upkeep::check::{CheckOptions, CheckReport, Damage, is_damage};
use crate::upkeep::damaged::damaged_key;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// How many times manifests of one name are moved away; each of them stays.
const MOVES_MAX: usize = 100;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Packs that were repaired.
    pub packs: Vec<PackName>,
    /// Packs without a good copy.
    pub lost: Vec<PackName>,
    /// Manifests that were repaired.
    pub manifests: Vec<String>,
    /// Manifests that were moved to `damaged/`.
    pub moved: Vec<String>,
    /// Manifests of the other store that hold something else than they claim.
    pub refused: Vec<(String, Error)>,
    /// The result of a check after the repair.
    pub after: CheckReport,
}

/// Packs that may have the bytes of others, by their hashes: where they are, and their sizes.
type Copies<'a> = HashMap<String, Vec<(&'a Store, PackName, u64)>>;

impl Store {
    /// Repairs what it can with good copies in this store and in `other`. All packs are read.
    pub fn repair(&self, other: Option<&Store>, dry_run: bool) -> Result<Repaired> {
        let options = CheckOptions { read_percent: 100 };
        let mut repaired = Repaired::default();
        let mut returning = BTreeMap::new();
        let before: BTreeSet<String> = self.names_of(DAMAGED)?.into_iter().collect();
        self.add_returning(&mut returning, &before, other, &mut repaired)?;
        // A running prune is reported before anything is moved.
        drop(self.lease_of_repair(&returning, dry_run)?);
        // Manifests first: a good one may need packs that nothing else needs.
        for damage in self.all_manifests()?.bad {
            self.repair_manifest(&damage, other, dry_run, &mut repaired)?;
        }
        // Another repair may have moved manifests that this one has not looked at.
        let now: BTreeSet<String> = self.names_of(DAMAGED)?.into_iter().collect();
        self.add_returning(&mut returning, now.difference(&before), other, &mut repaired)?;
        self.bring_back(&returning, dry_run, &mut repaired)?;
        let damaged = self.check(&options)?.damaged;
        let copies = self.copies(&damaged, other)?;
        for (name, _) in damaged {
            let mut good = None;
            for (store, copy, size) in copies.get(name.hash()).into_iter().flatten() {
                // The damaged pack itself may be among them: it grew, or it turns out to be bad
                // again.
                good = bytes_at_start(&*store.storage, copy, *size)?;
                if good.is_some() {
                    break;
                }
            }
            match good {
                Some(bytes) => {
                    if self.put_right(&name.object(), &bytes, dry_run)? {
                        repaired.packs.push(name);
                    }
                }
                None => repaired.lost.push(name),
            }
        }
        repaired.after = self.check(&options)?;
        Ok(repaired)
    }

    /// Adds those `objects` in `damaged/` that can come back, by run, page and name. Either their
    /// own bytes are right, as after a read that failed only once, or the other store has the
    /// bytes. If the manifest is already in its place again, only its copies are left in
    /// `damaged/`.
    fn add_returning<'a>(
        &self,
        returning: &mut BTreeMap<String, Return>,
        objects: impl IntoIterator<Item = &'a String>,
        other: Option<&Store>,
        repaired: &mut Repaired,
    ) -> Result<()> {
        for object in objects {
            let key = damaged_key(object);
            let Some(name) = SnapshotName::parse(key) else { continue };
            // A snapshot that was forgotten since stays forgotten.
            if self.is_forgotten(&name)? {
                continue;
            }
            let own = self.good_bytes(object, &name);
            let bytes = match other {
                Some(other) if own.is_none() && self.good_manifest(key).is_none() => {
                    self.believed_manifest(other, key, repaired)?
                }
                _ => own,
            };
            if let Some(bytes) = bytes {
                let objects = Vec::new();
                let found = returning.entry(key.to_string()).or_insert(Return { objects, bytes });
                found.objects.push(object.clone());
            }
        }
        Ok(())
    }

    /// A lease for manifests that come back out of `damaged/`. They need packs that may have been
    /// unreferenced. The lease names these packs, and a running prune that may have listed them
    /// before is a conflict. A damaged manifest that was not moved away stops prunes itself.
    fn lease_of_repair(
        &self,
        returning: &BTreeMap<String, Return>,
        dry_run: bool,
    ) -> Result<Option<SaveLease<'_>>> {
        if returning.is_empty() || dry_run {
            return Ok(None);
        }
        let mut lease =
            SaveLease::create(self, &random_id()?, returning.keys().cloned().collect())?;
        for Return { bytes, .. } in returning.values() {
            let packs = Manifest::parse(bytes)?.packs.into_iter();
            lease.add_packs(packs.map(|pack| pack.name.as_str().to_string()));
        }
        lease.renew()?;
        // A lease from the future is reported, since nobody should wait for that time.
        check_times(self, self.list_of(PRUNING)?.iter(), lease.storage_now_ms())?;
        if is_pruning(self, lease.storage_now_ms())? {
            let message = "a prune is running, which may remove what is brought back; repair again";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(Some(lease))
    }

    /// Packs that may have the same bytes as damaged ones, by their hashes, and the number of these
    /// bytes: the size that a manifest states, whatever the length of a pack is.
    fn copies<'a>(
        &'a self,
        damaged: &[(PackName, Damage)],
        other: Option<&'a Store>,
    ) -> Result<Copies<'a>> {
        let mut copies = Copies::new();
        if damaged.is_empty() {
            return Ok(copies);
        }
        let mut sizes: HashMap<String, HashSet<u64>> =
            damaged.iter().map(|(name, _)| (name.hash().to_string(), HashSet::new())).collect();
        let manifests = self.all_manifests()?.good;
        for pack in manifests.iter().flat_map(|(_, manifest)| &manifest.packs) {
            if let Some(sizes) = sizes.get_mut(pack.name.hash()) {
                sizes.insert(pack.size);
            }
        }
        for store in [Some(self), other].into_iter().flatten() {
            for entry in store.list_of(PACKS)? {
                let Some(name) = PackName::from_object(&entry.name) else { continue };
                let sizes = sizes.get(name.hash()).into_iter().flatten();
                for &size in sizes.filter(|size| **size <= entry.stat.size) {
                    let copies = copies.entry(name.hash().to_string()).or_default();
                    copies.push((store, name.clone(), size));
                }
            }
        }
        Ok(copies)
    }

    /// Moves manifests back out of `damaged/`. Of the objects with such a name there, only those
    /// with the same bytes are removed, once the manifest is in its place.
    fn bring_back(
        &self,
        returning: &BTreeMap<String, Return>,
        dry_run: bool,
        repaired: &mut Repaired,
    ) -> Result<()> {
        let mut lease = self.lease_of_repair(returning, dry_run)?;
        for (key, Return { objects, bytes }) in returning {
            let object = format!("{SNAPSHOTS}/{key}");
            let Some(lease) = &mut lease else {
                repaired.manifests.push(object);
                continue;
            };
            lease.keep()?;
            let put = match self.storage.put_new(&object, bytes) {
                Err(e) if !is_damage(&e) => return Err(e),
                put => put,
            };
            if self.good_manifest(key).is_none() {
                // The object in its place is damaged too, and was reported.
                continue;
            }
            let is_same = |object: &&String| {
                self.storage.read_all(object, MANIFEST_LEN_MAX).is_ok_and(|own| own == *bytes)
            };
            let same: Vec<String> = objects.iter().filter(is_same).cloned().collect();
            self.storage.delete(&same)?;
            if put.is_ok_and(|put| put == Put::Created) {
                repaired.manifests.push(object);
            }
        }
        Ok(())
    }

    /// The bytes of the manifest with this key, if this store has them and they are right.
    fn good_manifest(&self, key: &str) -> Option<Vec<u8>> {
        self.good_bytes(&format!("{SNAPSHOTS}/{key}"), &SnapshotName::parse(key)?)
    }

    /// The bytes of an object, if they are the manifest of a snapshot.
    fn good_bytes(&self, object: &str, name: &SnapshotName) -> Option<Vec<u8>> {
        let bytes = self.storage.read_all(object, MANIFEST_LEN_MAX).ok()?;
        Manifest::read(&bytes, name).ok().map(|_| bytes)
    }

    /// The same from another store. Everything that can be read of the snapshot is decoded and
    /// compared with what the manifest says.
    fn believed_manifest(
        &self,
        other: &Store,
        key: &str,
        repaired: &mut Repaired,
    ) -> Result<Option<Vec<u8>>> {
        let object = format!("{SNAPSHOTS}/{key}");
        if repaired.refused.iter().any(|(refused, _)| *refused == object) {
            return Ok(None);
        }
        let Some(bytes) = other.good_manifest(key) else { return Ok(None) };
        match self.vouch_for(other, &Manifest::parse(&bytes)?)? {
            Ok(()) => Ok(Some(bytes)),
            Err(error) => {
                repaired.refused.push((object, error));
                Ok(None)
            }
        }
    }

    fn repair_manifest(
        &self,
        Damage { object, error }: &Damage,
        other: Option<&Store>,
        dry_run: bool,
        repaired: &mut Repaired,
    ) -> Result<()> {
        let key = &object[SNAPSHOTS.len() + 1..];
        let name = SnapshotName::parse(key);
        let good = other.map(|other| self.believed_manifest(other, key, repaired)).transpose()?;
        let good = good.flatten();
        let is_readable = error.kind != ErrorKind::Io && self.no_file(object).is_none();
        if good.is_none() && !is_readable {
            // Its bytes are unknown, and the disk may be able to read them another time; or there
            // is nothing in it that could come back.
            return Ok(());
        }
        let mut lease = None;
        if let Some(name) = name.as_ref().filter(|_| !dry_run) {
            lease = self.claim(name, key)?;
            if lease.is_none() {
                return Ok(());
            }
        }
        if let Some(bytes) = good {
            if self.put_right(object, &bytes, dry_run)? {
                repaired.manifests.push(object.to_string());
            }
            return Ok(());
        }
        if !dry_run {
            let Some(moved) = self.move_away(object, key)? else { return Ok(()) };
            // Another repair may have repaired it between the last look and the move.
            if let Some(bytes) = name.and_then(|name| self.good_bytes(&moved, &name)) {
                let back = Return { objects: vec![moved], bytes };
                return self.bring_back(&BTreeMap::from([(key.into(), back)]), false, repaired);
            }
        }
        drop(lease);
        repaired.moved.push(object.to_string());
        Ok(())
    }

    /// A lease that keeps prunes from removing a snapshot; none if the snapshot is forgotten or
    /// gone. It is made before the looks: if a prune did not see the lease, the mark that it saw
    /// still exists, or it was removed after the snapshot.
    fn claim(&self, name: &SnapshotName, key: &str) -> Result<Option<SaveLease<'_>>> {
        let lease = SaveLease::create(self, &random_id()?, vec![key.to_string()])?;
        let found = || self.storage.stat(&format!("{SNAPSHOTS}/{key}"));
        let is_going = self.is_forgotten(name)? || matches!(found(), Ok(None));
        Ok((!is_going).then_some(lease))
    }

    /// Replaces a damaged object with good bytes; returns whether that is possible. A folder with
    /// its name may hold something that somebody needs, so it stays.
    fn put_right(&self, object: &str, bytes: &[u8], dry_run: bool) -> Result<bool> {
        let put = match self.storage.stat(object) {
            Ok(_) if !dry_run => self.storage.replace(object, bytes),
            look => look.map(drop),
        };
        match put {
            Err(e) if is_damage(&e) => Ok(false),
            put => put.map(|()| true),
        }
    }

    /// Moves a manifest away, whole and unread; none if it is already gone. A manifest that was
    /// moved before stays beside it.
    fn move_away(&self, object: &str, key: &str) -> Result<Option<String>> {
        for number in 0..MOVES_MAX {
            let end = if number == 0 { String::new() } else { format!(".{number}") };
            let moved = format!("{DAMAGED}/{key}{end}");
            match self.storage.move_new(object, &moved) {
                Ok(Put::Created) => return Ok(Some(moved)),
                Ok(Put::Exists) => {}
                Err(e) if e.kind == ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        let message = format!("{DAMAGED}/{key} exists {MOVES_MAX} times; remove some of them");
        Err(Error::new(ErrorKind::AlreadyExists, message))
    }
}

/// A manifest that can come back: the objects in `damaged/` with its name, and its bytes.
struct Return {
    objects: Vec<String>,
    bytes: Vec<u8>,
}
