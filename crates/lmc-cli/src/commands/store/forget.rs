//! `lmc forget`: marks snapshots that no rule keeps.

use lmc_store::{ErrorKind, Forgotten, Keep, SnapshotName, Store, Thinned};
use serde_json::{Value, json};

use super::{name_json, time_text, with_store};
use crate::args::store::ForgetArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::stdio::{Effect, tell};

/// Forgets the snapshots that `args` does not keep.
pub fn run(args: &ForgetArgs) -> Exit {
    with_store(&args.store, |store| forget(store, args))
}

fn forget(store: &Store, args: &ForgetArgs) -> Result<(), Failure> {
    let keep = args.keep.rule();
    let (last, every) = (args.keep_optimizer_last, args.keep_optimizer_every);
    let keep_optimizer = Keep { last, every, ..Keep::default() };
    if keep.is_empty() && keep_optimizer.is_empty() {
        return Err(Failure::usage(
            "say what to keep: --keep-last, --keep-every, --keep-tag, --keep-within, \
             --keep-optimizer-last or --keep-optimizer-every",
        ));
    }
    let mut plan = if keep.is_empty() {
        let kept = match &args.run {
            Some(run) => store.snapshots_of(run)?,
            None => store.snapshots()?,
        };
        Forgotten { kept, forgotten: Vec::new() }
    } else {
        store.plan_forget(&keep, args.run.as_deref())?
    };
    warn_of_typos(store, args, &plan)?;
    let mut thinned = Vec::new();
    if !keep_optimizer.is_empty() {
        thinned = store.plan_thin(&plan.kept, &keep_optimizer)?;
    }
    if !args.dry_run {
        plan = store.forget_planned(plan, &keep)?;
        for thinned in &mut thinned {
            thinned.name = store.thin(&thinned.name)?;
        }
    }
    let text = text(&plan, &thinned, args);
    let json = args.format.json.then(|| json(&plan, &thinned, args));
    tell(Effect::unless(args.dry_run), text, json)
}

/// The same for a run that does not exist as for such a tag.
fn warn_of_typos(store: &Store, args: &ForgetArgs, plan: &Forgotten) -> Result<(), Failure> {
    if let Some(run) = &args.run
        && plan.kept.is_empty()
    {
        let message = format!("no snapshot of run {run}; lmc log shows what there is");
        return Err(lmc_store::Error::new(ErrorKind::NotFound, message).into());
    }
    args.keep.warn_of_typos(store)
}

fn json(plan: &Forgotten, thinned: &[Thinned], args: &ForgetArgs) -> Value {
    let thinned = thinned.iter().map(|thinned| {
        let mut value = name_json(&thinned.name);
        value["files"] = thinned.files.iter().map(|path| path.to_string()).collect();
        value
    });
    let names = |names: &[SnapshotName]| names.iter().map(name_json).collect::<Value>();
    json!({
        "dry_run": args.dry_run,
        "kept": names(&plan.kept),
        "forgotten": names(&plan.forgotten),
        "thinned": thinned.collect::<Value>(),
    })
}

fn text(plan: &Forgotten, thinned: &[Thinned], args: &ForgetArgs) -> Printable {
    let would = if args.dry_run { "would " } else { "" };
    let (forget, thin) = if args.dry_run { ("forget", "thin") } else { ("forgot", "thinned") };
    let line = |what: &str, name: &SnapshotName| {
        let (id, run, time) = (name.short_id(), &name.run, time_text(name.time_ms));
        format!("{would}{what} {id} {run}@{} {time}", name.step)
    };
    let mut text = Printable::default();
    for name in &plan.forgotten {
        text.push_line(line(forget, name));
    }
    for Thinned { name, files, .. } in thinned {
        let files: Vec<String> = files.iter().map(ToString::to_string).collect();
        text.push_line(format_args!("{}: without {}", line(thin, name), files.join(", ")));
    }
    let to_forget = if args.dry_run { "to forget" } else { "forgotten" };
    let mut counts = format!("{} kept, {} {to_forget}", plan.kept.len(), plan.forgotten.len());
    if !thinned.is_empty() {
        counts += &format!(", {} without their optimizer state", thinned.len());
    }
    if !args.dry_run && plan.forgotten.len() + thinned.len() > 0 {
        counts += "; lmc prune frees what only they need";
    }
    text.push_line(counts);
    text
}
