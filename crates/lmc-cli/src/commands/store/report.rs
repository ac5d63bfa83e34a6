//! `lmc report`: the history of a store, as a summary, as JSON, or as a page with charts.

use lmc_analyze::page::Kind;
use lmc_store::{
    CheckOptions, Damage, Figures, Keep, Report, ReportOptions, Retention, SnapshotReport, Store,
    rfc3339,
};
use serde_json::{Value, json};

use super::{signed_text, size_text, stats, time_text, with_store};
use crate::advice;
use crate::args::store::ReportArgs;
use crate::exit::{self, Exit, Failure};
use crate::html::Page;
use crate::printable::Printable;
use crate::signals;
use crate::stdio::{Effect, tell};
use crate::table::{Align, Table, ratio};

/// The version of the JSON.
const SCHEMA: u64 = 1;
/// How many of the newest snapshots the summary shows.
const SHOWN: usize = 10;

/// Reports on the store.
pub fn run(args: &ReportArgs) -> Exit {
    with_store(&args.store, |store| report(store, args))
}

fn report(store: &Store, args: &ReportArgs) -> Result<(), Failure> {
    let page = args.html.as_ref().map(|path| Page::begin(path, args.force)).transpose()?;
    args.keep.warn_of_typos(store)?;
    let rule = args.keep.rule();
    let keep = if rule.is_empty() { Vec::new() } else { vec![rule] };
    let read_percent = if args.read_data { 100 } else { 0 };
    let check = (args.check || args.read_data).then_some(CheckOptions { read_percent });
    let context = signals::context(&args.resources);
    let report = store.with_context(&context).report(&ReportOptions { keep, check })?;
    let mut text = text(&report);
    let is_sound = report.damage.is_empty() && report.runs.values().flatten().all(is_undamaged);
    if let Some(checked) = checked(check.as_ref()).filter(|_| is_sound) {
        text.push_line(format_args!("checked {checked}: no damage"));
    }
    let mut data = Value::Null;
    let name = args.store.location()?.to_string();
    if args.format.json || page.is_some() {
        data = json(&name, &report, check.as_ref());
    }
    if let (Some(path), Some(page)) = (&args.html, page) {
        page.finish(Kind::Report, &name, &data)?;
        text.push_line(format_args!("the page is {}", path.display()));
    }
    let effect = if args.html.is_some() { Effect::Changed } else { Effect::Looked };
    exit::both(tell(effect, text, args.format.json.then_some(data)), verdict(&report))
}

/// What a check looked at.
fn checked(check: Option<&CheckOptions>) -> Option<&'static str> {
    check.map(|check| if check.read_percent == 0 { "names and sizes" } else { "every byte" })
}

fn is_undamaged(own: &SnapshotReport) -> bool {
    own.damage.is_empty()
}

/// Damage is a failure, reported in one line.
fn verdict(report: &Report) -> Result<(), Failure> {
    let hurt = report.runs.values().flatten().filter(|own| !is_undamaged(own)).count();
    if report.damage.is_empty() && hurt == 0 {
        return Ok(());
    }
    Err(Failure::damage(format!(
        "damaged objects: {}; affected snapshots: {hurt}; lmc check says which files, and lmc \
         repair repairs what it can from good copies",
        report.damage.len(),
    )))
}

fn json(store: &str, report: &Report, check: Option<&CheckOptions>) -> Value {
    let runs = report.runs.iter().map(|(run, own)| {
        json!({"run": run, "snapshots": own.iter().map(snapshot_json).collect::<Value>()})
    });
    let retention = report.retention.iter().map(|Retention { keep, forgotten, freed }| {
        json!({"rule": rule_text(keep), "snapshots_removed": forgotten, "freed_bytes": freed})
    });
    let damage = report.damage.iter().map(|Damage { object, error }| {
        let what = advice::of_error(error);
        json!({"object": object, "what": what})
    });
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "store": store,
        "runs": runs.collect::<Value>(),
        "totals": stats::json(&report.stats),
        "retention": retention.collect::<Value>(),
        "damage": damage.collect::<Value>(),
        "checked": checked(check),
    })
}

/// A snapshot; what its manifest says is null if that cannot be read.
fn snapshot_json(own: &SnapshotReport) -> Value {
    let SnapshotReport { name, tags, figures, damage } = own;
    let known = figures.as_ref();
    let damage: Vec<String> = damage.iter().map(advice::of_error).collect();
    json!({
        "id": name.id,
        "step": name.step,
        "time": rfc3339(name.time_ms),
        "tags": tags,
        "files": known.map(|figures| figures.files),
        "bytes": name.size,
        "added_bytes": known.map(|figures| figures.added),
        "whole_bytes": known.map(|figures| figures.whole),
        "depth": known.map(|figures| figures.depth),
        "reused_bytes": known.map(|figures| figures.reused),
        "saved_reuse": known.map(|figures| figures.saved_reuse),
        "saved_delta": known.map(|figures| figures.saved_delta),
        "saved_coding": known.map(|figures| figures.saved_coding),
        "bases": known.map(|figures| &figures.bases),
        "damage": if damage.is_empty() { Value::Null } else { json!(damage) },
    })
}

