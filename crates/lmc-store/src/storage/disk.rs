//! The file operations that local storage is made of, so that tests can put another disk below it:
//! one that fails, or one that forgets what was not synced.

use crate::clock::unix_ms;
use rustix::fs::RenameFlags;
use rustix::io::Errno;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// An open file.
pub trait DiskFile: Send + fmt::Debug {
    /// Writes some of `bytes` behind what was written before; returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable; the name of the file is not part of that.
    fn sync(&mut self) -> io::Result<()>;
    /// Reads some of the bytes from `at` on; returns how many, 0 at the end.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStat {
    /// Bytes, if it is a file.
    pub size: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A file system.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a file that must not be there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, which must be free: otherwise the error is `AlreadyExists`.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file another name; a file of that name is replaced.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory that must not be there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in any order, and whether each is a directory.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>>;
    /// What a name is.
    fn stat(&self, path: &Path) -> io::Result<DiskStat>;
    /// The time by the clock that gives files their times, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(out, at)
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A pipe would have to be waited for; what is no file is no object.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("is no regular file"));
        }
        Ok(Box::new(RealFile(file)))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let cwd = rustix::fs::CWD;
        match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot refuse to replace; a hard link can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                fs::hard_link(from, to)?;
                fs::remove_file(from)
            }
            other => Ok(other?),
        }
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // Names of objects are ASCII; others are not ours.
            if let Ok(name) = entry.file_name().into_string() {
                names.push((name, entry.file_type()?.is_dir()));
            }
        }
        Ok(names)
    }

    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        let metadata = fs::symlink_metadata(path)?;
        let modified_ms = unix_ms(metadata.modified()?);
        Ok(DiskStat { size: metadata.len(), modified_ms, is_dir: metadata.is_dir() })
    }

    fn now_ms(&self) -> u64 {
        unix_ms(std::time::SystemTime::now())
    }
}
