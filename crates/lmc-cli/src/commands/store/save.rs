//! `lmc save`: saves a file or a directory as a snapshot.

use lmc::Level;
use lmc_store::{Parent, SaveOptions, Saved, Store};
use serde_json::json;

use super::{name_json, size_text, with_store};
use crate::advice;
use crate::args::store::SaveArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{self, Effect, tell};
use crate::table::ratio;

/// Saves the path that `args` names.
pub fn run(args: &SaveArgs) -> Exit {
    // On Linux, a nice value belongs to a thread, and new threads take that of the one that starts
    // them. So it is set before a storage or the save itself starts any.
    if let Err(failure) = give_way(args.nice) {
        return exit::report_at("--nice", Err(failure));
    }
    with_store(&args.store, |store| save(store, args))
}

/// Adds to the nice value of this thread; the system keeps it within its range.
fn give_way(nice: u8) -> Result<(), Failure> {
    if nice > 0 {
        rustix::process::nice(nice.into())
            .map_err(|error| Failure::io("change the nice value", &error.into()))?;
    }
    Ok(())
}

fn save(store: &Store, args: &SaveArgs) -> Result<(), Failure> {
    let progress = ProgressBar::new(Volume::new(args.quiet || args.format.json, false));
    progress.start(args.path.display(), None);
    let options = options(store, args)?;
    let store = store.with_context(&progress.watching(&signals::context(&args.resources)));
    let saved = store.save(&args.path, &options);
    progress.finish();
    let saved = saved?;
    for warning in &saved.warnings {
        stdio::say(Printable::line(format_args!("lmc: {}", advice::of_warning(warning))));
    }
    if args.quiet && !args.format.json {
        return Ok(());
    }
    tell(Effect::Changed, text(&saved), args.format.json.then(|| saved_json(&saved)))
}

fn options(store: &Store, args: &SaveArgs) -> Result<SaveOptions, Failure> {
    let parent = match &args.parent[..] {
        "auto" => Parent::Auto,
        "none" => Parent::None,
        snapshot => Parent::Snapshot(store.find(snapshot)?),
    };
    let level = match (args.fast, args.max) {
        (true, _) => Level::Fast,
        (_, true) => Level::Max,
        _ => Level::Default,
    };
    Ok(SaveOptions {
        run: args.run.clone(),
        step: args.step,
        tags: args.tags.iter().cloned().collect(),
        meta: args.meta.iter().cloned().collect(),
        parent,
        level,
        verify: !args.no_verify,
        follow_links: args.dereference,
        ..SaveOptions::default()
    })
}

fn text(saved: &Saved) -> Printable {
    let name = &saved.name;
    let parent = saved.parent.as_ref().filter(|_| saved.is_on_parent);
    let on = parent.map_or(String::new(), |parent| {
        format!(" against {} ({}@{})", parent.short_id(), parent.run, parent.step)
    });
    Printable::line(format_args!(
        "{} {}@{}: {} files, {} of them known, {} in {} ({}x){on}",
        name.short_id(),
        name.run,
        name.step,
        saved.files,
        saved.unchanged,
        size_text(name.size),
        size_text(name.added),
        ratio(name.size, name.added),
    ))
}

fn saved_json(saved: &Saved) -> serde_json::Value {
    let mut value = name_json(&saved.name);
    value["parent"] = json!(saved.parent.as_ref().map(|parent| &parent.id));
    value["files"] = saved.files.into();
    value["unchanged_files"] = saved.unchanged.into();
    value["warnings"] = saved.warnings.iter().map(advice::of_warning).collect();
    value["packs_put"] = saved.packs.put.into();
    value["packs_found"] = saved.packs.found.into();
    value
}
