//! What was saved is what is restored: bytes, names, modes, times, links, empty folders.

use crate::common::*;
use lmc_store::{Advice, Glob, Parent, RestoreOptions, SaveOptions};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

/// A directory with all that a directory can hold comes back as it was.
#[test]
fn directories() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("checkpoint-100");
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 5000, 1, 0));
    write(&root.join("optimizer.pt"), &[7; 100_000]);
    write(&root.join("deep/er/config.json"), b"{}");
    write(&root.join("empty file"), b"");
    write(&root.join("ünïcode"), b"x");
    {
        use std::os::unix::ffi::OsStrExt;
        let odd = std::ffi::OsStr::from_bytes(b"not\xffutf8\n");
        write(&root.join(odd), b"odd");
    }
    fs::create_dir_all(root.join("empty/inner")).unwrap();
    symlink("deep/er", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("broken")).unwrap();
    fs::set_permissions(root.join("empty file"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(root.join("optimizer.pt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(root.join("deep/er"), fs::Permissions::from_mode(0o500)).unwrap();
    let saved = save(&store, &root, SaveOptions::default());
    assert_eq!((saved.name.step, saved.files), (100, 6));
    check_restores(&store, &saved.name, &root);

    let target = folder.path().join("restored");
    store.restore(&saved.name, &target, &RestoreOptions::default()).unwrap();
    let time = |path: &std::path::Path| {
        let metadata = fs::metadata(path.join("model.safetensors")).unwrap();
        (metadata.mtime(), metadata.mtime_nsec())
    };
    assert_eq!(time(&root), time(&target));
    // So that the folder can be removed.
    for path in [&root, &target] {
        fs::set_permissions(path.join("deep/er"), fs::Permissions::from_mode(0o700)).unwrap();
    }
}

/// A single file comes back under any name, or under its own in a directory.
#[test]
fn single_files() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let bytes = checkpoint(&["a"], 3000, 2, 0);
    write(&path, &bytes);
    let saved = save(&store, &path, SaveOptions::default());
    let target = folder.path().join("other name");
    store.restore(&saved.name, &target, &RestoreOptions::default()).unwrap();
    assert_eq!(fs::read(&target).unwrap(), bytes);
    let again = store.restore(&saved.name, &target, &RestoreOptions::default());
    assert_eq!(again.unwrap_err().advice(), Some(Advice::Overwrite));
    fs::create_dir(folder.path().join("into")).unwrap();
    store.restore(&saved.name, &folder.path().join("into"), &RestoreOptions::default()).unwrap();
    assert_eq!(fs::read(folder.path().join("into/model.safetensors")).unwrap(), bytes);
}

/// Snapshots on each other restore in any order, from packs of any size.
#[test]
fn histories() {
    for pack_len in [1000, 50_000, 1 << 20] {
        let (store, _, _) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let mut saved = Vec::new();
        for step in 0..6_u32 {
            let root = folder.path().join(format!("step{step}"));
            write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 20_000, 3, step));
            write(&root.join("frozen.safetensors"), &checkpoint(&["f"], 9000, 4, 0));
            let options = SaveOptions { pack_len, ..SaveOptions::default() };
            saved.push((save(&store, &root, options).name, root));
        }
        for i in [5, 0, 3, 1, 4, 2] {
            let (name, root) = &saved[i];
            check_restores(&store, name, root);
        }
    }
}

/// Only what is asked for is restored, with the folders it is in.
#[test]
fn parts() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    for name in ["model.safetensors", "optimizer.pt", "config.json", "sub/a.json", "sub/b.txt"] {
        write(&root.join(name), name.as_bytes());
    }
    fs::create_dir(root.join("empty")).unwrap();
    let saved = save(&store, &root, SaveOptions { parent: Parent::None, ..SaveOptions::default() });
    let restored = |options: RestoreOptions| {
        let target = folder.path().join("target");
        store.restore(&saved.name, &target, &options).unwrap();
        let names = tree(&target).into_keys().map(|name| String::from_utf8(name).unwrap());
        let names: Vec<String> = names.collect();
        fs::remove_dir_all(&target).unwrap();
        names
    };
    let only = |globs: &[&str]| RestoreOptions {
        only: globs.iter().map(|glob| Glob::new(glob)).collect(),
        ..RestoreOptions::default()
    };
    assert_eq!(restored(only(&["*.json"])), ["config.json", "sub", "sub/a.json"]);
    assert_eq!(restored(only(&["sub"])), ["sub", "sub/a.json", "sub/b.txt"]);
    let weights = restored(RestoreOptions { weights_only: true, ..RestoreOptions::default() });
    assert!(!weights.contains(&"optimizer.pt".to_string()));
    assert!(weights.contains(&"model.safetensors".to_string()));
}

/// Files in memory become a snapshot like any other, the next one a delta; clashes are refused.
#[test]
fn files_in_memory() {
    let (store, _, _) = memory_store();
    let path = |text: &str| lmc_store::RelPath::new(text.as_bytes()).unwrap();
    fn file<'a>(path: lmc_store::RelPath, parts: Vec<&'a [u8]>) -> lmc_store::MemoryFile<'a> {
        lmc_store::MemoryFile { path, parts, like: Vec::new() }
    }
    let options = SaveOptions::default();
    let mut added = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    for drift in 1..3 {
        let bytes = checkpoint(&["w"], 9000, 3, drift);
        let (head, tail) = bytes.split_at(1234);
        let files = [
            file(path("a/b/model.safetensors"), vec![head, tail]),
            file(path("config.json"), vec![]),
        ];
        let saved = store.save_files(&files, &options).unwrap();
        let target = folder.path().join(drift.to_string());
        store.restore(&saved.name, &target, &Default::default()).unwrap();
        assert!(std::fs::read(target.join("a/b/model.safetensors")).unwrap() == bytes);
        assert_eq!(std::fs::read(target.join("config.json")).unwrap(), b"");
        added.push(saved.name.added);
    }
    assert!(added[1] < added[0] / 2, "{added:?}");
    for clash in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
        let files = clash.map(|text| file(path(text), vec![b"x"]));
        let error = store.save_files(&files, &options).unwrap_err();
        assert_eq!(error.kind, lmc_store::ErrorKind::InvalidArgument);
    }
}

/// A directory that contains the store is refused, whoever saves it and however the store is named.
#[test]
fn a_directory_that_contains_the_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("model"), b"weights").unwrap();
    fs::create_dir(folder.path().join("deep")).unwrap();
    let (store, _) = local_store(&folder.path().join("deep/store"));
    for saved in [folder.path().to_path_buf(), folder.path().join("deep/../deep")] {
        let error = store.save(&saved, &SaveOptions::default()).unwrap_err();
        assert!(error.to_string().contains("inside the directory"), "{error}");
    }
    store.save(&folder.path().join("model"), &SaveOptions::default()).unwrap();
}
