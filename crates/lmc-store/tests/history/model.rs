//! What should be in a store: plain data, changed by what was done.

use super::Broken;
use super::clock::Moment;
use super::ops::{Choice, Deed, Effect, Op};
use super::policy::stays;
use crate::ensure;
use lmc_store::{Keep, SnapshotName};
use std::collections::{BTreeMap, BTreeSet};

pub type Tags = BTreeMap<String, BTreeSet<String>>;

/// A snapshot that is there.
#[derive(Clone, Debug)]
pub struct Snap {
    pub name: SnapshotName,
    /// What was saved.
    pub source: usize,
    pub tags: BTreeSet<String>,
}

/// What should be there.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// What is shown, in order.
    pub snaps: Vec<Snap>,
    /// What was forgotten and may not be gone yet.
    pub marked: Vec<SnapshotName>,
}

/// What a step may have done, as far as it is not certain.
#[derive(Default)]
struct Doubts {
    /// Snapshots that may be forgotten.
    forgotten: Vec<SnapshotName>,
    /// Rebases that failed.
    rebased: Vec<SnapshotName>,
    /// Saves that failed, of which the whole snapshot may be there.
    saved: Vec<Op>,
    /// Objects of such snapshots.
    unsure: Vec<String>,
    /// Snapshots that are there of saves that failed.
    left: Vec<SnapshotName>,
    /// Ids and tags.
    tags: BTreeSet<(String, String)>,
}

impl Model {
    pub fn get(&self, name: &SnapshotName) -> Option<&Snap> {
        self.snaps.iter().find(|snap| snap.name == *name)
    }

    /// The newest of a run.
    pub fn newest(&self, run: &str) -> Option<&Snap> {
        self.snaps.iter().rfind(|snap| snap.name.run == run)
    }

    /// What a policy should forget, in any order.
    pub fn should_go(&self, keep: &Keep, run: Option<&str>) -> BTreeSet<String> {
        let is_asked = |snap: &&Snap| run.is_none_or(|run| run == snap.name.run);
        let goes = |snap: &&Snap| is_asked(snap) && !stays(snap, &self.snaps, keep);
        self.snaps.iter().filter(goes).map(|snap| snap.name.id.clone()).collect()
    }

    /// Takes in what was done, and fails unless `seen` is what that must lead to. The deeds were
    /// done at the same time if there are several. What a save that failed may have left has one of
    /// the objects `unsure`; returns such snapshots.
    pub fn take(
        &mut self,
        deeds: &[Deed],
        seen: &[SnapshotName],
        tags: &Tags,
        unsure: &[String],
        size_of: &dyn Fn(usize) -> u64,
    ) -> Result<Vec<SnapshotName>, Broken> {
        let before = self.clone();
        let mut doubts = Doubts { unsure: unsure.to_vec(), ..Doubts::default() };
        self.add(deeds)?;
        let known = self.clone();
        self.remove(deeds);
        for deed in deeds.iter().filter(|deed| deed.result.is_err()) {
            doubts.note(deed);
        }
        self.settle(seen, &known, &mut doubts, size_of)?;
        // What one alone marks in the order of its plan is a part from its start.
        let gone: Vec<bool> = doubts.forgotten.iter().map(|name| !seen.contains(name)).collect();
        ensure!(
            deeds.len() > 1 || gone.is_sorted_by(|one, next| one >= next),
            "forgotten out of order: {gone:?}"
        );
        self.settle_tags(deeds, tags, &doubts)?;
        if !deeds.iter().any(|deed| matches!(deed.op, Op::ForgetOne { is_any: true, .. })) {
            self.check_newest(&before)?;
        }
        Ok(doubts.left)
    }

    /// New snapshots. One that a rebase made may be rebased again in the same step.
    fn add(&mut self, deeds: &[Deed]) -> Result<(), Broken> {
        for deed in deeds {
            if let (Op::Save { source, tags, .. }, Ok(Effect::Saved(saved))) =
                (&deed.op, &deed.result)
            {
                let tags = tags.iter().map(|tag| tag.to_string()).collect();
                self.snaps.push(Snap { name: saved.name.clone(), source: *source, tags });
            }
        }
        let mut rebased: Vec<(&SnapshotName, &SnapshotName)> = Vec::new();
        for deed in deeds {
            if let (Some(old), Ok(Effect::Rebased(new))) = (&deed.picked, &deed.result) {
                rebased.push((old, new));
            }
        }
        while !rebased.is_empty() {
            let known = rebased.iter().position(|(old, _)| self.get(old).is_some());
            let known = known.ok_or_else(|| format!("rebased what is not there: {rebased:?}"))?;
            let (old, new) = rebased.swap_remove(known);
            let snap = self.get(old).unwrap().clone();
            let same = SnapshotName { id: new.id.clone(), added: new.added, ..old.clone() };
            ensure!(same == *new, "{old:?} was rebased to {new:?}");
            self.snaps.push(Snap { name: new.clone(), ..snap });
        }
        Ok(())
    }

