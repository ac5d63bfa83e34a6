//! stdin, stdout and stderr: files where they can be, streams where they must. Nothing is written
//! to a terminal but from here, and text only as a [`Printable`].

use std::fs::File;
use std::io::{self, IsTerminal, Seek, Stdout, Write};
use std::os::fd::AsFd;

use indicatif::ProgressDrawTarget;
use serde_json::Value;

use crate::exit::Failure;
use crate::printable::Printable;

/// stdout for bytes; remembers that its reader went away, which is no error to tell of.
pub struct BytesOut {
    stdout: Stdout,
    is_closed: bool,
}

impl BytesOut {
    /// Refuses a terminal, which bytes would upset, unless `force` is set.
    pub fn new(force: bool) -> Result<Self, Failure> {
        let stdout = io::stdout();
        if stdout.is_terminal() && !force {
            return Err(Failure::new(
                "bytes are not written to a terminal; redirect stdout, or give -o or -f",
            ));
        }
        Ok(Self { stdout, is_closed: false })
    }

    /// `result`, or the quiet failure if the reader of stdout went away meanwhile.
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

/// What a command on a store or on files has done by the time it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only looked: without its words, it did nothing.
    Looked,
    /// Something is different now, whether anybody hears of it or not.
    Changed,
}

impl Effect {
    /// The effect of a command that can be told only to look.
    pub fn unless(dry_run: bool) -> Self {
        if dry_run { Self::Looked } else { Self::Changed }
    }
}

/// Prints text to stdout.
pub fn print(text: impl Into<Printable>) -> Result<(), Failure> {
    write(&mut io::stdout(), &text.into()).map_err(|error| Failure::io("write to stdout", &error))
}

/// Prints how a command ended to stdout: `json` if it was asked for, else `text`. Where stdout
/// takes nothing and something was changed, stderr gets `text`, and the failure says that it is
/// done.
pub fn tell(effect: Effect, text: Printable, json: Option<Value>) -> Result<(), Failure> {
    let told = match &json {
        Some(value) => write(&mut io::stdout(), &Printable::json(value)),
        None => write(&mut io::stdout(), &text),
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

/// Prints text to stderr. There is nobody to tell if that fails.
pub fn say(text: impl Into<Printable>) {
    let _ = write(&mut io::stderr(), &text.into());
}

/// The one function that writes text to a terminal.
fn write(to: &mut dyn Write, text: &Printable) -> io::Result<()> {
    to.write_all(text.as_str().as_bytes())?;
    to.flush()
}

/// Whether somebody may see a bar.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Where bars are drawn; their names are printable.
pub fn bar_target() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr()
}

/// Text for stdout that is longer than should be in memory.
#[derive(Debug, Default)]
pub struct Pages {
    text: Printable,
}

impl Pages {
    /// Bytes that are printed at once.
    const LEN: usize = 1 << 16;

    /// Prints text, now or with what comes next.
    pub fn push(&mut self, text: impl Into<Printable>) -> Result<(), Failure> {
        self.text.push(text);
        if self.text.as_str().len() < Self::LEN {
            return Ok(());
        }
        print(std::mem::take(&mut self.text))
    }

    /// Prints what is left.
    pub fn finish(self) -> Result<(), Failure> {
        print(self.text)
    }

    /// What is not printed yet.
    #[cfg(test)]
    pub fn waiting(&self) -> &str {
        self.text.as_str()
    }
}

/// stdin as a file, if it is a regular one that nobody has read from.
pub fn stdin_file() -> Option<File> {
    let mut file = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    let is_file = file.metadata().ok()?.is_file();
    (is_file && file.stream_position().ok()? == 0).then_some(file)
}

/// stdin as a file that can be read at any place.
pub fn stdin_or_spooled() -> lmc::Result<File> {
    stdin_file().map_or_else(spool_stdin, Ok)
}

/// All of stdin in a temporary file that has no name.
pub fn spool_stdin() -> lmc::Result<File> {
    let spooled = tempfile::tempfile().and_then(|mut file| {
        io::copy(&mut io::stdin(), &mut file)?;
        file.rewind()?;
        Ok(file)
    });
    spooled.map_err(|error| {
        let message = format!("cannot keep stdin in a temporary file: {error}");
        lmc::Error::new(lmc::ErrorKind::Io, message)
    })
}
