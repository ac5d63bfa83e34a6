//! Looking needs no right to write, and calls nothing damaged that was removed rightly.

use crate::common::*;
use lmc_store::storage::Storage;
use lmc_store::{CheckOptions, PruneOptions, SnapshotName, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ALL: CheckOptions = CheckOptions { read_percent: 100 };

fn history(store: &Store, folder: &std::path::Path) -> Vec<(SnapshotName, PathBuf)> {
    let save = |step: u64| {
        let root = folder.join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 10 + step, 0));
        (save_step(store, &root, &format!("run{step}"), step).name, root)
    };
    (1..=3).map(save).collect()
}

/// A snapshot is forgotten and pruned at any moment of a check or of a repair: nothing is called
/// damaged, nothing is moved, and no file is said to be lost.
#[test]
fn what_was_removed_rightly_is_not_damage() {
    let looks: [&dyn Fn(&Store); 2] = [
        &|store| {
            let checked = store.check(&ALL).unwrap();
            assert!(checked.is_clean(), "{checked:?}");
        },
        &|store| {
            let repaired = store.repair(None, false).unwrap();
            assert!(repaired.after.is_clean() && repaired.moved.is_empty(), "{repaired:?}");
            assert!(repaired.lost.is_empty() && repaired.packs.is_empty(), "{repaired:?}");
        },
    ];
    for look in looks {
        for moment in 0.. {
            let (store, storage, clock) = memory_store();
            let folder = tempfile::tempdir().unwrap();
            let saved = history(&store, folder.path());
            clock.pass_hours(48);
            let watched = MortalStorage::new(storage, u64::MAX);
            let looker = Store::open(watched.clone(), clock.clone()).unwrap();
            let calls = Arc::new(AtomicU64::new(0));
            let (counted, remover, name) = (calls.clone(), store.clone(), saved[1].0.clone());
            watched.watch(move |_, _| {
                if counted.fetch_add(1, Ordering::SeqCst) == moment {
                    remover.forget(std::slice::from_ref(&name)).unwrap();
                    assert_eq!(remover.prune(&PruneOptions::default()).unwrap().packs.len(), 1);
                }
                Fate::Done
            });
            look(&looker);
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
        }
    }
}

/// What is really missing is said, of snapshots that are there alone.
#[test]
fn what_is_missing_is_said() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = history(&store, folder.path());
    let pack = store.manifest(&saved[1].0).unwrap().packs[0].name.object();
    storage.delete(std::slice::from_ref(&pack)).unwrap();
    let checked = store.check(&ALL).unwrap();
    assert_eq!(checked.damaged[0].1.object, pack);
    assert_eq!(checked.hurt[0].snapshot, saved[1].0);
    store.forget(std::slice::from_ref(&saved[1].0)).unwrap();
    assert!(store.check(&ALL).unwrap().is_clean());
}

/// A list of snapshots, a check and the dry runs of prune, forget and repair work where nothing may
/// be written.
#[test]
fn looking_needs_no_right_to_write() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = history(&store, folder.path());
    store.forget(std::slice::from_ref(&saved[0].0)).unwrap();
    clock.pass_hours(48);
    let before = storage.list("packs").unwrap();
    let sealed = MortalStorage::new(storage.clone(), u64::MAX);
    sealed.watch(|call, _| if call == Call::Change { Fate::Fails } else { Fate::Done });
    let reader = Store::open(sealed, clock).unwrap();
    assert_eq!(reader.snapshots().unwrap().len(), 2);
    assert!(reader.check(&ALL).unwrap().is_clean());
    let dry = PruneOptions { dry_run: true, ..PruneOptions::default() };
    let pruned = reader.prune(&dry).unwrap();
    assert_eq!((pruned.snapshots.len(), pruned.packs.len()), (1, 1));
    assert!(reader.repair(None, true).unwrap().after.is_clean());
    reader.plan_forget(&Default::default(), None).unwrap();
    assert_eq!(storage.list("packs").unwrap(), before);
    assert!(reader.prune(&PruneOptions::default()).is_err());
    // The real one does what the dry one said.
    let done = store.prune(&PruneOptions::default()).unwrap();
    assert_eq!((done.snapshots, done.packs), (pruned.snapshots, pruned.packs));
}
