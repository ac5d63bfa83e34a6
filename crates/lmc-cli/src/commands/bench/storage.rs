//! The speed of storage, and how long a save and a load take with it.

use std::path::Path;

use lmc_engines::Measured;

use crate::args::files::BenchArgs;
use crate::args::shared::ThreadArgs;
use crate::exit::Failure;
use crate::{signals, storage_speed};

/// Bytes that are written to measure a directory.
const PROBE_LEN: usize = 1 << 30;

/// How fast bytes are written to storage and read back.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Bytes per second.
    pub speed: f64,
    /// Whether it was measured, by writing only.
    pub is_measured: bool,
}

impl Storage {
    /// From the options; none if they do not say.
    pub fn from_args(args: &BenchArgs, data: &[u8]) -> Result<Option<Self>, Failure> {
        if let Some(gbps) = args.storage_gbps {
            return Ok(Some(Self { speed: gbps * 1e9, is_measured: false }));
        }
        args.storage_dir.as_deref().map(|dir| Self::measure(dir, data)).transpose()
    }

    /// Writes some of `data` to a file without a name in `dir`, and syncs it to the disk.
    fn measure(dir: &Path, data: &[u8]) -> Result<Self, Failure> {
        let interrupt = signals::context_on(&ThreadArgs::default()).interrupt;
        let len = data.len().min(PROBE_LEN);
        let speed = storage_speed::measure(dir, data, len, &interrupt)?;
        Ok(Self { speed, is_measured: true })
    }

    /// Seconds to save a file of `len` bytes: coding and writing overlap, so the slower one counts.
    pub fn save_s(&self, len: usize, measured: &Measured) -> f64 {
        self.seconds(len, measured, measured.compress.wall_s)
    }

    /// Seconds to load it, at the same speed.
    pub fn load_s(&self, len: usize, measured: &Measured) -> f64 {
        self.seconds(len, measured, measured.decompress.wall_s)
    }

    fn seconds(&self, len: usize, measured: &Measured, coding_s: f64) -> f64 {
        let coding = coding_s * len as f64 / measured.bytes_in as f64;
        let moving = measured.share() * len as f64 / self.speed;
        coding.max(moving)
    }
}
