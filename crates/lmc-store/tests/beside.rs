//! Commands beside each other: what a command said when it ended is true after all of them.

use crate::common::watched::{Moment, WatchedDisk};
use crate::common::*;
use lmc_store::storage::{LocalStorage, MemoryStorage, Storage};
use lmc_store::{
    Clock, ErrorKind, Forgotten, Keep, Parent, PruneOptions, Result, SaveOptions, SnapshotName,
    Store, SystemClock,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::{fs, io};

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

fn tagged(tags: &[&str]) -> Keep {
    let tags = tags.iter().map(|tag| tag.to_string()).collect();
    Keep { tags, ..Keep::default() }
}

/// Forgets what `keep` does not keep.
fn forget(store: &Store, keep: &Keep) -> Result<Forgotten> {
    store.forget_planned(store.plan_forget(keep, None)?, keep)
}

fn rebase(store: &Store, name: &SnapshotName) -> Result<SnapshotName> {
    let options = SaveOptions::default();
    store.rebase(name, &options)
}

/// The snapshots of a step that are shown and have a tag.
fn with_tag(store: &Store, step: u64, tag: &str) -> Vec<SnapshotName> {
    let (mut names, tags) = (store.snapshots().unwrap(), store.tags().unwrap());
    names.retain(|name| {
        name.step == step && tags.get(&name.id).is_some_and(|tags| tags.contains(tag))
    });
    names
}

/// A store, beside which something is done once, before one of its calls; and how many it made.
fn beside(
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    moment: u64,
    act: impl Fn() + Send + Sync + 'static,
) -> (Store, Arc<AtomicU64>) {
    let slow = MortalStorage::new(storage, u64::MAX);
    let store = Store::open(slow.clone(), clock).unwrap();
    let calls = Arc::<AtomicU64>::default();
    let counted = calls.clone();
    slow.watch(move |_, _| {
        if counted.fetch_add(1, Ordering::SeqCst) == moment {
            act();
        }
        Fate::Done
    });
    (store, calls)
}

/// A store in a directory, the same on a disk that tells, and that disk.
fn in_directory(root: &Path) -> (Store, Store, Arc<WatchedDisk>) {
    let storage = Arc::new(LocalStorage::new(root));
    let store = Store::init(storage, Arc::new(SystemClock)).unwrap();
    let (storage, disk) = WatchedDisk::below(root);
    (store, Store::open(storage, Arc::new(SystemClock)).unwrap(), disk)
}

/// A damaged manifest that a repair has moved away a moment ago, by a rename or by a hard link, is
/// put back by a copy or by another repair: it stays.
#[test]
fn a_repair_leaves_alone_what_came_into_the_place_of_a_manifest() {
    for (by_copy, by_link) in [(true, false), (false, false), (true, true), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, watched, disk) = in_directory(&root);
        let names = save_steps(&store, folder.path(), 1..3);
        let (other, _, _) = memory_store();
        store.copy_to(&other, &names).unwrap();
        let manifest = root.join(names[0].object().unwrap());
        fs::write(&manifest, b"rot").unwrap();
        disk.links.store(by_link, Ordering::SeqCst);
        let (healing, only) = (store.clone(), names[..1].to_vec());
        disk.watch(move |moment, path| {
            if moment == Moment::Renamed && path == manifest {
                match by_copy {
                    true => drop(other.copy_to(&healing, &only).unwrap()),
                    false => drop(healing.repair(Some(&other), false).unwrap()),
                }
            }
            Ok(())
        });
        watched.repair(None, false).unwrap();
        check_restores(&store, &names[0], &source(folder.path(), 1));
    }
}

