//! Files that are processed concurrently: the same bytes as one after the other, and what is killed
//! or stopped, or finds the disk full, leaves only whole files under final names.

use crate::common::{Folder, code, command, noise, safetensors, stderr, weights, with_signals};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Instant;

/// The length of the file that does not fit where the others do, before and after compression.
const LONG: usize = 16 << 20;
/// The largest file that can be written, in KiB.
const LIMIT_KIB: u32 = 12 << 10;

/// Eight files of different kinds; one of them is long.
fn directory(folder: &Folder) {
    let model = |count: usize, seed: u64| {
        safetensors(&[
            ("w", "BF16", &[count / 512, 512], &weights(count, seed)),
            ("x", "U8", &[1000], &noise(1000, seed)),
        ])
    };
    for i in 0..4 {
        folder.write(&format!("dir/shard-{i}.safetensors"), &model(1 << 21, i));
    }
    folder.write("dir/long.bin", &noise(LONG, 7));
    folder.write("dir/sub/a.bin", &noise(100_000, 8));
    folder.write("dir/sub/empty", b"");
    folder.write("dir/config.json", b"{\"layers\": 2}");
}

/// All files below a folder, by their relative paths.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below it").to_path_buf();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

/// Files that do not have their final names.
fn parts(root: &Path) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "part");
    files(root).into_keys().filter(is_part).collect()
}

/// Any number of threads makes the same files and the same packs, and gives the same bytes back.
#[test]
fn bytes_do_not_depend_on_threads() {
    let folder = Folder::new();
    directory(&folder);
    let originals = files(&folder.path("dir"));
    let (mut archives, mut packs) = (None, None);
    for threads in ["-T1", "-T2", "-T3", "-T16"] {
        let name = |what: &str| format!("{what}{threads}");
        let (made, back, store) = (name("made"), name("back"), name("store"));
        folder.ok(&["compress", "-q", threads, "dir", "-o", &made]);
        let found = files(&folder.path(&made));
        assert!(*archives.get_or_insert_with(|| found.clone()) == found, "{threads}");
        folder.ok(&["decompress", "-q", threads, &made, "-o", &back]);
        assert!(files(&folder.path(&back)) == originals, "{threads}");
        folder.ok(&["init", &store]);
        folder.ok(&["save", "-q", threads, "dir", "--store", &store, "--run", "r", "--step", "1"]);
        let found = files(&folder.path(&format!("{store}/packs")));
        assert!(*packs.get_or_insert_with(|| found.clone()) == found, "{threads}");
        for command in ["restore", "export"] {
            let out = name(command);
            let target: &[&str] = if command == "export" { &["-o", &out] } else { &[&out] };
            let args = [&[command, "-q", threads, "--store", &store, "latest"], target].concat();
            folder.ok(&args);
        }
        assert!(files(&folder.path(&name("restore"))) == originals, "{threads}");
        assert!(files(&folder.path(&name("export"))) == *archives.as_ref().expect("it was set"));
    }
}

/// Runs `lmc` where no file can become as long as one of those that it makes.
fn limited(folder: &Folder, args: &[&str]) -> Output {
    limited_to(folder, &format!("ulimit -f {LIMIT_KIB}; trap '' XFSZ"), args)
}

/// Runs `lmc` after a shell has set limits.
fn limited_to(folder: &Folder, limits: &str, args: &[&str]) -> Output {
    let line = format!("{limits}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    shell.current_dir(folder.path("")).args(["-c", &line, env!("CARGO_BIN_EXE_lmc")]).args(args);
    shell.output().expect("it runs")
}

/// A disk that is full for one of eight files: that one is not there, under no name, and the others
/// are whole.
#[test]
fn a_disk_that_is_full_for_one_of_eight() {
    let folder = Folder::new();
    directory(&folder);
    folder.ok(&["compress", "-q", "dir", "-o", "whole.lmc"]);
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "-q", "dir", "--store", "store"]);
    let commands: [(&[&str], &str, &str); 3] = [
        (&["compress", "-q", "-T8", "dir", "-o", "out"], "whole.lmc", "long.bin.lmc"),
        (&["decompress", "-q", "-T8", "whole.lmc", "-o", "out"], "dir", "long.bin"),
        (&["restore", "-q", "-T8", "--store", "store", "latest", "out"], "dir", "long.bin"),
    ];
    for (args, whole, long) in commands {
        let output = limited(&folder, args);
        let said = stderr(&output);
        assert!(said.contains("long.bin") && said.contains("cannot write"), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{args:?}: {said}");
        if args[0] == "restore" {
            assert_eq!(code(&output), 1, "{args:?}: {said}");
            assert!(!folder.exists("out"), "{args:?}");
            assert!(!folder.names().iter().any(|name| name.starts_with('.')), "{args:?}");
            // In a directory that was there, the others may be whole.
            fs::create_dir(folder.path("out")).expect("a folder");
            assert_eq!(code(&limited(&folder, args)), 1, "{args:?}");
        } else {
            assert_eq!(code(&output), 3, "{args:?}: {said}");
        }
        let (mut expected, found) = (files(&folder.path(whole)), files(&folder.path("out")));
        expected.remove(Path::new(long));
        if args[0] == "restore" {
            assert!(found.iter().all(|(path, bytes)| expected.get(path) == Some(bytes)));
        } else {
            assert!(found == expected, "{args:?}");
        }
        fs::remove_dir_all(folder.path("out")).expect("ours");
    }
}

