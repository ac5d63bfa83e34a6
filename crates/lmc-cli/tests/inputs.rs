//! Inputs are safe from the command that reads them: only what was read is removed or stored, and
//! no result takes the place of another input.

use std::fs::{self, File, FileTimes};
use std::os::unix::fs::symlink;

use crate::common::held::Held;
use crate::common::{Folder, checkpoint, code, noise, safetensors, stderr, weights};

/// Writes other bytes of the same length over a file, in place or by renaming another over it, and
/// puts its time of change back.
fn change(folder: &Folder, name: &str, in_place: bool) -> Vec<u8> {
    let path = folder.path(name);
    let old = fs::metadata(&path).expect("there");
    let new = noise(old.len() as usize, 77);
    let written = if in_place { path.clone() } else { folder.path("new") };
    fs::write(&written, &new).expect("ours");
    let times = FileTimes::new().set_modified(old.modified().expect("a time"));
    File::options().write(true).open(&written).and_then(|f| f.set_times(times)).expect("ours");
    fs::rename(&written, &path).expect("ours");
    new
}

/// `--rm` keeps a file that was replaced or written to after it was read, though its size and its
/// time of the last write are the same, and says so.
#[test]
fn rm_removes_only_what_was_read() {
    for in_place in [false, true] {
        let folder = Folder::new();
        folder.write("model.bin", &noise(50_000, 1));
        let held = Held::start(&folder, &["compress", "--rm", "model.bin"], "model.bin.lmc");
        let new = change(&folder, "model.bin", in_place);
        let (code, said) = held.finish();
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("model.bin") && said.contains("kept"), "{said}");
        assert_eq!(folder.read("model.bin"), new);

        let held = Held::start(&folder, &["decompress", "--rm", "model.bin.lmc", "-o", "x"], "x");
        let new = change(&folder, "model.bin.lmc", in_place);
        let (code, said) = held.finish();
        assert_eq!(code, 1, "{said}");
        assert_eq!(folder.read("model.bin.lmc"), new);
    }
}

/// The same for each file of a directory; the others go.
#[test]
fn rm_removes_only_what_was_read_of_a_directory() {
    let folder = Folder::new();
    folder.write("ckpt/a", &noise(50_000, 1));
    folder.write("ckpt/b", &noise(50_000, 2));
    let held = Held::start(&folder, &["compress", "--rm", "ckpt"], "ckpt.lmc/a.lmc");
    let new = change(&folder, "ckpt/a", false);
    let (code, said) = held.finish();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("ckpt/a: ") && said.contains("kept"), "{said}");
    assert_eq!(folder.read("ckpt/a"), new);
    assert!(!folder.exists("ckpt/b") && folder.exists("ckpt.lmc/b.lmc"));
}

/// Two names of one file both go: removing one of them does not count as a change of the other.
#[test]
fn rm_removes_both_names_of_a_file() {
    let folder = Folder::new();
    folder.write("ckpt/a", &noise(50_000, 1));
    fs::hard_link(folder.path("ckpt/a"), folder.path("ckpt/b")).expect("a hard link");
    folder.ok(&["compress", "--rm", "ckpt"]);
    assert_eq!(folder.names(), ["ckpt.lmc"]);
    folder.write("x", b"x");
    fs::hard_link(folder.path("x"), folder.path("y")).expect("a hard link");
    folder.ok(&["compress", "--rm", "x", "y"]);
    assert_eq!(folder.names(), ["ckpt.lmc", "x.lmc", "y.lmc"]);
    // Those that others need go last, all at once.
    let folder = Folder::new();
    for name in ["a", "b", "c", "d"] {
        folder.write(name, &checkpoint());
    }
    fs::create_dir(folder.path("all")).expect("ours");
    folder.ok(&["compress", "a", "-o", "all/a.lmc"]);
    fs::hard_link(folder.path("all/a.lmc"), folder.path("all/b.lmc")).expect("a hard link");
    folder.ok(&["compress", "c", "-o", "all/c.lmc", "--base", "a"]);
    folder.ok(&["compress", "d", "-o", "all/d.lmc", "--base", "b"]);
    folder.ok(&["decompress", "--rm", "all", "-o", "out"]);
    assert!(!folder.exists("all") && folder.read("out/d") == checkpoint());
}

