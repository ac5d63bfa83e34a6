//! What the system refuses (threads, stack, larger files, more open files) is worked around or told
//! of; nothing panics, and nothing half-written is left.

use crate::common;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Folder, code, noise, stderr, weights};

/// A user that nobody else is, so that limits count the processes of one test alone.
fn lonely_user(number: u32) -> String {
    (1_000_000_000 + (std::process::id() % 1_000_000) * 100 + number).to_string()
}

/// Whether this runs as root, whom limits on threads do not bind.
fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Runs `lmc` in `dir` where its user may have `threads` processes and threads; none if that cannot
/// be arranged.
fn with_threads(dir: &Path, user: u32, threads: u32, args: &[&str]) -> Option<Output> {
    let limit = format!("--nproc={threads}");
    let mut command = if is_root() {
        let user = lonely_user(user);
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit"]);
        command
    } else {
        Command::new("prlimit")
    };
    command.arg(limit).arg(env!("CARGO_BIN_EXE_lmc")).args(args).current_dir(dir);
    match command.output() {
        Ok(output) if stderr(&output).contains("setpriv:") => {
            lmc_testkit::skip(lmc_testkit::Missing::Tool, &stderr(&output));
            None
        }
        Ok(output) => Some(output),
        Err(error) => {
            lmc_testkit::skip(
                lmc_testkit::Missing::Tool,
                &format!("setpriv and prlimit are needed: {error}"),
            );
            None
        }
    }
}

/// Every command does its work with as few threads as the system allows, down to the one it has.
#[test]
fn commands_work_with_as_few_threads_as_there_are() {
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o777)).expect("a mode");
    let data = [weights(700_000, 1), noise(100_000, 2)].concat();
    for threads in 1..=6 {
        for count in ["1", "4"] {
            let name = format!("{threads}-{count}");
            folder.write(&format!("{name}/a"), &data);
            let dir = folder.path(&name);
            fs::set_permissions(&dir, Permissions::from_mode(0o777)).expect("a mode");
            for args in [
                &["compress", "-T", count, "a"][..],
                &["test", "-T", count, "a.lmc"],
                &["decompress", "-T", count, "a.lmc", "-o", "b"],
                &["init", "--store", "store"],
                &["save", "a", "-T", count, "--store", "store"],
                &["restore", "latest", "c", "-T", count, "--store", "store"],
            ] {
                let Some(output) = with_threads(&dir, threads, threads, args) else { return };
                let said = stderr(&output);
                assert_eq!(output.status.code(), Some(0), "{threads} threads, {args:?}: {said}");
            }
            for restored in ["b", "c"] {
                assert!(folder.read(&format!("{name}/{restored}")) == data, "{restored}");
            }
        }
    }
}

/// Runs `lmc` in a shell behind `ulimit`.
fn limited(dir: &Path, ulimit: &str, args: &str) -> Output {
    let lmc = env!("CARGO_BIN_EXE_lmc");
    let script = format!("ulimit {ulimit} && exec '{lmc}' {args}");
    Command::new("sh").arg("-c").arg(script).current_dir(dir).output().expect("a shell")
}

/// A result that would be larger than files may be (`ulimit -f`) is an error, and nothing of it is
/// left; neither in a store.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_that_leaves_nothing() {
    let folder = Folder::new();
    folder.write("a", &noise(3_000_000, 1));
    folder.ok(&["compress", "a", "-o", "kept.lmc"]);
    folder.ok(&["init", "--store", "store"]);
    let before = folder.names();
    for args in [
        "compress -f a",
        "compress -f a -o kept.lmc",
        "decompress kept.lmc -o b",
        "save a --store store",
    ] {
        let output = limited(&folder.path("."), "-f 100", args);
        assert_eq!(output.status.code(), Some(1), "{args}: {}", stderr(&output));
        assert!(stderr(&output).contains("too large"), "{args}: {}", stderr(&output));
        assert_eq!(folder.names(), before, "{args}");
    }
    folder.ok(&["test", "kept.lmc"]);
    let log = common::text(folder.ok(&["log", "--json", "--store", "store"]));
    assert!(!log.contains("\"id\""), "no snapshot was made: {log}");
}

