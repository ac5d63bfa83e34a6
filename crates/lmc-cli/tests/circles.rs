//! Nothing that a file needs is taken from it by the command itself: not by its own name, not by
//! that of what its base is on, and not by files that change while they are read.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::common::{Folder, code, safetensors, stderr, weights};

/// A checkpoint with some values changed.
fn checkpoint(changes: usize) -> Vec<u8> {
    let mut w = weights(300 * 512, 1);
    for i in 0..changes {
        w[(i * 7919 * 2) % (300 * 512)] ^= 1;
    }
    safetensors(&[("w", "BF16", &[300, 512], &w)])
}

/// A folder with three checkpoints.
fn folder() -> Folder {
    let folder = Folder::new();
    for (i, name) in ["a", "b", "c"].iter().enumerate() {
        folder.write(name, &checkpoint(i * 50));
    }
    folder
}

/// Two files that would be each other's bases, or three in a circle: the last one is refused and
/// stays.
#[test]
fn circles_are_refused() {
    let folder = folder();
    folder.ok(&["compress", "a", "--base", "b", "--rm"]);
    let refused = folder.lmc(&["compress", "b", "--base", "a.lmc", "--rm"]);
    assert_eq!(code(&refused), 1);
    assert!(
        stderr(&refused).contains("its own base chain; give another --base"),
        "{}",
        stderr(&refused)
    );
    assert!(folder.exists("b") && !folder.exists("b.lmc"));
    folder.ok(&["compress", "c", "--base", "a.lmc", "--rm"]);
    assert_eq!(code(&folder.lmc(&["compress", "b", "--base", "c.lmc", "--rm"])), 1);
    assert_eq!(folder.read("b"), checkpoint(50));
    folder.ok(&["decompress", "c.lmc"]);
    assert_eq!(folder.read("c"), checkpoint(100));
}

/// What a base is on is not overwritten with what is on that base.
#[test]
fn ancestors_are_not_overwritten() {
    let folder = folder();
    folder.ok(&["compress", "a", "--rm"]);
    folder.ok(&["compress", "b", "--base", "a.lmc", "--rm"]);
    let refused = folder.lmc(&["compress", "c", "--base", "b.lmc", "-o", "a.lmc", "-f", "--rm"]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("would replace"), "{}", stderr(&refused));
    folder.ok(&["decompress", "b.lmc"]);
    assert_eq!(folder.read("b"), checkpoint(50));
    assert_eq!(folder.names(), ["a.lmc", "b", "b.lmc", "c"]);
}

/// The same for what a base is on and the new file has nothing of: without it, the base cannot be
/// opened.
#[test]
fn what_a_base_needs_for_others_is_not_overwritten() {
    let (x, y) = (weights(300 * 512, 1), weights(300 * 512, 2));
    let (x, y) = (("x", "BF16", &[300, 512][..], &x[..]), ("y", "BF16", &[300, 512][..], &y[..]));
    let folder = Folder::new();
    folder.write("a", &safetensors(&[x]));
    folder.write("b", &safetensors(&[x, y]));
    folder.ok(&["compress", "a", "--rm"]);
    folder.ok(&["compress", "b", "--base", "a.lmc", "--rm"]);
    folder.write("a", &safetensors(&[y]));
    let refused = folder.lmc(&["compress", "a", "--base", "b.lmc", "-f", "--rm"]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("would replace"), "{}", stderr(&refused));
    folder.ok(&["test", "b.lmc"]);
    assert_eq!(folder.read("a"), safetensors(&[y]));
}

/// A result does not take the place of a base that another file of the same command needs, nor of
/// its own, wherever that was found; what it would have cost is all there.
#[test]
fn a_base_of_another_file_is_not_overwritten() {
    for removes in [false, true] {
        let folder = folder();
        fs::create_dir(folder.path("old")).expect("ours");
        fs::rename(folder.path("a"), folder.path("old/b")).expect("ours");
        folder.ok(&["compress", "b", "c", "--base", "old/b", "--rm"]);
        fs::rename(folder.path("old/b"), folder.path("b")).expect("ours");
        let rm: &[&str] = if removes { &["--rm"] } else { &[] };
        let output = folder.lmc(&[&["decompress", "-f", "b.lmc", "c.lmc"], rm].concat());
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        assert!(stderr(&output).contains("would replace what c.lmc needs"), "{}", stderr(&output));
        assert_eq!(folder.read("b"), checkpoint(0));
        assert_eq!(folder.read("c"), checkpoint(100));
        let refused = folder.lmc(&["decompress", "-f", "b.lmc"]);
        assert!(stderr(&refused).contains("would replace the base"), "{}", stderr(&refused));
        folder.ok(&["decompress", "b.lmc", "-o", "new"]);
        assert_eq!(folder.read("new"), checkpoint(50));
    }
}

