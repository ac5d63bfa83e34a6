//! Absence is not evidence: nothing is removed because a folder, a list or the end of an
//! object is missing, and a repair moves whole objects, which come back.

use crate::common::*;
use lmc_store::storage::{LocalStorage, MemoryStorage, Storage};
use lmc_store::{
    Advice, CONFIG_NAME, CheckOptions, ErrorKind, Keep, PruneOptions, Repaired, SnapshotName,
    Store, SystemClock,
};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// Snapshots, and what was saved.
type Saved = Vec<(SnapshotName, PathBuf)>;

/// Whatever nobody needs is old enough.
fn now() -> PruneOptions {
    PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }
}

/// Snapshots of three steps that have nothing in common.
fn history(store: &Store, folder: &Path) -> Saved {
    let save = |step: u64| {
        let root = folder.join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 10 + step, 0));
        (save_step(store, &root, &format!("run{step}"), step).name, root)
    };
    (1..=3).map(save).collect()
}

/// A store in memory with three snapshots.
fn in_memory() -> (Store, Arc<MemoryStorage>, Arc<TestClock>, Saved, tempfile::TempDir) {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = history(&store, folder.path());
    (store, storage, clock, saved, folder)
}

/// All packs of a store that is in a directory.
fn packs(root: &Path) -> usize {
    LocalStorage::new(root)
        .names("packs")
        .unwrap()
        .iter()
        .filter(|name| !name.contains("/."))
        .count()
}

/// Whichever folder that decides what is needed was renamed or is not mounted: a prune is an error
/// that names it and removes nothing, and works again when the folder is back.
#[test]
fn a_prune_without_one_of_its_folders_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let clock = Arc::new(SystemClock);
    let store = Store::init(Arc::new(LocalStorage::new(&root)), clock).unwrap();
    let saved = history(&store, folder.path());
    let before = packs(&root);
    for missing in ["snapshots", "pending", "damaged", "tags"] {
        let away = folder.path().join("away");
        fs::rename(root.join(missing), &away).unwrap();
        let dry = PruneOptions { dry_run: true, ..now() };
        for options in [now(), dry] {
            let error = store.prune(&options).unwrap_err();
            assert!(error.to_string().contains(&format!("{missing}/")), "{error}");
        }
        assert_eq!(packs(&root), before, "{missing}");
        if root.join(missing).exists() {
            fs::remove_dir_all(root.join(missing)).unwrap();
        }
        fs::rename(&away, root.join(missing)).unwrap();
    }
    store.prune(&now()).unwrap();
    assert_eq!(packs(&root), before);
    for (name, root) in &saved {
        check_restores(&store, name, root);
    }
}

/// Without the folder of snapshots nothing says "no snapshots" or "no damage".
#[test]
fn a_store_without_its_snapshots_is_not_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (store, _) = local_store(&root);
    history(&store, folder.path());
    fs::rename(root.join("snapshots"), folder.path().join("away")).unwrap();
    assert!(store.snapshots().is_err());
    assert!(store.snapshots_of("run1").is_err());
    assert!(store.find("latest").is_err());
    assert!(store.check(&ALL).is_err());
    assert!(store.repair(None, false).is_err());
    let source = folder.path().join("step1");
    assert!(store.save(&source, &Default::default()).is_err());
}

/// A store that some other tool copies, packs first: a prune in the middle of that removes nothing.
#[test]
fn a_store_copied_packs_first_loses_no_pack() {
    let (_, storage, clock, saved, _folder) = in_memory();
    clock.pass_hours(100);
    let copy = Arc::new(MemoryStorage::new(clock.clone()));
    let copy_over = |folder: &str| {
        for name in storage.names(folder).unwrap() {
            copy.replace(&name, &storage.read_all(&name, 1 << 28).unwrap()).unwrap();
        }
    };
    copy.replace(CONFIG_NAME, &storage.read_all(CONFIG_NAME, 1 << 16).unwrap()).unwrap();
    let half = Store::open(copy.clone(), clock.clone()).unwrap();
    for folder in ["forgotten", "packs", "pending", "pruning", "damaged", "tags"] {
        copy_over(folder);
        clock.pass_hours(100);
        assert!(half.prune(&now()).is_err(), "after {folder}");
    }
    copy_over("snapshots");
    half.prune(&now()).unwrap();
    for (name, root) in &saved {
        check_restores(&half, name, root);
    }
}

/// Packs and not one snapshot: a prune stops, in a store of an earlier version too, unless it is
/// told that the store is empty.
#[test]
fn a_prune_that_sees_packs_and_no_snapshot_stops() {
    let (store, storage, clock, saved, _folder) = in_memory();
    let before = storage.names("packs").unwrap().len();
    clock.pass_hours(48);
    let manifests: Vec<String> = saved.iter().map(|(name, _)| name.object().unwrap()).collect();
    let good: Vec<Vec<u8>> =
        manifests.iter().map(|object| storage.read_all(object, 1 << 20).unwrap()).collect();
    storage.delete(&manifests).unwrap();
    let error = store.prune(&PruneOptions::default()).unwrap_err();
    assert_eq!(error.advice(), Some(Advice::AllowEmpty), "{error}");
    assert_eq!(storage.names("packs").unwrap().len(), before);
    for (object, bytes) in manifests.iter().zip(&good) {
        storage.put_new(object, bytes).unwrap();
    }
    store.prune(&PruneOptions::default()).unwrap();
    assert_eq!(storage.names("packs").unwrap().len(), before);
}

