//! The files of a save, each coded against what the planner and its folder offer.

use crate::builder::Builder;
use crate::check::is_damage;
use crate::kind::Kind;
use crate::manifest::{Entry, FileNode, Node};
use crate::packs::PackWriter;
use crate::path::RelPath;
use crate::plan;
use crate::save::SaveOptions;
use crate::tree::{FileState, Leaf, Opened, What};
use lmc::{Bases, Options, Output, Progress};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Files on their way into packs.
pub(crate) struct Coding<'a, 'w> {
    options: &'a SaveOptions,
    pub builder: Builder,
    /// Files that the parent has from a snapshot before.
    adopted: BTreeSet<RelPath>,
    writer: &'a mut PackWriter<'w>,
    /// Sizes that more than one file has, here or in the parent.
    sizes: HashMap<u64, usize>,
    /// Files that the store had already.
    pub unchanged: u64,
    /// What went wrong and was made good.
    pub warnings: Vec<String>,
}

impl<'a, 'w> Coding<'a, 'w> {
    pub(crate) fn new(
        options: &'a SaveOptions,
        builder: Builder,
        adopted: BTreeSet<RelPath>,
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
        Self { options, builder, adopted, writer, sizes, unchanged: 0, warnings: Vec::new() }
    }

    pub(crate) fn entries(&mut self, leaves: &[Leaf], progress: Progress) -> Result<Vec<Entry>> {
        let archives = self.archives(leaves, progress)?;
        let entry = |(leaf, archive): (&Leaf, Option<usize>)| {
            let node = match &leaf.what {
                What::Directory { mode } => Node::Directory { mode: *mode },
                What::Link { target } => Node::Link { target: target.clone() },
                What::File(state) => {
                    let FileState { mode, mtime, size, .. } = *state;
                    let missing = || Error::invalid("a file was not coded; please report it");
                    let (kind, archive) = (Kind::of(&leaf.path), archive.ok_or_else(missing)?);
                    Node::File(FileNode { mode, mtime, size, kind, archive })
                }
            };
            Ok(Entry { path: leaf.path.clone(), node })
        };
        leaves.iter().zip(archives).map(entry).collect()
    }

    /// The numbers of the archives of all files. Those that hold the f32 weights of which others
    /// are the rounding come first, so that the others can be coded against them. Optimizer state
    /// comes last, in packs of its own, which go when it goes.
    fn archives(&mut self, leaves: &[Leaf], progress: Progress) -> Result<Vec<Option<usize>>> {
        // What is in memory has no path, and is beside nothing.
        let sources: Vec<PathBuf> = leaves.iter().map(|leaf| leaf.place.path()).collect();
        // What a link leads to is not opened.
        let open = |i: usize| match &leaves[i].what {
            What::File(_) => leaves[i].place.file().ok().flatten(),
            _ => None,
        };
        let mut masters = lmc::masters(&sources, open);
        for (leaf, masters) in leaves.iter().zip(&mut masters) {
            // Weights do not come to depend on optimizer state, which may be forgotten first.
            masters.retain(|&i| Kind::of(&leaves[i].path) == Kind::of(&leaf.path));
        }
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        let is_optimizer = |i: usize| Kind::of(&leaves[i].path) == Kind::Optimizer;
        order.sort_by_key(|&i| (is_optimizer(i), !masters[i].is_empty()));
        let mut archives = vec![None; leaves.len()];
        let mut was_optimizer = false;
        for i in order {
            let leaf = &leaves[i];
            let What::File(state) = &leaf.what else { continue };
            if is_optimizer(i) && !was_optimizer {
                self.writer.cut()?;
                was_optimizer = true;
            }
            let twins = masters[i].iter().filter_map(|&i| Some((&leaves[i], archives[i]?)));
            let twins: Vec<(&Leaf, usize)> = twins.collect();
            let archive = self.file(leaf, state, &twins, progress);
            archives[i] = Some(archive.map_err(|e| e.at(&leaf.path))?);
        }
        Ok(archives)
    }

