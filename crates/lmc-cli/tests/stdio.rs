//! stdin and stdout carry what files do.

use crate::common;
use std::fs::File;
use std::process::Stdio;

use crate::common::{Folder, checkpoint, code, stderr};

/// Through pipes there and back, and the bytes are those that files get.
#[test]
fn pipes() {
    let folder = Folder::new();
    let bytes = checkpoint();
    folder.write("x", &bytes);
    folder.ok(&["compress", "x"]);
    let packed = folder.lmc_with_stdin(&["compress", "-q", "-"], &bytes);
    assert_eq!(code(&packed), 0);
    assert_eq!(packed.stdout, folder.read("x.lmc"));
    let restored = folder.lmc_with_stdin(&["-d", "-"], &packed.stdout);
    assert_eq!(restored.stdout, bytes);
    assert_eq!(folder.ok(&["-dc", "x.lmc"]), bytes);
    assert_eq!(folder.ok(&["decompress", "x.lmc", "-o", "-"]), bytes);
}

/// stdin with -o makes a file, from a pipe and from a redirected file.
#[test]
fn stdin_to_file() {
    let folder = Folder::new();
    let bytes = checkpoint();
    let path = folder.write("x", &bytes);
    folder.lmc_with_stdin(&["compress", "-", "-o", "pipe.lmc"], &bytes);
    let file = File::open(path).expect("it is there");
    let mut redirected = common::command(&folder.path(""), &["compress", "-", "-o", "file.lmc"]);
    let status = redirected.stdin(Stdio::from(file)).status().expect("lmc runs");
    assert!(status.success());
    assert_eq!(folder.read("pipe.lmc"), folder.read("file.lmc"));
    folder.ok(&["decompress", "file.lmc"]);
    assert_eq!(folder.read("file"), bytes);
}

/// Several restored files are joined in stdout, as zstd does.
#[test]
fn joined() {
    let folder = Folder::new();
    folder.write("a", b"one,");
    folder.write("b", b"two");
    folder.ok(&["compress", "a", "b"]);
    assert_eq!(folder.ok(&["-dc", "a.lmc", "b.lmc"]), b"one,two");
}

/// A whole stream passes the test, from a pipe and from a redirected file.
#[test]
fn tested_stdin() {
    let folder = Folder::new();
    let path = folder.write("x", &checkpoint());
    folder.ok(&["compress", "x"]);
    let tested = folder.lmc_with_stdin(&["test", "-"], &folder.read("x.lmc"));
    let line = format!("-: ok, {} bytes\n", checkpoint().len());
    assert_eq!((code(&tested), stderr(&tested)), (0, line));
    let file = File::open(path.with_extension("lmc")).expect("it is there");
    let mut redirected = common::command(&folder.path(""), &["test", "-q", "-"]);
    assert!(redirected.stdin(Stdio::from(file)).status().expect("lmc runs").success());
}

/// A damaged stream is exit code 4.
#[test]
fn damaged_stdin() {
    let folder = Folder::new();
    for args in [["-d", "-"], ["test", "-"]] {
        assert_eq!(code(&folder.lmc_with_stdin(&args, b"not an lmc file at all")), 4, "{args:?}");
    }
}
