//! Files appear whole, and never more open than what they were made from.

use lmc::{FileState, Leftover, NewDirectory, Origin, Publish, Sandbox};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The mask of the process belongs to all threads: while files are published, another thread makes
/// files with the modes that it always had.
#[test]
fn the_mask_of_the_process_is_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    File::create(path("before")).unwrap();
    let (usual, is_done) = (mode(&path("before")), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (path, is_done) = (path(&format!("published{thread}")), &is_done);
            scope.spawn(move || {
                for _ in 0..500 {
                    Publish::create(&path, true, &Origin::nothing()).unwrap().commit().unwrap();
                }
                is_done.store(true, Ordering::Release);
            });
        }
        while !is_done.load(Ordering::Acquire) {
            File::create(path("other")).unwrap();
            assert_eq!(mode(&path("other")), usual);
            fs::remove_file(path("other")).unwrap();
        }
    });
    assert_eq!(mode(&path("published0")), usual, "what has no source is as any new file");
}

/// A file that takes the place of a private one without being made from a file stays private.
#[test]
fn a_private_file_stays_private_when_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    File::create(&path).unwrap();
    for old in [0o600, 0o640, 0o400] {
        set_mode(&path, old);
        let mut publish = Publish::create(&path, true, &Origin::nothing()).unwrap();
        publish.write_all(b"new").unwrap();
        publish.commit().unwrap();
        assert_eq!(mode(&path) & !old, 0, "{old:o} became {:o}", mode(&path));
    }
}

/// The same if it is made from a file that is more open. A new group may do no more than everyone
/// could before, and cannot open the file before it is closed to it.
#[test]
fn nothing_is_more_open_than_what_it_takes_the_place_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = File::create(path("source")).unwrap();
    set_mode(&path("source"), 0o777);
    let origins = [Origin::file(&FileState::of(&source).unwrap()), Origin::recorded(0o777, (0, 0))];
    for (old, origin) in [0o600, 0o640, 0o604, 0o444].iter().flat_map(|old| {
        let origins = origins.iter();
        origins.map(move |origin| (old, origin))
    }) {
        File::create(path("file")).unwrap();
        set_mode(&path("file"), *old);
        Publish::create(&path("file"), true, origin).unwrap().commit().unwrap();
        assert_eq!(mode(&path("file")), old | 0o700, "{old:o}");
        fs::remove_file(path("file")).unwrap();
    }
    File::create(path("file")).unwrap();
    if lchown(path("file"), None, Some(12_345)).is_err() {
        lmc_testkit::skip(lmc_testkit::Missing::Root, "only root can give a file to another group");
        return;
    }
    for origin in [origins[0], origins[1], Origin::nothing()] {
        lchown(path("file"), None, Some(12_345)).unwrap();
        set_mode(&path("file"), 0o660);
        let publish = Publish::create(&path("file"), true, &origin).unwrap();
        let mut names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let part = names.find(|path| path.extension().is_some()).unwrap();
        assert_eq!(mode(&part), 0o600);
        publish.commit().unwrap();
        assert_eq!(mode(&path("file")) & 0o077, 0, "{:o}", mode(&path("file")));
    }
}

/// What is made from a file has its nine permission bits and its time, and is closed to others
/// until it is whole. Where its group is another one, that may do no more than everyone.
#[test]
fn a_result_is_as_open_as_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = File::create(path("source")).unwrap();
    for (given, wanted) in [(0o4755, 0o755), (0o640, 0o640), (0o600, 0o600), (0o1666, 0o666)] {
        set_mode(&path("source"), given);
        let origin = Origin::file(&FileState::of(&source).unwrap());
        let publish = Publish::create(&path("result"), true, &origin).unwrap();
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let part = names.into_iter().find(|path| path.extension().is_some()).unwrap();
        assert_eq!(mode(&part), 0o600);
        publish.commit().unwrap();
        assert_eq!(mode(&path("result")), wanted);
        fs::remove_file(path("result")).unwrap();
    }
    let mut state = FileState::of(&source).unwrap();
    state.group = state.group.wrapping_add(1);
    for (given, wanted) in [(0o640, 0o600), (0o664, 0o644), (0o775, 0o755), (0o606, 0o606)] {
        state.mode = given;
        let publish = Publish::create(&path("result"), true, &Origin::file(&state)).unwrap();
        publish.commit().unwrap();
        assert_eq!(mode(&path("result")), wanted, "{given:o}");
        fs::remove_file(path("result")).unwrap();
    }
}

