//! Copies between stores: what one has finished no other undoes, what is taken for the same is the
//! same, and one snapshot that cannot be copied does not keep back the others.

use crate::common::*;
use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, RealDisk, Renamed};
use lmc_store::storage::{Access, LocalStorage, MemoryStorage, Storage};
use lmc_store::{ErrorKind, SnapshotName, Store};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A store with one snapshot, and what was saved.
fn source(folder: &Path) -> (Store, SnapshotName, PathBuf) {
    let (store, _, _) = memory_store();
    let root = folder.join("source");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    let name = save_step(&store, &root, "r", 1).name;
    (store, name, root)
}

/// Which operation on a manifest fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    /// Writing it: the disk is full.
    Write,
    /// Giving it its name.
    Rename,
    /// Syncing the folder of the name.
    SyncDir,
}

/// A disk on which one operation on a manifest fails, after something else was done.
struct HookedDisk {
    inner: RealDisk,
    fails: Fails,
    is_hooked: AtomicBool,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.fails.fmt(f)
    }
}

impl HookedDisk {
    /// Fails if this is what is to fail; the hook runs before the first time.
    fn pass(&self, what: Fails, is_about_it: bool, error: io::ErrorKind) -> io::Result<()> {
        if what != self.fails || !is_about_it || !self.is_hooked.load(Ordering::SeqCst) {
            return Ok(());
        }
        if let Some(hook) = self.hook.lock().unwrap().take() {
            hook();
        }
        Err(error.into())
    }
}

fn is_snapshot(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "snapshots")
}

impl Disk for HookedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.pass(Fails::Write, true, io::ErrorKind::StorageFull)?;
        self.inner.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(path)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        self.pass(Fails::Rename, is_snapshot(to), io::ErrorKind::QuotaExceeded)?;
        self.inner.rename_new(from, to)
    }
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_over(from, to)
    }
    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link_new(from, to)
    }
    fn truncate(&self, path: &Path) -> io::Result<()> {
        self.inner.truncate(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        // The folder of the manifest is made right before the manifest is written.
        if is_snapshot(path) {
            self.is_hooked.store(true, Ordering::SeqCst);
        }
        self.inner.create_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let is_page = path.ends_with("00000000");
        self.pass(Fails::SyncDir, is_page, io::ErrorKind::Other)?;
        self.inner.sync_dir(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.inner.read_dir(path)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        self.inner.list_dir(path)
    }
    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        self.inner.stat(path)
    }
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }
}

/// Two copies of one snapshot into one directory: the first is done while the other one is about to
/// put its manifest, and then the disk fails the other one. The snapshot of the first is there.
#[test]
fn a_failing_copy_removes_nothing_of_another() {
    for fails in [Fails::Write, Fails::Rename, Fails::SyncDir] {
        let folder = tempfile::tempdir().unwrap();
        let (store, name, root) = source(folder.path());
        let place = folder.path().join("target");
        let (target, clock) = local_store(&place);
        let done = Arc::new(Mutex::new(None));
        let first = {
            let (store, target) = (store.clone(), target.clone());
            let (name, done) = (name.clone(), done.clone());
            move || *done.lock().unwrap() = Some(store.copy_to(&target, &[name]))
        };
        let hook = Mutex::new(Some(Box::new(first) as Box<dyn FnOnce() + Send>));
        let inner = RealDisk::new(&place, Access::Private);
        let disk = HookedDisk { inner, fails, is_hooked: AtomicBool::new(false), hook };
        let storage = LocalStorage::on(&place, Arc::new(disk));
        let second = Store::open(Arc::new(storage), clock).unwrap();
        store.copy_to(&second, std::slice::from_ref(&name)).unwrap_err();
        let first = done.lock().unwrap().take().expect("the first copy ran").unwrap();
        assert_eq!(first.snapshots.len() as u64 + first.there, 1, "{fails:?}");
        assert_eq!(target.snapshots().unwrap(), std::slice::from_ref(&name), "{fails:?}");
        check_restores(&target, &name, &root);
    }
}

