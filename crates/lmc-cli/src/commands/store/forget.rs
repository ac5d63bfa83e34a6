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
    let (last, every) = (args.keep_optimizer_last, args.keep_optimizer_every);
    let keep_optimizer = Keep { last, every, ..Keep::default() };
    if keep.is_empty() && keep_optimizer.is_empty() {
        return Err(Failure::usage(
            "say what to keep: --keep-last, --keep-every, --keep-tag, --keep-within, \
             --keep-optimizer-last or --keep-optimizer-every",
        ));
    }
    let plan = if keep.is_empty() {
        let kept = match &args.run {
            Some(run) => store.snapshots_of(run)?,
            None => store.snapshots()?,
        };
        Forgotten { kept, forgotten: Vec::new() }
    } else {
        store.plan_forget(&keep, args.run.as_deref())?
    };
    let mut thinned = Vec::new();
    if !keep_optimizer.is_empty() {
        thinned = store.plan_thin(&plan.kept, &keep_optimizer)?;
    }
    if !args.dry_run {
        store.forget(&plan.forgotten)?;
        for name in &thinned {
            store.thin(name)?;
        }
    }
    if args.json {
        print(format!("{:#}\n", json(&plan, &thinned, args)))
    } else {
        print(text(&plan, &thinned, args))
    }
}

fn json(plan: &Forgotten, thinned: &[SnapshotName], args: &ForgetArgs) -> Value {
    let names = |names: &[SnapshotName]| names.iter().map(name_json).collect::<Value>();
    json!({
        "dry_run": args.dry_run,
        "kept": names(&plan.kept),
        "forgotten": names(&plan.forgotten),
        "thinned": names(thinned),
    })
}

fn text(plan: &Forgotten, thinned: &[SnapshotName], args: &ForgetArgs) -> String {
    let would = if args.dry_run { "would " } else { "" };
    let (forget, thin) = if args.dry_run { ("forget", "thin") } else { ("forgot", "thinned") };
    let line = |what: &str, name: &SnapshotName| {
        let (id, run, time) = (name.short_id(), printable(&name.run), time_text(name.time_ms));
        format!("{would}{what} {id} {run}@{} {time}\n", name.step)
    };
    let gone = plan.forgotten.iter().map(|name| line(forget, name));
    let text: String = gone.chain(thinned.iter().map(|name| line(thin, name))).collect();
    let mut counts = format!("{} kept, {} forgotten", plan.kept.len(), plan.forgotten.len());
    if !thinned.is_empty() {
        counts += &format!(", {} without their optimizer state", thinned.len());
    }
    format!("{text}{counts}; lmc prune frees their space\n")
}
