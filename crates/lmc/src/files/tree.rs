//! A directory as it was listed: the files that are opened later are the listed ones, or there is
//! an error.
//!
//! Names are reached from the open root, folder by folder. Each folder and file on the way must be
//! the one that was listed. So nothing that replaced it in the meantime is read instead, whether
//! that is a link or another version of the whole directory.

use crate::files::descend::{Astray, is_replaced};
use crate::files::folder::{FileId, FileKind, FileState, Folder, Links, bytes};
use crate::files::remove::remove_seen;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Deepest nesting of folders where links are followed: anything deeper is a loop of links.
const FOLLOWED_MAX: usize = 200;

/// A directory and everything below it.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    root: Folder,
    links: Links,
    /// Sorted by the bytes of their paths.
    entries: Vec<TreeEntry>,
    /// The folders by path; an empty path is the root.
    folders: HashMap<PathBuf, FileState>,
}

/// A name below a directory.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// Its path relative to the root.
    pub path: PathBuf,
    /// Its state when it was listed.
    pub state: FileState,
    /// Its target, if it is a link.
    pub target: Option<OsString>,
}

impl Tree {
    /// Lists the directory at `path`, or the target of a link there. Links below it are kept as
    /// they are, or their targets are listed instead.
    pub fn read(path: &Path, links: Links) -> Result<Self> {
        Self::of(Folder::open(path), path, links)
    }

    /// The same for a directory that is to be removed: links on the path that belong to another
    /// user are not followed.
    pub fn reach(path: &Path, links: Links) -> Result<Self> {
        Self::of(Folder::reach(path), path, links)
    }

    fn of(root: io::Result<Folder>, path: &Path, links: Links) -> Result<Self> {
        let cannot = |e| Error::io(format_args!("cannot list {}", path.display()), e);
        let root = root.map_err(cannot)?;
        let state = root.state().map_err(cannot)?;
        let folders = HashMap::from([(PathBuf::new(), state)]);
        let (path, entries) = (path.to_path_buf(), Vec::new());
        let mut tree = Self { path, root, links, entries, folders };
        // An explicit list: a deep tree must not overflow the stack of the thread.
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            tree.check_depth(&folder)?;
            let below = tree.read_folder(&folder)?;
            open.extend(below);
        }
        tree.entries.sort_by(|a, b| bytes(&a.path).cmp(bytes(&b.path)));
        Ok(tree)
    }

    fn check_depth(&self, folder: &Path) -> Result<()> {
        if self.links == Links::Followed && folder.components().count() > FOLLOWED_MAX {
            let folder = self.path.join(folder);
            let message = format!("{}: a loop of links, or folders too deep", folder.display());
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Adds the entries of one folder, and returns the folders among them.
    fn read_folder(&mut self, path: &Path) -> Result<Vec<PathBuf>> {
        let folder = self.folder(path)?;
        let cannot = |name: &Path, e| {
            Error::io(format_args!("cannot list {}", self.path.join(name).display()), e)
        };
        let mut below = Vec::new();
        for name in folder.names().map_err(|e| cannot(path, e))? {
            let path = path.join(&name);
            let look = || {
                let state = folder.look_closely(&name, self.links)?;
                let is_link = state.kind == FileKind::Link;
                let target = is_link.then(|| folder.read_link(&name)).transpose()?;
                io::Result::Ok((state, target))
            };
            let (state, target) = look().map_err(|e| cannot(&path, e))?;
            if state.kind == FileKind::Folder {
                self.folders.insert(path.clone(), state);
                below.push(path.clone());
            }
            self.entries.push(TreeEntry { path, state, target });
        }
        Ok(below)
    }

    /// The path that was listed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state of the directory itself.
    pub fn root(&self) -> &FileState {
        &self.folders[Path::new("")]
    }

    /// Everything below it, sorted by the bytes of the paths.
    pub fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// Opens a folder of it, following only links that were listed. Fails unless it is the listed
    /// one.
    fn folder(&self, path: &Path) -> Result<Folder> {
        let cannot =
            |e| Error::io(format_args!("cannot open {}", self.path.join(path).display()), e);
        let known = |path: &Path| self.folders.get(path).map(|listed| listed.id);
        self.root.known_below(path, self.links, known).map_err(|astray| match astray {
            Astray::NotBelow => not_below(path),
            Astray::Other(reached) => self.replaced(&reached),
            Astray::Unopened(reached, e) if is_replaced(&e) => self.replaced(&reached),
            Astray::Unopened(_, e) => cannot(e),
        })
    }

    /// Opens the folder that holds `path`; returns the name in it too.
    fn folder_of<'a>(&self, path: &'a Path) -> Result<(Folder, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| not_below(path))?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Opens a file that was listed as `listed` at `path`. Fails if it has changed.
    pub fn open(&self, path: &Path, listed: &FileState) -> Result<File> {
        let (folder, name) = self.folder_of(path)?;
        let file = folder.file(name, self.links).map_err(|e| match e.raw_os_error() {
            _ if is_replaced(&e) => self.replaced(path),
            Some(_) => Error::io("cannot open it", e),
            None => self.replaced(path),
        })?;
        let state = FileState::of(&file).map_err(|e| Error::io("cannot access it", e))?;
        if !listed.is_unchanged(&state) {
            return Err(changed());
        }
        Ok(file)
    }

    /// Removes a file, if it still matches `seen`.
    pub fn remove(&self, path: &Path, seen: &FileState) -> Result<()> {
        let (folder, name) = self.folder_of(path)?;
        remove_seen(&folder, name, seen)
    }

    /// Removes a folder that is empty and is still the listed one. An empty path is the root.
    pub fn remove_folder(&self, path: &Path) -> Result<()> {
        let Some(id) = self.folders.get(path).map(|state| state.id) else {
            return Err(not_below(path));
        };
        let removed = if path.as_os_str().is_empty() {
            Folder::reach_parent(&self.path)
                .and_then(|(above, name)| above.remove_folder(&name, id))
        } else {
            let (above, name) = self.folder_of(path)?;
            above.remove_folder(name, id)
        };
        removed.map_err(|e| Error::io("cannot remove it", e))
    }

    /// Fails unless the root and all folders are still the listed ones, under their names.
    pub fn check_folders(&self) -> Result<()> {
        check_place(&self.path, self.root().id)?;
        self.folders.keys().try_for_each(|path| self.folder(path).map(|_| ()))
    }

    fn replaced(&self, path: &Path) -> Error {
        let path = self.path.join(path);
        let message = "was replaced after it was listed; try again when nobody writes to it";
        Error::new(ErrorKind::Conflict, format!("{} {message}", path.display()))
    }
}

/// Fails unless `path` leads to the file or directory with this id.
pub fn check_place(path: &Path, id: FileId) -> Result<()> {
    let found = FileState::at(path);
    if !found.is_ok_and(|state| state.id == id) {
        let message = "was replaced meanwhile; try again when nobody writes to it";
        return Err(Error::new(ErrorKind::Conflict, format!("{} {message}", path.display())));
    }
    Ok(())
}

fn changed() -> Error {
    let message = "changed after it was listed; try again when nobody writes to it";
    Error::new(ErrorKind::Conflict, message)
}

fn not_below(path: &Path) -> Error {
    Error::invalid(format!("{} is not a path below a directory", path.display()))
}
