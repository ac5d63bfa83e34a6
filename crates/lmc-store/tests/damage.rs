//! Damage is found and named, the rest still restores, and a repair makes nothing worse.

use crate::common::*;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    Advice, CheckOptions, ErrorKind, RestoreOptions, SaveOptions, SnapshotName, Store,
};
use std::path::PathBuf;
use std::sync::Arc;

const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// A history in small packs.
fn history() -> (Store, Arc<MemoryStorage>, Vec<(SnapshotName, PathBuf)>, tempfile::TempDir) {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let mut saved = Vec::new();
    for step in 0..3_u32 {
        let root = folder.path().join(format!("step{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 9000, 1, step));
        write(&root.join(format!("own{step}.bin")), &[step as u8; 4000]);
        write(&root.join("sure.bin"), &checkpoint(&["s"], 3000, 50 + u64::from(step), 0));
        let options = SaveOptions { pack_len: 3000, ..SaveOptions::default() };
        saved.push((save(&store, &root, options).name, root));
    }
    (store, storage, saved, folder)
}

fn restores(store: &Store, name: &SnapshotName, root: &std::path::Path) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("t");
    let options = RestoreOptions::default();
    let restored = store.restore(name, &target, &options);
    restored.is_ok() && tree(&target) == tree(root)
}

/// A flipped bit, a cut and a missing pack, in each pack: named, and what restores is right.
#[test]
fn damaged_packs_are_named() {
    let (store, storage, saved, _folder) = history();
    assert!(store.check(&ALL).unwrap().is_clean());
    let packs = objects_in(&*storage, "packs");
    assert!(packs.len() > 5);
    for (i, pack) in packs.iter().enumerate() {
        let good = storage.read_all(pack, 1 << 20).unwrap();
        let mut bad = good.clone();
        bad[i * 37 % good.len()] ^= 0x10;
        for damage in [Some(&bad[..]), Some(&good[..good.len() - 1]), None] {
            match damage {
                Some(bytes) => storage.replace(pack, bytes).unwrap(),
                None => storage.delete(std::slice::from_ref(pack)).unwrap(),
            }
            let checked = store.check(&ALL).unwrap();
            let named: Vec<&String> = checked.damaged.iter().map(|(_, d)| &d.object).collect();
            assert_eq!(named, [pack]);
            for (name, root) in &saved {
                let is_hurt = checked.hurt.iter().any(|hurt| hurt.snapshot == *name);
                assert_eq!(restores(&store, name, root), !is_hurt);
            }
            storage.replace(pack, &good).unwrap();
        }
    }
    assert!(store.check(&ALL).unwrap().is_clean());
}

/// The same file stored in two places: damage in one is not taken for damage in the other, nor is
/// one taken to be well because the other is.
#[test]
fn places_are_told_apart() {
    let (store, storage, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    write(&root.join("z.bin"), &checkpoint(&["a"], 3000, 1, 0));
    let mut saved = Vec::new();
    for run in ["one", "two"] {
        // Comes first, so that the other file is elsewhere in the packs.
        write(&root.join("a.bin"), &checkpoint(&["o"], run.len() * 100, saved.len() as u64, 0));
        let (run, parent) = (run.to_string(), lmc_store::Parent::None);
        let options = SaveOptions { run, parent, pack_len: 9000, ..SaveOptions::default() };
        saved.push(save(&store, &root, options).name);
    }
    let path = lmc_store::RelPath::new(b"z.bin").unwrap();
    for hurt in [0, 1] {
        let mut good = Vec::new();
        for (i, name) in saved.iter().enumerate() {
            let manifest = store.manifest(name).unwrap();
            let archive = manifest.file(&path).unwrap().archive;
            let extent = manifest.archives[archive].extents[0];
            let object = manifest.packs[extent.pack].name.object();
            let mut bytes = storage.read_all(&object, 1 << 20).unwrap();
            good.push((object.clone(), bytes.clone()));
            // In the file, or in the one before it.
            let at = if i == hurt { extent.offset + 60 } else { extent.offset - 60 };
            bytes[at as usize] ^= 1;
            storage.replace(&object, &bytes).unwrap();
        }
        let checked = store.check(&ALL).unwrap();
        let named = checked.hurt.iter().filter(|hurt| hurt.path == path);
        assert_eq!(named.map(|hurt| &hurt.snapshot).collect::<Vec<_>>(), [&saved[hurt]]);
        good.iter().for_each(|(object, bytes)| storage.replace(object, bytes).unwrap());
    }
}

/// What is not damaged can be had, if asked for; by default a restore is whole or an error.
#[test]
fn the_rest_is_restored() {
    let (store, storage, saved, folder) = history();
    let manifest = store.manifest(&saved[2].0).unwrap();
    let path = lmc_store::RelPath::new(b"own2.bin").unwrap();
    let archive = &manifest.archives[manifest.file(&path).unwrap().archive];
    let pack = &manifest.packs[archive.extents[0].pack];
    storage.delete(&[pack.name.object()]).unwrap();
    let hurt = store.check(&CheckOptions::default()).unwrap().hurt;
    assert!(hurt.iter().any(|hurt| hurt.path == path));
    assert!(!restores(&store, &saved[2].0, &saved[2].1));
    let target = folder.path().join("target");
    let options = RestoreOptions { keep_going: true, ..RestoreOptions::default() };
    let restored = store.restore(&saved[2].0, &target, &options).unwrap();
    assert!(restored.failed.iter().any(|(failed, _)| *failed == path));
    let (found, wanted) = (tree(&target), tree(&saved[2].1));
    assert_eq!(found.len() + restored.failed.len(), wanted.len());
    assert!(found.iter().all(|(path, node)| wanted[path] == *node));
}

/// With another store everything is repaired; without one, nothing gets worse.
#[test]
fn repair() {
    let (store, storage, saved, _folder) = history();
    let clock = TestClock::new();
    let other_storage = Arc::new(MemoryStorage::new(clock.clone()));
    let other = Store::init(other_storage.clone(), clock).unwrap();
    let names: Vec<SnapshotName> = saved.iter().map(|(name, _)| name.clone()).collect();
    let copied = store.copy_to(&other, &names).unwrap();
    assert_eq!(copied.snapshots, names);
    assert_eq!(store.copy_to(&other, &names).unwrap().there, 3);
    for (name, root) in &saved {
        check_restores(&other, name, root);
    }
    let packs = objects_in(&*storage, "packs");
    for (i, pack) in packs.iter().enumerate() {
        let mut bytes = storage.read_all(pack, 1 << 20).unwrap();
        let at = i * 91 % bytes.len();
        bytes[at] ^= 1;
        storage.replace(pack, &bytes).unwrap();
        let before: Vec<bool> =
            saved.iter().map(|(name, root)| restores(&store, name, root)).collect();
        let repaired = store.repair(None, false).unwrap();
        assert_eq!(repaired.lost.len(), 1);
        let after: Vec<bool> =
            saved.iter().map(|(name, root)| restores(&store, name, root)).collect();
        assert_eq!(before, after);
        let repaired = store.repair(Some(&other), false).unwrap();
        assert!(repaired.packs.len() == 1 && repaired.after.is_clean());
    }
    let object = saved[1].0.object().unwrap();
    storage.replace(&object, b"rot").unwrap();
    assert_eq!(store.check(&ALL).unwrap().manifests.len(), 1);
    assert_eq!(store.manifest(&saved[1].0).unwrap_err().kind, ErrorKind::Corrupt);
    let repaired = store.repair(Some(&other), false).unwrap();
    assert_eq!(repaired.manifests, std::slice::from_ref(&object));
    check_restores(&store, &saved[1].0, &saved[1].1);
    storage.replace(&object, b"rot").unwrap();
    assert_eq!(store.repair(None, false).unwrap().moved, [object]);
    assert!(store.check(&ALL).unwrap().is_clean());
    assert_eq!(objects_in(&*storage, "damaged").len(), 1);
    for i in [0, 2] {
        check_restores(&store, &saved[i].0, &saved[i].1);
    }
    // What was moved away comes back when there is a copy; the damaged one stays where it is.
    let repaired = store.repair(Some(&other), false).unwrap();
    assert_eq!(repaired.manifests, [saved[1].0.object().unwrap()]);
    assert_eq!(objects_in(&*storage, "damaged").len(), 1);
    assert!(store.repair(Some(&other), false).unwrap().manifests.is_empty());
    check_restores(&store, &saved[1].0, &saved[1].1);
}

/// A copy of a pack in the same store is enough.
#[test]
fn repair_from_a_twin() {
    let (store, storage, saved, _folder) = history();
    let pack = store.manifest(&saved[0].0).unwrap().packs[0].name.clone();
    let bytes = storage.read_all(&pack.object(), 1 << 20).unwrap();
    storage.put_new(&pack.next_copy().object(), &bytes).unwrap();
    storage.replace(&pack.object(), b"rot").unwrap();
    assert!(store.repair(None, true).unwrap().packs == [pack.clone()]);
    assert_eq!(storage.read_all(&pack.object(), 1 << 20).unwrap(), b"rot");
    assert!(store.repair(None, false).unwrap().after.is_clean());
}

/// What did not change is not a reference to what is lost.
#[test]
fn references_to_what_is_there() {
    let (store, storage, saved, _folder) = history();
    for pack in objects_in(&*storage, "packs") {
        storage.delete(&[pack]).unwrap();
    }
    let (_, root) = &saved[2];
    let again = save(&store, root, SaveOptions::default());
    check_restores(&store, &again.name, root);
}

/// A new snapshot is not lost because an old one rotted: it is saved, and the damage is reported.
#[test]
fn saves_beside_damage() {
    let (store, storage, saved, folder) = history();
    let root = folder.path().join("next");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 9000, 1, 9));
    for pack in objects_in(&*storage, "packs") {
        storage.replace(&pack, b"rot").unwrap();
    }
    let next = save(&store, &root, SaveOptions::default());
    assert_eq!(next.warnings[0].advice, Some(Advice::CheckStore), "{:?}", next.warnings);
    check_restores(&store, &next.name, &root);
    // Not even the manifest of the parent need be whole.
    storage.replace(&next.name.object().unwrap(), b"rot").unwrap();
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 9000, 1, 10));
    let last = save(&store, &root, SaveOptions::default());
    assert!(last.parent.is_none() && last.warnings.len() == 1);
    check_restores(&store, &last.name, &root);
    // Who names a parent wants that one.
    let parent = lmc_store::Parent::Snapshot(next.name);
    let options = SaveOptions { parent, ..SaveOptions::default() };
    assert_eq!(store.save(&root, &options).unwrap_err().kind, ErrorKind::Corrupt);
    assert!(saved.len() == 3);
}
