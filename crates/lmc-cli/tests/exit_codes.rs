//! Exit codes: 0 done, 1 error, 2 wrong use, 3 partial, 4 damaged data; errors are one line.

use crate::common;
use crate::common::{Folder, checkpoint, code, stderr};

/// A file that is not there is an error of one line that names it.
#[test]
fn missing_file() {
    let folder = Folder::new();
    for command in ["compress", "decompress", "list", "test", "inspect"] {
        let output = folder.lmc(&[command, "no-such.lmc"]);
        assert_eq!(code(&output), 1, "{command}");
        let line = stderr(&output);
        assert!(line.starts_with("lmc: no-such.lmc: ") && line.lines().count() == 1, "{line}");
    }
}

/// Wrong options are exit code 2, whether clap or lmc itself finds them.
#[test]
fn wrong_use() {
    let folder = Folder::new();
    folder.write("a", b"a");
    folder.write("b", b"b");
    let wrong: [&[&str]; 9] = [
        &[],
        &["compress"],
        &["no-such-command"],
        &["compress", "a", "--fast", "--max"],
        &["compress", "a", "-c", "-o", "x"],
        &["compress", "a", "b", "-o", "x"],
        &["compress", "a", "b", "-c"],
        &["compress", "a", "-T", "100000"],
        &["compress", "a", "-c", "--rm"],
    ];
    for args in wrong {
        assert_eq!(code(&folder.lmc(args)), 2, "{args:?}");
    }
    assert_eq!(folder.names(), ["a", "b"]);
}

/// What is easily typed wrong is told in one line: what, where, what to do.
#[test]
fn clear_lines() {
    let folder = Folder::new();
    folder.write("x", &checkpoint());
    folder.ok(&["compress", "x"]);
    let no_folder = "there is no folder no-such; make it, or give another name";
    for (args, exit, line) in [
        (
            &["cat", "x.lmc", "w", "--rows", "5..2"][..],
            2,
            "x.lmc: --rows 5..2 ends before it starts; give the smaller number first".into(),
        ),
        (
            &["cat", "x.lmc", "w", "--rows", "60..70"],
            1,
            "x.lmc: no rows 60..70 in `w`, which has 64; give fewer".into(),
        ),
        (&["compress", "x", "-o", "no-such/x.lmc"], 1, format!("x: {no_folder}")),
        (&["decompress", "x.lmc", "-o", "no-such/x"], 1, format!("x.lmc: {no_folder}")),
        (&["cat", "x.lmc", "w", "-o", "no-such/w"], 1, format!("x.lmc: {no_folder}")),
        (
            &["compress", "x", "-o", "x/x.lmc"],
            1,
            "x: there is no folder x; make it, or give another name".into(),
        ),
    ] {
        let output = folder.lmc(args);
        assert_eq!((code(&output), stderr(&output)), (exit, format!("lmc: {line}\n")), "{args:?}");
    }
}

/// Options may come before the command.
#[test]
fn options_in_front() {
    let folder = Folder::new();
    folder.write("x", b"x");
    folder.ok(&["-T1", "compress", "x"]);
    folder.ok(&["-T", "1", "--quiet", "test", "x.lmc"]);
    assert_eq!(code(&folder.lmc(&["--fast", "test", "x.lmc"])), 2);
}

/// After a failure the other files are done, and the code says partial.
#[test]
fn partial() {
    let folder = Folder::new();
    folder.write("a", b"a");
    folder.write("c", b"c");
    assert_eq!(code(&folder.lmc(&["compress", "a", "b", "c"])), 3);
    assert_eq!(folder.names(), ["a", "a.lmc", "c", "c.lmc"]);
    assert_eq!(code(&folder.lmc(&["compress", "a", "c"])), 1, "both exist");
}

/// A flipped bit in any byte and a cut at any place are found, with code 4, which wins over
/// partial.
#[test]
fn corruption() {
    let folder = Folder::new();
    folder.write("x", &[3; 300]);
    folder.write("good", b"good");
    folder.ok(&["compress", "x", "good"]);
    let whole = folder.read("x.lmc");
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        folder.write("bad.lmc", &bytes);
        let output = folder.lmc(&["test", "bad.lmc"]);
        assert_eq!(code(&output), 4, "byte {place}: {}", stderr(&output));
        folder.write("bad.lmc", &whole[..place]);
        assert_eq!(code(&folder.lmc(&["test", "bad.lmc"])), 4, "cut at {place}");
    }
    assert_eq!(code(&folder.lmc(&["decompress", "-f", "bad.lmc", "good.lmc"])), 4);
    assert!(!folder.exists("bad"));
    assert_eq!(code(&folder.lmc(&["test", "good.lmc", "bad.lmc"])), 4);
    folder.ok(&["test", "good.lmc", "x.lmc"]);
}

/// A reader that goes away ends lmc quietly.
#[test]
fn closed_pipe() {
    let folder = Folder::new();
    // More than a pipe holds: lmc must not be done before its reader is gone.
    let noise = common::noise(4 << 20, 1);
    folder.write("x", &noise);
    folder.write("t.safetensors", &common::safetensors(&[("w", "U8", &[noise.len()], &noise)]));
    folder.ok(&["compress", "x", "t.safetensors"]);
    for args in [&["decompress", "-c", "x.lmc"][..], &["cat", "t.safetensors.lmc", "w"]] {
        let mut child = common::command(&folder.path(""), args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("lmc starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("lmc ends");
        assert_eq!((code(&output), stderr(&output).as_str()), (141, ""), "{args:?}");
    }
}
