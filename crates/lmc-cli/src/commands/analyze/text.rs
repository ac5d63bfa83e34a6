//! The report as text: a row for each checkpoint and for each pair of neighbours, means for each
//! distance, and the kinds of layers of the last checkpoint.

use std::collections::BTreeMap;

use lmc_analyze::{Alone, Change, PairRow, Report};

use crate::commands::store::size_text;
use crate::printable::Printable;
use crate::table::{Align, Table};

/// Kinds of layers that are shown, the largest first.
const KINDS_MAX: usize = 40;
/// Names of tensors that are listed for each pair.
const NAMES_MAX: usize = 5;

/// The report in short.
pub fn summary(report: &Report) -> Printable {
    let mut text = checkpoints(report);
    if !report.pairs.is_empty() {
        text.push_line("");
        text.push(pairs(report));
        text.push(shapes(report));
    }
    let far = by_distance(report);
    if far.len() > 1 {
        text.push_line("");
        text.push(distances(&far));
    }
    text.push_line("");
    text.push(kinds(report));
    text
}

fn checkpoints(report: &Report) -> Printable {
    let mut table = Table::new(&[
        ("checkpoint", Align::Left),
        ("step", Align::Right),
        ("files", Align::Right),
        ("size", Align::Right),
        ("tensors", Align::Right),
        ("exponent", Align::Right),
        ("bound", Align::Right),
        ("coded", Align::Right),
        ("ratio", Align::Right),
    ]);
    let mut tensors = vec![0_u64; report.checkpoints.len()];
    for (checkpoint, _) in report.tensors.iter().flat_map(|tensor| &tensor.alone) {
        tensors[*checkpoint] += 1;
    }
    for (row, tensors) in report.checkpoints.iter().zip(tensors) {
        let total = &row.total;
        table.push(vec![
            row.name.clone(),
            row.step.map_or("-".into(), |step| step.to_string()),
            row.files.to_string(),
            size_text(row.bytes),
            tensors.to_string(),
            bits(total.exponent),
            bits(total.bound),
            bits(total.coded),
            ratio(total, total.coded),
        ]);
    }
    let mut text = Printable::line("alone, in bits per value");
    text.push(table);
    text
}

fn pairs(report: &Report) -> Printable {
    let mut table = Table::new(&[
        ("checkpoint", Align::Left),
        ("base", Align::Left),
        ("steps", Align::Right),
        ("covered", Align::Right),
        ("unchanged", Align::Right),
        ("exponents", Align::Right),
        ("xor", Align::Right),
        ("difference", Align::Right),
        ("by exponent", Align::Right),
        ("coded", Align::Right),
        ("alone", Align::Right),
    ]);
    for pair in report.pairs.iter().filter(|pair| pair.distance == 1) {
        let name = |i: usize| report.checkpoints[i].name.clone();
        let steps = pair.steps.map_or("-".into(), |steps| steps.to_string());
        // The base may lack some of the tensors.
        let all = report.checkpoints[pair.checkpoint].total.values.max(1) as f64;
        let covered = format!("{:.0} %", 100.0 * pair.total.values as f64 / all);
        let names = vec![name(pair.checkpoint), name(pair.base), steps, covered];
        table.push(names.into_iter().chain(cells(&pair.total)).collect());
    }
    let mut text = Printable::line("against the one before, in bits per value");
    text.push(table);
    text
}

fn cells(change: &Change) -> [String; 7] {
    [
        percent(change.unchanged),
        percent(change.exponent_changed),
        bits(change.xor),
        bits(change.difference),
        bits(change.difference_given_exponent),
        bits(change.coded),
        bits(change.coded_alone),
    ]
}

/// Tensors that appear, vanish or change their type or shape.
fn shapes(report: &Report) -> Printable {
    let mut text = Printable::default();
    for pair in report.pairs.iter().filter(|pair| pair.distance == 1) {
        let PairRow { checkpoint, base, only_new, only_base, reshaped, .. } = pair;
        let name = |i: &usize| &report.checkpoints[*i].name;
        for (names, whose) in [(only_new, name(checkpoint)), (only_base, name(base))] {
            if !names.is_empty() {
                let listed = names.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>().join(", ");
                let more = names.len().saturating_sub(NAMES_MAX);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                text.push_line(format_args!("only in {whose}: {listed}{more}"));
            }
        }
        for tensor in reshaped.iter().take(NAMES_MAX) {
            let (from, to) = (&tensor.old, &tensor.new);
            text.push_line(format_args!(
                "{}: {} was {from}, is {to}",
                name(checkpoint),
                tensor.name
            ));
        }
        if let Some(more) = reshaped.len().checked_sub(NAMES_MAX).filter(|more| *more > 0) {
            let name = name(checkpoint);
            text.push_line(format_args!("{name}: {more} more of another type or shape"));
        }
    }
    text
}

