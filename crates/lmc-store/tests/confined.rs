//! A store in a directory: nothing in it is a link, and nobody sees more of it than of its root.

use crate::common::*;
use lmc_store::storage::{self, Access, LocalStorage, MemoryStorage};
use lmc_store::{
    CONFIG_NAME, CheckOptions, ErrorKind, Parent, PruneOptions, RestoreOptions, SaveOptions,
    SnapshotName, Store,
};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ALL: CheckOptions = CheckOptions { read_percent: 100 };

fn source(folder: &Path, seed: u64) -> PathBuf {
    let root = folder.join(format!("source{seed}"));
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, seed, 0));
    root
}

/// Does all that writes to a store, whatever comes of it.
fn use_store(store: &Store, name: &SnapshotName, source: &Path) -> Vec<bool> {
    let options = SaveOptions::default();
    vec![
        store.save(source, &options).is_ok(),
        store.tag(name, "best").is_ok(),
        store.repair(None, false).is_ok_and(|repaired| repaired.after.is_clean()),
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
        // What a thief would like: all of it is behind the link.
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
    store.copy_to(&copy, std::slice::from_ref(&name)).unwrap();
    let pack = store.manifest(&name).unwrap().packs[0].name.object();
    let restore = |target: &str| {
        let options = RestoreOptions::default();
        store.restore(&name, &folder.path().join(target), &options)
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
        assert!(store.repair(Some(&copy), false).unwrap().after.is_clean());
        assert!(fs::symlink_metadata(root.join(&object)).unwrap().is_file());
        assert_eq!(fs::read(&away).unwrap(), before);
        restore(&object.replace('/', "-")).unwrap();
    }
}

/// What is in the place of an object and is not a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Impostor {
    Pipe,
    Socket,
    Folder,
    Link,
}

impl Impostor {
    const ALL: [Self; 4] = [Self::Pipe, Self::Socket, Self::Folder, Self::Link];

    fn make(self, path: &Path) {
        match self {
            Self::Pipe => make_pipe(path),
            Self::Socket => {
                // Sockets have short names when they are made.
                let folder = tempfile::tempdir().unwrap();
                let short = folder.path().join("s");
                drop(std::os::unix::net::UnixListener::bind(&short).unwrap());
                fs::rename(short, path).unwrap();
            }
            Self::Folder => write(&path.join("somebody's"), b"x"),
            Self::Link => symlink("/nowhere", path).unwrap(),
        }
    }
}

/// A pack that is not a file is named by a check and by a repair, which continue with the rest. A
/// repair that has its bytes puts a file in its place, unless it is a folder: that stays, and so
/// does all that nobody has the bytes of.
#[test]
fn packs_that_are_no_files_are_damage() {
    for impostor in Impostor::ALL {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        let one = source(folder.path(), 1);
        let two = source(folder.path(), 2);
        let names = [save_step(&store, &one, "r", 1).name, save_step(&store, &two, "s", 1).name];
        let (copy, _, _) = memory_store();
        store.copy_to(&copy, &names).unwrap();
        let packs: Vec<PathBuf> = names
            .iter()
            .map(|name| root.join(store.manifest(name).unwrap().packs[0].name.object()))
            .collect();
        fs::remove_file(&packs[0]).unwrap();
        impostor.make(&packs[0]);
        // The other one is rotten, and comes later or earlier.
        fs::write(&packs[1], b"rot").unwrap();
        for options in [ALL, CheckOptions { read_percent: 0 }] {
            let checked = store.check(&options).unwrap();
            assert_eq!((checked.damaged.len(), checked.hurt.len()), (2, 2), "{impostor:?}");
            let mut errors = checked.damaged.iter().map(|(_, damage)| damage.error.to_string());
            let is_named = |error: String| {
                error.contains("not a file")
                    || error.contains("is a link; a store must not contain links")
            };
            assert!(errors.any(is_named), "{impostor:?}: {checked:?}");
        }
        let repaired = store.repair(None, false).unwrap();
        assert_eq!((repaired.lost.len(), repaired.after.damaged.len()), (2, 2), "{impostor:?}");
        assert!(!fs::symlink_metadata(&packs[0]).unwrap().is_file(), "{impostor:?}");
        let is_folder = impostor == Impostor::Folder;
        let tried = store.repair(Some(&copy), true).unwrap();
        let repaired = store.repair(Some(&copy), false).unwrap();
        assert_eq!(tried.packs, repaired.packs, "{impostor:?}");
        assert_eq!(repaired.packs.len(), if is_folder { 1 } else { 2 }, "{impostor:?}");
        assert_eq!(repaired.after.is_clean(), !is_folder, "{impostor:?}");
        assert_eq!(packs[0].join("somebody's").exists(), is_folder);
        check_restores(&store, &names[1], &two);
        // A save of what is in its place is an error or a pack elsewhere, and ends.
        let options = SaveOptions { parent: Parent::None, ..SaveOptions::default() };
        let saved = store.save(&one, &options);
        assert_eq!(saved.is_ok(), !is_folder, "{impostor:?}");
    }
}

