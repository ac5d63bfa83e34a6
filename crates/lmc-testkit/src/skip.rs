//! Tests that cannot be done where a part is missing: they say so, in one summary for all of them,
//! or fail where everything has to be there.
//!
//! `LMC_SKIPS` names a file that gets a line for each skip; `tools/skips` makes a summary of it.
//! With `LMC_REQUIRE_ALL=1` a skip is a failure, unless its part is listed in `LMC_MAY_LACK`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

/// What can be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The corpus of real training state.
    Corpus,
    /// The rights of root, or what only root can do: mounts, owners, links of other users.
    Root,
    /// A program, such as prlimit, strace or mkfs.ext4.
    Tool,
    /// A feature of the file system or the kernel.
    System,
    /// The Python of the reference decoder.
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

/// Says that a test, or the rest of it, cannot be done here, and why.
///
/// # Panics
///
/// If everything has to be there.
pub fn skip(missing: Missing, why: &str) {
    let (part, thread) = (missing.name(), std::thread::current());
    println!("skipped: {part}: {why}");
    if let Some(path) = env::var_os("LMC_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let line = format!("{part}: {why} ({})\n", thread.name().unwrap_or("a test"));
        // A test that runs as another user or in another root may not reach it.
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
    let may_lack = env::var("LMC_MAY_LACK").unwrap_or_default();
    let is_required = env::var_os("LMC_REQUIRE_ALL").is_some_and(|all| all == "1");
    assert!(!is_required || may_lack.split(',').any(|lacking| lacking == part), "{part}: {why}");
}
