//! A snapshot, as its name describes it.

use lmc_store::SnapshotName;
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::text::{Text, strings};

/// A snapshot in a store.
#[pyclass(frozen, eq, hash, module = "lmckpt._lmckpt")]
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub name: SnapshotName,
    /// Its tags, in order.
    #[pyo3(get)]
    pub tags: Vec<String>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.name.id == other.name.id
    }
}

impl std::hash::Hash for Snapshot {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.id.hash(state);
    }
}

#[pymethods]
impl Snapshot {
    /// Restores a pickled snapshot: `key` names it in its store.
    #[new]
    fn new(key: Text, tags: Vec<Text>) -> PyResult<Self> {
        let Text(key) = key;
        let name = SnapshotName::parse(&key);
        let name = name.ok_or_else(|| lmc::Error::invalid(format!("{key} is not a snapshot")));
        Ok(Self { name: name.raise()?, tags: strings(tags) })
    }

    fn __getnewargs__(&self) -> PyResult<(String, Vec<String>)> {
        Ok((self.name.key().raise()?, self.tags.clone()))
    }

    /// Its id, in hex.
    #[getter]
    fn id(&self) -> &str {
        &self.name.id
    }

    /// The run it belongs to.
    #[getter]
    fn run(&self) -> &str {
        &self.name.run
    }

    /// The step of training.
    #[getter]
    fn step(&self) -> u64 {
        self.name.step
    }

    /// When it was saved, in milliseconds since 1970.
    #[getter]
    fn time_ms(&self) -> u64 {
        self.name.time_ms
    }

    /// Bytes of its files.
    #[getter]
    fn size(&self) -> u64 {
        self.name.size
    }

    /// Bytes that it added to the store.
    #[getter]
    fn added(&self) -> u64 {
        self.name.added
    }

    fn __repr__(&self) -> String {
        let SnapshotName { run, step, size, added, .. } = &self.name;
        let id = self.name.short_id();
        format!("Snapshot({id}, run={run:?}, step={step}, size={size}, added={added})")
    }
}
