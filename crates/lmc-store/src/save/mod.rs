//! Saving a file or a directory as a snapshot.

pub(crate) mod ancestors;
pub(crate) mod base_choice;
pub(crate) mod commit;
pub(crate) mod files;
pub(crate) mod manifest_builder;
pub(crate) mod pack_bytes;
pub(crate) mod pack_pieces;
pub(crate) mod packs;
pub(crate) mod partial;
pub(crate) mod reuse;
pub(crate) mod room;
pub(crate) mod source;
pub(crate) mod warning;

use crate::Store;
use crate::layout::lease::{SaveLease, is_pruning};
use crate::layout::manifest::{MANIFEST_FORMAT, Manifest, PACK_LEN_MAX};
use crate::layout::names::{SnapshotName, check_label, random_id};
use crate::layout::path::RelPath;
use crate::read::library::SnapshotLibrary;
use crate::read::snapshots::{AHEAD_MAX_MS, Recent};
use crate::save::ancestors::LOOKED_AT_MAX;
use crate::save::commit::Author;
use crate::save::files::Coding;
use crate::save::manifest_builder::Builder;
use crate::save::packs::{PACK_LEN, PackCount, Packed, Reuse, healed_warning, write_packs};
use crate::save::room::Room;
use crate::save::source::{Leaf, MemoryFile, What, in_memory, walk};
use crate::save::warning::Warning;
use crate::upkeep::check::is_damage;
use lmc::Level;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The run of snapshots for which no run is given.
pub const RUN_DEFAULT: &str = "main";
/// How many runs are looked at, by their newest snapshots, to find a parent for a new run.
const RUNS_TRIED_MAX: usize = 4;
/// How many times a parent is chosen again because it was removed meanwhile.
const CHOICES_MAX: usize = 8;

/// What a snapshot is coded against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The newest snapshot of the run; for a new run, the newest one of a run with the same files.
    #[default]
    Auto,
    /// Nothing.
    None,
    /// This snapshot.
    Snapshot(SnapshotName),
    /// This snapshot, or nothing if it is damaged or about to be removed.
    Preferred(SnapshotName),
}

impl Parent {
    /// Whether the save fails if it cannot use the parent.
    fn is_demanded(&self) -> bool {
        matches!(self, Self::Snapshot(_))
    }
}

/// How to save.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The run.
    pub run: String,
    /// The step; by default the number at the end of the path, or the last step plus one.
    pub step: Option<u64>,
    /// Tags that the snapshot gets.
    pub tags: BTreeSet<String>,
    /// Metadata from the user.
    pub meta: BTreeMap<String, String>,
    /// What to code against.
    pub parent: Parent,
    /// How hard the encoder works.
    pub level: Level,
    /// Whether every block is decoded and compared before it is stored.
    pub verify: bool,
    /// Whether the targets of links are saved instead of the links.
    pub follow_links: bool,
    /// The limit on the depth of base chains.
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
            verify: true,
            follow_links: false,
            depth_max: base_choice::CHAIN_DEPTH_MAX,
            pack_len: PACK_LEN,
        }
    }
}

/// What was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The snapshot.
    pub name: SnapshotName,
    /// What it was coded against where that was smaller.
    pub parent: Option<SnapshotName>,
    /// Whether any file is coded against one of the parent, or is in the parent too.
    pub is_on_parent: bool,
    /// Files in it.
    pub files: u64,
    /// Files that the store already had.
    pub unchanged: u64,
    /// Its packs.
    pub packs: PackCount,
    /// Problems the save worked around, such as a damaged parent.
    pub warnings: Vec<Warning>,
}

/// A parent, read under the lease of the save.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub name: SnapshotName,
    pub library: Arc<SnapshotLibrary>,
    /// Files that are only in an earlier snapshot.
    pub adopted: BTreeSet<RelPath>,
}

/// Files that are stored but not visible yet.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub manifest: Manifest,
    /// The page of the run that it goes to.
    pub page: u64,
    /// Protects everything that the snapshot needs.
    pub lease: SaveLease<'a>,
    pub parent: Option<SnapshotName>,
    pub is_on_parent: bool,
    pub unchanged: u64,
    pub packs: PackCount,
    pub warnings: Vec<Warning>,
}

/// Whether a snapshot needs any archive that its parent has.
fn shares_with(own: &Manifest, parent: &Manifest) -> bool {
    let known: HashSet<(u128, u64)> =
        parent.archives.iter().map(|archive| (archive.hash, archive.size)).collect();
    own.archives.iter().any(|archive| known.contains(&(archive.hash, archive.size)))
}