    /// Codes a file, unless its content is known; returns the number of its archive.
    fn file(
        &mut self,
        leaf: &Leaf,
        state: &FileState,
        twins: &[(&Leaf, usize)],
        progress: Progress,
    ) -> Result<usize> {
        let file = leaf.place.open()?;
        file.check(state)?;
        // Nothing can be the same where nothing has the same size.
        if self.sizes.get(&state.size).is_some_and(|&count| count > 1) {
            let hash = lmc::content_hash(file.input(), self.options.threads)?;
            if let Some(archive) = self.builder.known(hash, state.size)
                && self.builder.is_there(archive)?
            {
                file.check(state)?;
                self.unchanged += 1;
                progress(state.size);
                return Ok(archive);
            }
        }
        let archive = match self.code(leaf, &file, twins, progress) {
            // A new checkpoint is not lost because an old one is damaged.
            Err(e) if is_gone(&e) && self.builder.parent().is_some() => {
                self.warnings.push(format!(
                    "{}: what it should be coded against cannot be read, so it is stored alone; \
                     run lmc check: {e}",
                    leaf.path
                ));
                self.code_on(&[], Vec::new(), &file, progress)?
            }
            coded => coded?,
        };
        file.check(state)?;
        // What it was coded against was read from the disk, not from the store: it must not have
        // changed since it was stored.
        for (twin, _) in twins {
            let What::File(state) = &twin.what else { continue };
            twin.place.open()?.check(state).map_err(|e| e.at(&twin.path))?;
        }
        Ok(archive)
    }

    fn code(
        &mut self,
        leaf: &Leaf,
        file: &Opened,
        twins: &[(&Leaf, usize)],
        progress: Progress,
    ) -> Result<usize> {
        let depth_max = self.options.depth_max;
        let is_adopted = self.adopted.contains(&leaf.path);
        let wanted = plan::Wanted { path: &leaf.path, is_adopted, like: leaf.like };
        let parent = self.builder.parent().map(|parent| parent.manifest());
        let plan = parent.map(|parent| plan::plan(parent, &wanted, depth_max));
        let plan = plan.unwrap_or_default();
        let is_better = !plan.doubted.is_empty() && self.pays(&plan.doubted, file)?;
        let numbers = if is_better { plan.doubted } else { plan.bases };
        let may_carry =
            |(_, archive): &&(&Leaf, usize)| self.builder.may_carry(*archive, depth_max);
        let mut opened = Vec::new();
        for (twin, _) in twins.iter().filter(may_carry) {
            let file = twin.place.file().map_err(|e| e.at(&twin.path))?;
            opened.extend(file.map(|file| (twin.place.path(), file)));
        }
        self.code_on(&numbers, opened, file, progress)
    }

    /// Codes a file against archives of the parent and files beside it.
    fn code_on(
        &mut self,
        numbers: &[usize],
        twins: Vec<(PathBuf, File)>,
        file: &Opened,
        progress: Progress,
    ) -> Result<usize> {
        let SaveOptions { level, threads, verify, .. } = *self.options;
        let bases = self.builder.bases(numbers, twins, threads)?;
        let options = Options { level, threads, verify, bases };
        self.builder.add(self.writer, |writer| {
            lmc::compress_known(file.input(), Output::Stream(writer), &options, progress)
        })
    }

    /// Whether a file is best coded against archives of the parent, which is tried.
    fn pays(&self, numbers: &[usize], file: &Opened) -> Result<bool> {
        let SaveOptions { level, threads, .. } = *self.options;
        let bases = self.builder.bases(numbers, Vec::new(), threads)?;
        let options = Options { level, threads, verify: false, bases };
        let mut nowhere = io::sink();
        let output = Output::Stream(&mut nowhere);
        let tried = lmc::compress_known(file.input(), output, &options, &|_| ())?;
        self.builder.pays(&tried)
    }
}

/// Whether an error says that what was stored before is damaged or missing.
pub(crate) fn is_gone(error: &Error) -> bool {
    is_damage(error) || error.kind == ErrorKind::NotFound
}

impl Builder {
    /// Archives of the parent and files beside to code against.
    fn bases(
        &self,
        numbers: &[usize],
        files: Vec<(PathBuf, File)>,
        threads: usize,
    ) -> Result<Bases> {
        let Some(parent) = self.parent() else {
            return Bases::open_with::<PathBuf>(&[], files, threads);
        };
        let hash = |&i: &usize| parent.manifest().archives[i].hash;
        let hashes: Vec<u128> = numbers.iter().map(hash).collect();
        Bases::from_library_and_files(parent.clone(), &hashes, files, threads)
    }
}