/// At every call of a rebase and of leaving out optimizer state, the old snapshot is given a tag,
/// and what has no such tag is forgotten: if both are done, there is a snapshot with that tag.
#[test]
fn a_tag_that_keeps_the_old_snapshot_keeps_one_of_the_two() {
    let folder = tempfile::tempdir().unwrap();
    let replacements: [fn(&Store, &SnapshotName) -> Result<SnapshotName>; 2] =
        [rebase, |store, name| store.thin(name)];
    for (number, replace) in replacements.into_iter().enumerate() {
        let (mut given, mut refused) = (0, 0);
        for moment in 0.. {
            let (store, storage, clock) = memory_store();
            let names = save_steps(&store, folder.path(), 1..3);
            let done = Arc::new(Mutex::new(false));
            let (told, other, name) = (done.clone(), store.clone(), names[0].clone());
            let (slow, calls) = beside(storage, clock, moment, move || {
                *told.lock().unwrap() = other.tag(&name, "best").is_ok();
                forget(&other, &tagged(&["best"])).unwrap();
            });
            let replaced = replace(&slow, &names[0]);
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
            store.prune(&NOW).unwrap();
            if *done.lock().unwrap() {
                given += 1;
                assert!(!with_tag(&store, 1, "best").is_empty(), "{number} {moment}: {replaced:?}");
            }
            match replaced {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e.kind, ErrorKind::Conflict, "{e}");
                    refused += 1;
                }
            }
        }
        assert!(given > 3 && refused > 0, "{given} {refused}");
    }
}

/// At every call of a copy, another one brings the same snapshot without its tag, and what has no
/// such tag is forgotten in the target, and pruned: a copy that is done is there with its tag.
#[test]
fn a_copy_that_is_forgotten_meanwhile_is_not_done() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, _) = memory_store();
    let names = save_steps(&store, folder.path(), 1..3);
    let (plain, _, _) = memory_store();
    store.copy_to(&plain, &names).unwrap();
    store.tag(&names[0], "best").unwrap();
    for is_pruned in [false, true] {
        let (mut done, mut refused) = (0, 0);
        for moment in 0.. {
            let (target, storage, clock) = memory_store();
            let (all, plain, other) = (names.clone(), plain.clone(), target.clone());
            let (slow, calls) = beside(storage, clock, moment, move || {
                plain.copy_to(&other, &all).unwrap();
                forget(&other, &tagged(&["best"])).unwrap();
                if is_pruned {
                    other.prune(&NOW).unwrap();
                }
            });
            let copied = store.copy_to(&slow, &names[..1]);
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
            match copied {
                Ok(copied) => {
                    done += 1;
                    let there = with_tag(&target, 1, "best");
                    assert!(!there.is_empty(), "{is_pruned} {moment}: {copied:?}");
                    check_restores(&target, &there[0], &source(folder.path(), 1));
                }
                Err(e) => {
                    refused += 1;
                    assert_eq!(e.kind, ErrorKind::Conflict, "{e}");
                }
            }
        }
        // What is gone already can come again.
        assert!(done > 3 && (refused > 0 || is_pruned), "{done} {refused}");
    }
}

/// A save that slept before its commit puts its tags again, and what has none of them is forgotten
/// before that: a save that is done is there with its tags.
#[test]
fn tags_that_are_put_again_after_a_sleep_are_not_too_late() {
    let folder = tempfile::tempdir().unwrap();
    let (store, storage, clock) = memory_store();
    save_steps(&store, folder.path(), 1..2);
    let slow = MortalStorage::new(storage, u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let (other, place, passing) = (store.clone(), folder.path().to_path_buf(), clock);
    let (slept, forgot) = (Once::new(), Arc::new(Once::new()));
    let forgotten = forgot.clone();
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots/") {
            slept.call_once(|| {
                passing.pass_hours(30);
                other.prune(&PruneOptions::default()).unwrap();
            });
        } else if call == Call::Change && name.starts_with("tags/") && slept.is_completed() {
            forgotten.call_once(|| {
                save_steps(&other, &place, 9..10);
                forget(&other, &tagged(&["best"])).unwrap();
            });
        }
        Fate::Done
    });
    let tags = BTreeSet::from(["best".to_string()]);
    let (run, step) = ("r".to_string(), Some(2));
    // The same files as before, so that no pack is missing.
    let options = SaveOptions { run, step, tags, ..SaveOptions::default() };
    let error = sleeper.save(&source(folder.path(), 1), &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(forgot.is_completed() && with_tag(&store, 2, "best").is_empty());
}