/// Tags that cannot be seen keep nothing from being forgotten, so that a rule about tags is an
/// error then.
#[test]
fn rules_about_tags_need_the_folder_of_tags() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (store, _) = local_store(&root);
    let source = folder.path().join("source");
    write(&source.join("x"), b"x");
    let first = save_step(&store, &source, "r", 1).name;
    save_step(&store, &source, "r", 2);
    store.tag(&first, "best").unwrap();
    fs::rename(root.join("tags"), folder.path().join("away")).unwrap();
    let keep = Keep { tags: ["best".to_string()].into(), ..Keep::default() };
    let error = store.plan_forget(&keep, None).unwrap_err();
    assert!(error.to_string().contains("tags/"), "{error}");
}

/// A manifest that grew past what is read is moved whole, and is there with all its bytes.
#[test]
fn a_manifest_that_is_too_long_is_moved_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (store, _) = local_store(&root);
    let (name, source) = history(&store, folder.path()).swap_remove(1);
    let key = name.key().unwrap();
    let path = root.join("snapshots").join(&key);
    let good = fs::read(&path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len((256 << 20) + 1).unwrap();
    let repaired = store.repair(None, false).unwrap();
    assert_eq!(repaired.moved, [name.object().unwrap()]);
    let moved = root.join("damaged").join(&key);
    assert_eq!(fs::metadata(&moved).unwrap().len(), (256 << 20) + 1);
    // Cut to what it was, it is good, and the next repair finds that out.
    fs::OpenOptions::new().write(true).open(&moved).unwrap().set_len(good.len() as u64).unwrap();
    store.prune(&now()).unwrap();
    let repaired = store.repair(None, false).unwrap();
    assert_eq!(repaired.manifests, [name.object().unwrap()]);
    assert!(!moved.exists());
    check_restores(&store, &name, &source);
}

/// However long an object in `damaged/` is, a prune keeps the packs that it names, at its very end
/// too, and does not read it to find them.
#[test]
fn a_long_object_in_damaged_keeps_all_its_packs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let clock = Arc::new(SystemClock);
    let store = Store::init(Arc::new(LocalStorage::new(&root)), clock).unwrap();
    let (name, source) = history(&store, folder.path()).swap_remove(1);
    let key = name.key().unwrap();
    let path = root.join("snapshots").join(&key);
    let good = fs::read(&path).unwrap();
    // The manifest comes after more zeros than can be read.
    let zeros = (1 << 42) + 12_345;
    let file = fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    file.write_all_at(&good, zeros).unwrap();
    assert_eq!(store.repair(None, false).unwrap().moved, [name.object().unwrap()]);
    let before = packs(&root);
    let pruned = store.prune(&now()).unwrap();
    assert_eq!((pruned.packs.len(), packs(&root)), (0, before));
    let moved = format!("damaged/{key}");
    assert_eq!(pruned.too_long, std::slice::from_ref(&moved));
    // A forgotten snapshot goes nevertheless.
    let dry = PruneOptions { dry_run: true, ..now() };
    let first = store.snapshots().unwrap().swap_remove(0);
    store.forget(std::slice::from_ref(&first)).unwrap();
    let pruned = store.prune(&dry).unwrap();
    assert_eq!((pruned.packs.len(), pruned.snapshots), (0, vec![first]));
    fs::write(root.join(moved), &good).unwrap();
    assert!(store.repair(None, false).unwrap().after.is_clean());
    check_restores(&store, &name, &source);
}

/// A single read that ends early moves no manifest, and no check calls it damaged.
#[test]
fn one_read_that_ends_early_is_read_again() {
    let (_, storage, clock, saved, _folder) = in_memory();
    for number in 0..3 {
        let flaky = MortalStorage::new(storage.clone(), u64::MAX);
        let reads = AtomicU64::new(0);
        flaky.watch(move |call, name| {
            let is_read = call == Call::Read && name.starts_with("snapshots/run2");
            // Every object is looked at and then read.
            let ends = is_read && reads.fetch_add(1, Ordering::SeqCst) == number;
            if ends { Fate::EndsEarly } else { Fate::Done }
        });
        let store = Store::open(flaky, clock.clone()).unwrap();
        let repaired = store.repair(None, false).unwrap();
        assert_eq!((repaired.moved.len(), repaired.after.is_clean()), (0, true), "{repaired:?}");
    }
    let store = Store::open(storage, clock).unwrap();
    for (name, root) in &saved {
        check_restores(&store, name, root);
    }
}

