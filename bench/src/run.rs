//! Timing: in every round each engine runs once, so that a slow spell of the machine hits all of
//! them. The fastest round counts. Every engine's output is compared with its input once.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::buffers::Buffer;
use crate::engines::{Engine, Label, Pace, Sample};

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub repeats: usize,
    /// Bytes for zstd and lz4.
    pub part_len: usize,
    /// Bytes for bzip2 and xz.
    pub slow_len: usize,
    /// Rounds for bzip2 and xz.
    pub slow_repeats: usize,
}

/// What was measured of one engine.
#[derive(Clone, Debug)]
pub struct Measured {
    pub label: Label,
    pub bytes_in: usize,
    pub bytes_out: usize,
    pub rounds: usize,
    pub compress: Times,
    pub decompress: Times,
    /// The part of compressing that goes by before anything is coded, in the round that took the
    /// least CPU time.
    pub planning_share: f64,
}

/// Seconds of the fastest round, by each clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub wall_s: f64,
    /// What this thread was given of a CPU. Other work on the machine adds less to it.
    pub cpu_s: f64,
}

/// Memory shared by all engines, touched before anything is timed.
struct Workspace {
    coded: Vec<u8>,
    coded_len_max: usize,
    out: Vec<u8>,
}

impl Limits {
    /// Everything once, for its size.
    pub const WHOLE: Self =
        Self { repeats: 1, part_len: usize::MAX, slow_len: usize::MAX, slow_repeats: 1 };

    /// `repeats` rounds, with parts for the slower engines; `quick` is one round on short ones.
    pub fn new(repeats: usize, quick: bool) -> Self {
        const MIB: usize = 1 << 20;
        if quick {
            return Self { repeats: 1, part_len: 16 * MIB, slow_len: 2 * MIB, slow_repeats: 1 };
        }
        let (part_len, slow_len) = (128 * MIB, 32 * MIB);
        Self { repeats: repeats.max(1), part_len, slow_len, slow_repeats: 1 }
    }

    fn sample_len(&self, pace: Pace) -> usize {
        match pace {
            Pace::Full => usize::MAX,
            Pace::Part => self.part_len,
            Pace::Slow => self.slow_len,
        }
    }

    fn rounds(&self, pace: Pace) -> usize {
        if pace == Pace::Slow { self.repeats.min(self.slow_repeats) } else { self.repeats }
    }
}

impl Times {
    const NONE: Self = Self { wall_s: f64::INFINITY, cpu_s: f64::INFINITY };

    /// Does `work` and keeps what it took where it was faster.
    fn keep<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (wall, cpu) = (Instant::now(), thread_time());
        let done = work()?;
        self.cpu_s = self.cpu_s.min((thread_time() - cpu).as_secs_f64());
        self.wall_s = self.wall_s.min(wall.elapsed().as_secs_f64());
        Ok(done)
    }
}

impl Workspace {
    fn new(len: usize) -> Self {
        let coded_len_max = len + len / 16 + (1 << 20);
        // Not 0: a zeroed allocation is mapped only when it is first written.
        Self { coded: vec![1; coded_len_max], coded_len_max, out: vec![1; len] }
    }
}

/// Runs all engines on `buffer`, interleaved.
pub fn run(
    buffer: &Buffer,
    engines: &mut [Box<dyn Engine + '_>],
    limits: &Limits,
) -> Result<Vec<Measured>> {
    let mut workspace = Workspace::new(buffer.bytes.len());
    let mut measured: Vec<Measured> = engines.iter().map(|e| unmeasured(e.as_ref())).collect();
    for round in 0..limits.repeats {
        for (engine, best) in engines.iter_mut().zip(&mut measured) {
            if round < limits.rounds(engine.pace()) {
                let sample = Sample::first(buffer, limits.sample_len(engine.pace()));
                run_once(engine.as_mut(), sample, &mut workspace, best)
                    .map_err(|e| format!("{} {}: {e}", best.label.engine, best.label.level))?;
            }
        }
    }
    Ok(measured)
}

fn unmeasured(engine: &dyn Engine) -> Measured {
    Measured {
        label: engine.label(),
        bytes_in: 0,
        bytes_out: 0,
        rounds: 0,
        compress: Times::NONE,
        decompress: Times::NONE,
        planning_share: 0.0,
    }
}

fn run_once(
    engine: &mut dyn Engine,
    sample: Sample,
    workspace: &mut Workspace,
    best: &mut Measured,
) -> Result<()> {
    let Workspace { coded, coded_len_max, out } = workspace;
    coded.resize(*coded_len_max, 1);
    let out = &mut out[..sample.bytes.len()];
    if best.rounds == 0 {
        out.fill(0xa5); // What an earlier engine left there must not pass for a result.
    }

    let before = best.compress.cpu_s;
    let coded_len = best.compress.keep(|| engine.compress(sample, coded))?;
    if best.compress.cpu_s < before {
        best.planning_share = engine.planning_s() / best.compress.cpu_s;
    }
    best.decompress.keep(|| engine.decompress(&coded[..coded_len], out))?;

    if best.rounds == 0 && out != sample.bytes {
        return Err("the decompressed bytes differ from the input".into());
    }
    best.rounds += 1;
    best.bytes_in = sample.bytes.len();
    best.bytes_out = coded_len + engine.extra_len();
    Ok(())
}

/// What this thread has had of a CPU so far.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