/// What cannot be restored, because its manifest or a pack is damaged or missing, is not all that a
/// run is left with: the newest that can be is kept as well.
#[test]
fn a_forget_keeps_the_newest_that_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let damages: [fn(&MemoryStorage, &str, &str); 4] = [
        |storage, manifest, _| storage.replace(manifest, b"rot").unwrap(),
        |storage, _, pack| storage.replace(pack, b"cut").unwrap(),
        |storage, _, pack| storage.delete(&[pack.to_string()]).unwrap(),
        |_, _, _| (),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let (store, storage, _) = memory_store();
        let names = save_steps(&store, folder.path(), 1..5);
        let pack = store.manifest(&names[3]).unwrap().packs[0].name.object();
        damage(&storage, &names[3].object().unwrap(), &pack);
        let last = Keep { last: Some(1), ..Keep::default() };
        let kept = forget(&store, &last).unwrap().kept;
        let first = if number == 3 { 3 } else { 2 };
        assert_eq!(kept, names[first..], "{number}");
        assert_eq!(store.snapshots().unwrap(), names[first..], "{number}");
    }
}

/// A save that slept past grace takes its snapshot back. A forget that sees it for a moment leaves
/// the run another one.
#[test]
fn a_forget_beside_a_save_that_is_taken_back_leaves_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (store, storage, clock) = memory_store();
    let names = save_steps(&store, folder.path(), 1..3);
    let slow = MortalStorage::new(storage, u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let (other, passing, slept, forgot) = (store.clone(), clock, Once::new(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots/") {
            slept.call_once(|| {
                passing.pass_hours(30);
                other.prune(&PruneOptions::default()).unwrap();
            });
        } else if slept.is_completed() && name.starts_with("pending/") {
            forgot.call_once(|| {
                assert_eq!(other.snapshots().unwrap().len(), 3);
                forget(&other, &Keep { last: Some(1), ..Keep::default() }).unwrap();
            });
        }
        Fate::Done
    });
    let (run, parent) = ("r".to_string(), Parent::None);
    let options = SaveOptions { run, parent, step: Some(3), ..SaveOptions::default() };
    sleeper.save(&source(folder.path(), 3), &options).unwrap_err();
    assert_eq!(store.snapshots().unwrap(), names[1..]);
    check_restores(&store, &names[1], &source(folder.path(), 2));
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

/// On a full disk something that is not a file of its own is in the place of the reserve: a hard
/// link to a file elsewhere, a link, a pipe. That file keeps its bytes, and nobody waits for the
/// pipe.
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

/// At every call of a repair that has a good copy, another one without a copy moves the damaged
/// manifest away: the snapshot is back when the first one is done.
#[test]
fn a_repair_from_a_copy_brings_back_what_another_one_moves() {
    let folder = tempfile::tempdir().unwrap();
    for moment in 0.. {
        let (store, storage, clock) = memory_store();
        let names = save_steps(&store, folder.path(), 1..3);
        let (other, _, _) = memory_store();
        store.copy_to(&other, &names).unwrap();
        storage.replace(&names[0].object().unwrap(), b"rot").unwrap();
        let second = store.clone();
        let (slow, calls) = beside(storage, clock, moment, move || {
            second.repair(None, false).unwrap();
        });
        let repaired = slow.repair(Some(&other), false).unwrap();
        assert!(store.snapshots().unwrap().contains(&names[0]), "{moment}: {repaired:?}");
        check_restores(&store, &names[0], &source(folder.path(), 1));
        if calls.load(Ordering::SeqCst) <= moment {
            break;
        }
    }
}

