//! A store is made only where an object cannot be made twice, and once.

use crate::common::*;
use lmc_store::storage::{LocalStorage, MemoryStorage, ObjectInfo, Put, Stat, Storage};
use lmc_store::{Advice, CONFIG_NAME, ErrorKind, Result, Store};
use std::path::Path;
use std::sync::Arc;

/// A server that ignores conditions: the last put wins.
#[derive(Debug, Default)]
struct Careless(MemoryStorage);

impl Storage for Careless {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.0.replace(name, bytes).map(|()| Put::Created)
    }
    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        self.put_new(name, &pieces.concat())
    }
    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.0.replace(name, bytes)
    }
    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        self.0.move_new(from, to)
    }
    fn make_durable(&self, name: &str) -> Result<()> {
        self.0.make_durable(name)
    }
    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        self.0.read(name, at, out)
    }
    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        self.0.stat(name)
    }
    fn names(&self, folder: &str) -> Result<Vec<String>> {
        self.0.names(folder)
    }
    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.0.folders(folder)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        self.0.list(folder)
    }
    fn delete(&self, names: &[String]) -> Result<()> {
        self.0.delete(names)
    }
    fn remove_temporaries(&self, before_ms: u64) -> Result<u64> {
        self.0.remove_temporaries(before_ms)
    }
    fn has_cheap_stat(&self) -> bool {
        true
    }
    fn concurrent_puts(&self) -> usize {
        1
    }
    fn directory(&self) -> Option<&Path> {
        self.0.directory()
    }
    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        self.0.read_all(name, len_max)
    }
}

/// A storage that makes objects twice is refused, and nothing is left in it.
#[test]
fn careless_storage_is_refused() {
    let storage = Arc::new(Careless::default());
    let error = Store::init(storage.clone(), TestClock::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("If-None-Match"), "{error}");
    assert!(storage.names("probe").unwrap().is_empty());
    assert_eq!(Store::open(storage, TestClock::new()).unwrap_err().kind, ErrorKind::NoStore);
}

/// A place is a store once, and what is not a store is not taken for one.
#[test]
fn once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let storage = || Arc::new(LocalStorage::new(&root));
    let open = || Store::open(storage(), TestClock::new());
    assert_eq!(open().unwrap_err().kind, ErrorKind::NoStore);
    local_store(&root);
    open().unwrap();
    let again = Store::init(storage(), TestClock::new()).unwrap_err();
    assert_eq!(again.kind, ErrorKind::AlreadyExists);
    let path = root.join(CONFIG_NAME);
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config.replace("\"format\": 1", "\"format\": 2")).unwrap();
    assert_eq!(open().unwrap_err().kind, ErrorKind::Unsupported);
    std::fs::write(&path, config.replace("true", "false")).unwrap();
    assert_eq!(open().unwrap_err().kind, ErrorKind::Unsupported);
    for bad in [String::new(), config.replace("86400", "06400"), config.replace("86400", "8640 ")] {
        std::fs::write(&path, bad).unwrap();
        let error = open().unwrap_err();
        assert_eq!((error.kind, error.advice()), (ErrorKind::Corrupt, Some(Advice::RecreateStore)));
    }
}

/// Every damaged bit of a configuration is found, and a new one gives the snapshots back.
#[test]
fn a_damaged_configuration() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
    let saved = save_step(&store, &root, "r", 1);
    let good = storage.read_all(CONFIG_NAME, 1 << 16).unwrap();
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        storage.replace(CONFIG_NAME, &bad).unwrap();
        match Store::open(storage.clone(), clock.clone()) {
            // A blank or a letter of another case that means the same.
            Ok(same) => assert_eq!(same.config(), store.config()),
            Err(e) => assert!(matches!(e.kind, ErrorKind::Corrupt | ErrorKind::Unsupported)),
        }
    }
    storage.delete(&[CONFIG_NAME.to_string()]).unwrap();
    let store = Store::init(storage, clock).unwrap();
    check_restores(&store, &saved.name, &root);
}
