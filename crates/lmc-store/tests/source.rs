//! What is saved is what was listed, and nothing else is opened: not what a link leads to, not what
//! took the place of a file or a folder meanwhile.

use crate::common::*;
use lmc_store::{ErrorKind, RestoreOptions, SaveOptions, Store};
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A directory of two files and one in a folder, and things that are not to be saved.
struct Scene {
    store: Store,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scene = Self { store: memory_store().0, folder };
        for name in ["run/a", "run/b", "run/sub/b", "secret/b", "next/a", "next/b", "next/sub/b"] {
            write(&scene.path(name), format!("{name:>20}").repeat(50).as_bytes());
        }
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Saves the directory; `meanwhile` happens when the first file is coded.
    fn save(&self, meanwhile: impl Fn() + Sync) -> lmc_store::Result<lmc_store::Saved> {
        let once = Once::new();
        let options = SaveOptions::default();
        let meanwhile = |_| once.call_once(&meanwhile);
        watched(&self.store, &meanwhile, |store| store.save(&self.path("run"), &options))
    }

    fn is_refused(&self, meanwhile: impl Fn() + Sync) {
        let error = self.save(meanwhile).expect_err("it is not what was listed");
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(self.store.snapshots().unwrap().is_empty());
    }
}

/// Gives a file the time of another one.
fn like(path: &Path, other: &Path) {
    let time = fs::metadata(other).unwrap().modified().unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// A file that is swapped for a link, or for another file with the same size and time.
#[test]
fn a_file_that_took_the_place_of_another_is_not_saved() {
    let scene = Scene::new();
    scene.is_refused(|| {
        fs::remove_file(scene.path("run/b")).unwrap();
        like(&scene.path("secret/b"), &scene.path("run/a"));
        symlink("../secret/b", scene.path("run/b")).unwrap();
    });
    let scene = Scene::new();
    scene.is_refused(|| {
        like(&scene.path("next/b"), &scene.path("run/b"));
        fs::rename(scene.path("next/b"), scene.path("run/b")).unwrap();
    });
    // In place, with its time put back.
    let scene = Scene::new();
    scene.is_refused(|| {
        let time = fs::metadata(scene.path("run/b")).unwrap().modified().unwrap();
        fs::write(scene.path("run/b"), fs::read(scene.path("next/b")).unwrap()).unwrap();
        let file = File::options().write(true).open(scene.path("run/b")).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    });
}

/// A folder that is swapped for a link or another folder.
#[test]
fn a_folder_that_took_the_place_of_another_is_not_saved() {
    let scene = Scene::new();
    scene.is_refused(|| {
        like(&scene.path("secret/b"), &scene.path("run/sub/b"));
        fs::rename(scene.path("run/sub"), scene.path("old")).unwrap();
        symlink("../secret", scene.path("run/sub")).unwrap();
    });
    let scene = Scene::new();
    scene.is_refused(|| {
        like(&scene.path("next/sub/b"), &scene.path("run/sub/b"));
        fs::rename(scene.path("run/sub"), scene.path("old")).unwrap();
        fs::rename(scene.path("next/sub"), scene.path("run/sub")).unwrap();
    });
}

/// A directory that the next checkpoint takes the place of meanwhile, with the same sizes and
/// times, is not saved as a mix of both.
#[test]
fn two_checkpoints_never_become_one_snapshot() {
    let scene = Scene::new();
    for name in ["a", "b", "sub/b"] {
        like(&scene.path(&format!("next/{name}")), &scene.path(&format!("run/{name}")));
    }
    scene.is_refused(|| {
        fs::rename(scene.path("run"), scene.path("old")).unwrap();
        fs::rename(scene.path("next"), scene.path("run")).unwrap();
    });
    // After the last file was read, too.
    let scene = Scene::new();
    let last = scene.path("run/sub/b");
    let size = fs::metadata(&last).unwrap().len();
    let options = SaveOptions::default();
    let left = std::sync::atomic::AtomicU64::new(3 * size);
    let replace = |bytes| {
        if left.fetch_sub(bytes, std::sync::atomic::Ordering::Relaxed) == bytes {
            fs::rename(scene.path("run"), scene.path("old")).unwrap();
            fs::rename(scene.path("next"), scene.path("run")).unwrap();
        }
    };
    let run = scene.path("run");
    let saved = watched(&scene.store, &replace, |store| store.save(&run, &options));
    assert_eq!(saved.expect_err("it was replaced").kind, ErrorKind::Conflict);
}

/// Links are saved as they are and what they lead to is never opened: a pipe would be waited for.
#[test]
fn what_a_link_leads_to_is_not_opened() {
    let scene = Scene::new();
    let pipe = scene.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink(&pipe, scene.path("run/model.safetensors")).unwrap();
    symlink("/dev/tty", scene.path("run/tty.safetensors")).unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || drop(sender.send(scene.save(|| ()).map(|_| scene))));
    // Only a save that waits for the pipe takes that long.
    let saved = receiver.recv_timeout(Duration::from_secs(60)).expect("it waits for the pipe");
    let scene = saved.unwrap();
    check_restores(&scene.store, &scene.store.find("latest").unwrap(), &scene.path("run"));
}

/// Where links are followed, what they led to when they were listed is saved, and no other file.
#[test]
fn links_that_are_followed_lead_to_what_was_listed() {
    let scene = Scene::new();
    fs::remove_file(scene.path("run/b")).unwrap();
    symlink("../secret/b", scene.path("run/b")).unwrap();
    symlink("../next", scene.path("run/through")).unwrap();
    let options = SaveOptions { follow_links: true, ..SaveOptions::default() };
    let save = |meanwhile: &(dyn Fn() + Sync)| {
        let once = Once::new();
        let meanwhile = |_| once.call_once(meanwhile);
        watched(&scene.store, &meanwhile, |store| store.save(&scene.path("run"), &options))
    };
    let saved = save(&|| ()).unwrap();
    let target = scene.path("restored");
    scene.store.restore(&saved.name, &target, &RestoreOptions::default()).unwrap();
    for (restored, original) in [("b", "secret/b"), ("through/sub/b", "next/sub/b")] {
        let restored = fs::read(target.join(restored)).unwrap();
        assert!(restored == fs::read(scene.path(original)).unwrap());
    }
    let swapped = save(&|| {
        fs::remove_file(scene.path("run/b")).unwrap();
        symlink("../next/b", scene.path("run/b")).unwrap();
    });
    assert_eq!(swapped.expect_err("another file").kind, ErrorKind::Conflict);
}

/// A directory without files is saved, and it is said that it holds none.
#[test]
fn a_directory_of_links_alone_is_told_of() {
    let scene = Scene::new();
    let saved = scene.save(|| ()).unwrap();
    assert!(saved.warnings.is_empty(), "{:?}", saved.warnings);
    let links = scene.path("links");
    fs::create_dir(&links).unwrap();
    symlink("../run/a", links.join("a")).unwrap();
    let saved = save(&scene.store, &links, SaveOptions::default());
    assert_eq!(saved.files, 0);
    assert!(saved.warnings.len() == 1 && saved.warnings[0].message.contains("link"), "{saved:?}");
    check_restores(&scene.store, &saved.name, &links);
}
