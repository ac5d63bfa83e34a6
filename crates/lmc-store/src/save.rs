//! A file or a directory to a snapshot.

use crate::Store;
use crate::archives::SnapshotLibrary;
use crate::builder::Builder;
use crate::kind::Kind;
use crate::lease::{SaveLease, is_pruning};
use crate::manifest::{Entry, FileNode, MANIFEST_FORMAT, MANIFEST_LEN_MAX, Manifest, Node};
use crate::names::{SnapshotName, check_label, random_id};
use crate::packs::{PACK_LEN, PackCount, PackWriter, Packed, Reuse, write_packs};
use crate::path::RelPath;
use crate::plan;
use crate::storage::{Put, io_error};
use crate::tree::{FileState, Leaf, What, walk};
use lmc::{Bases, Input, Level, Options, Output, Progress};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The run of snapshots that are given none.
pub const RUN_DEFAULT: &str = "main";
/// Runs whose newest snapshots are looked at to find a parent for a new run.
const RUNS_TRIED_MAX: usize = 4;
/// Times that a parent is chosen again because it was removed meanwhile.
const CHOICES_MAX: usize = 8;

/// What to code against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest snapshot of the run; for a new run, the newest of a run with the same files.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// This one.
    Snapshot(SnapshotName),
}

/// How to save.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The run.
    pub run: String,
    /// The step; if none is given, the number at the end of the path, or one more than the last.
    pub step: Option<u64>,
    /// Tags that the snapshot gets.
    pub tags: BTreeSet<String>,
    /// Whatever should be known of it.
    pub meta: BTreeMap<String, String>,
    /// What to code against.
    pub parent: Parent,
    /// How hard to try.
    pub level: Level,
    /// Threads that code; 0 for one on each core.
    pub threads: usize,
    /// Whether every block is decoded and compared before it is stored.
    pub verify: bool,
    /// Whether what links point to is saved instead of the links.
    pub follow_links: bool,
    /// Most archives that stand one on the other.
    pub depth_max: usize,
    /// Bytes of a pack.
    pub pack_len: usize,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self {
            run: RUN_DEFAULT.to_string(),
            step: None,
            tags: BTreeSet::new(),
            meta: BTreeMap::new(),
            parent: Parent::Auto,
            level: Level::Default,
            threads: 0,
            verify: true,
            follow_links: false,
            depth_max: plan::CHAIN_DEPTH_MAX,
            pack_len: PACK_LEN,
        }
    }
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The snapshot.
    pub name: SnapshotName,
    /// What it was coded against.
    pub parent: Option<SnapshotName>,
    /// Files in it.
    pub files: u64,
    /// Files that the store had already.
    pub unchanged: u64,
    /// Its packs.
    pub packs: PackCount,
}

/// A parent, read under the lease of the save.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub name: SnapshotName,
    pub library: Arc<SnapshotLibrary>,
}

impl Store {
    /// Saves all of `path`. When it returns, the snapshot survives a power cut. On an error there
    /// is no new snapshot, or, if the storage failed while it was made visible, the whole one;
    /// those before are as they were.
    pub fn save(&self, path: &Path, options: &SaveOptions, progress: Progress) -> Result<Saved> {
        check_options(options)?;
        let (leaves, is_file) = walk(path, options.follow_links)?;
        let save = random_id()?;
        let (lease, parent) = self.choose_parent(&save, &leaves, options)?;
        let is_pruning = is_pruning(self, lease.storage_now_ms())?;
        let known = parent.iter().flat_map(|parent| &parent.library.manifest().packs);
        let reuse = Reuse { known: known.map(|pack| pack.name.clone()).collect(), is_pruning };
        let builder = Builder::new(parent.as_ref().map(|parent| parent.library.clone()));
        let (coded, packed) = write_packs(self, lease, reuse, options.pack_len, |writer| {
            let mut coding = Coding::new(options, builder, &leaves, writer);
            let entries = coding.entries(&leaves, progress)?;
            Ok((entries, coding.unchanged, coding.builder, writer.position()))
        })?;
        let (entries, unchanged, builder, added) = coded;
        let manifest = Manifest {
            format: MANIFEST_FORMAT,
            run: options.run.clone(),
            step: self.step(path, options)?,
            time_ms: self.time_after(parent.as_ref().map(|parent| &parent.name)),
            save,
            parent: parent.as_ref().map(|parent| parent.name.id.clone()),
            meta: options.meta.clone(),
            is_file,
            added,
            entries,
            archives: Vec::new(),
            packs: Vec::new(),
        };
        let files = manifest.files().count() as u64;
        let Packed { packs, count, lease } = packed;
        let manifest = builder.finish(manifest, packs)?;
        let name = self.commit(&manifest, &options.tags, lease)?;
        let parent = parent.map(|parent| parent.name);
        Ok(Saved { name, parent, files, unchanged, packs: count })
    }

