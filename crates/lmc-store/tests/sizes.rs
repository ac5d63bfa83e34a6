//! Manifests that say of packs, files and bases what is not true: whoever lies is named, and what
//! is shared with them is not called damaged.

use crate::common::*;
use lmc_store::storage::Storage;
use lmc_store::{CheckOptions, ErrorKind, SnapshotName, Store};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const QUICK: CheckOptions = CheckOptions { read_percent: 0 };
const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// Sizes that a pack of `size` bytes has not.
fn wrong(size: u64) -> [u64; 3] {
    [1 << 28, size + 1, size - 1]
}

fn source(folder: &Path) -> PathBuf {
    let root = folder.join("source");
    write(&root.join("a.bin"), &checkpoint(&["a"], 2000, 1, 0));
    write(&root.join("b.bin"), &checkpoint(&["b"], 1500, 2, 0));
    root
}

fn pack_size(manifest: &Value) -> u64 {
    manifest["packs"][0][1].as_u64().unwrap()
}

/// A manifest without the last file and its archive, so that its pack may be said to be shorter.
fn without_last(manifest: &mut Value) {
    let entries = manifest["entries"].as_array_mut().unwrap();
    let archive = entries.pop().unwrap()["archive"].as_u64().unwrap();
    let archives = manifest["archives"].as_array_mut().unwrap();
    assert_eq!(archive, archives.len() as u64 - 1);
    archives.pop();
}

/// A snapshot of a store with another size of its pack, and with the run `run`.
fn lie(store: &Store, name: &SnapshotName, run: &str, size: u64) -> SnapshotName {
    let mut manifest = manifest_json(store, name);
    manifest["run"] = json!(run);
    if size < pack_size(&manifest) {
        without_last(&mut manifest);
    }
    manifest["packs"][0][1] = json!(size);
    plant(store, &manifest)
}

/// A copy leaves out a snapshot that lies about the size of a pack, whether the target has that
/// pack or not, and in a bucket too; what the target has stays good, and a check says so.
#[test]
fn a_copy_takes_no_wrong_sizes_of_packs() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    for has_pack in [true, false] {
        for is_bucket in [false, true] {
            for number in 0..3 {
                let (hostile, _, _) = memory_store();
                let theirs = save_step(&hostile, &root, "r", 1).name;
                let size = wrong(pack_size(&manifest_json(&hostile, &theirs)))[number];
                let lie = lie(&hostile, &theirs, "r", size);
                let (mut target, storage, clock) = memory_store();
                if is_bucket {
                    target = Store::open(MortalStorage::new(storage, u64::MAX), clock).unwrap();
                }
                if has_pack {
                    save_step(&target, &root, "r", 1);
                }
                let before = target.snapshots().unwrap();
                let names = std::slice::from_ref(&lie);
                let copied = hostile.copy_to(&target, names).unwrap();
                let [(left_out, error)] = &copied.left_out[..] else { panic!("{size} {copied:?}") };
                assert_eq!((left_out, error.kind), (&lie, ErrorKind::Corrupt), "{error}");
                assert_eq!(target.snapshots().unwrap(), before);
                assert!(target.check(&ALL).unwrap().is_clean());
            }
        }
    }
}

/// A check names the manifest that says another size of a pack than its bytes with the right hash
/// have, in whatever order the manifests come, and not the pack, which others share.
#[test]
fn a_check_names_the_manifest_that_lies_about_a_pack() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    for (number, run) in (0..3).flat_map(|number| [(number, "a"), (number, "z")]) {
        for stays in [true, false] {
            let (store, storage, _) = memory_store();
            let name = save_step(&store, &root, "r", 1).name;
            let size = wrong(pack_size(&manifest_json(&store, &name)))[number];
            let lie = lie(&store, &name, run, size).object().unwrap();
            if !stays {
                storage.delete(&[name.object().unwrap()]).unwrap();
            }
            for options in [QUICK, ALL] {
                let checked = store.check(&options).unwrap();
                assert_eq!(checked.damaged, [], "{size}");
                let [damage] = &checked.manifests[..] else { panic!("{size}: {checked:?}") };
                assert_eq!(damage.object, lie);
                assert!(checked.hurt.is_empty(), "{checked:?}");
            }
            // A repair calls nothing lost, and changes nothing of what is good.
            let repaired = store.repair(None, false).unwrap();
            assert!(repaired.lost.is_empty() && repaired.packs.is_empty(), "{repaired:?}");
            if stays {
                check_restores(&store, &name, &root);
            }
            // A pack that is damaged is named nevertheless.
            let pack = objects_in(&*storage, "packs").swap_remove(0);
            storage.replace(&pack, b"rot").unwrap();
            assert_eq!(store.check(&QUICK).unwrap().damaged.len(), 1);
        }
    }
}

