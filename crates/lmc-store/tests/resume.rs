//! A save that is killed leaves no snapshot and harms none; run again, it puts what is missing.

use crate::common::*;
use lmc::Context;
use lmc_store::storage::Storage;
use lmc_store::{ErrorKind, RestoreOptions, Result, SaveOptions, Store};
use std::sync::atomic::Ordering;

/// Killed at each of its changes, and run again.
#[test]
fn killed_saves() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    write(&first.join("model.safetensors"), &checkpoint(&["a"], 8000, 1, 0));
    write(&second.join("model.safetensors"), &checkpoint(&["a"], 8000, 1, 1));
    write(&second.join("new.safetensors"), &checkpoint(&["b"], 8000, 5, 0));
    let options = SaveOptions { pack_len: 4000, ..SaveOptions::default() };
    let mut total = None;
    for changes in 1..100 {
        let (store, storage, clock) = memory_store();
        let old = store.save(&first, &options).unwrap().name;
        let mortal = MortalStorage::new(storage.clone(), changes);
        let dying = Store::open(mortal.clone(), clock.clone()).unwrap();
        let saved = dying.save(&second, &options);
        let put = mortal.packs_put.load(Ordering::SeqCst);
        check_restores(&store, &old, &first);
        if let Ok(saved) = saved {
            check_restores(&store, &saved.name, &second);
            assert!(put > 2, "there is more than one pack");
            // It is committed even if its lease could not be ended; a prune does that.
            if objects_in(&*storage, "pending").is_empty() {
                total = Some(put);
                break;
            }
            continue;
        }
        // The snapshot is there or it is not; the lease may have died with the process.
        let there = store.snapshots().unwrap().len();
        if there == 2 {
            check_restores(&store, &store.find("latest").unwrap(), &second);
            continue;
        }
        let counting = MortalStorage::new(storage.clone(), u64::MAX);
        let again = Store::open(counting.clone(), clock).unwrap();
        let saved = again.save(&second, &options).unwrap();
        assert_eq!(saved.packs.found, put, "killed after {changes} changes");
        assert_eq!(counting.packs_put.load(Ordering::SeqCst), saved.packs.put);
        check_restores(&store, &saved.name, &second);
    }
    assert!(total.is_some(), "a save ends in the end");
}

/// While a prune may be about to remove them, packs that nobody is known to need are put again.
#[test]
fn leftovers_are_not_trusted_beside_a_prune() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 8000, 1, 0));
    let (store, storage, clock) = memory_store();
    let mortal = MortalStorage::new(storage.clone(), 2);
    let dying = Store::open(mortal, clock.clone()).unwrap();
    assert!(dying.save(&root, &SaveOptions::default()).is_err());
    storage.put_new("pruning/someone", b"{}").unwrap();
    let saved = save(&store, &root, SaveOptions::default());
    assert_eq!((saved.packs.put, saved.packs.found), (1, 0));
    let pack = &store.manifest(&saved.name).unwrap().packs[0].name;
    assert!(pack.as_str().contains('-'), "{pack:?} has a name of its own");
    check_restores(&store, &saved.name, &root);
    // And old ones are not trusted either.
    storage.delete(&["pruning/someone".to_string()]).unwrap();
    let other = folder.path().join("other");
    write(&other.join("m.safetensors"), &checkpoint(&["z"], 8000, 8, 0));
    let mortal = MortalStorage::new(storage.clone(), 2);
    let dying = Store::open(mortal, clock.clone()).unwrap();
    let options = SaveOptions { parent: lmc_store::Parent::None, ..SaveOptions::default() };
    assert!(dying.save(&other, &options).is_err());
    clock.pass_hours(13);
    let saved = save(&store, &other, options);
    assert_eq!((saved.packs.put, saved.packs.found), (1, 0));
}

/// A save and a restore that are interrupted leave nothing but packs that the next save finds.
#[test]
fn interrupted_work() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("run");
    for name in ["a", "b", "c"] {
        write(&root.join(name).join("model.safetensors"), &checkpoint(&[name], 8000, 7, 0));
    }
    let (store, storage, _) = memory_store();
    let interrupted = |work: &dyn Fn(&Store) -> Result<()>| {
        let context = Context::with_threads(1);
        let interrupt = context.interrupt.clone();
        let context = context.watched(move |_| interrupt.send());
        let error = work(&store.with_context(&context)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Interrupted, "{error}");
    };
    let options = SaveOptions { pack_len: 4000, ..SaveOptions::default() };
    interrupted(&|store| store.save(&root, &options).map(drop));
    assert_eq!(store.snapshots().unwrap(), []);
    assert_eq!(objects_in(&*storage, "pending"), [""; 0]);
    let saved = store.save(&root, &options).unwrap().name;
    check_restores(&store, &saved, &root);
    let target = folder.path().join("out");
    let restore = RestoreOptions::default();
    interrupted(&|store| store.restore(&saved, &target, &restore).map(drop));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    check_restores(&store, &saved, &root);
}
