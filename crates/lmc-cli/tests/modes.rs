//! Nothing is more open than what it was made from, at any moment, and nothing is written through a
//! link.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use crate::common::held::Held;
use crate::common::{Folder, checkpoint, code, noise, stderr};

fn mode(folder: &Folder, name: &str) -> u32 {
    fs::symlink_metadata(folder.path(name)).expect(name).permissions().mode() & 0o7777
}

fn set_mode(folder: &Folder, name: &str, mode: u32) {
    fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).expect("ours");
}

/// Runs `lmc` in a shell that sets the mask first.
fn lmc_with_mask(folder: &Folder, mask: &str, args: &str) {
    let script = format!("umask {mask}; exec \"$0\" {args}");
    let ran = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_lmc")])
        .current_dir(folder.path(""))
        .output()
        .expect("sh runs");
    assert!(ran.status.success(), "{args}: {}", stderr(&ran));
}

/// Bits that make a program run as its owner are not taken over, from files or from directories.
#[test]
fn only_the_nine_permission_bits_are_taken_over() {
    let folder = Folder::new();
    folder.write("ckpt/sub/run.sh", b"#!/bin/sh");
    set_mode(&folder, "ckpt/sub/run.sh", 0o6755);
    set_mode(&folder, "ckpt/sub", 0o1755);
    folder.ok(&["compress", "ckpt"]);
    assert_eq!(mode(&folder, "ckpt.lmc/sub/run.sh.lmc"), 0o755);
    assert_eq!(mode(&folder, "ckpt.lmc/sub"), 0o755);
    // As somebody else could have made it.
    set_mode(&folder, "ckpt.lmc/sub/run.sh.lmc", 0o4755);
    set_mode(&folder, "ckpt.lmc/sub", 0o1777);
    folder.ok(&["decompress", "ckpt.lmc", "-o", "back"]);
    assert_eq!(mode(&folder, "back/sub/run.sh"), 0o755);
    assert_eq!(mode(&folder, "back/sub"), 0o777);
    folder.ok(&["decompress", "ckpt.lmc/sub/run.sh.lmc", "-o", "one"]);
    assert_eq!(mode(&folder, "one"), 0o755);
}

/// Directories are closed to others while they are filled, those that were there too, and get their
/// modes at the end.
#[test]
fn directories_are_closed_while_they_are_filled() {
    let folder = Folder::new();
    folder.write("ckpt/sub/a", &noise(1000, 1));
    set_mode(&folder, "ckpt", 0o755);
    for sub in [0o755, 0o700, 0o750] {
        set_mode(&folder, "ckpt/sub", sub);
        let steps = [
            ("compress", "ckpt", "packed", "packed/sub/a.lmc"),
            ("decompress", "packed", "back", "back/sub/a"),
        ];
        for (command, from, to, made) in steps {
            let held = Held::start(&folder, &[command, from, "-o", to], made);
            let modes = [mode(&folder, to), mode(&folder, &format!("{to}/sub"))];
            assert_eq!(modes, [0o700, 0o700], "{command}");
            let (code, said) = held.finish();
            assert_eq!(code, 0, "{said}");
            let modes = [mode(&folder, to), mode(&folder, &format!("{to}/sub"))];
            assert_eq!(modes, [0o755, sub], "{command}");
            // Once more, into what is there and open to all.
            set_mode(&folder, &format!("{to}/sub"), 0o777);
            fs::remove_file(folder.path(made)).expect("ours");
            let held = Held::start(&folder, &[command, "-f", from, "-o", to], made);
            let open = mode(&folder, &format!("{to}/sub"));
            assert_eq!(open & !(sub | 0o700), 0, "{command}: {open:o} of {sub:o}");
            assert_eq!(held.finish().0, 0);
            assert_eq!(mode(&folder, &format!("{to}/sub")), sub);
        }
        for name in ["packed", "back"] {
            fs::remove_dir_all(folder.path(name)).expect("ours");
        }
    }
}

