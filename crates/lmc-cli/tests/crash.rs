//! What is killed, or finds the disk full, leaves its input as it was and nothing half-made under a
//! final name.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Kills of each command; `LMC_KILLS` asks for more.
fn kills() -> u32 {
    std::env::var("LMC_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

fn lmc(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc"));
    command.current_dir(folder).args(args).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A file of 24 MB that is not all the same: long enough for kills to hit every stage.
fn checkpoint() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as u32
    };
    (0..6_000_000).flat_map(|_| (next() as f32 / 1e7 - 0.8).to_le_bytes()).collect()
}

/// Runs `args` again and again, each time killed after another share of the time that it takes;
/// after each kill `made` is absent or is `whole`, and `input` is as it was.
fn kill_often(folder: &Path, args: &[&str], input: &str, made: &str, whole: &[u8]) {
    let before = fs::read(folder.join(input)).expect("the input");
    let start = Instant::now();
    assert!(lmc(folder, args).status().expect("it runs").success());
    let time = start.elapsed();
    assert!(fs::read(folder.join(made)).expect("the output") == whole);
    let (mut killed, mut finished) = (0, 0);
    for i in 0..kills() {
        fs::remove_file(folder.join(made)).ok();
        let mut child = lmc(folder, args).spawn().expect("it runs");
        // Spread over the run, in an order that does not follow the disk's rhythm.
        let share = f64::from(i * 61 % kills()) / f64::from(kills());
        std::thread::sleep(time.mul_f64(share * 1.1));
        child.kill().expect("a kill");
        let status = child.wait().expect("an end");
        if status.success() {
            finished += 1
        } else {
            killed += 1
        }
        if let Ok(bytes) = fs::read(folder.join(made)) {
            assert!(bytes == whole, "kill {i} left half a file");
        } else {
            assert!(!status.success(), "a finished run left nothing");
        }
        assert!(fs::read(folder.join(input)).expect("the input") == before, "kill {i}");
    }
    assert!(killed > 0, "no kill came in time ({finished} runs finished)");
}

/// `kill -9` at any moment of compress and decompress.
#[test]
fn killed_runs_leave_nothing_half_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = checkpoint();
    fs::write(folder.path().join("a"), &original).expect("the input");
    let compress = ["compress", "-q", "-f", "a"];
    assert!(lmc(folder.path(), &compress).status().expect("it runs").success());
    let coded = fs::read(folder.path().join("a.lmc")).expect("the output");
    kill_often(folder.path(), &compress, "a", "a.lmc", &coded);
    fs::write(folder.path().join("b.lmc"), &coded).expect("the input");
    kill_often(folder.path(), &["decompress", "-q", "-f", "b.lmc"], "b.lmc", "b", &original);
    // Another run is not disturbed by what killed ones left.
    assert!(lmc(folder.path(), &compress).status().expect("it runs").success());
}

/// A limit on the length of files stands for a full disk: the write fails in the middle, the run
/// says so and nothing is left, under no name.
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), checkpoint()).expect("the input");
    let run = |limit_kib: u32, args: &str| {
        let line = format!("ulimit -f {limit_kib}; trap '' XFSZ; exec \"$0\" {args}");
        let mut shell = Command::new("bash");
        shell.current_dir(folder.path()).args(["-c", &line, env!("CARGO_BIN_EXE_lmc")]);
        shell.output().expect("it runs")
    };
    for limit_kib in [1, 2000, 9000] {
        let output = run(limit_kib, "compress -q -T2 a");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("cannot write"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        let left = fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(left, 1, "something was left");
    }
    assert!(lmc(folder.path(), &["compress", "-q", "a"]).status().expect("it runs").success());
    fs::remove_file(folder.path().join("a")).expect("the input goes");
    let output = run(9000, "decompress -q a.lmc");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
}
