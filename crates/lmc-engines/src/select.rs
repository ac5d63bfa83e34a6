//! Which engines there are, by their names, in the order of the reports.

use crate::codecs::{Bzip2, Codec, Lz4, Xz, Zstd};
use crate::peer::{Blocks, Peer};
use crate::{Engine, LevelName, Lmc, Memcpy, Result};

/// Makes a codec; each thread has its own.
type Make = fn() -> Result<Box<dyn Codec>>;

/// An engine that has not been created yet.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    kind: Kind,
    on_base: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Memcpy,
    Lmc(LevelName),
    /// With the width of a value in bytes if its bytes are grouped first.
    Peer(Make, Option<usize>),
}

/// Compressors other than ours, by the name that selects them.
const PEERS: [(&str, Make); 5] = [
    ("zstd", || Ok(Box::new(Zstd::new(1)?))),
    ("zstd", ZSTD_3),
    ("lz4", || Ok(Box::new(Lz4))),
    ("bzip2", BZIP2_9),
    ("xz", || Ok(Box::new(Xz))),
];
const ZSTD_3: Make = || Ok(Box::new(Zstd::new(3)?));
const BZIP2_9: Make = || Ok(Box::new(Bzip2));

/// Names that [`alone`] knows; the first two are groups.
pub const ALONE: [&str; 8] = ["ours", "peers", "memcpy", "lmc", "zstd", "lz4", "bzip2", "xz"];

/// Names that [`on_base`] knows, in the order of the report of `lmc-bench`: our levels with the
/// base and without it, then XOR with the base followed by other compressors.
pub const ON_BASE: [&str; 7] =
    ["fast", "default", "max", "alone", "xor+huffman", "xor+zstd-3", "xor+bzip2-9"];

impl Spec {
    /// A plain copy.
    pub const MEMCPY: Self = Self { kind: Kind::Memcpy, on_base: false };

    /// The engine, for one large buffer: see [`Lmc::streaming`].
    pub fn for_buffer(&self) -> Result<Box<dyn Engine>> {
        Ok(match self.kind {
            Kind::Lmc(level) => Box::new(Lmc::new(level, self.on_base).streaming()),
            _ => self.make(Blocks::Grouped)?,
        })
    }

    /// The engine, for samples that several of them share, each in one call.
    pub fn for_pieces(&self) -> Result<Box<dyn Engine>> {
        self.make(Blocks::One)
    }

    fn make(&self, blocks: Blocks) -> Result<Box<dyn Engine>> {
        Ok(match self.kind {
            Kind::Memcpy => Box::new(Memcpy),
            Kind::Lmc(level) => Box::new(Lmc::new(level, self.on_base)),
            Kind::Peer(codec, width) => Box::new(Peer::new(codec()?, width, self.on_base, blocks)),
        })
    }
}

/// The engines that `names` asks for, for values of `width` bytes. memcpy comes first. Names that
/// are not in [`ALONE`] are ignored.
pub fn alone<S: AsRef<str>>(names: &[S], width: usize) -> Vec<Spec> {
    let wants = |group: &str, name: &str| {
        names.iter().map(AsRef::as_ref).any(|asked| asked == group || asked == name)
    };
    let spec = |kind| Spec { kind, on_base: false };
    let mut specs = vec![Spec::MEMCPY];
    if wants("ours", "lmc") {
        specs.extend(LevelName::ALL.map(|level| spec(Kind::Lmc(level))));
    }
    // Grouping values of one byte would change nothing.
    let grouped = grouped(width).map(Some);
    for width in [None].into_iter().chain(grouped) {
        let wanted = PEERS.iter().filter(|(name, _)| wants("peers", name));
        specs.extend(wanted.map(|&(_, make)| spec(Kind::Peer(make, width))));
    }
    specs
}

/// The engine of one of the names in [`ON_BASE`], for values of `width` bytes.
pub fn on_base(name: &str, width: usize) -> Result<Spec> {
    let kind = match name {
        "fast" => Kind::Lmc(LevelName::Fast),
        "default" | "alone" => Kind::Lmc(LevelName::Default),
        "max" => Kind::Lmc(LevelName::Max),
        "xor+huffman" => Kind::Lmc(LevelName::Paper),
        "xor+zstd-3" => Kind::Peer(ZSTD_3, grouped(width)),
        "xor+bzip2-9" => Kind::Peer(BZIP2_9, grouped(width)),
        _ => return Err(unknown(name, &ON_BASE)),
    };
    Ok(Spec { kind, on_base: name != "alone" })
}

/// Fails on a name that is not one of `known`.
pub fn check_names(names: &[String], known: &[&str]) -> Result<()> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown(name, known)),
        None => Ok(()),
    }
}

fn unknown(name: &str, known: &[&str]) -> Box<dyn std::error::Error + Send + Sync> {
    format!("no engine `{name}`: {}", known.join(", ")).into()
}

fn grouped(width: usize) -> Option<usize> {
    (width > 1).then_some(width)
}
