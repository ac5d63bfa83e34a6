//! Tags beside prunes, forgets and whatever takes the place of a snapshot: a command that says that
//! a tag is there has given it for good.

use crate::common::*;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{ErrorKind, Keep, Parent, PruneOptions, SaveOptions, SnapshotName, Store};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};

fn now() -> PruneOptions {
    PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }
}

/// Tags of these names.
fn named(tags: &[&str]) -> BTreeSet<String> {
    tags.iter().map(|tag| tag.to_string()).collect()
}

/// The tags of a snapshot that is there.
fn tags_of(store: &Store, name: &SnapshotName) -> BTreeSet<String> {
    assert!(store.snapshots().unwrap().contains(name));
    store.tags().unwrap().remove(&name.id).unwrap_or_default()
}

fn source(folder: &Path) -> PathBuf {
    let root = folder.join("source");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    root
}

/// The store as a process sees it that stands still for thirty hours right before it puts its first
/// manifest, while another one prunes.
fn sleeper(store: &Store, storage: &Arc<MemoryStorage>, clock: &Arc<TestClock>) -> Store {
    let slow = MortalStorage::new(storage.clone(), u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let (pruner, clock, once) = (store.clone(), clock.clone(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots/") {
            once.call_once(|| {
                clock.pass_hours(30);
                pruner.prune(&PruneOptions::default()).unwrap();
            });
        }
        Fate::Done
    });
    sleeper
}

/// A save, a rebase and a copy that stood still right before the commit, and need no pack that a
/// prune has removed meanwhile: they are done, and their snapshots have all tags.
#[test]
fn whatever_slept_before_its_commit_has_its_tags() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let (store, storage, clock) = memory_store();
    let first = save_step(&store, &root, "r", 1).name;
    let tags = named(&["keep", "best"]);
    let options = SaveOptions { run: "r".into(), tags: tags.clone(), ..SaveOptions::default() };
    let saved = save(&sleeper(&store, &storage, &clock), &root, options);
    assert_eq!(tags_of(&store, &saved.name), tags, "save");

    let options = SaveOptions::default();
    let slow = sleeper(&store, &storage, &clock);
    let rebased = slow.rebase(&saved.name, &options).unwrap();
    assert_eq!(tags_of(&store, &rebased), tags, "rebase");

    let (target, storage, clock) = memory_store();
    store.copy_to(&target, &[first]).unwrap();
    let slow = sleeper(&target, &storage, &clock);
    let copied = store.copy_to(&slow, std::slice::from_ref(&rebased)).unwrap();
    assert_eq!(tags_of(&target, &copied.snapshots[0]), tags, "copy");
}

/// A tag that is older than grace and has no snapshot stays while a save is running, whose
/// snapshot may be the one that is tagged. When no save is, it goes.
#[test]
fn a_prune_takes_no_tag_from_a_save_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let (store, storage, clock) = memory_store();
    save_step(&store, &root, "r", 1);
    let slow = MortalStorage::new(storage.clone(), u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let (pruner, passing, looked) = (store.clone(), clock.clone(), storage.clone());
    let (between, before) = (Once::new(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("tags/second") {
            // The lease is made again after that.
            between.call_once(|| passing.pass_hours(11));
        } else if call == Call::Change && name.starts_with("snapshots/") {
            before.call_once(|| {
                passing.pass_hours(14);
                assert_eq!(pruner.prune(&PruneOptions::default()).unwrap().leases, 1);
                assert_eq!(objects_in(&*looked, "tags").len(), 2);
            });
        }
        Fate::Done
    });
    let tags = named(&["first", "second"]);
    let options = SaveOptions { run: "r".into(), tags: tags.clone(), ..SaveOptions::default() };
    let saved = save(&sleeper, &root, options);
    assert_eq!(tags_of(&store, &saved.name), tags);

    let lost = saved.name.tag("lost").unwrap().replace("/r/", "/other/");
    storage.put_new(&lost, b"").unwrap();
    clock.pass_hours(30);
    store.prune(&PruneOptions::default()).unwrap();
    assert!(storage.stat(&lost).unwrap().is_none());
    assert_eq!(tags_of(&store, &saved.name), tags);
}

