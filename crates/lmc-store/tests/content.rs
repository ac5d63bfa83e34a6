//! Nothing takes the place of anything else: a content hash selects what may be the same, and bytes
//! decide. Good bytes at hand are not given up for bad ones in the store.

use crate::common::*;
use lmc::Context;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    CheckOptions, ErrorKind, MemoryFile, Parent, RelPath, SaveOptions, Saved, SnapshotName, Store,
};
use lmc_testkit::colliding;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// A store whose reads cost little, as in a directory, and one whose reads cost much, as in a
/// bucket.
fn stores() -> [(Store, Arc<MemoryStorage>); 2] {
    let (cheap, storage, _) = memory_store();
    let clock = TestClock::new();
    let memory = Arc::new(MemoryStorage::new(clock.clone()));
    let bucket = Store::init(MortalStorage::new(memory.clone(), u64::MAX), clock).unwrap();
    [(cheap, storage), (bucket, memory)]
}

/// Two different files that have the same content hash.
fn pair(len: usize, seed: u64) -> [Vec<u8>; 2] {
    let pair = [colliding(len, seed, 1), colliding(len, seed, 2)];
    let hash = |bytes: &[u8]| {
        lmc::content_hash(lmc::Input::Bytes(bytes), &Context::with_threads(1)).unwrap()
    };
    assert!(pair[0] != pair[1] && hash(&pair[0]) == hash(&pair[1]));
    pair
}

fn save_again(store: &Store, root: &Path, run: &str, parent: Parent) -> Saved {
    save(store, root, SaveOptions { run: run.into(), parent, ..SaveOptions::default() })
}

/// Flips three bytes in the middle of every pack; names and sizes stay.
fn rot(storage: &MemoryStorage) {
    for pack in objects_in(storage, "packs") {
        let mut bytes = storage.read_all(&pack, 1 << 28).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle - 1..middle + 2].iter_mut().for_each(|byte| *byte ^= 0x41);
        storage.replace(&pack, &bytes).unwrap();
    }
}

/// Long files are told apart by samples before they are hashed. One that differs from its base in a
/// sample, and has its content hash all the same, comes back as it is.
#[test]
fn a_long_file_with_the_hash_of_its_base_stays_different() {
    const SPAN: usize = 8 << 20;
    // The second span begins where a sample is taken: at two fifths.
    let long = |number: u32| {
        let parts = [colliding(SPAN, 1, 0), colliding(SPAN, 2, number), colliding(SPAN / 2, 3, 0)];
        parts.concat()
    };
    let files = [long(1), long(2)];
    let hash = |bytes: &[u8]| {
        lmc::content_hash(lmc::Input::Bytes(bytes), &Context::with_threads(1)).unwrap()
    };
    assert!(files[0] != files[1] && hash(&files[0]) == hash(&files[1]));
    for (store, _) in stores() {
        let folder = tempfile::tempdir().unwrap();
        let saved = [0, 1, 0].map(|i| {
            let root = folder.path().join(format!("{i}"));
            write(&root.join("a.bin"), &files[i]);
            (save_again(&store, &root, "r", Parent::Auto).name, root)
        });
        saved.iter().for_each(|(name, root)| check_restores(&store, name, root));
    }
}

/// Different files with one content hash, in one directory and in saves one after the other, all
/// come back as they are, and so does what they change to later.
#[test]
fn files_with_the_same_hash_stay_different() {
    for (store, _) in stores() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = pair(5000, 1);
        let mut saved: Vec<(SnapshotName, std::path::PathBuf)> = Vec::new();
        let mut next = |files: &[(&str, &[u8])]| {
            let root = folder.path().join(format!("{}", saved.len()));
            files.iter().for_each(|(name, bytes)| write(&root.join(name), bytes));
            saved.push((save_step(&store, &root, "r", saved.len() as u64).name, root));
        };
        next(&[("a.bin", &one), ("b.bin", &other)]);
        next(&[("a.bin", &other), ("b.bin", &one), ("c.bin", &other)]);
        let changed = |bytes: &[u8], by: u8| {
            let mut bytes = bytes.to_vec();
            bytes.iter_mut().skip(1000).step_by(900).for_each(|byte| *byte ^= by);
            bytes
        };
        let (near_one, near_other) = (changed(&one, 3), changed(&other, 5));
        next(&[("a.bin", &near_other), ("b.bin", &near_one), ("c.bin", &other)]);
        next(&[("a.bin", &one), ("b.bin", &other), ("c.bin", &near_one)]);
        for (name, root) in &saved {
            check_restores(&store, name, root);
        }
        assert!(store.check(&ALL).unwrap().is_clean());
    }
}

