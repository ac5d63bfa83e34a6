//! Comparing two snapshots: files by their content, and changed files tensor by tensor.

use crate::Store;
use crate::layout::identity::identities;
use crate::layout::manifest::{FileNode, Manifest};
use crate::layout::names::PackName;
use crate::layout::path::RelPath;
use crate::save::reuse::have_same_original;
use lmc::{Diff, Level};
use lmc_format::{Error, Result};
use std::sync::Arc;

/// How two snapshots differ.
#[derive(Clone, Debug, Default)]
pub struct SnapshotDiff {
    /// Files that are the same in both.
    pub same: Vec<RelPath>,
    /// Files that only the old snapshot has.
    pub only_old: Vec<RelPath>,
    /// Files that only the new snapshot has.
    pub only_new: Vec<RelPath>,
    /// Files that are in both, with different bytes.
    pub changed: Vec<FileDiff>,
}

/// How a file differs.
#[derive(Clone, Debug)]
pub struct FileDiff {
    /// Where it is.
    pub path: RelPath,
    /// Its bytes in the old snapshot.
    pub old_size: u64,
    /// Its bytes in the new snapshot.
    pub new_size: u64,
    /// Its tensors.
    pub tensors: Diff,
}

impl Store {
    /// Compares two snapshots.
    pub fn diff(&self, old: &Arc<Manifest>, new: &Arc<Manifest>) -> Result<SnapshotDiff> {
        let context = &self.context;
        let files = (self.files(old), self.files(new));
        let places = (identities(old, PackName::hash), identities(new, PackName::hash));
        let mut diff = SnapshotDiff::default();
        for (path, file) in new.files() {
            let Some(before) = counterpart(old, new, path) else {
                diff.only_new.push(path.clone());
                continue;
            };
            let hashes = (old.archives[before.archive].hash, new.archives[file.archive].hash);
            // The same hash does not prove that the bytes are the same, so the bytes are compared.
            let is_same = || {
                let (old, new) = (&files.0.library, &files.1.library);
                let archives = (old.open(before.archive)?, new.open(file.archive)?);
                have_same_original(&archives.0, &archives.1, context)
            };
            if places.0[before.archive] == places.1[file.archive]
                || hashes.0 == hashes.1 && is_same().map_err(|e| e.at(path))?
            {
                diff.same.push(path.clone());
                continue;
            }
            let before_bases = files.0.open_archive(before.archive, context)?;
            let bases = files.1.open_archive(file.archive, context)?;
            let ([old_base], [new_base]) = (before_bases.list(), bases.list()) else {
                return Err(Error::invalid("a file could not be opened; please report it"));
            };
            let tensors = lmc::diff(old_base, new_base, Level::Default, context)?;
            let (old_size, new_size) = (before.size, file.size);
            diff.changed.push(FileDiff { path: path.clone(), old_size, new_size, tensors });
        }
        let gone = old.files().filter(|(path, _)| counterpart(new, old, path).is_none());
        diff.only_old = gone.map(|(path, _)| path.clone()).collect();
        Ok(diff)
    }
}

/// The file of `other` that a file of `own` is compared with: the one of the same name, or its only
/// one if both are snapshots of a single file, which may have the step in its name.
fn counterpart<'a>(other: &'a Manifest, own: &Manifest, path: &RelPath) -> Option<&'a FileNode> {
    match own.is_file && other.is_file {
        true => other.files().next().map(|(_, file)| file),
        false => other.file(path),
    }
}
