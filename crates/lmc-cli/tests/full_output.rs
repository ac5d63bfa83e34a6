//! stdout and stderr that take nothing: what was done is said all the same, the exit code is right,
//! and nothing panics.

use std::fs::{File, OpenOptions};
use std::process::{Output, Stdio};

use crate::common::{Folder, checkpoint, code, command, noise, stderr};

/// A file that is always full, if the system has one.
fn full() -> Option<File> {
    let file = OpenOptions::new().write(true).open("/dev/full").ok();
    if file.is_none() {
        lmc_testkit::skip(lmc_testkit::Missing::System, "there is no /dev/full");
    }
    file
}

fn run(folder: &Folder, args: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let mut command = command(&folder.path(""), args);
    command.env("LMC_STORE", folder.path("store"));
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).output().expect("lmc runs")
}

fn store() -> Folder {
    let folder = Folder::new();
    folder.write("dir/model.safetensors", &checkpoint());
    folder.write("dir/optimizer.pt", &noise(5000, 1));
    folder.ok(&["init", "store"]);
    folder.ok(&["init", "other"]);
    for step in ["1", "2", "3"] {
        folder.write("dir/step", step.as_bytes());
        folder.ok(&["save", "dir", "--store", "store", "--step", step]);
    }
    folder
}

/// A command that changed a store, or wrote files, says so on stderr where stdout takes nothing,
/// and its exit code is not that of "nothing was done".
#[test]
fn what_is_done_is_said_where_stdout_is_full() {
    if full().is_none() {
        return;
    }
    let folder = store();
    let commands: [(&[&str], &str); 13] = [
        (&["report", "--html", "page.html"], "page.html"),
        (&["init", "third"], "third"),
        (&["save", "dir", "--step", "4"], "main@4"),
        (&["tag", "latest", "best"], "best"),
        (&["restore", "latest", "out"], "main@4"),
        (&["export", "latest", "-o", "out.lmc"], "out.lmc"),
        (&["copy", "store", "other"], "copied 4"),
        (&["rebase", "latest"], "replaces"),
        (&["forget", "--keep-last", "3"], "main@1"),
        (&["prune"], "removed"),
        (&["repair"], "no damage"),
        (&["save", "dir", "--step", "5", "--json"], "main@5"),
        (&["forget", "--keep-last", "2", "--json"], "main@2"),
    ];
    for (args, done) in commands {
        let output = run(&folder, args, full().expect("it was there").into(), Stdio::piped());
        let said = stderr(&output);
        assert_eq!(code(&output), 3, "{args:?}: {said}");
        assert!(said.contains("cannot write to stdout"), "{args:?}: {said}");
        assert!(said.contains(done), "{args:?} does not say {done}: {said}");
    }
    let log = String::from_utf8(folder.ok(&["log", "--store", "store"])).expect("text");
    assert_eq!(log.lines().count(), 3, "a heading and two snapshots: {log}");
}

/// A command that only looks fails where stdout takes nothing, and says why.
#[test]
fn looking_fails_where_stdout_is_full() {
    if full().is_none() {
        return;
    }
    let folder = store();
    for args in [
        &["log"][..],
        &["log", "--json"],
        &["show", "latest"],
        &["ls", "latest"],
        &["ls", "latest", "model.safetensors"],
        &["diff", "main@1", "main@2"],
        &["stats"],
        &["report"],
        &["check"],
        &["repair", "-n"],
        &["forget", "--keep-last", "1", "-n"],
        &["prune", "-n"],
        &["--help"],
        &["man"],
        &["completions", "bash"],
    ] {
        let output = run(&folder, args, full().expect("it was there").into(), Stdio::piped());
        let said = stderr(&output);
        assert_eq!(code(&output), 1, "{args:?}: {said}");
        assert!(said.contains("cannot write to stdout"), "{args:?}: {said}");
    }
}

/// Damage gives the exit code of damage, though stdout took no word of it.
#[test]
fn damage_is_told_of_where_stdout_is_full() {
    if full().is_none() {
        return;
    }
    let folder = store();
    let inside = |folder: std::path::PathBuf| std::fs::read_dir(folder).expect("a folder");
    // Beside the folders of packs there is a marker.
    let folders = inside(folder.path("store/packs")).map(|entry| entry.expect("an entry").path());
    for pack in folders.filter(|path| path.is_dir()).flat_map(inside) {
        let path = pack.expect("a pack").path();
        let len = std::fs::metadata(&path).expect("a pack").len() as usize;
        std::fs::write(&path, noise(len, 3)).expect("it is damaged");
    }
    for args in [
        &["check", "--read-data"][..],
        &["check", "--read-data", "--json"],
        &["report", "--read-data"],
        &["restore", "latest", "out", "--keep-going"],
        &["repair"],
    ] {
        let output = run(&folder, args, full().expect("it was there").into(), Stdio::piped());
        let said = stderr(&output);
        assert_eq!(code(&output), 4, "{args:?}: {said}");
        assert!(said.contains("cannot write to stdout"), "{args:?}: {said}");
    }
}

/// stderr that takes nothing changes neither the work nor the exit code.
#[test]
fn a_full_stderr_changes_no_exit_code() {
    if full().is_none() {
        return;
    }
    let folder = store();
    folder.write("x", b"bytes");
    for (args, wanted) in [
        (&["compress", "x"][..], 0),
        (&["test", "x.lmc"], 0),
        (&["compress", "x"], 1),
        (&["decompress", "none.lmc"], 1),
        (&["list", "none.lmc"], 1),
        (&["forget", "--keep-last", "9", "--keep-tag", "none"], 0),
        (&["save", "dir"], 0),
        (&["log", "--store", "none"], 10),
        (&["--nonsense"], 2),
    ] {
        let output = run(&folder, args, Stdio::piped(), full().expect("it was there").into());
        assert_eq!(code(&output), wanted, "{args:?}");
    }
}