/// The same in a bucket that refuses the create with an error, or does it and does not answer,
/// while the object is another's.
#[test]
fn a_refused_create_removes_nothing_of_another() {
    for fate in [Fate::Fails, Fate::SeemsToFail] {
        let folder = tempfile::tempdir().unwrap();
        let (store, name, root) = source(folder.path());
        let clock = TestClock::new();
        let bucket = Arc::new(MemoryStorage::new(clock.clone()));
        let target = Store::init(bucket.clone(), clock.clone()).unwrap();
        let storage = MortalStorage::new(bucket, u64::MAX);
        let hook = {
            let (store, target, name) = (store.clone(), target.clone(), name.clone());
            let is_first = AtomicBool::new(true);
            move |call: Call, object: &str| {
                let is_it = call == Call::Change && object.starts_with("snapshots/");
                if is_it && is_first.swap(false, Ordering::SeqCst) {
                    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
                    return fate;
                }
                Fate::Done
            }
        };
        storage.watch(hook);
        let second = Store::open(storage, clock).unwrap();
        store.copy_to(&second, std::slice::from_ref(&name)).unwrap_err();
        assert_eq!(target.snapshots().unwrap(), std::slice::from_ref(&name), "{fate:?}");
        check_restores(&target, &name, &root);
    }
}

/// A snapshot in the target that only claims to be the one that is copied, by its run, step, time,
/// size and save, does not keep it out.
#[test]
fn a_forged_snapshot_keeps_none_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, root) = source(folder.path());
    let (target, _, _) = memory_store();
    // Another file of the same size.
    let other = folder.path().join("other");
    write(&other.join("model.safetensors"), &checkpoint(&["a"], 3000, 7, 0));
    let forged = save_step(&target, &other, "r", 1).name;
    let mut manifest = manifest_json(&target, &forged);
    target.storage().delete(&[forged.object().unwrap()]).unwrap();
    let wanted = manifest_json(&store, &name);
    for field in ["time_ms", "save", "added"] {
        manifest[field] = wanted[field].clone();
    }
    let forged = plant(&target, &manifest);
    assert_eq!((forged.size, forged.time_ms), (name.size, name.time_ms));
    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    let copied = target.snapshots().unwrap().into_iter().find(|copy| *copy != forged);
    check_restores(&target, &copied.expect("it was copied"), &root);
    // What is the same is not copied again, under another id neither.
    assert_eq!(store.copy_to(&target, std::slice::from_ref(&name)).unwrap().there, 1);
}

/// Snapshots that look the same by their names are told apart without reading all of them for each.
#[test]
fn snapshots_that_look_the_same_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, _) = source(folder.path());
    let mut manifest = manifest_json(&store, &name);
    let names: Vec<SnapshotName> = (0..20)
        .map(|i| {
            manifest["save"] = format!("{i:032x}").into();
            plant(&store, &manifest)
        })
        .collect();
    let (_, storage, clock) = memory_store();
    let counted = MortalStorage::new(storage, u64::MAX);
    let reads = Arc::new(AtomicU64::new(0));
    let count = reads.clone();
    counted.watch(move |call, name| {
        if call == Call::Read && name.starts_with("snapshots/") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Done
    });
    let target = Store::open(counted, clock).unwrap();
    assert_eq!(store.copy_to(&target, &names).unwrap().snapshots.len(), 20);
    let read = reads.load(Ordering::SeqCst);
    assert!(read <= 10 * 20, "{read} manifests are read for 20 snapshots");
}

/// A snapshot that the target has already, without one of its packs or with one that was cut, gets
/// them again.
#[test]
fn what_a_copy_lacks_is_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, root) = source(folder.path());
    let (target, storage, _) = memory_store();
    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    for is_cut in [true, false] {
        for pack in objects_in(&*storage, "packs") {
            match is_cut {
                true => storage.replace(&pack, b"cut").unwrap(),
                false => storage.delete(&[pack]).unwrap(),
            }
        }
        let copied = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
        assert_eq!((copied.there, copied.healed.len()), (1, objects_in(&*storage, "packs").len()));
        check_restores(&target, &name, &root);
    }
}

/// Packs of a snapshot that the target has already are compared by their bytes in a directory:
/// those that rotted and kept their size get their bytes again, and so do those in whose place is a
/// link, a pipe or something longer. The copy says so.
#[test]
fn what_rotted_in_a_directory_is_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, root) = source(folder.path());
    let place = folder.path().join("target");
    let (target, _) = local_store(&place);
    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    let pack = place.join(store.manifest(&name).unwrap().packs[0].name.object());
    let good = fs::read(&pack).unwrap();
    let flipped: Vec<u8> = good.iter().map(|byte| byte ^ 0x40).collect();
    let away = folder.path().join("away");
    fs::write(&away, &good).unwrap();
    let damages: [&dyn Fn(); 4] = [
        &|| fs::write(&pack, &flipped).unwrap(),
        &|| fs::write(&pack, [&good[..], b"more"].concat()).unwrap(),
        &|| symlink(&away, &pack).unwrap(),
        &|| make_pipe(&pack),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        if number > 1 {
            fs::remove_file(&pack).unwrap();
        }
        damage();
        let copied = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
        assert_eq!((copied.there, copied.healed.len()), (1, 1), "damage {number}");
        assert!(fs::symlink_metadata(&pack).unwrap().is_file());
        check_restores(&target, &name, &root);
    }
    let again = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    assert_eq!((again.there, again.healed.len()), (1, 0));
}

