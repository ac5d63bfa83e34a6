//! Work grows with what there is, not with its square. Nothing here looks at a clock: where each
//! file walks through all archives that it needs, these tests take minutes instead of seconds.

use crate::common::*;
use lmc_store::storage::Storage;
use lmc_store::{CheckOptions, MemoryFile, PackName, Parent, RelPath, SaveOptions, Store};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn options(step: u64) -> SaveOptions {
    SaveOptions { step: Some(step), ..SaveOptions::default() }
}

/// Many files of which nothing is known, many that are the same as one, and many that are as they
/// were: each is planned for by itself.
#[test]
fn many_files_are_planned_one_by_one() {
    let (store, _, _) = memory_store();
    let path = |name: String| RelPath::new(name.as_bytes()).unwrap();
    let empty = |folder: &str, count: usize| -> Vec<MemoryFile> {
        let file = |i: usize| {
            let path = path(format!("{folder}/{i}.bin"));
            MemoryFile { path, parts: Vec::new(), like: Vec::new() }
        };
        (0..count).map(file).collect()
    };
    let saved = store.save_files(&empty("a", 100_000), &options(1)).unwrap();
    assert_eq!((saved.files, saved.unchanged), (100_000, 99_999));
    let saved = store.save_files(&empty("b", 100_000), &options(2)).unwrap();
    assert_eq!((saved.files, saved.unchanged), (100_000, 100_000));
}

/// A manifest made to cost time: many archives on no base, one archive on all of them, and many
/// files in that.
fn wide(pack: &PackName, pack_len: usize, count: usize) -> Value {
    let archive = |i: usize, bases: Vec<usize>| {
        json!({
            "hash": format!("{i:032x}"), "size": 1, "stored": 1, "alone": 1, "read": 1, "rent": 0,
            "bases": bases, "extents": [[0, i % pack_len, 1]],
        })
    };
    let mut archives: Vec<Value> = (0..count).map(|i| archive(i, Vec::new())).collect();
    archives.push(archive(count, (0..count).collect()));
    let file = |i: usize| {
        json!({
            "path": format!("{i:08}.bin"), "type": "file", "mode": 0o644, "mtime": [0, 0],
            "size": 1, "kind": "weights", "archive": count,
        })
    };
    json!({
        "format": 1, "run": "r", "step": 1, "time_ms": 1, "save": "s", "parent": null, "meta": {},
        "is_thinned": false, "is_file": false, "added": 0,
        "entries": (0..count).map(file).collect::<Value>(), "archives": archives,
        "packs": [[pack.as_str(), pack_len]],
    })
}

/// A hostile manifest of many files that need all archives is checked, coded against and copied
/// from with work in proportion to its size.
#[test]
fn wide_manifests_cost_no_more_than_their_size() {
    let (store, storage, _) = memory_store();
    let bytes = [7; 1000];
    let pack = PackName::of(&bytes, 0);
    storage.put_new(&pack.object(), &bytes).unwrap();
    let count = 20_000;
    let name = plant(&store, &wide(&pack, bytes.len(), count));
    let manifest = store.manifest(&name).unwrap();
    assert_eq!(manifest.files().count(), count);
    // The pack is damaged: each file is looked at for whether it needs it.
    storage.replace(&pack.object(), &[8; 1000]).unwrap();
    let all = CheckOptions { read_percent: 100 };
    assert_eq!(store.check(&all).unwrap().hurt.len(), count);
    // New files, for which the parent's are looked through, and files at the paths of the parent's.
    let file = |i: usize| {
        let (folder, i) = if i < 100 { ("", i) } else { ("new/", i) };
        let path = RelPath::new(format!("{folder}{i:08}.bin").as_bytes()).unwrap();
        MemoryFile { path, parts: vec![&bytes[..500]], like: Vec::new() }
    };
    let files: Vec<MemoryFile> = (0..2000).map(file).collect();
    let parent = Parent::Snapshot(name.clone());
    let saved = store.save_files(&files, &SaveOptions { parent, ..options(2) }).unwrap();
    assert_eq!(saved.unchanged, 1999);
    let (target, _, _) = memory_store();
    let copied = store.copy_to(&target, &[name, saved.name]).unwrap();
    assert_eq!((copied.snapshots.len(), copied.left_out.len()), (1, 1));
}

/// A copy lists the snapshots of the target once, and for each one that it copies only the page
/// that it goes to, however many there are.
#[test]
fn copies_do_not_list_a_run_for_each_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let (source, _, _) = memory_store();
    let root = folder.path().join("files");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 300, 1, 0));
    let names: Vec<_> = (0..20).map(|step| save_step(&source, &root, "r", step).name).collect();
    let (target, storage, clock) = memory_store();
    let counted = MortalStorage::new(storage, u64::MAX);
    let (lists, pages) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (all, single) = (lists.clone(), pages.clone());
    counted.watch(move |call, name| {
        if call == Call::List && name.starts_with("snapshots") {
            let count = if name == "snapshots/r/00000000" { &single } else { &all };
            count.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Done
    });
    let seen = Store::open(counted, clock).unwrap();
    assert_eq!(source.copy_to(&seen, &names).unwrap().snapshots.len(), 20);
    assert_eq!(lists.load(Ordering::SeqCst), 1);
    assert_eq!(pages.load(Ordering::SeqCst), 20);
    assert_eq!(source.copy_to(&seen, &names).unwrap().there, 20);
    assert_eq!(target.snapshots().unwrap(), names);
}