/// At every call of a repair without a copy, a copy puts the damaged manifest right: it is in its
/// place when both are done.
#[test]
fn a_repair_keeps_what_a_copy_puts_right() {
    let folder = tempfile::tempdir().unwrap();
    for moment in 0.. {
        let (store, storage, clock) = memory_store();
        let names = save_steps(&store, folder.path(), 1..3);
        let (other, _, _) = memory_store();
        store.copy_to(&other, &names).unwrap();
        storage.replace(&names[0].object().unwrap(), b"rot").unwrap();
        let (target, only) = (store.clone(), names[..1].to_vec());
        let (slow, calls) = beside(storage, clock, moment, move || {
            other.copy_to(&target, &only).unwrap();
        });
        let repaired = slow.repair(None, false).unwrap();
        if calls.load(Ordering::SeqCst) <= moment {
            break;
        }
        assert!(store.snapshots().unwrap().contains(&names[0]), "{moment}: {repaired:?}");
        check_restores(&store, &names[0], &source(folder.path(), 1));
    }
}

/// Each lease of a rebase fails in turn: there is no snapshot more than before.
#[test]
fn a_rebase_without_a_lease_leaves_no_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    for failing in 0.. {
        let (store, storage, clock) = memory_store();
        let names = save_steps(&store, folder.path(), 1..3);
        let slow = MortalStorage::new(storage, u64::MAX);
        let rebasing = Store::open(slow.clone(), clock).unwrap();
        let puts = AtomicU64::new(0);
        slow.watch(move |call, name| {
            let is_lease = call == Call::Change && name.starts_with("pending/");
            match is_lease && puts.fetch_add(1, Ordering::SeqCst) == failing {
                true => Fate::Fails,
                false => Fate::Done,
            }
        });
        let rebased = rebase(&rebasing, &names[0]);
        assert_eq!(store.snapshots().unwrap().len(), 2, "{failing}: {rebased:?}");
        if rebased.is_ok() {
            assert!(failing > 1);
            break;
        }
    }
}

/// A forget meets the mark of another one, which takes it back: what it says is forgotten is.
#[test]
fn a_mark_that_another_forget_takes_back_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    for is_planned in [true, false] {
        let (store, storage, clock) = memory_store();
        let names = save_steps(&store, folder.path(), 1..4);
        let slow = MortalStorage::new(storage.clone(), u64::MAX);
        let forgetting = Store::open(slow.clone(), clock).unwrap();
        let (first, second) = (names[0].forgotten(), names[1].forgotten());
        slow.watch(move |call, name| {
            if call == Call::Change && name == first {
                storage.put_new(&first, b"").unwrap();
            } else if call == Call::Change && name == second {
                storage.delete(std::slice::from_ref(&first)).unwrap();
            }
            Fate::Done
        });
        match is_planned {
            true => {
                let last = Keep { last: Some(1), ..Keep::default() };
                assert_eq!(forget(&forgetting, &last).unwrap().forgotten, names[..2]);
            }
            false => forgetting.forget(&names[..2]).unwrap(),
        }
        assert_eq!(store.snapshots().unwrap(), names[2..], "{is_planned}");
    }
}

/// At every call of a rebase, the old snapshot loses a tag: either that is refused, or the new one
/// has not got the tag.
#[test]
fn a_tag_that_is_taken_beside_a_rebase_is_gone_or_that_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mut taken, mut refused) = (0, 0);
    for moment in 0.. {
        let (store, storage, clock) = memory_store();
        let names = save_steps(&store, folder.path(), 1..3);
        ["best", "other"].into_iter().for_each(|tag| store.tag(&names[0], tag).unwrap());
        let told = Arc::new(Mutex::new(None));
        let (tell, other, name) = (told.clone(), store.clone(), names[0].clone());
        let (slow, calls) = beside(storage, clock, moment, move || {
            *tell.lock().unwrap() = Some(other.untag(&name, "best"));
        });
        let rebased = rebase(&slow, &names[0]).unwrap();
        if calls.load(Ordering::SeqCst) <= moment {
            break;
        }
        assert_eq!(with_tag(&store, 1, "other"), std::slice::from_ref(&rebased), "{moment}");
        match told.lock().unwrap().take().unwrap() {
            Ok(()) => {
                taken += 1;
                assert!(with_tag(&store, 1, "best").is_empty(), "{moment}");
            }
            Err(e) => {
                refused += 1;
                assert_eq!(e.kind, ErrorKind::Conflict, "{e}");
            }
        }
    }
    assert!(taken > 3 && refused > 0, "{taken} {refused}");
}