/// How a save begins.
#[derive(Debug)]
struct Start<'a> {
    /// The page of the run that the snapshot goes to.
    page: u64,
    /// The newest of the run.
    newest: Option<SnapshotName>,
    lease: SaveLease<'a>,
    parent: Option<Chosen>,
    warnings: Vec<Warning>,
}

impl Store {
    /// Saves all of `path`. When it returns, the snapshot survives a power cut. On an error there
    /// is no new snapshot, or, if the storage failed during the commit, the whole one. Earlier
    /// snapshots are unchanged.
    pub fn save(&self, path: &Path, options: &SaveOptions) -> Result<Saved> {
        self.refuse_store_inside(path)?;
        let source = walk(path, options.follow_links)?;
        let step = options.step.or_else(|| step_of(path));
        let is_file = source.is_file();
        let mut stored = self.store_leaves(&source.leaves, is_file, step, options)?;
        source.check()?;
        stored.manifest.root_mode = source.root_mode();
        stored.warnings.extend(source.warning());
        self.finish(stored, options)
    }

    /// A store inside the saved directory would contain itself, again and again.
    fn refuse_store_inside(&self, path: &Path) -> Result<()> {
        let store = self.storage.directory().and_then(|store| store.canonicalize().ok());
        let (Some(store), Ok(saved)) = (store, path.canonicalize()) else { return Ok(()) };
        if store.starts_with(&saved) {
            let message = "the store is inside the directory to be saved; keep it elsewhere";
            return Err(Error::invalid(message).at(saved.display()));
        }
        Ok(())
    }

    /// Saves files in memory as if they were a directory.
    pub fn save_files(&self, files: &[MemoryFile], options: &SaveOptions) -> Result<Saved> {
        let leaves = in_memory(files, self.clock.now_ms())?;
        self.finish(self.store_leaves(&leaves, false, options.step, options)?, options)
    }

    /// Makes stored files visible as a snapshot.
    pub(crate) fn finish(&self, stored: Stored, options: &SaveOptions) -> Result<Saved> {
        let Stored { manifest, page, lease, parent, is_on_parent, unchanged, packs, warnings } =
            stored;
        let files = manifest.files().count() as u64;
        let name = self.commit(&manifest, page, &options.tags, Author::Us, lease)?;
        Ok(Saved { name, parent, is_on_parent, files, unchanged, packs, warnings })
    }

