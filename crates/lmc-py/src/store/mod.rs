//! A store: snapshots of directories and of files in memory.

mod save;

use lmc::Context;
use lmc_store::storage::{Access, Interruptible, Location, Storage};
use lmc_store::{
    CheckOptions, Keep, MemoryFile, PartialSnapshot, PruneOptions, RelPath, RestoreOptions,
    SnapshotName, SystemClock, storage,
};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use self::save::{FileTuple, HeldFile, Save, SnapshotArg};
use crate::advice;
use crate::contents::Contents;
use crate::context::{long, watched};
use crate::errors::Raise;
use crate::options::count;
use crate::snapshot::Snapshot;
use crate::text::{Pattern, SnapshotPath, Text, strings, visible};

/// Damaged objects, and files by snapshot and path, each with its error.
type CheckTuple = (Vec<(String, String)>, Vec<(String, SnapshotPath, String)>);
/// Paths that are the same, only old, only new, and changed ones with both sizes.
type DiffTuple =
    (Vec<SnapshotPath>, Vec<SnapshotPath>, Vec<SnapshotPath>, Vec<(SnapshotPath, u64, u64)>);

/// A store in a directory or a bucket. It can be used from any thread.
#[pyclass(frozen, module = "lmckpt._lmckpt")]
#[derive(Debug)]
pub struct Store {
    store: lmc_store::Store,
    location: Location,
}

impl Store {
    /// Does work on the store in the context of this call.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&lmc_store::Store) -> lmc::Result<T> + Send,
    ) -> PyResult<T> {
        long(py, |context| work(&self.store.with_context(context)))?.raise()
    }

    /// The same on this many threads; `progress` is called with the bytes done so far.
    fn watched<T: Send>(
        &self,
        py: Python<'_>,
        threads: usize,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce(&lmc_store::Store) -> lmc::Result<T> + Send,
    ) -> PyResult<T> {
        let done = watched(py, progress, |context| {
            work(&self.store.with_context(&context.on_threads(threads)))
        });
        done?.raise()
    }
}

/// The snapshot that a text means.
fn one(store: &lmc_store::Store, text: &str) -> lmc_store::Result<Snapshot> {
    let name = store.find(text)?;
    let tags = store.tags()?.remove(&name.id).unwrap_or_default();
    Ok(Snapshot { name, tags: tags.into_iter().collect() })
}

fn with_tags(
    store: &lmc_store::Store,
    names: Vec<SnapshotName>,
) -> lmc_store::Result<Vec<Snapshot>> {
    let mut tags = store.tags()?;
    let own = |name: SnapshotName| {
        let tags = tags.remove(&name.id).unwrap_or_default().into_iter().collect();
        Snapshot { name, tags }
    };
    Ok(names.into_iter().map(own).collect())
}

/// A storage for the call that opens a store.
fn interruptible(storage: Arc<dyn Storage>, context: &Context) -> Arc<dyn Storage> {
    Arc::new(Interruptible::new(storage, &context.interrupt))
}

/// The location of a store as it is shown: without user, password and query.
#[pyfunction]
pub fn shown(url: &Bound<'_, PyString>) -> PyResult<String> {
    Ok(Location::from(visible(url)?).to_string())
}

#[pymethods]
impl Store {
    /// Opens the store at `url`.
    #[staticmethod]
    fn open(py: Python<'_>, url: Text) -> PyResult<Self> {
        let location = Location::from(url.0);
        let opened = long(py, |context| {
            let storage = interruptible(storage::open(location.with_secrets())?, context);
            lmc_store::Store::open(storage, Arc::new(SystemClock))
        });
        opened?.map(|store| Self { store, location }).raise()
    }

    /// The location of the store, as it was given.
    #[getter]
    fn url(&self) -> &str {
        self.location.with_secrets()
    }

    /// Makes a store at `url`.
    #[staticmethod]
    fn init(py: Python<'_>, url: Text) -> PyResult<Self> {
        let location = Location::from(url.0);
        let made = long(py, |context| {
            let storage = storage::open_new(location.with_secrets(), Access::Private)?;
            let storage = interruptible(storage, context);
            lmc_store::Store::init(storage, Arc::new(SystemClock))
        });
        made?.map(|store| Self { store, location }).raise()
    }

