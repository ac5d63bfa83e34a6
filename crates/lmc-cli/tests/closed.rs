//! stdin and stdout that are closed, or open the wrong way round, are errors where they are needed,
//! and no obstacle where they are not.

use std::process::{Command, Output};

use crate::common::{Folder, checkpoint, code, stderr};

/// Runs `lmc` in a shell that closes or turns round what `redirected` says.
fn run(folder: &Folder, args: &str, redirected: &str) -> Output {
    let lmc = env!("CARGO_BIN_EXE_lmc");
    let script = format!("exec '{lmc}' {args} {redirected}");
    Command::new("sh").arg("-c").arg(script).current_dir(folder.path("")).output().expect("a shell")
}

fn store() -> Folder {
    let folder = Folder::new();
    folder.write("dir/model.safetensors", &checkpoint());
    folder.ok(&["init", "store"]);
    folder.ok(&["save", "dir", "--store", "store", "--step", "1"]);
    folder.ok(&["compress", "dir/model.safetensors", "-o", "x.lmc"]);
    folder
}

/// What only looks fails where its words go nowhere, and so does what writes bytes to stdout.
#[test]
fn a_closed_stdout_is_an_error_where_output_is_needed() {
    let folder = store();
    for args in [
        "log --store store",
        "log --store store --json",
        "ls latest --store store",
        "check --store store",
        "stats --store store",
        "list x.lmc",
        "cat x.lmc w",
        "decompress -c x.lmc",
        "compress -c dir/model.safetensors",
        "--help",
        "man",
        "completions bash",
    ] {
        for redirected in [">&-", "1<x.lmc", "<&- >&-"] {
            let output = run(&folder, args, redirected);
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{args} {redirected}: {said}");
            assert!(said.contains("cannot write to stdout"), "{args} {redirected}: {said}");
        }
        let output = run(&folder, args, ">&- 2>&-");
        assert_eq!(code(&output), 1, "{args}, with stderr closed too");
    }
}

/// A change that was made is said on stderr, with the exit code of a full stdout.
#[test]
fn a_closed_stdout_does_not_hide_what_was_done() {
    let folder = store();
    let output = run(&folder, "save dir --store store --step 2", ">&-");
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("main@2"), "{}", stderr(&output));
}

/// A closed stdin is not an empty one.
#[test]
fn a_closed_stdin_is_an_error_where_input_is_needed() {
    let folder = store();
    for args in ["compress - -o new", "compress -q -", "decompress - -o new", "test -"] {
        for redirected in ["<&-", "0>taken"] {
            let output = run(&folder, args, redirected);
            let said = stderr(&output);
            assert_eq!(code(&output), 1, "{args} {redirected}: {said}");
            assert!(said.contains("stdin"), "{args} {redirected}: {said}");
            assert!(output.stdout.is_empty() && !folder.exists("new"), "{args} {redirected}");
        }
    }
}

/// A command that needs neither works without them. The first file that it opens must not become
/// stdout, or its output would end up in that file.
#[test]
fn what_is_not_needed_may_be_closed() {
    let folder = store();
    let bytes = checkpoint();
    for redirected in ["<&-", "<&- >&-", "<&- >&- 2>&-", ">/dev/null", "1<>/dev/null"] {
        let args = "decompress -f x.lmc -o y";
        assert_eq!(code(&run(&folder, args, redirected)), 0, "{redirected}");
        assert!(folder.read("y") == bytes, "{redirected}");
    }
    for redirected in [">/dev/null", "1<>/dev/null", "<&-"] {
        assert_eq!(code(&run(&folder, "ls latest --store store", redirected)), 0, "{redirected}");
    }
    for redirected in ["</dev/null", "0<>/dev/null"] {
        let output = run(&folder, "compress -q -", redirected);
        assert_eq!(code(&output), 0, "{redirected}: {}", stderr(&output));
    }
}

/// Where there is no `/dev/null` to hold a place, nothing is different.
#[test]
fn a_closed_stream_without_a_null_device() {
    let folder = store();
    let bare = |args: &str, redirected: &str| {
        let lmc = env!("CARGO_BIN_EXE_lmc");
        let script = format!("mount -t tmpfs none /dev && exec '{lmc}' {args} {redirected}");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).current_dir(folder.path(""));
        command.output()
    };
    if !bare("--version", "").is_ok_and(|output| output.status.success()) {
        lmc_testkit::skip(lmc_testkit::Missing::Root, "only root can take /dev away");
        return;
    }
    for redirected in ["<&-", "2>&-", "<&- 2>&-"] {
        let output = bare("list x.lmc", redirected).expect("it starts");
        assert_eq!(code(&output), 0, "{redirected}: {}", stderr(&output));
    }
    for redirected in [">&-", "<&- >&-", "<&- >&- 2>&-"] {
        let output = bare("list x.lmc", redirected).expect("it starts");
        assert_eq!(code(&output), 1, "{redirected}: {}", stderr(&output));
    }
}
