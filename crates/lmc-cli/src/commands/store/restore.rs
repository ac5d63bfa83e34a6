//! `lmc restore`: restores a snapshot to files.

use lmc_store::{Glob, RestoreOptions, Store};
use serde_json::{Value, json};

use super::{size_text, with_store};
use crate::advice;
use crate::args::store::RestoreArgs;
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{Effect, tell};

/// Restores the snapshot that `args` names.
pub fn run(args: &RestoreArgs) -> Exit {
    with_store(&args.store, |store| restore(store, args))
}

fn restore(store: &Store, args: &RestoreArgs) -> Result<(), Failure> {
    let name = store.find(&args.snapshot.name)?;
    let options = RestoreOptions {
        only: args.only.iter().map(|glob| Glob::new(glob)).collect(),
        weights_only: args.weights_only,
        overwrite: args.force,
        keep_going: args.keep_going,
        max_size: args.limit.max_size,
        on_temporary: Some(signals::note),
    };
    let progress = ProgressBar::new(Volume::new(args.quiet || args.format.json, false));
    progress.start(args.target.display(), Some(name.size));
    let store = store.with_context(&progress.watching(&signals::context(&args.resources)));
    let restored = store.restore(&name, &args.target, &options);
    progress.finish();
    let restored = restored?;
    for (path, error) in &restored.failed {
        progress.note(format_args!("lmc: {path}: {}", advice::of_error(error)));
    }
    let failed = restored.failed.len();
    let json = || {
        let failed = restored.failed.iter().map(
            |(path, error)| json!({"path": path.to_string(), "error": advice::of_error(error)}),
        );
        json!({
            "id": name.id,
            "target": args.target.to_string_lossy(),
            "files": restored.files,
            "bytes": restored.bytes,
            "failed": failed.collect::<Value>(),
        })
    };
    let text = Printable::line(format_args!(
        "{} {}@{}: {} files, {} to {}",
        name.short_id(),
        name.run,
        name.step,
        restored.files,
        size_text(restored.bytes),
        args.target.display(),
    ));
    let told = match args.quiet && !args.format.json {
        true => Ok(()),
        false => tell(Effect::Changed, text, args.format.json.then(json)),
    };
    let found = match failed {
        0 => Ok(()),
        _ => Err(Failure::damage(format!("{failed} files are damaged and were left out"))),
    };
    exit::both(told, found)
}