    /// Saves a file or a directory. `progress` is called with the bytes done so far.
    #[pyo3(signature = (path, save, *, progress = None))]
    fn save_path(
        &self,
        py: Python<'_>,
        path: PathBuf,
        save: Save,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Snapshot> {
        let (options, threads) = self.save_options(py, save)?;
        let tags = options.tags.iter().cloned().collect();
        let saved = self.watched(py, threads, progress, |store| store.save(&path, &options))?;
        Ok(Snapshot { name: saved.name, tags })
    }

    /// Saves files in memory. `progress` is called with the bytes done so far.
    #[pyo3(signature = (files, save, *, progress = None))]
    fn save_files(
        &self,
        py: Python<'_>,
        files: Vec<FileTuple<'_>>,
        save: Save,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Snapshot> {
        let (options, threads) = self.save_options(py, save)?;
        let tags = options.tags.iter().cloned().collect();
        let held = HeldFile::all(files)?;
        let saved = self.watched(py, threads, progress, |store| {
            let files: Vec<MemoryFile<'_>> = held.iter().map(HeldFile::get).collect();
            store.save_files(&files, &options)
        })?;
        Ok(Snapshot { name: saved.name, tags })
    }

    /// Stores files in memory as a partial snapshot; returns it as text, and the problems that were
    /// worked around.
    fn save_part(
        &self,
        py: Python<'_>,
        files: Vec<FileTuple<'_>>,
        save: Save,
    ) -> PyResult<(String, Vec<String>)> {
        let ((options, threads), held) = (self.save_options(py, save)?, HeldFile::all(files)?);
        self.watched(py, threads, None, |store| {
            let files: Vec<MemoryFile<'_>> = held.iter().map(HeldFile::get).collect();
            let part = store.save_part(&files, &options)?;
            let warnings = part.warnings.iter().map(advice::of_warning).collect();
            Ok((part.write()?, warnings))
        })
    }

    /// Makes one snapshot of partial snapshots and of files in memory.
    fn commit_parts(
        &self,
        py: Python<'_>,
        parts: Vec<Text>,
        files: Vec<FileTuple<'_>>,
        save: Save,
    ) -> PyResult<Snapshot> {
        let (options, threads) = self.save_options(py, save)?;
        let tags = options.tags.iter().cloned().collect();
        let held = HeldFile::all(files)?;
        let saved = self.watched(py, threads, None, |store| {
            let parts = read_parts(&parts)?;
            let files: Vec<MemoryFile<'_>> = held.iter().map(HeldFile::get).collect();
            store.commit_parts(&parts, &files, &options)
        })?;
        Ok(Snapshot { name: saved.name, tags })
    }

    /// Gives up partial snapshots that will not be committed.
    fn abandon_parts(&self, py: Python<'_>, parts: Vec<Text>) -> PyResult<()> {
        self.work(py, |store| store.abandon_parts(&read_parts(&parts)?))
    }

    /// The newest snapshot of a run, without its tags. The cost does not grow with the run.
    fn newest(&self, py: Python<'_>, run: Text) -> PyResult<Option<Snapshot>> {
        let newest = self.work(py, |store| store.newest(&run.0))?;
        Ok(newest.map(|name| Snapshot { name, tags: Vec::new() }))
    }

    /// All snapshots, or those of a run, in the order in which they were saved.
    #[pyo3(signature = (run = None))]
    fn snapshots(&self, py: Python<'_>, run: Option<Text>) -> PyResult<Vec<Snapshot>> {
        self.work(py, |store| {
            let names = match &run {
                Some(run) => store.snapshots_of(&run.0),
                None => store.snapshots(),
            };
            with_tags(store, names?)
        })
    }

    /// The snapshot that `text` means: the start of an id, `latest`, `RUN@STEP` or `RUN@latest`.
    fn get(&self, py: Python<'_>, text: Text) -> PyResult<Snapshot> {
        self.work(py, |store| one(store, &text.0))
    }

    /// The files of a snapshot. A snapshot object is not looked up again.
    fn contents(&self, py: Python<'_>, snapshot: SnapshotArg) -> PyResult<Contents> {
        let known = match snapshot {
            SnapshotArg::Snapshot(known) => Ok(known.get().clone()),
            SnapshotArg::Text(text) => Err(text),
        };
        self.work(py, |store| {
            let snapshot = known.or_else(|text| one(store, &text))?;
            let manifest = Arc::new(store.manifest(&snapshot.name)?);
            Ok(Contents { store: self.store.clone(), manifest, snapshot })
        })
    }

    /// Restores a snapshot to `target`; returns the numbers of files and bytes. `progress` is
    /// called with the bytes done so far.
    #[pyo3(signature = (snapshot, target, *, only, weights_only, overwrite, threads, max_size,
                        progress = None))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn restore(
        &self,
        py: Python<'_>,
        snapshot: Text,
        target: PathBuf,
        only: Vec<Pattern>,
        weights_only: bool,
        overwrite: bool,
        #[pyo3(from_py_with = count)] threads: usize,
        #[pyo3(from_py_with = count)] max_size: Option<u64>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u64, u64)> {
        let options = RestoreOptions {
            only: only.into_iter().map(|pattern| pattern.0).collect(),
            weights_only,
            overwrite,
            max_size,
            ..Default::default()
        };
        let restored = self.watched(py, threads, progress, |store| {
            store.restore(&store.find(&snapshot.0)?, &target, &options)
        })?;
        Ok((restored.files, restored.bytes))
    }

