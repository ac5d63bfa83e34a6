//! Disks that fail: an error, never a snapshot that is not safe, and all is well on the next try.

mod common;

use common::*;
use lmc_store::storage::LocalStorage;
use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, RealDisk};
use lmc_store::{CheckOptions, ErrorKind, SaveOptions, Store};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A disk on which the operation of a given number fails, once or from then on.
#[derive(Debug)]
struct FailingDisk {
    done: Arc<AtomicU64>,
    fails_at: u64,
    is_lasting: bool,
    error: io::ErrorKind,
}

#[derive(Debug)]
struct FailingFile {
    file: Box<dyn DiskFile>,
    done: Arc<AtomicU64>,
    fails_at: u64,
    is_lasting: bool,
    error: io::ErrorKind,
}

fn step(done: &AtomicU64, fails_at: u64, is_lasting: bool, error: io::ErrorKind) -> io::Result<()> {
    let number = done.fetch_add(1, Ordering::SeqCst);
    let fails = number == fails_at || is_lasting && number > fails_at;
    if fails { Err(error.into()) } else { Ok(()) }
}

impl FailingDisk {
    fn step(&self) -> io::Result<()> {
        step(&self.done, self.fails_at, self.is_lasting, self.error)
    }

    fn file(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        let &Self { fails_at, is_lasting, error, .. } = self;
        Box::new(FailingFile { file, done: self.done.clone(), fails_at, is_lasting, error })
    }
}

impl DiskFile for FailingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(&self.done, self.fails_at, self.is_lasting, self.error)?;
        // Short writes are no errors.
        self.file.write(&bytes[..bytes.len().div_ceil(2)])
    }

    fn sync(&mut self) -> io::Result<()> {
        step(&self.done, self.fails_at, self.is_lasting, self.error)?;
        self.file.sync()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        step(&self.done, self.fails_at, self.is_lasting, self.error)?;
        let len = out.len().div_ceil(2);
        self.file.read_at(at, &mut out[..len])
    }
}

impl Disk for FailingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(self.file(RealDisk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(self.file(RealDisk.open(path)?))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.rename_new(from, to)
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.rename_over(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.remove(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        RealDisk.sync_dir(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.step()?;
        RealDisk.read_dir(path)
    }

    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        self.step()?;
        RealDisk.stat(path)
    }

    fn now_ms(&self) -> u64 {
        RealDisk.now_ms()
    }
}

/// Every operation of a save fails in turn, once and for good: the save fails or is whole, the
/// snapshot before is as it was, and the next save works.
#[test]
fn every_operation_fails_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    write(&first.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    write(&second.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 1));
    let options = SaveOptions { threads: 1, ..SaveOptions::default() };
    let made = folder.path().join("made");
    let (store, clock) = local_store(&made);
    let old = save(&store, &first, SaveOptions::default()).name;
    for (is_lasting, error) in [(false, io::ErrorKind::Other), (true, io::ErrorKind::StorageFull)] {
        let mut has_ended = false;
        for fails_at in (0..400).step_by(if is_lasting { 3 } else { 1 }) {
            let root = folder.path().join("store");
            copy(&made, &root);
            let done = Arc::new(AtomicU64::new(0));
            let disk = FailingDisk { done: done.clone(), fails_at, is_lasting, error };
            let storage = Arc::new(LocalStorage::on(&root, Arc::new(disk)));
            let saved = Store::open(storage, clock.clone())
                .and_then(|failing| failing.save(&second, &options, &|_| ()));
            let store = Store::open(Arc::new(LocalStorage::new(&root)), clock.clone()).unwrap();
            let names = store.snapshots().unwrap();
            assert!(names[0] == old && store.check(&ALL).unwrap().is_clean());
            match &saved {
                Ok(saved) => assert_eq!(names.get(1), Some(&saved.name)),
                Err(e) => assert_eq!(e.kind, ErrorKind::Io, "operation {fails_at}: {e}"),
            }
            let again = save(&store, &second, SaveOptions::default());
            assert!(again.files == 1 && store.check(&ALL).unwrap().is_clean());
            std::fs::remove_dir_all(&root).unwrap();
            if done.load(Ordering::SeqCst) <= fails_at {
                assert!(saved.is_ok());
                has_ended = true;
                break;
            }
        }
        assert!(has_ended, "a save has fewer operations");
    }
}

const ALL: CheckOptions = CheckOptions { read_percent: 100, threads: 1 };

/// A copy of a directory, without waiting for the disk.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
