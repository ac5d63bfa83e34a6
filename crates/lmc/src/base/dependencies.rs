//! Finds out which files may be needed to read which others, from names and indexes alone.
//!
//! Each file that may be a base is opened once or twice, however many files look for it: once to
//! identify it, and once to look for its own bases.

use crate::archive::Archive;
use crate::base::catalog::BaseCatalog;
use crate::base::lookup::paths;
use crate::base::{Base, BaseSet};
use crate::files::folder::FileId;
use lmc_format::Hash;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which files need which others. Files are identified by device and number, not by name.
#[derive(Debug)]
pub struct Dependencies {
    catalog: Arc<BaseCatalog>,
    given: Given,
    needs: HashMap<FileId, HashSet<FileId>>,
    /// Files whose own bases were looked for.
    known: HashSet<FileId>,
    /// The archives that were added, by content.
    archives: HashMap<Content, Vec<FileId>>,
    /// Bases that were not found by name, with the file that needs them.
    unfound: Vec<(FileId, Content)>,
}

/// A content hash and a length.
type Content = (Hash, u64);

/// Files and directories in which bases are looked for.
#[derive(Debug)]
struct Given {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Given {
    fn new<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let paths: HashSet<&PathBuf> = paths.into_iter().collect();
        let (folders, files) = paths.into_iter().cloned().partition(|path| path.is_dir());
        Self { files, folders }
    }
}

/// The files that may be bases of a file.
#[derive(Default)]
struct Found {
    files: HashMap<FileId, PathBuf>,
    /// The content hashes that have certainly been found.
    hashes: HashSet<Hash>,
}

impl Dependencies {
    /// No dependencies yet. The bases of a base are looked for in its folder and in `given`.
    pub fn new<'a>(given: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        Self {
            catalog: Arc::default(),
            given: Given::new(given),
            needs: HashMap::new(),
            known: HashSet::new(),
            archives: HashMap::new(),
            unfound: Vec::new(),
        }
    }

    /// Adds the files that a file needs.
    pub fn add(&mut self, id: FileId, needed: impl IntoIterator<Item = FileId>) {
        self.needs.entry(id).or_default().extend(needed);
    }

    /// Adds the files at these paths, and their own bases, to the needs of a file.
    pub fn add_bases(&mut self, id: FileId, bases: &[PathBuf]) {
        let bases = bases.iter().filter_map(|path| {
            let (base, _) = self.catalog.glance(path)?;
            Some((base, path.clone()))
        });
        let files = bases.collect();
        self.add_found(id, &[], Found { files, hashes: HashSet::new() });
    }

    /// Adds the bases of a file that is to be restored. They are looked for in `folder` and in the
    /// paths that were given with it. A file that cannot be read needs nothing.
    pub fn add_archive(
        &mut self,
        id: FileId,
        file: File,
        folder: Option<&Path>,
        given: &[PathBuf],
    ) {
        let Ok(archive) = Archive::from_file(file, folder, &BaseSet::default()) else { return };
        let content = (archive.content_hash(), archive.original_len());
        self.archives.entry(content).or_default().push(id);
        let found = self.find(archive.bases(), folder, &Given::new(given));
        self.add_found(id, archive.bases(), found);
    }

    /// Called when all files have been added: a base that was not found by name may be one of them.
    pub fn finish(&mut self) {
        for (id, content) in std::mem::take(&mut self.unfound) {
            let others = self.archives.get(&content).into_iter().flatten();
            let others: Vec<FileId> = others.copied().filter(|other| *other != id).collect();
            self.add(id, others);
        }
    }

    /// The files that a file needs directly.
    pub fn of(&self, id: FileId) -> impl Iterator<Item = FileId> + '_ {
        self.needs.get(&id).into_iter().flatten().copied()
    }

    /// All files that any file needs.
    pub fn needed(&self) -> HashSet<FileId> {
        self.needs.values().flatten().copied().collect()
    }

    /// Records what a file needs, and looks for the bases below that.
    fn add_found(&mut self, id: FileId, wanted: &[lmc_format::BaseId], found: Found) {
        let mut open = Vec::new();
        self.note(id, wanted, found, &mut open);
        while let Some((id, path)) = open.pop() {
            let Ok(base) = Base::open(&path, &self.catalog) else { continue };
            let found = self.find(base.bases(), path.parent(), &self.given);
            self.note(id, base.bases(), found, &mut open);
        }
    }

    fn note(
        &mut self,
        id: FileId,
        wanted: &[lmc_format::BaseId],
        found: Found,
        open: &mut Vec<(FileId, PathBuf)>,
    ) {
        let unfound = wanted.iter().filter(|base| !found.hashes.contains(&base.hash));
        self.unfound.extend(unfound.map(|base| (id, (base.hash, base.len))));
        self.add(id, found.files.keys().copied());
        open.extend(found.files.into_iter().filter(|(id, _)| self.known.insert(*id)));
    }

    /// The files that may be `wanted`, as far as can be told without reading them.
    fn find(&self, wanted: &[lmc_format::BaseId], folder: Option<&Path>, given: &Given) -> Found {
        let mut found = Found::default();
        let mut look = |path: PathBuf, wanted: &[lmc_format::BaseId]| {
            let Some((id, seen)) = self.catalog.glance(&path) else { return };
            let mut fitting = wanted.iter().filter(|base| seen.may_be(base)).peekable();
            if fitting.peek().is_some() {
                found.files.entry(id).or_insert(path);
            }
            let is_known = seen.hash.is_some();
            found.hashes.extend(fitting.filter(|_| is_known).map(|base| base.hash));
        };
        if !wanted.is_empty() {
            given.files.iter().for_each(|path| look(path.clone(), wanted));
        }
        for base in wanted {
            for path in paths(base, folder, &given.folders, &self.catalog) {
                look(path, std::slice::from_ref(base));
            }
        }
        found
    }
}