    /// Adds a tag to a snapshot, or removes it.
    fn set_tag(&self, py: Python<'_>, snapshot: Text, tag: Text, is_set: bool) -> PyResult<()> {
        self.work(py, |store| {
            let name = store.find(&snapshot.0)?;
            if is_set { store.tag(&name, &tag.0) } else { store.untag(&name, &tag.0) }
        })
    }

    /// Forgets the snapshots that no rule keeps; returns the kept and the forgotten ones.
    #[pyo3(signature = (*, run, keep_last, keep_every, keep_tags, keep_within_ms, dry_run))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn forget(
        &self,
        py: Python<'_>,
        run: Option<Text>,
        #[pyo3(from_py_with = count)] keep_last: Option<u64>,
        #[pyo3(from_py_with = count)] keep_every: Option<u64>,
        keep_tags: Vec<Text>,
        keep_within_ms: Option<u64>,
        dry_run: bool,
    ) -> PyResult<(Vec<Snapshot>, Vec<Snapshot>)> {
        let keep = Keep {
            last: keep_last,
            every: keep_every,
            tags: strings(keep_tags),
            within_ms: keep_within_ms,
        };
        if keep.is_empty() {
            return Err(lmc::Error::invalid("say what to keep")).raise();
        }
        self.work(py, |store| {
            let run = run.as_ref().map(|run| &run.0[..]);
            let mut plan = store.plan_forget(&keep, run)?;
            if !dry_run {
                plan = store.forget_planned(plan, &keep)?;
            }
            Ok((with_tags(store, plan.kept)?, with_tags(store, plan.forgotten)?))
        })
    }

    /// Removes unreferenced objects; returns the snapshots, packs and bytes that were removed.
    #[pyo3(signature = (*, grace_ms, dry_run, allow_empty))]
    fn prune(
        &self,
        py: Python<'_>,
        grace_ms: Option<u64>,
        dry_run: bool,
        allow_empty: bool,
    ) -> PyResult<(usize, usize, u64)> {
        let options = PruneOptions { grace_ms, dry_run, allow_empty };
        let pruned = self.work(py, |store| store.prune(&options))?;
        Ok((pruned.snapshots.len(), pruned.packs.len(), pruned.bytes))
    }

    /// Looks for damage; returns damaged objects and files that cannot be restored, each with its
    /// error.
    #[pyo3(signature = (*, read_percent, threads))]
    fn check(
        &self,
        py: Python<'_>,
        read_percent: u8,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<CheckTuple> {
        let options = CheckOptions { read_percent };
        let checked = self.watched(py, threads, None, |store| store.check(&options))?;
        let packs = checked.damaged.into_iter().map(|(_, damage)| damage);
        let objects = checked.manifests.into_iter().chain(packs);
        let objects =
            objects.map(|damage| (damage.object, advice::of_error(&damage.error))).collect();
        let hurt = checked.hurt.into_iter();
        let files = hurt
            .map(|hurt| (hurt.snapshot.id, SnapshotPath(hurt.path), advice::of_error(&hurt.error)))
            .collect();
        Ok((objects, files))
    }

    /// Statistics of the whole store.
    fn stats(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, i64>> {
        let stats = self.work(py, lmc_store::Store::stats)?;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        Ok(BTreeMap::from([
            ("snapshots", number(stats.snapshots)),
            ("files", number(stats.files)),
            ("logical_bytes", number(stats.logical)),
            ("archives", number(stats.archives)),
            ("whole", number(stats.whole)),
            ("deltas", number(stats.deltas)),
            ("saved_by_reuse_bytes", number(stats.saved_reuse)),
            ("saved_by_delta_bytes", number(stats.saved_delta)),
            ("saved_by_coding_bytes", stats.saved_coding),
            ("packs", number(stats.packs)),
            ("pack_bytes", number(stats.pack_bytes)),
            ("unneeded_bytes", number(stats.unneeded_bytes)),
            ("manifest_bytes", number(stats.manifest_bytes)),
            ("chain_depth_max", number(stats.depth_max as u64)),
        ]))
    }

    /// Compares two snapshots: files that are the same, only in the first, only in the second, and
    /// changed.
    #[pyo3(signature = (old, new, *, threads))]
    fn diff(
        &self,
        py: Python<'_>,
        old: Text,
        new: Text,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<DiffTuple> {
        let diff = self.watched(py, threads, None, |store| {
            let old = Arc::new(store.manifest(&store.find(&old.0)?)?);
            let new = Arc::new(store.manifest(&store.find(&new.0)?)?);
            store.diff(&old, &new)
        })?;
        let paths = |paths: Vec<RelPath>| paths.into_iter().map(SnapshotPath).collect();
        let changed = diff.changed.into_iter();
        let changed =
            changed.map(|file| (SnapshotPath(file.path), file.old_size, file.new_size)).collect();
        Ok((paths(diff.same), paths(diff.only_old), paths(diff.only_new), changed))
    }
}

fn read_parts(parts: &[Text]) -> lmc_store::Result<Vec<PartialSnapshot>> {
    parts.iter().map(|text| PartialSnapshot::read(&text.0)).collect()
}
