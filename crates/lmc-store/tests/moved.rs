//! What a repair moves, and what lies where it moves it to: no pack goes meanwhile, nothing that
//! was forgotten comes back, and nothing is deleted that is not there twice.

use crate::common::*;
use lmc_store::storage::{LocalStorage, MemoryStorage, Storage};
use lmc_store::{ErrorKind, PruneOptions, SnapshotName, Store, SystemClock};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// Whatever nobody needs is old enough.
const NOW: PruneOptions = PruneOptions { grace_ms: Some(0), dry_run: false, allow_empty: false };

/// A store in memory with two snapshots that have nothing in common, and a copy of it.
struct Scene {
    folder: tempfile::TempDir,
    store: Store,
    storage: Arc<MemoryStorage>,
    clock: Arc<TestClock>,
    other: Store,
    name: SnapshotName,
    source: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (store, storage, clock) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let save = |step: u64| {
            let root = folder.path().join(format!("step{step}"));
            write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, 10 + step, 0));
            (save_step(&store, &root, &format!("run{step}"), step).name, root)
        };
        let (name, source) = save(1);
        save(2);
        let (other, _, _) = memory_store();
        store.copy_to(&other, &store.snapshots().unwrap()).unwrap();
        clock.pass_hours(100);
        Self { folder, store, storage, clock, other, name, source }
    }

    fn object(&self) -> String {
        self.name.object().unwrap()
    }

    fn damaged(&self) -> String {
        self.object().replacen("snapshots", "damaged", 1)
    }

    fn read(&self, object: &str) -> Vec<u8> {
        self.storage.read_all(object, 1 << 28).unwrap()
    }

    fn packs(&self) -> Vec<String> {
        objects_in(&*self.storage, "packs")
    }

    /// The same store, of which each call is told to somebody before it is done.
    fn watched(&self, tell: impl Fn(Call, &str) + Send + Sync + 'static) -> Store {
        let watched = MortalStorage::new(self.storage.clone(), u64::MAX);
        watched.watch(move |call, object| {
            tell(call, object);
            Fate::Done
        });
        Store::open(watched, self.clock.clone()).unwrap()
    }

    fn check_restores(&self) {
        check_restores(&self.store, &self.name, &self.source);
    }
}

/// The channels of a repair that waits for a prune.
struct Waiting {
    is_moved: Sender<()>,
    go: Receiver<()>,
}

/// One repair finds a damaged manifest, another one puts it right, and the first moves the good one
/// away and back: away before a prune lists snapshots, back before it lists what was moved away.
/// Its packs stay.
#[test]
fn a_good_manifest_that_is_moved_and_back_beside_a_prune_keeps_its_packs() {
    let scene = Scene::new();
    let (object, good, before) = (scene.object(), scene.read(&scene.object()), scene.packs());
    scene.storage.replace(&object, &[b"x", &good[..]].concat()).unwrap();
    let (is_moved, moved) = channel();
    let (go_on, go) = channel();
    let waiting = Mutex::new(Some(Waiting { is_moved: is_moved.clone(), go }));
    let changes = AtomicU64::new(0);
    let (storage, right) = (scene.storage.clone(), good.clone());
    let (place, key) = (object.clone(), object["snapshots/".len()..].to_string());
    let repairer = scene.watched(move |call, at| {
        if call != Call::Change || !at.ends_with(&key) {
            return;
        }
        match changes.fetch_add(1, Ordering::SeqCst) {
            0 => storage.replace(&place, &right).unwrap(),
            1 => {
                let Waiting { is_moved, go } = waiting.lock().unwrap().take().unwrap();
                is_moved.send(()).unwrap();
                go.recv().unwrap();
            }
            _ => {}
        }
    });
    let thread: Mutex<Option<std::thread::JoinHandle<()>>> = Mutex::new(None);
    let (moved, is_moved) = (Mutex::new(moved), Mutex::new(is_moved));
    let repairer = Mutex::new(Some(repairer));
    let pruner = scene.watched(move |call, at| match at {
        "snapshots" if call == Call::List => {
            let Some(repairer) = repairer.lock().unwrap().take() else { return };
            let is_moved = is_moved.lock().unwrap().clone();
            *thread.lock().unwrap() = Some(std::thread::spawn(move || {
                // It may refuse to go on beside a prune.
                let _ = repairer.repair(None, false);
                let _ = is_moved.send(());
            }));
            moved.lock().unwrap().recv().unwrap();
        }
        "damaged" if call == Call::List => {
            let Some(thread) = thread.lock().unwrap().take() else { return };
            let _ = go_on.send(());
            thread.join().unwrap();
        }
        _ => {}
    });
    let _ = pruner.prune(&NOW);
    assert_eq!(scene.packs(), before);
    scene.store.repair(None, false).unwrap();
    scene.check_restores();
}

