//! `lmc bench`: compares lmc with other compressors on the user's own files, in memory.
//!
//! Our levels get the whole file. The others get it in chunks that their threads share, and slow
//! ones get a sample of chunks spread over the file. The fastest round counts, and the output of
//! each engine is compared with the input after decoding.
//!
//! With a base, our levels code blocks against it, without the rest of the file format. The others
//! get the XOR of file and base.

mod file;
mod pair;
mod report;
mod storage;

use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::time::{Duration, Instant};

use lmc::SpanInfo;
use lmc_engines::{
    Engine, LevelName, Measured, Pace, Room, Sample, Spec, WholeFile, alone, on_base,
};
use serde_json::Value;

use crate::args::files::BenchArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{self, print};
use pair::Pair;
use storage::Storage;

/// Bytes that other compressors code in one call: several windows of each, so that none of them is
/// at a disadvantage.
const CHUNK_LEN: usize = 4 << 20;
/// The most chunks that a slow engine gets: 64 MiB.
const SAMPLE_CHUNKS: usize = 16;
/// An engine runs at least this long, so that small files are measured many times.
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
        let spans = file::spans(&data, threads)?;
        let base = args.base.as_deref().map(|base| read_pair(&data, base, &spans)).transpose()?;
        let storage = Storage::from_args(args, &data)?;
        let measured = match &base {
            Some(pair) => measure_pair(args, &data, pair, &spans)?,
            None => measure_all(args, &data, &spans)?,
        };
        if args.json {
            rows.extend(report::json(path, &data, threads, &measured, storage.as_ref()));
            return Ok(());
        }
        let mut text = report::text(path, &data, threads, &measured, storage.as_ref());
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

/// All engines on a file alone. Here and below, each engine is dropped before the next one is made,
/// since its buffers are as large as the file.
fn measure_all(
    args: &BenchArgs,
    data: &[u8],
    spans: &[SpanInfo],
) -> Result<Vec<Measured>, Failure> {
    let mut measured = Vec::new();
    let file = [Sample { bytes: data, base: None, tensors: &[] }];
    for level in LevelName::ALL {
        let engine = WholeFile::new(level, threads(args));
        measured.push(measure(args, &mut [Box::new(engine)], &file)?);
    }
    let chunks = chunks(data, None);
    for spec in alone(&["peers"], file::main_width(spans)) {
        measured.push(measure_spec(args, &spec, &chunks)?);
    }
    Ok(measured)
}

/// All engines on a file with its base, and our default level without it.
fn measure_pair(
    args: &BenchArgs,
    data: &[u8],
    pair: &Pair,
    spans: &[SpanInfo],
) -> Result<Vec<Measured>, Failure> {
    let (samples, chunks) = (pair.samples(data), chunks(data, Some(&pair.base)));
    let width = file::main_width(spans);
    let mut measured = Vec::new();
    for name in ["fast", "default", "max", "xor+huffman", "alone"] {
        measured.push(measure_spec(args, &spec_on_base(name, width)?, &samples)?);
    }
    measured.push(measure_spec(args, &Spec::MEMCPY, &chunks)?);
    for name in ["xor+zstd-3", "xor+bzip2-9"] {
        measured.push(measure_spec(args, &spec_on_base(name, width)?, &chunks)?);
    }
    Ok(measured)
}

fn spec_on_base(name: &str, width: usize) -> Result<Spec, Failure> {
    on_base(name, width).map_err(|error| Failure::new(error.to_string()))
}

/// The pieces of a file that threads share.
fn chunks<'a>(data: &'a [u8], base: Option<&'a [u8]>) -> Vec<Sample<'a>> {
    let chunk = |(i, bytes): (usize, &'a [u8])| Sample {
        bytes,
        base: base.map(|base| &base[i * CHUNK_LEN..][..bytes.len()]),
        tensors: &[],
    };
    data.chunks(CHUNK_LEN).enumerate().map(chunk).collect()
}

/// Measures one engine per thread; a slow one gets some of the samples, spread over all of them.
fn measure_spec(args: &BenchArgs, spec: &Spec, samples: &[Sample]) -> Result<Measured, Failure> {
    let engines: lmc_engines::Result<Vec<_>> =
        (0..threads(args)).map(|_| spec.for_pieces()).collect();
    let mut engines = engines.map_err(|error| Failure::new(error.to_string()))?;
    let is_slow = engines.first().is_some_and(|engine| engine.pace() == Pace::Slow);
    let count = if is_slow { samples.len().min(SAMPLE_CHUNKS) } else { samples.len() };
    let samples: Vec<Sample> = (0..count).map(|i| samples[i * samples.len() / count]).collect();
    measure(args, &mut engines, &samples)
}

/// Measures engines of one kind on samples that they share.
fn measure(
    args: &BenchArgs,
    engines: &mut [Box<dyn Engine>],
    samples: &[Sample],
) -> Result<Measured, Failure> {
    let first = engines.first().ok_or_else(|| Failure::new("there are no threads"))?;
    let (label, is_slow) = (first.label(), first.pace() == Pace::Slow);
    if stdio::is_watched() {
        stdio::say(Printable::line(format_args!("lmc: timing {label}")));
    }
    let room = |sample: &Sample| Room::new(engines, sample.bytes.len());
    let mut rooms: Vec<Room> = samples.iter().map(room).collect();
    let mut best = Measured::new(label);
    let begin = Instant::now();
    for round in 0.. {
        let is_enough = round >= usize::from(args.repeats) && begin.elapsed() >= TIME_MIN;
        if is_enough || (is_slow && round > 0) {
            break;
        }
        let done = best.round(engines, samples, &mut rooms);
        done.map_err(|error| failure(error, &best))?;
    }
    Ok(best)
}

/// The failure of an engine; an error of ours keeps its exit code.
fn failure(error: Box<dyn std::error::Error + Send + Sync>, engine: &Measured) -> Failure {
    match error.downcast::<lmc::Error>() {
        Ok(error) => Failure::from(*error),
        Err(error) => Failure::new(format!("{}: {error}", engine.label)),
    }
}
