//! Tests of writing below a folder, whatever others put there.

use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// If a folder cannot be created or opened, the error has the path and the cause.
#[test]
fn errors_have_the_whole_path() {
    let target = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::open(target.path(), true).unwrap();
    fs::write(target.path().join("file"), b"").unwrap();
    let origin = Origin::recorded_mode(0o755);
    let shown = |path: &str| target.path().join(path).display().to_string();
    for (error, path) in [
        (sandbox.sync_dir(Path::new("none")).unwrap_err(), "none"),
        (sandbox.make_dir(Path::new("none/x"), 0o755).unwrap_err(), "none"),
        (sandbox.create(Path::new("file/x"), &origin).unwrap_err(), "file"),
    ] {
        assert!(error.to_string().contains(&shown(path)), "{error}");
    }
}

/// Where a file system treats the names of two results as the same, the second does not replace the
/// first.
#[test]
fn a_result_never_replaces_another_one() {
    let target = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::open(target.path(), true).unwrap();
    let (first, second) = (Path::new("model"), Path::new("MODEL"));
    fs::write(target.path().join(first), b"old").unwrap();
    let made = sandbox.create(first, &Origin::nothing()).unwrap();
    made.commit().unwrap();
    // As on a file system that is not case-sensitive.
    fs::hard_link(target.path().join(first), target.path().join(second)).unwrap();
    let error = sandbox.create(second, &Origin::nothing()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::AlreadyExists, "{error}");
}

/// A directory that is removed while it gets its name is either complete or not there at all.
#[test]
fn a_new_directory_is_whole_or_not_there() {
    let target = tempfile::tempdir().unwrap();
    for round in 0..300 {
        let path = target.path().join(format!("new{round}"));
        let new = NewDirectory::create(&path).unwrap();
        for i in 0..20 {
            let file = format!("{i}");
            new.sandbox().create(Path::new(&file), &Origin::nothing()).unwrap().commit().unwrap();
        }
        let leftover = new.leftover();
        let removing = std::thread::spawn(move || leftover.remove());
        let named = new.commit(Some(0o700));
        removing.join().unwrap().unwrap();
        match named {
            Ok(()) => assert_eq!(fs::read_dir(&path).unwrap().count(), 20, "{round}"),
            Err(_) => assert!(!path.exists(), "{round}"),
        }
    }
}

/// Somebody who can rename in the target replaces one of our folders by a private one: it is not
/// used.
#[test]
fn a_swapped_folder_gets_no_mode_and_no_files() {
    for is_there in [false, true] {
        let target = tempfile::tempdir().unwrap();
        let at = |name: &str| target.path().join(name);
        for (folder, mode) in [("secret", 0o700), ("secret/b", 0o700)] {
            fs::create_dir(at(folder)).unwrap();
            fs::set_permissions(at(folder), fs::Permissions::from_mode(mode)).unwrap();
        }
        if is_there {
            fs::create_dir(at("a")).unwrap();
        }
        let sandbox = Sandbox::open(target.path(), true).unwrap();
        let [a, b] = [Path::new("a"), Path::new("a/b")];
        sandbox.make_dir(a, 0o755).unwrap();
        sandbox.make_dir(b, 0o755).unwrap();
        let origin = Origin::recorded_mode(0o755);
        sandbox.create(&b.join("before"), &origin).unwrap().commit().unwrap();

        fs::rename(at("a"), at("x")).unwrap();
        let tries = || {
            [
                sandbox.make_dir(a, 0o755).map(|_| ()),
                sandbox.make_dir(&a.join("new"), 0o755).map(|_| ()),
                sandbox.create(&a.join("file"), &origin).map(|_| ()),
                sandbox.create(&b.join("file"), &origin).map(|_| ()),
                sandbox.link(&a.join("link"), Path::new("to")),
                sandbox.finish_dir(b, &origin),
                sandbox.finish_dir(a, &origin),
                sandbox.sync_dir(a),
                sandbox.remove_dir(b),
            ]
        };
        for gone in &tries()[1..] {
            assert_eq!(gone.as_ref().unwrap_err().kind, ErrorKind::Conflict);
        }
        let _ = fs::remove_dir(at("a"));
        fs::rename(at("secret"), at("a")).unwrap();
        for swapped in tries() {
            assert_eq!(swapped.unwrap_err().kind, ErrorKind::Conflict);
        }
        assert_eq!([mode(&at("a")), mode(&at("a/b"))], [0o700, 0o700]);
        assert_eq!(fs::read_dir(at("a")).unwrap().count(), 1, "only what was in it");
        assert!(at("x/b/before").exists());
    }
}

