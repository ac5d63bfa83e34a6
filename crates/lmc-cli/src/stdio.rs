//! stdin, stdout and stderr: used as files if possible, and otherwise as streams. Only this module
//! writes to a terminal, and it writes text only as a [`Printable`].
//!
//! std treats a closed stdin as empty, and reports success for writes to a closed stdout. A program
//! that was started without them would then report data that it has not read or delivered. Also,
//! the first file that such a process opens becomes its stdin or stdout. So closed streams are
//! noted at the start and get a placeholder, and using one is an error.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, Stdout, Write};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::sync::atomic::{AtomicU8, Ordering};

use indicatif::ProgressDrawTarget;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::Value;

use crate::exit::Failure;
use crate::printable::Printable;

/// What a standard stream is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Reading from stdin.
    Stdin,
    /// Writing to stdout.
    Stdout,
}

/// Which of the three were closed, one bit each.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Notes which of stdin, stdout and stderr are closed, and opens `/dev/null` for them, so that no
/// file that is opened later is taken for one of them. If `/dev/null` does not exist, as in a bare
/// chroot, the root directory is used, which cannot be written to either. std would do the same
/// after this, but ends the process without a message if there is no `/dev/null`. Call this before
/// anything is opened; a program calls it before `main`.
pub extern "C" fn hold_places() {
    let standard = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for (number, fd) in standard.into_iter().enumerate() {
        if rustix::io::fcntl_getfd(fd) == Err(Errno::BADF) {
            CLOSED.fetch_or(1 << number, Ordering::Relaxed);
            // The new descriptor is the lowest free number: this one, since those before it are
            // open.
            let null = rustix::fs::open(c"/dev/null", OFlags::RDWR, Mode::empty());
            let root = || rustix::fs::open(c"/", OFlags::RDONLY, Mode::empty());
            if let Ok(held) = null.or_else(|_| root()) {
                let _ = held.into_raw_fd();
            }
        }
    }
}

/// Fails as the system would if stdin cannot be read or stdout cannot be written to.
fn check(needed: Use) -> io::Result<()> {
    let (number, fd, other_way) = match needed {
        Use::Stdin => (0, rustix::stdio::stdin(), OFlags::WRONLY),
        Use::Stdout => (1, rustix::stdio::stdout(), OFlags::RDONLY),
    };
    let was_closed = CLOSED.load(Ordering::Relaxed) & 1 << number != 0;
    if was_closed || way(fd)? == other_way { Err(Errno::BADF.into()) } else { Ok(()) }
}

/// Whether a descriptor is open for reading, writing or both.
fn way(fd: BorrowedFd) -> rustix::io::Result<OFlags> {
    Ok(rustix::fs::fcntl_getfl(fd)? & OFlags::RWMODE)
}

/// stdout for bytes. It remembers whether its reader went away, which is not reported as an error.
pub struct BytesOut {
    stdout: Stdout,
    is_closed: bool,
}

impl BytesOut {
    /// Refuses a terminal, which raw bytes would disturb, unless `force` is set.
    pub fn new(force: bool) -> Result<Self, Failure> {
        let stdout = stdout().map_err(|error| Failure::io("write to stdout", &error))?;
        if stdout.is_terminal() && !force {
            return Err(Failure::new(
                "bytes are not written to a terminal; redirect stdout, or give -o or -f",
            ));
        }
        Ok(Self { stdout, is_closed: false })
    }

    /// `result`, or the silent failure if the reader of stdout went away meanwhile.
    pub fn check<T>(&self, result: lmc::Result<T>) -> Result<T, Failure> {
        if self.is_closed {
            return Err(Failure::pipe_closed());
        }
        Ok(result?)
    }

    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.is_closed |= result.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for BytesOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.watch(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.stdout.flush();
        self.watch(flushed)
    }
}

/// What a command has changed in a store or in files by the time it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: if its output is lost, it has achieved nothing.
    Looked,
    /// Something, whether the output is read or not.
    Changed,
}

