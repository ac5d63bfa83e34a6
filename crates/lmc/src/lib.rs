//! Any checkpoint file to `.lmc` and back, byte for byte.
//!
//! [`compress`] cuts a file into spans, codes them on all cores and writes them in order; an
//! [`Archive`] reads parts of a `.lmc` file, and [`decompress`] restores all of it. What is written
//! depends on the input, the level and the version alone. A file under its final name is whole:
//! [`Publish`] sees to that.
#![forbid(unsafe_code)]

mod archive;
mod compress;
mod decompress;
mod guess;
mod io;
mod item_hash;
mod memory;
mod pipeline;
mod publish;
mod span;
mod tensors;

pub use archive::{Archive, BlockInfo, SpanInfo};
pub use compress::compress;
pub use decompress::decompress;
pub use io::{Input, Output};
pub use lmc_codec::Level;
pub use lmc_format::{Error, ErrorKind, Result};
pub use memory::{compress_parts, decompress_into, decompress_to_vec};
pub use publish::Publish;
pub use tensors::Tensor;

/// How to compress.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How hard to try.
    pub level: Level,
    /// Threads that code; 0 for one on each core. Reading and writing have their own.
    pub threads: usize,
    /// Whether every block is decoded and compared before it is written.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { level: Level::Default, threads: 0, verify: true }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

/// Called with the number of original bytes just finished.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// The README's example, which the documentation tests run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
