//! `lmc check`: looks for damage.

use lmc_store::{CheckOptions, CheckReport, Damage, Hurt, Store};
use serde_json::{Value, json};

use super::{size_text, with_store};
use crate::advice;
use crate::args::store::CheckArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::signals;
use crate::stdio::{Effect, tell};

/// Checks the store.
pub fn run(args: &CheckArgs) -> Exit {
    with_store(&args.store, |store| check(store, args))
}

fn check(store: &Store, args: &CheckArgs) -> Result<(), Failure> {
    let read_percent = args.read_data_subset.unwrap_or(if args.read_data { 100 } else { 0 });
    let options = CheckOptions { read_percent };
    let checked = store.with_context(&signals::context(&args.resources)).check(&options)?;
    let json = args.format.json.then(|| checked_json(&checked));
    exit::both(tell(Effect::Looked, text(&checked), json), verdict(&checked))
}

/// Damage is a failure, reported in one line.
pub(super) fn verdict(checked: &CheckReport) -> Result<(), Failure> {
    if checked.is_clean() {
        return Ok(());
    }
    Err(Failure::damage(format!(
        "{} manifests and {} packs are damaged, {} files cannot be restored; lmc repair repairs \
         what it can from good copies",
        checked.manifests.len(),
        checked.damaged.len(),
        checked.hurt.len(),
    )))
}

/// The result as JSON.
pub(super) fn checked_json(checked: &CheckReport) -> Value {
    let damage = |Damage { object, error }: &Damage| {
        let error = advice::of_error(error);
        json!({"object": object, "error": error})
    };
    let hurt = |hurt: &Hurt| {
        json!({
            "snapshot": hurt.snapshot.id,
            "path": hurt.path.to_string(),
            "error": advice::of_error(&hurt.error),
        })
    };
    json!({
        "snapshots": checked.snapshots,
        "packs": checked.packs,
        "packs_read": checked.packs_read,
        "bytes_read": checked.bytes_read,
        "damaged_manifests": checked.manifests.iter().map(damage).collect::<Value>(),
        "damaged_packs": checked.damaged.iter().map(|(_, d)| damage(d)).collect::<Value>(),
        "hurt_files": checked.hurt.iter().map(hurt).collect::<Value>(),
    })
}

/// The result as lines of text.
pub(super) fn text(checked: &CheckReport) -> Printable {
    let mut text = Printable::default();
    let packs = checked.damaged.iter().map(|(_, damage)| damage);
    for Damage { object, error } in checked.manifests.iter().chain(packs) {
        text.push_line(format_args!("damaged: {object}: {}", advice::of_error(error)));
    }
    for Hurt { snapshot, path, error } in &checked.hurt {
        let (id, run, step) = (snapshot.short_id(), &snapshot.run, snapshot.step);
        let error = advice::of_error(error);
        text.push_line(format_args!("cannot be restored: {id} {run}@{step} {path}: {error}"));
    }
    text.push_line(format_args!(
        "{}{} snapshots, {} packs; {} packs read, {}",
        if checked.is_clean() { "no damage found: " } else { "" },
        checked.snapshots,
        checked.packs,
        checked.packs_read,
        size_text(checked.bytes_read),
    ));
    text
}
