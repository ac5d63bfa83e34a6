//! How a run ends: exit codes, failures in one line, and the exit code for several files.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use lmc::ErrorKind;

use lmc_store::storage::without_secrets;

use crate::advice;
use crate::printable::Printable;
use crate::{signals, stdio};

/// How a run ended; each has its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// Nothing was done.
    Error,
    /// The command line makes no sense.
    Usage,
    /// Some files were done and others were not; or a change was made that could not be reported on
    /// stdout.
    Partial,
    /// Damaged or cut-off data was found.
    Corrupt,
    /// There is no store at the named location.
    NoStore,
    /// Another writer was first; the same command may succeed if run again.
    Conflict,
    /// The process was asked to end; the code is that of a program ended by SIGINT.
    Interrupted,
    /// The reader of our output went away; the code is that of a program ended by SIGPIPE.
    PipeClosed,
}

/// One failure, in one line.
#[derive(Clone, Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    /// Whether the system was short of something that other work may have had meanwhile.
    is_shortage: bool,
}

/// Counts files, for the exit code of the whole run.
#[derive(Debug, Default)]
pub struct Tally {
    done: usize,
    failed: usize,
    corrupt: bool,
    interrupted: bool,
    pipe_closed: bool,
}

impl Exit {
    /// The number that a shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Partial => 3,
            Self::Corrupt => 4,
            Self::NoStore => 10,
            Self::Conflict => 11,
            Self::Interrupted => 128 + 2,
            Self::PipeClosed => 128 + 13,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

impl Failure {
    /// A failure without a more specific exit code; `message` is lower case and says what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self { exit: Exit::Error, message: message.into(), is_shortage: false }
    }

    /// Damage that was found and already reported.
    pub fn damage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Corrupt, ..Self::new(message) }
    }

    /// Options that cannot be combined.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(message) }
    }

    /// The reader of our stdout went away: nothing is printed.
    pub fn pipe_closed() -> Self {
        Self { exit: Exit::PipeClosed, ..Self::new("") }
    }

    /// An error of the system while doing `what`.
    pub fn io(what: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::pipe_closed();
        }
        let is_shortage = lmc_format::is_shortage(error);
        Self { is_shortage, ..Self::new(format!("cannot {what}: {error}")) }
    }

    /// The work was done, but this could not be reported on stdout.
    pub fn untold(error: &io::Error) -> Self {
        match Self::io("write to stdout", error) {
            closed if closed.is_pipe_closed() => closed,
            Self { message, .. } => Self {
                exit: Exit::Partial,
                ..Self::new(format!("the work above is done, but lmc {message}"))
            },
        }
    }

    /// Whether nothing more can be written to stdout.
    pub fn is_pipe_closed(&self) -> bool {
        self.exit == Exit::PipeClosed
    }

    /// Whether it may succeed when no other work goes on.
    pub fn is_shortage(&self) -> bool {
        self.is_shortage
    }

    /// Whether the work was told to end.
    pub fn is_interrupted(&self) -> bool {
        self.exit == Exit::Interrupted
    }

    /// Its text, without the name of a file.
    pub fn text(&self) -> &str {
        &self.message
    }

    /// The same failure with `place` in front of its text.
    #[must_use]
    pub fn at(mut self, place: impl Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The line for stderr. A URL may have been given as a file or a snapshot, so its secrets are
    /// left out here too.
    pub fn line(&self, name: impl Display) -> Printable {
        Printable::line(without_secrets(&format!("lmc: {name}: {}", self.message)))
    }
}

impl From<lmc::Error> for Failure {
    fn from(error: lmc::Error) -> Self {
        let exit = match error.kind {
            ErrorKind::Corrupt | ErrorKind::Truncated => Exit::Corrupt,
            ErrorKind::NoStore => Exit::NoStore,
            ErrorKind::Conflict => Exit::Conflict,
            ErrorKind::Interrupted => Exit::Interrupted,
            _ => Exit::Error,
        };
        let is_shortage = error.is_shortage();
        Self { exit, message: advice::of_error(&error), is_shortage }
    }
}

