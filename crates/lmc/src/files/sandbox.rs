//! A directory that nothing written through it can leave.
//!
//! Every name is reached from the open root, folder by folder, and no link is followed on the way.
//! Paths are relative and have no `..`. So whatever a manifest says, and whatever links are already
//! in the directory, all files are written below the root. Modes and times are set on open files,
//! never by path. A folder below the root is used only while it is the one that was first created
//! or found. Otherwise, anyone who can rename in the directory could replace it by a private folder
//! of ours, or remove it and create their own, which may get the same number.

use crate::files::descend::{Astray, KnownFolders, is_replaced};
use crate::files::folder::{FileState, Folder, Links, parent};
use crate::files::leftover::Leftover;
use crate::files::publish::{Origin, Publish, Siblings, is_another};
use lmc_format::{Advice, Error, ErrorKind, Result};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Permissions of the owner alone.
const OWNER: u32 = 0o700;

/// An open directory to write below.
#[derive(Debug)]
pub struct Sandbox {
    root: Folder,
    /// The root as it is shown in errors.
    shown: PathBuf,
    /// Whether existing files are replaced.
    overwrite: bool,
    /// The folders below the root that were created or found, by path.
    folders: Mutex<KnownFolders>,
    /// The files that were created.
    files: Siblings,
}

impl Sandbox {
    fn new(root: Folder, shown: &Path, overwrite: bool) -> Self {
        let (folders, files) = (Mutex::default(), Siblings::default());
        Self { root, shown: shown.to_path_buf(), overwrite, folders, files }
    }

    /// A path below the root as it is shown in errors; an empty path is the root.
    fn shown(&self, path: &Path) -> PathBuf {
        if path.as_os_str().is_empty() { self.shown.clone() } else { self.shown.join(path) }
    }

    /// Opens the directory at `root`, or the target of a link there, unless another user has put
    /// the link there.
    pub fn open(root: &Path, overwrite: bool) -> Result<Self> {
        let opened = Folder::reach(root);
        let opened =
            opened.map_err(|e| Error::io(format_args!("cannot open {}", root.display()), e))?;
        Ok(Self::new(opened, root, overwrite))
    }

    /// Creates the directory at `root`, closed to others, and makes its name durable; or opens an
    /// existing one. Says whether it is new. Missing folders above it are created too.
    pub fn make(root: &Path, overwrite: bool) -> Result<(Self, bool)> {
        let cannot = |e| Error::io(format_args!("cannot make {}", root.display()), e);
        let Some(name) = root.file_name() else {
            return Ok((Self::open(root, overwrite)?, false));
        };
        let above = Folder::reach_or_make(parent(root), 0o777).map_err(cannot)?;
        match above.make_folder(name) {
            Ok(made) => {
                above.sync().map_err(cannot)?;
                Ok((Self::new(made, root, overwrite), true))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                Ok((Self::open(root, overwrite)?, false))
            }
            Err(e) => Err(cannot(e)),
        }
    }

    fn folders(&self) -> MutexGuard<'_, KnownFolders> {
        // An insert is complete or did not happen, even if the thread panicked.
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder at `path`, without following links. Fails unless it is the one that was created
    /// or found there.
    fn folder(&self, path: &Path) -> Result<Folder> {
        let known = |path: &Path| self.folders().get(path);
        let folder = self.root.known_below(path, Links::Kept, known);
        folder.map_err(|astray| self.astray(path, astray))
    }

    /// Why there is no folder to use at `path`.
    fn astray(&self, path: &Path, astray: Astray) -> Error {
        match astray {
            Astray::NotBelow => {
                Error::invalid(format!("{} is not a path below a directory", path.display()))
            }
            Astray::Other(reached) => self.replaced(&reached),
            Astray::Unopened(reached, e)
                if is_replaced(&e) && self.folders().get(&reached).is_some() =>
            {
                self.replaced(&reached)
            }
            Astray::Unopened(_, e) => self.in_the_way(path, e),
        }
    }

