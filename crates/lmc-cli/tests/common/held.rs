//! A run that is held between two of its files by a stderr that nobody reads: the line about a file
//! is printed when its result has its name, and before the file itself is removed.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::Folder;

/// A run that cannot go on until its stderr is read.
pub struct Held {
    child: Child,
    stderr: PipeReader,
    filled: usize,
}

impl Held {
    /// Starts `lmc` and waits until `name` is there.
    pub fn start(folder: &Folder, args: &[&str], name: &str) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let filled = fill(writer.as_raw_fd());
        let child = super::command(&folder.path(""), args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(writer)
            .spawn()
            .expect("lmc starts");
        let mut held = Self { child, stderr: reader, filled };
        while !folder.exists(name) {
            assert!(held.child.try_wait().expect("a child").is_none(), "lmc {args:?} has ended");
            sleep(Duration::from_millis(1));
        }
        held
    }

    /// Lets it go on to its end: its exit code and what it said.
    pub fn finish(mut self) -> (i32, String) {
        let mut said = Vec::new();
        self.stderr.read_to_end(&mut said).expect("stderr is read");
        let code = self.child.wait().expect("lmc ends").code().expect("lmc was not killed");
        (code, String::from_utf8_lossy(&said[self.filled..]).into_owned())
    }
}

/// Writes to a pipe until it is full; returns how much that was.
fn fill(pipe: i32) -> usize {
    const NONBLOCK: i32 = 0o4000;
    let mut options = File::options();
    let mut writer = options
        .write(true)
        .custom_flags(NONBLOCK)
        .open(format!("/proc/self/fd/{pipe}"))
        .expect("a pipe can be opened once more");
    let (mut filled, mut len) = (0, 4096);
    loop {
        match writer.write(&vec![b'.'; len]) {
            Ok(count) => filled += count,
            Err(e) if e.kind() == ErrorKind::WouldBlock && len > 1 => len = 1,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return filled,
            Err(e) => panic!("{e}"),
        }
    }
}
