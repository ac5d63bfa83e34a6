//! The conformance suite of storages, behind the feature `conformance`. A new storage is done when
//! it passes.

use super::{Put, Storage};
use crate::layout::config::CONFIG_NAME;
use lmc_format::ErrorKind;

/// Tries everything that [`Storage`] promises on an empty storage.
///
/// # Panics
///
/// If the storage breaks a promise.
pub fn check_promises(storage: &dyn Storage) {
    // A folder that is missing is empty in a store.
    assert_eq!(storage.put_new(CONFIG_NAME, b"{}").unwrap(), Put::Created);
    assert!(storage.names("packs").unwrap().is_empty());
    assert_eq!(storage.put_new("packs/ab/one", b"first").unwrap(), Put::Created);
    assert_eq!(storage.put_new("packs/ab/one", b"second").unwrap(), Put::Exists);
    assert_eq!(storage.read_all("packs/ab/one", 100).unwrap(), b"first");
    assert_eq!(storage.put_new("packs/ab/empty", b"").unwrap(), Put::Created);
    assert_eq!(storage.read_all("packs/ab/empty", 100).unwrap(), b"");
    storage.make_durable("packs/ab/one").unwrap();

    let mut part = [0; 3];
    storage.read("packs/ab/one", 1, &mut part).unwrap();
    assert_eq!(&part, b"irs");
    assert!(storage.read("packs/ab/one", 3, &mut part).is_err());
    let missing = storage.read("packs/ab/none", 0, &mut part).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert_eq!(storage.read_all("packs/ab/none", 9).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(storage.read_all("packs/ab/one", 4).unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(storage.stat("packs/ab/one").unwrap().unwrap().size, 5);
    assert_eq!(storage.stat("packs/ab/none").unwrap(), None);

    storage.put_new("packs/cd/two", b"22").unwrap();
    storage.put_new("packs2/other", b"").unwrap();
    let mut names = storage.names("packs").unwrap();
    names.sort();
    assert_eq!(names, ["packs/ab/empty", "packs/ab/one", "packs/cd/two"]);
    let mut folders = storage.folders("packs").unwrap();
    folders.sort();
    assert_eq!(folders, ["ab", "cd"]);
    assert!(storage.folders("packs/ab").unwrap().is_empty());
    assert!(storage.folders("none").unwrap().is_empty());
    let mut sizes: Vec<u64> =
        storage.list("packs").unwrap().iter().map(|entry| entry.stat.size).collect();
    sizes.sort();
    assert_eq!(sizes, [0, 2, 5]);

    storage.replace("packs/cd/two", b"replaced").unwrap();
    assert_eq!(storage.read_all("packs/cd/two", 100).unwrap(), b"replaced");
    // A move is whole, and takes no name that is not free.
    let later = storage.stat("packs/cd/two").unwrap().unwrap();
    assert_eq!(storage.move_new("packs/cd/two", "packs/ab/one").unwrap(), Put::Exists);
    assert_eq!(storage.read_all("packs/ab/one", 100).unwrap(), b"first");
    assert_eq!(storage.move_new("packs/cd/two", "away/deep/two").unwrap(), Put::Created);
    assert_eq!(storage.stat("packs/cd/two").unwrap(), None);
    assert_eq!(storage.read_all("away/deep/two", 100).unwrap(), b"replaced");
    assert!(storage.stat("away/deep/two").unwrap().unwrap().modified_ms >= later.modified_ms);
    let missing = storage.move_new("packs/cd/two", "packs/cd/three").unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    assert_eq!(storage.move_new("away/deep/two", "packs/cd/two").unwrap(), Put::Created);
    let gone = ["packs/ab/one".to_string(), "packs/ab/none".to_string()];
    storage.delete(&gone).unwrap();
    assert_eq!(storage.stat("packs/ab/one").unwrap(), None);
    assert_eq!(storage.put_new("packs/ab/one", b"third").unwrap(), Put::Created);
    storage.remove_temporaries(u64::MAX).unwrap();
    assert_eq!(storage.read_all("packs/ab/one", 100).unwrap(), b"third");
}

/// Creates the same object from several threads concurrently: exactly one of them may create it.
///
/// # Panics
///
/// If none of them does, or more than one, or if the bytes of several are mixed.
pub fn check_one_winner(storage: &dyn Storage, name: &str) {
    let put = |i: u8| storage.put_new(name, &[i; 1000]).unwrap() == Put::Created;
    let put = &put;
    let winners = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || put(i))).collect();
        threads.into_iter().filter_map(|t| t.join().ok()).filter(|won| *won).count()
    });
    assert_eq!(winners, 1);
    let bytes = storage.read_all(name, 1000).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
}
