//! The files of a snapshot, read where they are, as bases of others or to look at.

use crate::Store;
use crate::layout::manifest::Manifest;
use crate::layout::path::RelPath;
use crate::read::library::SnapshotLibrary;
use lmc::{BaseSet, Context};
use lmc_format::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The files of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotFiles {
    pub(crate) library: Arc<SnapshotLibrary>,
}

impl Store {
    /// The files of a snapshot. Nothing is read before one is opened.
    pub fn files(&self, manifest: &Arc<Manifest>) -> SnapshotFiles {
        SnapshotFiles { library: SnapshotLibrary::new(self, manifest) }
    }
}

impl SnapshotFiles {
    /// Opens one of them: it is the only base of the set.
    pub fn open(&self, path: &RelPath, context: &Context) -> Result<BaseSet> {
        let file = self.library.manifest().file(path).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("the snapshot has no file {path}"))
        })?;
        self.open_archive(file.archive, context)
    }

    /// The same for the archive with this number.
    pub(crate) fn open_archive(&self, number: usize, context: &Context) -> Result<BaseSet> {
        let hash = self.library.manifest().archives[number].hash;
        BaseSet::from_library(self.library.with_first(number), &[hash], context)
    }
}
