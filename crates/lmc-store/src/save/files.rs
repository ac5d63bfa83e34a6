//! The files of a save. Each is coded against bases that the planner and its folder offer.

use crate::Store;
use crate::layout::content_kind::ContentKind;
use crate::layout::manifest::{FileNode, ManifestEntry, Node};
use crate::layout::path::RelPath;
use crate::save::SaveOptions;
use crate::save::base_choice::{self, Offered};
use crate::save::manifest_builder::Builder;
use crate::save::packs::{PackWriter, healed_warning};
use crate::save::reuse::{Presence, Verdict, compare, has_blake3, is_unreadable};
use crate::save::room::Room;
use crate::save::source::{FileState, Leaf, Opened, What};
use crate::save::warning::Warning;
use crate::upkeep::check::is_lost;
use lmc::{BaseSet, Context, Options, Output};
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// How many archives with the hash of a file it is compared with. More than this are probably made
/// to waste time.
const COMPARED_MAX: usize = 8;
/// Files of at least this many bytes are compared in samples first.
pub(crate) const LARGE_LEN: u64 = 16 << 20;
/// With how many archives.
const SAMPLED_MAX: usize = 64;
/// Samples of a file, and their length.
const SAMPLES: u64 = 4;
const SAMPLE_LEN: usize = 4096;

/// Files that are being coded into packs.
pub(crate) struct Coding<'a, 'w> {
    options: &'a SaveOptions,
    pub builder: Builder,
    /// Files that the parent has only from an earlier snapshot.
    adopted: BTreeSet<RelPath>,
    /// Archives of the parent that are offered to files that are not in it.
    offered: Offered,
    store: &'a Store,
    /// Packs of the parent that the storage was seen to have.
    presence: Presence,
    writer: &'a mut PackWriter<'w>,
    /// The room left in the manifest, and the archives that are already counted.
    room: Room,
    listed: HashSet<usize>,
    /// How many files have each size, here or in the parent.
    sizes: HashMap<u64, usize>,
    /// Files that the store already had.
    pub unchanged: u64,
    /// Problems that were worked around.
    pub warnings: Vec<Warning>,
}