/// Where few files may be open, files that were short of them while others were processed are
/// processed after these.
#[test]
fn few_open_files_are_enough() {
    let folder = Folder::new();
    for i in 0..24 {
        folder.write(&format!("dir/{i}.bin"), &noise(100_000 + i, i as u64));
    }
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "-q", "dir", "--store", "store"]);
    let originals = files(&folder.path("dir"));
    let limits = "ulimit -n 20";
    for args in [
        &["compress", "-q", "-T8", "dir", "-o", "made"][..],
        &["decompress", "-q", "-T8", "made", "-o", "back"],
        &["restore", "-q", "-T8", "--store", "store", "latest", "restored"],
    ] {
        let output = limited_to(&folder, limits, args);
        assert_eq!(code(&output), 0, "{args:?}: {}", stderr(&output));
    }
    assert!(files(&folder.path("back")) == originals);
    assert!(files(&folder.path("restored")) == originals);
}

/// If an input fails, another name of the same file that was done is removed all the same.
#[test]
fn another_name_of_a_failed_input_is_removed() {
    let folder = Folder::new();
    let path = folder.write("a", &noise(1000, 1));
    fs::hard_link(path, folder.path("b")).expect("a hard link");
    folder.write("a.lmc", b"in the way");
    let output = folder.lmc(&["compress", "--rm", "a", "b"]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(!stderr(&output).contains("needs it"), "{}", stderr(&output));
    assert_eq!(folder.names(), ["a", "a.lmc", "b.lmc"]);
}

/// Ends a command again and again, each time after another share of the time that it takes, with
/// `end`; `check` looks at what it leaves.
fn end_often(folder: &Folder, args: &[&str], end: &str, check: impl Fn(bool)) {
    let prepare = || {
        let _ = fs::remove_dir_all(folder.path("out"));
        if args.contains(&"restore") {
            fs::create_dir(folder.path("out")).expect("a folder");
        }
    };
    let start = |args: &[&str]| {
        let mut command = with_signals(&mut command(&folder.path(""), args));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it runs")
    };
    prepare();
    let begin = Instant::now();
    assert!(start(args).wait().expect("an end").success());
    let (time, mut ended) = (begin.elapsed(), 0);
    for i in 0..12_u32 {
        prepare();
        let mut child = start(args);
        sleep(time.mul_f64(f64::from(i * 7 % 12) / 12.0));
        let line = ["-c", "kill $0 $1", end, &child.id().to_string()];
        assert!(Command::new("sh").args(line).status().expect("kill runs").success());
        let is_done = child.wait().expect("an end").success();
        ended += u32::from(!is_done);
        check(is_done);
    }
    assert!(ended > 0, "no signal came in time");
}

/// `kill -9` at any moment leaves only whole files under final names, and whoever is asked to stop
/// leaves no other names either.
#[test]
fn ended_runs_leave_nothing_half_made() {
    let folder = Folder::new();
    directory(&folder);
    folder.ok(&["compress", "-q", "dir", "-o", "whole.lmc"]);
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "-q", "dir", "--store", "store"]);
    let commands: [(&[&str], &str); 3] = [
        (&["compress", "-q", "-T8", "dir", "-o", "out"], "whole.lmc"),
        (&["decompress", "-q", "-T8", "whole.lmc", "-o", "out"], "dir"),
        (&["restore", "-q", "-T8", "--store", "store", "latest", "out"], "dir"),
    ];
    for (args, whole) in commands {
        let expected = files(&folder.path(whole));
        for end in ["-KILL", "-TERM"] {
            end_often(&folder, args, end, |is_done| {
                if !folder.exists("out") {
                    return;
                }
                let (mut found, parts) = (files(&folder.path("out")), parts(&folder.path("out")));
                assert!(end == "-KILL" || parts.is_empty(), "{args:?} {end}: {parts:?}");
                parts.iter().for_each(|part| drop(found.remove(part)));
                let is_whole =
                    |(path, bytes): (&PathBuf, &Vec<u8>)| expected.get(path) == Some(bytes);
                assert!(found.iter().all(is_whole), "{args:?} {end}: half a file");
                assert!(!is_done || found == expected, "{args:?} {end}: a file is missing");
            });
        }
    }
}
