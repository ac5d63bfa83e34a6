//! A store in a directory: nothing in it is a link, and nobody sees more of it than of its root.

mod common;

use common::*;
use lmc_store::storage::{LocalStorage, MemoryStorage};
use lmc_store::{CheckOptions, PruneOptions, RestoreOptions, SaveOptions, SnapshotName, Store};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALL: CheckOptions = CheckOptions { read_percent: 100, threads: 1 };

fn source(folder: &Path, seed: u64) -> PathBuf {
    let root = folder.join(format!("source{seed}"));
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, seed, 0));
    root
}

/// Does all that writes to a store, whatever comes of it.
fn use_store(store: &Store, name: &SnapshotName, source: &Path) -> Vec<bool> {
    let options = SaveOptions { threads: 1, ..SaveOptions::default() };
    vec![
        store.save(source, &options, &|_| ()).is_ok(),
        store.tag(name, "best").is_ok(),
        store.repair(None, false, 1).is_ok(),
        store.forget(std::slice::from_ref(name)).is_ok(),
        store.prune(&PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }).is_ok(),
    ]
}

/// A folder of the store, at any depth, is put out of the way for a link: nothing is written,
/// removed or read behind it.
#[test]
fn nothing_goes_through_a_folder_that_is_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    let probe = folder.path().join("probe");
    let (store, _) = local_store(&probe);
    let (one, two) = (source(folder.path(), 1), source(folder.path(), 2));
    save_step(&store, &one, "r", 1);
    store.tag(&store.find("latest").unwrap(), "good").unwrap();
    let mut names = Vec::new();
    for (name, (kind, ..)) in tree(&probe) {
        let name = String::from_utf8(name).unwrap();
        // `init` alone uses the folder of probes.
        names.extend((kind == 'd' && name != "probe").then_some(name));
    }
    assert!(names.len() > 8, "{names:?}");
    for link in names {
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        let name = save_step(&store, &one, "r", 1).name;
        store.tag(&name, "good").unwrap();
        // What a thief would like: all of it stands behind the link.
        let _ = fs::remove_dir_all(&victim);
        fs::rename(root.join(&link), &victim).unwrap();
        let before = tree(&victim);
        symlink(&victim, root.join(&link)).unwrap();
        // Another process, which has not seen the folder before.
        let again = Store::open(Arc::new(LocalStorage::new(&root)), TestClock::new()).unwrap();
        for store in [&again, &store] {
            let done = use_store(store, &name, &two);
            // The tags of others are nobody's concern here.
            assert!(done.contains(&false) || link.starts_with("tags/"), "{link}: {done:?}");
            assert!(tree(&victim) == before, "{link}: {done:?}");
        }
        fs::remove_dir_all(&root).unwrap();
    }
}

/// A pack or a manifest that is a link is refused when it is read, with words that say so; a check
/// names it, and a repair puts a file in its place.
#[test]
fn objects_that_are_links_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (store, clock) = local_store(&root);
    let one = source(folder.path(), 1);
    let name = save_step(&store, &one, "r", 1).name;
    let copy = Store::init(Arc::new(MemoryStorage::new(clock.clone())), clock).unwrap();
    store.copy_to(&copy, std::slice::from_ref(&name), &|_| ()).unwrap();
    let pack = store.manifest(&name).unwrap().packs[0].name.object();
    let restore = |target: &str| {
        let options = RestoreOptions { threads: 1, ..RestoreOptions::default() };
        store.restore(&name, &folder.path().join(target), &options, &|_| ())
    };
    for object in [pack, name.object().unwrap()] {
        let away = folder.path().join("away");
        fs::rename(root.join(&object), &away).unwrap();
        symlink(&away, root.join(&object)).unwrap();
        let error = restore("no").unwrap_err();
        assert!(error.to_string().contains("is a link"), "{error}");
        let checked = store.check(&ALL).unwrap();
        let packs = checked.damaged.iter().map(|(_, damage)| damage);
        let named: Vec<&String> =
            checked.manifests.iter().chain(packs).map(|damage| &damage.object).collect();
        assert_eq!(named, [&object]);
        let before = fs::read(&away).unwrap();
        assert!(store.repair(Some(&copy), false, 1).unwrap().after.is_clean());
        assert!(fs::symlink_metadata(root.join(&object)).unwrap().is_file());
        assert_eq!(fs::read(&away).unwrap(), before);
        restore(&object.replace('/', "-")).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Everything below a folder, with its mode.
fn modes(root: &Path) -> Vec<(String, char, u32)> {
    let all = tree(root).into_iter();
    all.map(|(name, (kind, mode, _))| (String::from_utf8(name).unwrap(), kind, mode)).collect()
}

/// A new store and all that is ever put into it are the owner's alone, whatever the umask is.
#[test]
fn a_new_store_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let (store, _) = local_store(&root);
    let name = save_step(&store, &source(folder.path(), 1), "r", 1).name;
    save_step(&store, &source(folder.path(), 2), "r", 2);
    use_store(&store, &name, &source(folder.path(), 3));
    assert_eq!(mode(&root), 0o700);
    for (name, kind, mode) in modes(&root) {
        assert_eq!(mode, if kind == 'd' { 0o700 } else { 0o600 }, "{name}");
    }
}

/// What comes later is as open as the root of the store: a shared one stays shared, whoever writes
/// and whatever their umask is, and one that was closed stays closed.
#[test]
fn later_writers_follow_the_mode_of_the_root() {
    for (root_mode, folders, files) in
        [(0o755, 0o755, 0o644), (0o2770, 0o770, 0o660), (0o500 | 0o200, 0o700, 0o600)]
    {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        fs::set_permissions(&root, fs::Permissions::from_mode(root_mode)).unwrap();
        let before: Vec<String> = modes(&root).into_iter().map(|(name, ..)| name).collect();
        let name = save_step(&store, &source(folder.path(), 1), "r", 1).name;
        use_store(&store, &name, &source(folder.path(), 2));
        let new = modes(&root).into_iter().filter(|(name, ..)| !before.contains(name));
        let new: Vec<_> = new.collect();
        assert!(new.len() > 5, "{new:?}");
        for (name, kind, mode) in new {
            assert_eq!(mode, if kind == 'd' { folders } else { files }, "{name}");
        }
        assert_eq!(mode(&root), root_mode);
        assert!(fs::metadata(root.join("packs")).unwrap().mode() & 0o7000 <= 0o2000);
    }
}
