//! `lmc bench`: lmc beside other compressors on the user's own files, in memory.
//!
//! Our levels get the whole file. The others get it in chunks that their threads share; the slow
//! ones a sample of chunks spread over the file. The fastest round counts, and what each engine
//! restores is compared with the input.
//!
//! With a base, our levels are coded against it block by block, without the file around them, and
//! the others after XOR with it.

mod blocks;
mod engine;
mod ours;
mod pair;
mod peers;
mod report;
mod share;
mod storage;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use lmc::{Level, SpanInfo};
use serde_json::Value;

use crate::args::BenchArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{self, print};
use blocks::Blocks;
use engine::{Engine, Measured};
use ours::Ours;
use pair::Pair;
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
        let threads = threads(args);
        let spans = ours::spans(&data, threads)?;
        let base = args.base.as_deref().map(|base| read_pair(&data, base, &spans)).transpose()?;
        let storage = Storage::from_args(args, &data)?;
        let measured = match &base {
            Some(pair) => measure_pair(args, &data, pair, &spans)?,
            None => measure_all(args, &data, &spans)?,
        };
        if args.json {
            rows.extend(report::json(path, &data, &measured, storage.as_ref()));
            return Ok(());
        }
        let mut text = report::text(path, &data, &measured, storage.as_ref());
        if let Some(pair) = base {
            text.push_line(format_args!("with a base: {} bytes", pair.matched_len));
        }
        print(text)
    });
    if !args.json {
        return exit;
    }
    match print(Printable::json(&rows.into())) {
        Ok(()) => exit,
        Err(failure) => exit::report_at("stdout", Err(failure)),
    }
}

fn threads(args: &BenchArgs) -> usize {
    match usize::from(args.threads) {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

fn read_pair(data: &[u8], base: &Path, spans: &[SpanInfo]) -> Result<Pair, Failure> {
    let what = format!("read its base {}", base.display());
    let old = fs::read(base).map_err(|error| Failure::io(&what, &error))?;
    Pair::new(data, &old, spans)
}

/// All engines on a file alone. Each is dropped before the next is made, here and below: their
/// buffers are as large as the file.
fn measure_all(
    args: &BenchArgs,
    data: &[u8],
    spans: &[SpanInfo],
) -> Result<Vec<Measured>, Failure> {
    let threads = threads(args);
    let mut measured = Vec::new();
    for level in LEVELS {
        measured.push(measure(args, &mut Ours::new(data, level, threads))?);
    }
    for spec in peers::specs(ours::main_width(spans)) {
        measured.push(measure(args, &mut Peer::new(data, spec, threads)?)?);
    }
    Ok(measured)
}

/// All engines on a file with its base, and our default level without.
fn measure_pair(
    args: &BenchArgs,
    data: &[u8],
    pair: &Pair,
    spans: &[SpanInfo],
) -> Result<Vec<Measured>, Failure> {
    let threads = threads(args);
    let ours = |level| Blocks::new(data, pair, level, threads);
    let mut measured = Vec::new();
    for level in LEVELS {
        measured.push(measure(args, &mut ours(level))?);
    }
    measured.push(measure(args, &mut ours(Level::Default).alone())?);
    for spec in peers::specs_on(&pair.base, ours::main_width(spans)) {
        measured.push(measure(args, &mut Peer::new(data, spec, threads)?)?);
    }
    Ok(measured)
}

fn measure(args: &BenchArgs, engine: &mut dyn Engine) -> Result<Measured, Failure> {
    let (rounds, threads) = (usize::from(args.repeats), threads(args));
    let label = engine.label();
    if stdio::is_watched() {
        stdio::say(Printable::line(format_args!("lmc: timing {label}")));
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
