//! Temporary files and directories, which are removed if they never get a final name.

use crate::files::clear::unless_gone;
use crate::files::folder::{FileId, FileState, Folder, Links};
use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many names are tried if they are taken.
const TRIES_MAX: usize = 16;

/// A temporary file or directory. Removing it removes nothing else: if its name now refers to
/// something else, that stays.
#[derive(Debug)]
pub struct Leftover {
    pub(crate) folder: Folder,
    pub(crate) name: OsString,
    pub(crate) id: FileId,
    /// The directory itself, if it is one.
    content: Option<Folder>,
    /// Locked while it is removed, and while it gets its final name.
    turn: Mutex<()>,
}

impl Leftover {
    /// The directory at `path`, and everything that will be in it.
    pub fn directory(path: &Path) -> io::Result<Self> {
        let (folder, name) = Folder::open_parent(path)?;
        let content = folder.folder(&name, Links::Kept)?;
        let id = content.state()?.id;
        Ok(Self { folder, name, id, content: Some(content), turn: Mutex::default() })
    }

    /// Creates a file for writing under a name that begins with `prefix`.
    pub(crate) fn make_file(folder: Folder, prefix: &str, mode: u32) -> io::Result<(Self, File)> {
        let (name, file) = free_name(prefix, |name| folder.make_file(name.as_ref(), mode))?;
        let id = FileState::of(&file)?.id;
        Ok((Self { folder, name, id, content: None, turn: Mutex::default() }, file))
    }

    /// Creates a directory that is closed to others.
    pub(crate) fn make_directory(folder: Folder, prefix: &str) -> io::Result<Self> {
        let (name, content) = free_name(prefix, |name| folder.make_folder(name.as_ref()))?;
        let id = content.state()?.id;
        Ok(Self { folder, name, id, content: Some(content), turn: Mutex::default() })
    }

    /// Creates a symbolic link.
    pub(crate) fn make_link(folder: Folder, prefix: &str, target: &Path) -> io::Result<Self> {
        let make = |name: &OsString| folder.make_link(name, target.as_os_str());
        let (name, ()) = free_name(prefix, make)?;
        let id = folder.look(&name, Links::Kept)?.id;
        Ok(Self { folder, name, id, content: None, turn: Mutex::default() })
    }

    /// The directory itself, if it is one.
    pub(crate) fn content(&self) -> Option<&Folder> {
        self.content.as_ref()
    }

    /// Keeps it from being removed until the returned guard is dropped.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a name in its folder refers to it.
    pub(crate) fn is_at(&self, name: &std::ffi::OsStr) -> bool {
        self.folder.look(name, Links::Kept).is_ok_and(|state| state.id == self.id)
    }

    /// Removes it, unless it is gone or has its final name. Several threads may do so concurrently.
    pub fn remove(&self) -> io::Result<()> {
        let _turn = self.hold();
        if !self.is_at(&self.name) {
            return Ok(());
        }
        let removed = match &self.content {
            None => self.folder.unlink(&self.name),
            Some(content) => match self.folder.remove_folder(&self.name, self.id) {
                // An empty directory is removed without opening it, because too many files may be
                // open for that.
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    content.clear()?;
                    self.folder.remove_folder(&self.name, self.id)
                }
                removed => removed,
            },
        };
        unless_gone(removed).map(drop)
    }
}

/// Creates something under a free name.
pub(crate) fn free_name<T>(
    prefix: &str,
    make: impl Fn(&OsString) -> io::Result<T>,
) -> io::Result<(OsString, T)> {
    let mut tries = 1;
    loop {
        let name = random_name(prefix, ".part");
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

/// A name that nobody can guess.
pub(crate) fn random_name(prefix: &str, ending: &str) -> OsString {
    // The keys of a hash map are random numbers from the system.
    let random = RandomState::new().build_hasher().finish();
    OsString::from(format!("{prefix}{random:016x}{ending}"))
}