/// A temporary file that somebody has put another one in the place of is not removed, and neither
/// is a file that has its final name.
#[test]
fn only_what_was_made_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let publish = Publish::create(&path, false, &Origin::nothing()).unwrap();
    let part = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&part).unwrap();
    fs::write(&part, b"another's").unwrap();
    let leftover = publish.leftover();
    drop(publish);
    leftover.remove().unwrap();
    assert_eq!(fs::read(&part).unwrap(), b"another's");

    fs::remove_file(&part).unwrap();
    let publish = Publish::create(&path, false, &Origin::nothing()).unwrap();
    let leftover = publish.leftover();
    publish.commit().unwrap();
    leftover.remove().unwrap();
    assert!(path.exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A directory that is to go goes with all that is in it, but nothing that links in it lead to; one
/// that took its place stays.
#[test]
fn a_directory_that_is_removed_is_the_one_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("made/deep/closed")).unwrap();
    fs::create_dir(path("outside")).unwrap();
    fs::write(path("outside/keep"), b"").unwrap();
    fs::write(path("made/deep/closed/file"), b"").unwrap();
    symlink("../../outside", path("made/deep/link")).unwrap();
    set_mode(&path("made/deep/closed"), 0o500);
    let leftover = Leftover::directory(&path("made")).unwrap();
    fs::rename(path("made"), path("moved")).unwrap();
    fs::create_dir(path("made")).unwrap();
    fs::write(path("made/mine"), b"").unwrap();
    leftover.remove().unwrap();
    assert!(path("made/mine").exists() && path("moved/deep/link").is_symlink());
    fs::remove_dir_all(path("made")).unwrap();
    fs::rename(path("moved"), path("made")).unwrap();
    leftover.remove().unwrap();
    assert!(!path("made").exists() && path("outside/keep").exists());
}

/// A link that another user has put into a folder that is everyone's is not written through.
#[test]
fn a_planted_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("shared")).unwrap();
    fs::write(path("victim"), b"precious").unwrap();
    symlink("../victim", path("shared/link")).unwrap();
    if lchown(path("shared/link"), Some(12_345), None).is_err() {
        lmc_testkit::skip(lmc_testkit::Missing::Root, "only root can give a link to another user");
        return;
    }
    set_mode(&path("shared"), 0o1777);
    let target = path("shared/link");
    assert!(Publish::create(&target, true, &Origin::nothing()).is_err());
    assert_eq!(fs::read(path("victim")).unwrap(), b"precious");
    // In a folder that only its owner writes to, it was put there on purpose.
    set_mode(&path("shared"), 0o755);
    Publish::create(&target, true, &Origin::nothing()).unwrap().commit().unwrap();
    assert_eq!(fs::read(path("victim")).unwrap(), b"");
}

/// Of what was recorded the group is not known. It is taken for that of who restores it; any other,
/// which a folder has given to what is made in it, may do no more than everyone.
#[test]
fn another_group_gets_no_recorded_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let modes = [(0o660, 0o600), (0o664, 0o644), (0o775, 0o755), (0o606, 0o606)];
    for name in ["own", "other"] {
        fs::create_dir(path(name)).unwrap();
    }
    if lchown(path("other"), None, Some(12_345)).is_err() {
        lmc_testkit::skip(
            lmc_testkit::Missing::Root,
            "only root can give a folder to another group",
        );
        return;
    }
    set_mode(&path("other"), 0o2775);
    for (recorded, closed) in modes {
        for (name, wanted, bits) in [("own", recorded, 0), ("other", closed, 0o2000)] {
            let at = |below: &str| path(name).join(format!("{below}{recorded:o}"));
            let origin = Origin::recorded(recorded, (0, 0));
            Publish::create(&at("file"), false, &origin).unwrap().commit().unwrap();
            assert_eq!(mode(&at("file")), wanted);

            let sandbox = Sandbox::open(&path(name), false).unwrap();
            let below = at("folder");
            let below = Path::new(below.file_name().unwrap());
            sandbox.make_dir(below, recorded).unwrap();
            sandbox.finish_dir(below, &Origin::recorded_mode(recorded)).unwrap();
            assert_eq!(mode(&at("folder")), wanted | bits);

            NewDirectory::create(&at("new")).unwrap().commit(Some(recorded)).unwrap();
            assert_eq!(mode(&at("new")), wanted | bits);
        }
    }
}