/// The same for manifests: one that is not a file is named and stays, unless there is a copy of it,
/// and a repair continues with the rest.
#[test]
fn manifests_that_are_no_files_are_damage() {
    for impostor in [Impostor::Pipe, Impostor::Socket, Impostor::Link] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        let (one, two) = (source(folder.path(), 1), source(folder.path(), 2));
        let names = [save_step(&store, &one, "r", 1).name, save_step(&store, &two, "s", 1).name];
        let (copy, _, _) = memory_store();
        store.copy_to(&copy, &names).unwrap();
        let objects = names.clone().map(|name| name.object().unwrap());
        let paths = objects.clone().map(|object| root.join(object));
        fs::remove_file(&paths[0]).unwrap();
        impostor.make(&paths[0]);
        fs::write(&paths[1], b"rot").unwrap();
        assert_eq!(store.check(&ALL).unwrap().manifests.len(), 2, "{impostor:?}");
        let tried = store.repair(None, true).unwrap();
        let repaired = store.repair(None, false).unwrap();
        assert_eq!(tried.moved, repaired.moved, "{impostor:?}");
        assert_eq!(repaired.moved, [objects[1].clone()], "{impostor:?}");
        assert_eq!(repaired.after.manifests.len(), 1, "{impostor:?}");
        assert!(!fs::symlink_metadata(&paths[0]).unwrap().is_file(), "{impostor:?}");
        // A prune cannot tell what it needs.
        let error = store.prune(&PruneOptions::default()).unwrap_err();
        assert!(error.to_string().contains(&objects[0]), "{error}");
        assert!(store.repair(Some(&copy), false).unwrap().after.is_clean(), "{impostor:?}");
        check_restores(&store, &names[0], &one);
        check_restores(&store, &names[1], &two);
    }
}

/// A link or a file in the place of a folder of packs or of snapshots hides what should be there: a
/// check and a repair say so and go on.
#[test]
fn folders_that_are_none_are_damage() {
    for is_link in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        let (store, _) = local_store(&root);
        let (one, two) = (source(folder.path(), 1), source(folder.path(), 2));
        let names = [save_step(&store, &one, "r", 1).name, save_step(&store, &two, "s", 1).name];
        let (copy, _, _) = memory_store();
        store.copy_to(&copy, &names).unwrap();
        let pack = root.join(store.manifest(&names[0]).unwrap().packs[0].name.object());
        let away = folder.path().join("away");
        for hidden in [pack.parent().unwrap(), &root.join("snapshots/r")] {
            fs::rename(hidden, &away).unwrap();
            match is_link {
                true => symlink(&away, hidden).unwrap(),
                false => fs::write(hidden, b"x").unwrap(),
            }
            let checked = store.check(&ALL).unwrap();
            assert_eq!(checked.damaged.len() + checked.manifests.len(), 1, "{checked:?}");
            let repaired = store.repair(Some(&copy), false).unwrap();
            if hidden == root.join("snapshots/r") && !is_link {
                // What was in its place is gone as any manifest without a copy is.
                assert_eq!(repaired.moved, ["snapshots/r"]);
            } else {
                assert!(!repaired.after.is_clean(), "{hidden:?}: {repaired:?}");
                fs::remove_file(hidden).unwrap();
            }
            check_restores(&store, &names[1], &two);
            fs::rename(&away, hidden).unwrap();
            check_restores(&store, &names[0], &one);
        }
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

/// Somebody who owns nothing here.
const OTHER: u32 = 12_345;

/// Whether owners can be changed, which only root may; says so where not.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        lmc_testkit::skip(
            lmc_testkit::Missing::Root,
            "only root can give a folder to another user",
        );
    }
    is_root
}

