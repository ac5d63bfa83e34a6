//! Results of a directory that take the place of older ones: none is replaced while an older one that
//! needs it is there, so that what an earlier command has made can be restored at any moment.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use lmc::{Archive, Bases, FileKind, Links, Tree};

use super::job::Job;
use super::plan::Batch;
use crate::exit::Failure;
use crate::names;

/// A content hash and a length.
type Content = (u128, u64);

/// The `.lmc` files in the directory that results go into.
#[derive(Default)]
pub(super) struct Replaced {
    files: Vec<Old>,
    numbers: HashMap<PathBuf, usize>,
    /// For each content, the files that are on it.
    needed_by: HashMap<Content, BTreeSet<usize>>,
}

/// A file that was there.
struct Old {
    path: PathBuf,
    content: Content,
    on: Vec<Content>,
}

impl Replaced {
    /// Looks at the directory that the results of a batch go into. Only indexes are read; a file that
    /// cannot be read needs nothing.
    pub(super) fn new(batch: &Batch) -> Self {
        let mut found = Self::default();
        let target = batch.tree.as_ref().map(|tree| &tree.target);
        let Some(tree) = target.and_then(|target| Tree::read(target, Links::Kept).ok()) else {
            return found;
        };
        for entry in tree.entries() {
            if entry.state.kind != FileKind::File || !names::is_compressed(&entry.path) {
                continue;
            }
            let Ok(file) = tree.open(&entry.path, &entry.state) else { continue };
            let Ok(archive) = Archive::from_file(file, None, &Bases::default()) else { continue };
            found.add(Old {
                path: tree.path().join(&entry.path),
                content: (archive.content_hash(), archive.original_len()),
                on: archive.bases().iter().map(|base| (base.hash, base.len)).collect(),
            });
        }
        found
    }

    fn add(&mut self, old: Old) {
        let number = self.files.len();
        self.numbers.insert(old.path.clone(), number);
        for &content in &old.on {
            self.needed_by.entry(content).or_default().insert(number);
        }
        self.files.push(old);
    }

    /// The files that need the one at `path`.
    fn needing(&self, path: &Path) -> impl Iterator<Item = &PathBuf> {
        let number = self.numbers.get(path);
        let needing = number.and_then(|&own| self.needed_by.get(&self.files[own].content));
        let others = needing.into_iter().flatten().filter(move |other| Some(*other) != number);
        others.map(|&other| &self.files[other].path)
    }

    /// The jobs of a batch by their numbers, those first whose older results need those of others.
    pub(super) fn order(&self, batch: &Batch) -> Vec<usize> {
        let jobs = batch.jobs.iter().enumerate();
        let numbers: HashMap<&PathBuf, usize> =
            jobs.filter_map(|(i, job)| Some((job.target.as_ref()?, i))).collect();
        let mut is_known = vec![false; batch.jobs.len()];
        let mut order = Vec::new();
        for first in 0..batch.jobs.len() {
            // Each is met twice: before those that need it, and after them.
            let mut open = vec![(first, false)];
            while let Some((i, is_after)) = open.pop() {
                if is_after {
                    order.push(i);
                } else if !std::mem::replace(&mut is_known[i], true) {
                    open.push((i, true));
                    let target = batch.jobs[i].target.as_deref();
                    let needing = target.into_iter().flat_map(|target| self.needing(target));
                    open.extend(needing.filter_map(|path| Some((*numbers.get(path)?, false))));
                }
            }
        }
        order
    }

    /// Fails if the result of a job would replace what an older one needs that is still there.
    pub(super) fn check(&self, job: &Job) -> Result<(), Failure> {
        let Some(target) = &job.target else { return Ok(()) };
        match self.needing(target).next() {
            None => Ok(()),
            Some(other) => Err(Failure::new(format!(
                "its result would replace {}, which the older {} needs; remove that one, or give \
                 another -o",
                target.display(),
                other.display()
            ))),
        }
    }

    /// The result of a job has taken the place of what was there.
    pub(super) fn is_done(&mut self, job: &Job) {
        let Some(number) = job.target.as_ref().and_then(|target| self.numbers.remove(target))
        else {
            return;
        };
        for content in std::mem::take(&mut self.files[number].on) {
            if let Some(needing) = self.needed_by.get_mut(&content) {
                needing.remove(&number);
            }
        }
    }
}
