//! The commands that work on files.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::{BaseArgs, FormatArgs, LimitArgs, ResourceArgs, StoreArgs, ThreadArgs};

/// What compress and decompress share.
#[derive(Args, Debug)]
pub struct FileArgs {
    /// Files and directories; `-` is stdin. Symbolic links in directories are skipped
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub bases: BaseArgs,
    /// Write to this file or directory; `-` is stdout
    #[arg(short, long, value_name = "PATH", conflicts_with = "stdout")]
    pub output: Option<PathBuf>,
    /// Write to stdout
    #[arg(short = 'c', long)]
    pub stdout: bool,
    /// Keep the input (the default)
    #[arg(short, long, overrides_with = "rm")]
    pub keep: bool,
    /// Remove the input once its result is safe on disk
    #[arg(long, overrides_with = "keep", conflicts_with = "stdout")]
    pub rm: bool,
    /// Overwrite files, write into directories that exist, write bytes to a terminal
    #[arg(short, long)]
    pub force: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Also print the time and speed of each file
    #[arg(short, long)]
    pub verbose: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

#[derive(Args, Debug)]
pub struct CompressArgs {
    #[command(flatten)]
    pub files: FileArgs,
    /// Fastest, a little larger
    #[arg(long, group = "level")]
    pub fast: bool,
    /// Smallest, several times slower
    #[arg(long, group = "level")]
    pub max: bool,
    /// The coding to use
    #[arg(long, group = "level", value_name = "NAME", default_value = "lmc")]
    pub codec: CodecName,
    /// Do not decode each block after coding it to compare it with the input
    #[arg(long)]
    pub no_verify: bool,
}

/// Names for `--codec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CodecName {
    /// lmc's own coding
    Lmc,
    /// The published byte grouping with Huffman coding, for comparison
    Paper,
}

#[derive(Args, Debug)]
pub struct DecompressArgs {
    #[command(flatten)]
    pub files: FileArgs,
    #[command(flatten)]
    pub limit: LimitArgs,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// .lmc files, and directories of them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub bases: BaseArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct TestArgs {
    /// .lmc files, and directories of them; `-` is stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub bases: BaseArgs,
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
}

#[derive(Args, Debug)]
pub struct CatArgs {
    /// The .lmc file
    pub file: PathBuf,
    /// The tensor's name, as `lmc list` shows it
    pub tensor: String,
    #[command(flatten)]
    pub bases: BaseArgs,
    #[command(flatten)]
    pub limit: LimitArgs,
    /// Write a .npy file instead of plain little-endian bytes
    #[arg(long)]
    pub npy: bool,
    /// Write only these rows of the first dimension: A..B, A.. or ..B
    #[arg(long, value_name = "A..B", value_parser = parse_rows)]
    pub rows: Option<Rows>,
    /// Write to this file
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Overwrite the file, or write bytes to a terminal
    #[arg(short, long)]
    pub force: bool,
}

/// Rows of a tensor; without an end, all that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    start: u64,
    end: Option<u64>,
}

#[derive(Args, Debug)]
pub struct InspectArgs {
    /// The .lmc file
    pub file: PathBuf,
    /// Show every block; reads the whole file
    #[arg(long)]
    pub blocks: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The old checkpoint, or a snapshot
    pub old: PathBuf,
    /// The new one
    pub new: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub bases: BaseArgs,
    #[command(flatten)]
    pub format: FormatArgs,
    #[command(flatten)]
    pub threads: ThreadArgs,
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Size of the checkpoint
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub size_mib: u16,
    #[command(flatten)]
    pub threads: ThreadArgs,
}

/// Each file is read into memory; a run needs about three times its size, five with a base.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Files to compress
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// An older file to code against: tensors of the same name, type and shape, or all of a file of
    /// the same length
    #[arg(long, value_name = "OLD")]
    pub base: Option<PathBuf>,
    // Its own --threads and --json: one thread is the default, and the JSON is another.
    /// Threads of every engine; 0 is one for each core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub threads: u16,
    /// Minimum number of rounds; the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=100))]
    pub repeats: u16,
    /// Print JSON, one row per engine
    #[arg(long)]
    pub json: bool,
    /// Speed of the storage in GB/s (10^9 bytes), for the time of a save and a load
    #[arg(long, value_name = "X", value_parser = parse_speed, conflicts_with = "storage_dir")]
    pub storage_gbps: Option<f64>,
    /// Measure the speed of the storage by writing a temporary file into this directory
    #[arg(long, value_name = "DIR")]
    pub storage_dir: Option<PathBuf>,
}

impl Rows {
    /// The rows in a tensor of `count`; None if it does not have them.
    pub fn within(self, count: u64) -> Option<Range<u64>> {
        let end = self.end.unwrap_or(count);
        (self.start <= end && end <= count).then_some(self.start..end)
    }

    /// Whether no tensor can have them.
    pub fn are_reversed(self) -> bool {
        self.end.is_some_and(|end| end < self.start)
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let end = self.end.map_or_else(String::new, |end| end.to_string());
        write!(f, "{}..{end}", self.start)
    }
}

fn parse_rows(text: &str) -> Result<Rows, String> {
    let number = |text: &str| match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| "each end of the rows is a number or is left out"),
    };
    let (start, end) = text.split_once("..").ok_or("rows are given as A..B, A.. or ..B")?;
    Ok(Rows { start: number(start)?.unwrap_or(0), end: number(end)? })
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| "a speed is a number above 0".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row ranges may leave out either end, and must lie within the tensor.
    #[test]
    fn rows() {
        let within = |text: &str| parse_rows(text).ok().and_then(|rows| rows.within(10));
        assert_eq!(within("2..5"), Some(2..5));
        assert_eq!(within(".."), Some(0..10));
        assert_eq!(within("7.."), Some(7..10));
        assert_eq!(within("..3"), Some(0..3));
        assert_eq!(within("5..2"), None);
        assert_eq!(within("5..11"), None);
        assert_eq!(within("5"), None);
        assert_eq!(within("a..b"), None);
    }
}