/// A folder in the place of a pack of the target stays, and what needs that pack is left out, with
/// words that say so; the rest is copied.
#[test]
fn a_folder_in_the_place_of_a_pack_ends_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, saved) = history(folder.path(), 1);
    let other = folder.path().join("other");
    write(&other.join("model.safetensors"), &checkpoint(&["b"], 3000, 9, 0));
    let second = save_step(&store, &other, "s", 1).name;
    let place = folder.path().join("target");
    let (target, _) = local_store(&place);
    let (first, _) = &saved[0];
    store.copy_to(&target, std::slice::from_ref(first)).unwrap();
    let pack = place.join(store.manifest(first).unwrap().packs[0].name.object());
    fs::remove_file(&pack).unwrap();
    fs::create_dir(&pack).unwrap();
    let copied = store.copy_to(&target, &[first.clone(), second.clone()]).unwrap();
    let [(left_out, error)] = &copied.left_out[..] else { panic!("{copied:?}") };
    assert_eq!((left_out, error.kind), (first, ErrorKind::Corrupt));
    assert_eq!(copied.snapshots, std::slice::from_ref(&second));
    assert!(pack.is_dir());
    check_restores(&target, &second, &other);
}

/// A snapshot that the target has already gets the tags that it lacks there.
#[test]
fn tags_come_with_a_later_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, _) = source(folder.path());
    let (target, _, _) = memory_store();
    store.tag(&name, "first").unwrap();
    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    store.tag(&name, "later").unwrap();
    target.tag(&name, "own").unwrap();
    let copied = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    assert_eq!(copied.there, 1);
    let tags: Vec<String> = target.tags().unwrap()[&name.id].iter().cloned().collect();
    assert_eq!(tags, ["first", "later", "own"]);
    // One that is forgotten meanwhile is not there, and is copied anew.
    target.forget(std::slice::from_ref(&name)).unwrap();
    let copied = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    assert_eq!((copied.there, copied.snapshots.len()), (0, 1));
    assert_eq!(target.tags().unwrap()[&copied.snapshots[0].id].len(), 2);
}

/// A manifest that rotted in the target is put again by the copy that has its bytes, which says so.
#[test]
fn a_rotten_manifest_is_put_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, name, root) = source(folder.path());
    let (target, storage, _) = memory_store();
    store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    let object = name.object().unwrap();
    storage.replace(&object, b"rot").unwrap();
    let copied = store.copy_to(&target, std::slice::from_ref(&name)).unwrap();
    assert_eq!(copied.healed, [object]);
    check_restores(&target, &name, &root);
}

/// A store with some snapshots of one run, each in packs of its own and on those before.
fn history(folder: &Path, steps: u32) -> (Store, Arc<MemoryStorage>, Vec<(SnapshotName, PathBuf)>) {
    let (store, storage, _) = memory_store();
    let mut saved = Vec::new();
    for step in 0..steps {
        let root = folder.join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, step));
        saved.push((save_step(&store, &root, "r", u64::from(step)).name, root));
    }
    (store, storage, saved)
}

/// One snapshot that is pruned while many are copied, before its turn or in the middle of it, does
/// not end the copy of the others.
#[test]
fn a_copy_goes_on_without_what_was_pruned() {
    for (number, folder_gone) in [(0, "snapshots"), (2, "packs")] {
        let folder = tempfile::tempdir().unwrap();
        let (store, storage, saved) = history(folder.path(), 5);
        let own = own_packs(&store, &saved, 4);
        let gone = match folder_gone {
            "snapshots" => vec![saved[number].0.object().unwrap()],
            // The newest is on all of the others; only its own pack can go.
            _ => own,
        };
        let lost = if folder_gone == "packs" { 4 } else { number };
        // A prune removes the packs of no others.
        store.forget(std::slice::from_ref(&saved[lost].0)).unwrap();
        storage.delete(&gone).unwrap();
        let (target, _, _) = memory_store();
        let names: Vec<SnapshotName> = saved.iter().map(|(name, _)| name.clone()).collect();
        let copied = store.copy_to(&target, &names).unwrap();
        assert_eq!(copied.snapshots.len(), 4);
        assert_eq!(copied.left_out.len(), 1);
        assert_eq!(copied.left_out[0].0, saved[lost].0);
        assert_eq!(copied.left_out[0].1.kind, ErrorKind::NotFound);
        for (i, (name, root)) in saved.iter().enumerate().filter(|(i, _)| *i != lost) {
            assert!(copied.snapshots.contains(name), "snapshot {i}");
            check_restores(&target, name, root);
        }
    }
}

