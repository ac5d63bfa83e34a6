//! `lmc tag`: adds tags to a snapshot, or removes them.

use lmc_store::Store;
use serde_json::json;

use super::with_store;
use crate::args::store::TagArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Changes the tags of the snapshot.
pub fn run(args: &TagArgs) -> Exit {
    with_store(&args.store, |store| tag(store, args))
}

fn tag(store: &Store, args: &TagArgs) -> Result<(), Failure> {
    let name = store.find(&args.snapshot.name)?;
    for tag in &args.tags {
        store.tag(&name, tag)?;
    }
    for tag in &args.remove {
        store.untag(&name, tag)?;
    }
    let tags = store.tags()?.remove(&name.id).unwrap_or_default();
    let listed: Vec<&str> = tags.iter().map(String::as_str).collect();
    let listed = if tags.is_empty() { "no tags".to_string() } else { listed.join(", ") };
    let (id, run, step) = (name.short_id(), &name.run, name.step);
    let text = Printable::line(format_args!("{id} {run}@{step}: {listed}"));
    tell(Effect::Changed, text, args.format.json.then(|| json!({"id": name.id, "tags": tags})))
}
