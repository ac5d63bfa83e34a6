//! The command line, as clap reads it and as the man page shows it.

pub mod store;

use std::ffi::OsString;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes: 0 success, 1 error, 2 wrong usage, 3 some files failed, 4 damaged data found,
10 no store, 11 conflict with another writer.";

/// Lossless compression of checkpoints and other files of tensors.
///
/// `lmc -d FILE...` is short for `lmc decompress FILE...`.
#[derive(Debug, Parser)]
#[command(name = "lmc", version, after_help = EXIT_CODES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write FILE.lmc for each file, or a directory DIR.lmc for each directory
    Compress(CompressArgs),
    /// Restore what `lmc compress` was given
    Decompress(DecompressArgs),
    /// Show the tensors in .lmc files
    List(ListArgs),
    /// Read .lmc files and check every byte; writes nothing
    Test(TestArgs),
    /// Write one tensor of an .lmc file to stdout
    Cat(CatArgs),
    /// Show how an .lmc file is built: spans, blocks, recipes, hashes
    Inspect(InspectArgs),
    /// Show how much changed between two checkpoints, raw, .lmc or snapshots, tensor by tensor
    Diff(DiffArgs),
    /// Create a store: a directory or a bucket that holds the history of training runs
    Init(store::InitArgs),
    /// Save a checkpoint, a file or a directory, as a snapshot in a store
    Save(store::SaveArgs),
    /// Show the snapshots of a store
    #[command(alias = "snapshots")]
    Log(store::LogArgs),
    /// Show the details of a snapshot
    Show(store::ShowArgs),
    /// Show the files of a snapshot, or the tensors of one of them
    Ls(store::LsArgs),
    /// Restore a snapshot
    Restore(store::RestoreArgs),
    /// Show the size of a store and where its savings come from
    Stats(store::StatsArgs),
    /// Look for damage in a store
    Check(store::CheckArgs),
    /// Repair damaged objects from good copies
    Repair(store::RepairArgs),
    /// Mark snapshots that no rule keeps; the newest of each run is always kept
    Forget(store::ForgetArgs),
    /// Remove forgotten snapshots and unreferenced data
    Prune(store::PruneArgs),
    /// Store a snapshot again as a whole copy, so that it needs no other
    Rebase(store::RebaseArgs),
    /// Add tags to a snapshot, or remove them
    Tag(store::TagArgs),
    /// Copy snapshots to another store
    Copy(store::CopyArgs),
    /// Write a snapshot as .lmc files that need no store
    Export(store::ExportArgs),
    /// Compress and restore a small made-up checkpoint at every level, and compare
    Demo(DemoArgs),
    /// Time lmc and other compressors on your own files, in memory
    Bench(BenchArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the man page of lmc or of one of its commands
    Man(ManArgs),
}

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
    /// Number of threads; 0 means one per core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub threads: u16,
}

/// What files are or may be coded against.
#[derive(Args, Debug)]
pub struct BaseArgs {
    /// An older checkpoint (raw or .lmc) to compress against, or a directory of them; may be given
    /// several times. Restoring needs it again: given here, or next to the file
    #[arg(long = "base", value_name = "OLD")]
    pub paths: Vec<PathBuf>,
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

/// Limits on what is restored.
#[derive(Args, Debug)]
pub struct LimitArgs {
    /// Refuse larger originals before decoding anything; K, M, G and T are powers of 1024
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub max_size: Option<u64>,
}

#[derive(Args, Debug)]
pub struct ListArgs {
    /// .lmc files, and directories of them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub bases: BaseArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
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
    /// Number of threads; 0 means one per core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub threads: u16,
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
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The old checkpoint, or a snapshot
    pub old: PathBuf,
    /// The new one
    pub new: PathBuf,
    #[command(flatten)]
    pub store: store::StoreArgs,
    #[command(flatten)]
    pub bases: BaseArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Number of threads; 0 means one per core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub threads: u16,
}

#[derive(Args, Debug)]
pub struct DemoArgs {
    /// Size of the checkpoint
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16384))]
    pub size_mib: u16,
    /// Number of threads; 0 means one per core
    #[arg(short = 'T', long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub threads: u16,
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

#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

#[derive(Args, Debug)]
pub struct ManArgs {
    /// The command; without it, lmc itself
    pub command: Option<String>,
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

/// A number of bytes such as `4096`, `512M` or `10G`.
fn parse_size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: Option<u64> = number.parse().ok();
    let size = number.and_then(|number| number.checked_mul(1 << shift));
    size.ok_or_else(|| "a size is a number of bytes, optionally followed by K, M, G or T".into())
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

/// `lmc -d` becomes `lmc decompress`, as in zstd; other letters may follow it (`-dc`).
pub fn expand_short_form(mut args: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = args.get(1).and_then(|arg| arg.to_str()) else { return args };
    if first == "--decompress" {
        args[1] = "decompress".into();
        return args;
    }
    let Some(letters) = first.strip_prefix('-') else { return args };
    if !letters.contains('d') || !letters.chars().all(|c| "dcfkqv".contains(c)) {
        return args;
    }
    let others: String = letters.chars().filter(|&c| c != 'd').collect();
    args[1] = "decompress".into();
    if !others.is_empty() {
        args.insert(2, format!("-{others}").into());
    }
    args
}

/// Options before the command move after it: `lmc -T1 compress` becomes `lmc compress -T1`.
pub fn command_first(mut args: Vec<OsString>) -> Vec<OsString> {
    let own = ["-h", "--help", "-V", "--version"];
    let Some(first) = args.get(1).and_then(|arg| arg.to_str()) else { return args };
    if first.starts_with('-') && !own.contains(&first) {
        let cli = Cli::command();
        let is_command = |arg: &OsString| cli.get_subcommands().any(|c| arg == c.get_name());
        if let Some(place) = args.iter().skip(1).position(is_command) {
            args[1..place + 2].rotate_right(1);
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(args: &[&str]) -> Vec<OsString> {
        expand_short_form(args.iter().map(OsString::from).collect())
    }

    /// `-d` works alone and among other letters, and nothing else is touched.
    #[test]
    fn short_form() {
        assert_eq!(expanded(&["lmc", "-d", "x"]), ["lmc", "decompress", "x"]);
        assert_eq!(expanded(&["lmc", "-dcf", "x"]), ["lmc", "decompress", "-cf", "x"]);
        assert_eq!(expanded(&["lmc", "--decompress", "x"]), ["lmc", "decompress", "x"]);
        assert_eq!(expanded(&["lmc", "-dx"]), ["lmc", "-dx"]);
        assert_eq!(expanded(&["lmc", "list", "-d"]), ["lmc", "list", "-d"]);
        assert_eq!(expanded(&["lmc"]), ["lmc"]);
    }

    /// Options may come before the command, with a value too; those of lmc itself stay.
    #[test]
    fn options_in_front() {
        let moved = |args: &[&str]| command_first(args.iter().map(OsString::from).collect());
        assert_eq!(moved(&["lmc", "-T1", "compress", "x"]), ["lmc", "compress", "-T1", "x"]);
        assert_eq!(
            moved(&["lmc", "-T", "1", "-q", "test", "test"]),
            ["lmc", "test", "-T", "1", "-q", "test"]
        );
        assert_eq!(moved(&["lmc", "-V", "list"]), ["lmc", "-V", "list"]);
        assert_eq!(moved(&["lmc", "-T1", "x"]), ["lmc", "-T1", "x"]);
        assert_eq!(moved(&["lmc", "list", "test"]), ["lmc", "list", "test"]);
    }

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

    /// clap finds no contradiction in the definitions.
    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
