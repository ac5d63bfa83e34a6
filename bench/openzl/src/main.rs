//! `lmc-bench-openzl`: OpenZL's graphs, our levels and a copy in the same rounds, one thread,
//! memory to memory. `bench/openzl.sh` builds and runs it, `bench/README.md` says what the graphs
//! are.

mod engine;
mod graphs;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use engine::OpenZl;
use graphs::Graph;
use lmc_bench::buffers::{Buffer, Set};
use lmc_bench::report::Report;
use lmc_bench::run::{self, Limits};
use lmc_bench::{Result, load_corpus};
use lmc_engines::{Engine, LevelName, Lmc, Memcpy};

const MIB: usize = 1 << 20;

#[derive(Parser)]
#[command(about)]
struct Args {
    /// Smallest buffer a set is timed on.
    #[arg(long, default_value_t = 96)]
    size_mib: usize,
    /// Rounds; the fastest of each engine counts.
    #[arg(long, default_value_t = 10)]
    repeats: usize,
    /// Sets to time.
    #[arg(long, value_delimiter = ',', default_values_t = Set::ALL)]
    sets: Vec<Set>,
    /// Write the rows to this file too; `-` is stdout.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lmc-bench-openzl: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &Args) -> Result<()> {
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let limits = Limits::new(args.repeats, false);
    let mut report = Report::default();
    report::print_heading();
    for &set in &args.sets {
        let buffer = Buffer::build(&set.files(&corpus), args.size_mib * MIB, true)?;
        let measured = run::run(&buffer, None, &mut engines(set, buffer.width())?, &limits)?;
        report.add(set.name(), &buffer, &measured).iter().for_each(report::print_row);
    }
    args.json.as_deref().map_or(Ok(()), |path| report.write_json(path))
}

/// The copy, our levels, and the graphs that make sense on the set.
fn engines(set: Set, width: usize) -> Result<Vec<Box<dyn Engine>>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Memcpy)];
    for level in [LevelName::Fast, LevelName::Default, LevelName::Max] {
        engines.push(Box::new(Lmc::new(level, false).streaming()));
    }
    for graph in Graph::of_set(set) {
        engines.push(Box::new(OpenZl::new(set, graph, width)?));
    }
    Ok(engines)
}