/// Files of several processes that have one content hash are not taken for one file.
#[test]
fn parts_with_the_same_hash_stay_different() {
    let (store, _, _) = memory_store();
    let pair = pair(3000, 2);
    let path = |name: &str| RelPath::new(name.as_bytes()).unwrap();
    let options = SaveOptions::default();
    let part = |i: usize| {
        let parts = vec![&pair[i][..]];
        let file = MemoryFile { path: path(&format!("{i}.bin")), parts, like: Vec::new() };
        store.save_part(&[file], &options).unwrap()
    };
    let parts = [part(0), part(1)];
    let saved = store.commit_parts(&parts, &[], &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    store.restore(&saved.name, &target, &Default::default()).unwrap();
    for (i, bytes) in pair.iter().enumerate() {
        assert!(std::fs::read(target.join(format!("{i}.bin"))).unwrap() == *bytes, "file {i}");
    }
}

/// A manifest that claims the content hash of a file for other bytes does not keep that file out of
/// the store.
#[test]
fn a_claimed_hash_hides_nothing() {
    for (store, _) in stores() {
        let folder = tempfile::tempdir().unwrap();
        let (evil, victim) = (folder.path().join("evil"), folder.path().join("victim"));
        write(&evil.join("x.bin"), &checkpoint(&["a"], 3000, 1, 0));
        write(&victim.join("x.bin"), &checkpoint(&["a"], 3000, 2, 0));
        let lie = lie(&store, &evil, &victim.join("x.bin"));
        let saved = save_again(&store, &victim, "r", Parent::Snapshot(lie));
        check_restores(&store, &saved.name, &victim);
    }
}

/// Saves `root` and plants its manifest again with the content hash of another file in it.
fn lie(store: &Store, root: &Path, victim: &Path) -> SnapshotName {
    let saved = save_step(store, root, "r", 1);
    let mut manifest = manifest_json(store, &saved.name);
    let bytes = std::fs::read(victim).unwrap();
    let hash = lmc::content_hash(lmc::Input::Bytes(&bytes), &Context::with_threads(1)).unwrap();
    manifest["archives"][0]["hash"] = json!(format!("{hash:032x}"));
    manifest["step"] = json!(2);
    plant(store, &manifest)
}

/// A check that reads all data compares what archives hold with what their manifests say.
#[test]
fn a_check_finds_manifests_that_lie() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let (evil, victim) = (folder.path().join("evil"), folder.path().join("victim"));
    write(&evil.join("x.bin"), &checkpoint(&["a"], 3000, 1, 0));
    write(&victim, &checkpoint(&["a"], 3000, 2, 0));
    let lie = lie(&store, &evil, &victim);
    let checked = store.check(&ALL).unwrap();
    assert!(!checked.is_clean());
    assert_eq!(checked.hurt.len(), 1);
    assert_eq!(checked.hurt[0].snapshot, lie);
    assert_eq!(checked.hurt[0].path, RelPath::new(b"x.bin").unwrap());
}

