//! The arguments of a save: its options, and files in memory.

use lmc::Level;
use lmc_store::{MemoryFile, Parent, RelPath, SaveOptions};
use pyo3::prelude::*;
use std::collections::BTreeMap;

use super::Store;
use crate::buffers::{Bytes, parts};
use crate::options::{count, level as level_of};
use crate::snapshot::Snapshot;
use crate::text::{SnapshotPath, Text, strings};

/// The options of a save: a mapping with these keys.
pub(super) struct Save {
    run: String,
    step: Option<u64>,
    tags: Vec<String>,
    meta: BTreeMap<String, String>,
    parent: SnapshotArg,
    level: Level,
    threads: usize,
    verify: bool,
}

// Not derived: that would turn every error of a field into a TypeError.
impl FromPyObject<'_, '_> for Save {
    type Error = PyErr;

    fn extract(save: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let meta: BTreeMap<Text, Text> = save.get_item("meta")?.extract()?;
        Ok(Self {
            run: save.get_item("run")?.extract::<Text>()?.0,
            step: count(&save.get_item("step")?)?,
            tags: strings(save.get_item("tags")?.extract()?),
            meta: meta.into_iter().map(|(key, value)| (key.0, value.0)).collect(),
            parent: save.get_item("parent")?.extract()?,
            level: level_of(&save.get_item("level")?)?,
            threads: count(&save.get_item("threads")?)?,
            verify: save.get_item("verify")?.extract()?,
        })
    }
}

/// A snapshot, or a text that names one.
pub(super) enum SnapshotArg {
    Snapshot(Py<Snapshot>),
    Text(String),
}

impl FromPyObject<'_, '_> for SnapshotArg {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.cast::<Snapshot>() {
            Ok(snapshot) => Ok(Self::Snapshot(snapshot.to_owned().unbind())),
            Err(_) => Ok(Self::Text(object.extract::<Text>()?.0)),
        }
    }
}

/// A file in memory as it comes from Python: a path, a buffer or a list of buffers, and paths of
/// files of the parent that hold its earlier content.
pub(super) type FileTuple<'py> = (SnapshotPath, Bound<'py, PyAny>, Vec<SnapshotPath>);

/// The same, held while it is saved.
pub(super) struct HeldFile {
    path: RelPath,
    parts: Vec<Bytes>,
    like: Vec<RelPath>,
}

impl HeldFile {
    pub(super) fn all(files: Vec<FileTuple<'_>>) -> PyResult<Vec<Self>> {
        let file = |(path, data, like): FileTuple<'_>| {
            let like = like.into_iter().map(|path| path.0).collect();
            Ok(Self { path: path.0, parts: parts(&data)?, like })
        };
        files.into_iter().map(file).collect()
    }

    pub(super) fn get(&self) -> MemoryFile<'_> {
        let parts = self.parts.iter().map(Bytes::get).collect();
        MemoryFile { path: self.path.clone(), parts, like: self.like.clone() }
    }
}

impl Store {
    /// The options, and the number of threads.
    pub(super) fn save_options(
        &self,
        py: Python<'_>,
        save: Save,
    ) -> PyResult<(SaveOptions, usize)> {
        let parent = match save.parent {
            // It may be gone by now, which is not a reason to fail.
            SnapshotArg::Snapshot(snapshot) => Parent::Preferred(snapshot.get().name.clone()),
            SnapshotArg::Text(text) => match &text[..] {
                "auto" => Parent::Auto,
                "none" => Parent::None,
                id => Parent::Snapshot(self.work(py, |store| store.find(id))?),
            },
        };
        let options = SaveOptions {
            run: save.run,
            step: save.step,
            tags: save.tags.into_iter().collect(),
            meta: save.meta,
            parent,
            level: save.level,
            verify: save.verify,
            ..SaveOptions::default()
        };
        Ok((options, save.threads))
    }
}
