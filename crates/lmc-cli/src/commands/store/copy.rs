//! `lmc copy`: copies snapshots to another store.

use lmc_store::{Copied, SnapshotName, Store};
use serde_json::{Value, json};

use super::{name_json, open};
use crate::advice;
use crate::args::store::CopyArgs;
use crate::exit::{self, Exit, Failure, Tally};
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{Effect, say, tell};

/// Copies the snapshots that `args` names.
pub fn run(args: &CopyArgs) -> Exit {
    let source = match open(&args.source) {
        Ok(source) => source,
        Err(failure) => return exit::report_at(&args.source, Err(failure)),
    };
    match copy(&source, args) {
        Ok(tally) => tally.exit(),
        Err(failure) => {
            let from_to = format_args!("{} to {}", args.source, args.target);
            exit::report_at(from_to, Err(failure))
        }
    }
}

/// Copies, and counts the snapshots that the target now has and those that were not copied.
fn copy(source: &Store, args: &CopyArgs) -> Result<Tally, Failure> {
    let target = open(&args.target)?;
    let names: Vec<SnapshotName> = match (&args.run, &args.snapshots[..]) {
        (Some(run), _) => source.snapshots_of(run)?,
        (None, []) => source.snapshots()?,
        (None, named) => named.iter().map(|name| source.find(name)).collect::<Result<_, _>>()?,
    };
    let progress = ProgressBar::new(Volume::new(args.quiet || args.format.json, false));
    progress.start(&args.target, None);
    let source = source.with_context(&progress.watching(&signals::context(&args.resources)));
    let copied = source.copy_to(&target, &names);
    progress.finish();
    let copied = copied?;
    let tally = say_left_out(&copied);
    if args.quiet && !args.format.json {
        return Ok(tally);
    }
    let text = Printable::line(format_args!(
        "copied {} snapshots with {} packs; {} snapshots were already there",
        copied.snapshots.len(),
        copied.packs.put,
        copied.there,
    ));
    tell(Effect::Changed, text, args.format.json.then(|| copied_json(&copied)))?;
    Ok(tally)
}

/// Reports damage and the snapshots that were left out.
fn say_left_out(copied: &Copied) -> Tally {
    let mut tally = Tally::default();
    (0..copied.snapshots.len() as u64 + copied.there).for_each(|_| tally.done());
    for object in &copied.healed {
        let message = "was damaged or missing in the target; it was written again";
        say(Printable::line(format_args!("lmc: {object} {message}")));
    }
    for (name, error) in &copied.left_out {
        let failure = Failure::from(error.clone()).at("was not copied");
        let snapshot = format!("snapshot {} {}@{}", name.short_id(), name.run, name.step);
        say(failure.line(snapshot));
        tally.failed(&failure);
    }
    tally
}

fn copied_json(copied: &Copied) -> Value {
    let left_out = |(name, error): &(SnapshotName, lmc_store::Error)| {
        let mut value = name_json(name);
        value["error"] = advice::of_error(error).into();
        value
    };
    json!({
        "snapshots": copied.snapshots.iter().map(name_json).collect::<Value>(),
        "there_already": copied.there,
        "left_out": copied.left_out.iter().map(left_out).collect::<Value>(),
        "packs_put": copied.packs.put,
        "packs_found": copied.packs.found,
        "healed": copied.healed,
    })
}
