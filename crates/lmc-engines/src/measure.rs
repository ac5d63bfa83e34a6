//! One timed round of an engine, and the results of the rounds so far.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::share::share;
use crate::{Coded, Engine, Label, Result, Sample};

/// The measurements of an engine; the fastest round counts.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The engine.
    pub label: Label,
    /// Bytes of its input.
    pub bytes_in: usize,
    /// Bytes of its output, with those that a container needs.
    pub bytes_out: usize,
    /// Rounds so far.
    pub rounds: usize,
    /// Seconds of compressing.
    pub compress: Times,
    /// Seconds of decompressing.
    pub decompress: Times,
    /// The share of compression that passes before anything is coded, in the round that took the
    /// least CPU time.
    pub planning_share: f64,
}

/// Seconds of the fastest round, by each clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Wall-clock time.
    pub wall_s: f64,
    /// CPU time of this thread. Other work on the machine adds less to it.
    pub cpu_s: f64,
}

/// Memory for the results of a sample.
#[derive(Clone, Debug)]
pub struct Room {
    coded: Coded,
    out: Vec<u8>,
}

/// A sample on its way through a round.
struct Turn<'a> {
    sample: Sample<'a>,
    coded: &'a mut Coded,
    out: &'a mut [u8],
}

impl Room {
    /// For a sample of up to `len` bytes and the results of the engines that use it.
    pub fn new(engines: &[Box<dyn Engine + '_>], len: usize) -> Self {
        let coded_len = engines.iter().map(|engine| engine.room_len(len)).max().unwrap_or(0);
        // Not 0: a zeroed allocation is mapped only when it is first written.
        let coded = Coded { bytes: vec![1; coded_len], ..Coded::default() };
        Self { coded, out: vec![1; len] }
    }

    /// Resets it for an engine that has not used it yet.
    fn reset(&mut self) {
        let mut bytes = std::mem::take(&mut self.coded.bytes);
        bytes.resize(bytes.capacity(), 1);
        self.coded = Coded { bytes, ..Coded::default() };
    }
}

impl Times {
    const NONE: Self = Self { wall_s: f64::INFINITY, cpu_s: f64::INFINITY };

    /// Does `work`, and keeps its times where they are faster.
    fn keep<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (wall, cpu) = (Instant::now(), thread_time());
        let done = work()?;
        self.cpu_s = self.cpu_s.min((thread_time() - cpu).as_secs_f64());
        self.wall_s = self.wall_s.min(wall.elapsed().as_secs_f64());
        Ok(done)
    }
}

impl Measured {
    /// Nothing measured yet.
    pub fn new(label: Label) -> Self {
        let (compress, decompress) = (Times::NONE, Times::NONE);
        let (bytes_in, bytes_out, rounds, planning_share) = (0, 0, 0, 0.0);
        Self { label, bytes_in, bytes_out, rounds, compress, decompress, planning_share }
    }

    /// Coded bytes per byte of input.
    pub fn share(&self) -> f64 {
        self.bytes_out as f64 / self.bytes_in as f64
    }

    /// Takes all samples through the engines, compressing and decompressing, both timed. Each
    /// sample goes to the next free engine. The engines are of one kind, one for each thread; each
    /// sample has its own room. The first round compares the result with the input.
    pub fn round<'a>(
        &mut self,
        engines: &mut [Box<dyn Engine + '_>],
        samples: &'a [Sample<'a>],
        rooms: &'a mut [Room],
    ) -> Result<()> {
        let is_first = self.rounds == 0;
        let turn = |(sample, room): (&Sample<'a>, &'a mut Room)| {
            room.reset();
            let out = &mut room.out[..sample.bytes.len()];
            if is_first {
                out.fill(0xa5); // What an earlier engine left there must not pass for a result.
            }
            Turn { sample: *sample, coded: &mut room.coded, out }
        };
        let mut turns: Vec<Turn> = samples.iter().zip(rooms).map(turn).collect();
        self.compress(engines, &mut turns)?;
        engines.iter_mut().try_for_each(|engine| engine.prepare())?;
        self.decompress.keep(|| {
            share(engines, &mut turns, |engine, turn| {
                engine.decompress(turn.coded, turn.sample.base, turn.out)
            })
        })?;
        if is_first && !turns.iter().all(|turn| turn.out == turn.sample.bytes) {
            return Err("the decompressed bytes differ from the input".into());
        }
        self.rounds += 1;
        self.bytes_in = turns.iter().map(|turn| turn.sample.bytes.len()).sum();
        self.bytes_out = turns.iter().map(|turn| turn.coded.stored_len()).sum();
        Ok(())
    }

    fn compress(&mut self, engines: &mut [Box<dyn Engine + '_>], turns: &mut [Turn]) -> Result<()> {
        let fastest = self.compress.cpu_s;
        self.compress.keep(|| {
            share(engines, turns, |engine, turn| engine.compress(turn.sample, turn.coded))
        })?;
        if self.compress.cpu_s < fastest {
            let planning_s: f64 = turns.iter().map(|turn| turn.coded.planning_s).sum();
            self.planning_share = planning_s / self.compress.cpu_s;
        }
        Ok(())
    }
}

/// The CPU time of this thread so far.
pub(crate) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
