//! `lmc rebase`: cuts the base chain of a snapshot.

use lmc_store::{SaveOptions, Store};
use serde_json::json;

use super::{name_json, size_text, with_store};
use crate::args::store::RebaseArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{Effect, tell};

/// Stores the snapshot again, without a base.
pub fn run(args: &RebaseArgs) -> Exit {
    with_store(&args.store, |store| rebase(store, args))
}

fn rebase(store: &Store, args: &RebaseArgs) -> Result<(), Failure> {
    let old = store.find(&args.snapshot.name)?;
    let progress = ProgressBar::new(Volume::new(args.quiet || args.format.json, false));
    progress.start(old.short_id(), Some(old.size));
    let options = SaveOptions::default();
    let store = store.with_context(&progress.watching(&signals::context(&args.resources)));
    let new = store.rebase(&old, &options);
    progress.finish();
    let new = new?;
    if args.quiet && !args.format.json {
        return Ok(());
    }
    let json = || {
        let mut value = name_json(&new);
        value["replaces"] = json!(old.id);
        value
    };
    let text = Printable::line(format_args!(
        "{} replaces {}; {} were added",
        new.short_id(),
        old.short_id(),
        size_text(new.added)
    ));
    tell(Effect::Changed, text, args.format.json.then(json))
}
