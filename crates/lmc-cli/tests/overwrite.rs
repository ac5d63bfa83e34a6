//! Nothing that is there is lost without -f, and nothing is left half done.

use crate::common::{Folder, code, noise, stderr};

/// An output that exists stays as it is, with exit code 1 and a line that says what to do.
#[test]
fn refused_without_force() {
    let folder = Folder::new();
    folder.write("x", b"new");
    folder.write("x.lmc", b"old");
    let output = folder.lmc(&["compress", "x"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).starts_with("lmc: x: ") && stderr(&output).contains("-f"));
    assert_eq!(folder.read("x.lmc"), b"old");
    folder.ok(&["compress", "-f", "x"]);
    assert_ne!(folder.read("x.lmc"), b"old");

    folder.write("x", b"precious");
    assert_eq!(code(&folder.lmc(&["decompress", "x.lmc"])), 1);
    assert_eq!(folder.read("x"), b"precious");
    folder.ok(&["decompress", "-f", "x.lmc"]);
    assert_eq!(folder.read("x"), b"new");
}

/// Input and output cannot be one file, even with -f and by another name.
#[test]
fn same_file_is_refused() {
    let folder = Folder::new();
    folder.write("x", b"precious");
    for output in ["x", "./x"] {
        let output = folder.lmc(&["compress", "x", "-f", "--rm", "-o", output]);
        assert_eq!(code(&output), 1);
        assert_eq!(folder.read("x"), b"precious");
    }
}

/// A damaged file leaves nothing under the final name, and its input stays despite --rm.
#[test]
fn failure_leaves_nothing() {
    let folder = Folder::new();
    folder.write("x", &noise(100_000, 1));
    folder.ok(&["compress", "x", "--rm"]);
    let mut bytes = folder.read("x.lmc");
    bytes[50_000] ^= 1;
    folder.write("x.lmc", &bytes);
    assert_eq!(code(&folder.lmc(&["decompress", "--rm", "x.lmc"])), 4);
    assert_eq!(folder.names(), ["x.lmc"]);
}

/// A file that ends in .lmc is compressed again only with -f or a name for the result.
#[test]
fn compressed_files_are_not_compressed_by_accident() {
    let folder = Folder::new();
    folder.write("x.lmc", b"whatever");
    assert_eq!(code(&folder.lmc(&["compress", "x.lmc"])), 1);
    folder.ok(&["compress", "x.lmc", "-o", "y"]);
    folder.ok(&["compress", "-f", "x.lmc"]);
    assert_eq!(folder.names(), ["x.lmc", "x.lmc.lmc", "y"]);
}

/// A pipe or a device is neither replaced by a result nor taken for an input with a name.
#[test]
fn only_regular_files_are_replaced() {
    let folder = Folder::new();
    folder.write("x", b"new");
    let pipe = folder.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let output = folder.lmc(&["compress", "-f", "x", "-o", "pipe"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
    assert!(!pipe.symlink_metadata().expect("the pipe").is_file());
    let output = folder.lmc(&["compress", "/dev/null"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("-o"), "{}", stderr(&output));
}
