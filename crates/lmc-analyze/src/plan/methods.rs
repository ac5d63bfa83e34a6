//! The ways to compress that a plan compares, taken from the rows of the engines.

use crate::engines::Row;

/// Names of the engines that a plan uses, for [`crate::engines::measure`]. What is not in the build
/// or was not measured is left out of the plan.
pub const ENGINES: &[&str] = if lmc_engines::HAS_PEERS {
    &["lmc-fast", "lmc-default", "lmc-max", "zstd-1", "zstd-3"]
} else {
    &["lmc-fast", "lmc-default", "lmc-max"]
};

/// A method before anything is calculated.
pub(super) struct Way {
    pub(super) name: String,
    pub(super) engine: &'static str,
    pub(super) level: String,
    pub(super) delta: bool,
    /// Of its checkpoints.
    pub(super) coded: Speeds,
    /// Of those that are stored whole.
    pub(super) whole: Speeds,
}

/// What an engine reaches.
#[derive(Clone, Copy)]
pub(super) struct Speeds {
    pub(super) ratio: f64,
    /// Bytes per second of a core; None for bytes that are stored as they are.
    pub(super) compress_speed: Option<f64>,
    pub(super) decompress_speed: Option<f64>,
}

/// Engine, level, whether bytes are grouped, and whether it is used for deltas.
type Key = (&'static str, &'static str, bool, bool);

/// The methods in the order of the plan, after the one that compresses nothing.
const METHODS: [Key; 11] = [
    ("lmc", "fast", false, false),
    ("lmc", "default", false, false),
    ("lmc", "max", false, false),
    ("lmc", "fast", false, true),
    ("lmc", "default", false, true),
    ("lmc", "max", false, true),
    ("zstd", "1", false, false),
    ("zstd", "1", true, false),
    ("zstd", "3", false, false),
    ("zstd", "3", true, false),
    ("zstd", "3", true, true),
];

/// The methods that `rows` have, after the one that compresses nothing.
pub(super) fn of_rows(rows: &[Row]) -> Vec<Way> {
    let none = Speeds { ratio: 1.0, compress_speed: None, decompress_speed: None };
    let mut ways = vec![Way {
        name: "none".into(),
        engine: "none",
        level: String::new(),
        delta: false,
        coded: none,
        whole: none,
    }];
    ways.extend(METHODS.into_iter().filter_map(|key| of_key(rows, key)));
    ways
}

fn of_key(rows: &[Row], (engine, level, grouped, delta): Key) -> Option<Way> {
    let find = |grouped, base| {
        let is_it = |row: &&Row| {
            (row.engine, row.level.as_str()) == (engine, level)
                && (row.grouped, row.base) == (grouped, base)
        };
        rows.iter().find(is_it).map(Speeds::of)
    };
    // Where all values have one byte there is nothing to group, and the delta is of raw bytes.
    let grouped = grouped && (!delta || find(true, true).is_some());
    let (coded, whole) = (find(grouped, delta)?, find(grouped, false)?);
    let name = match (engine, grouped, delta) {
        ("lmc", _, false) => format!("lmc {level}"),
        ("lmc", _, true) => format!("lmc {level}, delta"),
        (_, false, false) => format!("{engine} -{level}"),
        (_, true, false) => format!("{engine} -{level}, byte groups"),
        (_, false, true) => format!("XOR, {engine} -{level}, delta"),
        (_, true, true) => format!("XOR, {engine} -{level}, byte groups, delta"),
    };
    Some(Way { name, engine, level: level.into(), delta, coded, whole })
}

impl Speeds {
    /// Speeds by CPU time: a machine that trains or prepares data is rarely idle.
    fn of(row: &Row) -> Self {
        Self {
            ratio: row.ratio,
            compress_speed: Some(row.compress_cpu),
            decompress_speed: Some(row.decompress_cpu),
        }
    }
}