/// A tag that is given while a rebase is about to mark the old snapshot goes with it, though a
/// prune comes before the rebase has looked for such tags.
#[test]
fn a_tag_given_beside_a_rebase_is_not_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let (store, storage, clock) = memory_store();
    let options =
        SaveOptions { tags: named(&["early"]), parent: Parent::None, ..SaveOptions::default() };
    let name = save(&store, &root, options).name;
    let slow = MortalStorage::new(storage, u64::MAX);
    let rebasing = Store::open(slow.clone(), clock).unwrap();
    let (other, old) = (store.clone(), name.clone());
    let (tagged, pruned) = (Once::new(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("forgotten/") {
            tagged.call_once(|| other.tag(&old, "late").unwrap());
        } else if call == Call::List && name == "tags" && tagged.is_completed() {
            pruned.call_once(|| drop(other.prune(&now()).unwrap()));
        }
        Fate::Done
    });
    let options = SaveOptions::default();
    let rebased = rebasing.rebase(&name, &options).unwrap();
    assert_eq!(tags_of(&store, &rebased), named(&["early", "late"]));
    store.prune(&now()).unwrap();
    assert_eq!(tags_of(&store, &rebased), named(&["early", "late"]));
}

/// A tag is given at every moment of a forget that keeps what has it: either that is refused, or
/// the snapshot is kept.
#[test]
fn a_tag_given_beside_a_forget_keeps_its_snapshot_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let keep = Keep { tags: named(&["keep"]), ..Keep::default() };
    let (mut given, mut refused) = (0, 0);
    for moment in 0.. {
        let (store, storage, clock) = memory_store();
        let names: Vec<SnapshotName> =
            (1..5).map(|step| save_step(&store, &root, "r", step).name).collect();
        let slow = MortalStorage::new(storage.clone(), u64::MAX);
        let forgetting = Store::open(slow.clone(), clock).unwrap();
        let (other, name) = (store.clone(), names[1].clone());
        let (calls, tagged) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
        let (counted, told) = (calls.clone(), tagged.clone());
        slow.watch(move |_, _| {
            if counted.fetch_add(1, Ordering::SeqCst) == moment {
                told.set(other.tag(&name, "keep").map_err(|e| e.kind)).unwrap();
            }
            Fate::Done
        });
        let plan = forgetting.plan_forget(&keep, None).unwrap();
        let done = forgetting.forget_planned(plan, &keep).unwrap();
        let there = store.snapshots().unwrap();
        let Some(tagged) = tagged.get() else { break };
        match tagged {
            Ok(()) => {
                assert!(there.contains(&names[1]) && done.kept.contains(&names[1]), "{moment}");
                given += 1;
            }
            Err(kind) => {
                assert_eq!(*kind, ErrorKind::Conflict);
                refused += 1;
            }
        }
        assert_eq!(there.len(), done.kept.len(), "{moment}: {done:?}");
        assert!(!there.contains(&names[0]) && !there.contains(&names[2]), "{moment}");
        assert!(there.contains(&names[3]));
    }
    assert!(given > 3 && refused > 0, "{given} {refused}");
}

/// A forget that cannot look for tags after its mark takes the mark back.
#[test]
fn a_mark_without_a_look_after_it_is_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let (store, storage, clock) = memory_store();
    (1..4).for_each(|step| drop(save_step(&store, &root, "r", step)));
    let keep = Keep { tags: named(&["keep"]), ..Keep::default() };
    let slow = MortalStorage::new(storage, u64::MAX);
    let forgetting = Store::open(slow.clone(), clock).unwrap();
    let plan = forgetting.plan_forget(&keep, None).unwrap();
    assert_eq!(plan.forgotten.len(), 2);
    let looks = AtomicU64::new(0);
    slow.watch(move |_, name| {
        let is_second = name.starts_with("tags/") && looks.fetch_add(1, Ordering::SeqCst) == 1;
        if is_second { Fate::Fails } else { Fate::Done }
    });
    assert!(forgetting.forget_planned(plan, &keep).is_err());
    assert_eq!(store.snapshots().unwrap().len(), 3);
}
