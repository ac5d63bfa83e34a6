//! `lmc copy`: snapshots to another store.

use lmc_store::{SnapshotName, Store};
use serde_json::{Value, json};

use super::{name_json, open};
use crate::args::store::CopyArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::progress::{Progress, Volume};
use crate::stdio::{Effect, tell};

/// Copies what `args` names.
pub fn run(args: &CopyArgs) -> Exit {
    let source = match open(&args.source) {
        Ok(source) => source,
        Err(failure) => return exit::report_at(&args.source, Err(failure)),
    };
    let from_to = format_args!("{} to {}", args.source, args.target);
    exit::report_at(from_to, copy(&source, args))
}

fn copy(source: &Store, args: &CopyArgs) -> Result<(), Failure> {
    let target = open(&args.target)?;
    let names: Vec<SnapshotName> = match (&args.run, &args.snapshots[..]) {
        (Some(run), _) => source.snapshots_of(run)?,
        (None, []) => source.snapshots()?,
        (None, named) => named.iter().map(|name| source.find(name)).collect::<Result<_, _>>()?,
    };
    let mut progress = Progress::new(Volume::new(args.quiet || args.json, false));
    progress.start(&args.target, None);
    let copied = source.copy_to(&target, &names, &|bytes| progress.add(bytes));
    progress.finish();
    let copied = copied?;
    if args.quiet && !args.json {
        return Ok(());
    }
    let json = || {
        json!({
            "snapshots": copied.snapshots.iter().map(name_json).collect::<Value>(),
            "there_already": copied.there,
            "packs_put": copied.packs.put,
            "packs_found": copied.packs.found,
        })
    };
    let text = Printable::line(format_args!(
        "copied {} snapshots with {} packs; {} snapshots were there already",
        copied.snapshots.len(),
        copied.packs.put,
        copied.there,
    ));
    tell(Effect::Changed, text, args.json.then(json))
}
