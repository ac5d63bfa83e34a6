//! Snapshots that several processes save together.

use crate::common;
use crate::common::{TestClock, checkpoint, memory_store, objects_in};
use lmc_store::{
    ErrorKind, MemoryFile, Parent, PartialSnapshot, PruneOptions, RelPath, SaveOptions, Saved,
    Store,
};
use std::collections::BTreeMap;

fn path(text: &str) -> RelPath {
    RelPath::new(text.as_bytes()).unwrap()
}

fn file<'a>(name: &str, bytes: &'a [u8], like: &[&str]) -> MemoryFile<'a> {
    let like = like.iter().map(|text| path(text)).collect();
    MemoryFile { path: path(name), parts: vec![bytes], like }
}

fn options(step: u64) -> SaveOptions {
    SaveOptions { step: Some(step), ..SaveOptions::default() }
}

fn part(store: &Store, files: &[MemoryFile], options: &SaveOptions) -> PartialSnapshot {
    let part = store.save_part(files, options).unwrap();
    // As another process gets it.
    PartialSnapshot::read(&part.write().unwrap()).unwrap()
}

fn commit(store: &Store, parts: &[PartialSnapshot], step: u64) -> Saved {
    let index = format!("index of step {step}");
    let files = [file("index.json", index.as_bytes(), &[])];
    store.commit_parts(parts, &files, &options(step)).unwrap()
}

fn restored(store: &Store, saved: &Saved) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    store.restore(&saved.name, &target, &Default::default()).unwrap();
    let tree = common::tree(&target).into_iter().filter(|(_, (kind, ..))| *kind == 'f');
    tree.map(|(name, (_, _, bytes))| (String::from_utf8(name).unwrap(), bytes)).collect()
}

/// A snapshot in two parts, and one on it whose files are arranged in another way: found by what
/// they are said to be like, each is a delta.
#[test]
fn parts_become_one_snapshot() {
    let (store, storage, _) = memory_store();
    let (a, b) = (checkpoint(&["a"], 50_000, 1, 0), checkpoint(&["b"], 50_000, 2, 0));
    let parts = [
        part(&store, &[file("model/0.safetensors", &a, &[])], &options(0)),
        part(&store, &[file("model/1.safetensors", &b, &[])], &options(0)),
    ];
    assert!(store.snapshots().unwrap().is_empty());
    let first = commit(&store, &parts, 1);
    let found = restored(&store, &first);
    assert_eq!(found.len(), 3);
    assert!(found["model/0.safetensors"] == a && found["model/1.safetensors"] == b);
    assert_eq!(found["index.json"], b"index of step 1");

    let (a, b) = (checkpoint(&["a"], 50_000, 1, 3), checkpoint(&["b"], 50_000, 2, 4));
    let on = SaveOptions { parent: Parent::Preferred(first.name.clone()), ..options(0) };
    let parts = [
        part(&store, &[file("model/0.safetensors", &b, &["model/1.safetensors"])], &on),
        part(
            &store,
            &[file("model/1.safetensors", &a, &["model/1.safetensors", "model/0.safetensors"])],
            &on,
        ),
    ];
    let second = commit(&store, &parts, 2);
    let found = restored(&store, &second);
    assert!(found["model/0.safetensors"] == b && found["model/1.safetensors"] == a);
    assert!(second.name.added < first.name.added / 2, "{first:?} {second:?}");
    assert_eq!(second.parent.as_ref(), Some(&first.name));
    assert!(objects_in(&*storage, "pending").is_empty());
}

/// A prune between the parts and the commit takes nothing that they need, whatever its grace is;
/// what was given up goes.
#[test]
fn prunes_keep_parts() {
    let (store, storage, clock) = memory_store();
    let (a, b) = (checkpoint(&["a"], 9000, 1, 0), checkpoint(&["b"], 9000, 2, 0));
    let kept = part(&store, &[file("0", &a, &[])], &options(0));
    let abandoned = part(&store, &[file("1", &b, &[])], &options(0));
    let now = PruneOptions { grace_ms: Some(0), ..PruneOptions::default() };
    assert!(store.prune(&now).unwrap().packs.is_empty());
    store.abandon_parts(std::slice::from_ref(&abandoned)).unwrap();
    assert!(store.prune(&now).unwrap().packs.is_empty(), "another part is being saved");
    let saved = commit(&store, std::slice::from_ref(&kept), 1);
    clock.pass_hours(1);
    assert_eq!(store.prune(&now).unwrap().packs.len(), 1);
    assert!(restored(&store, &saved)["0"] == a);
    assert!(objects_in(&*storage, "pending").is_empty());
}

