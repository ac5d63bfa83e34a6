//! Putting right what can be put right, and never making anything worse.
//!
//! A damaged pack is replaced, at once, by one with the right hash: a copy in this store, or one in
//! another store. A damaged manifest is replaced likewise, or moved away so that it does not stop
//! prunes; it comes back when a copy turns up. What cannot be put right stays as it is.

use crate::Store;
use crate::check::{CheckOptions, Checked, Damage, is_damage};
use crate::lease::{SaveLease, is_pruning};
use crate::manifest::{MANIFEST_LEN_MAX, Manifest};
use crate::names::{PACKS, PackName, SNAPSHOTS, SnapshotName, random_id};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// Where damaged manifests go.
pub const DAMAGED: &str = "damaged";

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Packs that have their bytes again.
    pub packs: Vec<PackName>,
    /// Packs of which no good copy was found.
    pub lost: Vec<PackName>,
    /// Manifests that have their bytes again.
    pub manifests: Vec<String>,
    /// Manifests that were moved to `damaged/`.
    pub moved: Vec<String>,
    /// Manifests that the other store has and that hold something else than they say.
    pub refused: Vec<(String, Error)>,
    /// What a check says now.
    pub after: Checked,
}

/// Packs that may have the bytes of others, by their hashes: where they are, and their sizes.
type Copies<'a> = HashMap<String, Vec<(&'a Store, PackName, u64)>>;

impl Store {
    /// Repairs what it can, with good copies in this store and in `other`. All packs are read.
    pub fn repair(&self, other: Option<&Store>, dry_run: bool, threads: usize) -> Result<Repaired> {
        let options = CheckOptions { read_percent: 100, threads };
        let mut repaired = Repaired::default();
        let _lease = self.lease_of_repair(other, dry_run)?;
        // Manifests first: a good one may need packs that nothing else does.
        for Damage { object, .. } in self.all_manifests()?.bad {
            self.repair_manifest(&object, other, dry_run, &mut repaired)?;
        }
        if let Some(other) = other {
            self.bring_back(other, dry_run, &mut repaired)?;
        }
        let damaged = self.check(&options)?.damaged;
        let copies = self.copies(&damaged, other)?;
        for (name, _) in damaged {
            let mut good = None;
            for (store, copy, size) in copies.get(name.hash()).into_iter().flatten() {
                // The damaged one itself is among them, and is found to be bad again.
                good = store.read_pack(copy, *size)?.ok();
                if good.is_some() {
                    break;
                }
            }
            match good {
                Some(bytes) => {
                    if !dry_run {
                        self.storage.replace(&name.object(), &bytes)?;
                    }
                    repaired.packs.push(name);
                }
                None => repaired.lost.push(name),
            }
        }
        repaired.after = self.check(&options)?;
        Ok(repaired)
    }

    /// Manifests that come back out of `damaged/` need packs that nobody may have needed: a lease
    /// names them, and a prune that may have listed them before is a conflict. One that is damaged
    /// in its place stops prunes itself.
    fn lease_of_repair(
        &self,
        other: Option<&Store>,
        dry_run: bool,
    ) -> Result<Option<SaveLease<'_>>> {
        let Some(other) = other.filter(|_| !dry_run) else { return Ok(None) };
        let mut keys = self.keys(DAMAGED)?;
        keys.retain(|key| other.good_manifest(key).is_some());
        if keys.is_empty() {
            return Ok(None);
        }
        let mut lease = SaveLease::create(self, &random_id()?, keys.iter().cloned().collect())?;
        for key in &keys {
            let manifest = other.good_manifest(key).and_then(|bytes| Manifest::parse(&bytes).ok());
            let packs = manifest.into_iter().flat_map(|manifest| manifest.packs);
            lease.add_packs(packs.map(|pack| pack.name.as_str().to_string()));
        }
        lease.renew()?;
        if is_pruning(self, lease.storage_now_ms())? {
            let message = "a prune is under way, which may remove what comes back; repair again";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(Some(lease))
    }

    /// Packs with the same bytes as damaged ones, by their hashes.
    fn copies<'a>(
        &'a self,
        damaged: &[(PackName, Damage)],
        other: Option<&'a Store>,
    ) -> Result<Copies<'a>> {
        let mut copies: Copies =
            damaged.iter().map(|(name, _)| (name.hash().to_string(), Vec::new())).collect();
        if copies.is_empty() {
            return Ok(copies);
        }
        for store in [Some(self), other].into_iter().flatten() {
            for entry in store.storage.list(PACKS)? {
                let Some(name) = PackName::from_object(&entry.name) else { continue };
                if let Some(list) = copies.get_mut(name.hash()) {
                    list.push((store, name, entry.stat.size));
                }
            }
        }
        Ok(copies)
    }

    /// Manifests that an earlier repair moved away come back if the other store has them.
    fn bring_back(&self, other: &Store, dry_run: bool, repaired: &mut Repaired) -> Result<()> {
        for key in self.keys(DAMAGED)? {
            let object = format!("{SNAPSHOTS}/{key}");
            let Some(bytes) = self.believed_manifest(other, &key, repaired)? else { continue };
            if !dry_run {
                // What was forgotten since stays so.
                if SnapshotName::parse(&key).map_or(Ok(true), |name| self.is_forgotten(&name))? {
                    continue;
                }
                self.storage.put_new(&object, &bytes)?;
                self.storage.delete(&[format!("{DAMAGED}/{key}")])?;
            }
            repaired.manifests.push(object);
        }
        Ok(())
    }

    /// The bytes of the manifest with this key, if they are here and right.
    fn good_manifest(&self, key: &str) -> Option<Vec<u8>> {
        let name = SnapshotName::parse(key)?;
        let bytes = self.storage.read_all(&format!("{SNAPSHOTS}/{key}"), MANIFEST_LEN_MAX).ok()?;
        Manifest::read(&bytes, &name).ok().map(|_| bytes)
    }

    /// The same of another store, where all that can be had of the snapshot is decoded and compared
    /// with what the manifest says.
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
        object: &str,
        other: Option<&Store>,
        dry_run: bool,
        repaired: &mut Repaired,
    ) -> Result<()> {
        let key = &object[SNAPSHOTS.len() + 1..];
        let good = other.map(|other| self.believed_manifest(other, key, repaired)).transpose()?;
        if let Some(bytes) = good.flatten() {
            if !dry_run {
                self.storage.replace(object, &bytes)?;
            }
            repaired.manifests.push(object.to_string());
            return Ok(());
        }
        if !dry_run {
            match self.storage.read_all(object, MANIFEST_LEN_MAX) {
                Ok(bytes) => drop(self.storage.put_new(&format!("{DAMAGED}/{key}"), &bytes)?),
                Err(e) if is_damage(&e) || e.kind == ErrorKind::LimitExceeded => {}
                Err(e) => return Err(e),
            }
            self.storage.delete(&[object.to_string()])?;
        }
        repaired.moved.push(object.to_string());
        Ok(())
    }
}