/// What is made of nothing on a disk has the mode that the process gives all its files; what takes
/// the place of a private file stays private.
#[test]
fn the_mask_of_the_process_is_kept() {
    let folder = Folder::new();
    lmc_with_mask(&folder, "027", "compress - -o x.lmc </dev/null");
    assert_eq!(mode(&folder, "x.lmc"), 0o640);
    set_mode(&folder, "x.lmc", 0o600);
    lmc_with_mask(&folder, "022", "compress -f - -o x.lmc </dev/null");
    assert_eq!(mode(&folder, "x.lmc"), 0o600);
}

/// A directory in a target that was there lets nobody in who could not get in before, whatever the
/// source says; whoever should not get in by the source is shut out too.
#[test]
fn a_directory_that_was_there_lets_nobody_else_in() {
    let folder = Folder::new();
    folder.write("ckpt/sub/a", &noise(1000, 1));
    set_mode(&folder, "ckpt/sub", 0o755);
    folder.ok(&["compress", "ckpt", "-o", "packed"]);
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "ckpt", "--store", "store"]);
    let commands: [&[&str]; 4] = [
        &["compress", "-f", "ckpt", "-o", "out"],
        &["decompress", "-f", "packed", "-o", "out"],
        &["restore", "-f", "latest", "out", "--store", "store"],
        &["export", "-f", "latest", "-o", "out", "--store", "store"],
    ];
    for args in commands {
        for (old, wanted) in [(0o700, 0o700), (0o750, 0o750), (0o711, 0o711), (0o777, 0o755)] {
            fs::create_dir_all(folder.path("out/sub")).expect("ours");
            set_mode(&folder, "out/sub", old);
            folder.ok(args);
            assert_eq!(mode(&folder, "out/sub"), wanted, "{args:?} into {old:o}");
            fs::remove_dir_all(folder.path("out")).expect("ours");
        }
    }
}

/// What takes the place of a private file is private, whatever it is made from and whoever writes
/// it.
#[test]
fn what_takes_the_place_of_a_private_file_is_private() {
    let folder = Folder::new();
    folder.write("x", &checkpoint());
    folder.write("ckpt/x", &checkpoint());
    folder.ok(&["compress", "x"]);
    folder.ok(&["compress", "ckpt"]);
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "x", "--store", "store", "--run", "file"]);
    folder.ok(&["save", "ckpt", "--store", "store", "--run", "folder"]);
    for name in ["x", "x.lmc", "ckpt/x", "ckpt.lmc/x.lmc"] {
        set_mode(&folder, name, 0o666);
    }
    let commands: [(&[&str], &str); 10] = [
        (&["compress", "-f", "x", "-o", "out/y"], "out/y"),
        (&["decompress", "-f", "x.lmc", "-o", "out/y"], "out/y"),
        (&["compress", "-f", "ckpt", "-o", "out"], "out/x.lmc"),
        (&["decompress", "-f", "ckpt.lmc", "-o", "out"], "out/x"),
        (&["cat", "-f", "x.lmc", "w", "-o", "out/y"], "out/y"),
        (&["restore", "-f", "file@latest", "out/y", "--store", "store"], "out/y"),
        (&["restore", "-f", "file@latest", "out", "--store", "store"], "out/x"),
        (&["restore", "-f", "folder@latest", "out", "--store", "store"], "out/x"),
        (&["export", "-f", "file@latest", "-o", "out/y", "--store", "store"], "out/y"),
        (&["export", "-f", "folder@latest", "-o", "out", "--store", "store"], "out/x.lmc"),
    ];
    for (args, name) in commands {
        folder.write(name, b"old");
        set_mode(&folder, name, 0o600);
        folder.ok(args);
        assert_ne!(folder.read(name), b"old", "{args:?}");
        assert_eq!(mode(&folder, name), 0o600, "{args:?}");
        fs::remove_dir_all(folder.path("out")).expect("ours");
    }
}

