//! `lmc tag`: gives tags to a snapshot, or takes them away.

use lmc_store::Store;
use serde_json::json;

use super::with_store;
use crate::args::store::TagArgs;
use crate::exit::{Exit, Failure};
use crate::stdio::print;
use crate::table::printable;

/// Changes the tags of the snapshot.
pub fn run(args: &TagArgs) -> Exit {
    with_store(&args.store, |store| tag(store, args))
}

fn tag(store: &Store, args: &TagArgs) -> Result<(), Failure> {
    let name = store.find(&args.snapshot)?;
    for tag in &args.tags {
        store.tag(&name, tag)?;
    }
    for tag in &args.remove {
        store.untag(&name, tag)?;
    }
    let tags = store.tags()?.remove(&name.id).unwrap_or_default();
    if args.json {
        return print(format!("{:#}\n", json!({"id": name.id, "tags": tags})));
    }
    let tags: Vec<String> = tags.iter().map(|tag| printable(tag)).collect();
    let tags = if tags.is_empty() { "no tags".to_string() } else { tags.join(", ") };
    print(format!("{} {}@{}: {tags}\n", name.short_id(), printable(&name.run), name.step))
}
