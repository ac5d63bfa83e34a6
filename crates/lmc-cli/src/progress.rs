//! What stderr shows: a bar if it is a terminal, lines about files, and errors.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use indicatif::{ProgressDrawTarget, ProgressStyle};
use lmc::{Archive, Context, Summary};

use crate::exit::Failure;
use crate::printable::Printable;
use crate::table::gib_s;
use crate::{signals, stdio};

const STYLE: &str = "{prefix} {bar:24} {percent:>3}% of {total_bytes} {bytes_per_sec} {eta} left";
const STYLE_UNKNOWN: &str = "{prefix} {bytes} {bytes_per_sec}";
const NAME_LEN_MAX: usize = 32;

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// Errors only.
    Quiet,
    /// One line per file.
    Normal,
    /// Also time and speed.
    Verbose,
}

/// The only writer to stderr while files are processed. Threads may share it.
pub struct ProgressBar {
    volume: Volume,
    /// One bar, which several files may share.
    bar: Mutex<Bar>,
}

struct Bar {
    shown: indicatif::ProgressBar,
    /// How many files share it.
    files: usize,
    is_started: bool,
}

impl Volume {
    /// From the two options, which exclude each other.
    pub fn new(quiet: bool, verbose: bool) -> Self {
        match (quiet, verbose) {
            (true, _) => Self::Quiet,
            (_, true) => Self::Verbose,
            _ => Self::Normal,
        }
    }
}

impl ProgressBar {
    /// Nothing is shown yet.
    pub fn new(volume: Volume) -> Self {
        let shown = indicatif::ProgressBar::hidden();
        Self { volume, bar: Mutex::new(Bar { shown, files: 1, is_started: false }) }
    }

    /// Several files will be processed concurrently: they share the next bar.
    pub fn expect(&self, files: usize) {
        self.bar().files = files;
    }

    /// Starts the bar of a file of `total` original bytes, if that is known.
    pub fn start(&self, name: impl Display, total: Option<u64>) {
        if self.volume == Volume::Quiet || !stdio::is_watched() {
            return;
        }
        let mut bar = self.bar();
        let is_shared = bar.files > 1;
        if is_shared && bar.is_started {
            return;
        }
        // Hidden until it has its style; otherwise the default style would appear for a moment.
        let total = total.filter(|_| !is_shared);
        bar.shown = indicatif::ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.is_started = true;
        bar.shown.set_prefix(match is_shared {
            true => format!("{} files at a time", bar.files),
            false => shortened(&Printable::word(name)),
        });
        set_style(&bar.shown, if total.is_some() { STYLE } else { STYLE_UNKNOWN });
        bar.shown.set_draw_target(stdio::bar_target());
    }

    /// Sets the length of the file, once it is known.
    pub fn set_total(&self, total: u64) {
        let bar = self.bar();
        if bar.files == 1 {
            bar.shown.set_length(total);
            set_style(&bar.shown, STYLE);
        }
    }

    fn bar(&self) -> MutexGuard<'_, Bar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A context whose work the bar shows.
    pub fn watching(&self, context: &Context) -> Context {
        let bar = self.bar().shown.clone();
        context.watched(move |bytes| bar.inc(bytes))
    }

    /// Ends the bar.
    pub fn finish(&self) {
        let mut bar = self.bar();
        bar.shown.finish_and_clear();
        *bar = Bar { shown: indicatif::ProgressBar::hidden(), files: 1, is_started: false };
    }

    /// The line for a finished file; `factor` is how many times smaller the compressed file is.
    pub fn summary(
        &self,
        from: impl Display,
        to: impl Display,
        done: Summary,
        factor: &str,
        started: Instant,
    ) {
        let Summary { bytes_in, bytes_out } = done;
        let line = format!("{from}: {factor}x ({bytes_in} -> {bytes_out} bytes, {to})");
        if self.volume != Volume::Verbose {
            return self.note(line);
        }
        let seconds = started.elapsed().as_secs_f64();
        let speed = gib_s(bytes_in.max(bytes_out), seconds);
        self.note(format!("{line} in {seconds:.2} s, {speed:.2} GiB/s"));
    }

    /// Warns, before the restore, about an original that is far larger than its file.
    pub fn announce(&self, archive: &Archive) {
        if archive.expands_far() {
            let (original, file) = (archive.original_len(), archive.file_len());
            self.note(format_args!(
                "lmc: {original} bytes will be restored from a file of {file}; --max-size refuses \
                 larger ones"
            ));
        }
    }

    /// A line, unless quiet.
    pub fn note(&self, line: impl Display) {
        if self.volume != Volume::Quiet {
            self.bar().shown.suspend(|| stdio::say(Printable::line(line)));
        }
    }

    /// The line for a failure, unless a signal caused it.
    pub fn failure(&self, name: impl Display, failure: &Failure) {
        if !failure.is_pipe_closed() && !signals::is_stopped() {
            self.bar().shown.suspend(|| stdio::say(failure.line(name)));
        }
    }
}

fn set_style(bar: &indicatif::ProgressBar, template: &str) {
    // Both templates are constants that are known to be valid; an invalid one would show no bar.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// The end of a long name, which tells more than its start.
fn shortened(name: &Printable) -> String {
    let name = name.as_str();
    let count = name.chars().count();
    if count <= NAME_LEN_MAX {
        return name.to_owned();
    }
    let tail: String = name.chars().skip(count - NAME_LEN_MAX + 3).collect();
    format!("...{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both styles are valid; an invalid one would silently show nothing.
    #[test]
    fn styles_are_valid() {
        for style in [STYLE, STYLE_UNKNOWN] {
            assert!(ProgressStyle::with_template(style).is_ok());
        }
    }

    /// Long names keep their end and fit.
    #[test]
    fn long_names() {
        assert_eq!(shortened(&Printable::word("short")), "short");
        let long = Printable::word(format!("{}end", "x".repeat(100)));
        assert_eq!(shortened(&long).len(), NAME_LEN_MAX);
        assert!(shortened(&long).ends_with("end"));
    }
}