/// The packs that only snapshot `i` needs.
fn own_packs(store: &Store, saved: &[(SnapshotName, PathBuf)], i: usize) -> Vec<String> {
    let packs = |name: &SnapshotName| -> Vec<String> {
        let manifest = store.manifest(name).unwrap();
        manifest.packs.iter().map(|pack| pack.name.object()).collect()
    };
    let others: Vec<String> = saved
        .iter()
        .enumerate()
        .filter(|(j, _)| *j != i)
        .flat_map(|(_, (name, _))| packs(name))
        .collect();
    packs(&saved[i].0).into_iter().filter(|pack| !others.contains(pack)).collect()
}

/// After a prune was killed, whose lease is there until it is old, copies rely on the packs of each
/// other, one after the other and at once: no pack and no snapshot is there twice.
#[test]
fn copies_after_a_killed_prune_double_nothing() {
    for at_once in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (store, source, saved) = history(folder.path(), 4);
        let names: Vec<SnapshotName> = saved.iter().map(|(name, _)| name.clone()).collect();
        let clock = TestClock::new();
        let memory = Arc::new(MemoryStorage::new(clock.clone()));
        let target = Store::init(memory.clone(), clock.clone()).unwrap();
        memory.put_new(&format!("pruning/{:032x}", 5), b"").unwrap();
        let storage = MortalStorage::new(memory.clone(), u64::MAX);
        let second = Store::open(storage.clone(), clock).unwrap();
        if at_once {
            // The other one does all of its work when this one has put its second pack.
            let (store, target, names) = (store.clone(), target.clone(), names.clone());
            let count = std::sync::atomic::AtomicU64::new(0);
            storage.watch(move |call, object| {
                let is_pack = call == Call::Change && object.starts_with("packs/");
                if is_pack && count.fetch_add(1, Ordering::SeqCst) == 1 {
                    store.copy_to(&target, &names).unwrap();
                }
                Fate::Done
            });
        } else {
            store.copy_to(&target, &names).unwrap();
        }
        store.copy_to(&second, &names).unwrap();
        let steps: Vec<u64> = target.snapshots().unwrap().iter().map(|name| name.step).collect();
        let (packs, wanted) = (objects_in(&*memory, "packs"), objects_in(&*source, "packs"));
        // The one that was being put when the other one came may be there twice.
        let spare = usize::from(at_once);
        assert!(packs.len() <= wanted.len() + spare, "{} of {}", packs.len(), wanted.len());
        assert!(steps.len() <= 4 + spare, "{steps:?}");
        for name in target.snapshots().unwrap() {
            check_restores(&target, &name, &saved[name.step as usize].1);
        }
    }
}

/// What a killed copy has put beside a killed prune is relied on while its lease is young, and
/// after that no more: a prune may have taken that lease for one of the dead.
#[test]
fn packs_of_a_killed_copy_are_relied_on_while_its_lease_is_young() {
    for hours in [1, 13] {
        let folder = tempfile::tempdir().unwrap();
        let (store, source, saved) = history(folder.path(), 2);
        let names: Vec<SnapshotName> = saved.iter().map(|(name, _)| name.clone()).collect();
        let clock = TestClock::new();
        let memory = Arc::new(MemoryStorage::new(clock.clone()));
        let target = Store::init(memory.clone(), clock.clone()).unwrap();
        memory.put_new(&format!("pruning/{:032x}", 5), b"").unwrap();
        // Its lease and its pack, and then it is killed.
        let mortal = MortalStorage::new(memory.clone(), 2);
        let killed = Store::open(mortal, clock.clone()).unwrap();
        store.copy_to(&killed, &names[..1]).unwrap_err();
        assert_eq!(objects_in(&*memory, "packs").len(), 1);
        assert_eq!(objects_in(&*memory, "pending").len(), 1);
        clock.pass_hours(hours);
        store.copy_to(&target, &names).unwrap();
        let spare = usize::from(hours > 12);
        let wanted = objects_in(&*source, "packs").len() + spare;
        assert_eq!(objects_in(&*memory, "packs").len(), wanted, "after {hours} hours");
        for name in target.snapshots().unwrap() {
            check_restores(&target, &name, &saved[name.step as usize].1);
        }
    }
}
