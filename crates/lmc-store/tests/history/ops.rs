//! What can be done to a store: random choices of it, and doing it.

use super::sources::{SOURCES, Sources};
use super::together::save_together;
use crate::disks::Random;
use lmc_store::{
    Forgotten, Keep, Parent, PruneOptions, Pruned, Result, SaveOptions, Saved, SnapshotName, Store,
};

/// Runs whose names sort oddly or are no names of files.
const RUNS: [&str; 7] = ["r", "R", "run-9", "run-10", "con", ".a/b", "\u{e9}"];
/// Steps whose order as text is another one.
const STEPS: [u64; 11] = [0, 2, 9, 10, 11, 99, 100, 101, 1000, 20_000, 10_u64.pow(18)];
const TAGS: [&str; 3] = ["good", "Good", "a/b"];
const HOUR_MS: u64 = 3_600_000;

/// What to code against; numbers choose among the snapshots that there are.
#[derive(Clone, Debug)]
pub enum Choice {
    Auto,
    None,
    Number(usize),
}

/// Something that is done. A `pick` is a number that chooses among the snapshots that there are.
#[derive(Clone, Debug)]
pub enum Op {
    Save {
        run: &'static str,
        step: Option<u64>,
        parent: Choice,
        source: usize,
        tags: Vec<&'static str>,
        pack_len: usize,
        depth_max: usize,
        /// Whether several processes should do it, if the source is one that they can save.
        is_shared: bool,
    },
    Forget {
        keep: Keep,
        run: Option<&'static str>,
        dry_run: bool,
    },
    /// `is_any` if it may be the newest of its run.
    ForgetOne {
        pick: usize,
        is_any: bool,
    },
    Prune(PruneOptions),
    Tag {
        pick: usize,
        tag: &'static str,
    },
    Untag {
        pick: usize,
        tag: &'static str,
    },
    Rebase {
        pick: usize,
    },
}

/// What an operation did.
#[derive(Clone, Debug)]
pub enum Effect {
    Nothing,
    Saved(Saved),
    Pruned(Pruned),
    Rebased(SnapshotName),
}

/// An operation, what it was about, and how it ended.
#[derive(Clone, Debug)]
pub struct Deed {
    pub op: Op,
    /// The snapshot that was picked.
    pub picked: Option<SnapshotName>,
    /// What a policy says, if it came to that.
    pub plan: Option<Forgotten>,
    pub result: Result<Effect>,
}

impl Op {
    /// Any operation.
    pub fn random(random: &mut Random) -> Self {
        let pick = random.below(1000);
        let tag = TAGS[random.below(TAGS.len())];
        match random.below(20) {
            0..=8 => Self::save(random),
            9..=11 => Self::forget(random),
            12 => Self::ForgetOne { pick, is_any: random.once_in(4) },
            13..=16 => Self::prune(random),
            17 => Self::Tag { pick, tag },
            18 if random.once_in(2) => Self::Untag { pick, tag },
            _ => Self::Rebase { pick },
        }
    }

    pub fn save(random: &mut Random) -> Self {
        // Few runs, so that they get long.
        let run = RUNS[random.below(RUNS.len()).min(random.below(RUNS.len()))];
        let parent = match random.below(6) {
            0 => Choice::None,
            1 => Choice::Number(random.below(1000)),
            _ => Choice::Auto,
        };
        let has_step = !random.once_in(4);
        let step = STEPS[random.below(STEPS.len())];
        let tags = TAGS.iter().filter(|_| random.once_in(8)).copied().collect();
        Self::Save {
            run,
            step: has_step.then_some(step),
            parent,
            source: random.below(SOURCES),
            tags,
            pack_len: [300, 1000, 1 << 20][random.below(3)],
            depth_max: [1, 16][random.below(2)],
            is_shared: random.once_in(3),
        }
    }

    fn forget(random: &mut Random) -> Self {
        let mut keep = Keep::default();
        while keep.is_empty() {
            if random.once_in(3) {
                keep.last = Some(random.below(5) as u64);
            }
            if random.once_in(3) {
                keep.every = Some([0, 1, 3, 10, 100, 1000][random.below(6)]);
            }
            if random.once_in(4) {
                keep.tags = [TAGS[random.below(TAGS.len())].to_string()].into();
            }
            if random.once_in(3) {
                keep.within_ms = Some([0, 1, 3 * HOUR_MS, 100 * HOUR_MS][random.below(4)]);
            }
        }
        let run = random.once_in(3).then(|| RUNS[random.below(RUNS.len())]);
        Self::Forget { keep, run, dry_run: random.once_in(6) }
    }

