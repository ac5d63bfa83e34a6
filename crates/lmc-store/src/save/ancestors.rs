//! Files that the parent does not have and a snapshot before it has: weights may be saved at every
//! step, and optimizer state at every tenth.

use crate::layout::manifest::{Entry, Manifest, Node};
use crate::layout::path::RelPath;
use crate::save::manifest_builder::{Donor, Renumbered};
use std::collections::BTreeSet;

/// Snapshots before the parent that are looked at.
pub(crate) const LOOKED_AT_MAX: usize = 12;

/// Gives `manifest` those files of `older` that are wanted; they are wanted no more. Archives that
/// it has already stay as they are; a file that is coded against others with the same hashes is
/// left out.
pub(crate) fn adopt(manifest: &mut Manifest, older: &Manifest, wanted: &mut BTreeSet<RelPath>) {
    let mut merged = Renumbered::of(manifest);
    let found: Vec<&Entry> = older
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