/// Parts that were left for too long, or whose lease is gone, are not committed; the snapshot
/// before stays the newest, and the next save works.
#[test]
fn old_parts_are_refused() {
    let (store, storage, clock) = memory_store();
    let a = checkpoint(&["a"], 9000, 1, 0);
    let first = commit(&store, &[part(&store, &[file("0", &a, &[])], &options(0))], 1);
    let late = part(&store, &[file("1", &a, &[])], &options(0));
    clock.pass_hours(13);
    let lost = part(&store, &[file("2", &a, &[])], &options(0));
    store.abandon_parts(std::slice::from_ref(&lost)).unwrap();
    for part in [late, lost] {
        let error = store.commit_parts(&[part], &[], &options(2)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert_eq!(store.newest("main").unwrap(), Some(first.name.clone()));
    }
    let again = commit(&store, &[part(&store, &[file("1", &a, &[])], &options(0))], 2);
    assert!(restored(&store, &again)["1"] == a);
    // Only the lease of the part that came too late is left, until it is old.
    assert_eq!(objects_in(&*storage, "pending").len(), 1);
    clock.pass_hours(13);
    store.prune(&PruneOptions::default()).unwrap();
    assert!(objects_in(&*storage, "pending").is_empty());
}

/// A parent that is gone when a part is stored is done without; one that is demanded is not.
#[test]
fn parents_that_go() {
    let (store, _, _) = memory_store();
    let a = checkpoint(&["a"], 9000, 1, 0);
    let first = commit(&store, &[part(&store, &[file("0", &a, &[])], &options(0))], 1);
    store.forget(std::slice::from_ref(&first.name)).unwrap();
    let preferred = SaveOptions { parent: Parent::Preferred(first.name.clone()), ..options(0) };
    let alone = part(&store, &[file("0", &a, &[])], &preferred);
    assert_eq!(alone.warnings.len(), 1, "{:?}", alone.warnings);
    assert!(restored(&store, &commit(&store, &[alone], 2))["0"] == a);
    let demanded = SaveOptions { parent: Parent::Snapshot(first.name), ..options(0) };
    let error = store.save_part(&[file("0", &a, &[])], &demanded).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict);
}

/// A file in two parts, and text that is not a part, are refused.
#[test]
fn wrong_parts() {
    let (store, storage, _) = memory_store();
    let twice = || part(&store, &[file("model/0", b"bytes", &[])], &options(0));
    let error = store.commit_parts(&[twice(), twice()], &[], &options(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(store.snapshots().unwrap().is_empty());
    let text = twice().write().unwrap();
    let lease = objects_in(&*storage, "pending")[0].clone();
    for (good, bad) in [
        ("model/0", "../0"),
        ("\"archive\":0", "\"archive\":7"),
        ("pending/", "snapshots/"),
        ("pending/", "pending/../"),
        ("\"leases\":[", "\"leases\":[],\"more\":["),
        ("{", "["),
    ] {
        let bad = text.replacen(good, bad, 1);
        assert!(PartialSnapshot::read(&bad).is_err(), "{bad}");
    }
    assert!(PartialSnapshot::read("").is_err() && lease.starts_with("pending/"));
}

/// Clocks of other machines do not matter: ages are told by that of the storage.
#[test]
fn other_clocks() {
    let (store, storage, clock) = memory_store();
    let a = checkpoint(&["a"], 9000, 1, 0);
    let elsewhere: std::sync::Arc<TestClock> = clock.later(100);
    let other = Store::open(storage, elsewhere).unwrap();
    let parts = [part(&other, &[file("0", &a, &[])], &options(0))];
    assert!(restored(&store, &commit(&store, &parts, 1))["0"] == a);
}
