//! `lmc export`: a snapshot as .lmc files that need no store.

use std::path::PathBuf;

use lmc_store::{RestoreOptions, Store};
use serde_json::json;

use super::{size_text, with_store};
use crate::args::store::ExportArgs;
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{Effect, tell};

/// Exports what `args` names.
pub fn run(args: &ExportArgs) -> Exit {
    with_store(&args.store, |store| export(store, args))
}

fn export(store: &Store, args: &ExportArgs) -> Result<(), Failure> {
    let name = store.find(&args.snapshot.name)?;
    let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let run: String = name.run.trim_start_matches('.').chars().map(safe).collect();
    let here = || PathBuf::from(format!("{run}-{}.lmc", name.step));
    let target = args.output.clone().unwrap_or_else(here);
    let options = RestoreOptions {
        overwrite: args.force,
        on_temporary: Some(signals::note),
        ..RestoreOptions::default()
    };
    let progress = ProgressBar::new(Volume::new(args.quiet || args.format.json, false));
    progress.start(target.display(), Some(name.size));
    let store = store.with_context(&progress.watching(&signals::context(&args.resources)));
    let exported = store.export(&name, &target, &options);
    progress.finish();
    let exported = exported?;
    if args.quiet && !args.format.json {
        return Ok(());
    }
    let json = || {
        json!({
            "id": name.id,
            "target": target.to_string_lossy(),
            "files": exported.files,
            "bytes": exported.bytes,
        })
    };
    let (id, files, size) = (name.short_id(), exported.files, size_text(exported.bytes));
    let target = target.display();
    let text = Printable::line(format_args!("{id}: {files} files, {size} to {target}"));
    tell(Effect::Changed, text, args.format.json.then(json))
}
