//! `lmc-bench`: speed and size of lmc's levels next to other compressors, on one thread, from
//! memory to memory. `bench/README.md` says what is measured and how.

mod commands;
mod made;
mod pairs;
mod scale;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use lmc_bench::buffers::Set;
use lmc_bench::report::Clock;
use lmc_engines::LevelName;

#[derive(Parser)]
#[command(about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
    /// Print speeds by CPU time of the thread instead of wall time: for a machine with other work.
    #[arg(long, global = true)]
    cpu_time: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Write a set's buffer to a file, and its tensors as FILE.parts.json.
    Dump(DumpArgs),
    /// Time our levels on a file of values.
    Time(TimeArgs),
    /// Only the sizes of our levels on the corpus files.
    CorpusBits(CorpusBitsArgs),
    /// Sizes and speed of checkpoints coded against an earlier one.
    Pairs(PairsArgs),
    /// Time whole files in memory on an increasing number of threads.
    Scale(ScaleArgs),
}

/// Arguments of the whole benchmark.
#[derive(Args)]
struct RunArgs {
    /// Smallest buffer a set is timed on.
    #[arg(long, default_value_t = 1024)]
    size_mib: usize,
    /// Rounds; the fastest of each engine counts.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Sets to time.
    #[arg(long, value_delimiter = ',', default_values_t = Set::ALL)]
    sets: Vec<Set>,
    /// `ours`, `peers`, `all`, or names: lmc, zstd, zstd-19, lz4, snappy, zlib, brotli, bzip2, xz.
    /// memcpy always runs.
    #[arg(long, value_delimiter = ',', default_value = "ours,peers")]
    engines: Vec<String>,
    /// Write the rows to this file too; `-` is stdout.
    #[arg(long)]
    json: Option<PathBuf>,
    /// 64 MiB, one round, short parts for the slow engines: only shows that everything works.
    #[arg(long)]
    quick: bool,
}

#[derive(Args)]
struct DumpArgs {
    #[arg(long)]
    set: Set,
    /// Smallest size; 0 is one copy of the set.
    #[arg(long, default_value_t = 1024)]
    size_mib: usize,
    #[arg(long)]
    out: PathBuf,
    /// Keep the rows in their order.
    #[arg(long)]
    plain: bool,
}

#[derive(Args)]
struct TimeArgs {
    #[arg(long)]
    file: PathBuf,
    /// bf16, f16, f32 or fp8.
    #[arg(long)]
    dtype: String,
    /// Values in a row, for a file that is one tensor.
    #[arg(long, default_value_t = 0)]
    row_len: u64,
    /// The tensors of the file, as `dump` wrote them; without it the file is one tensor.
    #[arg(long)]
    parts: Option<PathBuf>,
    #[arg(long, value_delimiter = ',', default_values_t = LevelName::ALL)]
    levels: Vec<LevelName>,
    #[arg(long, default_value_t = 1)]
    repeats: usize,
    /// Write rows to this file; `-` is stdout, and then no table is printed.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct CorpusBitsArgs {
    /// Write the sizes to this file; `-` is stdout, and then no table is printed.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct PairsArgs {
    /// Smallest buffer of new bytes that a pair is timed on.
    #[arg(long, default_value_t = 512)]
    size_mib: usize,
    /// Rounds; the fastest of each engine counts.
    #[arg(long, default_value_t = 3)]
    repeats: usize,
    /// Write sizes and rows to this file too; `-` is stdout.
    #[arg(long)]
    json: Option<PathBuf>,
    /// 64 MiB, one round, short parts for the slow engines: only shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Pairs to measure, by name or the beginning of a name.
    #[arg(long, value_delimiter = ',')]
    pairs: Vec<String>,
    /// Engines to measure: fast, default, max, alone, xor+huffman, xor+zstd-3, xor+bzip2-9, and
    /// `xor+` before other names with a level. By default those named here.
    #[arg(long, value_delimiter = ',')]
    engines: Vec<String>,
    /// Measure sizes only.
    #[arg(long)]
    no_speed: bool,
    /// Sizes of other programs for the table, as `pairs.py` wrote them.
    #[arg(long, value_name = "FILE")]
    others: Option<PathBuf>,
    /// Print, as JSON, the names and files of the pairs that are files of the corpus, and do
    /// nothing else.
    #[arg(long)]
    list: bool,
}

#[derive(Args)]
struct ScaleArgs {
    #[arg(long, default_value = "bf16")]
    set: Set,
    /// Time a pair of checkpoints, the new one against its base. Give its name or the beginning of
    /// it.
    #[arg(long, conflicts_with = "set")]
    pair: Option<String>,
    /// Time this file instead of a buffer of the corpus.
    #[arg(long, conflicts_with_all = ["set", "pair", "size_mib"])]
    file: Option<PathBuf>,
    #[arg(long, default_value = "default")]
    level: LevelName,
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
    threads: Vec<usize>,
    #[arg(long, default_value_t = 1024)]
    size_mib: usize,
    #[arg(long, default_value_t = 5)]
    repeats: usize,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let clock = if cli.cpu_time { Clock::Cpu } else { Clock::Wall };
    let done = match cli.command {
        None => commands::bench(&cli.run, clock),
        Some(Command::Dump(args)) => commands::dump(&args),
        Some(Command::Time(args)) => commands::time(&args, clock),
        Some(Command::CorpusBits(args)) => commands::corpus_bits(&args),
        Some(Command::Pairs(args)) => commands::pairs(&args, clock),
        Some(Command::Scale(args)) => commands::scale(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lmc-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
