//! Which engines there are, by their names, in the order of the reports. This is the only table of
//! compressors.

use crate::peer::{Blocks, Codec, Peer};
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

/// A compressor other than ours.
struct Row {
    engine: &'static str,
    level: &'static str,
    shortest: Shortest,
    make: Make,
}

/// The shortest name that selects a row. The group `all` and longer names select it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "the table is empty then"))]
enum Shortest {
    /// The group `peers`.
    Group,
    /// The name of its engine.
    Engine,
    /// The names of its engine and level, as in `zstd-19`.
    Level,
}

/// Compressors other than ours.
#[cfg(feature = "peers")]
#[rustfmt::skip]
const PEERS: &[Row] = {
    use crate::codecs::{Brotli, Bzip2, Lz4, Snappy, Xz, Zlib, Zstd};
    use Shortest::{Engine, Group, Level};
    &[
        row("zstd", "1", Group, || Ok(Box::new(Zstd::new(1)?))),
        row("zstd", "3", Group, || Ok(Box::new(Zstd::new(3)?))),
        row("zstd", "9", Level, || Ok(Box::new(Zstd::new(9)?))),
        row("zstd", "19", Level, || Ok(Box::new(Zstd::new(19)?))),
        row("lz4", "1", Group, || Ok(Box::new(Lz4))),
        row("snappy", "", Engine, || Ok(Box::new(Snappy::new()))),
        row("zlib", "6", Engine, || Ok(Box::new(Zlib::new()))),
        row("brotli", "5", Engine, || Ok(Box::new(Brotli))),
        row("bzip2", "9", Group, || Ok(Box::new(Bzip2))),
        row("xz", "1", Group, || Ok(Box::new(Xz))),
    ]
};
#[cfg(not(feature = "peers"))]
const PEERS: &[Row] = &[];

#[cfg(feature = "peers")]
const fn row(engine: &'static str, level: &'static str, shortest: Shortest, make: Make) -> Row {
    Row { engine, level, shortest, make }
}

/// Names of several engines: lmc's levels, the peers that `lmc bench` runs, and everything.
const GROUPS: [&str; 3] = ["ours", "peers", "all"];

/// The names of the comparison against a base, in the order of the report of `lmc-bench`: our
/// levels with the base and without it, then XOR with the base followed by other compressors.
/// [`on_base`] knows these, and `xor+` before any other compressor and its level.
pub const ON_BASE: [&str; 7] =
    ["fast", "default", "max", "alone", "xor+huffman", "xor+zstd-3", "xor+bzip2-9"];

/// Whether this was built with the compressors other than ours, the feature `peers`.
pub const HAS_PEERS: bool = cfg!(feature = "peers");

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

    /// Whether its first step is the XOR with a base.
    pub fn is_xor(&self) -> bool {
        self.on_base && matches!(self.kind, Kind::Peer(..) | Kind::Lmc(LevelName::Paper))
    }

    fn make(&self, blocks: Blocks) -> Result<Box<dyn Engine>> {
        Ok(match self.kind {
            Kind::Memcpy => Box::new(Memcpy),
            Kind::Lmc(level) => Box::new(Lmc::new(level, self.on_base)),
            Kind::Peer(codec, width) => Box::new(Peer::new(codec()?, width, self.on_base, blocks)),
        })
    }
}

impl Row {
    /// The name that selects this row alone.
    fn full_name(&self) -> String {
        full_name(self.engine, self.level)
    }

    fn is_asked_by(&self, name: &str) -> bool {
        match name {
            "all" => true,
            "peers" => self.shortest == Shortest::Group,
            _ if name == self.full_name() => true,
            _ => name == self.engine && self.shortest != Shortest::Level,
        }
    }
}

/// The engines that `names` asks for, for values of `width` bytes, without a base. memcpy comes
/// first. Names that [`check_names`] refuses are ignored.
pub fn alone<S: AsRef<str>>(names: &[S], width: usize) -> Vec<Spec> {
    let mut specs = vec![Spec::MEMCPY];
    specs.extend(asked(names, width, false));
    specs
}

/// The same for values that have a base, without memcpy: our levels against it, and the others
/// after XOR with it.
pub fn against<S: AsRef<str>>(names: &[S], width: usize) -> Vec<Spec> {
    asked(names, width, true)
}

