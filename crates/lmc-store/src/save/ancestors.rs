//! Files that the parent lacks but an earlier snapshot has: weights may be saved at every step, and
//! optimizer state only at every tenth.

use crate::layout::manifest::{Manifest, ManifestEntry, Node};
use crate::layout::path::RelPath;
use crate::save::manifest_builder::{Donor, Renumbered};
use std::collections::BTreeSet;

/// How many snapshots before the parent are looked at.
pub(crate) const LOOKED_AT_MAX: usize = 12;

/// Adds the wanted files of `older` to `manifest`; they are then no longer wanted. Archives that
/// the manifest already has stay as they are. A file is left out if it is coded against other
/// archives with the same hashes.
pub(crate) fn adopt(manifest: &mut Manifest, older: &Manifest, wanted: &mut BTreeSet<RelPath>) {
    let mut merged = Renumbered::of(manifest);
    let found: Vec<&ManifestEntry> = older
        .entries
        .iter()
        .filter(|entry| matches!(entry.node, Node::File(_)) && wanted.contains(&entry.path))
        .collect();
    let donor = Donor::new(older);
    for entry in found {
        let Node::File(file) = &entry.node else { continue };
        let Some(archive) = merged.adopt(&donor, file.archive) else { continue };
        let mut entry = entry.clone();
        entry.node = Node::File(crate::layout::manifest::FileNode { archive, ..*file });
        wanted.remove(&entry.path);
        manifest.entries.push(entry);
    }
    manifest.entries.sort_by(|one, other| one.path.cmp(&other.path));
    (manifest.archives, manifest.packs) = merged.into_parts();
}
