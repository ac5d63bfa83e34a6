//! What is timed, and what comes out of it.

use std::fmt;

use crate::exit::Failure;
use crate::table::gib_s;

/// One compressor at one level, with its input and room for its results.
pub trait Engine {
    /// How it is named.
    fn label(&self) -> Label;
    /// Whether one round on a sample must do.
    fn is_slow(&self) -> bool;
    /// Timed: input to coded bytes.
    fn compress(&mut self) -> Result<Sizes, Failure>;
    /// Not timed: what must be done in between.
    fn prepare(&mut self) -> Result<(), Failure>;
    /// Timed: coded bytes to output.
    fn decompress(&mut self) -> Result<(), Failure>;
    /// Whether the output is the input.
    fn came_back(&self) -> bool;
}

/// How an engine is named.
#[derive(Clone, Debug)]
pub struct Label {
    pub engine: &'static str,
    pub level: String,
    /// Whether the bytes of values are grouped first.
    pub grouped: bool,
    /// Whether they are coded against a base.
    pub base: bool,
}

/// Bytes of one round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// What was measured of an engine.
#[derive(Clone, Debug)]
pub struct Measured {
    pub label: Label,
    pub threads: usize,
    pub sizes: Sizes,
    /// Seconds of the fastest round.
    pub compress_s: f64,
    pub decompress_s: f64,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Label { engine, level, grouped, base } = self;
        let dash = if level.starts_with(|c: char| c.is_ascii_digit()) { "-" } else { "" };
        let blank = if level.is_empty() { "" } else { " " };
        let grouped = if *grouped { ", byte groups" } else { "" };
        let base = if *base { ", on base" } else { "" };
        write!(f, "{engine}{blank}{dash}{level}{grouped}{base}")
    }
}

impl Measured {
    /// Nothing measured yet.
    pub fn new(label: Label, threads: usize) -> Self {
        let sizes = Sizes::default();
        Self { label, threads, sizes, compress_s: f64::INFINITY, decompress_s: f64::INFINITY }
    }

    /// Coded bytes for each byte of input.
    pub fn share(&self) -> f64 {
        self.sizes.bytes_out as f64 / self.sizes.bytes_in as f64
    }

    /// Input bytes a second, in GiB/s.
    pub fn compress_gib_s(&self) -> f64 {
        gib_s(self.sizes.bytes_in, self.compress_s)
    }

    /// Output bytes a second, in GiB/s.
    pub fn decompress_gib_s(&self) -> f64 {
        gib_s(self.sizes.bytes_in, self.decompress_s)
    }
}
