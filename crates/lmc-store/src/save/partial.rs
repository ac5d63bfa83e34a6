//! A snapshot that several processes save together: each stores a partial snapshot, and one process
//! commits them all.
//!
//! A partial snapshot is protected by the lease of the process that stored it, and that process
//! does not end the lease. The committing process makes a lease of its own that names every pack,
//! and then checks that all other leases still exist. So at every moment, from the first byte of
//! each part until the snapshot is visible, a prune sees a lease for it. `docs/store.md` has the
//! proof.

use crate::Store;
use crate::layout::manifest::{FileNode, Manifest, ManifestEntry, Node};
use crate::layout::names::{PENDING, is_id};
use crate::layout::path::RelPath;
use crate::save::manifest_builder::{Donor, Renumbered};
use crate::save::packs::PackCount;
use crate::save::source::{MemoryFile, in_memory};
use crate::save::warning::Warning;
use crate::save::{SaveOptions, Saved, Stored};
use lmc_format::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A partial snapshot: stored files that are not visible yet. It survives a power cut, and nothing
/// of it is removed until its leases are older than the grace period.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartialSnapshot {
    manifest: Manifest,
    /// The lease that protects it, by its objects.
    leases: Vec<String>,
    unchanged: u64,
    packs_put: u64,
    packs_found: u64,
    /// Problems that were worked around.
    pub warnings: Vec<Warning>,
}

impl PartialSnapshot {
    /// The part as text, for the process that commits it.
    pub fn write(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| Error::invalid(format!("cannot write a partial snapshot: {e}")))
    }

    /// Reads the text that [`PartialSnapshot::write`] gave. All its contents have been checked.
    pub fn read(text: &str) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| {
            Error::invalid(format!("it is not a partial snapshot: {e}"))
        };
        let part: Self = serde_json::from_str(text).map_err(|e| wrong(&e))?;
        part.manifest.check().map_err(|e| wrong(&e))?;
        let is_lease = |object: &String| {
            object.split_once('/').is_some_and(|(folder, id)| folder == PENDING && is_id(id))
        };
        if part.leases.is_empty() || !part.leases.iter().all(is_lease) {
            return Err(wrong(&"it has no lease"));
        }
        Ok(part)
    }

    /// Its files.
    pub fn files(&self) -> impl Iterator<Item = &RelPath> {
        self.manifest.files().map(|(path, _)| path)
    }
}

impl Store {
    /// Stores files in memory as a partial snapshot, which [`Store::commit_parts`] makes visible
    /// and [`Store::abandon_parts`] gives up. The commit sets the step and the tags.
    pub fn save_part(
        &self,
        files: &[MemoryFile],
        options: &SaveOptions,
    ) -> Result<PartialSnapshot> {
        let leaves = in_memory(files, self.clock.now_ms())?;
        let stored = self.store_leaves(&leaves, false, Some(0), options)?;
        let Stored { manifest, lease, unchanged, packs, warnings, .. } = stored;
        let PackCount { put: packs_put, found: packs_found } = packs;
        Ok(PartialSnapshot {
            manifest,
            leases: lease.leave(),
            unchanged,
            packs_put,
            packs_found,
            warnings,
        })
    }

    /// Makes one snapshot of parts and of files in memory. On an error there is no new snapshot, as
    /// with [`Store::save`], and the parts may be committed again.
    pub fn commit_parts(
        &self,
        parts: &[PartialSnapshot],
        files: &[MemoryFile],
        options: &SaveOptions,
    ) -> Result<Saved> {
        let leaves = in_memory(files, self.clock.now_ms())?;
        let mut stored = self.store_leaves(&leaves, false, options.step, options)?;
        for part in parts {
            stored.unchanged = stored.unchanged.saturating_add(part.unchanged);
            stored.packs.put = stored.packs.put.saturating_add(part.packs_put);
            stored.packs.found = stored.packs.found.saturating_add(part.packs_found);
            stored.warnings.extend(part.warnings.iter().cloned());
        }
        merge(&mut stored.manifest, parts)?;
        let packs = stored.manifest.packs.iter().map(|pack| pack.name.as_str().to_string());
        stored.lease.add_packs(packs);
        stored.lease.renew()?;
        // After our own lease exists: a prune has seen these leases, or it sees ours.
        for part in parts {
            stored.lease.check_left(&part.leases)?;
        }
        let saved = self.finish(stored, options)?;
        // The snapshot is committed. Leases that cannot be ended expire, and a prune removes them.
        let _ = self.abandon_parts(parts);
        Ok(saved)
    }

    /// Ends the leases of parts: a prune then removes what no snapshot needs.
    pub fn abandon_parts(&self, parts: &[PartialSnapshot]) -> Result<()> {
        let leases = parts.iter().flat_map(|part| part.leases.iter().cloned());
        self.storage.delete(&leases.collect::<Vec<_>>())
    }
}

/// Adds the files of parts to a manifest. Several parts may have the same folder.
fn merge(manifest: &mut Manifest, parts: &[PartialSnapshot]) -> Result<()> {
    let mut merged = Renumbered::of(manifest);
    let own = std::mem::take(&mut manifest.entries).into_iter();
    let mut entries: BTreeMap<RelPath, Node> =
        own.map(|ManifestEntry { path, node }| (path, node)).collect();
    for part in parts {
        manifest.added = manifest.added.saturating_add(part.manifest.added);
        let donor = Donor::new(&part.manifest);
        for ManifestEntry { path, node } in &part.manifest.entries {
            let node = match node {
                Node::File(file) => {
                    let archive = merged.adopt(&donor, file.archive).ok_or_else(|| {
                        let message = "is coded against an archive that has the same hash as a \
                                       different one in another partial snapshot; save all of them \
                                       again against one parent";
                        Error::new(ErrorKind::Conflict, message).at(path)
                    })?;
                    Node::File(FileNode { archive, ..*file })
                }
                node => node.clone(),
            };
            let is_folder = matches!(node, Node::Directory { .. });
            let before = entries.insert(path.clone(), node);
            if before.is_some_and(|before| !(is_folder && matches!(before, Node::Directory { .. })))
            {
                return Err(Error::invalid(format!("{path} is in two partial snapshots")));
            }
        }
    }
    manifest.entries =
        entries.into_iter().map(|(path, node)| ManifestEntry { path, node }).collect();
    (manifest.archives, manifest.packs) = merged.into_parts();
    Ok(())
}