/// A copy takes no snapshot whose manifest lies, says so, and takes the others.
#[test]
fn a_copy_takes_no_lies() {
    let (store, _, _) = memory_store();
    let (target, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let (evil, victim) = (folder.path().join("evil"), folder.path().join("victim"));
    write(&evil.join("x.bin"), &checkpoint(&["a"], 3000, 1, 0));
    write(&victim, &checkpoint(&["a"], 3000, 2, 0));
    let lie = lie(&store, &evil, &victim);
    let names = store.snapshots().unwrap();
    assert_eq!(names.len(), 2);
    let copied = store.copy_to(&target, &names).unwrap();
    assert_eq!(copied.snapshots, target.snapshots().unwrap());
    let [(left_out, error)] = &copied.left_out[..] else { panic!("{copied:?}") };
    assert_eq!((left_out, error.kind), (&lie, ErrorKind::Corrupt));
    assert!(error.to_string().contains("x.bin"), "{error}");
    let [name] = &copied.snapshots[..] else { panic!("{copied:?}") };
    check_restores(&target, name, &evil);
}

/// A repair takes no manifest from another store that holds something else than it says; one that
/// holds what it says comes back.
#[test]
fn a_repair_takes_no_lies() {
    for is_lie in [true, false] {
        let (store, storage, _) = memory_store();
        let (other, _, _) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let (evil, victim) = (folder.path().join("evil"), folder.path().join("victim"));
        write(&evil.join("x.bin"), &checkpoint(&["a"], 3000, 1, 0));
        write(&victim, &checkpoint(&["a"], 3000, 2, 0));
        let name = match is_lie {
            true => lie(&other, &evil, &victim),
            false => save_step(&other, &evil, "r", 1).name,
        };
        let object = name.object().unwrap();
        storage.put_new(&object, b"rot").unwrap();
        let repaired = store.repair(Some(&other), false).unwrap();
        if is_lie {
            assert_eq!(repaired.refused.len(), 1);
            assert_eq!(repaired.refused[0].0, object);
            assert!(store.snapshots().unwrap().is_empty());
            // Nor does it come back out of `damaged/`.
            let repaired = store.repair(Some(&other), false).unwrap();
            assert_eq!((repaired.refused.len(), repaired.manifests.len()), (1, 0));
            assert!(store.snapshots().unwrap().is_empty());
        } else {
            assert_eq!(repaired.manifests, [object]);
            assert!(repaired.after.manifests.is_empty());
        }
    }
}

/// Packs rot; the same files are saved again: the new snapshot restores, whatever it is coded
/// against, and the save says what it found. In a bucket, what is known of a parent is not
/// downloaded again for that.
#[test]
fn rotten_packs_are_not_believed() {
    for (parent, run) in [(Parent::Auto, "r"), (Parent::None, "r"), (Parent::None, "other")] {
        let stores = stores().into_iter().take(if parent == Parent::Auto { 1 } else { 2 });
        for (store, storage) in stores {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("root");
            write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
            write(&root.join("copy.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
            let old = save_step(&store, &root, "r", 1);
            rot(&storage);
            let new = save_again(&store, &root, run, parent.clone());
            check_restores(&store, &new.name, &root);
            assert!(!new.warnings.is_empty(), "{parent:?}");
            // What would have been written is what was there: it is good again.
            check_restores(&store, &old.name, &root);
            assert!(store.check(&ALL).unwrap().is_clean());
            assert!(save_again(&store, &root, run, parent.clone()).warnings.is_empty());
        }
    }
}

/// A copy compares packs that the target has with those of the source, and heals them.
#[test]
fn a_copy_heals_rotten_packs() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let mut saved = Vec::new();
    for step in 0..2_u32 {
        let root = folder.path().join(format!("{step}"));
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, step));
        saved.push((save_step(&store, &root, "r", u64::from(step)).name, root));
    }
    let name = |i: usize| std::slice::from_ref(&saved[i].0);
    for is_known in [true, false] {
        let (target, storage, _) = memory_store();
        store.copy_to(&target, name(0)).unwrap();
        if !is_known {
            // As after a copy that was killed: the packs are there, and no snapshot.
            storage.delete(&[saved[0].0.object().unwrap()]).unwrap();
        }
        rot(&storage);
        let copied = store.copy_to(&target, name(1)).unwrap();
        assert!(!copied.healed.is_empty());
        check_restores(&target, &saved[1].0, &saved[1].1);
        assert!(target.check(&ALL).unwrap().is_clean());
    }
}

/// In a bucket, a file that does not change is downloaded once to be compared, and after that known
/// by a cryptographic hash.
#[test]
fn unchanged_files_are_downloaded_once() {
    let clock = TestClock::new();
    let memory = Arc::new(MemoryStorage::new(clock.clone()));
    let bucket = MortalStorage::new(memory, u64::MAX);
    let store = Store::init(bucket.clone(), clock).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 30_000, 1, 0));
    let downloaded = |step: u64| {
        let before = bucket.pack_bytes_read.load(Ordering::SeqCst);
        let saved = save_step(&store, &root, "r", step);
        assert_eq!(saved.unchanged, u64::from(step > 1), "step {step}");
        check_restores(&store, &saved.name, &root);
        let restored = bucket.pack_bytes_read.load(Ordering::SeqCst);
        // A restore reads what a comparison reads.
        save_again(&store, &root, &format!("apart{step}"), Parent::None);
        restored - before
    };
    let (first, second) = (downloaded(1), downloaded(2));
    assert!(second > first, "{first} {second}");
    assert_eq!(downloaded(3), first);
    // It is of the bytes that were compared: a collision is none.
    let [one, other] = pair(5000, 3);
    for (step, bytes) in [&one, &one, &one, &other, &other, &one].into_iter().enumerate() {
        write(&root.join("model.safetensors"), bytes);
        let saved = save_step(&store, &root, "collisions", step as u64);
        check_restores(&store, &saved.name, &root);
    }
}