fn asked<S: AsRef<str>>(names: &[S], width: usize, on_base: bool) -> Vec<Spec> {
    let is_asked = |by: &dyn Fn(&str) -> bool| names.iter().map(AsRef::as_ref).any(by);
    let ours = LevelName::ALL.into_iter().filter(|level| is_asked(&|name| is_ours(name, *level)));
    let mut kinds: Vec<Kind> = ours.map(Kind::Lmc).collect();
    // Grouping values of one byte would change nothing.
    for width in [None].into_iter().chain(grouped(width).map(Some)) {
        let peers = PEERS.iter().filter(|row| is_asked(&|name| row.is_asked_by(name)));
        kinds.extend(peers.map(|row| Kind::Peer(row.make, width)));
    }
    kinds.into_iter().map(|kind| Spec { kind, on_base }).collect()
}

fn is_ours(name: &str, level: LevelName) -> bool {
    ["ours", "all", "lmc"].contains(&name) || name == full_name("lmc", &level.to_string())
}

/// The engine of one of the names in [`ON_BASE`] and the like, for values of `width` bytes.
pub fn on_base(name: &str, width: usize) -> Result<Spec> {
    let peer = name.strip_prefix("xor+");
    let peer = peer.and_then(|peer| PEERS.iter().find(|row| row.full_name() == peer));
    let kind = match (name, peer) {
        ("fast", _) => Kind::Lmc(LevelName::Fast),
        ("default" | "alone", _) => Kind::Lmc(LevelName::Default),
        ("max", _) => Kind::Lmc(LevelName::Max),
        ("xor+huffman", _) => Kind::Lmc(LevelName::Paper),
        (_, Some(row)) => Kind::Peer(row.make, grouped(width)),
        _ => return Err(unknown(name, &ON_BASE)),
    };
    Ok(Spec { kind, on_base: name != "alone" })
}

/// The names that [`alone`] and [`against`] know: groups, then engines, then single levels of those
/// that have several.
pub fn names() -> Vec<String> {
    let ours = LevelName::ALL.map(|level| ("lmc", level.to_string()));
    let peers = PEERS.iter().map(|row| (row.engine, row.level.to_string()));
    let rows: Vec<(&str, String)> = ours.into_iter().chain(peers).collect();
    let mut engines: Vec<&str> = rows.iter().map(|(engine, _)| *engine).collect();
    engines.dedup();
    let single =
        rows.iter().filter(|(engine, _)| rows.iter().filter(|r| r.0 == *engine).count() > 1);
    let mut names: Vec<String> = GROUPS.map(String::from).to_vec();
    names.push("memcpy".into());
    names.extend(engines.iter().map(ToString::to_string));
    names.extend(single.map(|(engine, level)| full_name(engine, level)));
    names
}

/// Fails on a name that selects nothing.
pub fn check_names<S: AsRef<str>>(asked: &[S]) -> Result<()> {
    let is_known = |name: &str| {
        let is_other = name == "memcpy" || GROUPS.contains(&name);
        is_other
            || LevelName::ALL.into_iter().any(|level| is_ours(name, level))
            || PEERS.iter().any(|row| row.is_asked_by(name))
    };
    match asked.iter().map(AsRef::as_ref).find(|name| !is_known(name)) {
        Some(name) => Err(unknown(name, &names())),
        None => Ok(()),
    }
}

fn unknown<S: AsRef<str>>(name: &str, known: &[S]) -> Box<dyn std::error::Error + Send + Sync> {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    format!("no engine `{name}`: {}", known.join(", ")).into()
}

fn full_name(engine: &str, level: &str) -> String {
    if level.is_empty() { engine.into() } else { format!("{engine}-{level}") }
}

fn grouped(width: usize) -> Option<usize> {
    (width > 1).then_some(width)
}

#[cfg(all(test, feature = "peers"))]
mod tests {
    use super::*;

    /// The table names each compressor as it names itself, and no name selects two rows of it.
    #[test]
    fn rows_are_named_as_their_codecs() {
        let mut seen = Vec::new();
        for row in PEERS {
            let codec = (row.make)().expect("a codec");
            assert_eq!((codec.name(), codec.level().as_str()), (row.engine, row.level));
            assert!(!seen.contains(&row.full_name()), "{}", row.full_name());
            seen.push(row.full_name());
        }
    }
}