/// `--rm` of a link would remove the link or a file that was not named: it is refused at the start.
#[test]
fn rm_of_a_link_is_refused() {
    let folder = Folder::new();
    folder.write("file", b"bytes");
    symlink("file", folder.path("link")).expect("a link");
    let output = folder.lmc(&["compress", "--rm", "link"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("link"), "{}", stderr(&output));
    assert_eq!(folder.names(), ["file", "link"]);
    folder.ok(&["compress", "link"]);
}

/// So is that of a link to a directory, by whatever name.
#[test]
fn rm_of_a_link_to_a_directory_is_refused() {
    let folder = Folder::new();
    folder.write("dir/file", b"bytes");
    symlink("dir", folder.path("link")).expect("a link");
    for name in ["link", "link/", "link/.", "./link//"] {
        let output = folder.lmc(&["compress", "--rm", name, "-o", "out"]);
        assert_eq!(code(&output), 1, "{name}");
        assert!(stderr(&output).contains("is a link"), "{name}: {}", stderr(&output));
        assert_eq!(folder.names(), ["dir", "link"]);
        assert_eq!(folder.read("dir/file"), b"bytes");
    }
    folder.ok(&["compress", "link", "-o", "out"]);
}

/// A link, a pipe or another file that takes the place of a file, or of a folder on the way, after
/// the directory was listed is not read; the others are done.
#[test]
fn what_was_not_listed_is_not_read() {
    type Swap = fn(&Folder);
    let swaps: [(&str, Swap); 4] = [
        ("b", |folder| {
            fs::remove_file(folder.path("ckpt/b")).expect("ours");
            symlink("../secret/b", folder.path("ckpt/b")).expect("a link");
        }),
        ("b", |folder| drop(change(folder, "ckpt/b", false))),
        ("b", |folder| {
            fs::remove_file(folder.path("ckpt/b")).expect("ours");
            let made = std::process::Command::new("mkfifo").arg(folder.path("ckpt/b")).status();
            assert!(made.expect("mkfifo runs").success());
        }),
        ("sub/b", |folder| {
            fs::rename(folder.path("ckpt/sub"), folder.path("old")).expect("ours");
            symlink("../secret", folder.path("ckpt/sub")).expect("a link");
        }),
    ];
    for (name, swap) in swaps {
        let folder = Folder::new();
        folder.write("secret/b", &noise(1000, 3));
        folder.write("ckpt/a", &noise(1000, 1));
        folder.write("ckpt/b", &noise(1000, 2));
        folder.write("ckpt/sub/b", &noise(1000, 4));
        let held = Held::start(&folder, &["compress", "-T1", "ckpt"], "ckpt.lmc/a.lmc");
        swap(&folder);
        let (code, said) = held.finish();
        assert_eq!(code, 3, "{name}: {said}");
        assert!(said.contains(&format!("ckpt/{name}: ")), "{said}");
        assert!(!folder.exists(&format!("ckpt.lmc/{name}.lmc")), "{name}");
    }
}

/// Files that rely on each other are read as they were listed too: an f32 file that is swapped for
/// a link after it was compressed itself is not what its bf16 rounding is coded against.
#[test]
fn a_base_in_the_directory_is_what_was_listed() {
    let folder = Folder::new();
    let round = weights(4096, 1);
    let wide: Vec<u8> = round.chunks(2).flat_map(|v| [9, 0, v[0], v[1]]).collect();
    let master = safetensors(&[("w", "F32", &[4096], &wide)]);
    folder.write("secret", &master);
    folder.write("ckpt/a.safetensors", &master);
    folder.write("ckpt/b.safetensors", &safetensors(&[("w", "BF16", &[4096], &round)]));
    let held = Held::start(&folder, &["compress", "-T1", "ckpt"], "ckpt.lmc/a.safetensors.lmc");
    fs::remove_file(folder.path("ckpt/a.safetensors")).expect("ours");
    symlink("../secret", folder.path("ckpt/a.safetensors")).expect("a link");
    let (code, said) = held.finish();
    assert_eq!(code, 3, "{said}");
    assert!(!folder.exists("ckpt.lmc/b.safetensors.lmc"), "{said}");
}

/// Compressing a directory into itself, or a file and its namesake, does not overwrite what was
/// given to compress.
#[test]
fn a_result_never_replaces_another_input() {
    let folder = Folder::new();
    folder.write("dir/a", b"a");
    folder.write("dir/a.lmc", b"precious");
    let output = folder.lmc(&["compress", "-f", "dir", "-o", "dir"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("dir/a.lmc"), "{}", stderr(&output));
    assert_eq!(folder.read("dir/a.lmc"), b"precious");
    assert!(folder.exists("dir/a.lmc.lmc"));

    // What is left out was given too.
    let folder = Folder::new();
    folder.write("dir/a", b"a");
    symlink("elsewhere", folder.path("dir/a.lmc")).expect("a link");
    let output = folder.lmc(&["compress", "-f", "dir", "-o", "dir"]);
    assert_ne!(code(&output), 0);
    assert!(folder.path("dir/a.lmc").is_symlink());

    let folder = Folder::new();
    let others = ["a.lmc", "./a.lmc", "hard", "soft"];
    for (other, rm) in others.iter().flat_map(|other| [(other, &["--rm"][..]), (other, &[])]) {
        folder.write("a", b"a");
        folder.write("a.lmc", b"precious");
        let _ = fs::remove_file(folder.path("hard"));
        fs::hard_link(folder.path("a.lmc"), folder.path("hard")).expect("a hard link");
        let _ = fs::remove_file(folder.path("soft"));
        symlink("a.lmc", folder.path("soft")).expect("a link");
        let args = [&["compress", "-f"], rm, &["a", other]].concat();
        let output = folder.lmc(&args);
        assert_ne!(code(&output), 0, "{args:?}");
        assert_eq!(folder.read("a"), b"a", "{args:?}");
        // It may be gone where it was compressed itself, and only under that name.
        let kept = fs::read(folder.path("a.lmc")).or_else(|_| fs::read(folder.path("hard")));
        assert_eq!(kept.expect("under one of its names"), b"precious", "{args:?}");
    }
}

/// Two inputs with the same result, and a result in place of a base that another input needs.
#[test]
fn a_result_never_replaces_another_result_or_a_base() {
    let folder = Folder::new();
    folder.write("x", b"x");
    folder.ok(&["compress", "x"]);
    fs::create_dir(folder.path("d")).expect("ours");
    symlink("..", folder.path("d/up")).expect("a link");
    let output = folder.lmc(&["compress", "-f", "x", "d/up/x"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));

    let folder = Folder::new();
    folder.write("old", &checkpoint());
    folder.ok(&["compress", "old", "-o", "old.lmc"]);
    let before = folder.read("old.lmc");
    folder.write("old", &noise(1000, 1));
    folder.write("new", &checkpoint());
    let output = folder.lmc(&["compress", "-f", "old", "new", "--base", "old.lmc"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert_eq!(folder.read("old.lmc"), before);
    assert!(folder.exists("new.lmc"));
}

/// Below a target that was there no link is followed: a result takes the place of one that leads to
/// another result, and both are whole.
#[test]
fn a_link_to_another_result_is_replaced() {
    let folder = Folder::new();
    folder.write("dir/a", b"first");
    folder.write("dir/b", b"second");
    folder.ok(&["compress", "dir", "-o", "packed"]);
    folder.write("again/b", b"older");
    symlink("b", folder.path("again/a")).expect("a link");
    folder.ok(&["decompress", "-f", "packed", "-o", "again"]);
    assert_eq!(folder.read("again/a"), b"first");
    assert_eq!(folder.read("again/b"), b"second");
    assert!(!folder.path("again/a").is_symlink());
}

/// A file whose result would have the name of a folder is refused before anything is written.
#[test]
fn a_result_and_a_folder_of_one_name_are_refused_at_the_start() {
    let folder = Folder::new();
    folder.write("dir/a", b"a");
    folder.write("dir/x", b"x");
    folder.write("dir/x.lmc/y", b"y");
    let output = folder.lmc(&["compress", "dir"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("dir/x.lmc"), "{}", stderr(&output));
    assert_eq!(folder.names(), ["dir"]);

    folder.write("back/a", b"a");
    folder.ok(&["compress", "back/a", "-o", "back/x.lmc"]);
    folder.write("back/x/y.lmc", b"y");
    let output = folder.lmc(&["decompress", "back", "-o", "out"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(!folder.exists("out"));
}

/// `decompress --rm` of a directory keeps a file that another one needs which could not be
/// restored, and what that file needs itself, so that a second try works.
#[test]
fn rm_keeps_a_base_while_a_file_that_needs_it_is_left() {
    let folder = Folder::new();
    for (i, name) in ["a", "b", "c", "d"].iter().enumerate() {
        folder.write(name, &step(50 * i));
    }
    fs::create_dir(folder.path("all")).expect("ours");
    folder.ok(&["compress", "a", "-o", "all/a.lmc"]);
    folder.ok(&["compress", "b", "-o", "all/b.lmc", "--base", "all/a.lmc"]);
    folder.ok(&["compress", "c", "-o", "all/c.lmc", "--base", "all/b.lmc"]);
    folder.ok(&["compress", "d", "-o", "all/d.lmc"]);
    // There is something in the way of the last one.
    folder.write("out/c/in the way", b"");
    let output = folder.lmc(&["decompress", "-f", "--rm", "all", "-o", "out"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(folder.exists("all/a.lmc") && folder.exists("all/b.lmc") && folder.exists("all/c.lmc"));
    assert!(!folder.exists("all/d.lmc"), "nobody needs it");
    fs::remove_dir_all(folder.path("out")).expect("ours");
    folder.ok(&["decompress", "--rm", "all", "-o", "out"]);
    assert_eq!(folder.read("out/c"), step(100));
    assert!(!folder.exists("all"));
}

/// A checkpoint with some values changed.
fn step(changes: usize) -> Vec<u8> {
    let mut w = weights(300 * 512, 1);
    (0..changes).for_each(|i| w[(i * 7919 * 2) % (300 * 512)] ^= 1);
    safetensors(&[("w", "BF16", &[300, 512], &w)])
}

/// `decompress --rm` keeps a base that is given, by whatever name, until the file that is on it is
/// done; and for good if that one fails.
#[test]
fn rm_keeps_a_given_base() {
    let given = ["old", "old/s1.lmc", "new/../old", "new/../old/s1.lmc", "link", "link/s1.lmc"];
    for (given, fails) in given.iter().flat_map(|given| [(given, false), (given, true)]) {
        let folder = Folder::new();
        folder.write("s1", &step(0));
        folder.write("s2", &step(50));
        folder.write("old/s1.lmc", b"");
        folder.write("new/s2.lmc", b"");
        symlink("old", folder.path("link")).expect("a link");
        folder.ok(&["compress", "-f", "s1", "-o", "old/s1.lmc", "--rm"]);
        let made = ["compress", "-f", "s2", "-o", "new/s2.lmc", "--base", "old/s1.lmc", "--rm"];
        folder.ok(&made);
        let args = ["decompress", "--rm", "old/s1.lmc", "new/s2.lmc", "--base", given];
        if fails {
            folder.write("new/s2", b"in the way");
            let output = folder.lmc(&args);
            assert_eq!(code(&output), 3, "{given}: {}", stderr(&output));
            assert!(folder.exists("old/s1.lmc") && folder.exists("new/s2.lmc"), "{given}");
            continue;
        }
        folder.ok(&args);
        assert!(folder.read("new/s2") == step(50) && folder.read("old/s1") == step(0), "{given}");
        assert!(!folder.exists("old/s1.lmc") && !folder.exists("new/s2.lmc"), "{given}");
    }
}

/// The same for bases that are found in the directory beside.
#[test]
fn rm_keeps_a_base_in_the_directory_beside() {
    let folder = Folder::new();
    folder.write("s1/model", &step(0));
    folder.write("s2/model", &step(50));
    folder.ok(&["compress", "--rm", "s1"]);
    folder.ok(&["compress", "--rm", "s2", "--base", "s1.lmc"]);
    folder.ok(&["decompress", "--rm", "s1.lmc", "s2.lmc"]);
    assert_eq!(folder.names(), ["s1", "s2"]);
    assert!(folder.read("s2/model") == step(50));
}

/// What the base of a file is on is needed too: an input that is reached so, through a link, goes
/// last.
#[test]
fn rm_keeps_what_a_base_is_on() {
    let folder = Folder::new();
    folder.write("ckpt/a", &step(0));
    folder.write("ckpt/c", &step(100));
    folder.write("c", &step(50));
    folder.write("older/start", &step(0));
    folder.ok(&["compress", "c", "-o", "older/c.lmc", "--base", "older/start"]);
    fs::remove_file(folder.path("older/start")).expect("ours");
    symlink("../ckpt/a", folder.path("older/start")).expect("a link");
    folder.ok(&["compress", "--rm", "ckpt", "--base", "older"]);
    assert!(!folder.exists("ckpt") && folder.exists("ckpt.lmc/c.lmc"));
}

/// A directory that another one takes the place of meanwhile is read as it was, never as a mix of
/// both, and it is said.
#[test]
fn two_directories_never_become_one() {
    let folder = Folder::new();
    for (name, seed) in [("ckpt", 1), ("next", 5)] {
        for file in ["a", "b"] {
            folder.write(&format!("{name}/{file}"), &noise(1000, seed + u64::from(file == "b")));
        }
    }
    let old = folder.read("ckpt/b");
    let held = Held::start(&folder, &["compress", "-T1", "ckpt"], "ckpt.lmc/a.lmc");
    fs::rename(folder.path("ckpt"), folder.path("old")).expect("ours");
    fs::rename(folder.path("next"), folder.path("ckpt")).expect("ours");
    let (code, said) = held.finish();
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("replaced"), "{said}");
    folder.ok(&["decompress", "ckpt.lmc/b.lmc", "-o", "b"]);
    assert_eq!(folder.read("b"), old);
}
