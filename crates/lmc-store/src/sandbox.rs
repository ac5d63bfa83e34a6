//! A directory that nothing written through it can leave.
//!
//! Every name is reached from the open root, folder by folder, and no link is followed on the way.
//! Paths are [`RelPath`]s, which have no `..`; so whatever a manifest says, and whatever links are
//! in the directory already, what is written lies below the root.

use crate::names::random_id;
use crate::path::RelPath;
use crate::storage::io_error;
use lmc_format::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open directory to write below.
#[derive(Debug)]
pub(crate) struct Sandbox {
    root: OwnedFd,
    /// Whether files that are there are replaced.
    overwrite: bool,
}

/// A file that has no name yet. Dropped without [`Sandbox::publish`], it is removed.
#[derive(Debug)]
pub(crate) struct NewFile {
    folder: OwnedFd,
    temporary: String,
    /// The file, to write to.
    pub file: File,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

impl Sandbox {
    /// Opens a directory.
    pub(crate) fn open(root: &Path, overwrite: bool) -> Result<Self> {
        let root = rustix::fs::open(root, FOLDER, Mode::empty())
            .map_err(|e| failed(format_args!("cannot open {}", root.display()), e))?;
        Ok(Self { root, overwrite })
    }

    /// The folder with these names, one in the other.
    fn folder<'a>(&self, names: impl Iterator<Item = &'a OsStr>) -> rustix::io::Result<OwnedFd> {
        let mut folder = rustix::fs::openat(&self.root, ".", FOLDER, Mode::empty())?;
        for name in names {
            folder = rustix::fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
        Ok(folder)
    }

    /// The folder that holds `path`.
    fn folder_of(&self, path: &RelPath) -> Result<OwnedFd> {
        let names = path.parts().count() - 1;
        self.folder(path.parts().take(names)).map_err(|e| in_the_way(path, e))
    }

    /// Makes a directory, or finds that it is there.
    pub(crate) fn make_dir(&self, path: &RelPath) -> Result<()> {
        let folder = self.folder_of(path)?;
        match rustix::fs::mkdirat(&folder, path.name(), Mode::RWXU) {
            Ok(()) => Ok(()),
            // A directory, not a link to one.
            Err(Errno::EXIST) => {
                self.folder(path.parts()).map(|_| ()).map_err(|e| in_the_way(path, e))
            }
            Err(e) => Err(failed(format_args!("cannot make {path}"), e)),
        }
    }

    /// Starts a file that will be at `path`.
    pub(crate) fn create(&self, path: &RelPath) -> Result<NewFile> {
        let folder = self.folder_of(path)?;
        let temporary = format!(".lmc-{}.part", random_id()?);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&folder, &temporary, flags | OFlags::CLOEXEC, mode)
            .map_err(|e| failed(format_args!("cannot make {path}"), e))?;
        Ok(NewFile { folder, temporary, file: File::from(file) })
    }

    /// Gives a file that is whole its mode, its time and its name, durably.
    pub(crate) fn publish(
        &self,
        new: NewFile,
        path: &RelPath,
        mode: u32,
        mtime: (i64, u32),
    ) -> Result<()> {
        let cannot = |e| failed(format_args!("cannot write {path}"), e);
        rustix::fs::fchmod(&new.file, Mode::from_raw_mode(mode)).map_err(cannot)?;
        let time = Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(&new.file, &times).map_err(cannot)?;
        rustix::fs::fsync(&new.file).map_err(cannot)?;
        self.rename(&new.folder, OsStr::new(&new.temporary), path)
    }

    /// Makes a symbolic link. It is never followed here.
    pub(crate) fn link(&self, path: &RelPath, target: &[u8]) -> Result<()> {
        let folder = self.folder_of(path)?;
        let temporary = format!(".lmc-{}.part", random_id()?);
        rustix::fs::symlinkat(OsStr::from_bytes(target), &folder, &temporary)
            .map_err(|e| failed(format_args!("cannot make {path}"), e))?;
        let renamed = self.rename(&folder, OsStr::new(&temporary), path);
        if renamed.is_err() {
            let _ = rustix::fs::unlinkat(&folder, &temporary, AtFlags::empty());
        }
        renamed
    }

    fn rename(&self, folder: &OwnedFd, temporary: &OsStr, path: &RelPath) -> Result<()> {
        let flags = if self.overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match rustix::fs::renameat_with(folder, temporary, folder, path.name(), flags) {
            Ok(()) => Ok(()),
            // Some file systems cannot refuse to replace; a hard link can.
            Err(Errno::INVAL | Errno::NOSYS) if !self.overwrite => {
                rustix::fs::linkat(folder, temporary, folder, path.name(), AtFlags::empty())
                    .and_then(|()| rustix::fs::unlinkat(folder, temporary, AtFlags::empty()))
                    .map_err(|e| failed(format_args!("cannot name {path}"), e))
            }
            Err(Errno::EXIST) => {
                let message = format!("{path} is there already; -f overwrites it");
                Err(Error::new(ErrorKind::AlreadyExists, message))
            }
            Err(e) => Err(failed(format_args!("cannot name {path}"), e)),
        }
    }

    /// Gives a directory its mode and makes what is in it durable.
    pub(crate) fn finish_dir(&self, path: &RelPath, mode: u32) -> Result<()> {
        let folder = self.folder(path.parts()).map_err(|e| in_the_way(path, e))?;
        let mode = Mode::from_raw_mode(mode);
        rustix::fs::fsync(&folder)
            .and_then(|()| rustix::fs::fchmod(&folder, mode))
            .map_err(|e| failed(format_args!("cannot finish {path}"), e))
    }

    /// Makes the names in the root durable.
    pub(crate) fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.root).map_err(|e| failed("cannot sync the target", e))
    }
}

impl NewFile {
    /// The name that it has for now, in its folder.
    pub(crate) fn temporary(&self) -> &str {
        &self.temporary
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is gone if it was published.
        let _ = rustix::fs::unlinkat(&self.folder, &self.temporary, AtFlags::empty());
    }
}

fn failed(what: impl std::fmt::Display, error: Errno) -> Error {
    io_error(what, &io::Error::from(error))
}

fn in_the_way(path: &RelPath, error: Errno) -> Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => {
            let message = "a link or a file is where a folder of it should be; nothing is written \
                           through it";
            Error::new(ErrorKind::AlreadyExists, format!("{path}: {message}"))
        }
        _ => failed(format_args!("cannot reach {path}"), error),
    }
}