impl Tally {
    /// Counts a file that was done.
    pub fn done(&mut self) {
        self.done += 1;
    }

    /// Counts a file that failed.
    pub fn failed(&mut self, failure: &Failure) {
        self.failed += 1;
        self.corrupt |= failure.exit == Exit::Corrupt;
        self.interrupted |= failure.exit == Exit::Interrupted;
        self.pipe_closed |= failure.is_pipe_closed();
    }

    /// Whether everything counted was done.
    pub fn is_clean(&self) -> bool {
        self.failed == 0
    }

    /// Whether nothing was done, and something should have been.
    pub fn is_all_failed(&self) -> bool {
        self.done == 0 && self.failed > 0
    }

    /// The exit code for all files: an interrupt wins, then corruption; a mix is partial.
    pub fn exit(&self) -> Exit {
        match self {
            Self { interrupted: true, .. } => Exit::Interrupted,
            Self { corrupt: true, .. } => Exit::Corrupt,
            Self { pipe_closed: true, .. } => Exit::PipeClosed,
            Self { failed: 0, .. } => Exit::Done,
            Self { done: 0, .. } => Exit::Error,
            _ => Exit::Partial,
        }
    }
}

/// Combines the failure to report a result with the failure in the result itself. The second one
/// decides the exit code, and both are reported.
pub fn both(told: Result<(), Failure>, found: Result<(), Failure>) -> Result<(), Failure> {
    match (told, found) {
        (Err(told), Err(found)) if !told.is_pipe_closed() => {
            let message = format!("{}; {}", found.message, told.message);
            Err(Failure { message, ..found })
        }
        (told, Ok(())) => told,
        (_, found) => found,
    }
}

/// Prints the failure of a command that has one file, and returns its exit code.
pub fn report(name: &Path, result: Result<(), Failure>) -> Exit {
    report_at(name.display(), result)
}

/// The same for something other than a file, such as a store.
pub fn report_at(name: impl Display, result: Result<(), Failure>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        // After the interrupt, every failure is caused by it.
        Err(_) if signals::is_stopped() => Exit::Interrupted,
        Err(failure) => {
            if !failure.is_pipe_closed() {
                stdio::say(failure.line(name));
            }
            failure.exit
        }
    }
}

/// Runs `work` on each name, continues after a failure, and returns the exit code for all.
pub fn for_each<P: AsRef<Path>>(
    names: &[P],
    mut work: impl FnMut(&Path) -> Result<(), Failure>,
) -> Exit {
    let mut tally = Tally::default();
    for name in names {
        match work(name.as_ref()) {
            Ok(()) => tally.done(),
            Err(failure) => {
                report(name.as_ref(), Err(failure.clone()));
                tally.failed(&failure);
                if failure.is_pipe_closed() {
                    break;
                }
            }
        }
    }
    tally.exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit code for several files is the worst one, and a mix is partial.
    #[test]
    fn codes_of_several_files() {
        let plain = Failure::new("no");
        let corrupt = Failure::from(lmc::Error::corrupt("bad"));
        let code = |done: usize, failures: &[&Failure]| {
            let mut tally = Tally::default();
            (0..done).for_each(|_| tally.done());
            failures.iter().for_each(|failure| tally.failed(failure));
            tally.exit().code()
        };
        assert_eq!(code(2, &[]), 0);
        assert_eq!(code(0, &[&plain]), 1);
        assert_eq!(code(2, &[&plain]), 3);
        assert_eq!(code(2, &[&plain, &corrupt]), 4);
        assert_eq!(code(0, &[]), 0);
    }

    /// Interrupted work is not an ordinary error: its exit code is that of Ctrl-C, alone and among
    /// other files.
    #[test]
    fn interrupted_work_has_the_exit_code_of_an_interrupt() {
        let failure = Failure::from(lmc::Error::new(ErrorKind::Interrupted, "interrupted"));
        assert_eq!(failure.exit.code(), 130);
        let mut tally = Tally::default();
        tally.done();
        tally.failed(&Failure::from(lmc::Error::corrupt("bad")));
        tally.failed(&failure);
        assert_eq!(tally.exit().code(), 130);
    }
}
