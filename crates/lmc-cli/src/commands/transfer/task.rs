//! One file and its result.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use lmc::{FileId, FileKind, FileState};

use super::tree::TreePlan;
use crate::exit::Failure;
use crate::stdio;

/// An open input.
pub enum Opened {
    /// A file, or stdin if that is a file.
    File(File),
    /// stdin, if it is a pipe.
    Stdin,
}

/// An open input, and the files of its directory that it may be the rounding of.
pub struct TaskInput {
    pub opened: Opened,
    pub rounding_sources: Vec<(PathBuf, File)>,
}

/// Where a result goes; none for stdout.
pub type Target = Option<PathBuf>;

/// One file and its result.
pub struct FileTask {
    /// None for stdin.
    pub source: Option<PathBuf>,
    /// The files that it is or may be coded against.
    pub bases: Vec<PathBuf>,
    /// Files of its own directory that it may be the rounding of, by their numbers in the batch.
    pub(super) rounding_sources: Vec<usize>,
    /// Where it goes.
    pub target: Target,
    /// Its place in the directory that was given, and the place of its result.
    pub(super) in_tree: Option<InTree>,
    /// Its state when it was found.
    pub(super) state: Option<FileState>,
    /// Why it cannot be done.
    pub(super) refused: Option<Failure>,
}

/// The place of a file in a directory, and the place of its result.
pub(super) struct InTree {
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
}

impl FileTask {
    pub(super) fn new(
        source: Option<PathBuf>,
        bases: Vec<PathBuf>,
        target: Target,
        state: Option<FileState>,
    ) -> Self {
        let (rounding_sources, in_tree, refused) = (Vec::new(), None, None);
        Self { source, bases, rounding_sources, target, in_tree, state, refused }
    }

    /// The id of its file, whatever its name is.
    pub(super) fn id(&self) -> Option<FileId> {
        self.state.map(|state| state.id)
    }

    pub(super) fn is_file(&self) -> bool {
        self.state.is_some_and(|state| state.kind == FileKind::File)
    }

    pub(super) fn open(&self, tree: Option<&TreePlan>) -> Result<Opened, Failure> {
        self.open_renewed(tree, &HashMap::new())
    }

    /// Opens its file. A file of a directory must be as it was listed, or as it is in `renewed`.
    pub(super) fn open_renewed(
        &self,
        tree: Option<&TreePlan>,
        renewed: &HashMap<FileId, FileState>,
    ) -> Result<Opened, Failure> {
        match (tree, &self.in_tree, &self.state, &self.source) {
            (Some(tree), Some(place), Some(listed), _) => {
                let listed = renewed.get(&listed.id).unwrap_or(listed);
                Ok(Opened::File(tree.source.open(&place.source, listed)?))
            }
            (_, _, _, Some(path)) => {
                let file = File::open(path).map_err(|error| Failure::io("open it", &error))?;
                Ok(Opened::File(file))
            }
            _ => Ok(stdio::stdin_file()?.map_or(Opened::Stdin, Opened::File)),
        }
    }

    /// Opens its file, in the directory that was given.
    pub(super) fn open_in(&self, tree: &TreePlan) -> Result<File, Failure> {
        match self.open(Some(tree))? {
            Opened::File(file) => Ok(file),
            Opened::Stdin => Err(Failure::new("is not in a directory")),
        }
    }
}