/// What lies in `damaged/` keeps its packs and its tags through a prune, and comes back by itself
/// once its bytes are right.
#[test]
fn what_is_in_damaged_keeps_its_packs_and_its_tags() {
    let (store, storage, clock, saved, _folder) = in_memory();
    let (name, root) = &saved[1];
    store.tag(name, "best").unwrap();
    let object = name.object().unwrap();
    let damaged = object.replacen("snapshots", "damaged", 1);
    let good = storage.read_all(&object, 1 << 20).unwrap();
    let before = storage.names("packs").unwrap();
    // The name of the run is wrong by a letter: the hash does not fit, all else can be read.
    let parsable = String::from_utf8(good.clone()).unwrap().replacen("run2", "runX", 1);
    let mut torn = good.clone();
    torn[0] = b'!';
    for bad in [parsable.into_bytes(), torn] {
        storage.replace(&object, &bad).unwrap();
        let Repaired { moved, .. } = store.repair(None, false).unwrap();
        assert_eq!(moved, std::slice::from_ref(&object));
        assert_eq!(storage.read_all(&damaged, 1 << 20).unwrap(), bad);
        clock.pass_hours(100);
        store.prune(&now()).unwrap();
        assert_eq!(storage.names("packs").unwrap(), before);
        storage.replace(&damaged, &good).unwrap();
        let Repaired { manifests, after, .. } = store.repair(None, false).unwrap();
        assert_eq!(manifests, std::slice::from_ref(&object));
        assert!(after.is_clean() && storage.stat(&damaged).unwrap().is_none());
        check_restores(&store, name, root);
        assert!(store.tags().unwrap()[&name.id].contains("best"));
    }
}

/// A snapshot that `repair --from` brings back has the tags that it had, and retention goes by
/// them.
#[test]
fn tags_survive_repair_prune_and_repair_from_a_copy() {
    let (store, storage, clock, saved, folder) = in_memory();
    let (other, _, _) = memory_store();
    store.copy_to(&other, &store.snapshots().unwrap()).unwrap();
    let newer = folder.path().join("newer");
    write(&newer.join("x"), b"x");
    save_step(&store, &newer, "run2", 9);
    let (name, root) = &saved[1];
    store.tag(name, "best").unwrap();
    storage.replace(&name.object().unwrap(), b"rot").unwrap();
    store.repair(None, false).unwrap();
    clock.pass_hours(100);
    store.prune(&PruneOptions::default()).unwrap();
    store.repair(Some(&other), false).unwrap();
    let keep = Keep { tags: ["best".to_string()].into(), ..Keep::default() };
    let plan = store.plan_forget(&keep, Some("run2")).unwrap();
    assert_eq!(plan.forgotten, []);
    check_restores(&store, name, root);
}

/// A tag that was there before is not taken away by a call that comes too late to give it.
#[test]
fn a_tag_that_is_refused_takes_no_older_one_away() {
    let (store, storage, _, saved, _folder) = in_memory();
    let (name, _) = &saved[0];
    store.tag(name, "best").unwrap();
    store.forget(std::slice::from_ref(name)).unwrap();
    assert_eq!(store.tag(name, "best").unwrap_err().kind, ErrorKind::Conflict);
    assert!(storage.stat(&name.tag("best").unwrap()).unwrap().is_some());
}

/// A repair moves a damaged manifest at any moment of a prune, or brings it back: no pack goes.
#[test]
fn a_repair_beside_a_prune_loses_no_pack() {
    for is_back in [false, true] {
        for moment in 0.. {
            let (store, storage, clock, saved, _folder) = in_memory();
            let (name, root) = &saved[1];
            let object = name.object().unwrap();
            let good = storage.read_all(&object, 1 << 20).unwrap();
            let before = storage.names("packs").unwrap();
            storage.replace(&object, &[b"x", &good[..]].concat()).unwrap();
            if is_back {
                store.repair(None, false).unwrap();
                let damaged = object.replacen("snapshots", "damaged", 1);
                storage.replace(&damaged, &good).unwrap();
            }
            clock.pass_hours(100);
            let watched = MortalStorage::new(storage.clone(), u64::MAX);
            let pruner = Store::open(watched.clone(), clock.clone()).unwrap();
            let calls = Arc::new(AtomicU64::new(0));
            let (counted, repairer) = (calls.clone(), store.clone());
            watched.watch(move |_, _| {
                if counted.fetch_add(1, Ordering::SeqCst) == moment {
                    // Beside a prune it may refuse to bring anything back.
                    let _ = repairer.repair(None, false);
                }
                Fate::Done
            });
            let _ = pruner.prune(&now());
            assert_eq!(storage.names("packs").unwrap(), before, "moment {moment}");
            if let Some(damaged) = objects_in(&*storage, "damaged").pop() {
                storage.replace(&damaged, &good).unwrap();
            }
            storage.replace(&object, &good).unwrap();
            store.repair(None, false).unwrap();
            check_restores(&store, name, root);
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
        }
    }
}
