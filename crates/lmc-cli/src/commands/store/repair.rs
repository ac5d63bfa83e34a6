//! `lmc repair`: puts right what copies can put right.

use lmc_store::{PackName, Repaired, Store};
use serde_json::{Value, json};

use super::{check, open, with_store};
use crate::args::store::RepairArgs;
use crate::exit::{Exit, Failure};
use crate::stdio::print;
use crate::table::printable;

/// Repairs the store.
pub fn run(args: &RepairArgs) -> Exit {
    with_store(&args.store, |store| repair(store, args))
}

fn repair(store: &Store, args: &RepairArgs) -> Result<(), Failure> {
    let open_other = |from: &str| open(from).map_err(|failure| failure.at(from));
    let other = args.from.as_deref().map(open_other).transpose()?;
    let repaired = store.repair(other.as_ref(), args.dry_run, usize::from(args.threads))?;
    if args.json {
        print(format!("{:#}\n", json(&repaired)))?;
    } else {
        print(text(&repaired, args.dry_run))?;
    }
    for (object, error) in &repaired.refused {
        let message = "is not what it says it is in the other store, and was not taken";
        eprintln!("{}", printable(&format!("lmc: {object} {message}: {error}")));
    }
    // What was only moved away is lost all the same.
    if !repaired.moved.is_empty() {
        return Err(Failure::damage("some snapshots are in damaged/ and not in the log any more"));
    }
    if !repaired.refused.is_empty() {
        return Err(Failure::damage("some snapshots of the other store are not what they say"));
    }
    check::verdict(&repaired.after)
}

fn json(repaired: &Repaired) -> Value {
    let packs = |packs: &[PackName]| packs.iter().map(PackName::object).collect::<Value>();
    json!({
        "repaired_packs": packs(&repaired.packs),
        "lost_packs": packs(&repaired.lost),
        "repaired_manifests": repaired.manifests,
        "moved_manifests": repaired.moved,
        "refused_manifests": repaired.refused.iter().map(|(object, _)| object.as_str()).collect::<Value>(),
        "after": check::checked_json(&repaired.after),
    })
}

fn text(repaired: &Repaired, dry_run: bool) -> String {
    let would = if dry_run { "would be " } else { "" };
    let mut text = String::new();
    let mut lines = |what: &str, objects: Vec<String>| {
        for object in objects {
            text += &printable(&format!("{what}: {object}"));
            text.push('\n');
        }
    };
    let objects = |packs: &[PackName]| packs.iter().map(PackName::object).collect();
    lines(&format!("{would}repaired"), repaired.manifests.clone());
    lines(&format!("{would}moved to damaged/"), repaired.moved.clone());
    lines(&format!("{would}repaired"), objects(&repaired.packs));
    lines("no good copy", objects(&repaired.lost));
    text + &check::text(&repaired.after)
}
