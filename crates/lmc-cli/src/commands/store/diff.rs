//! `lmc diff` for two snapshots.

use std::path::Path;
use std::sync::Arc;

use lmc_store::{FileDiff, RelPath, SnapshotDiff, Store};
use serde_json::{Value, json};

use super::with_store;
use crate::args::files::DiffArgs;
use crate::commands::diff::{diff_json, text as tensors_text};
use crate::exit::{Exit, Failure};
use crate::printable::Printable;
use crate::signals;
use crate::stdio::{Effect, tell};

/// Whether snapshots are compared and not files: a store is named, or one is set and the names are
/// not those of files.
pub fn is_meant(args: &DiffArgs) -> bool {
    let are_files = args.old.exists() && args.new.exists();
    args.store.location.is_some() || (std::env::var_os("LMC_STORE").is_some() && !are_files)
}

/// Compares the two snapshots that `args` names.
pub fn run(args: &DiffArgs) -> Exit {
    with_store(&args.store, |store| diff(store, args))
}

fn diff(store: &Store, args: &DiffArgs) -> Result<(), Failure> {
    let manifest = |path: &Path| -> Result<_, Failure> {
        let name = store.find(&path.to_string_lossy())?;
        Ok(Arc::new(store.manifest(&name)?))
    };
    let (old, new) = (manifest(&args.old)?, manifest(&args.new)?);
    let diff = store.with_context(&signals::context_on(&args.threads)).diff(&old, &new)?;
    tell(Effect::Looked, text(&diff), args.format.json.then(|| json(&diff)))
}

fn json(diff: &SnapshotDiff) -> Value {
    let paths = |paths: &[RelPath]| paths.iter().map(RelPath::to_string).collect::<Value>();
    let changed = |file: &FileDiff| {
        json!({
            "path": file.path.to_string(),
            "old_bytes": file.old_size,
            "new_bytes": file.new_size,
            "diff": diff_json(&file.tensors),
        })
    };
    json!({
        "same": paths(&diff.same),
        "only_old": paths(&diff.only_old),
        "only_new": paths(&diff.only_new),
        "changed": diff.changed.iter().map(changed).collect::<Value>(),
    })
}

fn text(diff: &SnapshotDiff) -> Printable {
    let mut text = Printable::default();
    for (paths, which) in [(&diff.only_old, "old"), (&diff.only_new, "new")] {
        for path in paths {
            text.push_line(format_args!("{path}: only in the {which} one"));
        }
    }
    for file in &diff.changed {
        let FileDiff { path, old_size, new_size, tensors } = file;
        text.push_line(format_args!("{path}: {old_size} bytes, now {new_size}"));
        text.push(tensors_text(tensors));
    }
    text.push_line(format_args!(
        "{} files the same, {} changed, {} only in the old one, {} only in the new one",
        diff.same.len(),
        diff.changed.len(),
        diff.only_old.len(),
        diff.only_new.len(),
    ));
    text
}
