//! A directory that was given, and the directory for its results.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use lmc::{FileKind, FileState, Origin, Sandbox, Tree};

use super::task::FileTask;
use crate::exit::Failure;

/// A directory that was given, and its folders.
pub(super) struct TreePlan {
    pub(super) source: Tree,
    pub(super) target: PathBuf,
    /// Relative paths, each before those below it, the root first.
    pub(super) dirs: Vec<(PathBuf, FileState)>,
    pub(super) left_out: Vec<(PathBuf, Failure)>,
}

impl TreePlan {
    /// Adds the folders that results need because of their long names, and leaves out those that
    /// exist only because of such a name.
    pub(super) fn fit_folders(&mut self, tasks: &[FileTask]) {
        let mut alone: HashMap<&Path, bool> = HashMap::new();
        for folder in self.source.entries().iter().filter_map(|entry| entry.path.parent()) {
            alone.entry(folder).and_modify(|alone| *alone = false).or_insert(true);
        }
        let mut made = HashSet::new();
        for (place, state) in
            tasks.iter().filter_map(|task| Some((task.in_tree.as_ref()?, task.state?)))
        {
            if place.target.parent() == Some(&place.source) {
                // Whoever may read the file may enter its folder.
                let mode = state.mode | (state.mode & 0o444) >> 2;
                self.dirs.push((place.source.clone(), FileState { mode, ..state }));
            } else if place.source.parent() == Some(&place.target)
                && alone.get(place.target.as_path()) == Some(&true)
            {
                made.insert(&place.target);
            }
        }
        self.dirs.retain(|(dir, _)| !made.contains(dir));
    }

    /// Removes the folders of the source that are empty by now. Files that were left out or failed
    /// stay, and so do their folders.
    pub(super) fn remove_source_folders(&self) {
        let entries = self.source.entries().iter().rev();
        for folder in entries.filter(|entry| entry.state.kind == FileKind::Folder) {
            let _ = self.source.remove_folder(&folder.path);
        }
        let _ = self.source.remove_folder(Path::new(""));
    }
}

/// The directory for the results.
pub(super) struct TargetTree {
    pub(super) sandbox: Sandbox,
    /// Whether the directory itself is new.
    is_new: bool,
    /// Directories in it that are new.
    made: Vec<PathBuf>,
    /// The state of those that already existed.
    old: HashMap<PathBuf, FileState>,
}

impl TargetTree {
    /// Makes the directories, closed to others, and syncs them to the disk: files in them may
    /// replace inputs that are removed.
    pub(super) fn make(tree: &TreePlan, overwrite: bool) -> Result<Self, Failure> {
        let (sandbox, is_new) = Sandbox::make(&tree.target, overwrite)?;
        let (made, old) = (Vec::new(), HashMap::new());
        let mut target = Self { sandbox, is_new, made, old };
        let made = target.make_dirs(tree);
        if made.is_err() {
            target.remove(tree);
        }
        made.map(|()| target)
    }

    fn make_dirs(&mut self, tree: &TreePlan) -> Result<(), Failure> {
        for (dir, like) in tree.dirs.iter().skip(1) {
            match self.sandbox.make_dir(dir, like.plain_mode())? {
                None => self.made.push(dir.clone()),
                Some(old) => drop(self.old.insert(dir.clone(), old)),
            }
        }
        for (dir, _) in &tree.dirs {
            self.sandbox.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Sets the modes and times of the directories. The target itself keeps its own if it already
    /// existed, and the others do not become more open than before.
    pub(super) fn finish(&self, tree: &TreePlan) -> Result<(), Failure> {
        let dirs = if self.is_new { &tree.dirs[..] } else { &tree.dirs[1..] };
        // The deepest first: a change in a directory changes its time.
        for (dir, like) in dirs.iter().rev() {
            let origin = Origin::file(like).in_place_of(self.old.get(dir).copied());
            self.sandbox.finish_dir(dir, &origin)?;
        }
        Ok(())
    }

    /// Removes the directories that were made: they are empty, and would block the next try.
    pub(super) fn remove(&self, tree: &TreePlan) {
        for dir in self.made.iter().rev() {
            let _ = self.sandbox.remove_dir(dir);
        }
        if self.is_new {
            let _ = self.sandbox.remove_root(&tree.target);
        }
    }
}
