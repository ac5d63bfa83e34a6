//! A run that is ended leaves nothing under the final name, and if it was asked, nothing at all.
//!
//! The input is a pipe that stays open, so that the run is surely in its middle.

use crate::common;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::Folder;

/// A compression that waits for its input and has its temporary file already.
fn waiting(folder: &Folder) -> Child {
    let args = ["compress", "-", "-o", "x.lmc"];
    let child = common::with_signals(&mut common::command(&folder.path(""), &args))
        .stdin(Stdio::piped())
        .spawn()
        .expect("lmc starts");
    while folder.names().is_empty() {
        sleep(Duration::from_millis(1));
    }
    child
}

/// SIGINT, SIGTERM and SIGHUP remove the temporary file.
#[test]
fn signals_leave_nothing() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let folder = Folder::new();
        let mut child = waiting(&folder);
        send(signal, &child);
        assert_eq!(child.wait().expect("lmc ends").code(), Some(130), "{signal}");
        assert!(folder.names().is_empty(), "{signal}: {:?}", folder.names());
    }
}

fn send(signal: &str, child: &Child) {
    // The shell's own: not every machine has a program of that name.
    let kill = ["-c", "kill $0 $1", signal, &child.id().to_string()];
    let sent = Command::new("sh").args(kill).status();
    assert!(sent.expect("kill runs").success());
}

/// What whoever started lmc wants ignored is ignored: `nohup` does so with SIGHUP.
#[test]
fn ignored_signals_stay_ignored() {
    let folder = Folder::new();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$0\" compress - -o x.lmc", env!("CARGO_BIN_EXE_lmc")])
        .current_dir(folder.path(""))
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    while folder.names().is_empty() {
        sleep(Duration::from_millis(1));
    }
    send("-HUP", &child);
    sleep(Duration::from_millis(100));
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("lmc ends").code(), Some(0));
    assert!(folder.exists("x.lmc"));
}

/// A kill that cannot be caught leaves a temporary name, which is in nobody's way.
#[test]
fn kill_leaves_no_final_name() {
    let folder = Folder::new();
    let mut child = waiting(&folder);
    child.kill().expect("it runs");
    child.wait().expect("it ended");
    assert!(!folder.exists("x.lmc"));
    assert!(folder.names().iter().all(|name| name.ends_with(".part")), "{:?}", folder.names());
    assert_eq!(common::code(&folder.lmc_with_stdin(&["compress", "-", "-o", "x.lmc"], b"x")), 0);
    assert!(folder.exists("x.lmc"));
}

/// Two signals, one right after the other, in the middle of a restore: the one that ends its work
/// and the one that cuts it off clear the same directory, and nothing is left of it.
#[test]
fn two_signals_leave_nothing_of_a_restore() {
    let folder = Folder::new();
    folder.ok(&["init", "store"]);
    for i in 0..400 {
        folder.write(&format!("source/{}/{i}", i % 20), &[i as u8; 10]);
    }
    folder.ok(&["save", "--store", "store", "source", "-q"]);
    let before = folder.names();
    for round in 0..20 {
        let args = ["restore", "--store", "store", "latest", "restored", "-q"];
        let mut child = common::with_signals(&mut common::command(&folder.path(""), &args))
            .stderr(Stdio::null())
            .spawn()
            .expect("lmc starts");
        while folder.names() == before && child.try_wait().expect("it runs").is_none() {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_millis(round));
        let kill = ["-c", "kill -INT $0; kill -INT $0", &child.id().to_string()];
        // It may have ended before.
        Command::new("sh").args(kill).stderr(Stdio::null()).status().expect("kill runs");
        let code = child.wait().expect("lmc ends").code();
        let mut left = folder.names();
        if code == Some(0) {
            left.retain(|name| name != "restored");
            std::fs::remove_dir_all(folder.path("restored")).expect("it is there");
        }
        assert_eq!(left, before, "round {round}, exit code {code:?}");
    }
}
