//! stdin and stdout: files where they can be, streams where they must.

use std::fs::File;
use std::io::{self, IsTerminal, Seek, Stdout, Write};
use std::os::fd::AsFd;

use crate::exit::Failure;

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

/// Prints text to stdout.
pub fn print(text: impl std::fmt::Display) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = write!(stdout, "{text}").and_then(|()| stdout.flush());
    written.map_err(|error| Failure::io("write to stdout", &error))
}

/// Text for stdout that is longer than should be in memory.
#[derive(Debug, Default)]
pub struct Pages {
    text: String,
}

impl Pages {
    /// Bytes that are printed at once.
    const LEN: usize = 1 << 16;

    /// Prints text, now or with what comes next.
    pub fn push(&mut self, text: &str) -> Result<(), Failure> {
        self.text += text;
        if self.text.len() < Self::LEN {
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
        &self.text
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
