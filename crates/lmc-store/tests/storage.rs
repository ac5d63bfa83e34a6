//! What every storage promises, tried on each of them.

use crate::common::{local_store, write};
use lmc_store::storage::conformance::{check_one_winner, check_promises};
use lmc_store::storage::{LocalStorage, MemoryStorage, Storage};
use lmc_store::{CONFIG_NAME, ErrorKind};

/// A storage in memory passes the suite.
#[test]
fn memory() {
    check_promises(&MemoryStorage::default());
}

/// A directory passes the suite, leaves nothing temporary, and is never taken for an empty store.
#[test]
fn local() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    check_promises(&LocalStorage::new(&root));
    // A folder is not an object, and its name is not free.
    let stat = LocalStorage::new(&root).stat("packs/ab");
    assert_eq!(stat.unwrap_err().kind, ErrorKind::Corrupt);
    // Nothing temporary is left.
    assert_eq!(std::fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    // A store that was there and is not any more has no empty folders.
    std::fs::remove_file(root.join(CONFIG_NAME)).unwrap();
    assert!(LocalStorage::new(&root).names("snapshots").is_err());
}

/// A bucket passes the suite, at its root and below a prefix.
#[cfg(feature = "bucket")]
#[test]
fn bucket() {
    use lmc_store::storage::BucketStorage;
    for prefix in ["", "a/b"] {
        let store = Box::new(object_store::memory::InMemory::new());
        let prefix = object_store::path::Path::from(prefix);
        let storage = BucketStorage::new(store, prefix).unwrap();
        check_promises(&storage);
        check_one_winner(&storage, "x/y");
    }
}

/// Of several threads that create the same object concurrently, exactly one does.
#[test]
fn one_winner() {
    let folder = tempfile::tempdir().unwrap();
    check_one_winner(&MemoryStorage::default(), "x/y");
    check_one_winner(&LocalStorage::new(&folder.path().join("store")), "x/y");
}

/// Folders that are links, and objects that are no files, are errors and never followed.
#[test]
fn links_and_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("thesis.txt"), b"precious").unwrap();
    for name in ["forgotten", "packs", "pending", "pruning", "snapshots", "tags", "tmp"] {
        let root = folder.path().join(name);
        let (store, _) = local_store(&root);
        let path = root.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        assert!(store.storage().names(name).is_err(), "{name}");
        let old = lmc_store::PruneOptions { grace_ms: Some(0), ..Default::default() };
        assert!(store.prune(&old).is_err(), "{name}");
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1, "{name}");
    }
    let (store, _) = local_store(&folder.path().join("s"));
    let pipe = folder.path().join("s/pending/pipe");
    std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert!(store.storage().read_all("pending/pipe", 100).is_err());
}

/// Files that are not the store's own stay, even where it keeps what has no name yet.
#[test]
fn temporaries_of_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("tmp").join("0123456789abcdef0123456789abcdef");
    let other = folder.path().join("tmp").join("notes.txt");
    write(&own, b"half a pack");
    write(&other, b"not ours");
    let storage = LocalStorage::new(folder.path());
    assert_eq!(storage.remove_temporaries(u64::MAX).unwrap(), 1);
    assert!(other.exists() && !own.exists());
}
