//! Snapshots from one store to another.

use crate::Store;
use crate::lease::{SaveLease, is_pruning};
use crate::manifest::{Manifest, Pack};
use crate::names::{PackName, SnapshotName, random_id};
use crate::packs::{PackCount, Putter, Reuse};
use crate::save::Author;
use lmc::Progress;
use lmc_format::{Error, Result};
use std::collections::HashSet;

/// Snapshots of the target that are looked into for packs that need not be copied again.
const PARENTS_MAX: usize = 3;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Snapshots, by their names in the target.
    pub snapshots: Vec<SnapshotName>,
    /// Snapshots that the target had already.
    pub there: u64,
    /// Packs.
    pub packs: PackCount,
}

impl Store {
    /// Copies snapshots with their tags to another store; each is whole there, or not there. Those
    /// that the target has already are left out. Every pack is compared with its hash on the way.
    pub fn copy_to(
        &self,
        target: &Store,
        names: &[SnapshotName],
        progress: Progress,
    ) -> Result<Copied> {
        let mut there = target.snapshots()?;
        let tags = self.tags()?;
        let mut copied = Copied::default();
        for name in names {
            let manifest = self.manifest(name)?;
            // The id may be another where packs have other names; the save is the same.
            if there.iter().any(|other| is_same(target, other, name, &manifest).unwrap_or(false)) {
                copied.there += 1;
                continue;
            }
            let own = tags.get(&name.id).cloned().unwrap_or_default();
            let (lease, reuse) = target.lease_for(&manifest, name, &there)?;
            let putter = Putter::new(target, lease, reuse);
            let packs = self.copy_packs(&manifest, &putter, progress)?;
            let (count, lease) = putter.into_parts();
            let mut manifest = Manifest { packs, copy: None, ..manifest };
            if target.was_there(&manifest, name.page, &lease)? {
                manifest.copy = Some(random_id()?);
            }
            let new = target.commit(&manifest, name.page, &own, Author::Anyone, lease)?;
            copied.packs.put += count.put;
            copied.packs.found += count.found;
            there.push(new.clone());
            copied.snapshots.push(new);
        }
        Ok(copied)
    }

    /// Whether a snapshot of this name may be about to be removed here, or its mark may have been
    /// left behind: then another name is needed. Marks are looked for before prunes: one that
    /// begins later does not see the mark any more.
    fn was_there(&self, manifest: &Manifest, page: u64, lease: &SaveLease) -> Result<bool> {
        let (_, name) = manifest.write(page)?;
        Ok(self.is_forgotten(&name)? || is_pruning(self, lease.storage_now_ms())?)
    }

    fn copy_packs(
        &self,
        manifest: &Manifest,
        putter: &Putter,
        progress: Progress,
    ) -> Result<Vec<Pack>> {
        let mut packs = Vec::with_capacity(manifest.packs.len());
        for Pack { name, size } in &manifest.packs {
            // One that is known to stay there is not even read.
            let name = match putter.known(name) {
                Some(name) => name,
                None => {
                    let bytes = self.read_pack(name, *size)?.map_err(|e| e.at(name.object()))?;
                    putter.put(&bytes)?
                }
            };
            progress(*size);
            packs.push(Pack { name, size: *size });
        }
        Ok(packs)
    }

    /// A lease that names the snapshots which are likely to share packs with the one to come, and
    /// their packs.
    fn lease_for(
        &self,
        manifest: &Manifest,
        name: &SnapshotName,
        there: &[SnapshotName],
    ) -> Result<(SaveLease<'_>, Reuse)> {
        let parent = there.iter().filter(|other| Some(&other.id) == manifest.parent.as_ref());
        let before = there.iter().rev().filter(|other| other.run == name.run);
        let mut parents: Vec<&SnapshotName> = parent.chain(before).take(PARENTS_MAX).collect();
        parents.dedup();
        let keys = parents.iter().map(|parent| parent.key()).collect::<Result<Vec<_>>>()?;
        let lease = SaveLease::create(self, &random_id()?, keys)?;
        let mut known: HashSet<PackName> = HashSet::new();
        for parent in parents {
            let manifest = self.read_leased(parent)?;
            let packs = manifest.into_iter().flat_map(|manifest| manifest.packs);
            known.extend(packs.map(|pack| pack.name));
        }
        let is_pruning = is_pruning(self, lease.storage_now_ms())?;
        Ok((lease, Reuse { known, is_pruning }))
    }
}

/// Whether a snapshot of the target was copied from `name`, or the other way round.
fn is_same(
    target: &Store,
    other: &SnapshotName,
    name: &SnapshotName,
    manifest: &Manifest,
) -> Result<bool> {
    if other.id == name.id {
        return Ok(true);
    }
    let looks = |name: &SnapshotName| (name.run.clone(), name.step, name.time_ms, name.size);
    if looks(other) != looks(name) {
        return Ok(false);
    }
    let theirs = target.manifest_of(other)?.ok_or_else(|| Error::invalid("it is gone"))?;
    Ok(theirs.save == manifest.save)
}