impl Effect {
    /// The effect of a command that has a dry run.
    pub fn unless(dry_run: bool) -> Self {
        if dry_run { Self::Looked } else { Self::Changed }
    }
}

/// Prints text to stdout.
pub fn print(text: impl Into<Printable>) -> Result<(), Failure> {
    write_out(&text.into()).map_err(|error| Failure::io("write to stdout", &error))
}

/// Prints the result of a command to stdout: `json` if it was asked for, otherwise `text`. If
/// stdout cannot be written to and something was changed, `text` goes to stderr, and the failure
/// says that the work is done.
pub fn tell(effect: Effect, text: Printable, json: Option<Value>) -> Result<(), Failure> {
    let told = match &json {
        Some(value) => write_out(&Printable::json(value)),
        None => write_out(&text),
    };
    match (told, effect) {
        (Ok(()), _) => Ok(()),
        (Err(error), Effect::Looked) => Err(Failure::io("write to stdout", &error)),
        (Err(error), Effect::Changed) => {
            let failure = Failure::untold(&error);
            if !failure.is_pipe_closed() {
                say(text);
            }
            Err(failure)
        }
    }
}

/// Prints text to stderr. If that fails, there is nobody to tell.
pub fn say(text: impl Into<Printable>) {
    let _ = write(&mut io::stderr(), &text.into());
}

/// Writes text to stdout. An empty text does not need stdout to be open.
fn write_out(text: &Printable) -> io::Result<()> {
    match text.as_str().is_empty() {
        true => Ok(()),
        false => write(&mut stdout()?, text),
    }
}

/// stdout, if it can be written to. std would report success if it cannot.
fn stdout() -> io::Result<Stdout> {
    check(Use::Stdout)?;
    Ok(io::stdout())
}

/// The one function that writes text to a terminal.
fn write(to: &mut dyn Write, text: &Printable) -> io::Result<()> {
    to.write_all(text.as_str().as_bytes())?;
    to.flush()
}

/// Whether somebody may see a progress bar.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Where progress bars are drawn; the names in them are printable.
pub fn bar_target() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr()
}

/// Text for stdout that is too long to keep in memory.
#[derive(Debug, Default)]
pub struct Pages {
    text: Printable,
}

impl Pages {
    /// Bytes that are printed in one go.
    const LEN: usize = 1 << 16;

    /// Prints text, now or together with later text.
    pub fn push(&mut self, text: impl Into<Printable>) -> Result<(), Failure> {
        self.text.push(text);
        if self.text.as_str().len() < Self::LEN {
            return Ok(());
        }
        print(std::mem::take(&mut self.text))
    }

    /// Prints the rest.
    pub fn finish(self) -> Result<(), Failure> {
        print(self.text)
    }

    /// Text that is not printed yet.
    #[cfg(test)]
    pub fn waiting(&self) -> &str {
        self.text.as_str()
    }
}

/// stdin as a file, if it is a regular file that nobody has read from. Fails if it cannot be read;
/// std would treat it as empty.
pub fn stdin_file() -> lmc::Result<Option<File>> {
    check(Use::Stdin).map_err(|e| lmc::Error::io("cannot read from stdin", e))?;
    let unread = || {
        let mut file = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        let is_file = file.metadata().ok()?.is_file();
        (is_file && file.stream_position().ok()? == 0).then_some(file)
    };
    Ok(unread())
}

/// stdin as a file that can be read at any position.
pub fn stdin_or_spooled() -> lmc::Result<File> {
    stdin_file()?.map_or_else(spool_stdin, Ok)
}

/// All of stdin in a temporary file without a name.
pub fn spool_stdin() -> lmc::Result<File> {
    let spooled = tempfile::tempfile().and_then(|mut file| {
        io::copy(&mut io::stdin(), &mut file)?;
        file.rewind()?;
        Ok(file)
    });
    spooled.map_err(|e| lmc::Error::io("cannot copy stdin to a temporary file", e))
}
