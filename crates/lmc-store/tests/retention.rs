//! Forget and prune remove what no rule keeps and nothing that anyone needs.

use crate::common::*;
use lmc_store::storage::Storage;
use lmc_store::{CheckOptions, ErrorKind, Keep, PruneOptions, SaveOptions, SnapshotName, Store};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// A run of snapshots on each other.
fn run(store: &Store, folder: &std::path::Path, steps: &[u32]) -> Vec<(SnapshotName, PathBuf)> {
    let save = |step: &u32| {
        let root = folder.join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 6000, 1, *step));
        (save_step(store, &root, "r", u64::from(*step)).name, root)
    };
    steps.iter().map(save).collect()
}

fn forget(store: &Store, keep: Keep) -> Vec<u64> {
    let plan = store.plan_forget(&keep, None).unwrap();
    store.forget(&plan.forgotten).unwrap();
    store.snapshots().unwrap().iter().map(|name| name.step).collect()
}

/// What is kept restores after what it was coded against is gone, and space comes back.
#[test]
fn prune_keeps_what_is_needed() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(forget(&store, Keep { last: Some(1), every: Some(4), ..Keep::default() }), [4, 8]);
    clock.pass_hours(48);
    let pruned = store.prune(&PruneOptions::default()).unwrap();
    assert_eq!(pruned.snapshots.len(), 6);
    for i in [3, 7] {
        check_restores(&store, &saved[i].0, &saved[i].1);
    }
    assert_eq!(objects_in(&*storage, "snapshots").len(), 2);
    assert!(objects_in(&*storage, "forgotten").is_empty());
    assert!(objects_in(&*storage, "pruning").is_empty());

    // A run that starts afresh needs nothing of the one before.
    let root = folder.path().join("fresh");
    write(&root.join("model.safetensors"), &checkpoint(&["x"], 6000, 77, 0));
    let options =
        SaveOptions { parent: lmc_store::Parent::None, run: "r".into(), ..SaveOptions::default() };
    let fresh = save(&store, &root, SaveOptions { step: Some(9), ..options });
    assert_eq!(forget(&store, Keep { last: Some(1), ..Keep::default() }), [9]);
    let before = stored(&*storage, "packs");
    clock.pass_hours(48);
    let pruned = store.prune(&PruneOptions::default()).unwrap();
    assert!(pruned.bytes > 0 && stored(&*storage, "packs") == before - pruned.bytes);
    check_restores(&store, &fresh.name, &root);
}

/// Rules add up, count numbers as numbers, and never take the newest of a run.
#[test]
fn the_newest_is_never_removed() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[8, 9, 10, 99, 100]);
    store.tag(&saved[1].0, "good").unwrap();
    let steps: Vec<u64> = store.snapshots().unwrap().iter().map(|name| name.step).collect();
    assert_eq!(steps, [8, 9, 10, 99, 100]);
    let tagged = Keep { last: Some(2), tags: ["good".to_string()].into(), ..Keep::default() };
    assert_eq!(forget(&store, tagged), [9, 99, 100]);
    assert_eq!(forget(&store, Keep { last: Some(0), ..Keep::default() }), [100]);
    assert_eq!(forget(&store, Keep { every: Some(1000), ..Keep::default() }), [100]);
    assert_eq!(forget(&store, Keep { within_ms: Some(0), ..Keep::default() }), [100]);
    // After a step back both the newest and the highest stay.
    run(&store, folder.path(), &[50]);
    assert_eq!(forget(&store, Keep { last: Some(0), ..Keep::default() }), [100, 50]);
}

/// What is young stays, and a dry run changes nothing but says the same.
#[test]
fn grace() {
    let (store, storage, clock) = memory_store();
    storage.put_new(&lmc_store::PackName::of(b"orphan", 0).object(), b"orphan").unwrap();
    let pruned = store.prune(&PruneOptions::default()).unwrap();
    assert_eq!((pruned.packs.len(), pruned.bytes_young), (0, 6));
    clock.pass_hours(25);
    let empty = PruneOptions { allow_empty: true, ..PruneOptions::default() };
    let dry = PruneOptions { dry_run: true, ..empty };
    assert_eq!(store.prune(&dry).unwrap().packs.len(), 1);
    assert_eq!(objects_in(&*storage, "packs").len(), 1);
    assert_eq!(store.prune(&empty).unwrap().packs.len(), 1);
    assert!(objects_in(&*storage, "packs").is_empty());
}

