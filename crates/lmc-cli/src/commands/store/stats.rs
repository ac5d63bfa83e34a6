//! `lmc stats`: what a store holds, and how much was saved in which way.

use lmc_store::{Stats, Store};
use serde_json::json;

use super::{signed_text, with_store};
use crate::args::store::StatsArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};
use crate::table::{Align, Table, ratio};

/// Counts everything.
pub fn run(args: &StatsArgs) -> Exit {
    with_store(&args.store, |store| show(store, args))
}

fn show(store: &Store, args: &StatsArgs) -> Result<(), Failure> {
    let stats = store.stats()?;
    tell(Effect::Looked, text(&stats), args.format.json.then(|| json(&stats)))
}

/// The sums as JSON.
pub(super) fn json(stats: &Stats) -> serde_json::Value {
    json!({
        "snapshots": stats.snapshots,
        "files": stats.files,
        "logical_bytes": stats.logical,
        "archive_bytes": stats.archives,
        "bases_only_bytes": stats.bases_only,
        "saved_by_reuse_bytes": stats.saved_reuse,
        "saved_by_delta_bytes": stats.saved_delta,
        "saved_by_coding_bytes": stats.saved_coding,
        "packs": stats.packs,
        "pack_bytes": stats.pack_bytes,
        "unneeded_bytes": stats.unneeded_bytes,
        "manifest_bytes": stats.manifest_bytes,
        "whole_archives": stats.whole,
        "delta_archives": stats.deltas,
        "chain_depth_max": stats.depth_max,
    })
}

/// The sums as a table, and a line.
pub(super) fn text(stats: &Stats) -> Printable {
    let share = |bytes: i64| match stats.logical {
        0 => "-".to_string(),
        logical => format!("{:.1} %", 100.0 * bytes as f64 / logical as f64),
    };
    let mut table =
        Table::new(&[("", Align::Left), ("size", Align::Right), ("of all", Align::Right)]);
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let rows = [
        ("files of all snapshots", signed(stats.logical)),
        ("saved: same as another file", signed(stats.saved_reuse)),
        ("saved: coded against another", signed(stats.saved_delta)),
        ("saved: coded alone", stats.saved_coding),
        ("stored archives", signed(stats.archives)),
        ("only needed as bases", signed(stats.bases_only)),
        ("packs", signed(stats.pack_bytes)),
        ("unreferenced packs", signed(stats.unneeded_bytes)),
        ("manifests", signed(stats.manifest_bytes)),
    ];
    for (label, bytes) in rows {
        table.push(vec![label.to_string(), signed_text(bytes), share(bytes)]);
    }
    let mut text = Printable::from(table);
    text.push_line(format_args!(
        "{} snapshots of {} files in {} packs, {}x; {} archives without a base, {} deltas, up to \
         {} deep",
        stats.snapshots,
        stats.files,
        stats.packs,
        ratio(stats.logical, stats.pack_bytes.saturating_add(stats.manifest_bytes)),
        stats.whole,
        stats.deltas,
        stats.depth_max,
    ));
    text
}
