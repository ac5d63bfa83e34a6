//! From the names on the command line to the work: which files, which results, and what is refused
//! before anything is written.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use lmc::{Dependencies, FileId, FileKind, FileState, Folder, Links, Tree};

use super::Transfer;
use super::task::{FileTask, InTree, Target};
use super::tree::TreePlan;
use crate::bases;
use crate::exit::Failure;
use crate::names;

/// The work of one argument.
pub(super) struct Batch {
    pub(super) tasks: Vec<FileTask>,
    pub(super) tree: Option<TreePlan>,
}

impl Transfer<'_> {
    /// The work for one argument.
    pub(super) fn batch(&self, source: &Path) -> Result<Batch, Failure> {
        if names::is_dash(source) {
            let target = self.args.output.clone().filter(|path| !names::is_dash(path));
            let bases = self.bases(bases::InputLocation::Stdin)?;
            return Ok(Batch { tasks: vec![FileTask::new(None, bases, target, None)], tree: None });
        }
        let state = FileState::at(source).map_err(|error| Failure::io("open it", &error))?;
        if self.args.rm {
            refuse_links(source)?;
        }
        if state.kind == FileKind::Folder {
            return self.directory(source);
        }
        let is_named = self.args.output.is_some() || self.args.stdout;
        if state.kind != FileKind::File && !is_named {
            return Err(Failure::new("is not a regular file; name the result with -o, or use -c"));
        }
        let target = self.target(source)?;
        let refused = self.direction.refuses(source).filter(|_| !self.args.force);
        match (refused, &target, &self.args.output) {
            (Some(why), Some(_), None) => Err(Failure::new(why)),
            _ => {
                let bases = self.bases(bases::InputLocation::File(source))?;
                let task = FileTask::new(Some(source.to_path_buf()), bases, target, Some(state));
                Ok(Batch { tasks: vec![task], tree: None })
            }
        }
    }

    fn bases(&self, location: bases::InputLocation) -> Result<Vec<PathBuf>, Failure> {
        self.direction.bases(&self.args.bases.paths, location)
    }

    fn target(&self, source: &Path) -> Result<Target, Failure> {
        match &self.args.output {
            _ if self.args.stdout => Ok(None),
            Some(path) if names::is_dash(path) => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            None => self.direction.target(source).map(Some),
        }
    }

    /// A task for each file of a directory.
    fn directory(&self, source: &Path) -> Result<Batch, Failure> {
        let target = self.target(source)?;
        let target = target
            .ok_or_else(|| Failure::new("a directory cannot be written to stdout; use -o"))?;
        if !self.args.force && target.symlink_metadata().is_ok() {
            let target = target.display();
            return Err(Failure::new(format!("{target} already exists; -f writes into it")));
        }
        let tree = match self.args.rm {
            true => Tree::reach(source, Links::Kept)?,
            false => Tree::read(source, Links::Kept)?,
        };
        let mut plan = TreePlan {
            target,
            dirs: vec![(PathBuf::new(), *tree.root())],
            left_out: Vec::new(),
            source: tree,
        };
        let mut tasks = Vec::new();
        for entry in plan.source.entries() {
            let from = source.join(&entry.path);
            match (entry.state.kind, self.direction.target_below(&entry.path)) {
                (FileKind::Folder, _) => plan.dirs.push((entry.path.clone(), entry.state)),
                (FileKind::File, Some(to)) => {
                    let bases = match lmc::is_findable(&entry.path) {
                        true => self.bases(bases::InputLocation::InTree(&entry.path))?,
                        false => Vec::new(),
                    };
                    let target = Some(plan.target.join(&to));
                    let mut task = FileTask::new(Some(from), bases, target, Some(entry.state));
                    task.in_tree = Some(InTree { source: entry.path.clone(), target: to });
                    tasks.push(task);
                }
                (FileKind::File, None) => {
                    plan.left_out.push((from, Failure::new("does not end in .lmc; left out")));
                }
                _ => {
                    let why = "a symbolic link or not a regular file; left out";
                    plan.left_out.push((from, Failure::new(why)));
                }
            }
        }
        if self.args.rm && !plan.left_out.is_empty() {
            let name = plan.left_out[0].0.display();
            return Err(Failure::new(format!("{name} would be left out, so --rm is refused")));
        }
        plan.fit_folders(&tasks);
        refuse_folders_in_the_way(&tasks, &plan)?;
        let sources: Vec<PathBuf> = tasks.iter().filter_map(|task| task.source.clone()).collect();
        let rounding_sources =
            self.direction.rounding_sources(&sources, &|i| tasks[i].open_in(&plan).ok());
        // A file that gets a folder of its own is no longer beside the others.
        let is_beside = |i: usize| lmc::has_room(&sources[i]);
        for (i, rounding_sources) in
            rounding_sources.into_iter().enumerate().filter(|(i, _)| is_beside(*i))
        {
            let is_findable = |&i: &usize| lmc::is_findable(&sources[i]);
            tasks[i].rounding_sources = rounding_sources.into_iter().filter(is_findable).collect();
        }
        Ok(Batch { tasks, tree: Some(plan) })
    }
}

