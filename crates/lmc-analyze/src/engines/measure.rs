//! Rounds of engines on pieces, and the sums over all of them.

use std::hint::black_box;
use std::time::Instant;

use lmc::{Error, ErrorKind, Interrupt, Result};
use lmc_engines::{Engine, Label, Measured, Pace, Room, Spec, against, alone, check_names};

use super::batch::Batch;
use super::{Piece, Row};

/// How often an engine that is not slow runs; the fastest round counts.
const ROUNDS: usize = 3;
/// Bytes that are copied to measure the speed of a copy: more than the caches of most machines.
const COPY_LEN: usize = 128 << 20;

/// An engine in all its batches.
struct Way {
    label: Label,
    xor: bool,
    sums: Sums,
}

/// Sums over batches. What was measured on a part of a batch counts as if on all of it.
#[derive(Default)]
struct Sums {
    values: f64,
    bytes: f64,
    coded: f64,
    bytes_in: usize,
    bytes_out: usize,
    compress_s: f64,
    decompress_s: f64,
    compress_cpu_s: f64,
    decompress_cpu_s: f64,
}

/// Times the engines that `names` asks for on `pieces`, on this thread: one after the other, and
/// that several times. There are rows with a base if a piece has one. `watch` is told which engine
/// runs.
///
/// Fails if a name is unknown, if there is nothing to measure, if `interrupt` is sent, and if what
/// an engine decompresses is not what it was given.
pub fn measure<S: AsRef<str>>(
    pieces: &[Piece],
    names: &[S],
    interrupt: &Interrupt,
    watch: &mut dyn FnMut(&str),
) -> Result<Vec<Row>> {
    check(pieces)?;
    check_names(names)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))?;
    let batches = Batch::all(pieces);
    let width = batches.iter().map(|batch| batch.width).max();
    let Some(width) = width else {
        let message = "there are no bytes to measure the engines on; take a larger sample";
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    };
    let mut ways = Vec::new();
    for spec in specs(names, width, batches.iter().any(Batch::has_base)) {
        let label = engine(&spec)?.label();
        ways.push(Way { label, xor: spec.is_xor(), sums: Sums::default() });
    }
    for batch in &batches {
        let measured = run(batch, names, interrupt, watch)?;
        for way in &mut ways {
            way.add(batch, &measured);
        }
    }
    Ok(ways.into_iter().map(Way::row).collect())
}

/// Bytes per second of a plain copy by one thread.
pub fn copy_speed() -> f64 {
    // Not 0: a zeroed allocation is mapped only when it is first written.
    let (from, mut to) = (vec![1_u8; COPY_LEN], vec![2_u8; COPY_LEN]);
    let copy = |_| {
        let start = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        start.elapsed().as_secs_f64()
    };
    let best = (0..2 * ROUNDS).map(copy).fold(f64::INFINITY, f64::min);
    speed(COPY_LEN as f64, best)
}

/// Fails if a base is not as long as its piece.
fn check(pieces: &[Piece]) -> Result<()> {
    let fits = |piece: &Piece| piece.base.as_ref().is_none_or(|b| b.len() == piece.bytes.len());
    match pieces.iter().all(fits) {
        true => Ok(()),
        false => {
            let message = "a sample and its base have different lengths";
            Err(Error::new(ErrorKind::InvalidArgument, message))
        }
    }
}

fn specs<S: AsRef<str>>(names: &[S], width: usize, has_base: bool) -> Vec<Spec> {
    let mut specs = alone(names, width);
    if has_base {
        specs.extend(against(names, width));
    }
    specs
}

fn engine(spec: &Spec) -> Result<Box<dyn Engine>> {
    spec.for_buffer().map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
}

/// All engines on a batch, in rounds, so that a slow period of the machine affects all of them.
fn run<S: AsRef<str>>(
    batch: &Batch,
    names: &[S],
    interrupt: &Interrupt,
    watch: &mut dyn FnMut(&str),
) -> Result<Vec<Measured>> {
    let specs = specs(names, batch.width, batch.has_base());
    let mut engines: Vec<_> = specs.iter().map(engine).collect::<Result<_>>()?;
    let mut rooms = [Room::new(&engines, batch.len())];
    let mut measured: Vec<_> = engines.iter().map(|e| Measured::new(e.label())).collect();
    for round in 0..ROUNDS {
        for (engine, best) in engines.iter_mut().zip(&mut measured) {
            let is_slow = engine.pace() == Pace::Slow;
            if is_slow && round > 0 {
                continue;
            }
            interrupt.check()?;
            watch(&best.label.to_string());
            let sample = if is_slow { batch.slow_sample() } else { batch.sample() };
            let done = best.round(std::slice::from_mut(engine), &[sample], &mut rooms);
            done.map_err(|error| failure(error, &best.label))?;
        }
    }
    Ok(measured)
}

/// An error of ours stays what it is.
fn failure(error: Box<dyn std::error::Error + Send + Sync>, label: &Label) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => Error::new(ErrorKind::Io, format!("{label}: {error}")),
    }
}

impl Way {
    /// Adds a batch. Values of one byte are the same grouped, and a batch without a base is coded
    /// alone.
    fn add(&mut self, batch: &Batch, measured: &[Measured]) {
        let grouped = self.label.grouped && batch.width > 1;
        let base = self.label.base && batch.has_base();
        let is_this = |label: &Label| {
            (label.engine, &label.level) == (self.label.engine, &self.label.level)
                && (label.grouped, label.base) == (grouped, base)
        };
        let Some(found) = measured.iter().find(|measured| is_this(&measured.label)) else { return };
        let sums = &mut self.sums;
        let scale = batch.len() as f64 / found.bytes_in as f64;
        sums.values += batch.len() as f64 / batch.width as f64;
        sums.bytes += batch.len() as f64;
        sums.coded += found.bytes_out as f64 * scale;
        sums.bytes_in += found.bytes_in;
        sums.bytes_out += found.bytes_out;
        sums.compress_s += found.compress.wall_s * scale;
        sums.decompress_s += found.decompress.wall_s * scale;
        sums.compress_cpu_s += found.compress.cpu_s * scale;
        sums.decompress_cpu_s += found.decompress.cpu_s * scale;
    }

    fn row(self) -> Row {
        let Self { label, xor, sums } = self;
        Row {
            engine: label.engine,
            level: label.level,
            grouped: label.grouped,
            base: label.base,
            xor,
            bytes_in: sums.bytes_in as u64,
            bytes_out: sums.bytes_out as u64,
            // No engine codes bytes as nothing.
            ratio: sums.bytes / sums.coded.max(1.0),
            bits_per_value: 8.0 * sums.coded / sums.values,
            compress_speed: speed(sums.bytes, sums.compress_s),
            decompress_speed: speed(sums.bytes, sums.decompress_s),
            compress_cpu: speed(sums.bytes, sums.compress_cpu_s),
            decompress_cpu: speed(sums.bytes, sums.decompress_cpu_s),
        }
    }
}

/// Bytes per second; a clock may be too coarse for a few bytes.
fn speed(bytes: f64, seconds: f64) -> f64 {
    bytes / seconds.max(1e-9)
}