    /// The folder that holds `path`, and the name in it.
    fn folder_of<'a>(&self, path: &'a Path) -> Result<(Folder, &'a OsStr)> {
        let name = path.file_name().ok_or_else(|| Error::invalid("a path has no name"))?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Creates a directory that is closed to others. If it already exists, permissions of others
    /// beyond `mode` are removed. Returns the previous state of an existing one.
    pub fn make_dir(&self, path: &Path, mode: u32) -> Result<Option<FileState>> {
        let (folder, name) = self.folder_of(path)?;
        let cannot = |e| self.cannot("make", path, e);
        match folder.make_folder(name) {
            Ok(made) => {
                let remembered = self.folders().add_made(path, &made);
                remembered.map_err(|astray| self.astray(path, astray))?;
                Ok(None)
            }
            // Must be a directory, not a link to one.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let found =
                    folder.folder(name, Links::Kept).map_err(|e| self.in_the_way(path, e))?;
                let old = found.state().map_err(cannot)?;
                let remembered = self.folders().add_found(path, &found);
                remembered.map_err(|astray| self.astray(path, astray))?;
                if old.mode & !(mode | OWNER) != 0 {
                    found.set_mode(old.mode & mode | OWNER).map_err(cannot)?;
                }
                Ok(Some(old))
            }
            Err(e) => Err(cannot(e)),
        }
    }

    /// Starts a file that will be at `path`. Fails if another file created here already has that
    /// name.
    pub fn create(&self, path: &Path, origin: &Origin) -> Result<Publish> {
        let (folder, name) = self.folder_of(path)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if folder.look(name, Links::Kept).is_ok_and(|there| files.contains(&there.id)) {
            return Err(is_another(&self.shown(path)));
        }
        let siblings = self.files.clone();
        let made = Publish::create_in(folder, name, path, self.overwrite, origin, siblings)?;
        let state = FileState::of(made.file()).map_err(|e| self.cannot("make", path, e))?;
        files.insert(state.id);
        Ok(made)
    }

    /// Creates a symbolic link. It is never followed here.
    pub fn link(&self, path: &Path, target: &Path) -> Result<()> {
        let (folder, name) = self.folder_of(path)?;
        let cannot = |e| self.cannot("make", path, e);
        let made = Leftover::make_link(folder, ".lmc-", target).map_err(cannot)?;
        let renamed = made.folder.rename(&made.name, name, self.overwrite);
        if renamed.is_err() {
            let _ = made.remove();
        }
        renamed.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(path),
            _ => cannot(e),
        })
    }

    /// Gives a directory its mode and its time, and makes its contents durable. An empty path is
    /// the root.
    pub fn finish_dir(&self, path: &Path, origin: &Origin) -> Result<()> {
        let folder = self.folder(path)?;
        let finished = origin.give_folder(&folder).and_then(|()| folder.sync());
        finished.map_err(|e| self.cannot("finish", path, e))
    }

    /// Makes the names in a directory durable. An empty path is the root.
    pub fn sync_dir(&self, path: &Path) -> Result<()> {
        let synced = self.folder(path)?.sync();
        synced.map_err(|e| self.cannot("sync", path, e))
    }

    /// Removes the root directory, which is at `root`, if it is empty.
    pub fn remove_root(&self, root: &Path) -> Result<()> {
        let remove = || {
            let (above, name) = Folder::reach_parent(root)?;
            above.remove_folder(&name, self.root.state()?.id)
        };
        remove().map_err(|e| Error::io(format_args!("cannot remove {}", root.display()), e))
    }

    /// Removes a directory that is empty and is the one that was created or found.
    pub fn remove_dir(&self, path: &Path) -> Result<()> {
        let (folder, name) = self.folder_of(path)?;
        let known = self.folders().get(path).ok_or_else(|| self.replaced(path))?;
        let cannot = |e| self.cannot("remove", path, e);
        if !known.is_at(&folder, name).map_err(cannot)? {
            return Err(self.replaced(path));
        }
        folder.remove_folder(name, known.id).map_err(cannot)?;
        self.folders().forget(path);
        Ok(())
    }

    fn cannot(&self, what: &str, path: &Path, error: io::Error) -> Error {
        Error::io(format_args!("cannot {what} {}", self.shown(path).display()), error)
    }

    fn replaced(&self, path: &Path) -> Error {
        let message =
            "was replaced while it was worked on; use a folder that nobody else can write to";
        Error::new(ErrorKind::Conflict, format!("{} {message}", self.shown(path).display()))
    }

    fn in_the_way(&self, path: &Path, error: io::Error) -> Error {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP | Errno::NOTDIR) => {
                let message = "a link or a file has the place of one of its folders; nothing is \
                               written through it";
                let path = self.shown(path);
                Error::new(ErrorKind::AlreadyExists, format!("{}: {message}", path.display()))
            }
            _ => self.cannot("reach", path, error),
        }
    }
}

