//! What the tests of the command share: running it, and files to run it on.

#[cfg(feature = "s3")]
pub mod answers;
#[cfg(feature = "s3")]
pub mod bucket;
pub mod held;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A directory of its own for each test, in which commands run.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, bytes).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }

    /// Names in the directory itself, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a directory");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs `lmc` with `args`, nothing on stdin.
    pub fn lmc(&self, args: &[&str]) -> Output {
        self.lmc_with_stdin(args, &[])
    }

    /// Runs `lmc` with `args` and `input` on stdin.
    pub fn lmc_with_stdin(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = command(self.0.path(), args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("lmc starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_vec();
        // From another thread: both pipes may fill up. lmc may well end before it has read all.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("lmc ends");
        writer.join().expect("the writer ends");
        output
    }

    /// Runs `lmc` and fails the test unless it exits with 0; gives its stdout.
    pub fn ok(&self, args: &[&str]) -> Vec<u8> {
        let output = self.lmc(args);
        assert_eq!(code(&output), 0, "lmc {args:?}: {}", stderr(&output));
        output.stdout
    }
}

/// `lmc` with `args` in `dir`.
pub fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc"));
    command.args(args).current_dir(dir);
    // No test asks the machine that it runs on for keys to somebody's bucket.
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// The same with signals as they are in a new shell, whoever runs the tests ignores them.
pub fn with_signals(command: &mut Command) -> Command {
    let mut reset = Command::new("env");
    reset.arg("--default-signal=INT,TERM,HUP").arg(command.get_program()).args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        reset.current_dir(dir);
    }
    reset
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("lmc was not killed")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// stdout as text.
pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

/// Bytes without a pattern.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// bf16 numbers of several sizes, as weights are.
pub fn weights(count: usize, seed: u64) -> Vec<u8> {
    let value = |pair: &[u8]| (f32::from(pair[0]) - 127.5) * f32::from(pair[1]) * 1e-5;
    let noise = noise(2 * count, seed);
    noise.chunks(2).flat_map(|pair| value(pair).to_le_bytes()[2..].to_vec()).collect()
}

/// A safetensors file of `(name, dtype, shape, bytes)`.
pub fn safetensors(tensors: &[(&str, &str, &[usize], &[u8])]) -> Vec<u8> {
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// A small checkpoint: bf16 matrix `w` of 64 rows of 512, f32 vector `b` of 3, i64 scalar `step`.
pub fn checkpoint() -> Vec<u8> {
    let b: Vec<u8> = [1.0_f32, -2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    safetensors(&[
        ("w", "BF16", &[64, 512], &weights(64 * 512, 1)),
        ("b", "F32", &[3], &b),
        ("step", "I64", &[], &7_i64.to_le_bytes()),
    ])
}

/// Two checkpoints: f32 weights, and their rounding to bf16.
pub fn pair(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let (high, low) = (weights(300 * 512, seed), noise(2 * 300 * 512, seed));
    let words = high.chunks(2).zip(low.chunks(2));
    let full: Vec<u8> =
        words.flat_map(|(high, low)| [low[0], low[1] & 127, high[0], high[1]]).collect();
    let full = safetensors(&[("w", "F32", &[300, 512], &full)]);
    (full, safetensors(&[("w", "BF16", &[300, 512], &high)]))
}