impl<'a, 'w> Coding<'a, 'w> {
    pub(crate) fn new(
        store: &'a Store,
        options: &'a SaveOptions,
        builder: Builder,
        adopted: BTreeSet<RelPath>,
        room: Room,
        leaves: &[Leaf<'_>],
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
        let parent = builder.parent().map(|parent| Offered::of(parent.manifest()));
        let (offered, presence) = (parent.unwrap_or_default(), Presence::default());
        let (unchanged, listed, warnings) = (0, HashSet::new(), Vec::new());
        Self {
            options,
            builder,
            adopted,
            offered,
            store,
            presence,
            writer,
            room,
            listed,
            sizes,
            unchanged,
            warnings,
        }
    }

    pub(crate) fn entries(&mut self, leaves: &[Leaf]) -> Result<Vec<ManifestEntry>> {
        let archives = self.archives(leaves)?;
        self.warnings.extend(self.presence.healed.iter().map(healed_warning));
        let entry = |(leaf, archive): (&Leaf, Option<usize>)| {
            let is_file = matches!(leaf.what, What::File(_));
            let missing = || Error::invalid("a file was not coded; please report it");
            let archive = if is_file { archive.ok_or_else(missing)? } else { 0 };
            Ok(entry(leaf, archive))
        };
        leaves.iter().zip(archives).map(entry).collect()
    }

    /// The numbers of the archives of all files. Files with f32 weights that are the rounding
    /// source of others come first, so that the others can be coded against them. Optimizer state
    /// comes last, in packs of its own, which are removed when it is.
    fn archives(&mut self, leaves: &[Leaf]) -> Result<Vec<Option<usize>>> {
        // Files in memory have no path and no files beside them.
        let paths: Vec<PathBuf> = leaves.iter().map(|leaf| leaf.source.path()).collect();
        // The target of a link is not opened.
        let open = |i: usize| match &leaves[i].what {
            What::File(_) => leaves[i].source.file().ok().flatten(),
            _ => None,
        };
        let mut rounding_sources = lmc::rounding_sources(&paths, open);
        for (leaf, sources) in leaves.iter().zip(&mut rounding_sources) {
            // Weights must not depend on optimizer state, which may be removed first.
            sources.retain(|&i| ContentKind::of(&leaves[i].path) == ContentKind::of(&leaf.path));
        }
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        let is_optimizer = |i: usize| ContentKind::of(&leaves[i].path) == ContentKind::Optimizer;
        order.sort_by_key(|&i| (is_optimizer(i), !rounding_sources[i].is_empty()));
        let mut archives = vec![None; leaves.len()];
        let mut was_optimizer = false;
        for i in order {
            let leaf = &leaves[i];
            let What::File(state) = &leaf.what else { continue };
            if is_optimizer(i) && !was_optimizer {
                self.writer.cut()?;
                was_optimizer = true;
            }
            let sources = rounding_sources[i].iter();
            let sources = sources.filter_map(|&i| Some((&leaves[i], archives[i]?)));
            let sources: Vec<(&Leaf, usize)> = sources.collect();
            let archive = self.file(leaf, state, &sources);
            let archive = archive.map_err(|e| e.at(&leaf.path))?;
            if self.listed.insert(archive) {
                self.room.take_archive(self.builder.get(archive))?;
            }
            archives[i] = Some(archive);
        }
        Ok(archives)
    }

    /// Codes a file, unless its content is known; returns the number of its archive.
    fn file(
        &mut self,
        leaf: &Leaf,
        state: &FileState,
        rounding_sources: &[(&Leaf, usize)],
    ) -> Result<usize> {
        let file = leaf.source.open()?;
        file.check(state)?;
        let mut is_alike = false;
        // A file can only equal another one of the same size.
        let was_hashed = self.sizes.get(&state.size).is_some_and(|&count| count > 1)
            && self.may_be_known(&file, state.size);
        if was_hashed {
            let hash = lmc::content_hash(file.input(), &self.store.context)?;
            let candidates = self.builder.candidates(hash, state.size);
            is_alike = !candidates.is_empty();
            if let Some(archive) = self.same(leaf, &file, state.size, &candidates)? {
                file.check(state)?;
                self.unchanged += 1;
                self.store.context.progress.add(state.size);
                return Ok(archive);
            }
        }
        let coded = if is_alike {
            // No base is used, so it does not matter which archive with its hash is meant.
            self.code_on(&[], Vec::new(), &file)
        } else {
            self.code(leaf, &file, rounding_sources)
        };
        let archive = match coded {
            // A new checkpoint is not lost because an old one is damaged.
            Err(e) if is_lost(&e) && self.builder.parent().is_some() => {
                let warning = format!(
                    "{}: its base cannot be read, so it is stored without one: {e}",
                    leaf.path
                );
                self.warnings.push(Warning::new(warning).with_advice(Advice::CheckStore));
                self.code_on(&[], Vec::new(), &file)?
            }
            // It has the hash of a base and other bytes, or it has changed, which is seen below.
            Err(e) if e.kind == ErrorKind::Conflict && !was_hashed => {
                self.code_on(&[], Vec::new(), &file)?
            }
            coded => coded?,
        };
        file.check(state)?;
        // Its bases were read from the disk and not from the store, so they must not have changed
        // since they were stored.
        for (other, _) in rounding_sources {
            let What::File(state) = &other.what else { continue };
            other.source.open()?.check(state).map_err(|e| e.at(&other.path))?;
        }
        Ok(archive)
    }

    /// Whether a file may be the same as an archive of its size. A few samples tell long files
    /// apart, so that not every new step of a training is read twice.
    fn may_be_known(&self, file: &Opened, size: u64) -> bool {
        let numbers = self.builder.large_of(size);
        if size < LARGE_LEN || numbers.len() > SAMPLED_MAX || !self.store.storage.has_cheap_stat() {
            return true;
        }
        numbers.iter().any(|&number| {
            // One that cannot be read is looked at closely.
            let Ok(archive) = self.builder.open(number, &self.writer.packs()) else { return true };
            (1..=SAMPLES).all(|i| {
                let at = size / (SAMPLES + 1) * i;
                let mut sample = [0; SAMPLE_LEN];
                let own = archive.read(at..at + SAMPLE_LEN as u64);
                file.read_at(at, &mut sample).is_err() || own.map_or(true, |own| own == sample)
            })
        })
    }

    /// The first of some archives that holds the bytes of a file.
    fn same(
        &mut self,
        leaf: &Leaf,
        file: &Opened,
        size: u64,
        candidates: &[usize],
    ) -> Result<Option<usize>> {
        for &number in candidates.iter().take(COMPARED_MAX) {
            match self.compare(number, file, size)? {
                Verdict::Same(content) => {
                    if let Some(content) = content {
                        self.builder.learn(number, content);
                    }
                    return Ok(Some(number));
                }
                Verdict::Different => {}
                Verdict::Damaged(e) => {
                    let warning = format!(
                        "{}: its copy in the store cannot be read, so it is stored again: {e}",
                        leaf.path
                    );
                    self.warnings.push(Warning::new(warning).with_advice(Advice::CheckStore));
                }
            }
        }
        Ok(None)
    }

    /// Compares a file with the content of an archive. If reading the archive is expensive, this is
    /// done once in the life of the file. After that, a cryptographic hash of the compared bytes is
    /// used.
    fn compare(&mut self, number: usize, file: &Opened, size: u64) -> Result<Verdict> {
        let is_far = !self.store.storage.has_cheap_stat();
        let verdict = match self.builder.content(number).filter(|_| is_far) {
            Some(content) if has_blake3(file, size, &content)? => Verdict::Same(None),
            Some(_) => Verdict::Different,
            None => match self.builder.open(number, &self.writer.packs()) {
                Ok(archive) => compare(&archive, file, &self.store.context, is_far)?,
                Err(e) if is_unreadable(&e) => Verdict::Damaged(e),
                Err(e) => return Err(e),
            },
        };
        if matches!(verdict, Verdict::Same(_))
            && let Err(e) = self.check_packs(&[number])?
        {
            return Ok(Verdict::Damaged(e));
        }
        Ok(verdict)
    }

    /// Fails in the inner result if an archive of the parent needs a pack that is missing or has
    /// another size. A check calls such a pack damaged, even if the part that is needed is whole.
    fn check_packs(&mut self, numbers: &[usize]) -> Result<Result<()>> {
        let Some(parent) = self.builder.parent() else { return Ok(Ok(())) };
        for &number in numbers {
            if let Some(pack) = self.presence.lacks(parent, &*self.store.storage, number)? {
                let message = format!("{} is missing or has a different size", pack.object());
                return Ok(Err(Error::corrupt(message)));
            }
        }
        Ok(Ok(()))
    }

    fn code(
        &mut self,
        leaf: &Leaf,
        file: &Opened,
        rounding_sources: &[(&Leaf, usize)],
    ) -> Result<usize> {
        let depth_max = self.options.depth_max;
        let is_adopted = self.adopted.contains(&leaf.path);
        let wanted = base_choice::Wanted { path: &leaf.path, is_adopted, like: leaf.like };
        let choose = |parent| base_choice::choose(parent, &self.offered, &wanted, depth_max);
        let choice = self.builder.parent().map(|parent| choose(parent)).unwrap_or_default();
        let doubted = self.as_bases(&choice.doubted);
        let is_better = !doubted.is_empty() && self.is_better_with(&doubted, file)?;
        let numbers = if is_better { doubted } else { self.as_bases(&choice.bases) };
        // In a bucket, that would be one request per pack in every save.
        if self.store.storage.has_cheap_stat() {
            self.check_packs(&numbers)??;
        }
        let is_new = |archive: usize| {
            let hash = self.builder.get(archive).hash;
            numbers.iter().all(|&number| self.builder.get(number).hash != hash)
        };
        let may_carry = |(_, archive): &&(&Leaf, usize)| {
            self.builder.may_carry(*archive, depth_max) && is_new(*archive)
        };
        let mut opened = Vec::new();
        for (other, archive) in rounding_sources.iter().filter(may_carry) {
            let file = other.source.file().map_err(|e| e.at(&other.path))?;
            opened.extend(file.map(|file| (other.source.path(), file, *archive)));
        }
        self.code_on(&numbers, opened, file)
    }

    /// Archives of the parent as bases. Bases are named by their hashes, so of several archives
    /// with the same hash the one that is meant is taken.
    fn as_bases(&self, numbers: &[usize]) -> Vec<usize> {
        let Some(parent) = self.builder.parent() else { return Vec::new() };
        let mut bases: Vec<usize> = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let base = parent.number(self.builder.get(number).hash).unwrap_or(number);
            let may_be = base == number && self.builder.may_be_base(base)
                || self.builder.may_carry(base, self.options.depth_max);
            if may_be && !bases.contains(&base) {
                bases.push(base);
            }
        }
        bases
    }