/// A manifest that comes back out of `damaged/` at any moment of a prune, without a lease, as of a
/// repair that stood still until its own was old: its packs stay.
#[test]
fn what_comes_back_at_any_moment_of_a_prune_keeps_its_packs() {
    for moment in 0.. {
        let scene = Scene::new();
        let (object, damaged, before) = (scene.object(), scene.damaged(), scene.packs());
        scene.storage.move_new(&object, &damaged).unwrap();
        let calls = Arc::new(AtomicU64::new(0));
        let (counted, storage) = (calls.clone(), scene.storage.clone());
        let (from, to) = (damaged.clone(), object.clone());
        let pruner = scene.watched(move |_, _| {
            if counted.fetch_add(1, Ordering::SeqCst) == moment {
                storage.move_new(&from, &to).unwrap();
            }
        });
        let _ = pruner.prune(&NOW);
        assert_eq!(scene.packs(), before, "moment {moment}");
        scene.store.repair(None, false).unwrap();
        scene.check_restores();
        if calls.load(Ordering::SeqCst) <= moment {
            break;
        }
    }
}

/// What a repair moved away may name any pack, since no byte of it is certain: all stay while it is
/// there, and the prune names it.
#[test]
fn a_damaged_manifest_keeps_all_packs() {
    let scene = Scene::new();
    let (object, damaged) = (scene.object(), scene.damaged());
    let (good, before) = (scene.read(&object), scene.packs());
    let at = good.windows(11).position(|bytes| bytes == b"\"packs\":[[\"").unwrap() + 10;
    // The mark before the name of a pack becomes a digit; a digit of the name becomes another one,
    // and the manifest can still be parsed.
    for (place, bit) in [(at, 0x10), (at + 1, 1), (at + 1, 0x40)] {
        let mut bad = good.clone();
        bad[place] ^= bit;
        scene.storage.replace(&object, &bad).unwrap();
        let repaired = scene.store.repair(None, false).unwrap();
        assert_eq!(repaired.moved, std::slice::from_ref(&object));
        let pruned = scene.store.prune(&NOW).unwrap();
        assert_eq!(scene.packs(), before, "bit {bit} at {place}");
        assert_eq!(pruned.unreadable, std::slice::from_ref(&damaged));
        scene.storage.replace(&damaged, &good).unwrap();
        scene.store.repair(None, false).unwrap();
        scene.check_restores();
    }
}

