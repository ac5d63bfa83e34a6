//! What every storage promises, tried on each of them.

mod common;

use common::conform::{conforms, has_one_winner};
use lmc_store::CONFIG_NAME;
use lmc_store::storage::{LocalStorage, MemoryStorage, Storage};

#[test]
fn memory() {
    conforms(&MemoryStorage::default());
}

#[test]
fn local() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    conforms(&LocalStorage::new(&root));
    // A folder is no object.
    assert_eq!(LocalStorage::new(&root).stat("packs/ab").unwrap(), None);
    // Nothing temporary is left.
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    // A store that was there and is not any more has no empty folders.
    std::fs::remove_file(root.join(CONFIG_NAME)).unwrap();
    assert!(LocalStorage::new(&root).names("snapshots").is_err());
}

#[cfg(feature = "bucket")]
#[test]
fn object() {
    use lmc_store::storage::ObjectStorage;
    for prefix in ["", "a/b"] {
        let store = Box::new(object_store::memory::InMemory::new());
        let prefix = object_store::path::Path::from(prefix);
        conforms(&ObjectStorage::new(store, prefix).unwrap());
    }
}

/// Of many that make the same object at once, one does.
#[test]
fn one_winner() {
    let folder = tempfile::tempdir().unwrap();
    has_one_winner(&MemoryStorage::default(), "x/y");
    has_one_winner(&LocalStorage::new(&folder.path().join("store")), "x/y");
}
