//! The command line, as clap reads it and as the man page shows it.

pub mod analyze;
pub mod analyze_plan;
pub mod files;
pub mod shared;
pub mod store;

use std::ffi::OsString;

use clap::{Args, CommandFactory, Parser, Subcommand};
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
    Compress(files::CompressArgs),
    /// Restore what `lmc compress` was given
    Decompress(files::DecompressArgs),
    /// Show the tensors in .lmc files
    List(files::ListArgs),
    /// Read .lmc files and check every byte; writes nothing
    Test(files::TestArgs),
    /// Write one tensor of an .lmc file to stdout
    Cat(files::CatArgs),
    /// Show how an .lmc file is built: spans, blocks, recipes, hashes
    Inspect(files::InspectArgs),
    /// Show how much changed between two checkpoints, raw, .lmc or snapshots, tensor by tensor
    Diff(files::DiffArgs),
    /// Measure how checkpoints compress and how they change from step to step
    Analyze(analyze::AnalyzeArgs),
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
    /// Show the history of a store: what each snapshot added and what retention would free
    Report(store::ReportArgs),
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
    Demo(files::DemoArgs),
    /// Time lmc and other compressors on your own files, in memory
    Bench(files::BenchArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the man page of lmc or of one of its commands
    Man(ManArgs),
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

    /// clap finds no contradiction in the definitions.
    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
