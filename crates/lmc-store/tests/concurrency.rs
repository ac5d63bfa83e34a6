//! Writers, readers and prunes at once, with no lock: nothing that was committed is lost.

use crate::common::*;
use lmc_store::storage::LocalStorage;
use lmc_store::{ErrorKind, Keep, PruneOptions, RestoreOptions, SaveOptions, Store, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Four writers, a reader and a prune that has no patience, on one directory.
#[test]
fn writers_readers_and_prunes() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let open = || Store::open(Arc::new(LocalStorage::new(&root)), Arc::new(SystemClock)).unwrap();
    Store::init(Arc::new(LocalStorage::new(&root)), Arc::new(SystemClock)).unwrap();
    let is_done = AtomicBool::new(false);
    let (open, folder, is_done) = (&open, folder.path(), &is_done);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4_u32)
            .map(|writer| {
                scope.spawn(move || {
                    let store = open();
                    for step in 0..8_u32 {
                        let path = folder.join(format!("w{writer}"));
                        let bytes = checkpoint(&["a"], 2000, 1, writer * 100 + step);
                        write(&path.join("model.safetensors"), &bytes);
                        let run = format!("run{writer}");
                        let saved = save_step(&store, &path, &run, u64::from(step));
                        check_restores(&store, &saved.name, &path);
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            let store = open();
            while !is_done.load(Ordering::Relaxed) {
                let keep = Keep { last: Some(3), ..Keep::default() };
                let plan = store.plan_forget(&keep, None).unwrap();
                store.forget(&plan.forgotten).unwrap();
                match store.prune(&PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }) {
                    Ok(_) => {}
                    Err(e) => assert_eq!(e.kind, ErrorKind::Conflict, "{e}"),
                }
            }
        });
        scope.spawn(move || {
            let store = open();
            while !is_done.load(Ordering::Relaxed) {
                let Ok(name) = store.find("latest") else { continue };
                let target = folder.join("read");
                let options = RestoreOptions::default();
                match store.restore(&name, &target, &options) {
                    Ok(_) => std::fs::remove_dir_all(&target).unwrap(),
                    // Forgotten and removed meanwhile, never wrong.
                    Err(e) => assert_eq!(e.kind, ErrorKind::NotFound, "{e}"),
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let store = open();
    for writer in 0..4 {
        let names = store.snapshots_of(&format!("run{writer}")).unwrap();
        assert!(names.len() >= 3 && names.last().unwrap().step == 7);
    }
    let options = lmc_store::CheckOptions { read_percent: 100 };
    assert!(store.check(&options).unwrap().is_clean());
}

/// Two that make a store at once: one does.
#[test]
fn one_store() {
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("store");
    let init = || Store::init(Arc::new(LocalStorage::new(root)), Arc::new(SystemClock)).is_ok();
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(init)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!(made, 1);
}

/// Many writers to one run: every commit is there.
#[test]
fn no_lost_updates() {
    let (store, _, _) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let (store, folder) = (&store, folder.path());
    std::thread::scope(|scope| {
        for writer in 0..4_u32 {
            scope.spawn(move || {
                for step in 0..10 {
                    let path = folder.join(format!("w{writer}/{step}"));
                    write(&path.join("x"), format!("{writer} {step}").as_bytes());
                    let options = SaveOptions { step: Some(1), ..SaveOptions::default() };
                    save(store, &path, options);
                }
            });
        }
    });
    assert_eq!(store.snapshots().unwrap().len(), 40);
}
