//! A command on a store that is asked to end leaves nothing: no temporary folder, no lease.
//!
//! An object is replaced by a pipe that nobody writes to, so that the command is surely in its
//! middle; opened, the pipe lets it go on.

mod common;

use common::Folder;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The store of one snapshot, and what was saved.
fn scene() -> Folder {
    let folder = Folder::new();
    folder.write("data/deep/model.bin", "weights".repeat(5000).as_bytes());
    folder.ok(&["init", "store"]);
    folder.ok(&["init", "other"]);
    folder.ok(&["save", "data", "--store", "store"]);
    folder
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The one object below a folder of the store becomes a pipe.
fn pipe(folder: &Folder, objects: &str) -> PathBuf {
    let objects = files(&folder.path("store").join(objects));
    let [object] = &objects[..] else { panic!("{objects:?}") };
    fs::remove_file(object).expect("it is there");
    assert!(Command::new("mkfifo").arg(object).status().expect("mkfifo runs").success());
    object.clone()
}

/// Starts a command and waits until it has made something temporary below `seen`.
fn start(folder: &Folder, args: &[&str], seen: &str) -> Child {
    let child = common::command(&folder.path(""), args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("lmc starts");
    let start = Instant::now();
    let is_temporary = |path: &PathBuf| path.to_string_lossy().contains(".part");
    while !files(&folder.path(seen)).iter().any(|path| !seen.is_empty() || is_temporary(path)) {
        assert!(start.elapsed() < Duration::from_secs(60), "{args:?} never began");
        sleep(Duration::from_millis(1));
    }
    child
}

fn signal(child: &Child, signal: &str) {
    // The shell's own: not every machine has a program of that name.
    let kill = ["-c", "kill $0 $1", signal, &child.id().to_string()];
    assert!(Command::new("sh").args(kill).status().expect("kill runs").success());
}

/// Waits for the end: the code of an interrupt, and not a word.
fn ends(child: Child, args: &[&str]) {
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{args:?}: {}", common::stderr(&output));
    assert_eq!(common::stderr(&output), "", "{args:?}");
}

/// Saves and copies end their leases; restores and exports remove what they have written.
#[test]
fn work_ends_by_itself() {
    let saves = ["save", "data", "--store", "store", "--step", "2"];
    let cases: [(&[&str], &str, &str); 4] = [
        (&saves, "snapshots", "store/pending"),
        (&["copy", "store", "other"], "packs", "other/pending"),
        (&["restore", "latest", "out", "--store", "store"], "packs", ""),
        (&["export", "latest", "-o", "out", "--store", "store"], "packs", ""),
    ];
    for ((args, objects, seen), how) in cases.into_iter().zip(["-INT", "-TERM", "-HUP", "-INT"]) {
        let folder = scene();
        let pipe = pipe(&folder, objects);
        let child = start(&folder, args, seen);
        signal(&child, how);
        // It is told to stop before it can go on.
        sleep(Duration::from_millis(500));
        drop(OpenOptions::new().write(true).open(&pipe).expect("a reader waits"));
        ends(child, args);
        assert_eq!(folder.names(), ["data", "other", "store"], "{args:?}");
        for left in ["store/pending", "store/tmp", "other/pending", "other/tmp"] {
            assert!(files(&folder.path(left)).is_empty(), "{args:?} leaves {left}");
        }
    }
}

/// What hangs is cut off by a second signal, or when it takes too long, and leaves nothing either.
#[test]
fn work_is_cut_off() {
    let cases: [(&[&str], usize); 4] = [
        (&["restore", "latest", "out", "--store", "store"], 2),
        (&["export", "latest", "-o", "out", "--store", "store"], 2),
        (&["restore", "latest", "there", "-f", "--store", "store"], 2),
        (&["restore", "latest", "out", "--store", "store"], 1),
    ];
    for (args, signals) in cases {
        let folder = scene();
        folder.write("there/deep/mine.txt", b"mine");
        pipe(&folder, "packs");
        let child = start(&folder, args, "");
        for _ in 0..signals {
            signal(&child, "-INT");
            sleep(Duration::from_millis(200));
        }
        ends(child, args);
        assert_eq!(folder.names(), ["data", "other", "store", "there"], "{args:?}");
        assert_eq!(files(&folder.path("there")), [folder.path("there/deep/mine.txt")], "{args:?}");
    }
}