/// Any folder that cannot be listed and any manifest that cannot be read stops a prune.
#[test]
fn errors_stop_a_prune() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2, 3]);
    forget(&store, Keep { last: Some(1), ..Keep::default() });
    clock.pass_hours(48);
    let objects = |folder: &str| objects_in(&*storage, folder).len();
    let (packs, snapshots) = (objects("packs"), objects("snapshots"));
    let mortal = MortalStorage::new(storage.clone(), u64::MAX);
    let other = Store::open(mortal.clone(), clock.clone()).unwrap();
    for folder in ["packs", "snapshots", "forgotten", "pending"] {
        *mortal.unlistable.lock().unwrap() = Some(folder.to_string());
        assert_eq!(other.prune(&PruneOptions::default()).unwrap_err().kind, ErrorKind::Io);
    }
    *mortal.unlistable.lock().unwrap() = None;
    let object = saved[2].0.object().unwrap();
    let good = storage.read_all(&object, 1 << 20).unwrap();
    storage.replace(&object, b"rotten").unwrap();
    let error = other.prune(&PruneOptions::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert!(error.to_string().contains("nothing was removed"), "{error}");
    assert_eq!((objects("packs"), objects("snapshots")), (packs, snapshots));
    storage.replace(&object, &good).unwrap();
    other.prune(&PruneOptions::default()).unwrap();
    check_restores(&store, &saved[2].0, &saved[2].1);
}

/// A prune that dies at any moment leaves every snapshot that is shown whole, and the next one
/// finishes its work.
#[test]
fn killed_prunes() {
    for changes in 1..14 {
        let (store, storage, clock) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let saved = run(&store, folder.path(), &[1, 2, 3]);
        let orphan = lmc_store::PackName::of(b"orphan", 0).object();
        storage.put_new(&orphan, b"orphan").unwrap();
        forget(&store, Keep { last: Some(1), ..Keep::default() });
        clock.pass_hours(48);
        let mortal = MortalStorage::new(storage.clone(), changes);
        let dying = Store::open(mortal, clock.clone()).unwrap();
        let _ = dying.prune(&PruneOptions::default());
        assert_eq!(store.snapshots().unwrap().len(), 1);
        check_restores(&store, &saved[2].0, &saved[2].1);
        clock.pass_hours(48);
        store.prune(&PruneOptions::default()).unwrap();
        assert_eq!(storage.stat(&orphan).unwrap(), None);
        assert!(objects_in(&*storage, "pruning").is_empty());
        check_restores(&store, &saved[2].0, &saved[2].1);
    }
}

/// A running save keeps its parent, even if that is forgotten and pruned meanwhile.
#[test]
fn prune_beside_a_save() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2]);
    // Old enough that only the lease protects them.
    clock.pass_hours(48);
    let root = folder.path().join("next");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 6000, 1, 3));
    write(&root.join("other.bin"), &[5; 3000]);
    let pruner = Store::open(storage.clone(), clock.clone()).unwrap();
    let newer = folder.path().join("newer");
    write(&newer.join("x"), b"x");
    // The first file that is coded finds the parent forgotten and everything pruned.
    let once = std::sync::Once::new();
    let progress = |_| {
        once.call_once(|| {
            save_step(&pruner, &newer, "r", 100);
            assert_eq!(forget(&pruner, Keep { last: Some(1), ..Keep::default() }), [100]);
            let now = PruneOptions { grace_ms: Some(0), ..PruneOptions::default() };
            pruner.prune(&now).unwrap();
        });
    };
    let parent = lmc_store::Parent::Snapshot(saved[1].0.clone());
    let options = SaveOptions { run: "r".into(), parent, ..SaveOptions::default() };
    let new = watched(&store, &progress, |store| store.save(&root, &options)).unwrap();
    check_restores(&store, &new.name, &root);
    clock.pass_hours(48);
    store.prune(&PruneOptions::default()).unwrap();
    check_restores(&store, &new.name, &root);
    assert!(objects_in(&*storage, "pending").is_empty());
}

/// Of two prunes one removes a pack, a save puts the same bytes again, and the other one, which has
/// the pack in its list, continues: what was saved stays.
#[test]
fn two_prunes_beside_a_save() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2]);
    let (old, root) = saved[0].clone();
    // Nothing of it is needed by the one after it.
    let alone = SaveOptions { parent: lmc_store::Parent::None, ..SaveOptions::default() };
    store.forget(&[old, saved[1].0.clone()]).unwrap();
    clock.pass_hours(48);
    let slow = MortalStorage::new(storage, u64::MAX);
    let slow_pruner = Store::open(slow.clone(), clock).unwrap();
    let (other, from, once) = (store.clone(), root.clone(), std::sync::Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots") {
            // It has seen all that it looks at.
            once.call_once(|| {
                let pruned = other.prune(&PruneOptions::default()).unwrap();
                assert!(!pruned.packs.is_empty());
                save(&other, &from, alone.clone());
            });
        }
        Fate::Done
    });
    slow_pruner.prune(&PruneOptions::default()).unwrap();
    check_restores(&store, &store.find("latest").unwrap(), &root);
}