    /// Now, or later if the snapshot before was saved by a clock that is ahead.
    pub(crate) fn time_after(&self, parent: Option<&SnapshotName>) -> u64 {
        let after = parent.map_or(0, |parent| parent.time_ms.saturating_add(1));
        self.clock.now_ms().max(after)
    }

    fn step(&self, path: &Path, options: &SaveOptions) -> Result<u64> {
        if let Some(step) = options.step.or_else(|| step_of(path)) {
            return Ok(step);
        }
        let names = self.snapshots_of(&options.run)?;
        Ok(names.last().map_or(0, |name| name.step.saturating_add(1)))
    }

    /// Makes a snapshot visible, whole, with its tags.
    pub(crate) fn commit(
        &self,
        manifest: &Manifest,
        tags: &BTreeSet<String>,
        mut lease: SaveLease,
    ) -> Result<SnapshotName> {
        let (bytes, name) = manifest.write()?;
        // Our own mistakes are found before anyone relies on them.
        Manifest::read(&bytes, &name)?;
        for tag in tags {
            self.storage.put_new(&name.tag(tag)?, b"")?;
        }
        lease.check()?;
        let object = name.object()?;
        let put = self.storage.put_new(&object, &bytes).inspect_err(|_| {
            // It may be there and not be durable, or be there and not be known to be.
            self.storage.take_back(&object);
        })?;
        if put == Put::Exists {
            // Its name is the hash of its bytes, so that it is ours: a put was sent twice.
            if self.storage.read_all(&object, MANIFEST_LEN_MAX)? != bytes {
                return Err(Error::corrupt(format!("{object} is there and has other bytes")));
            }
        }
        // The snapshot is there. A lease that cannot be ended grows old and is removed by a prune.
        let _ = lease.end();
        Ok(name)
    }

