//! `lmc forget`: marks snapshots that no rule keeps.

use lmc_store::{Forgotten, Keep, SnapshotName, Store};
use serde_json::{Value, json};

use super::{name_json, time_text, with_store};
use crate::args::store::ForgetArgs;
use crate::exit::{Exit, Failure};
use crate::stdio::print;
use crate::table::printable;

/// Forgets what `args` does not keep.
pub fn run(args: &ForgetArgs) -> Exit {
    with_store(&args.store, |store| forget(store, args))
}

fn forget(store: &Store, args: &ForgetArgs) -> Result<(), Failure> {
    let keep = Keep {
        last: args.keep_last,
        every: args.keep_every,
        tags: args.keep_tag.iter().cloned().collect(),
        within_ms: args.keep_within,
    };
    if keep.is_empty() {
        return Err(Failure::usage(
            "say what to keep: --keep-last, --keep-every, --keep-tag or \
                                   --keep-within",
        ));
    }
    let plan = store.plan_forget(&keep, args.run.as_deref())?;
    if !args.dry_run {
        store.forget(&plan.forgotten)?;
    }
    if args.json { print(format!("{:#}\n", json(&plan, args))) } else { print(text(&plan, args)) }
}

fn json(plan: &Forgotten, args: &ForgetArgs) -> Value {
    let names = |names: &[SnapshotName]| names.iter().map(name_json).collect::<Value>();
    json!({
        "dry_run": args.dry_run,
        "kept": names(&plan.kept),
        "forgotten": names(&plan.forgotten),
    })
}

fn text(plan: &Forgotten, args: &ForgetArgs) -> String {
    let what = if args.dry_run { "would forget" } else { "forgot" };
    let mut text = String::new();
    for name in &plan.forgotten {
        let (id, run, time) = (name.short_id(), printable(&name.run), time_text(name.time_ms));
        text += &format!("{what} {id} {run}@{} {time}\n", name.step);
    }
    let (kept, gone) = (plan.kept.len(), plan.forgotten.len());
    text + &format!("{kept} kept, {gone} forgotten; lmc prune frees their space\n")
}
