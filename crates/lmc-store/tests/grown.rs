//! What is longer than it should be, cut, or missing from a snapshot that is there is damage:
//! nothing is read by the length that it claims, no save relies on it, and every command says the
//! same.

use crate::common::*;
use lmc_store::storage::LocalStorage;
use lmc_store::{
    Advice, CONFIG_NAME, CheckOptions, ErrorKind, Parent, PruneOptions, RestoreOptions,
    SaveOptions, Saved, SnapshotName, Store, Warning,
};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More than any machine has; a file without bytes in it can be so long.
const HUGE: u64 = 1 << 42;
const QUICK: CheckOptions = CheckOptions { read_percent: 0 };

fn set_len(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// A store in a directory with one snapshot, what was saved, and the file of its first pack.
struct Scene {
    folder: tempfile::TempDir,
    store: Store,
    root: PathBuf,
    source: PathBuf,
    name: SnapshotName,
    pack: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        let source = folder.path().join("source");
        write(&source.join("model.safetensors"), &checkpoint(&["a"], 3000, 1, 0));
        let name = save_step(&store, &source, "r", 1).name;
        let pack = root.join(store.manifest(&name).unwrap().packs[0].name.object());
        Self { folder, store, root, source, name, pack }
    }

    fn manifest(&self) -> PathBuf {
        self.root.join(self.name.object().unwrap())
    }

    /// Another store, with a copy of the snapshot in it.
    fn copy(&self) -> (Store, PathBuf) {
        let root = self.folder.path().join("copy");
        let (copy, _) = local_store(&root);
        self.store.copy_to(&copy, std::slice::from_ref(&self.name)).unwrap();
        (copy, root)
    }

    fn restore_error(&self) -> ErrorKind {
        let options = RestoreOptions::default();
        let target = self.folder.path().join("target");
        self.store.restore(&self.name, &target, &options).unwrap_err().kind
    }
}

/// A repair reads no pack by the length that it has, here or in the other store.
#[test]
fn a_repair_reads_no_pack_by_its_length() {
    let scene = Scene::new();
    let (other, root) = scene.copy();
    let theirs = root.join(scene.pack.strip_prefix(&scene.root).unwrap());
    let good = fs::read(&theirs).unwrap();
    for pack in [&scene.pack, &theirs] {
        fs::write(pack, vec![7; good.len()]).unwrap();
        set_len(pack, HUGE);
    }
    for from in [None, Some(&other)] {
        let repaired = scene.store.repair(from, false).unwrap();
        assert_eq!((repaired.packs.len(), repaired.lost.len()), (0, 1));
    }
    fs::write(&theirs, &good).unwrap();
    assert!(scene.store.repair(Some(&other), false).unwrap().after.is_clean());
    check_restores(&scene.store, &scene.name, &scene.source);
}

/// A pack that grew has its own bytes at its start: a repair needs no copy, whatever it grew by,
/// and a dry run says so. One in the other store that grew is a copy too.
#[test]
fn a_repair_cuts_a_pack_that_grew() {
    let scene = Scene::new();
    let (other, root) = scene.copy();
    let theirs = root.join(scene.pack.strip_prefix(&scene.root).unwrap());
    let good = fs::read(&scene.pack).unwrap();
    for size in [good.len() as u64 + 1, HUGE] {
        set_len(&scene.pack, size);
        let tried = scene.store.repair(None, true).unwrap();
        assert_eq!((tried.packs.len(), len(&scene.pack)), (1, size), "a dry run changes nothing");
        let repaired = scene.store.repair(None, false).unwrap();
        assert_eq!((repaired.packs.len(), repaired.lost.len()), (1, 0));
        assert!(repaired.after.is_clean() && fs::read(&scene.pack).unwrap() == good);
    }
    set_len(&theirs, HUGE);
    fs::remove_file(&scene.pack).unwrap();
    assert!(scene.store.repair(Some(&other), false).unwrap().after.is_clean());
    check_restores(&scene.store, &scene.name, &scene.source);
}

/// What a save warns of, but for the clock of the tests, which is not that of the disk.
fn warnings(saved: &Saved) -> Vec<&Warning> {
    saved.warnings.iter().filter(|warning| !warning.message.contains("clock")).collect()
}

/// A save that relies on a pack of its parent, for a file that has not changed or as a base, looks
/// at its size. One that grew gets its own bytes again, and the save says so.
#[test]
fn a_save_heals_a_pack_that_grew() {
    for drift in [0, 1] {
        let scene = Scene::new();
        let good = fs::read(&scene.pack).unwrap();
        set_len(&scene.pack, good.len() as u64 + 1);
        assert_eq!(scene.store.check(&QUICK).unwrap().damaged.len(), 1);
        let bytes = checkpoint(&["a"], 3000, 1, drift);
        write(&scene.source.join("model.safetensors"), &bytes);
        let saved = save_step(&scene.store, &scene.source, "r", 2);
        let warnings = warnings(&saved);
        assert!(warnings.len() == 1 && warnings[0].message.contains("good now"), "{saved:?}");
        assert_eq!(saved.unchanged, u64::from(drift == 0));
        assert!(fs::read(&scene.pack).unwrap() == good);
        assert!(scene.store.check(&QUICK).unwrap().is_clean());
        check_restores(&scene.store, &saved.name, &scene.source);
    }
}

