//! `lmc diff`: how much changed between two checkpoints.

use lmc::{BaseSet, BytesDiff, Change, Diff, Level, TensorDiff};
use serde_json::{Value, json};

use crate::args::files::DiffArgs;
use crate::exit::Failure;
use crate::printable::Printable;
use crate::signals;
use crate::stdio::print;
use crate::table::{Align, Table, shape};

/// Compares the two files that `args` names.
pub fn run(args: &DiffArgs) -> Result<(), Failure> {
    let paths: Vec<_> = [&args.old, &args.new].into_iter().chain(&args.bases.paths).collect();
    let context = signals::context_on(&args.threads);
    if let Some(dir) = [&args.old, &args.new].into_iter().find(|path| path.is_dir()) {
        return Err(Failure::new(format!("{} is a directory; name a file in it", dir.display())));
    }
    let files = BaseSet::open(&paths, &context)?;
    let [old, new, ..] = files.list() else { return Err(Failure::new("two files are needed")) };
    let diff = lmc::diff(old, new, Level::Default, &context)?;
    if args.format.json {
        return print(Printable::json(&diff_json(&diff)));
    }
    print(text(&diff))
}

/// The sum over all tensors that both have.
fn total(diff: &Diff) -> Change {
    diff.both.iter().fold(Change::default(), |sum, tensor| sum.and(tensor.change))
}

pub(super) fn text(diff: &Diff) -> Printable {
    let mut table = Table::new(&[
        ("tensor", Align::Left),
        ("dtype", Align::Left),
        ("shape", Align::Left),
        ("unchanged", Align::Right),
        ("exponents", Align::Right),
        ("largest", Align::Right),
        ("bits", Align::Right),
    ]);
    for tensor in &diff.both {
        let TensorDiff { name, dtype, shape: dimensions, change } = tensor;
        let name = [name.clone(), dtype.label().to_string(), shape(dimensions)];
        table.push(name.into_iter().chain(cells(change)).collect());
    }
    let sum = total(diff);
    let name = ["total".to_string(), String::new(), String::new()];
    table.push(name.into_iter().chain(cells(&sum)).collect());
    let mut text = if diff.both.is_empty() { Printable::default() } else { table.into() };
    for (name, old, new) in &diff.reshaped {
        text.push_line(format_args!("{name}: was {old}, is {new}"));
    }
    for (names, which) in [(&diff.only_old, "old"), (&diff.only_new, "new")] {
        for name in names {
            text.push_line(format_args!("{name}: only in the {which} one"));
        }
    }
    if let Some(bytes) = &diff.bytes {
        text.push_line(bytes_text(bytes));
        let has_tensors = !diff.only_old.is_empty() || !diff.only_new.is_empty();
        if !has_tensors {
            return text;
        }
    }
    let (both, other) = (diff.both.len(), diff.reshaped.len());
    text.push_line(format_args!(
        "{both} tensors in both, {other} of another type or shape, {} only in the old one, {} only \
         in the new one; {} values in {} bytes",
        diff.only_old.len(),
        diff.only_new.len(),
        sum.values,
        sum.coded_len,
    ));
    text
}

/// How two files differ that have no tensors in common.
fn bytes_text(bytes: &BytesDiff) -> String {
    let BytesDiff { old_len, new_len, same, first } = bytes;
    let Some(first) = first else { return format!("the same {new_len} bytes") };
    let common = old_len.min(new_len);
    let sizes = match old_len == new_len {
        true => format!("{new_len} bytes each"),
        false => format!("{old_len} bytes and {new_len}"),
    };
    let differing = common - same;
    format!(
        "not both have tensors with names, so bytes are compared: {sizes}, {differing} of the \
         first {common} differ, from byte {first} on"
    )
}

fn bytes_json(bytes: &BytesDiff) -> Value {
    json!({
        "old_bytes": bytes.old_len,
        "new_bytes": bytes.new_len,
        "same_bytes": bytes.same,
        "first_difference": bytes.first,
    })
}

fn cells(change: &Change) -> [String; 4] {
    let percent = |count: u64| match change.values {
        0 => "-".to_string(),
        values => format!("{:.3} %", 100.0 * count as f64 / values as f64),
    };
    let exponents = change.exponents.map_or("-".to_string(), percent);
    [percent(change.unchanged), exponents, format!("{:.3e}", change.largest), bits_text(change)]
}

fn bits_text(change: &Change) -> String {
    bits(change).map_or("-".into(), |bits| format!("{bits:.3}"))
}

/// Bits per value.
fn bits(change: &Change) -> Option<f64> {
    (change.values > 0).then(|| 8.0 * change.coded_len as f64 / change.values as f64)
}

fn change_json(change: &Change) -> Value {
    json!({
        "values": change.values,
        "unchanged": change.unchanged,
        "exponents_changed": change.exponents,
        "largest_relative_change": change.largest,
        "coded_bytes": change.coded_len,
        "bits_a_value": bits(change),
    })
}

pub(super) fn diff_json(diff: &Diff) -> Value {
    let tensor = |tensor: &TensorDiff| {
        let mut value = change_json(&tensor.change);
        value["name"] = tensor.name.clone().into();
        value["dtype"] = tensor.dtype.label().into();
        value["shape"] = tensor.shape.clone().into();
        value
    };
    let reshaped =
        |(name, old, new): &(String, String, String)| json!({"name": name, "old": old, "new": new});
    json!({
        "tensors": diff.both.iter().map(tensor).collect::<Vec<_>>(),
        "reshaped": diff.reshaped.iter().map(reshaped).collect::<Vec<_>>(),
        "only_old": diff.only_old,
        "only_new": diff.only_new,
        "total": change_json(&total(diff)),
        "bytes": diff.bytes.as_ref().map(bytes_json),
    })
}
