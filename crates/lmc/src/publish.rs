//! A file that appears under its name only when it is whole and on the disk.

use crate::io::io_error;
use lmc_format::{Error, ErrorKind, Result};
use rustix::fs::{RenameFlags, Timespec, Timestamps};
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// A file being written under a temporary name beside its final one. Dropped without
/// [`Publish::commit`], it is removed; killed, it leaves only the temporary name.
#[derive(Debug)]
pub struct Publish {
    file: File,
    temporary: TempPath,
    path: PathBuf,
    overwrite: bool,
}

impl Publish {
    /// Starts a file that will become `path`, or what a link there points to. Fails if that is there
    /// already, unless it may be overwritten.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self> {
        let linked = match path.symlink_metadata() {
            Ok(_) if !overwrite => return Err(exists(path)),
            Ok(metadata) if metadata.is_symlink() => Some(path.canonicalize().map_err(|e| {
                io_error(&format!("cannot follow the link {}", path.display()), &e)
            })?),
            _ => None,
        };
        let path = linked.as_deref().unwrap_or(path);
        // A device or a pipe would be replaced, and a directory cannot be.
        if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let path = path.display();
            let message = format!("{path} is no regular file; give another -o, or -c for stdout");
            return Err(Error::invalid(message));
        }
        let named = tempfile::Builder::new()
            .prefix(&prefix(path))
            .suffix(".part")
            .tempfile_in(folder(path))
            .map_err(|e| create_error(folder(path), &e))?;
        let (file, temporary) = NamedTempFile::into_parts(named);
        Ok(Self { file, temporary, path: path.to_path_buf(), overwrite })
    }

    /// The temporary name, for a process that is told to end and wants to leave nothing.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    pub(crate) fn file(&mut self) -> &File {
        &self.file
    }

    /// Puts the file under its name, whole and durable. `like` gives it its mode and time of change.
    ///
    /// On an error there is nothing new under the name, and what was there is as it was.
    pub fn commit(self, like: Option<&Metadata>) -> Result<()> {
        let mode = like.map_or_else(default_mode, |like| like.permissions().mode() & 0o7777);
        let permissions = std::fs::Permissions::from_mode(mode);
        self.file.set_permissions(permissions).map_err(|e| io_error("cannot set its mode", &e))?;
        if let Some(like) = like {
            set_time(&self.file, like)?;
        }
        self.file.sync_all().map_err(|e| io_error("cannot write it to the disk", &e))?;
        self.rename()?;
        let folder = File::open(folder(&self.path)).and_then(|folder| folder.sync_all());
        folder.map_err(|e| io_error("cannot write its folder to the disk", &e))
    }

    fn rename(&self) -> Result<()> {
        let (from, to) = (&self.temporary, &self.path);
        let flags = if self.overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let cwd = rustix::fs::CWD;
        let renamed = match rustix::fs::renameat_with(cwd, &**from, cwd, to, flags) {
            // Some file systems cannot refuse to replace; a hard link can.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if !self.overwrite => {
                std::fs::hard_link(from, to)
            }
            other => other.map_err(Into::into),
        };
        match renamed {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(to)),
            Err(e) => Err(io_error("cannot give it its name", &e)),
        }
        // The temporary path is gone or is removed when it is dropped.
    }
}

/// Adds to what was written before.
impl Write for Publish {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn exists(path: &Path) -> Error {
    let path = path.display();
    Error::new(ErrorKind::AlreadyExists, format!("{path} is there already; -f overwrites it"))
}

fn create_error(folder: &Path, error: &io::Error) -> Error {
    if folder.is_dir() {
        return io_error("cannot make a temporary file beside it", error);
    }
    let folder = folder.display();
    Error::new(ErrorKind::NotFound, format!("no folder {folder}; make it, or give another -o"))
}

/// The folder of `path`.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The start of a temporary name, which tells what it was to become.
fn prefix(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let short: String = name.chars().take(40).collect();
    format!(".{short}.")
}

/// The mode of a new file by the process's mask.
fn default_mode() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    0o666 & !mask.bits()
}

fn set_time(file: &File, like: &Metadata) -> Result<()> {
    let at = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: at(like.atime(), like.atime_nsec()),
        last_modification: at(like.mtime(), like.mtime_nsec()),
    };
    rustix::fs::futimens(file, &times).map_err(|e| io_error("cannot set its time", &e.into()))
}
