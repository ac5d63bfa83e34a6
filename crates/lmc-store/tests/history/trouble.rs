//! What can go wrong while something is done.

use super::turns::Turns;
use crate::common::{Call, Fate};
use crate::disks::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What befalls a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// It is killed after so many changes. Its leases stay.
    Dies {
        changes: u64,
    },
    /// One call fails, or all from it on.
    Fails {
        call: Call,
        after: u64,
        fate: Fate,
        is_lasting: bool,
    },
}

impl Trouble {
    pub fn random(random: &mut Random) -> Self {
        let span = [6, 20, 60][random.below(3)];
        let after = random.below(span) as u64;
        let call = match random.below(8) {
            0..=2 => return Self::Dies { changes: after + 1 },
            3..=4 => Call::Read,
            5..=6 => Call::List,
            _ => Call::Change,
        };
        let after = if call == Call::List { after % 6 } else { after };
        let fate = [Fate::Fails, Fate::SeemsToFail][random.below(2)];
        Self::Fails { call, after, fate, is_lasting: random.once_in(3) }
    }
}

/// An untruth that a storage tells, which is a mistake that a store could have: it is to be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Prunes see no leases of saves.
    Leases,
    /// Prunes see no snapshots.
    Snapshots,
    /// Prunes take an error of a list for an empty folder.
    ErrorsOfLists,
}

impl Lie {
    fn is_told(self, is_prune: bool, call: Call, name: &str) -> bool {
        let is_of = |wanted: Call, folder: &str| call == wanted && name.starts_with(folder);
        match self {
            Self::None | Self::ErrorsOfLists => false,
            Self::Leases => is_of(Call::List, "pending"),
            Self::Snapshots => is_prune && is_of(Call::List, "snapshots"),
        }
    }
}

/// Decides what becomes of the calls of one process.
pub struct Fates {
    pub trouble: Trouble,
    pub lie: Lie,
    pub is_prune: bool,
    /// Whom it takes turns with, and its own number.
    pub turns: Option<(Arc<Turns>, usize)>,
    /// Calls of the kind that fails which were made.
    pub calls: AtomicU64,
    /// What happened.
    pub seen: Arc<Mutex<Seen>>,
}

/// What happened to the calls of one process.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What failed first.
    pub hit: Option<(Call, String)>,
    /// Manifests that it was to make, and what became of that.
    pub commits: Vec<(String, Fate)>,
}

impl Seen {
    /// Manifests that may be there though the process failed: it was told that they could not be
    /// made, or it was killed after that.
    pub fn unsure(&self, is_dead: bool) -> Vec<String> {
        let is_unsure = |fate: Fate| fate == Fate::SeemsToFail || is_dead;
        let unsure = self.commits.iter().filter(|(_, fate)| is_unsure(*fate));
        unsure.map(|(name, _)| name.clone()).collect()
    }
}

impl Fates {
    pub fn decide(&self, call: Call, name: &str) -> Fate {
        let fate = self.fate(call, name);
        if call == Call::Change && name.starts_with("snapshots/") && !self.is_prune {
            self.seen.lock().unwrap().commits.push((name.to_string(), fate));
        }
        fate
    }

    fn fate(&self, call: Call, name: &str) -> Fate {
        if let Some((turns, own)) = &self.turns {
            turns.wait(*own);
        }
        if self.lie.is_told(self.is_prune, call, name) {
            return Fate::FindsNothing;
        }
        let Trouble::Fails { call: fails, after, fate, is_lasting } = self.trouble else {
            return Fate::Done;
        };
        if call != fails {
            return Fate::Done;
        }
        let before = self.calls.fetch_add(1, Ordering::SeqCst);
        if before < after || before > after && !is_lasting {
            return Fate::Done;
        }
        self.seen.lock().unwrap().hit.get_or_insert((call, name.to_string()));
        let hides = self.lie == Lie::ErrorsOfLists && self.is_prune && call == Call::List;
        if hides { Fate::FindsNothing } else { fate }
    }
}
