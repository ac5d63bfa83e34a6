//! A process that stood still for longer than grace finds its temporary file gone, which a prune
//! has removed: it is told to run again, and nothing else is wrong.

use crate::common::*;
use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, RealDisk, Renamed};
use lmc_store::storage::{Access, LocalStorage, Storage};
use lmc_store::{CONFIG_NAME, ErrorKind};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A disk on which each file is gone at the moment it should get its name.
#[derive(Debug)]
struct Swept(RealDisk);

impl Disk for Swept {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(path)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        self.0.remove(from)?;
        self.0.rename_new(from, to)
    }
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.remove(from)?;
        self.0.rename_over(from, to)
    }
    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.link_new(from, to)
    }
    fn truncate(&self, path: &Path) -> io::Result<()> {
        self.0.truncate(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.0.sync_dir(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.0.read_dir(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        self.0.list_dir(path)
    }
    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        self.0.stat(path)
    }
    fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }
}

/// A file that was removed before it had its name is a conflict, for puts and for repairs; a store
/// that is not there any more is none.
#[test]
fn a_file_that_was_swept_away_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    local_store(&root);
    let disk = Arc::new(Swept(RealDisk::new(&root, Access::Private)));
    let storage = LocalStorage::on(&root, disk);
    let puts = || [storage.put_new("packs/x", b"x").map(drop), storage.replace("packs/x", b"x")];
    for put in puts() {
        let error = put.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("again"), "{error}");
    }
    std::fs::remove_file(root.join(CONFIG_NAME)).unwrap();
    for put in puts() {
        assert_ne!(put.unwrap_err().kind, ErrorKind::Conflict);
    }
}

/// A copy that stood still finds the packs gone that it has put: that is a conflict which names the
/// target, and the source, which is whole, is not called damaged.
#[test]
fn a_copy_whose_packs_are_gone_does_not_blame_the_source() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("files");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    let (source, _, _) = memory_store();
    let name = save_step(&source, &root, "r", 1).name;
    let (target, _) = local_store(&folder.path().join("target"));
    let sweep = |_| target.storage().delete(&objects_in(&**target.storage(), "packs")).unwrap();
    let names = std::slice::from_ref(&name);
    let error = watched(&source, &sweep, |source| source.copy_to(&target, names)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("the target lacks"), "{error}");
    assert!(target.snapshots().unwrap().is_empty());
    assert_eq!(source.copy_to(&target, names).unwrap().snapshots.len(), 1);
    check_restores(&target, &name, &root);
}
