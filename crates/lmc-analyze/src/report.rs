//! What was found, as it is written as JSON: `docs/analyze.md` has the schema.

use crate::engines::Engines;
use crate::figures::{Alone, Change};
use crate::plan::Plan;
use lmc::Error;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The version of the JSON.
const SCHEMA: u32 = 1;
/// Digits after the point of a number in the JSON.
const DIGITS: f64 = 1e9;

/// What was found in a series.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The name of the series.
    pub title: String,
    /// Whether everything was read and coded.
    pub is_all: bool,
    /// The checkpoints in their order.
    pub checkpoints: Vec<CheckpointRow>,
    /// Checkpoints and their bases.
    pub pairs: Vec<PairRow>,
    /// All tensors, in the order in which they first appear.
    pub tensors: Vec<TensorRow>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
    /// Other compressors beside lmc.
    pub engines: Option<Engines>,
    /// How often a checkpoint can be saved.
    pub plan: Option<Plan>,
}

/// A checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointRow {
    /// Its name.
    pub name: String,
    /// The step of training, if it is known.
    pub step: Option<u64>,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Those that are not in tensors.
    pub other_bytes: u64,
    /// All tensors.
    pub total: Alone,
    /// By kind of layer.
    pub kinds: BTreeMap<String, Alone>,
    /// By element type.
    pub dtypes: BTreeMap<String, Alone>,
}

/// A checkpoint and an earlier one, its base.
#[derive(Clone, Debug, Serialize)]
pub struct PairRow {
    /// The place of the checkpoint in the list.
    pub checkpoint: usize,
    /// That of its base.
    pub base: usize,
    /// How many checkpoints lie between them, and one.
    pub distance: usize,
    /// How many steps lie between them, if that is known.
    pub steps: Option<i64>,
    /// Whether a part of each tensor was compared.
    pub sampled: bool,
    /// All tensors that both have.
    pub total: Change,
    /// By kind of layer.
    pub kinds: BTreeMap<String, Change>,
    /// By element type.
    pub dtypes: BTreeMap<String, Change>,
    /// Tensors that the base does not have.
    pub only_new: Vec<String>,
    /// Those that only the base has.
    pub only_base: Vec<String>,
    /// Those that both have, with another type or shape.
    pub reshaped: Vec<Reshaped>,
}

/// A tensor that changed its type or shape.
#[derive(Clone, Debug, Serialize)]
pub struct Reshaped {
    /// Its name.
    pub name: String,
    /// Its type and shape in the base.
    pub old: String,
    /// Its type and shape now.
    pub new: String,
}

/// A tensor of a series.
#[derive(Clone, Debug)]
pub struct TensorRow {
    /// Its name.
    pub name: String,
    /// The kind of layer.
    pub kind: String,
    /// Its element type where it first appears.
    pub dtype: String,
    /// Its shape there.
    pub shape: Vec<u64>,
    /// The checkpoints that have it.
    pub alone: Vec<(usize, Alone)>,
    /// The pairs of neighbours in which it was compared.
    pub changes: Vec<(usize, Change)>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Where it is.
    pub path: String,
    /// Why it was left out.
    pub why: String,
}

impl Skipped {
    /// `path`, or what else could not be measured, and why.
    pub fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self { path: path.into(), why: why.into() }
    }

    /// Adds one to a list, unless it is there.
    pub(crate) fn note(list: &mut Vec<Self>, skipped: Self) {
        if !list.contains(&skipped) {
            list.push(skipped);
        }
    }

    pub(crate) fn of_error(path: &str, error: &Error) -> Self {
        // The library names the file that it reads as a base.
        let text = error.to_string();
        let name = path.rsplit('/').next().unwrap_or(path);
        let places = [path, name].map(|place| [format!("base {place}: "), format!("{place}: ")]);
        let mut why = text.as_str();
        while let Some(rest) = places.iter().flatten().find_map(|place| why.strip_prefix(place)) {
            why = rest;
        }
        Self::new(path, why)
    }
}

impl Report {
    /// Everything but the tensors.
    pub fn fields(&self) -> Map<String, Value> {
        let value = json!({
            "schema": SCHEMA,
            "version": env!("CARGO_PKG_VERSION"),
            "title": self.title,
            "level": "default",
            "all": self.is_all,
            "checkpoints": self.checkpoints,
            "pairs": self.pairs,
            "skipped": self.skipped,
            "engines": self.engines,
            "plan": self.plan,
        });
        match rounded(value) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    }

    /// Each tensor.
    pub fn tensors(&self) -> impl Iterator<Item = Value> + '_ {
        self.tensors.iter().map(|tensor| {
            rounded(json!({
                "name": tensor.name,
                "kind": tensor.kind,
                "dtype": tensor.dtype,
                "shape": tensor.shape,
                "alone": spread(&tensor.alone, self.checkpoints.len()),
                "changes": spread(&tensor.changes, self.pairs.len()),
            }))
        })
    }

    /// Everything.
    pub fn to_json(&self) -> Value {
        let mut fields = self.fields();
        fields.insert("tensors".to_string(), self.tensors().collect());
        fields.into()
    }
}

/// A list of `count` places, with nulls where there is nothing.
fn spread<T>(known: &[(usize, T)], count: usize) -> Vec<Option<&T>> {
    let mut all = vec![None; count];
    known.iter().for_each(|(i, value)| all[*i] = Some(value));
    all
}

/// The same with as many digits as a reader can use.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(real) => ((real * DIGITS).round() / DIGITS).into(),
            None => number.into(),
        },
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, rounded(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place that an error names twice is named once.
    #[test]
    fn places_are_named_once() {
        let error = Error::corrupt("is cut off").at("base b").at("base a/b");
        assert_eq!(Skipped::of_error("a/b", &error).why, "is cut off");
        let other = Skipped::of_error("a", &Error::corrupt("is cut off").at("base b"));
        assert_eq!(other.why, "base b: is cut off");
    }

    /// Places without figures are null, and numbers have nine digits after the point.
    #[test]
    fn json_of_a_tensor() {
        let alone = Alone { values: 1, bound: Some(1.0 / 3.0), ..Alone::default() };
        let json = rounded(json!(spread(&[(0, alone)], 2)));
        assert_eq!(json[0]["bound"], json!(0.333_333_333));
        assert_eq!(json[1], Value::Null);
        assert!(json[0].get("exponents").is_none());
    }
}
