//! Tests that cannot run because something is missing. They are reported in one summary, or fail if
//! everything must be there.
//!
//! `LMC_SKIPS` names a file that gets a line for each skip; `tools/skips` makes a summary of it.
//! With `LMC_REQUIRE_ALL=1` a skip is a failure, unless its part is listed in `LMC_MAY_LACK`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// Things that can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The corpus of real training state.
    Corpus,
    /// Root privileges, or what only root can do: mounts, owners, links of other users.
    Root,
    /// A program, such as prlimit, strace or mkfs.ext4.
    Tool,
    /// A feature of the file system or the kernel.
    System,
    /// Python for the reference decoder.
    Python,
    /// An S3 server that `tools/s3-servers` installs by default.
    S3,
    /// An S3 server that `tools/s3-servers all` installs.
    MoreS3,
}

impl Missing {
    fn name(self) -> &'static str {
        match self {
            Self::Corpus => "corpus",
            Self::Root => "root",
            Self::Tool => "tool",
            Self::System => "system",
            Self::Python => "python",
            Self::S3 => "s3",
            Self::MoreS3 => "more-s3",
        }
    }
}

/// Reports that a test, or the rest of it, cannot run here, and why.
///
/// # Panics
///
/// If everything must be there.
pub fn skip(missing: Missing, why: &str) {
    let (part, thread) = (missing.name(), std::thread::current());
    println!("skipped: {part}: {why}");
    if let Some(path) = env::var_os("LMC_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let line = format!("{part}: {why} ({})\n", thread.name().unwrap_or("a test"));
        // A test that runs as another user or in another root may not be able to write there.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    let may_lack = env::var("LMC_MAY_LACK").unwrap_or_default();
    let is_required = env::var_os("LMC_REQUIRE_ALL").is_some_and(|all| all == "1");
    assert!(!is_required || may_lack.split(',').any(|lacking| lacking == part), "{part}: {why}");
}