/// Replaces a folder by a new one that gets the same number, as on ext4; none if the file system
/// does not reuse it.
fn take_place(path: &Path) -> Option<()> {
    let number = |path: &Path| fs::metadata(path).unwrap().ino();
    let wanted = number(path);
    fs::remove_dir(path).unwrap();
    fs::create_dir(path).unwrap();
    (number(path) == wanted).then_some(())
}

/// A folder that replaces one that was removed is not taken for it, even with the same number: it
/// belongs to another user, or was created later.
#[test]
fn the_number_of_a_folder_is_not_enough() {
    for (is_there, owner) in [(false, None), (false, Some(12_345)), (true, Some(12_345))] {
        let target = tempfile::tempdir().unwrap();
        let at = |name: &str| target.path().join(name);
        if is_there {
            fs::create_dir(at("a")).unwrap();
        }
        let sandbox = Sandbox::open(target.path(), true).unwrap();
        let a = Path::new("a");
        sandbox.make_dir(a, 0o700).unwrap();
        if owner.is_none() && !sandbox.folders().get(a).unwrap().has_time() {
            lmc_testkit::skip(
                lmc_testkit::Missing::System,
                "this file system does not tell when a folder was made",
            );
            continue;
        }
        // The clocks of file systems are coarse.
        std::thread::sleep(std::time::Duration::from_millis(50));
        if take_place(&at("a")).is_none() {
            lmc_testkit::skip(
                lmc_testkit::Missing::System,
                "this file system does not use numbers again",
            );
            continue;
        }
        if lchown(at("a"), owner, None).is_err() {
            lmc_testkit::skip(
                lmc_testkit::Missing::Root,
                "only root can give a folder to another user",
            );
            continue;
        }
        let origin = Origin::recorded_mode(0o755);
        for swapped in [
            sandbox.create(&a.join("file"), &origin).map(|_| ()),
            sandbox.make_dir(&a.join("new"), 0o755).map(|_| ()),
            sandbox.link(&a.join("link"), Path::new("to")),
            sandbox.sync_dir(a),
            sandbox.finish_dir(a, &Origin::recorded_mode(0o700)),
            sandbox.make_dir(a, 0o755).map(|_| ()),
        ] {
            assert_eq!(swapped.unwrap_err().kind, ErrorKind::Conflict, "{is_there} {owner:?}");
        }
        assert!(owner.is_none() || sandbox.remove_dir(a).is_err());
        assert_eq!(fs::read_dir(at("a")).unwrap().count(), 0, "{is_there} {owner:?}");
    }
}

/// A new folder is not taken for one that was removed before, though it is ours and just as old.
#[test]
fn a_folder_does_not_get_the_place_of_another_one() {
    let target = tempfile::tempdir().unwrap();
    let at = |name: &str| target.path().join(name);
    let sandbox = Sandbox::open(target.path(), true).unwrap();
    sandbox.make_dir(Path::new("a"), 0o700).unwrap();
    fs::remove_dir(at("a")).unwrap();
    let made = sandbox.make_dir(Path::new("b"), 0o755);
    let known = sandbox.folders().get(Path::new("a")).unwrap().id;
    let folder = Folder::open(target.path()).unwrap();
    if folder.look(OsStr::new("b"), Links::Kept).unwrap().id != known {
        lmc_testkit::skip(
            lmc_testkit::Missing::System,
            "this file system does not use numbers again",
        );
        return;
    }
    assert_eq!(made.unwrap_err().kind, ErrorKind::Conflict);
    // Removing a folder here is not a mistake.
    sandbox.make_dir(Path::new("c"), 0o700).unwrap();
    sandbox.remove_dir(Path::new("c")).unwrap();
    sandbox.make_dir(Path::new("d"), 0o700).unwrap();
}
