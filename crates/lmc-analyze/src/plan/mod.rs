//! How often a checkpoint can be saved: a model of a training run that saves a state every so many
//! steps, for each way to compress it. `docs/analyze.md` has the formulas.
//!
//! In go the facts of the run ([`Inputs`]) and the rows of the engines
//! ([`crate::engines::measure`]); out comes a [`Plan`]. Nothing is measured here.

mod methods;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use lmc::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::engines::Row;
use methods::Way;

pub use methods::ENGINES;

/// The shares of the time, in percent, that saves may take in [`Method::shortest_blocking`].
pub const PERCENTS: [u32; 3] = [1, 2, 5];
/// Seconds of 30 days.
const MONTH_S: f64 = 2_592_000.0;

/// What is known about a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Inputs {
    /// Bytes of a checkpoint.
    pub state_bytes: u64,
    /// Cores that compress and decompress.
    pub cores: u32,
    /// Bytes per second of the storage, written and read.
    pub bandwidth: f64,
    /// Bytes per second of a copy in memory: [`crate::engines::copy_speed`].
    pub copy_speed: f64,
    /// Seconds of a training step.
    pub step_time: f64,
    /// Steps between two saves.
    pub interval: u64,
    /// The newest checkpoints that are kept.
    pub keep_last: u64,
    /// Checkpoints are kept whose step is a multiple of this; none for no others.
    pub keep_every: Option<u64>,
    /// One checkpoint in this many is stored whole where the others are deltas.
    pub whole_every: u64,
}

/// What each way to compress makes of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The run.
    pub inputs: Inputs,
    /// No compression first, then ours, then others.
    pub methods: Vec<Method>,
}

/// A way to compress, and what it makes of a run. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Method {
    /// A name for people.
    pub name: String,
    /// The name of the engine; `none` for no compression.
    pub engine: &'static str,
    /// Its level.
    pub level: String,
    /// Whether checkpoints are stored as what changed since the one before.
    pub delta: bool,
    /// Bytes of a checkpoint for each stored byte.
    pub ratio: f64,
    /// The same of a checkpoint that is stored whole.
    pub whole_ratio: f64,
    /// Bytes per second of one core, by CPU time; None without compression.
    pub compress_speed: Option<f64>,
    /// The same of decompressing.
    pub decompress_speed: Option<f64>,
    /// The same of a checkpoint that is stored whole.
    pub whole_decompress_speed: Option<f64>,
    /// How long a save takes.
    pub save: f64,
    /// How long training waits if it waits for a save.
    pub wait_blocking: f64,
    /// How long it waits if it only waits for a copy of the state, and for the save before.
    pub wait_background: f64,
    /// The share of the time that is lost by waiting for saves.
    pub lost_blocking: f64,
    /// The same for saves in the background.
    pub lost_background: f64,
    /// The shortest time between saves that loses this many percent of the time.
    pub shortest_blocking: BTreeMap<u32, f64>,
    /// The same for saves in the background.
    pub shortest_background: BTreeMap<u32, f64>,
    /// Bytes that are stored after 30 days.
    pub month_bytes: f64,
    /// How long it takes to restore a checkpoint.
    pub restore: f64,
}

impl Plan {
    /// The plan of a run. There is a method for each that the rows have: see [`ENGINES`].
    ///
    /// Fails if a fact of the run is missing or makes no sense.
    pub fn new(inputs: Inputs, rows: &[Row]) -> Result<Self> {
        inputs.check()?;
        let methods = methods::of_rows(rows).into_iter().map(|way| inputs.method(way)).collect();
        Ok(Self { inputs, methods })
    }
}

impl Inputs {
    /// Fails with the first one that makes no sense.
    fn check(&self) -> Result<()> {
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        let wrong = [
            (self.state_bytes == 0, "the state to save has no bytes"),
            (self.cores == 0, "no core is left to compress; give at least one"),
            (!is_positive(self.bandwidth), "the bandwidth of the storage must be above 0"),
            (!is_positive(self.copy_speed), "the speed of a copy must be above 0"),
            (!is_positive(self.step_time), "the time of a step must be above 0"),
            (self.interval == 0, "the interval between saves must be at least 1 step"),
            (self.keep_every == Some(0), "steps to keep must be multiples of at least 1"),
            (self.whole_every == 0, "one checkpoint in 0 cannot be whole; give at least 1"),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, message)) => Err(Error::new(ErrorKind::InvalidArgument, message)),
            None => Ok(()),
        }
    }

    /// Seconds to move the state at this speed per core while `ratio` times less is written or
    /// read: both overlap, so the slower one counts.
    fn seconds(&self, speed: Option<f64>, ratio: f64) -> f64 {
        let state = self.state_bytes as f64;
        let coding = speed.map_or(0.0, |speed| state / (f64::from(self.cores) * speed));
        coding.max(state / (ratio * self.bandwidth))
    }

    fn method(&self, way: Way) -> Method {
        let Way { name, engine, level, delta, coded, whole } = way;
        let save = self.seconds(coded.compress_speed, coded.ratio);
        let copy = self.state_bytes as f64 / self.copy_speed;
        let between = self.interval as f64 * self.step_time;
        let wait_background = copy + (save - between).max(0.0);
        let lost = |wait: f64| wait / (between + wait);
        // At this distance, `wait` is the share `percent` of all time.
        let shortest = |wait: f64, percent: u32| {
            let share = f64::from(percent) / 100.0;
            wait * (1.0 - share) / share
        };
        let restore_whole = self.seconds(whole.decompress_speed, whole.ratio);
        let restore_delta = self.seconds(coded.decompress_speed, coded.ratio);
        let deltas = (self.whole_every - 1) as f64;
        Method {
            name,
            engine,
            level,
            delta,
            ratio: coded.ratio,
            whole_ratio: whole.ratio,
            compress_speed: coded.compress_speed,
            decompress_speed: coded.decompress_speed,
            whole_decompress_speed: whole.decompress_speed,
            save,
            wait_blocking: save,
            wait_background,
            lost_blocking: lost(save),
            lost_background: lost(wait_background),
            shortest_blocking: PERCENTS.map(|p| (p, shortest(save, p))).into(),
            shortest_background: PERCENTS.map(|p| (p, shortest(copy, p).max(save))).into(),
            month_bytes: self.kept(between) * self.mean_bytes(delta, coded.ratio, whole.ratio),
            restore: match delta {
                true => restore_whole + deltas / 2.0 * restore_delta,
                false => restore_whole,
            },
        }
    }

    /// Checkpoints that are kept after 30 days with a save every `seconds`.
    fn kept(&self, seconds: f64) -> f64 {
        let saves = MONTH_S / seconds;
        let steps = saves * self.interval as f64;
        let rare = self.keep_every.map_or(0.0, |every| (steps / every as f64).floor());
        saves.min(self.keep_last as f64 + rare)
    }

    /// Bytes that are stored for a checkpoint.
    fn mean_bytes(&self, delta: bool, ratio: f64, whole_ratio: f64) -> f64 {
        let state = self.state_bytes as f64;
        let every = self.whole_every as f64;
        match delta {
            true => (state / ratio * (every - 1.0) + state / whole_ratio) / every,
            false => state / ratio,
        }
    }
}
