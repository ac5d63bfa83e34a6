//! A command on a store that is asked to end leaves nothing: no temporary folder, no lease.
//!
//! It is held at one of its system calls while it is asked, so that it is surely in its middle.

use crate::common;
use crate::common::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    // Each folder of a store has one from the beginning.
    let paths = paths.filter(|path| !path.ends_with(".folder"));
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Runs a command that gets `signals` at its call of this number, where it is held for `seconds`;
/// returns how many calls were seen and the exit code. None where calls cannot be traced.
fn signal_at(
    folder: &Folder,
    call: u64,
    signals: &str,
    seconds: &str,
    args: &[&str],
) -> Option<(u64, i32)> {
    let tracer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kill_at.py");
    let mut python = Command::new("python3");
    python.arg(tracer).arg(call.to_string()).arg(env!("CARGO_BIN_EXE_lmc")).args(args);
    python.env("SIGNALS", signals).env("HOLD", seconds).current_dir(folder.path(""));
    let Ok(output) = python.stderr(Stdio::piped()).output() else {
        lmc_testkit::skip(
            lmc_testkit::Missing::Tool,
            "python3 is not here, which traces system calls",
        );
        return None;
    };
    let code = output.status.code().unwrap_or(-1);
    if code == 77 {
        lmc_testkit::skip(lmc_testkit::Missing::System, "ptrace is not allowed here");
        return None;
    }
    if code == 130 {
        assert_eq!(common::stderr(&output), "", "{args:?}");
    }
    let calls = String::from_utf8_lossy(&output.stdout).trim().parse();
    Some((calls.expect("the tracer says how many calls"), code))
}

/// Saves and copies end their leases; restores and exports remove what they have written.
#[test]
fn work_ends_by_itself() {
    let cases: [(&[&str], &str); 5] = [
        (&["report", "--html", "page.html", "--store", "store"], "2"),
        (&["save", "data", "--store", "store", "--step", "2"], "2"),
        (&["copy", "store", "other"], "15"),
        (&["restore", "latest", "out", "--store", "store"], "1"),
        (&["export", "latest", "-o", "out", "--store", "store"], "2"),
    ];
    for (args, number) in cases {
        let Some((calls, _)) = signal_at(&scene(), 0, "", "0", args) else { return };
        let mut interrupted = 0;
        for call in (1..=calls).step_by(calls.div_ceil(8) as usize) {
            let folder = scene();
            let Some((_, code)) = signal_at(&folder, call, number, "0.2", args) else { return };
            // Once it needs nothing more of the store it runs to its end.
            assert!(code == 130 || code == 0, "{args:?} at call {call} of {calls}: {code}");
            interrupted += u64::from(code == 130);
            if code == 130 {
                let names = folder.names();
                assert_eq!(names, ["data", "other", "store"], "{args:?} at {call} of {calls}");
            }
            for left in ["store/pending", "store/tmp", "other/pending", "other/tmp"] {
                let left = files(&folder.path(left));
                assert!(left.is_empty(), "{args:?} at {call} of {calls} leaves {left:?}");
            }
        }
        assert!(interrupted >= 2, "{args:?}: {interrupted} of {calls}");
    }
}

/// What hangs is cut off by a second signal, or when it takes too long, and leaves nothing either.
#[test]
fn work_is_cut_off() {
    let cases: [(&[&str], &str); 5] = [
        (&["report", "--read-data", "--html", "page.html", "--store", "store"], "2 2"),
        (&["restore", "latest", "out", "--store", "store"], "2 2"),
        (&["export", "latest", "-o", "out", "--store", "store"], "2 15"),
        (&["restore", "latest", "there", "-f", "--store", "store"], "2 2"),
        (&["restore", "latest", "out", "--store", "store"], "2"),
    ];
    for (args, signals) in cases {
        let begin = || {
            let folder = scene();
            folder.write("there/deep/mine.txt", b"mine");
            folder
        };
        let Some((calls, _)) = signal_at(&begin(), 0, "", "0", args) else { return };
        let folder = begin();
        let call = calls / 2;
        let Some((_, code)) = signal_at(&folder, call, signals, "60", args) else { return };
        assert_eq!(code, 130, "{args:?} at call {call} of {calls}");
        assert_eq!(folder.names(), ["data", "other", "store", "there"], "{args:?}");
        assert_eq!(files(&folder.path("there")), [folder.path("there/deep/mine.txt")], "{args:?}");
    }
}