    /// A lease and the parent that it names. The order is what makes the parent safe: the lease
    /// first, then a look for the mark that it is to go, then its manifest.
    fn choose_parent(
        &self,
        save: &str,
        leaves: &[Leaf],
        options: &SaveOptions,
    ) -> Result<(SaveLease<'_>, Option<Chosen>)> {
        for _ in 0..CHOICES_MAX {
            let wanted = match &options.parent {
                Parent::None => None,
                Parent::Snapshot(name) => Some(name.clone()),
                Parent::Auto => self.likely_parent(&options.run, leaves)?,
            };
            let keys = wanted.iter().map(SnapshotName::key).collect::<Result<Vec<_>>>()?;
            let lease = SaveLease::create(self, save, keys)?;
            let Some(name) = wanted else { return Ok((lease, None)) };
            if let Some(library) = self.read_leased(&name)? {
                return Ok((lease, Some(Chosen { name, library })));
            }
            if options.parent != Parent::Auto {
                let message = format!("snapshot {} is being removed", name.short_id());
                return Err(Error::new(ErrorKind::Conflict, message));
            }
        }
        let message = "parents are removed faster than they can be chosen; save again";
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// The archives of a snapshot that a lease names, unless it is to go.
    pub(crate) fn read_leased(&self, name: &SnapshotName) -> Result<Option<Arc<SnapshotLibrary>>> {
        if self.is_forgotten(name)? {
            return Ok(None);
        }
        let manifest = self.manifest_of(name)?;
        Ok(manifest.map(|manifest| SnapshotLibrary::new(self, &Arc::new(manifest))))
    }

    fn likely_parent(&self, run: &str, leaves: &[Leaf]) -> Result<Option<SnapshotName>> {
        if let Some(name) = self.snapshots_of(run)?.pop() {
            return Ok(Some(name));
        }
        let mut newest: BTreeMap<String, SnapshotName> = BTreeMap::new();
        for name in self.snapshots()? {
            newest.insert(name.run.clone(), name);
        }
        let mut names: Vec<SnapshotName> = newest.into_values().collect();
        names.sort();
        let mut best: Option<(u64, SnapshotName)> = None;
        for name in names.into_iter().rev().take(RUNS_TRIED_MAX) {
            let Some(manifest) = self.manifest_of(&name)? else { continue };
            let common = common_bytes(&manifest, leaves);
            if common > best.as_ref().map_or(0, |(common, _)| *common) {
                best = Some((common, name));
            }
        }
        Ok(best.map(|(_, name)| name))
    }
}

/// Bytes of files that are in a snapshot under the same path, or as long as one in it.
fn common_bytes(manifest: &Manifest, leaves: &[Leaf]) -> u64 {
    let sizes: HashSet<u64> = manifest.files().map(|(_, file)| file.size).collect();
    let common = |leaf: &Leaf| match &leaf.what {
        What::File(file) if sizes.contains(&file.size) || manifest.file(&leaf.path).is_some() => {
            file.size
        }
        _ => 0,
    };
    leaves.iter().map(common).fold(0, u64::saturating_add)
}

fn check_options(options: &SaveOptions) -> Result<()> {
    check_label(&options.run)?;
    options.tags.iter().try_for_each(|tag| check_label(tag))?;
    if options.pack_len == 0 {
        return Err(Error::invalid("a pack has at least one byte"));
    }
    Ok(())
}

/// The number at the end of a name such as `checkpoint-1000` or `step_1000.safetensors`.
fn step_of(path: &Path) -> Option<u64> {
    let path = path.canonicalize().ok()?;
    let name = path.file_name()?.to_str()?;
    let stem = name.split('.').next()?;
    let digits = stem.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Files on their way into packs.
struct Coding<'a, 'w> {
    options: &'a SaveOptions,
    builder: Builder,
    writer: &'a mut PackWriter<'w>,
    /// Sizes that more than one file has, here or in the parent.
    sizes: HashMap<u64, usize>,
    unchanged: u64,
}

impl<'a, 'w> Coding<'a, 'w> {
    fn new(
        options: &'a SaveOptions,
        builder: Builder,
        leaves: &[Leaf],
        writer: &'a mut PackWriter<'w>,
    ) -> Self {
        let mut sizes: HashMap<u64, usize> = HashMap::new();
        let own = leaves.iter().filter_map(|leaf| match &leaf.what {
            What::File(file) => Some(file.size),
            _ => None,
        });
        for size in own.chain(builder.parent_sizes()) {
            *sizes.entry(size).or_default() += 1;
        }
        Self { options, builder, writer, sizes, unchanged: 0 }
    }

    fn entries(&mut self, leaves: &[Leaf], progress: Progress) -> Result<Vec<Entry>> {
        let mut entries = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let node = match &leaf.what {
                What::Directory { mode } => Node::Directory { mode: *mode },
                What::Link { target } => Node::Link { target: target.clone() },
                What::File(state) => {
                    let archive = self.file(leaf, state, progress).map_err(|e| e.at(&leaf.path))?;
                    let FileState { mode, mtime, size } = *state;
                    let kind = Kind::of(&leaf.path);
                    Node::File(FileNode { mode, mtime, size, kind, archive })
                }
            };
            entries.push(Entry { path: leaf.path.clone(), node });
        }
        Ok(entries)
    }

    /// Codes a file, unless its content is known; returns the number of its archive.
    fn file(&mut self, leaf: &Leaf, state: &FileState, progress: Progress) -> Result<usize> {
        let file = File::open(&leaf.source).map_err(|e| io_error("cannot open it", &e))?;
        check_state(&file, state)?;
        // Nothing can be the same where nothing has the same size.
        if self.sizes.get(&state.size).is_some_and(|&count| count > 1) {
            let hash = lmc::content_hash(Input::File(&file), self.options.threads)?;
            if let Some(archive) = self.builder.known(hash, state.size) {
                check_state(&file, state)?;
                self.unchanged += 1;
                progress(state.size);
                return Ok(archive);
            }
        }
        let archive = self.code(&leaf.path, &file, progress)?;
        check_state(&file, state)?;
        Ok(archive)
    }

    fn code(&mut self, path: &RelPath, file: &File, progress: Progress) -> Result<usize> {
        let SaveOptions { level, threads, verify, .. } = *self.options;
        let bases = self.builder.bases(path, self.options)?;
        let options = Options { level, threads, verify, bases };
        self.builder.add(self.writer, |writer| {
            lmc::compress_known(Input::File(file), Output::Stream(writer), &options, progress)
        })
    }
}

impl Builder {
    /// What the file at `path` is coded against.
    fn bases(&self, path: &RelPath, options: &SaveOptions) -> Result<Bases> {
        let Some(parent) = self.parent() else { return Ok(Bases::default()) };
        let numbers = plan::bases(parent.manifest(), path, options.depth_max);
        let hash = |&i: &usize| parent.manifest().archives[i].hash;
        let hashes: Vec<u128> = numbers.iter().map(hash).collect();
        Bases::from_library(parent.clone(), &hashes, options.threads)
    }
}

/// Fails if a file is not as it was when it was first looked at.
fn check_state(file: &File, state: &FileState) -> Result<()> {
    let metadata = file.metadata().map_err(|e| io_error("cannot look at it", &e))?;
    if FileState::new(&metadata) != *state {
        let message = "changed while it was saved; save again when nobody writes to it";
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    Ok(())
}
