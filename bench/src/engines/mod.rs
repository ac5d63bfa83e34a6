//! The compressors, behind one trait. One thread each, slices in, slices out.

mod lmc;
mod memcpy;
mod peer;

use lmc_engines::{Bzip2, Lz4, Xz, Zstd};

use crate::Result;
use crate::buffers::{Buffer, Part};

pub use lmc::{LevelName, Lmc};
pub use memcpy::Memcpy;

/// The part of a buffer that an engine is given.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    pub bytes: &'a [u8],
    pub dtype: lmc_codec::Dtype,
    /// The tensors; they cover at least `bytes`.
    pub parts: &'a [Part],
}

/// How an engine is named in the report.
#[derive(Clone, Debug)]
pub struct Label {
    pub engine: &'static str,
    pub level: String,
    pub grouped: bool,
    /// Whether it codes against a base.
    pub base: bool,
}

/// How much work an engine can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The whole buffer, every round.
    Full,
    /// A part of it, every round: zstd, lz4.
    Part,
    /// A small part of it, one or two rounds: bzip2, xz.
    Slow,
}

/// One compressor at one level.
///
/// `compress` writes to `coded`, which comes with its full length, allocated and touched; it may
/// shorten the vector but must not let it reallocate. It returns the coded length.
/// `decompress` gets those bytes and fills all of `out`.
pub trait Engine {
    fn label(&self) -> Label;
    fn pace(&self) -> Pace;
    fn compress(&mut self, sample: Sample, coded: &mut Vec<u8>) -> Result<usize>;
    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> Result<()>;
    /// Bytes beyond the coded ones that a container needs: lengths of pieces.
    fn extra_len(&self) -> usize {
        0
    }
    /// CPU seconds of the last `compress` that went by before anything was coded.
    fn planning_s(&self) -> f64 {
        0.0
    }
}

impl<'a> Sample<'a> {
    /// The first `len` bytes of `buffer`, or all of it.
    pub fn first(buffer: &'a Buffer, len: usize) -> Self {
        let len = len.min(buffer.bytes.len());
        Self { bytes: &buffer.bytes[..len], dtype: buffer.dtype, parts: &buffer.parts }
    }
}

/// The engines that `names` asks for, for values of `width` bytes; memcpy is the first.
pub fn select(names: &[String], width: usize) -> Result<Vec<Box<dyn Engine>>> {
    let wants = |group: &str, name: &str| names.iter().any(|n| n == group || n == name);
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Memcpy)];
    if wants("ours", "lmc") {
        engines.extend(LevelName::ALL.map(|level| Box::new(Lmc::new(level)) as Box<dyn Engine>));
    }
    // Grouping values of one byte would change nothing.
    let grouped = (width > 1).then_some(Some(width));
    for width in [None].into_iter().chain(grouped) {
        if wants("peers", "zstd") {
            engines.push(peer::boxed(Zstd::new(1)?, width, None));
            engines.push(peer::boxed(Zstd::new(3)?, width, None));
        }
        if wants("peers", "lz4") {
            engines.push(peer::boxed(Lz4, width, None));
        }
        if wants("peers", "bzip2") {
            engines.push(peer::boxed(Bzip2, width, None));
        }
        if wants("peers", "xz") {
            engines.push(peer::boxed(Xz, width, None));
        }
    }
    Ok(engines)
}

/// Names of the engines for a pair of checkpoints, in the order of the report: our levels on the base
/// and alone, then XOR with the base in front of what others do.
pub const ON_BASE: [&str; 7] =
    ["fast", "default", "max", "alone", "xor+huffman", "xor+zstd-3", "xor+bzip2-9"];

/// Those of [`ON_BASE`] that `names` has, all if it is empty, for values of `width` bytes.
pub fn on_base<'a>(
    names: &[String],
    base: &'a [u8],
    width: usize,
) -> Result<Vec<(&'static str, Box<dyn Engine + 'a>)>> {
    if let Some(name) = names.iter().find(|name| !ON_BASE.contains(&name.as_str())) {
        return Err(format!("no engine `{name}`: {}", ON_BASE.join(", ")).into());
    }
    let grouped = Some(width).filter(|&width| width > 1);
    let level = |level| Box::new(Lmc::on_base(level, base)) as Box<dyn Engine + 'a>;
    let engine = |name: &str| -> Result<Box<dyn Engine + 'a>> {
        Ok(match name {
            "fast" => level(LevelName::Fast),
            "default" => level(LevelName::Default),
            "max" => level(LevelName::Max),
            "alone" => Box::new(Lmc::new(LevelName::Default)),
            "xor+huffman" => level(LevelName::Paper),
            "xor+zstd-3" => peer::boxed(Zstd::new(3)?, grouped, Some(base)),
            _ => peer::boxed(Bzip2, grouped, Some(base)),
        })
    };
    let is_wanted = |name: &&str| names.is_empty() || names.iter().any(|n| n == name);
    ON_BASE.into_iter().filter(is_wanted).map(|name| Ok((name, engine(name)?))).collect()
}

/// Fails on a name that [`select`] does not know.
pub fn check_names(names: &[String]) -> Result<()> {
    const KNOWN: [&str; 8] = ["ours", "peers", "memcpy", "lmc", "zstd", "lz4", "bzip2", "xz"];
    match names.iter().find(|name| !KNOWN.contains(&name.as_str())) {
        Some(name) => Err(format!("no engine `{name}`: {}", KNOWN.join(", ")).into()),
        None => Ok(()),
    }
}