/// A directory that is filled under a temporary name and gets its final name when it is complete.
/// If it is dropped without [`NewDirectory::commit`], it is removed.
#[derive(Debug)]
pub struct NewDirectory {
    sandbox: Sandbox,
    leftover: Arc<Leftover>,
    name: OsString,
    is_named: bool,
}

impl NewDirectory {
    /// Creates it next to its final place.
    pub fn create(path: &Path) -> Result<Self> {
        let (folder, name) = Folder::reach_parent(path)
            .map_err(|e| Error::io(format_args!("cannot reach {}", path.display()), e))?;
        let cannot =
            |e| Error::io(format_args!("cannot make a folder next to {}", path.display()), e);
        let leftover = Leftover::make_directory(folder, ".lmc-restore-").map_err(cannot)?;
        let root = leftover.content().ok_or_else(|| io::Error::other("it is gone"));
        match root.and_then(Folder::again) {
            Ok(root) => {
                let sandbox = Sandbox::new(root, path, false);
                Ok(Self { sandbox, leftover: Arc::new(leftover), name, is_named: false })
            }
            Err(e) => {
                let _ = leftover.remove();
                Err(cannot(e))
            }
        }
    }

    /// Where to write.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// For a process that is told to stop and should leave nothing.
    pub fn leftover(&self) -> Arc<Leftover> {
        self.leftover.clone()
    }

    /// Gives it the recorded mode, or that of any new directory, and its final name, durably. The
    /// name must be free. If the temporary name has come to refer to something else, that does not
    /// get the final name.
    pub fn commit(mut self, mode: Option<u32>) -> Result<()> {
        let name = &self.name;
        let cannot = |e| Error::io(format_args!("cannot give {} its name", name.display()), e);
        let (root, above) = (&self.sandbox.root, &self.leftover.folder);
        let given = match mode {
            Some(mode) => Origin::recorded_mode(mode).give_folder(root),
            None => root.default_mode().and_then(|mode| root.set_mode(mode)),
        };
        given.and_then(|()| root.sync()).map_err(cannot)?;
        let turn = self.leftover.hold();
        if !self.leftover.is_at(&self.leftover.name) {
            return Err(self.swapped());
        }
        above.rename(&self.leftover.name, name, false).map_err(cannot)?;
        // It may have been replaced between the check and the rename.
        if !self.leftover.is_at(name) {
            return Err(self.swapped());
        }
        above.sync().map_err(cannot)?;
        drop(turn);
        self.is_named = true;
        Ok(())
    }

    fn swapped(&self) -> Error {
        let temporary = self.leftover.name.display();
        let message = format!(
            "something else has replaced {temporary}, which was being filled; use a folder that \
             nobody else can write to"
        );
        Error::new(ErrorKind::Conflict, message)
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = self.leftover.remove();
        }
    }
}

pub(crate) fn exists(path: &Path) -> Error {
    let message = format!("{} already exists", path.display());
    Error::new(ErrorKind::AlreadyExists, message).with_advice(Advice::Overwrite)
}

#[cfg(test)]
mod tests;