/// Two snapshots are compared by their bytes: files with one content hash are not called the same.
#[test]
fn a_diff_tells_files_with_the_same_hash_apart() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let mut manifests = Vec::new();
    let [one, other] = pair(5000, 4);
    let large = checkpoint(&["a"], 600_000, 1, 0);
    for bytes in [&one, &other, &one] {
        write(&root.join("x.bin"), bytes);
        write(&root.join("large.bin"), &large);
        // Each is stored in a place of its own.
        write(&root.join("a.bin"), &checkpoint(&["b"], 100 + manifests.len(), 2, 0));
        let saved = save_again(&store, &root, &format!("r{}", manifests.len()), Parent::None);
        manifests.push(Arc::new(store.manifest(&saved.name).unwrap()));
    }
    let paths = |found: &[RelPath]| found.iter().map(ToString::to_string).collect::<Vec<_>>();
    let diff = store.diff(&manifests[0], &manifests[1]).unwrap();
    assert_eq!(paths(&diff.same), ["large.bin"]);
    assert_eq!(diff.changed.len(), 2);
    let diff = store.diff(&manifests[0], &manifests[2]).unwrap();
    assert_eq!(paths(&diff.same), ["large.bin", "x.bin"]);
}

/// Files of one save that are the same are compared with what was stored of the first, wherever
/// that is by then: in the pack that is being filled, on its way, or put.
#[test]
fn files_of_one_save_are_compared_with_what_was_stored() {
    for pack_len in [300, 7000, 1 << 20] {
        for (store, _) in stores() {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("root");
            let [one, other] = pair(5000, 5);
            // Larger than what is decoded in one piece.
            let large = checkpoint(&["a"], 700_000, 1, 0);
            for (i, bytes) in [&one, &large, &other, &large, &one, &other].into_iter().enumerate() {
                write(&root.join(format!("{i}.bin")), bytes);
            }
            let saved = save(&store, &root, SaveOptions { pack_len, ..SaveOptions::default() });
            assert_eq!(saved.unchanged, 3);
            check_restores(&store, &saved.name, &root);
        }
    }
}

/// A file that is known by its hash in a bucket is stored again where its packs are gone or cut.
#[test]
fn known_files_whose_packs_are_gone_are_stored_again() {
    let [_, (store, storage)] = stores();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    (0..3).for_each(|step| drop(save_step(&store, &root, "r", step)));
    for (step, is_cut) in [(3, true), (4, false)] {
        for pack in objects_in(&*storage, "packs") {
            match is_cut {
                true => storage.replace(&pack, b"cut").unwrap(),
                false => storage.delete(&[pack]).unwrap(),
            }
        }
        let saved = save_step(&store, &root, "r", step);
        assert!(saved.warnings.iter().any(|warning| warning.message.contains("stored again")));
        check_restores(&store, &saved.name, &root);
    }
}

/// A file is coded against one beside it only while that is the one that was stored. If it changes
/// in between, with its time put back, the save ends and there is no snapshot.
#[test]
fn a_file_beside_that_changed_is_no_base() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let bf16 = checkpoint(&["a"], 50_000, 1, 0);
    let header = 8 + bf16[..8].iter().rev().fold(0, |len, &byte| len << 8 | usize::from(byte));
    let mut low = 1_u16;
    let f32 = f32_of(&bf16[header..], 50_000, || {
        low = low.wrapping_mul(25_173).wrapping_add(13_849);
        low >> 2
    });
    write(&root.join("model.safetensors"), &bf16);
    let master = root.join("master.safetensors");
    write(&master, &f32);
    let done = std::sync::atomic::AtomicU64::new(0);
    let change = |bytes: u64| {
        // All of the first file has been read when its last part is done.
        if done.fetch_add(bytes, Ordering::SeqCst) + bytes == f32.len() as u64 {
            let times = std::fs::metadata(&master).unwrap();
            let mut changed = f32.clone();
            let middle = changed.len() / 2;
            changed[middle] ^= 1;
            std::fs::write(&master, &changed).unwrap();
            let file = std::fs::File::options().write(true).open(&master).unwrap();
            let modified = times.modified().unwrap();
            file.set_times(std::fs::FileTimes::new().set_modified(modified)).unwrap();
        }
    };
    let options = SaveOptions::default();
    let error = watched(&store, &change, |store| store.save(&root, &options)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(store.snapshots().unwrap().is_empty());
}