/// A folder of another user, who can open it at any time, becomes no private store, empty or not;
/// one that is shared anyway may be there.
#[test]
fn no_private_store_is_made_in_a_folder_of_another_user() {
    if !is_root() {
        return;
    }
    for is_empty in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs::create_dir(&root).unwrap();
        if !is_empty {
            fs::write(root.join("notes"), b"x").unwrap();
        }
        chown(&root, Some(OTHER), None).unwrap();
        let before = (tree(&root), mode(&root));
        let location = root.to_str().unwrap();
        let error = storage::open_new(location, Access::Private).unwrap_err();
        assert!(error.to_string().contains("another user"), "{error}");
        assert!((tree(&root), mode(&root)) == before);
        let shared = storage::open_new(location, Access::Shared).unwrap();
        Store::init(shared, TestClock::new()).unwrap();
        // A store that is there is not called anything else.
        let again = storage::open_new(location, Access::Private).unwrap();
        assert_eq!(
            Store::init(again, TestClock::new()).unwrap_err().kind,
            ErrorKind::AlreadyExists
        );
    }
}

/// A root of another user opens nothing to all for writing. The creator of the store still decides
/// about it, and others do not: what is made is as open as the store was then.
#[test]
fn a_root_of_another_user_opens_nothing_to_all() {
    if !is_root() {
        return;
    }
    // Who owns the configuration, how open the store was made, how it is opened later, and what
    // folders and files are then.
    for (owner, made, later, folders, files) in [
        (0, 0o700, 0o777, 0o700, 0o600),
        (0, 0o750, 0o777, 0o750, 0o640),
        (OTHER, 0o700, 0o770, 0o770, 0o660),
        (OTHER, 0o700, 0o777, 0o775, 0o664),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(made)).unwrap();
        let (store, _) = local_store(&root);
        chown(root.join(CONFIG_NAME), Some(owner), None).unwrap();
        chown(&root, Some(OTHER), None).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(later)).unwrap();
        let before: Vec<String> = modes(&root).into_iter().map(|(name, ..)| name).collect();
        save_step(&store, &source(folder.path(), 1), "r", 1);
        let new = modes(&root).into_iter().filter(|(name, ..)| !before.contains(name));
        let new: Vec<_> = new.collect();
        assert!(new.len() > 3, "{new:?}");
        for (name, kind, mode) in new {
            assert_eq!(mode, if kind == 'd' { folders } else { files }, "{name}: {later:o}");
        }
    }
}

/// A folder that somebody puts in the place of a store while that is in use gets nothing if it
/// belongs to another user, and otherwise nothing that is more open than the store was.
#[test]
fn a_folder_in_the_place_of_a_store_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    fs::create_dir(&root).unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    let (store, _) = local_store(&root);
    save_step(&store, &source(folder.path(), 1), "r", 1);
    fs::rename(&root, folder.path().join("away")).unwrap();
    fs::create_dir(&root).unwrap();
    fs::copy(folder.path().join("away").join(CONFIG_NAME), root.join(CONFIG_NAME)).unwrap();
    for name in ["snapshots", "packs", "pending", "tags", "forgotten", "pruning", "tmp"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
    let before: Vec<String> = modes(&root).into_iter().map(|(name, ..)| name).collect();
    let new = || modes(&root).into_iter().filter(|(name, ..)| !before.contains(name));
    let save = |step| {
        let options = SaveOptions { run: "r".into(), step: Some(step), ..SaveOptions::default() };
        store.save(&source(folder.path(), step), &options)
    };
    let _ = save(2);
    for (name, kind, mode) in new() {
        assert_eq!(mode, if kind == 'd' { 0o700 } else { 0o600 }, "{name}");
    }
    if is_root() {
        let count = new().count();
        chown(&root, Some(OTHER), None).unwrap();
        assert!(save(3).is_err());
        assert_eq!(new().count(), count);
    }
}
