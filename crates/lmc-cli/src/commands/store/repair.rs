//! `lmc repair`: repairs everything that a good copy can repair.

use lmc_store::{PackName, Repaired, Store};
use serde_json::{Value, json};

use lmc_store::storage::Location;

use super::{check, open, with_store};
use crate::advice;
use crate::args::store::RepairArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::signals;
use crate::stdio::{Effect, say, tell};

/// Repairs the store.
pub fn run(args: &RepairArgs) -> Exit {
    with_store(&args.store, |store| repair(store, args))
}

fn repair(store: &Store, args: &RepairArgs) -> Result<(), Failure> {
    let open_other = |from: &Location| open(from).map_err(|failure| failure.at(from));
    let other = args.from.as_ref().map(open_other).transpose()?;
    let store = store.with_context(&signals::context(&args.resources));
    let repaired = store.repair(other.as_ref(), args.dry_run)?;
    let text = text(&repaired, args.dry_run);
    for (object, error) in &repaired.refused {
        let message = "does not hold what it claims in the other store, and was not used";
        let error = advice::of_error(error);
        say(Printable::line(format_args!("lmc: {object} {message}: {error}")));
    }
    let told = tell(Effect::unless(args.dry_run), text, args.format.json.then(|| json(&repaired)));
    exit::both(told, verdict(&repaired, args.dry_run))
}

/// A manifest that was only moved away still counts as lost.
fn verdict(repaired: &Repaired, dry_run: bool) -> Result<(), Failure> {
    if !repaired.moved.is_empty() {
        return Err(Failure::damage(match dry_run {
            true => "some snapshots would be moved to damaged/ and no longer be in the log",
            false => "some snapshots are in damaged/ and no longer in the log",
        }));
    }
    if !repaired.refused.is_empty() {
        return Err(Failure::damage(
            "some snapshots of the other store do not hold what they claim",
        ));
    }
    check::verdict(&repaired.after)
}

fn json(repaired: &Repaired) -> Value {
    let packs = |packs: &[PackName]| packs.iter().map(PackName::object).collect::<Value>();
    let refused = repaired.refused.iter().map(|(object, _)| object.as_str());
    json!({
        "repaired_packs": packs(&repaired.packs),
        "lost_packs": packs(&repaired.lost),
        "repaired_manifests": repaired.manifests,
        "moved_manifests": repaired.moved,
        "refused_manifests": refused.collect::<Value>(),
        "after": check::checked_json(&repaired.after),
    })
}

fn text(repaired: &Repaired, dry_run: bool) -> Printable {
    let would = if dry_run { "would be " } else { "" };
    let mut text = Printable::default();
    let mut lines = |what: &str, objects: Vec<String>| {
        for object in objects {
            text.push_line(format_args!("{what}: {object}"));
        }
    };
    let objects = |packs: &[PackName]| packs.iter().map(PackName::object).collect();
    lines(&format!("{would}repaired"), repaired.manifests.clone());
    lines(&format!("{would}moved to damaged/"), repaired.moved.clone());
    lines(&format!("{would}repaired"), objects(&repaired.packs));
    lines("no good copy", objects(&repaired.lost));
    text.push(check::text(&repaired.after));
    text
}