/// A rule as the options that give it.
fn rule_text(Keep { last, every, tags, within_ms }: &Keep) -> String {
    let mut options = Vec::new();
    options.extend(last.map(|last| format!("--keep-last {last}")));
    options.extend(every.map(|every| format!("--keep-every {every}")));
    options.extend(tags.iter().map(|tag| format!("--keep-tag {}", quoted(tag))));
    options.extend(within_ms.map(|within| format!("--keep-within {}", span_text(within))));
    options.join(" ")
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@%+=".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_string(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A time as an option takes it, in the largest unit without a rest.
fn span_text(time_ms: u64) -> String {
    let seconds = time_ms / 1000;
    let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
    match units.into_iter().find(|(len, _)| seconds > 0 && seconds.is_multiple_of(*len)) {
        Some((len, unit)) => format!("{}{unit}", seconds / len),
        None => format!("{seconds}s"),
    }
}

fn text(report: &Report) -> Printable {
    let mut text = stats::text(&report.stats);
    if report.runs.is_empty() {
        text.push_line("no snapshots");
        return text;
    }
    text.push_line("");
    text.push(runs_table(report));
    text.push_line("");
    text.push(newest_table(report));
    text.push_line("");
    text.push(retention_table(report));
    for Damage { object, error } in &report.damage {
        text.push_line(format_args!("damaged: {object}: {}", advice::of_error(error)));
    }
    for SnapshotReport { name, damage, .. } in report.runs.values().flatten() {
        let (id, run, step) = (name.short_id(), &name.run, name.step);
        for error in damage {
            let error = advice::of_error(error);
            text.push_line(format_args!("affected: {id} {run}@{step} {error}"));
        }
    }
    text
}

/// A line for each run.
fn runs_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("run", Align::Left),
        ("snapshots", Align::Right),
        ("steps", Align::Left),
        ("size", Align::Right),
        ("added", Align::Right),
        ("ratio", Align::Right),
        ("depth", Align::Right),
    ]);
    for (run, own) in &report.runs {
        let known = || own.iter().filter_map(|own| own.figures.as_ref());
        let sum = |of: fn(&Figures) -> u64| known().map(of).fold(0, u64::saturating_add);
        let (size, added) = (sum(|figures| figures.bytes), sum(|figures| figures.added));
        let steps = || own.iter().map(|own| own.name.step);
        let (first, last) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
        table.push(vec![
            run.clone(),
            own.len().to_string(),
            if first == last { first.to_string() } else { format!("{first} to {last}") },
            size_text(size),
            size_text(added),
            ratio(size, added),
            known().map(|figures| figures.depth).max().unwrap_or(0).to_string(),
        ]);
    }
    table
}

/// The newest snapshots of all runs.
fn newest_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("newest", Align::Left),
        ("run", Align::Left),
        ("step", Align::Right),
        ("time", Align::Left),
        ("size", Align::Right),
        ("added", Align::Right),
        ("reuse", Align::Right),
        ("delta", Align::Right),
        ("coding", Align::Right),
        ("restore reads", Align::Right),
        ("depth", Align::Right),
    ]);
    let mut newest: Vec<&SnapshotReport> = report.runs.values().flatten().collect();
    newest.sort_by(|one, other| one.name.cmp(&other.name));
    for SnapshotReport { name, figures, .. } in newest.iter().rev().take(SHOWN).rev() {
        let shown = |of: fn(&Figures) -> String| figures.as_ref().map_or("-".into(), of);
        table.push(vec![
            name.short_id().to_string(),
            name.run.clone(),
            name.step.to_string(),
            time_text(name.time_ms),
            size_text(name.size),
            shown(|figures| size_text(figures.added)),
            shown(|figures| size_text(figures.saved_reuse)),
            shown(|figures| size_text(figures.saved_delta)),
            shown(|figures| signed_text(figures.saved_coding)),
            shown(|figures| size_text(figures.whole)),
            shown(|figures| figures.depth.to_string()),
        ]);
    }
    table
}

/// What each rule would do.
fn retention_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("lmc forget", Align::Left),
        ("forgets", Align::Right),
        ("prune frees", Align::Right),
    ]);
    for Retention { keep, forgotten, freed } in &report.retention {
        let freed = freed.map_or("nothing: damage".into(), size_text);
        table.push(vec![rule_text(keep), forgotten.to_string(), freed]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule is shown as the options that give it, and a tag as a shell reads it.
    #[test]
    fn rules_are_shown_as_options() {
        let tags = ["eval".to_string(), "it's $HOME".to_string()].into();
        let keep = Keep { last: Some(3), every: Some(100), tags, within_ms: Some(604_800_000) };
        let wanted = "--keep-last 3 --keep-every 100 --keep-tag eval --keep-tag 'it'\\''s $HOME' \
                      --keep-within 7d";
        assert_eq!(rule_text(&keep), wanted);
        let spans = [0, 90_000, 3_600_000, 90_000_000].map(span_text);
        assert_eq!(spans, ["0s", "90s", "1h", "25h"]);
    }
}
