//! Lists beside a snapshot that takes the place of another: one of the two is always seen.

use crate::common::*;
use lmc_store::storage::Storage;
use lmc_store::{Parent, PruneOptions, SaveOptions, SnapshotName, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a list says.
type Look = fn(&Store) -> Vec<u64>;

fn step(name: SnapshotName) -> u64 {
    name.step
}

/// All ways to look for snapshots; each says which steps it sees.
const LOOKS: [(&str, Look); 6] = [
    ("all", |store| store.snapshots().unwrap().into_iter().map(step).collect()),
    ("run", |store| store.snapshots_of("main").unwrap().into_iter().map(step).collect()),
    ("latest", |store| vec![step(store.find("latest").unwrap())]),
    ("main@2", |store| vec![step(store.find("main@2").unwrap())]),
    ("newest", |store| vec![step(store.newest("main").unwrap().unwrap())]),
    ("check", |store| {
        let checked = store.check(&Default::default()).unwrap();
        assert!(checked.is_clean());
        vec![checked.snapshots]
    }),
];

/// A store of two snapshots in memory, and what was saved.
fn two_snapshots() -> (Store, Arc<dyn Storage>, Arc<TestClock>, SnapshotName, tempfile::TempDir) {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let mut last = None;
    for step in 1..3 {
        let root: PathBuf = folder.path().join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, step, 0));
        let (step, parent) = (Some(step), Parent::None);
        last =
            Some(save(&store, &root, SaveOptions { step, parent, ..SaveOptions::default() }).name);
    }
    (store, storage, clock, last.unwrap(), folder)
}

/// A rebase of the latest snapshot at every call of a list: the list shows it, as it was or as it
/// is.
#[test]
fn a_snapshot_that_is_rebased_is_always_seen() {
    for (what, look) in LOOKS {
        for moment in 0.. {
            let (store, storage, clock, last, _folder) = two_snapshots();
            let wanted = look(&store);
            let slow = MortalStorage::new(storage, u64::MAX);
            let reader = Store::open(slow.clone(), clock).unwrap();
            let (calls, rebasing) = (Arc::new(AtomicU64::new(0)), store.clone());
            let counted = calls.clone();
            slow.watch(move |_, _| {
                if counted.fetch_add(1, Ordering::SeqCst) == moment {
                    let options = SaveOptions::default();
                    rebasing.rebase(&last, &options).unwrap();
                }
                Fate::Done
            });
            let mut seen = look(&reader);
            // Both may be seen for a moment.
            seen.dedup();
            assert!(seen == wanted || what == "check" && seen == [3], "{what} {moment}: {seen:?}");
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
        }
    }
}

/// A rebase and a prune right after it, at every call of a look for the newest: it is found, never
/// an older one.
#[test]
fn the_newest_is_found_beside_a_rebase_and_a_prune() {
    for text in ["latest", "main@latest", "main@2"] {
        for moment in 0.. {
            let (store, storage, clock, last, _folder) = two_snapshots();
            let slow = MortalStorage::new(storage, u64::MAX);
            let reader = Store::open(slow.clone(), clock).unwrap();
            let (calls, rebasing) = (Arc::new(AtomicU64::new(0)), store.clone());
            let counted = calls.clone();
            slow.watch(move |_, _| {
                if counted.fetch_add(1, Ordering::SeqCst) == moment {
                    let options = SaveOptions::default();
                    rebasing.rebase(&last, &options).unwrap();
                    let now = PruneOptions { grace_ms: Some(0), ..PruneOptions::default() };
                    assert_eq!(rebasing.prune(&now).unwrap().snapshots.len(), 1);
                }
                Fate::Done
            });
            assert_eq!(reader.find(text).map(step), Ok(2), "{text} {moment}");
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
        }
    }
}
