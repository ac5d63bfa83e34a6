//! What a restore and an export write: only in their target, never more open than what was saved,
//! and nothing in the place of something else.

use crate::common::*;
use lmc_store::{ErrorKind, Glob, MemoryFile, RelPath, RestoreOptions, SaveOptions};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The temporary folder of a running restore.
fn temporary(folder: &Path) -> PathBuf {
    let mut paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_temporary = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "part");
    paths.find(is_temporary).expect("a temporary folder")
}

/// The root of what is saved has a mode like any other folder: a private directory comes back
/// private, and is so all the time.
#[test]
fn a_private_directory_comes_back_private() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("sub/a"), b"bytes");
    for wanted in [0o700, 0o751, 0o555] {
        set_mode(&root, wanted);
        let saved = save(&store, &root, SaveOptions::default());
        let target = folder.path().join(format!("restored{wanted:o}"));
        let seen = Mutex::new(Vec::new());
        let look = |_| {
            let path = temporary(folder.path());
            seen.lock().unwrap().extend([mode(&path), mode(&path.join("sub"))]);
        };
        let options = RestoreOptions::default();
        watched(&store, &look, |store| store.restore(&saved.name, &target, &options)).unwrap();
        assert_eq!(mode(&target), wanted);
        assert_eq!(*seen.lock().unwrap(), [0o700, 0o700]);
        let exported = folder.path().join(format!("exported{wanted:o}"));
        store.export(&saved.name, &exported, &RestoreOptions::default()).unwrap();
        assert_eq!(mode(&exported), wanted);
        // So that the temporary directory can be removed.
        for path in [&root, &target, &exported] {
            set_mode(path, 0o700);
        }
    }
}

/// What never was on a disk is its owner's alone.
#[test]
fn what_was_in_memory_is_private() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let path = RelPath::new(b"sub/model").unwrap();
    let file = MemoryFile { path, parts: vec![b"weights"], like: Vec::new() };
    let saved = store.save_files(&[file], &SaveOptions::default()).unwrap();
    let target = folder.path().join("restored");
    store.restore(&saved.name, &target, &RestoreOptions::default()).unwrap();
    assert_eq!((mode(&target.join("sub")), mode(&target.join("sub/model"))), (0o700, 0o600));
}

/// Whoever swaps the temporary folder of a restore for a link gains nothing: what the link leads to
/// keeps its mode, nothing is written there, and the target does not become the link.
#[test]
fn a_swapped_temporary_folder_is_not_the_result() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("sub/a"), b"bytes");
    set_mode(&root, 0o755);
    let saved = save(&store, &root, SaveOptions::default());
    let private = folder.path().join("private");
    fs::create_dir(&private).unwrap();
    set_mode(&private, 0o700);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let target = shared.join("restored");
    let swap = |_| {
        fs::rename(temporary(&shared), shared.join("moved")).unwrap();
        // The name is that of the folder, which is gone by now.
        let name = shared.join("swapped");
        symlink(&private, &name).unwrap();
    };
    // The same name as the folder had.
    let swap = |bytes| {
        let name = temporary(&shared);
        swap(bytes);
        fs::rename(shared.join("swapped"), name).unwrap();
    };
    let options = RestoreOptions::default();
    let restored = watched(&store, &swap, |store| store.restore(&saved.name, &target, &options));
    assert!(restored.is_err());
    assert_eq!(mode(&private), 0o700);
    assert_eq!(fs::read_dir(&private).unwrap().count(), 0);
    assert!(target.symlink_metadata().is_err());
}

/// A file whose `.lmc` would have the name of a link or a folder of the snapshot is refused before
/// anything is written, in a new target and in one that is there.
#[test]
fn an_export_never_replaces_its_own_files() {
    for is_link in [true, false] {
        let (store, _, _) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("run");
        write(&root.join("b"), b"bytes");
        match is_link {
            true => symlink("b", root.join("b.lmc")).unwrap(),
            false => fs::create_dir(root.join("b.lmc")).unwrap(),
        }
        let saved = save(&store, &root, SaveOptions::default());
        let target = folder.path().join("exported");
        for overwrite in [false, true] {
            let options = RestoreOptions { overwrite, ..RestoreOptions::default() };
            let error = store.export(&saved.name, &target, &options).unwrap_err();
            assert!(error.to_string().contains("b.lmc"), "{error}");
            fs::create_dir_all(&target).unwrap();
            assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        }
    }
}

/// `only` that fits nothing is an error, and nothing is made.
#[test]
fn a_restore_of_nothing_is_an_error() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), b"bytes");
    let saved = save(&store, &root, SaveOptions::default());
    let target = folder.path().join("restored");
    let only = vec![Glob::new("*.bin"), Glob::new("nothing")];
    let options = RestoreOptions { only, ..RestoreOptions::default() };
    let error = store.restore(&saved.name, &target, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("*.bin"), "{error}");
    assert!(!target.exists());
}
