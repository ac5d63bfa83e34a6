//! The commands that work on a store, one file each, and what they share.

pub mod check;
pub mod copy;
pub mod diff;
pub mod export;
pub mod forget;
pub mod init;
pub mod log;
pub mod ls;
pub mod prune;
pub mod rebase;
pub mod repair;
pub mod report;
pub mod restore;
pub mod save;
pub mod show;
pub mod stats;
pub mod tag;

use std::sync::Arc;

use lmc_store::storage::{self, Location};
use lmc_store::{Keep, SnapshotName, Store, SystemClock, rfc3339};
use serde_json::{Value, json};

use crate::args::shared::{KeepArgs, StoreArgs};
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::{signals, stdio};

impl StoreArgs {
    /// The location of the store, from the option or from the environment.
    pub fn location(&self) -> Result<Location, Failure> {
        let set = || std::env::var("LMC_STORE").ok().map(Location::from);
        let named = self.location.clone().or_else(set);
        named
            .filter(|location| !location.with_secrets().is_empty())
            .ok_or_else(|| Failure::usage("no store is named; give --store, or set LMC_STORE"))
    }
}

impl KeepArgs {
    /// The rule.
    fn rule(&self) -> Keep {
        let tags = self.tags.iter().cloned().collect();
        Keep { last: self.last, every: self.every, tags, within_ms: self.within }
    }

    /// A tag that does not exist is probably a typing error.
    fn warn_of_typos(&self, store: &Store) -> Result<(), Failure> {
        let known = store.tags()?;
        let exists = |tag: &String| known.values().any(|tags| tags.contains(tag));
        for tag in self.tags.iter().filter(|tag| !exists(tag)) {
            stdio::say(Printable::line(format_args!("lmc: no snapshot has the tag {tag}")));
        }
        Ok(())
    }
}

/// Opens the store that is meant and runs `work` on it; prints its failure.
fn with_store(args: &StoreArgs, work: impl FnOnce(&Store) -> Result<(), Failure>) -> Exit {
    let location = match args.location() {
        Ok(location) => location,
        Err(failure) => return exit::report_at("store", Err(failure)),
    };
    let result = open(&location).and_then(|store| work(&store));
    exit::report_at(location, result)
}

/// Opens the store at `location`.
pub(super) fn open(location: &Location) -> Result<Store, Failure> {
    let storage = signals::interruptible(storage::open(location.with_secrets())?);
    Ok(Store::open(storage, Arc::new(SystemClock))?)
}

/// A snapshot, as its name describes it.
fn name_json(name: &SnapshotName) -> Value {
    let SnapshotName { run, page: _, step, time_ms, size, added, id } = name;
    json!({
        "id": id,
        "run": run,
        "step": step,
        "time": rfc3339(*time_ms),
        "time_ms": time_ms,
        "bytes": size,
        "added_bytes": added,
    })
}

/// A time for people.
fn time_text(time_ms: u64) -> String {
    rfc3339(time_ms).replace('T', " ").replace('Z', "")
}

/// A number of bytes for people.
pub(super) fn size_text(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// The same for a number that may be negative.
fn signed_text(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", size_text(bytes.unsigned_abs()))
}
