//! `lmc prune`: removes forgotten snapshots and unreferenced objects.

use lmc_store::{PackName, PruneOptions, Pruned, Store};
use serde_json::{Value, json};

use super::{name_json, size_text, with_store};
use crate::args::store::PruneArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Prunes the store.
pub fn run(args: &PruneArgs) -> Exit {
    with_store(&args.store, |store| prune(store, args))
}

fn prune(store: &Store, args: &PruneArgs) -> Result<(), Failure> {
    let PruneArgs { grace: grace_ms, dry_run, allow_empty, .. } = *args;
    let options = PruneOptions { grace_ms, dry_run, allow_empty };
    let pruned = store.prune(&options)?;
    let json = args.format.json.then(|| json(&pruned, args));
    tell(Effect::unless(args.dry_run), text(&pruned, args), json)
}

fn json(pruned: &Pruned, args: &PruneArgs) -> Value {
    json!({
        "dry_run": args.dry_run,
        "snapshots": pruned.snapshots.iter().map(name_json).collect::<Value>(),
        "packs": pruned.packs.iter().map(PackName::object).collect::<Value>(),
        "bytes": pruned.bytes,
        "young_bytes": pruned.bytes_young,
        "leftovers": pruned.leftovers,
        "leases": pruned.leases,
        "held_by_deltas_bytes": pruned.bytes_bases,
        "held_in_packs_bytes": pruned.bytes_beside,
        "unreadable": pruned.unreadable,
        "too_long": pruned.too_long,
    })
}

fn text(pruned: &Pruned, args: &PruneArgs) -> Printable {
    let what = if args.dry_run { "would remove" } else { "removed" };
    let mut text = Printable::line(format_args!(
        "{what} {} snapshots and {} packs, {}",
        pruned.snapshots.len(),
        pruned.packs.len(),
        size_text(pruned.bytes),
    ));
    if pruned.bytes_young > 0 {
        let size = size_text(pruned.bytes_young);
        text.push_line(format_args!(
            "{size} of unreferenced data are too recent; a later prune removes them"
        ));
        if pruned.leases > 0 {
            let count = pruned.leases;
            text.push_line(format_args!(
                "{count} saves are in progress, or were killed within the grace period"
            ));
        }
    }
    if pruned.bytes_bases > 0 || pruned.bytes_beside > 0 {
        let (bases, beside) = (size_text(pruned.bytes_bases), size_text(pruned.bytes_beside));
        text.push_line(format_args!(
            "kept: {bases} that are only bases of snapshots that are kept, {beside} in the same \
             packs as needed data; to free them, run lmc rebase on those snapshots, then prune"
        ));
    }
    for object in &pruned.unreadable {
        text.push_line(format_args!(
            "{object} is not a complete manifest: it may name any pack, so none is removed until \
             lmc repair --from a copy brings it back, or it is moved out of the store"
        ));
    }
    for object in &pruned.too_long {
        text.push_line(format_args!(
            "{object} is too long to be a manifest: it may name any pack, so none is removed until \
             it is shortened, or moved out of the store"
        ));
    }
    text
}
