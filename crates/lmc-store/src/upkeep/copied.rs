//! The snapshots of a store that others are copied to, as a copy looks for them: what may be the
//! same as one to come, and what is likely to share packs with it. No look goes through all of
//! them.

use crate::layout::names::SnapshotName;
use std::collections::{HashMap, HashSet};

/// What a snapshot and its copies have in common by their names: run, step, time and size.
type Looks = (String, u64, u64, u64);

/// Snapshots that are there.
#[derive(Debug, Default)]
pub(crate) struct There {
    /// All that were seen, those too that are to go.
    seen: HashSet<SnapshotName>,
    ids: HashMap<String, Vec<SnapshotName>>,
    looks: HashMap<Looks, Vec<SnapshotName>>,
    /// By their runs, in the order in which they were added.
    runs: HashMap<String, Vec<SnapshotName>>,
}

impl There {
    pub(crate) fn new(names: Vec<SnapshotName>) -> Self {
        let mut there = Self::default();
        names.into_iter().for_each(|name| there.add(name));
        there
    }

    /// Whether a snapshot was seen before.
    pub(crate) fn has_seen(&self, name: &SnapshotName) -> bool {
        self.seen.contains(name)
    }

    /// Adds a snapshot that was not seen before.
    pub(crate) fn add(&mut self, name: SnapshotName) {
        if self.seen.insert(name.clone()) {
            self.ids.entry(name.id.clone()).or_default().push(name.clone());
            self.looks.entry(looks(&name)).or_default().push(name.clone());
            self.runs.entry(name.run.clone()).or_default().push(name);
        }
    }

    /// Takes note of a snapshot that is to go.
    pub(crate) fn pass_over(&mut self, name: SnapshotName) {
        self.seen.insert(name);
    }

    /// Those that may be the same as `name`.
    pub(crate) fn likely(&self, name: &SnapshotName) -> Vec<SnapshotName> {
        let with_id = self.ids.get(&name.id).into_iter().flatten();
        let alike = self.looks.get(&looks(name)).into_iter().flatten();
        with_id.chain(alike.filter(|other| other.id != name.id)).cloned().collect()
    }

    /// The one with an id and the newest of a run, `max` at most.
    pub(crate) fn parents(&self, id: Option<&str>, run: &str, max: usize) -> Vec<SnapshotName> {
        let with_id = id.and_then(|id| self.ids.get(id)).into_iter().flatten();
        let newest = self.runs.get(run).into_iter().flatten().rev();
        let newest = newest.filter(|other| Some(other.id.as_str()) != id);
        with_id.chain(newest).take(max).cloned().collect()
    }
}

fn looks(name: &SnapshotName) -> Looks {
    (name.run.clone(), name.step, name.time_ms, name.size)
}
