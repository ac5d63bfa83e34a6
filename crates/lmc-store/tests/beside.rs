//! Commands beside each other: what a command said when it ended is true after all of them.

mod common;

use common::watched::{Moment, WatchedDisk};
use common::*;
use lmc_store::storage::LocalStorage;
use lmc_store::{Parent, PruneOptions, Result, SaveOptions, SnapshotName, Store, SystemClock};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whatever nobody needs is old enough.
const NOW: PruneOptions = PruneOptions { grace_ms: Some(0), dry_run: false, allow_empty: false };

/// A checkpoint of a step, with optimizer state.
fn source(folder: &Path, step: u64) -> PathBuf {
    let root = folder.join(format!("step{step}"));
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, step, 0));
    write(&root.join("optimizer.pt"), &checkpoint(&["m"], 1000, 100 + step, 0));
    root
}

/// Saves steps of a run, none on another.
fn save_steps(store: &Store, folder: &Path, steps: std::ops::Range<u64>) -> Vec<SnapshotName> {
    let options = |step| SaveOptions {
        run: "r".into(),
        step: Some(step),
        parent: Parent::None,
        ..SaveOptions::default()
    };
    steps.map(|step| save(store, &source(folder, step), options(step)).name).collect()
}

fn rebase(store: &Store, name: &SnapshotName) -> Result<SnapshotName> {
    let options = SaveOptions { threads: 1, ..SaveOptions::default() };
    store.rebase(name, &options, &|_| ())
}

/// A store in a directory, the same on a disk that tells, and that disk.
fn in_directory(root: &Path) -> (Store, Store, Arc<WatchedDisk>) {
    let storage = Arc::new(LocalStorage::new(root));
    let store = Store::init(storage, Arc::new(SystemClock)).unwrap();
    let (storage, disk) = WatchedDisk::below(root);
    (store, Store::open(storage, Arc::new(SystemClock)).unwrap(), disk)
}

/// A damaged manifest that a repair has moved away a moment ago, by a rename or by a hard link, is put
/// back by a copy or by another repair: it stays.
#[test]
fn a_repair_leaves_alone_what_came_into_the_place_of_a_manifest() {
    for (by_copy, by_link) in [(true, false), (false, false), (true, true), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, watched, disk) = in_directory(&root);
        let names = save_steps(&store, folder.path(), 1..3);
        let (other, _, _) = memory_store();
        store.copy_to(&other, &names, &|_| ()).unwrap();
        let manifest = root.join(names[0].object().unwrap());
        fs::write(&manifest, b"rot").unwrap();
        disk.links.store(by_link, Ordering::SeqCst);
        let (healing, only) = (store.clone(), names[..1].to_vec());
        disk.watch(move |moment, path| {
            if moment == Moment::Renamed && path == manifest {
                match by_copy {
                    true => drop(other.copy_to(&healing, &only, &|_| ()).unwrap()),
                    false => drop(healing.repair(Some(&other), false, 1).unwrap()),
                }
            }
            Ok(())
        });
        watched.repair(None, false, 1).unwrap();
        check_restores(&store, &names[0], &source(folder.path(), 1));
    }
}

/// A rebase and a prune while the names in a folder are read and not looked at yet: a list in a
/// directory, a check and a save see the new snapshot, or the old one.
#[test]
fn a_list_in_a_directory_sees_what_took_the_place_of_a_snapshot() {
    for moment in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let (store, watched, disk) = in_directory(&folder.path().join("store"));
        save_steps(&store, folder.path(), 1..4);
        let looks: [(&str, &dyn Fn() -> u64); 4] = [
            ("all", &|| watched.snapshots().unwrap().last().unwrap().step),
            ("run", &|| watched.snapshots_of("r").unwrap().last().unwrap().step),
            ("newest", &|| watched.newest("r").unwrap().unwrap().step),
            ("check", &|| watched.check(&Default::default()).unwrap().snapshots),
        ];
        let mut is_over = true;
        for (what, look) in looks {
            let (calls, rebasing) = (Arc::new(AtomicU64::new(0)), store.clone());
            let counted = calls.clone();
            disk.watch(move |told, path| {
                let is_part = |name: &str| path.components().any(|part| part.as_os_str() == name);
                let is_it = told == Moment::Names && (is_part("snapshots") || is_part("forgotten"));
                if is_it && counted.fetch_add(1, Ordering::SeqCst) == moment {
                    rebase(&rebasing, &rebasing.find("r@3").unwrap()).unwrap();
                    rebasing.prune(&NOW).unwrap();
                }
                Ok(())
            });
            assert_eq!(look(), 3, "{what} {moment}");
            is_over &= calls.load(Ordering::SeqCst) <= moment;
        }
        if is_over {
            break;
        }
    }
}

/// On a full disk something that is not a file of its own is in the place of the reserve: a hard link
/// to a file elsewhere, a link, a pipe. That file keeps its bytes, and nobody waits for the pipe.
#[test]
fn a_reserve_that_is_not_a_plain_file_is_given_up() {
    let places: [fn(&Path, &Path); 3] = [
        |outside, reserve| fs::hard_link(outside, reserve).unwrap(),
        |outside, reserve| std::os::unix::fs::symlink(outside, reserve).unwrap(),
        |_, reserve| make_pipe(reserve),
    ];
    for (number, make) in places.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("store"), folder.path().join("outside"));
        let (store, watched, disk) = in_directory(&root);
        let names = save_steps(&store, folder.path(), 1..3);
        fs::write(&outside, b"precious").unwrap();
        let reserve = root.join("reserve");
        fs::remove_file(&reserve).unwrap();
        make(&outside, &reserve);
        let place = reserve.clone();
        // There is no file left until the reserve is gone.
        disk.watch(move |moment, _| match moment {
            Moment::Create if place.symlink_metadata().is_ok() => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        });
        watched.forget(&names[..1]).unwrap();
        assert_eq!(watched.prune(&NOW).unwrap().snapshots, names[..1], "{number}");
        assert_eq!(fs::read(&outside).unwrap(), b"precious", "{number}");
        assert_eq!(fs::symlink_metadata(&reserve).unwrap().len(), 64 << 10);
        check_restores(&store, &names[1], &source(folder.path(), 2));
    }
}