    fn remove(&mut self, deeds: &[Deed]) {
        for deed in deeds.iter().filter(|deed| deed.result.is_ok()) {
            for name in deed.forgets() {
                self.mark(name);
            }
        }
    }

    fn mark(&mut self, name: &SnapshotName) {
        self.snaps.retain(|snap| snap.name != *name);
        if !self.marked.contains(name) {
            self.marked.push(name.clone());
        }
    }

    /// Compares names, and settles what is in doubt. What is `known` was there meanwhile.
    fn settle(
        &mut self,
        seen: &[SnapshotName],
        known: &Self,
        doubts: &mut Doubts,
        size_of: &dyn Fn(usize) -> u64,
    ) -> Result<(), Broken> {
        for name in seen.iter().filter(|name| self.get(name).is_none()).collect::<Vec<_>>() {
            ensure!(!self.marked.contains(name), "{name:?} was forgotten and is shown");
            let snap = doubts.explain(name, known, size_of);
            self.snaps.push(snap.ok_or_else(|| format!("nobody saved {name:?}"))?);
        }
        let missing = self.snaps.iter().map(|snap| &snap.name).filter(|name| !seen.contains(name));
        for name in missing.cloned().collect::<Vec<_>>() {
            let has_twin = |old: &SnapshotName| {
                let is_twin = |new: &&SnapshotName| {
                    (new.time_ms, new.step, &new.run) == (old.time_ms, old.step, &old.run)
                };
                doubts.rebased.contains(old) && seen.iter().any(|new| is_twin(&new))
            };
            let is_explained = doubts.forgotten.contains(&name) || has_twin(&name);
            ensure!(is_explained, "{name:?} is lost");
            self.mark(&name);
        }
        // Numbers, not text; ids tell those apart that are of the same time and step.
        self.snaps.sort_by(|one, other| {
            let key = |snap: &Snap| (snap.name.time_ms, snap.name.step, snap.name.id.clone());
            key(one).cmp(&key(other))
        });
        let names: Vec<&SnapshotName> = self.snaps.iter().map(|snap| &snap.name).collect();
        ensure!(names.iter().copied().eq(seen), "the order is {seen:?} and not {names:?}");
        Ok(())
    }

    fn settle_tags(&mut self, deeds: &[Deed], tags: &Tags, doubts: &Doubts) -> Result<(), Broken> {
        let mut unsure = doubts.tags.clone();
        for deed in deeds {
            let (Some(name), Op::Tag { tag, .. } | Op::Untag { tag, .. }) =
                (&deed.picked, &deed.op)
            else {
                continue;
            };
            if deeds.len() > 1 {
                // A rebase at the same time may or may not have seen it.
                let is_twin =
                    |snap: &&Snap| (snap.name.time_ms, snap.name.step) == (name.time_ms, name.step);
                let twins = self.snaps.iter().filter(is_twin);
                unsure.extend(twins.map(|snap| (snap.name.id.clone(), tag.to_string())));
            } else if let Some(snap) = self.snaps.iter_mut().find(|snap| snap.name == *name) {
                match deed.op {
                    Op::Tag { .. } => drop(snap.tags.insert(tag.to_string())),
                    _ => drop(snap.tags.remove(*tag)),
                }
            }
        }
        for snap in &mut self.snaps {
            let id = &snap.name.id;
            let seen = tags.get(id).cloned().unwrap_or_default();
            let differ = seen.symmetric_difference(&snap.tags);
            for tag in differ {
                let is_unsure = unsure.contains(&(id.clone(), tag.clone()));
                ensure!(is_unsure, "{id} has the tags {seen:?} and not {:?}", snap.tags);
            }
            snap.tags = seen;
        }
        Ok(())
    }

    /// The newest of each run, by time and by step, is there or there is a newer one.
    fn check_newest(&self, before: &Self) -> Result<(), Broken> {
        for snap in &before.snaps {
            let run = || self.snaps.iter().filter(|other| other.name.run == snap.name.run);
            let is_kept = run().any(|other| other.name.time_ms >= snap.name.time_ms)
                && run().any(|other| other.name.step >= snap.name.step);
            ensure!(is_kept, "the newest of its run was removed: {:?}", snap.name);
        }
        Ok(())
    }
}