/// `cat -o` writes a tensor of a private file to a private file.
#[test]
fn a_tensor_is_as_private_as_its_file() {
    let folder = Folder::new();
    folder.write("x", &checkpoint());
    set_mode(&folder, "x", 0o600);
    folder.ok(&["compress", "x"]);
    folder.ok(&["cat", "x.lmc", "w", "-o", "w"]);
    assert_eq!(mode(&folder, "w"), 0o600);
    folder.ok(&["cat", "x.lmc", "w", "-f", "-o", "w"]);
    assert_eq!(mode(&folder, "w"), 0o600);
}

/// Links in a directory that is written into are never followed: what they lead to stays as it is.
#[test]
fn nothing_is_written_through_a_link() {
    for command in ["compress", "decompress"] {
        let folder = Folder::new();
        folder.write("outside/victim", b"precious");
        folder.write("outside/deep/keep", b"precious");
        folder.write("ckpt/a", b"new");
        folder.write("ckpt/sub/victim", b"new");
        folder.write("ckpt/deep/b", b"new");
        let (from, to) = match command {
            "compress" => ("ckpt", ".lmc"),
            _ => {
                folder.ok(&["compress", "ckpt"]);
                ("ckpt.lmc", "")
            }
        };
        fs::create_dir(folder.path("target")).expect("ours");
        let link = |to: &str, name: &str| {
            symlink(to, folder.path(&format!("target/{name}"))).expect("a link");
        };
        link("../outside/victim", &format!("a{to}"));
        link("../outside", "sub");
        link("../outside/deep", "deep");
        let output = folder.lmc(&[command, "-f", from, "-o", "target"]);
        assert_eq!(code(&output), 1, "{}", stderr(&output));
        assert!(stderr(&output).contains("link"), "{}", stderr(&output));
        let names = |name: &str| fs::read_dir(folder.path(name)).expect("there").count();
        assert_eq!((names("outside"), names("outside/deep")), (2, 1), "{command}");
        assert_eq!(folder.read("outside/victim"), b"precious");

        // A link to a file is replaced, as a file would be.
        fs::remove_file(folder.path("target/sub")).expect("ours");
        fs::remove_file(folder.path("target/deep")).expect("ours");
        folder.ok(&[command, "-f", from, "-o", "target"]);
        assert_eq!(folder.read("outside/victim"), b"precious");
        let made = folder.path(&format!("target/a{to}"));
        assert!(made.symlink_metadata().expect("there").is_file());
    }
}

/// The mode of a directory that was there and is named as the target is its owner's affair.
#[test]
fn a_target_that_was_there_keeps_its_mode() {
    let folder = Folder::new();
    folder.write("ckpt/a", b"a");
    set_mode(&folder, "ckpt", 0o700);
    fs::create_dir(folder.path("there")).expect("ours");
    set_mode(&folder, "there", 0o1775);
    folder.ok(&["compress", "-f", "ckpt", "-o", "there"]);
    assert_eq!(mode(&folder, "there"), 0o1775);
}

/// Long runs of zeros become holes again, where the file system has them.
#[test]
fn holes_stay_holes() {
    let folder = Folder::new();
    let size = 32 << 20;
    let path = folder.write("sparse", &noise(100_000, 1));
    let file = fs::File::options().write(true).open(&path).expect("ours");
    file.set_len(size).expect("ours");
    let held = |name: &str| fs::metadata(folder.path(name)).expect(name).blocks() * 512;
    if held("sparse") > size / 2 {
        lmc_testkit::skip(lmc_testkit::Missing::System, "the file system has no holes");
        return;
    }
    folder.ok(&["compress", "sparse"]);
    folder.ok(&["decompress", "sparse.lmc", "-o", "back"]);
    assert!(folder.read("back") == folder.read("sparse"));
    assert!(held("back") < 1 << 20, "{} of {size} bytes are held", held("back"));
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "sparse", "--store", "store"]);
    folder.ok(&["restore", "latest", "again", "--store", "store"]);
    assert!(folder.read("again") == folder.read("sparse"));
    assert!(held("again") < 1 << 20, "{} of {size} bytes are held", held("again"));
}