/// A repair takes no manifest of another store that lies about the size of a pack.
#[test]
fn a_repair_takes_no_wrong_sizes_of_packs() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    for number in 0..3 {
        let (hostile, _, _) = memory_store();
        let theirs = save_step(&hostile, &root, "r", 1).name;
        let size = wrong(pack_size(&manifest_json(&hostile, &theirs)))[number];
        let object = lie(&hostile, &theirs, "r", size).object().unwrap();
        let (store, storage, _) = memory_store();
        storage.put_new(&object, b"rot").unwrap();
        let repaired = store.repair(Some(&hostile), false).unwrap();
        assert_eq!(repaired.refused.len(), 1, "{size}: {repaired:?}");
        assert_eq!((&repaired.refused[0].0, repaired.manifests.len()), (&object, 0));
    }
}

/// A file that has not changed is saved, whatever the manifest of the parent says of its size or
/// its hash: it is stored again, and the save says so.
#[test]
fn a_save_believes_no_size_of_a_parent() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let size = std::fs::metadata(root.join("a.bin")).unwrap().len();
    let lies = [size + 1, size - 1, 1 << 59].map(|size| ("size", json!(size)));
    for (field, value) in lies.into_iter().chain([("hash", json!("00".repeat(16)))]) {
        for is_bucket in [false, true] {
            let (mut store, storage, clock) = memory_store();
            let name = save_step(&store, &root, "r", 1).name;
            let mut manifest = manifest_json(&store, &name);
            storage.delete(&[name.object().unwrap()]).unwrap();
            let number = manifest["entries"][0]["archive"].as_u64().unwrap() as usize;
            assert_eq!(manifest["archives"][number]["size"], json!(size));
            manifest["archives"][number][field] = value.clone();
            if field == "size" {
                manifest["entries"][0]["size"] = value.clone();
            }
            plant(&store, &manifest);
            if is_bucket {
                store = Store::open(MortalStorage::new(storage, u64::MAX), clock).unwrap();
            }
            let saved = save_step(&store, &root, "r", 2);
            assert!(!saved.warnings.is_empty() || field == "hash", "{field} {value}");
            check_restores(&store, &saved.name, &root);
            let again = save_step(&store, &root, "r", 3);
            assert_eq!((again.warnings.len(), again.packs.put), (0, 0), "{field} {value}");
            check_restores(&store, &again.name, &root);
        }
    }
}

/// A manifest that names a base which the archive is not on is a lie, to a copy and to a check.
#[test]
fn bases_that_an_archive_is_not_on_are_lies() {
    let folder = tempfile::tempdir().unwrap();
    let root = source(folder.path());
    let (store, _, _) = memory_store();
    let name = save_step(&store, &root, "r", 1).name;
    let mut manifest = manifest_json(&store, &name);
    assert_eq!(manifest["archives"][1]["bases"], json!([]));
    manifest["archives"][1]["bases"] = json!([0]);
    let lie = plant(&store, &manifest);
    let (target, _, _) = memory_store();
    let copied = store.copy_to(&target, std::slice::from_ref(&lie)).unwrap();
    let [(left_out, error)] = &copied.left_out[..] else { panic!("{copied:?}") };
    assert_eq!((left_out, error.kind), (&lie, ErrorKind::Corrupt));
    let checked = store.check(&ALL).unwrap();
    assert!(checked.hurt.iter().all(|hurt| hurt.snapshot == lie) && !checked.hurt.is_empty());
}
