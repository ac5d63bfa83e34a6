//! Every compressor on samples of a checkpoint, with and without its base.
//!
//! [`pick`] says what to read, the caller reads it, and [`measure`] times the engines on it, each
//! on one thread.

mod batch;
mod measure;
mod pick;
#[cfg(test)]
mod tests;

use lmc_format::Dtype;
use serde::Serialize;

pub use measure::{copy_speed, measure};
pub use pick::{Extent, pick};

/// Bytes that are read if the caller does not say how many.
pub const SAMPLE_LEN: u64 = 64 << 20;

/// What is asked for if the caller names no engine: a group of `lmc_engines`.
pub const NAMES: &str = "all";

/// A part of a tensor that has been read.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Type of its elements.
    pub dtype: Dtype,
    /// Words in a row of the tensor, 0 if it has no rows.
    pub row_len: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The bytes at the same place in the base, if it has the same tensor.
    pub base: Option<Vec<u8>>,
}

/// The engines on the samples of one checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Engines {
    /// Bytes of the samples.
    pub sample_bytes: u64,
    /// Where the checkpoint is in the series.
    pub checkpoint: usize,
    /// Where its base is, if it has one.
    pub base: Option<usize>,
    /// A row for each engine.
    pub rows: Vec<Row>,
}

/// The measurements of an engine on samples of all element types together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its usual name.
    pub engine: &'static str,
    /// Its level, in the form that its own command takes.
    pub level: String,
    /// Whether the bytes of values are grouped first.
    pub grouped: bool,
    /// Whether it uses the base.
    pub base: bool,
    /// Whether it uses the base by XOR.
    pub xor: bool,
    /// Bytes that it got: less than the samples have, if it is slow.
    pub bytes_in: u64,
    /// Bytes that it made of them.
    pub bytes_out: u64,
    /// Bytes of the samples for each coded byte.
    pub ratio: f64,
    /// Coded bits for each value.
    pub bits_per_value: f64,
    /// Bytes per second of one thread, by the clock on the wall.
    pub compress_speed: f64,
    /// The same of decompressing.
    pub decompress_speed: f64,
    /// Bytes per second of CPU time.
    pub compress_cpu: f64,
    /// The same of decompressing.
    pub decompress_cpu: f64,
}