/// A snapshot that is forgotten and pruned while a repair is about to put its manifest right does
/// not come back.
#[test]
fn a_repair_brings_nothing_back_that_was_forgotten_meanwhile() {
    for moment in 0.. {
        let scene = Scene::new();
        let newer = scene.folder.path().join("newer");
        write(&newer.join("x"), b"x");
        save_step(&scene.store, &newer, "run1", 9);
        let (object, good) = (scene.object(), scene.read(&scene.object()));
        scene.storage.replace(&object, &[b"x", &good[..]].concat()).unwrap();
        let calls = Arc::new(AtomicU64::new(0));
        let (counted, store, name) = (calls.clone(), scene.store.clone(), scene.name.clone());
        let is_pruned = Arc::new(AtomicU64::new(0));
        let done = is_pruned.clone();
        let repairer = scene.watched(move |_, _| {
            if counted.fetch_add(1, Ordering::SeqCst) == moment {
                store.forget(std::slice::from_ref(&name)).unwrap();
                let pruned = store.prune(&NOW).map_or(0, |pruned| pruned.snapshots.len());
                done.store(pruned as u64, Ordering::SeqCst);
            }
        });
        let _ = repairer.repair(Some(&scene.other), false);
        let is_shown = scene.store.snapshots().unwrap().contains(&scene.name);
        let was_reached = calls.load(Ordering::SeqCst) > moment;
        assert!(!is_shown || !was_reached, "moment {moment}");
        if is_pruned.load(Ordering::SeqCst) == 1 {
            assert_eq!(scene.storage.stat(&object).unwrap(), None, "moment {moment}");
        }
        if !was_reached {
            break;
        }
    }
}

/// A store in a directory with one snapshot, which is what was saved.
fn in_directory(folder: &Path) -> (Store, PathBuf, SnapshotName) {
    let root = folder.join("store");
    let storage = Arc::new(LocalStorage::new(&root));
    let store = Store::init(storage, Arc::new(SystemClock)).unwrap();
    write(&folder.join("source/x"), b"x");
    let name = save_step(&store, &folder.join("source"), "r", 1).name;
    (store, root, name)
}

/// What lies in `damaged/` and is not the very manifest that comes back stays, whatever it is; and
/// once the manifest is in its place, what is a file there keeps no pack any more.
#[test]
fn a_repair_deletes_nothing_but_what_is_there_again() {
    for is_own in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (store, root, name) = in_directory(folder.path());
        let (other, _, _) = memory_store();
        store.copy_to(&other, std::slice::from_ref(&name)).unwrap();
        let manifest = root.join(name.object().unwrap());
        let damaged = root.join("damaged").join(name.key().unwrap());
        fs::create_dir_all(damaged.parent().unwrap()).unwrap();
        let place = |end: &str| PathBuf::from(format!("{}{end}", damaged.display()));
        if is_own {
            fs::copy(&manifest, &damaged).unwrap();
        }
        fs::remove_file(&manifest).unwrap();
        fs::write(place(".1"), b"notes of mine").unwrap();
        fs::write(place(".notes"), b"more of them").unwrap();
        make_pipe(&place(".2"));
        symlink("nowhere", place(".3")).unwrap();
        let repaired = store.repair(Some(&other), false).unwrap();
        assert_eq!(repaired.manifests, [name.object().unwrap()]);
        assert!(manifest.is_file() && !damaged.exists());
        for end in [".1", ".2", ".3", ".notes"] {
            assert!(place(end).symlink_metadata().is_ok(), "{end}");
        }
        // It is reported once.
        assert!(store.repair(Some(&other), false).unwrap().manifests.is_empty());
        for end in [".2", ".3", ".notes"] {
            assert!(store.prune(&NOW).is_err() || end == ".notes");
            fs::remove_file(place(end)).unwrap();
        }
        fs::write(folder.path().join("source/x"), b"other").unwrap();
        let newer = save_step(&store, &folder.path().join("source"), "other", 2).name;
        store.forget(std::slice::from_ref(&newer)).unwrap();
        let pruned = store.prune(&NOW).unwrap();
        assert_eq!((pruned.packs.len(), pruned.unreadable.len()), (1, 0), "{pruned:?}");
    }
}

/// A folder in the place of an object in `damaged/` is named by a prune, which removes nothing.
#[test]
fn a_folder_in_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (store, root, name) = in_directory(folder.path());
    let object = format!("damaged/{}", name.key().unwrap());
    fs::create_dir_all(root.join(&object)).unwrap();
    let error = store.prune(&NOW).unwrap_err();
    assert!(error.kind == ErrorKind::Corrupt && error.to_string().contains(&object), "{error}");
    fs::remove_dir(root.join(&object)).unwrap();
    store.prune(&NOW).unwrap();
}