    /// Codes a file against archives of the parent and files beside it.
    fn code_on(
        &mut self,
        numbers: &[usize],
        rounding_sources: Vec<(PathBuf, File, usize)>,
        file: &Opened,
    ) -> Result<usize> {
        let SaveOptions { level, verify, .. } = *self.options;
        let context = &self.store.context;
        let beside = rounding_sources.iter().map(|(_, _, archive)| *archive);
        let offered: Vec<usize> = numbers.iter().copied().chain(beside).collect();
        let files = rounding_sources.into_iter().map(|(path, file, _)| (path, file)).collect();
        let bases = self.builder.bases(numbers, files, context)?;
        let options = Options { context: context.clone(), level, verify, bases };
        self.builder.add(self.writer, &offered, |writer| {
            lmc::compress(file.input(), Output::Keeper(writer), &options)
        })
    }

    /// Whether a file is best coded against archives of the parent. This is found out by trying.
    fn is_better_with(&self, numbers: &[usize], file: &Opened) -> Result<bool> {
        let context = self.store.context.unwatched();
        let bases = self.builder.bases(numbers, Vec::new(), &context)?;
        let options = Options { context, level: self.options.level, verify: false, bases };
        let mut nowhere = io::sink();
        let output = Output::Stream(&mut nowhere);
        let tried = lmc::compress(file.input(), output, &options)?;
        self.builder.is_worth_its_rent(&tried, numbers)
    }
}

/// The manifest entry of a name; `archive` is the number of the archive of a file.
pub(crate) fn entry(leaf: &Leaf, archive: usize) -> ManifestEntry {
    let node = match &leaf.what {
        What::Directory { mode } => Node::Directory { mode: *mode },
        What::Link { target } => Node::Link { target: target.clone() },
        What::File(state) => {
            let FileState { mode, mtime, size, .. } = *state;
            Node::File(FileNode { mode, mtime, size, kind: ContentKind::of(&leaf.path), archive })
        }
    };
    ManifestEntry { path: leaf.path.clone(), node }
}

impl Builder {
    /// Archives of the parent and files beside it that a file is coded against.
    fn bases(
        &self,
        numbers: &[usize],
        files: Vec<(PathBuf, File)>,
        context: &Context,
    ) -> Result<BaseSet> {
        let Some(parent) = self.parent() else {
            return BaseSet::open_with::<PathBuf>(&[], files, context);
        };
        let hash = |&i: &usize| parent.manifest().archives[i].hash;
        let hashes: Vec<u128> = numbers.iter().map(hash).collect();
        BaseSet::from_library_and_files(parent.clone(), &hashes, files, context)
    }
}