/// Too few files that may be open are an error that says so.
#[test]
fn too_few_open_files_are_an_error_that_says_so() {
    let folder = Folder::new();
    folder.write("a", &noise(3_000_000, 1));
    folder.ok(&["compress", "a", "-o", "kept.lmc"]);
    let before = folder.names();
    for limit in 4..9 {
        for args in ["compress -f a", "test kept.lmc", "decompress kept.lmc -o b"] {
            let output = limited(&folder.path("."), &format!("-n {limit}"), args);
            match code(&output) {
                0 => folder.names().iter().filter(|name| !before.contains(name)).for_each(|name| {
                    fs::remove_file(folder.path(name)).expect("the result");
                }),
                1 | 3 => {
                    let said = stderr(&output);
                    assert!(said.contains("open files"), "{limit} files, {args}: {said}");
                }
                code => panic!("{limit} files, {args}: exit {code}: {}", stderr(&output)),
            }
            assert_eq!(folder.names(), before, "{limit} files, {args}");
        }
    }
}

/// With too few files that may be open, what makes a directory leaves nothing of it, and says which
/// path it could not reach and why.
#[test]
fn too_few_open_files_leave_no_part_of_a_directory() {
    let folder = Folder::new();
    for name in ["dir/a", "dir/b/c/d/e/f/g/h", "dir/b/c/i"] {
        folder.write(name, &noise(5000, 1));
    }
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "dir", "--store", "store"]);
    folder.ok(&["compress", "dir", "-o", "packed"]);
    let before = folder.names();
    let mut failed = 0;
    for limit in 4..26 {
        for args in [
            "restore latest new --store store",
            "export latest -o new --store store",
            "compress dir -o new",
            "decompress packed -o new",
        ] {
            let output = limited(&folder.path("."), &format!("-n {limit}"), args);
            let said = stderr(&output);
            if code(&output) == 0 {
                fs::remove_dir_all(folder.path("new")).expect("the result");
            } else {
                failed += 1;
                assert!(said.contains("open files"), "{limit} files, {args}: {said}");
                assert!(!said.contains(" :"), "{limit} files, {args}: no path: {said}");
            }
            // What works on several files keeps those that it could make.
            if code(&output) == 3 {
                fs::remove_dir_all(folder.path("new")).expect("some of the result");
            }
            assert_eq!(folder.names(), before, "{limit} files, {args}: {said}");
        }
    }
    assert!(failed > 20, "only {failed} failed");
}

/// Folders that are much deeper than files may be open are saved, restored, compressed and removed
/// again.
#[test]
fn a_deep_directory_needs_few_open_files() {
    let folder = Folder::new();
    let depth = 600;
    let deep = format!("dir/{}x", "d/".repeat(depth));
    folder.write(&deep, b"deep");
    folder.ok(&["init", "store"]);
    let few = |args: &str| {
        let output = limited(&folder.path("."), "-n 40", args);
        (code(&output), stderr(&output))
    };
    for args in [
        "save dir --store store",
        "restore latest new --store store",
        "compress dir -o packed",
        "decompress packed -o again",
    ] {
        assert_eq!(few(args).0, 0, "{args}: {}", few(args).1);
    }
    for name in ["new", "again"] {
        assert_eq!(folder.read(&deep.replacen("dir", name, 1)), b"deep");
    }
    let before = folder.names();
    let packs = fs::read_dir(folder.path("store/packs")).expect("packs").flatten();
    let packs = packs.filter(|entry| entry.path().is_dir());
    for pack in packs.flat_map(|entry| fs::read_dir(entry.path()).expect("packs").flatten()) {
        fs::write(pack.path(), b"rot").expect("it is damaged");
    }
    let (code, said) = few("restore latest other --store store");
    assert_eq!(code, 4, "{said}");
    assert_eq!(folder.names(), before, "nothing is left of a restore that failed");
}

/// Commands work with a small stack (`ulimit -s`, in KiB): the work has a stack of its own.
#[test]
fn a_small_stack_is_enough() {
    let folder = Folder::new();
    let data = [weights(700_000, 1), noise(100_000, 2)].concat();
    folder.write("a", &data);
    for args in [
        "--version",
        "--help",
        "man",
        "completions bash",
        "compress a",
        "list a.lmc",
        "test a.lmc",
        "decompress a.lmc -o b",
        "init store",
        "save a --store store",
        "restore latest c --store store",
        "check --read-data --store store",
    ] {
        let output = limited(&folder.path("."), "-s 64", args);
        assert_eq!(output.status.code(), Some(0), "{args}: {}", stderr(&output));
    }
    assert!(folder.read("b") == data && folder.read("c") == data);
}
