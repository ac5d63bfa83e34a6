//! A disk that fails: one kind of operation, from the n-th on, once or for some time.

use super::crash::{CrashDisk, CrashFile, Handle, Note};
use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, Renamed};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Both that take a file where a hard link counts as one.
    CreateOrLink,
    Create,
    Open,
    Write,
    Sync,
    ReadAt,
    Rename,
    Link,
    Truncate,
    Remove,
    CreateDir,
    SyncDir,
    ReadDir,
    Stat,
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::Create,
        Self::Open,
        Self::Write,
        Self::Sync,
        Self::ReadAt,
        Self::Rename,
        Self::Link,
        Self::Truncate,
        Self::Remove,
        Self::CreateDir,
        Self::SyncDir,
        Self::ReadDir,
        Self::Stat,
    ];
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// With this number of the system, and nothing is done.
    Error(i32),
    /// With this number, though it is done.
    ErrorAfter(i32),
    /// Half of the bytes are written or read, and that is not an error.
    Short,
    /// It is not done and reported to be, to see that tests notice.
    Silent,
}

pub const EINTR: i32 = 4;
pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
pub const EDQUOT: i32 = 122;

/// What fails, when and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: Kind,
    /// The first one that fails, counted from 0.
    pub at: u64,
    /// How many fail.
    pub times: u64,
    pub failure: Failure,
}

#[derive(Debug)]
struct FaultScript {
    fault: Fault,
    done: AtomicU64,
}

/// A disk on which some operations fail.
#[derive(Debug)]
pub struct FaultyDisk<N> {
    disk: Handle<N>,
    script: Arc<FaultScript>,
    /// The end of the path of a file that cannot be read.
    bad: Option<String>,
    /// Manifests that were to get their names.
    commits: AtomicU64,
}

#[derive(Debug)]
struct FaultyFile<N> {
    file: CrashFile<N>,
    script: Arc<FaultScript>,
    is_bad: bool,
}

impl FaultScript {
    /// How this operation fails, if it does.
    fn next(&self, kind: Kind) -> Option<Failure> {
        let is_file = matches!(kind, Kind::Create | Kind::Link);
        if kind != self.fault.kind && !(self.fault.kind == Kind::CreateOrLink && is_file) {
            return None;
        }
        let number = self.done.fetch_add(1, Ordering::SeqCst);
        let fails = number >= self.fault.at && number - self.fault.at < self.fault.times;
        fails.then_some(self.fault.failure)
    }

    fn run<T>(&self, kind: Kind, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.next(kind) {
            None | Some(Failure::Short) => act(),
            Some(Failure::Silent) => panic!("{kind:?} cannot be silent"),
            Some(Failure::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Failure::ErrorAfter(number)) => {
                act()?;
                Err(io::Error::from_raw_os_error(number))
            }
        }
    }
}

impl<N> FaultyDisk<N> {
    pub fn new(disk: Arc<CrashDisk<N>>, fault: Fault) -> Arc<Self> {
        let script = Arc::new(FaultScript { fault, done: 0.into() });
        Arc::new(Self { disk: Handle(disk), script, bad: None, commits: AtomicU64::new(0) })
    }

    /// A disk on which the files whose paths end so can be opened and not be read.
    pub fn with_bad_sectors(disk: Arc<CrashDisk<N>>, bad: &str) -> Arc<Self> {
        let fault = Fault { kind: Kind::ReadAt, at: 0, times: 0, failure: Failure::Short };
        let script = Arc::new(FaultScript { fault, done: 0.into() });
        let (bad, commits) = (Some(bad.to_string()), AtomicU64::new(0));
        Arc::new(Self { disk: Handle(disk), script, bad, commits })
    }

    /// How often a manifest was to get its name: before that, a save has left no snapshot.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// Operations of the kind that fails, so far.
    pub fn count(&self) -> u64 {
        self.script.done.load(Ordering::SeqCst)
    }

    /// Whether anything has failed.
    pub fn was_touched(&self) -> bool {
        self.count() > self.script.fault.at
    }
}

impl<N: Note> DiskFile for FaultyFile<N> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.script.next(Kind::Write) {
            None => self.file.write(bytes),
            Some(Failure::Short) => self.file.write(&bytes[..bytes.len().div_ceil(2)]),
            // A write that fails may have written some of it.
            Some(Failure::ErrorAfter(number)) => {
                self.file.write(&bytes[..bytes.len() / 2])?;
                Err(io::Error::from_raw_os_error(number))
            }
            Some(Failure::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Failure::Silent) => {
                self.file.write(&bytes[..bytes.len() / 2])?;
                Ok(bytes.len())
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.script.next(Kind::Sync) {
            Some(Failure::Error(number) | Failure::ErrorAfter(number)) => {
                self.file.fail_sync();
                Err(io::Error::from_raw_os_error(number))
            }
            Some(Failure::Silent) => {
                self.file.fail_sync();
                Ok(())
            }
            _ => self.file.sync(),
        }
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        if self.is_bad {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        match self.script.next(Kind::ReadAt) {
            None => self.file.read_at(at, out),
            Some(Failure::Short) => {
                let len = out.len().div_ceil(2);
                self.file.read_at(at, &mut out[..len])
            }
            Some(Failure::Silent) => Ok(out.len()),
            Some(Failure::Error(number) | Failure::ErrorAfter(number)) => {
                Err(io::Error::from_raw_os_error(number))
            }
        }
    }
}

impl<N: Note> FaultyDisk<N> {
    fn file(&self, path: &Path, file: CrashFile<N>) -> Box<dyn DiskFile> {
        let is_bad = self.bad.as_ref().is_some_and(|bad| path.ends_with(bad));
        Box::new(FaultyFile { file, script: self.script.clone(), is_bad })
    }
}

impl<N: Note> Disk for FaultyDisk<N> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.script
            .run(Kind::Create, || self.disk.create_file(path))
            .map(|file| self.file(path, file))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.script.run(Kind::Open, || self.disk.open_file(path)).map(|file| self.file(path, file))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        if to.components().any(|part| part.as_os_str() == "snapshots") {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
        self.script.run(Kind::Rename, || self.disk.rename_new(from, to))
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.script.run(Kind::Rename, || self.disk.rename_over(from, to))
    }

    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.script.run(Kind::Link, || self.disk.link_new(from, to))
    }

    fn truncate(&self, path: &Path) -> io::Result<()> {
        self.script.run(Kind::Truncate, || self.disk.truncate(path))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.script.run(Kind::Remove, || self.disk.remove(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.script.run(Kind::CreateDir, || self.disk.create_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        // What could not be synced is as it was.
        match self.script.next(Kind::SyncDir) {
            Some(Failure::Error(number) | Failure::ErrorAfter(number)) => {
                Err(io::Error::from_raw_os_error(number))
            }
            Some(Failure::Silent) => Ok(()),
            _ => self.disk.sync_dir(path),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.script.run(Kind::ReadDir, || self.disk.read_dir(path))
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        self.script.run(Kind::ReadDir, || self.disk.list_dir(path))
    }

    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        self.script.run(Kind::Stat, || self.disk.stat(path))
    }

    fn now_ms(&self) -> u64 {
        self.disk.now_ms()
    }
}
