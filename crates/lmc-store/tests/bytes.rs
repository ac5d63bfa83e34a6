//! Names in a directory that are not UTF-8, as one wrong bit makes them: what such a name stood for
//! is reported as damage, and nothing that it may need is removed.

use crate::common::*;
use lmc_store::{CheckOptions, PruneOptions, Store};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where names are looked at.
const FOLDERS: [&str; 2] = ["snapshots", "damaged"];

fn now() -> PruneOptions {
    PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }
}

/// A store of two snapshots; also the path of the manifest of the first one, below `snapshots/`.
fn two_snapshots(folder: &Path) -> (Store, PathBuf) {
    let (store, _) = local_store(&folder.join("store"));
    let mut names = Vec::new();
    for (seed, run) in [(1, "one"), (2, "two")] {
        let root = folder.join(run);
        write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, seed, 0));
        names.push(save_step(&store, &root, run, 1).name);
    }
    (store, names[0].key().unwrap().into())
}

/// Turns bit 7 of the second byte of a file's or a folder's name around.
fn flip(path: &Path) {
    let mut name = path.file_name().unwrap().as_bytes().to_vec();
    name[1] ^= 0x80;
    fs::rename(path, path.with_file_name(OsString::from_vec(name))).unwrap();
}

/// One bit of the name of a manifest, of its page or of its run is wrong, in its place or where a
/// repair has moved it: a check says so and what to do, no prune removes a pack, and with the right
/// name all is well again.
#[test]
fn names_that_are_not_text_are_damage_and_keep_all_packs() {
    for top in FOLDERS {
        for parts in 1..4 {
            let folder = tempfile::tempdir().unwrap();
            let (store, key) = two_snapshots(folder.path());
            let root = folder.path().join("store");
            fs::create_dir_all(root.join(top).join(key.parent().unwrap())).unwrap();
            if top == "damaged" {
                fs::rename(root.join("snapshots").join(&key), root.join(top).join(&key)).unwrap();
            }
            let before = tree(&root.join("packs"));
            let wrong: PathBuf = key.components().take(parts).collect();
            flip(&root.join(top).join(&wrong));

            let checked = store.check(&CheckOptions::default()).unwrap();
            let [damage] = &checked.manifests[..] else { panic!("{top} {parts}: {checked:?}") };
            assert!(damage.object.starts_with(top), "{}", damage.object);
            assert!(damage.error.to_string().contains("its name back"), "{}", damage.error);
            match (top, store.prune(&now())) {
                ("snapshots", pruned) => {
                    let error = pruned.unwrap_err().to_string();
                    assert!(error.contains("its name back"), "{error}");
                }
                (_, pruned) => assert_eq!(pruned.unwrap().unreadable.len(), 1, "{parts}"),
            }
            let repaired = store.repair(None, false).unwrap();
            assert_eq!((repaired.moved.len(), repaired.after.is_clean()), (0, false));
            assert!(tree(&root.join("packs")) == before, "{top} {parts}");

            let above = root.join(top).join(&wrong).parent().unwrap().to_path_buf();
            let is_wrong = |path: &PathBuf| path.to_str().is_none();
            let found = fs::read_dir(&above).unwrap().map(|entry| entry.unwrap().path());
            flip(&found.into_iter().find(is_wrong).unwrap());
            assert!(store.repair(None, false).unwrap().after.is_clean());
            store.prune(&now()).unwrap();
            assert_eq!(store.snapshots().unwrap().len(), 2);
            check_restores(&store, &store.find("one@1").unwrap(), &folder.path().join("one"));
        }
    }
}

/// Elsewhere such names have no meaning, and nothing that is looked for fails by them.
#[test]
fn names_that_are_not_text_mean_nothing_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = two_snapshots(folder.path());
    let root = folder.path().join("store");
    for top in ["packs", "packs/aa", "forgotten", "tags", "pending", "pruning", "tmp"] {
        let name = OsString::from_vec(b"a\xffb".to_vec());
        write(&root.join(top).join(&name), b"something");
        fs::create_dir_all(root.join(top).join(OsString::from_vec(b"c\xff".to_vec()))).unwrap();
    }
    assert!(store.check(&CheckOptions::default()).unwrap().is_clean());
    let before = tree(&root.join("packs"));
    store.prune(&now()).unwrap();
    assert!(tree(&root.join("packs")) == before);
    save_step(&store, &folder.path().join("two"), "two", 2);
    assert_eq!(store.snapshots().unwrap().len(), 3);
}
