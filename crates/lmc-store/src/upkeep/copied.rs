//! The snapshots of the target store of a copy: those that may be the same as one to be copied, and
//! those that are likely to share packs with it. No lookup goes through all of them.

use crate::layout::names::SnapshotName;
use std::collections::{HashMap, HashSet};

/// The parts of the name that a snapshot and its copies share: run, step, time and size.
type Looks = (String, u64, u64, u64);

/// Snapshots that the target has.
#[derive(Debug, Default)]
pub(crate) struct There {
    /// All that were seen, including forgotten ones.
    seen: HashSet<SnapshotName>,
    ids: HashMap<String, Vec<SnapshotName>>,
    looks: HashMap<Looks, Vec<SnapshotName>>,
    /// The snapshots of each run, in the order in which they were added.
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

    /// Notes a snapshot that is forgotten.
    pub(crate) fn pass_over(&mut self, name: SnapshotName) {
        self.seen.insert(name);
    }

    /// Those that may be the same as `name`.
    pub(crate) fn likely(&self, name: &SnapshotName) -> Vec<SnapshotName> {
        let with_id = self.ids.get(&name.id).into_iter().flatten();
        let alike = self.looks.get(&looks(name)).into_iter().flatten();
        with_id.chain(alike.filter(|other| other.id != name.id)).cloned().collect()
    }

    /// The snapshot with an id and the newest ones of a run, at most `max` in all.
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
