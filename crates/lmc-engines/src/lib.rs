//! All compressors in the comparison, with one common trait: lmc's levels, a plain copy, and
//! general compressors on raw or grouped bytes, alone or after XOR with a base.
//!
//! The others are there only with the feature `peers`, because some are C libraries: in the
//! benchmarks in `bench/` and in a command that was built with its feature `bench`. To add a
//! compressor, write a `Codec` in `codecs/` and give it a row in `select.rs`.
#![forbid(unsafe_code)]

#[cfg(feature = "peers")]
mod codecs;
mod file;
mod filter;
mod grouping;
mod levels;
mod measure;
mod memcpy;
mod peer;
mod select;
mod share;

use std::fmt;

use lmc_codec::{Dtype, TensorSpec};

pub use file::WholeFile;
pub use levels::{LevelName, Lmc};
pub use measure::{Measured, Room, Times};
pub use memcpy::Memcpy;
pub use select::{HAS_PEERS, ON_BASE, Spec, against, alone, check_names, names, on_base};

/// Every error of an engine ends up as one line of text.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Bytes that a container needs for the length of a block, a recipe or a frame.
pub const LENGTH_LEN: usize = 4;

/// One compressor at one level.
///
/// It keeps nothing of a sample between calls, so that several engines of a kind can share samples.
/// The only exception is [`WholeFile`], which runs alone.
pub trait Engine: Send {
    /// How it is named.
    fn label(&self) -> Label;

    /// How much work it can get.
    fn pace(&self) -> Pace;

    /// Bytes that [`Coded::bytes`] should have for a sample of `len` bytes.
    fn room_len(&self, len: usize) -> usize {
        len + len / 16 + (1 << 16)
    }

    /// Timed. `coded.bytes` comes with its full length, allocated and touched; the engine may
    /// shorten it but should not let it reallocate.
    fn compress(&mut self, sample: Sample, coded: &mut Coded) -> Result<()>;

    /// Not timed: work between compressing and decompressing.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Timed. Fills all of `out` from the result that [`Engine::compress`] left in `coded`; `base`
    /// is that of the sample.
    fn decompress(&mut self, coded: &Coded, base: Option<&[u8]>, out: &mut [u8]) -> Result<()>;
}

/// The input of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The bytes to compress.
    pub bytes: &'a [u8],
    /// The same number of bytes of an older checkpoint, for the engines that use a base.
    pub base: Option<&'a [u8]>,
    /// The tensors, back to back; they cover at least `bytes`.
    pub tensors: &'a [SampleTensor],
}

/// One tensor of a sample.
#[derive(Clone, Copy, Debug)]
pub struct SampleTensor {
    /// Its bytes.
    pub len: usize,
    /// Its type and the length of its rows.
    pub spec: TensorSpec,
}

impl SampleTensor {
    /// A tensor of `len` bytes in rows of `row_len` values; 0 if it has no rows.
    pub fn new(len: usize, dtype: Dtype, row_len: u64) -> Self {
        Self { len, spec: TensorSpec { dtype, row_len } }
    }
}

/// The result of an engine on a sample.
#[derive(Clone, Debug, Default)]
pub struct Coded {
    /// Memory for the coded bytes.
    pub bytes: Vec<u8>,
    /// How many coded bytes there are.
    pub len: usize,
    /// Bytes that a container needs in addition: lengths of blocks.
    pub extra_len: usize,
    /// Numbers that the engine itself needs to decompress, such as lengths of frames.
    pub index: Vec<usize>,
    /// CPU seconds that passed before anything was coded.
    pub planning_s: f64,
}

/// How an engine is named.
#[derive(Clone, Debug)]
pub struct Label {
    /// Its usual name.
    pub engine: &'static str,
    /// Its level, in the form that its own command takes.
    pub level: String,
    /// Whether the bytes of values are grouped first.
    pub grouped: bool,
    /// Whether it codes against a base.
    pub base: bool,
}

/// How much work an engine can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Everything, in every round.
    Full,
    /// A part of it, in every round: zstd at low levels, lz4, snappy.
    Part,
    /// A small part of it, in one round: the others.
    Slow,
}

impl Sample<'_> {
    /// The first `len` bytes, or all of them.
    #[must_use]
    pub fn first(mut self, len: usize) -> Self {
        let len = len.min(self.bytes.len());
        self.bytes = &self.bytes[..len];
        self.base = self.base.map(|base| &base[..len]);
        self
    }
}

impl Coded {
    /// Bytes that a container would hold.
    pub fn stored_len(&self) -> usize {
        self.len + self.extra_len
    }
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
