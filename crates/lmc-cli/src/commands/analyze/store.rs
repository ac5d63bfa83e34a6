//! The snapshots of a store as a series.

use std::path::Path;
use std::sync::Arc;

use lmc::{Context, ErrorKind};
use lmc_analyze::{Checkpoint, Series, Skipped};
use lmc_store::{SnapshotName, Store};

use crate::args::analyze::AnalyzeArgs;
use crate::exit::Failure;

/// Whether snapshots are meant and not files: a store is named, or one is set and not all names are
/// those of files.
pub fn is_meant(args: &AnalyzeArgs) -> bool {
    let are_files = args.checkpoints.iter().all(|path| path.exists());
    args.store.location.is_some() || (std::env::var_os("LMC_STORE").is_some() && !are_files)
}

/// All snapshots of each run that is named, and single ones, in the order of the names.
pub fn series(store: &Store, args: &AnalyzeArgs, context: &Context) -> Result<Series, Failure> {
    let store = store.with_context(context);
    let mut series = Series::default();
    let named: Vec<String> = args.checkpoints.iter().map(|name| text(name)).collect();
    for name in &named {
        let snapshots = match store.snapshots_of(name) {
            Ok(snapshots) if !snapshots.is_empty() => snapshots,
            _ => vec![store.find(name).map_err(|e| Failure::from(e).at(name))?],
        };
        for snapshot in &snapshots {
            context.interrupt.check()?;
            add(&mut series, &store, snapshot)?;
        }
    }
    series.title = named.join(", ");
    Ok(series)
}

fn add(series: &mut Series, store: &Store, snapshot: &SnapshotName) -> Result<(), Failure> {
    let name = format!("{}@{}", snapshot.run, snapshot.step);
    let manifest = match store.manifest(snapshot) {
        Ok(manifest) => Arc::new(manifest),
        Err(error) if error.kind == ErrorKind::Interrupted => return Err(error.into()),
        Err(error) => {
            series.skipped.push(Skipped { path: name, why: error.to_string() });
            return Ok(());
        }
    };
    let files = store.files(&manifest);
    let mut checkpoint = Checkpoint::new(name.clone(), Some(snapshot.step));
    for (path, _) in manifest.files() {
        let (shown, files, place) = (format!("{name}/{path}"), files.clone(), path.clone());
        checkpoint.add(shown, &path.to_string(), move |context| files.open(&place, context));
    }
    series.checkpoints.push(checkpoint);
    Ok(())
}

fn text(name: &Path) -> String {
    name.to_string_lossy().into_owned()
}