/// A pack that lacks bytes which the files of this save do not need is not relied on either.
#[test]
fn a_save_relies_on_no_pack_that_is_cut() {
    for drift in [0, 1] {
        let scene = Scene::new();
        // In one pack with the other file, and behind it.
        write(&scene.source.join("z.bin"), &checkpoint(&["z"], 3000, 2, 0));
        let options = || SaveOptions { parent: Parent::None, ..SaveOptions::default() };
        let parent = save(&scene.store, &scene.source, options()).name;
        let pack = &scene.store.manifest(&parent).unwrap().packs[0];
        set_len(&scene.root.join(pack.name.object()), pack.size - 1);
        fs::remove_file(scene.source.join("z.bin")).unwrap();
        let bytes = checkpoint(&["a"], 3000, 1, drift);
        write(&scene.source.join("model.safetensors"), &bytes);
        let options =
            SaveOptions { parent: Parent::Snapshot(parent.clone()), ..SaveOptions::default() };
        let saved = save(&scene.store, &scene.source, options);
        assert!(
            saved.warnings.iter().any(|warning| warning.advice == Some(Advice::CheckStore)),
            "{saved:?}"
        );
        let packs = scene.store.manifest(&saved.name).unwrap().packs;
        assert!(packs.iter().all(|other| other.name != pack.name), "{packs:?}");
        check_restores(&scene.store, &saved.name, &scene.source);
    }
}

/// A manifest that is too long is as damaged as any other: a save continues without it, and all
/// else says that it is damage.
#[test]
fn a_manifest_that_is_too_long_is_damage() {
    let scene = Scene::new();
    set_len(&scene.manifest(), HUGE);
    let Scene { store, name, .. } = &scene;
    assert_eq!(scene.restore_error(), ErrorKind::Corrupt);
    assert_eq!(store.manifest(name).unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(store.rebase(name, &SaveOptions::default()).unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(store.stats().unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(store.prune(&PruneOptions::default()).unwrap_err().kind, ErrorKind::Corrupt);
    assert_eq!(store.check(&QUICK).unwrap().manifests.len(), 1);
    let saved = save_step(store, &scene.source, "r", 2);
    assert!(saved.parent.is_none() && warnings(&saved).len() == 1, "{saved:?}");
    check_restores(store, &saved.name, &scene.source);
}

/// The same of the configuration, with words that say what to do.
#[test]
fn a_configuration_that_is_too_long_is_damage() {
    let scene = Scene::new();
    set_len(&scene.root.join(CONFIG_NAME), 1 << 17);
    let storage = Arc::new(LocalStorage::new(&scene.root));
    let error = Store::open(storage, TestClock::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt);
    assert_eq!(error.advice(), Some(Advice::RecreateStore), "{error}");
}

/// A snapshot whose pack is too long is left out of a copy as damaged.
#[test]
fn a_copy_calls_a_pack_that_grew_damaged() {
    let scene = Scene::new();
    let (target, _) = local_store(&scene.folder.path().join("target"));
    set_len(&scene.pack, HUGE);
    let copied = scene.store.copy_to(&target, std::slice::from_ref(&scene.name)).unwrap();
    assert_eq!(copied.left_out.len(), 1);
    assert_eq!(copied.left_out[0].1.kind, ErrorKind::Corrupt);
}

/// A pack that is missing is damage while its snapshot is shown, and nobody's concern once that was
/// forgotten.
#[test]
fn a_missing_pack_of_a_snapshot_that_is_there_is_damage() {
    let scene = Scene::new();
    let Scene { store, name, .. } = &scene;
    let (target, _) = local_store(&scene.folder.path().join("other"));
    let copy = || {
        let copied = store.copy_to(&target, std::slice::from_ref(name)).unwrap();
        copied.left_out.into_iter().map(|(_, error)| error.kind).collect::<Vec<_>>()
    };
    fs::remove_file(&scene.pack).unwrap();
    assert_eq!(scene.restore_error(), ErrorKind::Corrupt);
    assert_eq!(copy(), [ErrorKind::Corrupt]);
    let target = scene.folder.path().join("kept");
    let options = RestoreOptions { keep_going: true, ..RestoreOptions::default() };
    let restored = store.restore(name, &target, &options).unwrap();
    assert_eq!(restored.failed[0].1.kind, ErrorKind::Corrupt);
    store.forget(std::slice::from_ref(name)).unwrap();
    assert_eq!(scene.restore_error(), ErrorKind::NotFound);
    assert_eq!(copy(), [ErrorKind::NotFound]);
}
