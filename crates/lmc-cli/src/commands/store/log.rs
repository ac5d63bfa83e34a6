//! `lmc log`: the snapshots of a store, in the order in which they were saved.

use std::collections::{BTreeMap, BTreeSet};

use lmc_store::{SnapshotName, Store};
use serde_json::{Value, json};

use super::{name_json, size_text, time_text, with_store};
use crate::args::store::LogArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};
use crate::table::{Align, Table, ratio};

type Tags = BTreeMap<String, BTreeSet<String>>;

/// Lists the snapshots that `args` asks for.
pub fn run(args: &LogArgs) -> Exit {
    with_store(&args.store, |store| list(store, args))
}

fn list(store: &Store, args: &LogArgs) -> Result<(), Failure> {
    let mut names = match &args.run {
        Some(run) => store.snapshots_of(run)?,
        None => store.snapshots()?,
    };
    let tags = store.tags()?;
    if let Some(tag) = &args.tag {
        names.retain(|name| tags.get(&name.id).is_some_and(|own| own.contains(tag)));
    }
    let skipped = args.count.map_or(0, |count| names.len().saturating_sub(count));
    names.drain(..skipped);
    let json = || names.iter().map(|name| json(name, &tags)).collect::<Value>();
    tell(Effect::Looked, text(&names, &tags), args.format.json.then(json))
}

fn json(name: &SnapshotName, tags: &Tags) -> Value {
    let mut value = name_json(name);
    value["tags"] = json!(tags.get(&name.id).cloned().unwrap_or_default());
    value
}

fn text(names: &[SnapshotName], tags: &Tags) -> Printable {
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("run", Align::Left),
        ("step", Align::Right),
        ("time", Align::Left),
        ("size", Align::Right),
        ("added", Align::Right),
        ("ratio", Align::Right),
        ("tags", Align::Left),
    ]);
    for name in names {
        let own: Vec<&str> = tags.get(&name.id).into_iter().flatten().map(String::as_str).collect();
        table.push(vec![
            name.short_id().to_string(),
            name.run.clone(),
            name.step.to_string(),
            time_text(name.time_ms),
            size_text(name.size),
            size_text(name.added),
            ratio(name.size, name.added),
            own.join(", "),
        ]);
    }
    if names.is_empty() { Printable::line("no snapshots") } else { table.into() }
}
