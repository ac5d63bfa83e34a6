//! What retention should leave, said as plainly as possible and slowly.

use super::model::Snap;
use lmc_store::Keep;

/// Whether a snapshot stays.
pub fn stays(snap: &Snap, all: &[Snap], keep: &Keep) -> bool {
    let when = |snap: &Snap| (snap.name.time_ms, snap.name.step);
    let run = || all.iter().filter(|other| other.name.run == snap.name.run);
    let mut later: Vec<(u64, u64)> = run().map(when).filter(|at| *at > when(snap)).collect();
    later.sort();
    // Saved at the same time as the same step: a rebase that was cut off leaves such.
    later.dedup();
    if later.is_empty() || run().all(|other| other.name.step <= snap.name.step) {
        return true;
    }
    let age_ms = run().map(|other| other.name.time_ms).max().unwrap_or(0) - snap.name.time_ms;
    keep.last.is_some_and(|last| (later.len() as u64) < last)
        || keep.every.is_some_and(|every| every != 0 && snap.name.step.is_multiple_of(every))
        || keep.within_ms.is_some_and(|within_ms| age_ms <= within_ms)
        || snap.tags.iter().any(|tag| keep.tags.contains(tag))
}
