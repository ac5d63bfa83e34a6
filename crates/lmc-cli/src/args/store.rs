//! The commands that work on a store.

use std::path::PathBuf;

use clap::Args;
use lmc_store::storage::Location;

use super::shared::{FormatArgs, KeepArgs, LimitArgs, ResourceArgs, SnapshotArgs, StoreArgs};

#[derive(Args, Debug)]
pub struct InitArgs {
    /// Where to create it: a directory or a URL; the default is --store or LMC_STORE
    #[arg(value_name = "STORE")]
    pub place: Option<Location>,
    #[command(flatten)]
    pub store: StoreArgs,
    /// How long a prune keeps the data of a running save: a number with s, m, h or d, at least 1m
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_time)]
    pub grace: u64,
    /// Let others read it, as far as the umask allows; otherwise only you can
    #[arg(long)]
    pub shared: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct SaveArgs {
    /// The file or directory to save
    pub path: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    /// The run it belongs to
    #[arg(long, value_name = "RUN", default_value = lmc_store::RUN_DEFAULT)]
    pub run: String,
    /// The training step; by default the number at the end of PATH, or one more than the last step
    #[arg(long, value_name = "N")]
    pub step: Option<u64>,
    /// A tag; `lmc forget --keep-tag` can keep snapshots by it
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// What to compress against: auto, none, or a snapshot
    #[arg(long, value_name = "SNAP", default_value = "auto")]
    pub parent: String,
    /// A note to keep with it
    #[arg(long = "meta", value_name = "KEY=VALUE", value_parser = parse_meta)]
    pub meta: Vec<(String, String)>,
    /// Save what symbolic links point to instead of the links
    #[arg(short = 'L', long)]
    pub dereference: bool,
    /// Fastest, a little larger
    #[arg(long, group = "level")]
    pub fast: bool,
    /// Smallest, several times slower
    #[arg(long, group = "level")]
    pub max: bool,
    /// Do not decode each block after coding it to compare it with the input
    #[arg(long)]
    pub no_verify: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Add N to the nice value: the save gives way to other processes on the CPU
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..=19))]
    pub nice: u8,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct LogArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Consider only this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Show only snapshots with this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Show only the newest COUNT
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub count: Option<usize>,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct ShowArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct LsArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    /// Show the tensors of this file
    pub file: Option<String>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    /// Where to restore to: a directory to create, or a file name if a single file was saved
    pub target: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Restore only matching paths and everything below them: * matches within a name, ** anything
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<String>,
    /// Leave out optimizer state
    #[arg(long)]
    pub weights_only: bool,
    /// Restore into a directory that is not empty, and overwrite files
    #[arg(short, long)]
    pub force: bool,
    /// Keep what can be restored, even if some files are damaged
    #[arg(long)]
    pub keep_going: bool,
    #[command(flatten)]
    pub limit: LimitArgs,
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct StatsArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Write a page with charts to FILE, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(short, long, requires = "html")]
    pub force: bool,
    /// Look for missing and cut-off objects, as `lmc check` does
    #[arg(long)]
    pub check: bool,
    /// Read every pack and compare it with its hash, as `lmc check --read-data` does
    #[arg(long)]
    pub read_data: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub format: FormatArgs,
    // Last, since the heading holds for all options after it.
    #[command(flatten, next_help_heading = "What this rule of `lmc forget` would free")]
    pub keep: KeepArgs,
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Read every pack and compare it with its hash
    #[arg(long, conflicts_with = "read_data_subset")]
    pub read_data: bool,
    /// Read a random PERCENT of the packs and compare each with its hash
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub read_data_subset: Option<u8>,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct RepairArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Another store to take good copies from
    #[arg(long, value_name = "STORE")]
    pub from: Option<Location>,
    /// Only show what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct ForgetArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Consider only this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    #[command(flatten)]
    pub keep: KeepArgs,
    /// Of those kept, leave optimizer state only in the newest N of each run
    #[arg(long, value_name = "N")]
    pub keep_optimizer_last: Option<u64>,
    /// Of those kept, leave optimizer state only in those whose step is a multiple of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep_optimizer_every: Option<u64>,
    /// Only show what would be forgotten
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct PruneArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// Remove unreferenced data only if it is older than this; while a save runs, at least the
    /// grace period of the store
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<u64>,
    /// Only show what would be removed; works without write access
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Remove packs even if there are no snapshots
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct RebaseArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct TagArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    /// Tags to add
    #[arg(required_unless_present = "remove", value_name = "TAG")]
    pub tags: Vec<String>,
    /// A tag to remove
    #[arg(long, value_name = "TAG")]
    pub remove: Vec<String>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct CopyArgs {
    /// The store to copy from
    pub source: Location,
    /// The store to copy to, which must exist
    pub target: Location,
    /// Copy only these snapshots; the default is all
    #[arg(long = "snapshot", value_name = "SNAP")]
    pub snapshots: Vec<String>,
    /// Consider only this run
    #[arg(long, value_name = "RUN", conflicts_with = "snapshots")]
    pub run: Option<String>,
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

#[derive(Args, Debug)]
pub struct ExportArgs {
    #[command(flatten)]
    pub snapshot: SnapshotArgs,
    /// The directory to create; the default is RUN-STEP.lmc here
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub resources: ResourceArgs,
    /// Write into a directory that is not empty, and overwrite files
    #[arg(short, long)]
    pub force: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// A share such as `10` or `10%`.
fn parse_percent(text: &str) -> Result<u8, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let percent = percent.filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| "a percentage is a number from 1 to 100".into())
}

/// A time such as `90s`, `24h` or `7d`, in milliseconds; only 0 needs no unit.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds: u64 = match unit {
        // Zero is zero in any unit; other numbers need one.
        "" if number.bytes().all(|c| c == b'0') => 1,
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err("a time is a number followed by s, m, h, d or w".into()),
    };
    let number: u64 = number.parse().map_err(|_| "a time begins with a number")?;
    let time = number.checked_mul(seconds).and_then(|seconds| seconds.checked_mul(1000));
    time.ok_or_else(|| "the time is too long".into())
}

fn parse_meta(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("metadata is given as KEY=VALUE")?;
    Ok((key.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times have units, and times that overflow are refused.
    #[test]
    fn times() {
        assert_eq!(parse_time("7d"), Ok(7 * 86_400_000));
        assert_eq!(parse_time("0"), Ok(0));
        assert_eq!(parse_time("90s"), Ok(90_000));
        for text in ["", "h", "1y", "-1s", "99999999999999999999d", "18446744073709551615d"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