/// The same for bases in a folder that the results of a directory are written into.
#[test]
fn a_base_in_the_target_folder_is_not_overwritten() {
    let folder = Folder::new();
    folder.write("old/m", &checkpoint(0));
    folder.write("new/m", &checkpoint(30));
    folder.write("new/n", &checkpoint(60));
    folder.ok(&["compress", "new", "--base", "old/m", "--rm"]);
    let output = folder.lmc(&["decompress", "--rm", "-f", "new.lmc", "-o", "old", "--base", "old"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(folder.read("old/m"), checkpoint(0));
    assert_eq!(folder.read("old/n"), checkpoint(60));
    folder.ok(&["test", "new.lmc", "--base", "old"]);
}

/// A pipe in place of a base is refused at once; nobody waits for a writer.
#[test]
fn pipes_are_no_bases() {
    let folder = folder();
    let made = Command::new("mkfifo").arg(folder.path("pipe")).status().expect("mkfifo");
    assert!(made.success());
    let refused = folder.lmc(&["compress", "b", "--base", "pipe"]);
    assert_eq!(code(&refused), 1);
    assert!(stderr(&refused).contains("not a regular file"), "{}", stderr(&refused));
    folder.ok(&["compress", "b", "--base", "a"]);
    fs::rename(folder.path("pipe"), folder.path("a")).expect("ours");
    assert_eq!(code(&folder.lmc(&["test", "b.lmc"])), 1);
}

/// A link is followed to a file, and refused if it leads to a device or nowhere.
#[test]
fn links_are_followed() {
    let folder = folder();
    folder.write("far/result", b"old");
    let link = |to: &str, name: &str| symlink(to, folder.path(name)).expect("a link");
    link("far/result", "file");
    link("/dev/null", "device");
    link("nowhere", "dangling");
    folder.ok(&["compress", "a", "-f", "-o", "file"]);
    assert!(folder.path("file").is_symlink());
    folder.ok(&["test", "far/result"]);
    for name in ["device", "dangling"] {
        assert_eq!(code(&folder.lmc(&["compress", "a", "-f", "-o", name])), 1, "{name}");
        assert!(folder.path(name).is_symlink(), "{name}");
    }
}

/// Compressed directories find what they are on in those beside them, and a try that fails leaves
/// no directory behind.
#[test]
fn directories_on_directories() {
    let folder = Folder::new();
    for i in 0..4 {
        folder.write(&format!("step{i}/model"), &checkpoint(i * 30));
    }
    folder.ok(&["compress", "step0", "--rm"]);
    for i in 1..4 {
        let (own, base) = (format!("step{i}"), format!("step{}.lmc", i - 1));
        folder.ok(&["compress", &own, "--base", &base, "--rm"]);
    }
    folder.ok(&["decompress", "step3.lmc"]);
    assert_eq!(folder.read("step3/model"), checkpoint(90));
    fs::rename(folder.path("step0.lmc"), folder.path("away")).expect("ours");
    assert_eq!(code(&folder.lmc(&["decompress", "step2.lmc"])), 1);
    assert!(!folder.exists("step2"));
}

/// The same in folders of these directories.
#[test]
fn folders_of_directories_on_directories() {
    let folder = Folder::new();
    for i in 0..3 {
        folder.write(&format!("step{i}/a/b/model"), &checkpoint(i * 30));
    }
    folder.ok(&["compress", "step0", "--rm"]);
    folder.ok(&["compress", "step1", "--base", "step0.lmc", "--rm"]);
    folder.ok(&["compress", "step2", "--base", "step1.lmc", "--rm"]);
    folder.ok(&["test", "step2.lmc"]);
    folder.ok(&["decompress", "step2.lmc"]);
    assert_eq!(folder.read("step2/a/b/model"), checkpoint(60));
}

/// Bases that many files are on are opened once: there are more ways through these than could be
/// gone.
#[test]
fn bases_of_many_are_opened_once() {
    let folder = Folder::new();
    for i in 0..30 {
        let name = format!("s{i}");
        folder.write(&name, &checkpoint(i * 3));
        let bases = [1, 2].map(|back| format!("s{}.lmc", i - back.min(i)));
        match i {
            0 => folder.ok(&["compress", &name]),
            1 => folder.ok(&["compress", &name, "--base", "s0.lmc"]),
            _ => folder.ok(&["compress", &name, "--base", &bases[0], "--base", &bases[1]]),
        };
    }
    fs::remove_file(folder.path("s29")).expect("ours");
    folder.ok(&["decompress", "s29.lmc"]);
    assert_eq!(folder.read("s29"), checkpoint(87));
}
