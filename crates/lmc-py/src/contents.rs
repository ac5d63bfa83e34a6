//! The contents of a snapshot: one manifest, read once, whatever is saved meanwhile.

use lmc_store::{Manifest, Node};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::archive::Archive;
use crate::context::long;
use crate::errors::Raise;
use crate::snapshot::Snapshot;
use crate::text::SnapshotPath;

/// Path, type, bytes and kind.
type EntryTuple = (SnapshotPath, &'static str, u64, &'static str);

/// The files of a snapshot.
#[pyclass(frozen, module = "lmckpt._lmckpt")]
#[derive(Debug)]
pub struct Contents {
    pub store: lmc_store::Store,
    pub manifest: Arc<Manifest>,
    /// The snapshot.
    #[pyo3(get)]
    pub snapshot: Snapshot,
}

#[pymethods]
impl Contents {
    /// Path, type, bytes and kind of each entry.
    fn entries(&self) -> Vec<EntryTuple> {
        let entry = |entry: &lmc_store::ManifestEntry| {
            let path = SnapshotPath(entry.path.clone());
            match &entry.node {
                Node::File(file) => (path, "file", file.size, file.kind.name()),
                Node::Directory { .. } => (path, "directory", 0, ""),
                Node::Link { .. } => (path, "link", 0, ""),
            }
        };
        self.manifest.entries.iter().map(entry).collect()
    }

    /// The metadata of the snapshot.
    fn meta(&self) -> BTreeMap<String, String> {
        self.manifest.meta.clone()
    }

    /// Opens a file, wherever its bytes are.
    fn file(&self, py: Python<'_>, path: SnapshotPath) -> PyResult<Archive> {
        let opened =
            long(py, |context| self.store.with_context(context).archive(&self.manifest, &path.0));
        opened?.map(Archive).raise()
    }
}
