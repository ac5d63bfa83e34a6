//! Timing: in every round each engine runs once, so that a slow period of the machine affects all
//! of them. The fastest round counts. Every engine's output is compared with its input once.

use std::slice;

use lmc_engines::{Engine, Measured, Pace, Room, Sample};

use crate::Result;
use crate::buffers::Buffer;

/// How much to run.
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

impl Limits {
    /// Runs everything once, for its size.
    pub const WHOLE: Self =
        Self { repeats: 1, part_len: usize::MAX, slow_len: usize::MAX, slow_repeats: 1 };

    /// `repeats` rounds, with parts for the slower engines. `quick` runs one round on short parts.
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

/// Runs all engines on `buffer`, interleaved, some of them against `base`, which has the same
/// length.
pub fn run(
    buffer: &Buffer,
    base: Option<&Buffer>,
    engines: &mut [Box<dyn Engine>],
    limits: &Limits,
) -> Result<Vec<Measured>> {
    let (tensors, base) = (buffer.tensors(), base.map(|base| base.bytes.as_slice()));
    let whole = Sample { bytes: &buffer.bytes, base, tensors: &tensors };
    // Shared by all engines, and touched before anything is timed.
    let mut room = Room::new(engines, buffer.bytes.len());
    let mut measured: Vec<_> = engines.iter().map(|e| Measured::new(e.label())).collect();
    for round in 0..limits.repeats {
        for (engine, best) in engines.iter_mut().zip(&mut measured) {
            if round < limits.rounds(engine.pace()) {
                let sample = whole.first(limits.sample_len(engine.pace()));
                best.round(slice::from_mut(engine), &[sample], slice::from_mut(&mut room))
                    .map_err(|e| format!("{} {}: {e}", best.label.engine, best.label.level))?;
            }
        }
    }
    Ok(measured)
}