    pub fn prune(random: &mut Random) -> Self {
        let grace_ms = [None, Some(0), Some(0), Some(HOUR_MS), Some(200 * HOUR_MS)];
        let grace_ms = grace_ms[random.below(grace_ms.len())];
        let dry_run = random.once_in(6);
        Self::Prune(PruneOptions { grace_ms, dry_run, allow_empty: true })
    }

    /// Removes all that nobody needs.
    pub fn prune_now() -> Self {
        Self::Prune(PruneOptions { grace_ms: Some(0), dry_run: false, allow_empty: true })
    }

    /// Forgets about all that a policy may.
    pub fn forget_most(random: &mut Random) -> Self {
        let keep = Keep { last: Some(random.below(2) as u64), ..Keep::default() };
        Self::Forget { keep, run: None, dry_run: false }
    }

    /// The same, but never forgets the newest of a run.
    pub fn sparing_newest(self) -> Self {
        match self {
            Self::ForgetOne { pick, .. } => Self::ForgetOne { pick, is_any: false },
            op => op,
        }
    }

    pub fn is_save(&self) -> bool {
        matches!(self, Self::Save { .. } | Self::Rebase { .. })
    }

    /// Whether nothing may be changed by it.
    pub fn is_dry(&self) -> bool {
        match self {
            Self::Forget { dry_run, .. } => *dry_run,
            Self::Prune(options) => options.dry_run,
            _ => false,
        }
    }

    /// Does it. What it picks is looked up in `looker`, which works whatever becomes of `store`.
    pub fn act(&self, store: &Store, looker: &Store, sources: &Sources) -> Deed {
        let names = looker.snapshots().expect("a storage that works");
        let picked = self.pick(&names);
        let mut plan = None;
        let result = self.try_act(store, picked.as_ref(), &mut plan, sources);
        Deed { op: self.clone(), picked, plan, result }
    }

    fn pick(&self, names: &[SnapshotName]) -> Option<SnapshotName> {
        let (pick, is_any) = match *self {
            Self::Save { parent: Choice::Number(pick), .. } => (pick, true),
            Self::Tag { pick, .. } | Self::Untag { pick, .. } | Self::Rebase { pick } => {
                (pick, true)
            }
            Self::ForgetOne { pick, is_any } => (pick, is_any),
            _ => return None,
        };
        let is_old = |name: &&SnapshotName| {
            let mut run = names.iter().filter(|other| other.run == name.run);
            run.clone().any(|other| other.time_ms > name.time_ms)
                && run.any(|other| other.step > name.step)
        };
        let names: Vec<&SnapshotName> =
            names.iter().filter(|name| is_any || is_old(name)).collect();
        (!names.is_empty()).then(|| names[pick % names.len()].clone())
    }

    fn try_act(
        &self,
        store: &Store,
        picked: Option<&SnapshotName>,
        plan: &mut Option<Forgotten>,
        sources: &Sources,
    ) -> Result<Effect> {
        match (self, picked) {
            (Self::Save { source, is_shared, .. }, _) => {
                let options = self.save_options(picked);
                let saved = if *is_shared && sources.is_plain(*source) {
                    save_together(store, sources.content(*source), &options)?
                } else {
                    store.save(sources.path(*source), &options)?
                };
                return Ok(Effect::Saved(saved));
            }
            (Self::Forget { keep, run, dry_run }, _) => {
                let planned = plan.insert(store.plan_forget(keep, *run)?);
                if !dry_run {
                    *planned = store.forget_planned(planned.clone(), keep)?;
                }
            }
            (Self::Prune(options), _) => return Ok(Effect::Pruned(store.prune(options)?)),
            (_, None) => {}
            (Self::ForgetOne { .. }, Some(name)) => store.forget(std::slice::from_ref(name))?,
            (Self::Tag { tag, .. }, Some(name)) => store.tag(name, tag)?,
            (Self::Untag { tag, .. }, Some(name)) => store.untag(name, tag)?,
            (Self::Rebase { .. }, Some(name)) => {
                let options = SaveOptions::default();
                return Ok(Effect::Rebased(store.rebase(name, &options)?));
            }
        }
        Ok(Effect::Nothing)
    }

    fn save_options(&self, picked: Option<&SnapshotName>) -> SaveOptions {
        let Self::Save { run, step, parent, tags, pack_len, depth_max, .. } = self else {
            unreachable!("no save");
        };
        let parent = match (parent, picked) {
            (Choice::Auto, _) => Parent::Auto,
            (Choice::Number(_), Some(name)) => Parent::Snapshot(name.clone()),
            _ => Parent::None,
        };
        SaveOptions {
            run: run.to_string(),
            step: *step,
            tags: tags.iter().map(|tag| tag.to_string()).collect(),
            parent,
            depth_max: *depth_max,
            pack_len: *pack_len,
            ..SaveOptions::default()
        }
    }
}