    /// Everything a save does before the commit.
    pub(crate) fn store_leaves(
        &self,
        leaves: &[Leaf],
        is_file: bool,
        step: Option<u64>,
        options: &SaveOptions,
    ) -> Result<Stored<'_>> {
        check_options(options)?;
        let _shift = self.context.shift();
        let room = Room::beside(leaves)?;
        let save = random_id()?;
        let Start { page, newest, lease, parent, mut warnings } =
            self.start(&save, leaves, options)?;
        let is_pruning = is_pruning(self, lease.storage_now_ms())?;
        let known = parent.iter().flat_map(|parent| &parent.library.manifest().packs);
        let reuse = Reuse::new(known, is_pruning);
        let builder = Builder::new(parent.as_ref().map(|parent| parent.library.clone()));
        let (coded, packed) = write_packs(self, lease, reuse, options.pack_len, |writer| {
            let adopted = parent.as_ref().map(|parent| parent.adopted.clone()).unwrap_or_default();
            let mut coding = Coding::new(self, options, builder, adopted, room, leaves, writer);
            let entries = coding.entries(leaves)?;
            let Coding { builder, unchanged, warnings, .. } = coding;
            Ok((entries, unchanged, warnings, builder, writer.position()))
        })?;
        let (entries, unchanged, more, builder, added) = coded;
        warnings.extend(more);
        let Packed { packs, count, healed, lease } = packed;
        warnings.extend(healed.iter().map(healed_warning));
        let before = newest.iter().chain(parent.as_ref().map(|parent| &parent.name));
        let (time_ms, said) = self.stamp(&lease, before)?;
        warnings.extend(said);
        let manifest = Manifest {
            format: MANIFEST_FORMAT,
            run: options.run.clone(),
            step: step.unwrap_or_else(|| {
                newest.as_ref().map_or(0, |newest| newest.step.saturating_add(1))
            }),
            time_ms,
            save,
            copy: None,
            parent: parent.as_ref().map(|parent| parent.name.id.clone()),
            meta: options.meta.clone(),
            is_thinned: false,
            is_file,
            root_mode: None,
            added,
            entries,
            archives: Vec::new(),
            packs: Vec::new(),
        };
        let manifest = builder.finish(manifest, packs)?;
        let is_on = |parent: &Chosen| shares_with(&manifest, parent.library.manifest());
        let is_on_parent = parent.as_ref().is_some_and(is_on);
        let (parent, packs) = (parent.map(|parent| parent.name), count);
        Ok(Stored { manifest, page, lease, parent, is_on_parent, unchanged, packs, warnings })
    }

    /// The time of a new snapshot, and a warning about it: now, or right after the snapshots before
    /// it, but never further ahead of the storage's own time than clocks may differ. A clock that
    /// differs by more, ahead or behind, is not trusted.
    fn stamp<'a>(
        &self,
        lease: &SaveLease,
        before: impl Iterator<Item = &'a SnapshotName>,
    ) -> Result<(u64, Vec<Warning>)> {
        let (now_ms, stored_ms) = (self.clock.now_ms(), lease.storage_past_ms());
        let mut said: Vec<Warning> = wrong_clock(now_ms, stored_ms).into_iter().collect();
        let mut time_ms = if said.is_empty() { now_ms } else { stored_ms };
        let most_ms = stored_ms.saturating_add(AHEAD_MAX_MS);
        for name in before {
            if name.time_ms >= time_ms {
                let counted_ms = self.counted_ms(name)?.unwrap_or(0);
                time_ms = time_ms.max(counted_ms.saturating_add(1));
                said.extend((counted_ms > most_ms).then(|| later(name, counted_ms - stored_ms)));
            }
        }
        Ok((time_ms.min(most_ms), said))
    }

    /// A lease and the parent that it names. The order makes the parent safe: first the lease, then
    /// a look for the parent's mark, then its manifest.
    fn start(&self, save: &str, leaves: &[Leaf], options: &SaveOptions) -> Result<Start<'_>> {
        for _ in 0..CHOICES_MAX {
            let Recent { page, names: own } = self.recent(&options.run)?;
            let newest = own.first().cloned();
            let names = match &options.parent {
                Parent::None => Vec::new(),
                Parent::Snapshot(name) | Parent::Preferred(name) => {
                    match own.iter().position(|recent| recent == name) {
                        Some(i) => own[i..].to_vec(),
                        None => up_to(self.snapshots_of(&name.run)?, name),
                    }
                }
                Parent::Auto if own.is_empty() => self.parents_elsewhere(leaves)?,
                Parent::Auto => own,
            };
            let keys = names.iter().map(SnapshotName::key).collect::<Result<Vec<_>>>()?;
            let lease = SaveLease::create(self, save, keys)?;
            let Some((name, older)) = names.split_first() else {
                return Ok(Start { page, newest, lease, parent: None, warnings: Vec::new() });
            };
            let alone = |warning: Warning, newest, lease| {
                Ok(Start { page, newest, lease, parent: None, warnings: vec![warning] })
            };
            let manifest = match self.read_leased(name) {
                // A new checkpoint is not lost because an old one is damaged.
                Err(e) if is_damage(&e) && !options.parent.is_demanded() => {
                    let warning = format!(
                        "the parent snapshot is damaged, so nothing is coded against it: {e}"
                    );
                    let warning = Warning::new(warning).with_advice(Advice::CheckStore);
                    return alone(warning, newest, lease);
                }
                manifest => manifest?,
            };
            if let Some(manifest) = manifest {
                let (manifest, adopted) = self.with_older(manifest, older, leaves)?;
                let library = SnapshotLibrary::new(self, &Arc::new(manifest));
                let parent = Some(Chosen { name: name.clone(), library, adopted });
                return Ok(Start { page, newest, lease, parent, warnings: Vec::new() });
            }
            let message = format!("snapshot {} is being removed", name.short_id());
            match options.parent {
                Parent::Auto => {}
                Parent::Preferred(_) => {
                    let warning = format!("{message}, so nothing is coded against it");
                    return alone(Warning::new(warning), newest, lease);
                }
                _ => return Err(Error::new(ErrorKind::Conflict, message)),
            }
        }
        let message = "parents are removed faster than they can be chosen; save again";
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// A parent, with the files that it lacks and an older snapshot has, and the paths of these
    /// files. The lease names all these snapshots.
    fn with_older(
        &self,
        mut parent: Manifest,
        older: &[SnapshotName],
        leaves: &[Leaf],
    ) -> Result<(Manifest, BTreeSet<RelPath>)> {
        let is_file = |leaf: &&Leaf| matches!(leaf.what, What::File(_));
        let files = leaves.iter().filter(is_file).map(|leaf| leaf.path.clone());
        let mut wanted: BTreeSet<RelPath> =
            files.filter(|path| parent.node(path).is_none()).collect();
        let lacking = wanted.clone();
        for name in older {
            if wanted.is_empty() {
                break;
            }
            match self.read_leased(name) {
                Ok(Some(older)) => ancestors::adopt(&mut parent, &older, &mut wanted),
                Ok(None) => {}
                // It is only offered as a base.
                Err(e) if is_damage(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok((parent, lacking.difference(&wanted).cloned().collect()))
    }

    /// The manifest of a snapshot that a lease names, unless the snapshot is forgotten.
    pub(crate) fn read_leased(&self, name: &SnapshotName) -> Result<Option<Manifest>> {
        if self.is_forgotten(name)? {
            return Ok(None);
        }
        self.manifest_of(name)
    }

    /// For the first snapshot of a run: the snapshot to code against, and those of its run before
    /// it, newest first.
    fn parents_elsewhere(&self, leaves: &[Leaf]) -> Result<Vec<SnapshotName>> {
        let all = self.snapshots()?;
        let mut newest: BTreeMap<String, SnapshotName> = BTreeMap::new();
        for name in &all {
            newest.insert(name.run.clone(), name.clone());
        }
        let mut names: Vec<SnapshotName> = newest.into_values().collect();
        names.sort();
        let mut best: Option<(u64, SnapshotName)> = None;
        for name in names.into_iter().rev().take(RUNS_TRIED_MAX) {
            let manifest = match self.manifest_of(&name) {
                Ok(Some(manifest)) => manifest,
                Ok(None) => continue,
                // It is only looked at.
                Err(e) if is_damage(&e) => continue,
                Err(e) => return Err(e),
            };
            let common = common_bytes(&manifest, leaves);
            if common > best.as_ref().map_or(0, |(common, _)| *common) {
                best = Some((common, name));
            }
        }
        let Some((_, best)) = best else { return Ok(Vec::new()) };
        Ok(up_to(all.into_iter().filter(|name| name.run == best.run).collect(), &best))
    }
}

/// A snapshot and some before it, newest first.
fn up_to(mut names: Vec<SnapshotName>, name: &SnapshotName) -> Vec<SnapshotName> {
    names.retain(|other| other < name);
    let older = names.into_iter().rev().take(LOOKED_AT_MAX);
    std::iter::once(name.clone()).chain(older).collect()
}

/// Bytes of files that a snapshot has under the same path, or that are as long as a file in it.
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

/// A warning about a clock that is further from the storage's clock than clocks may differ.
fn wrong_clock(now_ms: u64, stored_ms: u64) -> Option<Warning> {
    let way = if now_ms > stored_ms { "ahead of" } else { "behind" };
    let apart_ms = now_ms.abs_diff(stored_ms);
    (apart_ms > AHEAD_MAX_MS).then(|| {
        let minutes = apart_ms / 60_000;
        Warning::new(format!(
            "the clock of this machine is {minutes} minutes {way} that of the storage; the \
             snapshot has the time of the storage; set the clock"
        ))
    })
}

/// A warning about a snapshot that was saved when the clock of the storage was ahead.
fn later(name: &SnapshotName, ahead_ms: u64) -> Warning {
    let minutes = ahead_ms / 60_000;
    Warning::new(format!(
        "snapshot {} of step {} has a time {minutes} minutes in the future, because the clock of \
         the storage was wrong then: until that time it counts as newer than this one, for latest \
         and for forget. Restore by step, and keep snapshots by tag",
        name.id, name.step
    ))
}

fn check_options(options: &SaveOptions) -> Result<()> {
    check_label(&options.run)?;
    options.tags.iter().try_for_each(|tag| check_label(tag))?;
    if options.pack_len == 0 || options.pack_len as u64 > PACK_LEN_MAX {
        return Err(Error::invalid(format!("a pack must have 1 to {PACK_LEN_MAX} bytes")));
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
