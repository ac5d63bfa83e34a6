//! Removing optimizer state: the same snapshot again, with everything that is needed to use the
//! weights, but without state that is only needed to continue the training.

use crate::Store;
use crate::layout::content_kind::ContentKind;
use crate::layout::manifest::{Manifest, ManifestEntry, Node};
use crate::layout::names::SnapshotName;
use crate::layout::path::RelPath;
use crate::read::library::SnapshotLibrary;
use crate::save::manifest_builder::Builder;
use lmc_format::{Error, Result};
use std::sync::Arc;

impl Store {
    /// Makes a snapshot that has the step, the time and the files of `name` except the optimizer
    /// state, and forgets `name`. Nothing is coded again. Packs that hold only optimizer state are
    /// removed by the next prune, unless other snapshots need them.
    ///
    /// On an error, `name` is unchanged.
    pub fn thin(&self, name: &SnapshotName) -> Result<SnapshotName> {
        let (save, lease, old) = self.lease_of(name)?;
        if optimizer_files(&old).is_empty() {
            let message = "it has no optimizer state besides its weights";
            return Err(Error::invalid(message).at(format_args!("snapshot {}", name.short_id())));
        }
        let old = Arc::new(old);
        let mut manifest = Manifest { save, copy: None, is_thinned: true, ..(*old).clone() };
        manifest.entries.retain(|entry| !is_optimizer(entry));
        let builder = Builder::new(Some(SnapshotLibrary::new(self, &old)));
        let mut manifest = builder.finish(manifest, Vec::new())?;
        // It is unknown how much the other files added, but it is not more than they take.
        let stored: u64 = manifest.archives.iter().map(|archive| archive.stored).sum();
        manifest.added = manifest.added.min(stored);
        self.replace_with(name, &manifest, lease)
    }
}

/// The files that can be left out; none if no weights would remain.
pub(crate) fn optimizer_files(manifest: &Manifest) -> Vec<RelPath> {
    let has_weights = manifest.files().any(|(_, file)| file.kind == ContentKind::Weights);
    let files = manifest.entries.iter().filter(|entry| has_weights && is_optimizer(entry));
    files.map(|entry| entry.path.clone()).collect()
}

fn is_optimizer(entry: &ManifestEntry) -> bool {
    matches!(&entry.node, Node::File(file) if file.kind == ContentKind::Optimizer)
}