/// Fails if a path is a link, or goes through one that another user has made: that user would
/// choose what is removed.
fn refuse_links(source: &Path) -> Result<(), Failure> {
    // Without trailing slashes, which would follow a link.
    let name = source.components().as_path();
    if fs::symlink_metadata(name).is_ok_and(|found| found.is_symlink()) {
        return Err(Failure::new("is a link, so --rm is refused; name its target"));
    }
    let reached = match name.file_name() {
        Some(_) => Folder::reach_parent(name).map(|_| ()),
        None => Folder::reach(name).map(|_| ()),
    };
    reached.map_err(|error| Failure::io("reach it, so --rm is refused", &error))
}

/// For each file that inputs need, directly or not, two of these inputs: one of them may be the one
/// that asks.
fn needed_by(batches: &[(&Path, Batch)], needs: &Dependencies) -> HashMap<FileId, Vec<PathBuf>> {
    let mut needed: HashMap<FileId, Vec<PathBuf>> = HashMap::new();
    let tasks = batches.iter().flat_map(|(_, batch)| &batch.tasks);
    let mut open: Vec<(FileId, &PathBuf)> =
        tasks.filter_map(|task| Some((task.id()?, task.source.as_ref()?))).collect();
    while let Some((id, source)) = open.pop() {
        for file in needs.of(id) {
            let by = needed.entry(file).or_default();
            if by.len() < 2 && !by.contains(source) {
                by.push(source.clone());
                open.push((file, source));
            }
        }
    }
    needed
}

/// Refuses tasks whose results would replace an input of another task, a file that it needs, or its
/// result. Everything that was given counts, including files that are left out or cannot be
/// processed. Inputs are identified by what they are, not by their names.
pub(super) fn refuse_collisions(
    given: &[PathBuf],
    batches: &mut [(&Path, Batch)],
    needs: &Dependencies,
) {
    let needed = needed_by(batches, needs);
    let tasks = || batches.iter().flat_map(|(_, batch)| &batch.tasks);
    let mut inputs: HashMap<FileId, PathBuf> = HashMap::new();
    for path in given.iter().chain(tasks().flat_map(|task| &task.bases)) {
        let state = FileState::at(path).ok().filter(|state| state.kind != FileKind::Folder);
        inputs.extend(state.map(|state| (state.id, path.clone())));
    }
    for tree in batches.iter().filter_map(|(_, batch)| batch.tree.as_ref()) {
        let files = tree.source.entries().iter();
        let files = files.filter(|entry| entry.state.kind != FileKind::Folder);
        inputs.extend(files.map(|file| (file.state.id, tree.source.path().join(&file.path))));
    }
    let mut results: HashMap<PathBuf, PathBuf> = HashMap::new();
    for (root, task) in batches.iter_mut().flat_map(|(_, batch)| {
        // No link is followed below it, so it is resolved once for all results.
        let root = batch.tree.as_ref().map(|tree| names::resolved(&tree.target));
        batch.tasks.iter_mut().map(move |task| (root.clone(), task))
    }) {
        let Some(target) = &task.target else { continue };
        let name = task.source.clone().unwrap_or_default();
        // Whether it would replace its own file or base is checked later, when it is processed.
        let is_own = |path: &&PathBuf| **path == name || task.bases.contains(path);
        let there = [FileState::at(target), FileState::of_name(target)].into_iter().flatten();
        let there: Vec<FileId> = there.map(|there| there.id).collect();
        let replaced = there.iter().filter_map(|id| inputs.get(id)).find(|path| !is_own(path));
        let mut by = there.iter().filter_map(|id| needed.get(id)).flatten();
        let needed_by = by.find(|path| **path != name);
        let place = match (root, &task.in_tree) {
            (Some(root), Some(place)) => root.join(&place.target),
            _ => names::resolved(target),
        };
        let other = results.insert(place, name.clone());
        let target = target.display();
        task.refused = match (replaced, needed_by, other) {
            (Some(input), ..) => Some(Failure::new(format!(
                "its result {target} would replace the input {}; give another -o",
                input.display()
            ))),
            (None, Some(by), _) => Some(Failure::new(format!(
                "its result {target} would replace what {} needs; give another -o",
                by.display()
            ))),
            (None, None, Some(other)) => Some(Failure::new(format!(
                "its result {target} would replace that of {}",
                other.display()
            ))),
            _ => None,
        };
    }
}

/// Refuses a directory in which a file and a folder would get the same name.
fn refuse_folders_in_the_way(tasks: &[FileTask], plan: &TreePlan) -> Result<(), Failure> {
    let dirs: HashSet<&Path> = plan.dirs.iter().map(|(dir, _)| dir.as_path()).collect();
    for task in tasks {
        let (Some(place), Some(source)) = (&task.in_tree, &task.source) else { continue };
        if dirs.contains(place.target.as_path()) {
            let folder = plan.source.path().join(&place.target);
            return Err(Failure::new(format!(
                "the result of {} would have the name of the folder {}; rename one of them",
                source.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}
