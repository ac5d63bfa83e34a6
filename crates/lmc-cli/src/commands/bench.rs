//! `lmc bench`: lmc beside other compressors on the user's own files, in memory.
//!
//! Our levels get the whole file. The others get it in chunks that their threads share; the slow
//! ones a sample of chunks spread over the file. The fastest round counts, and what each engine
//! restores is compared with the input.

mod engine;
mod ours;
mod peers;
mod report;
mod storage;

use std::fs;
use std::io::{IsTerminal, stderr};
use std::num::NonZero;
use std::time::{Duration, Instant};

use lmc::Level;
use serde_json::Value;

use crate::args::BenchArgs;
use crate::exit::{self, Exit, Failure};
use crate::stdio::print;
use engine::{Engine, Measured};
use ours::Ours;
use peers::Peer;
use storage::Storage;

const LEVELS: [Level; 4] = [Level::Fast, Level::Default, Level::Max, Level::Paper];

/// An engine runs at least this long, so that small files are timed often.
const TIME_MIN: Duration = Duration::from_millis(300);

/// Measures every file; JSON is one array of rows, printed at the end.
pub fn run(args: &BenchArgs) -> Exit {
    let mut rows: Vec<Value> = Vec::new();
    let exit = exit::for_each(&args.files, |path| {
        let data = fs::read(path).map_err(|error| Failure::io("read it", &error))?;
        if data.is_empty() {
            return Err(Failure::new("is empty; there is nothing to time"));
        }
        let storage = Storage::from_args(args, &data)?;
        let measured = measure_all(args, &data)?;
        if args.json {
            rows.extend(report::json(path, &data, &measured, storage.as_ref()));
            return Ok(());
        }
        print(report::text(path, &data, &measured, storage.as_ref()))
    });
    if !args.json {
        return exit;
    }
    match print(format!("{:#}\n", Value::from(rows))) {
        Ok(()) => exit,
        Err(failure) => exit::report("stdout".as_ref(), Err(failure)),
    }
}

fn measure_all(args: &BenchArgs, data: &[u8]) -> Result<Vec<Measured>, Failure> {
    let threads = match usize::from(args.threads) {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let width = ours::main_width(data, threads)?;
    let rounds = usize::from(args.repeats);
    let mut measured = Vec::new();
    // Each engine is dropped before the next is made: their buffers are as large as the file.
    for level in LEVELS {
        measured.push(measure(&mut Ours::new(data, level, threads), rounds, threads)?);
    }
    for spec in peers::specs(width) {
        measured.push(measure(&mut Peer::new(data, spec, threads)?, rounds, threads)?);
    }
    Ok(measured)
}

fn measure(engine: &mut dyn Engine, rounds: usize, threads: usize) -> Result<Measured, Failure> {
    let label = engine.label();
    if stderr().is_terminal() {
        eprintln!("lmc: timing {label}");
    }
    let mut best = Measured::new(label, threads);
    let (begin, is_slow) = (Instant::now(), engine.is_slow());
    for round in 0.. {
        let is_enough = round >= rounds && begin.elapsed() >= TIME_MIN;
        if is_enough || (is_slow && round > 0) {
            break;
        }
        measure_round(engine, &mut best)?;
        if round == 0 && !engine.came_back() {
            return Err(Failure::new(format!("{} does not restore the file", best.label)));
        }
    }
    Ok(best)
}

fn measure_round(engine: &mut dyn Engine, best: &mut Measured) -> Result<(), Failure> {
    let start = Instant::now();
    best.sizes = engine.compress()?;
    best.compress_s = best.compress_s.min(start.elapsed().as_secs_f64());
    engine.prepare()?;
    let start = Instant::now();
    engine.decompress()?;
    best.decompress_s = best.decompress_s.min(start.elapsed().as_secs_f64());
    Ok(())
}