/// A save whose lease was taken for that of a dead one does not commit.
#[test]
fn a_save_that_slept_too_long_fails() {
    let (store, _, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 6000, 1, 3));
    let sleep = |_| clock.pass_hours(13);
    let options = SaveOptions::default();
    let failed = watched(&store, &sleep, |store| store.save(&root, &options)).unwrap_err();
    assert_eq!(failed.kind, ErrorKind::Conflict);
    assert!(store.snapshots().unwrap().is_empty());
    save(&store, &root, SaveOptions::default());
}

/// The leases of dead saves and what they left go in time.
#[test]
fn dead_saves_are_cleaned_up() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 6000, 1, 3));
    // The lease and the pack, and then nothing more.
    let mortal = MortalStorage::new(storage.clone(), 2);
    let dying = Store::open(mortal.clone(), clock.clone()).unwrap();
    assert!(dying.save(&root, &SaveOptions::default()).is_err());
    assert_eq!(mortal.packs_put.load(Ordering::SeqCst), 1);
    let objects = |folder: &str| objects_in(&*storage, folder).len();
    assert_eq!((objects("pending"), objects("packs")), (1, 1));
    // Even a prune without grace leaves what a running save may have put.
    let now = PruneOptions { grace_ms: Some(0), ..PruneOptions::default() };
    store.prune(&now).unwrap();
    assert_eq!((objects("pending"), objects("packs")), (1, 1));
    clock.pass_hours(25);
    store.prune(&PruneOptions { allow_empty: true, ..PruneOptions::default() }).unwrap();
    assert_eq!((objects("pending"), objects("packs")), (0, 0));
}

/// A rebase that was cut off leaves a snapshot and its copy; together they count as one.
#[test]
fn twins_of_a_rebase_count_once() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2, 3]);
    let options = SaveOptions::default();
    store.rebase(&saved[2].0, &options).unwrap();
    storage.delete(&[saved[2].0.forgotten()]).unwrap();
    assert_eq!(forget(&store, Keep { last: Some(2), ..Keep::default() }), [2, 3, 3]);
}

/// Optimizer state goes first: weights stay as they are, and its packs are freed.
#[test]
fn optimizer_state_is_thinned() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let mut saved = Vec::new();
    for step in 1..=4_u32 {
        let root = folder.path().join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["w"], 6000, 1, step));
        write(&root.join("optimizer.pt"), &checkpoint(&["m"], 6000, 100 + u64::from(step), 0));
        write(&root.join("config.json"), b"{}");
        saved.push((save_step(&store, &root, "r", u64::from(step)).name, root));
    }
    store.tag(&saved[0].0, "best").unwrap();
    let keep = Keep { last: Some(1), every: Some(3), ..Keep::default() };
    let planned = store.plan_thin(&store.snapshots().unwrap(), &keep).unwrap();
    let going: Vec<SnapshotName> = planned.iter().map(|thinned| thinned.name.clone()).collect();
    assert_eq!(going, [saved[0].0.clone(), saved[1].0.clone()]);
    assert!(planned.iter().all(|thinned| thinned.files[0].to_string() == "optimizer.pt"));
    let before = stored(&*storage, "packs");
    for name in &going {
        store.thin(name).unwrap();
    }
    let names = store.snapshots().unwrap();
    let steps: Vec<u64> = names.iter().map(|name| name.step).collect();
    assert_eq!(steps, [1, 2, 3, 4]);
    assert!(store.tags().unwrap()[&names[0].id].contains("best"));
    assert!(store.plan_thin(&names, &keep).unwrap().is_empty(), "each is thinned once");
    assert_eq!(store.thin(&names[0]).unwrap_err().kind, ErrorKind::InvalidArgument);
    clock.pass_hours(48);
    let pruned = store.prune(&PruneOptions::default()).unwrap();
    assert_eq!(pruned.snapshots.len(), 2);
    // The values of the two that went are random in all but their sign and a few bits.
    assert!(pruned.bytes > before / 4, "{} of {before} bytes came back", pruned.bytes);
    for (name, (_, root)) in names.iter().zip(&saved) {
        assert_eq!(store.manifest(name).unwrap().is_thinned, name.step < 3);
        if name.step < 3 {
            std::fs::remove_file(root.join("optimizer.pt")).unwrap();
        }
        check_restores(&store, name, root);
    }
    assert!(store.check(&CheckOptions { read_percent: 100 }).unwrap().is_clean());
}