/// The sums over the pairs of each distance.
#[derive(Default)]
struct Far {
    pairs: u64,
    sums: [f64; 4],
}

fn by_distance(report: &Report) -> BTreeMap<usize, Far> {
    let mut found: BTreeMap<usize, Far> = BTreeMap::new();
    for pair in &report.pairs {
        let Change { unchanged, difference_given_exponent, coded, coded_alone, .. } = pair.total;
        let figures = (unchanged, difference_given_exponent, coded, coded_alone);
        if let (Some(a), Some(b), Some(c), Some(d)) = figures {
            let far = found.entry(pair.distance).or_default();
            far.pairs += 1;
            far.sums.iter_mut().zip([a, b, c, d]).for_each(|(sum, figure)| *sum += figure);
        }
    }
    found
}

fn distances(far: &BTreeMap<usize, Far>) -> Printable {
    let mut table = Table::new(&[
        ("distance", Align::Right),
        ("pairs", Align::Right),
        ("unchanged", Align::Right),
        ("by exponent", Align::Right),
        ("coded", Align::Right),
        ("alone", Align::Right),
    ]);
    for (distance, far) in far {
        let [unchanged, difference, coded, alone] =
            far.sums.map(|sum| Some(sum / far.pairs as f64));
        table.push(vec![
            distance.to_string(),
            far.pairs.to_string(),
            percent(unchanged),
            bits(difference),
            bits(coded),
            bits(alone),
        ]);
    }
    let mut text = Printable::line("by the distance in checkpoints, means over pairs");
    text.push(table);
    text
}

fn kinds(report: &Report) -> Printable {
    let Some((last, row)) = report.checkpoints.iter().enumerate().next_back() else {
        return Printable::default();
    };
    let pair = report.pairs.iter().find(|pair| pair.checkpoint == last && pair.distance == 1);
    let mut table = Table::new(&[
        ("kind", Align::Left),
        ("size", Align::Right),
        ("exponent", Align::Right),
        ("bound", Align::Right),
        ("coded", Align::Right),
        ("unchanged", Align::Right),
        ("by exponent", Align::Right),
        ("against base", Align::Right),
    ]);
    let mut kinds: Vec<(&String, &Alone)> = row.kinds.iter().collect();
    kinds.sort_by_key(|(_, alone)| std::cmp::Reverse(alone.bytes));
    for (kind, alone) in kinds.iter().take(KINDS_MAX) {
        let change = pair.and_then(|pair| pair.kinds.get(*kind));
        let of = |figure: fn(&Change) -> Option<f64>| change.and_then(figure);
        table.push(vec![
            (*kind).clone(),
            size_text(alone.bytes),
            bits(alone.exponent),
            bits(alone.bound),
            bits(alone.coded),
            percent(of(|change| change.unchanged)),
            bits(of(|change| change.difference_given_exponent)),
            bits(of(|change| change.coded)),
        ]);
    }
    let mut text = Printable::line(format_args!("kinds of tensors in {}", row.name));
    text.push(table);
    if let Some(more) = kinds.len().checked_sub(KINDS_MAX).filter(|more| *more > 0) {
        text.push_line(format_args!("and {more} more, which --json and --csv list"));
    }
    text
}

fn bits(figure: Option<f64>) -> String {
    figure.map_or("-".into(), |bits| format!("{bits:.3}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.3} %", 100.0 * share))
}

/// How many times smaller the coded values are.
fn ratio(total: &Alone, coded: Option<f64>) -> String {
    let raw = 8.0 * total.bytes as f64 / total.values.max(1) as f64;
    coded.filter(|coded| *coded > 0.0).map_or("-".into(), |coded| format!("{:.2}", raw / coded))
}