impl Deed {
    /// What it forgets, in this order.
    fn forgets(&self) -> &[SnapshotName] {
        match (&self.op, &self.plan, &self.picked) {
            (Op::Forget { dry_run: false, .. }, Some(plan), _) => &plan.forgotten,
            (Op::ForgetOne { .. } | Op::Rebase { .. }, _, Some(_)) => self.picked.as_slice(),
            _ => &[],
        }
    }
}

impl Doubts {
    /// What a deed that failed may have done.
    fn note(&mut self, deed: &Deed) {
        match (&deed.op, &deed.picked) {
            (Op::Rebase { .. }, picked) => self.rebased.extend(picked.clone()),
            (Op::Tag { tag, .. } | Op::Untag { tag, .. }, Some(name)) => {
                self.tags.insert((name.id.clone(), tag.to_string()));
            }
            (Op::Save { .. }, _) => self.saved.push(deed.op.clone()),
            _ => self.forgotten.extend(deed.forgets().iter().cloned()),
        }
    }

    /// A snapshot that nobody said was saved, if a deed that failed may have made it.
    fn explain(
        &mut self,
        name: &SnapshotName,
        model: &Model,
        size_of: &dyn Fn(usize) -> u64,
    ) -> Option<Snap> {
        let is_copy = |old: &&SnapshotName| {
            (old.time_ms, old.step, old.size, &old.run)
                == (name.time_ms, name.step, name.size, &name.run)
        };
        if let Some(old) = self.rebased.iter().find(is_copy) {
            let snap = model.get(old)?;
            return Some(Snap { name: name.clone(), ..snap.clone() });
        }
        // Its manifest was made, and it did not hear of that, or died.
        self.unsure.iter().position(|object| *object == name.object().unwrap())?;
        let is_it = |op: &Op| {
            let Op::Save { run, step, source, .. } = op else { return false };
            let is_step = step.is_none_or(|step| step == name.step);
            *run == name.run && is_step && size_of(*source) == name.size
        };
        let number = self.saved.iter().position(is_it)?;
        let Op::Save { source, tags, .. } = self.saved.swap_remove(number) else { return None };
        self.left.push(name.clone());
        let tags = tags.iter().map(|tag| tag.to_string()).collect();
        Some(Snap { name: name.clone(), source, tags })
    }
}

/// Fails unless what a save says of itself follows from its options. It was done alone, between
/// these moments.
pub fn check_saved(
    model: &Model,
    deed: &Deed,
    size: u64,
    (from, to): (Moment, Moment),
) -> Result<(), Broken> {
    let (Op::Save { run, step, parent, .. }, Ok(Effect::Saved(saved))) = (&deed.op, &deed.result)
    else {
        return Ok(());
    };
    let (name, newest) = (&saved.name, model.newest(run).map(|snap| &snap.name));
    let wanted = match parent {
        Choice::Auto if newest.is_some() => newest,
        // A new run is put on the newest of another one, or on nothing.
        Choice::Auto => saved.parent.as_ref(),
        Choice::None => None,
        Choice::Number(_) => deed.picked.as_ref(),
    };
    ensure!(saved.parent.as_ref() == wanted, "on {:?}, not on {wanted:?}", saved.parent);
    if let Some(parent) = wanted {
        let is_newest = model.newest(&parent.run).is_some_and(|snap| snap.name == *parent);
        ensure!(is_newest || deed.picked.is_some(), "on {parent:?}, which is not the newest");
    }
    let next = newest.map_or(0, |name| name.step.saturating_add(1));
    ensure!(name.step == step.unwrap_or(next), "step {} of {step:?}, {next}", name.step);
    let after = wanted.max(newest).map_or(0, |before| before.time_ms + 1);
    let time_ms = |moment: Moment| moment.believed_ms().max(after).min(moment.limit_ms());
    let (from_ms, to_ms) = (time_ms(from), time_ms(to));
    ensure!(from.is_wrong() != saved.warnings.is_empty(), "{:?} of a wrong clock", saved.warnings);
    ensure!((from_ms..=to_ms).contains(&name.time_ms), "{} is not the time", name.time_ms);
    ensure!(name.run == *run && name.size == size, "{name:?} is of {run} and has {size} bytes");
    Ok(())
}