/// Many in one run are on several pages; the next one still continues from the newest.
#[test]
fn long_runs_have_pages() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("step");
    for step in 0..530_u64 {
        write(&root.join("state.json"), step.to_string().as_bytes());
        // Steps go back now and then, as those of a run that is resumed do.
        let saved = save_step(&store, &root, "long", step % 500);
        assert_eq!(saved.name.page, step / 256);
        let parent = saved.parent.map(|parent| parent.step);
        assert_eq!(parent, step.checked_sub(1).map(|before| before % 500));
    }
    let mut pages = storage.folders("snapshots/long").unwrap();
    pages.sort();
    assert_eq!(pages, ["00000000", "00000001", "00000002"]);
    let names = store.snapshots().unwrap();
    let steps: Vec<u64> = names.iter().map(|name| name.step).collect();
    assert_eq!(steps, (0..530).map(|step| step % 500).collect::<Vec<u64>>());
    check_restores(&store, &names[529], &root);

    // All of the last page but the newest is forgotten, and so is much before.
    let keep = Keep { last: Some(1), every: Some(100), ..Keep::default() };
    let plan = store.plan_forget(&keep, None).unwrap();
    store.forget(&plan.forgotten).unwrap();
    let parent = save_step(&store, &root, "long", 30).parent.unwrap();
    assert_eq!(parent, names[529]);
    clock.pass_hours(48);
    store.prune(&PruneOptions::default()).unwrap();
    let saved = save_step(&store, &root, "long", 31);
    assert_eq!((saved.parent.unwrap().step, saved.name.page), (30, 2));
}

/// A damaged lease stops prunes while its save may live, and no longer.
#[test]
fn damaged_leases_grow_old_too() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2]);
    let lease = format!("pending/{:032x}", 7);
    storage.put_new(&lease, b"{\"save\"rot").unwrap();
    let error = store.prune(&PruneOptions::default()).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.to_string().contains(&lease), "{error}");
    assert!(storage.stat(&lease).unwrap().is_some());
    clock.pass_hours(48);
    assert_eq!(store.prune(&PruneOptions::default()).unwrap().leftovers, 1);
    assert!(storage.stat(&lease).unwrap().is_none());
    for (name, root) in &saved {
        check_restores(&store, name, root);
    }
}

/// A copy brings back what was forgotten, though the mark of the old one is still there.
#[test]
fn copies_of_what_was_forgotten() {
    let (store, _, _) = memory_store();
    let (target, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2, 3]);
    let names = store.snapshots().unwrap();
    store.copy_to(&target, &names).unwrap();
    assert_eq!(target.snapshots().unwrap(), names, "a copy has the id of what it is of");
    assert_eq!(forget(&target, Keep { last: Some(1), ..Keep::default() }), [3]);
    for _ in 0..2 {
        store.copy_to(&target, &names).unwrap();
        let steps: Vec<u64> = target.snapshots().unwrap().iter().map(|name| name.step).collect();
        assert_eq!(steps, [1, 2, 3]);
    }
    clock.pass_hours(48);
    assert_eq!(target.prune(&PruneOptions::default()).unwrap().snapshots.len(), 2);
    for (name, (_, root)) in target.snapshots().unwrap().iter().zip(&saved) {
        check_restores(&target, name, root);
    }
    // Beside a prune, which may remove what it has listed, names are new as well.
    assert_eq!(forget(&target, Keep { last: Some(1), ..Keep::default() }), [3]);
    target.prune(&PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }).unwrap();
    storage.put_new(&format!("pruning/{:032x}", 5), b"").unwrap();
    let copied = store.copy_to(&target, &names).unwrap().snapshots;
    assert!(copied.iter().all(|copy| names.iter().all(|name| name.id != copy.id)));
}

/// A tag is given, or it is an error; a snapshot that takes the place of another has its tags.
#[test]
fn tags_are_not_lost() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let saved = run(&store, folder.path(), &[1, 2]);
    store.tag(&saved[0].0, "first").unwrap();
    let options = SaveOptions::default();
    let new = store.rebase(&saved[0].0, &options).unwrap();
    assert!(store.tags().unwrap()[&new.id].contains("first"));
    let error = store.tag(&saved[0].0, "late").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
    storage.delete(&[saved[1].0.object().unwrap()]).unwrap();
    assert_eq!(store.tag(&saved[1].0, "late").unwrap_err().kind, ErrorKind::Conflict);
    // Of what is gone, a prune removes them.
    clock.pass_hours(48);
    store.prune(&PruneOptions::default()).unwrap();
    assert!(storage.names("tags/late").unwrap().is_empty());
}

/// What is not named as lmc names it is not lmc's to remove.
#[test]
fn strangers_stay() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    run(&store, folder.path(), &[1]);
    let strangers = ["forgotten/thesis.txt", "tags/a/b/thesis.txt", "pruning/thesis.txt"];
    for name in strangers {
        storage.put_new(name, b"precious").unwrap();
    }
    clock.pass_hours(100);
    store.prune(&PruneOptions::default()).unwrap();
    assert!(strangers.iter().all(|name| storage.stat(name).unwrap().is_some()));
}
