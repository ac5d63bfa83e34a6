//! Plays a history that a seed gives, and looks after each step whether all is as it must be.

use super::Broken;
use super::clock::{Machine, Moment, World};
use super::forecast::{Forecast, dry_now_ms, objects, packs_of};
use super::model::{Model, check_saved};
use super::ops::{Deed, Effect, Op};
use super::sources::{Sources, content};
use super::trouble::{Fates, Lie, Seen, Trouble};
use super::turns::Turns;
use crate::common::{Call, MortalStorage};
use crate::disks::Random;
use crate::ensure;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    CheckOptions, Clock, ErrorKind, Keep, PackName, RestoreOptions, SnapshotName, Store,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub steps: AtomicU64,
    pub saves: AtomicU64,
    pub forgotten: AtomicU64,
    pub packs_pruned: AtomicU64,
    pub deaths: AtomicU64,
    pub faults: AtomicU64,
    pub at_once: AtomicU64,
    pub conflicts: AtomicU64,
    pub restores: AtomicU64,
}

/// A store, its model, and the world around.
pub struct Player<'a> {
    random: Random,
    sources: Sources,
    world: Arc<World>,
    machines: Vec<Arc<Machine>>,
    storage: Arc<MemoryStorage>,
    /// Sees the storage as it is, at the right time.
    looker: Store,
    model: Model,
    lie: Lie,
    tally: &'a Tally,
    /// What was done so far.
    pub log: Vec<String>,
}

/// A process that does something.
struct Process {
    store: Store,
    storage: Arc<MortalStorage>,
    machine: Arc<Machine>,
    seen: Arc<Mutex<Seen>>,
}

impl Process {
    fn is_dead(&self) -> bool {
        self.storage.changes_left.load(Ordering::SeqCst) == 0
    }

    fn unsure(&self) -> Vec<String> {
        self.seen.lock().unwrap().unsure(self.is_dead())
    }

    fn hit(&self) -> Option<(Call, String)> {
        self.seen.lock().unwrap().hit.clone()
    }
}

impl<'a> Player<'a> {
    pub fn new(seed: u64, lie: Lie, tally: &'a Tally) -> Self {
        let mut random = Random::new(seed);
        let sources = Sources::new(&mut random);
        // Times get longer by a digit in some histories.
        let turn = [1_700_000_000_000, 10_u64.pow(12), 10_u64.pow(13), 10_u64.pow(14)];
        let world = World::new(turn[random.below(4)] - random.below(20 * DAY_MS as usize) as u64);
        let machines = (0..3).map(|_| Machine::new(&world)).collect();
        let storage = Arc::new(MemoryStorage::new(world.clone()));
        let grace_seconds = [3600, 86_400][random.below(2)];
        let looker = Store::init_with(storage.clone(), world.clone(), grace_seconds);
        let looker = crate::common::alone(looker.unwrap());
        let (model, log) = (Model::default(), Vec::new());
        Self { random, sources, world, machines, storage, looker, model, lie, tally, log }
    }

    fn grace_ms(&self) -> u64 {
        self.looker.config().grace_seconds * 1000
    }

    /// Does the next step.
    pub fn step(&mut self) -> Result<(), Broken> {
        self.tally.steps.fetch_add(1, Ordering::Relaxed);
        match self.random.below(20) {
            0..=2 => self.pass_time(),
            3 => self.set_clock(),
            4..=8 => {
                let op = Op::random(&mut self.random);
                self.alone(op, Trouble::None)?;
            }
            9..=12 => {
                let op = Op::random(&mut self.random);
                let trouble = Trouble::random(&mut self.random);
                self.alone(op, trouble)?;
                if self.random.once_in(4) {
                    let save = Op::save(&mut self.random);
                    self.alone(save, Trouble::None)?;
                }
            }
            _ => self.at_once()?,
        }
        self.verify_some()
    }

    fn pass_time(&mut self) {
        let grace_ms = self.grace_ms();
        let spans = [1, 1000, HOUR_MS, grace_ms / 2, grace_ms, grace_ms + 1, DAY_MS, 3 * DAY_MS];
        let ms = spans[self.random.below(spans.len())];
        self.world.pass_ms(ms);
        self.log.push(format!("{ms} ms pass"));
    }

    fn set_clock(&mut self) {
        if self.random.once_in(3) {
            let ms = [0, 1, 1000][self.random.below(3)];
            self.world.set_tick_ms(ms);
            self.log.push(format!("a put takes {ms} ms"));
            return;
        }
        let hours = [0, -1, 1, -30, 30, -200][self.random.below(6)];
        let machine = self.random.below(self.machines.len());
        self.machines[machine].set_ahead_ms(hours * HOUR_MS as i64);
        self.log.push(format!("machine {machine} is {hours} hours ahead"));
    }

    fn process(
        &mut self,
        op: &Op,
        trouble: Trouble,
        turns: Option<(Arc<Turns>, usize)>,
    ) -> Process {
        let changes = if let Trouble::Dies { changes } = trouble { changes } else { u64::MAX };
        let storage = MortalStorage::new(self.storage.clone(), changes);
        let machine = self.machines[self.random.below(self.machines.len())].clone();
        let store = Store::open(storage.clone(), machine.clone());
        let store = crate::common::alone(store.unwrap());
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let fates = Fates {
            trouble,
            lie: self.lie,
            is_prune: matches!(op, Op::Prune(_)) || turns.is_some() && !op.is_save(),
            turns,
            calls: AtomicU64::new(0),
            seen: seen.clone(),
        };
        storage.watch(move |call, name| fates.decide(call, name));
        Process { store, storage, machine, seen }
    }

    /// One operation with nobody beside it: all that it does is known before.
    fn alone(&mut self, op: Op, trouble: Trouble) -> Result<(), Broken> {
        let process = self.process(&op, trouble, None);
        let before = objects(&*self.storage);
        // A dry run goes by the clock of its machine.
        let dry_ms = op.is_dry().then(|| dry_now_ms(&*self.storage, process.machine.now_ms()));
        let forecast = match &op {
            Op::Prune(options) => {
                let now_ms = dry_ms.unwrap_or_else(|| self.world.peek_ms());
                Some(Forecast::new(&self.looker, &self.model, options, now_ms))
            }
            _ => None,
        };
        let from = Moment::of(&self.world, &process.machine);
        let deed = op.act(&process.store, &self.looker, &self.sources);
        let to = Moment::of(&self.world, &process.machine);
        self.log.push(format!("{trouble:?}: {deed:?}, hit {:?}", process.hit()));
        self.count(&deed);
        self.count_trouble(&process);
        let now_ms = dry_ms.unwrap_or_else(|| self.world.peek_ms());
        let is_dead = |name: &str| self.is_of_the_dead(name, &before, now_ms);
        check_error(&deed, &process, &is_dead)?;
        if let Op::Save { source, .. } = op {
            check_saved(&self.model, &deed, self.sources.size(source), (from, to))?;
        }
        self.check_plan(&deed)?;
        let after = objects(&*self.storage);
        if let (Some(forecast), Ok(Effect::Pruned(pruned))) = (&forecast, &deed.result) {
            forecast.check_said(pruned)?;
            if !op.is_dry() {
                forecast.check_done(&before, &after)?;
            }
        }
        let has_looked_only = matches!(process.hit(), Some((Call::Read | Call::List, name))
            if !is_dead(&name))
            && matches!(op, Op::Prune(_) | Op::Forget { .. });
        if has_looked_only {
            // Leases of the dead go before the rest is looked at, and marks are made one by one:
            // those before the one that failed are there.
            let failed = process.hit().map(|(_, name)| name).unwrap_or_default();
            let plan = deed.plan.as_ref().map_or(&[][..], |plan| &plan.forgotten);
            let place = plan.iter().position(|name| failed.ends_with(&name.id)).unwrap_or(0);
            let marked: Vec<String> = plan[..place].iter().map(SnapshotName::forgotten).collect();
            let others = |all: &BTreeMap<String, (u64, u64)>| {
                let mut all = all.clone();
                all.retain(|name, _| !is_dead(name) && !marked.contains(name));
                all
            };
            let (before, after) = (others(&before), others(&after));
            ensure!(before == after, "something was changed: {before:?}, {after:?}");
        }
        if op.is_dry() && trouble == Trouble::None {
            ensure!(before == after, "something was changed: {before:?}, {after:?}");
        }
        self.take(&[deed], &process.unsure())
    }

    /// Whether an object is the lease of a process that is dead by then, whose needs do not count.
    fn is_of_the_dead(
        &self,
        name: &str,
        before: &BTreeMap<String, (u64, u64)>,
        now_ms: u64,
    ) -> bool {
        let is_old =
            |(_, modified_ms): &(u64, u64)| now_ms.saturating_sub(*modified_ms) > self.grace_ms();
        name.starts_with("pending/") && before.get(name).is_some_and(is_old)
    }

    /// Fails unless a policy was understood.
    fn check_plan(&self, deed: &Deed) -> Result<(), Broken> {
        let (Op::Forget { keep, run, .. }, Some(plan)) = (&deed.op, &deed.plan) else {
            return Ok(());
        };
        let ids = |names: &[lmc_store::SnapshotName]| -> BTreeSet<String> {
            names.iter().map(|name| name.id.clone()).collect()
        };
        let should = self.model.should_go(keep, *run);
        let goes = ids(&plan.forgotten);
        ensure!(goes == should, "{keep:?} forgets {goes:?} and not {should:?}");
        let asked = self.model.snaps.iter().map(|snap| &snap.name);
        let asked = asked.filter(|name| run.is_none_or(|run| run == name.run)).count();
        let kept = ids(&plan.kept);
        ensure!(kept.len() + goes.len() == asked && kept.is_disjoint(&goes), "kept {kept:?}");
        Ok(())
    }

    /// Several operations that take turns on the storage, or one that is slow.
    fn at_once(&mut self) -> Result<(), Broken> {
        let count = [1, 2, 2, 2, 3][self.random.below(5)];
        // With others beside it, none may stop for half of grace; alone it may sleep and give up.
        let left_ms = if count > 1 { self.grace_ms() / 3 } else { 2 * self.grace_ms() };
        let turns = Turns::new(count, &self.world, left_ms, &mut self.random);
        let processes: Vec<(Vec<Op>, Process)> =
            (0..count).map(|own| self.process_at_once(own, &turns)).collect();
        let done: Vec<Vec<Deed>> = std::thread::scope(|scope| {
            let start = |(own, (ops, process)): (usize, &'_ (Vec<Op>, Process))| {
                let (ops, store) = (ops.clone(), process.store.clone());
                let (looker, sources, turns) = (&self.looker, &self.sources, &turns);
                scope.spawn(move || {
                    let _leaves = Leaves(turns, own);
                    let act = |op: &Op| {
                        turns.wait(own);
                        op.act(&store, looker, sources)
                    };
                    ops.iter().map(act).collect()
                })
            };
            let threads: Vec<_> = processes.iter().enumerate().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        self.tally.at_once.fetch_add(1, Ordering::Relaxed);
        for (deeds, (_, process)) in done.iter().zip(&processes) {
            self.log.push(format!("at once: {deeds:?}, died: {}", process.is_dead()));
            for deed in deeds {
                self.count(deed);
                if let Err(error) = &deed.result {
                    let is_expected = error.kind == ErrorKind::Conflict || process.is_dead();
                    ensure!(is_expected, "failed with no reason: {error}");
                }
            }
            self.count_trouble(process);
        }
        let deeds: Vec<Deed> = done.into_iter().flatten().collect();
        let unsure: Vec<String> = processes.iter().flat_map(|(_, p)| p.unsure()).collect();
        self.take(&deeds, &unsure)
    }

    fn process_at_once(&mut self, own: usize, turns: &Arc<Turns>) -> (Vec<Op>, Process) {
        let random = &mut self.random;
        let ops = match random.below(8) {
            0..=2 => vec![Op::save(random)],
            3 => vec![Op::prune(random)],
            // What a save relies on goes while it does.
            4..=5 => vec![Op::forget_most(random), Op::prune_now()],
            _ => vec![Op::random(random).sparing_newest()],
        };
        let dies = self.random.once_in(8);
        let changes = 1 + self.random.below(8) as u64;
        let trouble = if dies { Trouble::Dies { changes } } else { Trouble::None };
        let process = self.process(&ops[0], trouble, Some((turns.clone(), own)));
        (ops, process)
    }

    /// Takes in what was done. Manifests that may have been made though their saves failed are
    /// `unsure`: what such a save has left is all of what it was to save.
    fn take(&mut self, deeds: &[Deed], unsure: &[String]) -> Result<(), Broken> {
        let seen = self.looker.snapshots().map_err(|e| format!("cannot look: {e}"))?;
        let tags = self.looker.tags().map_err(|e| format!("cannot look: {e}"))?;
        let size_of = |source: usize| self.sources.size(source);
        for name in self.model.take(deeds, &seen, &tags, unsure, &size_of)? {
            let number = self.model.snaps.iter().position(|snap| snap.name == name);
            self.restore(number.ok_or("what is left is not in the model")?)?;
        }
        let is_there = |object: String| self.storage.stat(&object).unwrap().is_some();
        self.model
            .marked
            .retain(|name| is_there(name.object().unwrap()) || is_there(name.forgotten()));
        Ok(())
    }

    fn count(&self, deed: &Deed) {
        let add = |to: &AtomicU64, count: usize| to.fetch_add(count as u64, Ordering::Relaxed);
        match &deed.result {
            Ok(Effect::Saved(_)) => drop(add(&self.tally.saves, 1)),
            Ok(Effect::Pruned(pruned)) if !deed.op.is_dry() => {
                add(&self.tally.packs_pruned, pruned.packs.len());
            }
            Err(e) if e.kind == ErrorKind::Conflict => drop(add(&self.tally.conflicts, 1)),
            _ => {}
        }
        let plan = deed.plan.as_ref().filter(|_| !deed.op.is_dry() && deed.result.is_ok());
        add(&self.tally.forgotten, plan.map_or(0, |plan| plan.forgotten.len()));
    }

    fn count_trouble(&self, process: &Process) {
        self.tally.deaths.fetch_add(u64::from(process.is_dead()), Ordering::Relaxed);
        self.tally.faults.fetch_add(u64::from(process.hit().is_some()), Ordering::Relaxed);
    }

    /// Nothing that is needed is missing, and something restores.
    fn verify_some(&mut self) -> Result<(), Broken> {
        let read_percent = if self.random.once_in(20) { 100 } else { 0 };
        self.check(read_percent)?;
        if self.random.once_in(3) && !self.model.snaps.is_empty() {
            let number = self.random.below(self.model.snaps.len());
            self.restore(number)?;
            self.find(number)?;
        }
        Ok(())
    }

    fn check(&self, read_percent: u8) -> Result<(), Broken> {
        let options = CheckOptions { read_percent };
        let checked = self.looker.check(&options).map_err(|e| format!("cannot check: {e}"))?;
        ensure!(checked.is_clean(), "damage: {checked:?}");
        let count = self.model.snaps.len() as u64;
        ensure!(checked.snapshots == count, "{} of {count} checked", checked.snapshots);
        Ok(())
    }

    fn restore(&self, number: usize) -> Result<(), Broken> {
        let snap = &self.model.snaps[number];
        let target = self.sources.target();
        let options = RestoreOptions::default();
        let restored = self.looker.restore(&snap.name, &target, &options);
        restored.map_err(|e| format!("{:?} cannot be restored: {e}", snap.name))?;
        let is_same = content(&target) == *self.sources.content(snap.source);
        ensure!(is_same, "{:?} has other bytes", snap.name);
        self.tally.restores.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// What people ask for is what they get.
    fn find(&self, number: usize) -> Result<(), Broken> {
        let snaps = &self.model.snaps;
        let (run, step) = (&snaps[number].name.run, snaps[number].name.step);
        let last_step = |run: &str, step: u64| {
            snaps.iter().rfind(|snap| snap.name.run == run && snap.name.step == step)
        };
        let asked = [
            ("latest".to_string(), snaps.last()),
            (format!("{run}@latest"), self.model.newest(run)),
            (format!("{run}@{step}"), last_step(run, step)),
        ];
        for (text, wanted) in asked {
            let found = self.looker.find(&text).map_err(|e| format!("{text}: {e}"))?;
            let wanted = &wanted.expect("there is one").name;
            ensure!(found == *wanted, "{text} finds {found:?} and not {wanted:?}");
        }
        Ok(())
    }

    /// The end: all that is there restores, and after all was pruned nothing is left that nobody
    /// needs.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.check(100)?;
        for number in 0..self.model.snaps.len() {
            self.restore(number)?;
        }
        let keep = Keep { last: Some(1), ..Keep::default() };
        self.alone(Op::Forget { keep, run: None, dry_run: false }, Trouble::None)?;
        for _ in 0..2 {
            self.world.pass_ms(2 * self.grace_ms());
            self.alone(Op::prune_now(), Trouble::None)?;
        }
        self.check(100)?;
        for number in 0..self.model.snaps.len() {
            self.restore(number)?;
        }
        self.check_tidy()
    }

    fn check_tidy(&self) -> Result<(), Broken> {
        let snaps = &self.model.snaps;
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for snap in snaps {
            needed.insert(snap.name.object().unwrap());
            needed.extend(snap.tags.iter().map(|tag| snap.name.tag(tag).unwrap()));
            needed.extend(packs_of(&self.looker, &snap.name).iter().map(PackName::object));
        }
        let there: BTreeSet<String> = objects(&*self.storage).into_keys().collect();
        let left: Vec<&String> = there.difference(&needed).collect();
        ensure!(left.is_empty(), "nobody needs {left:?}");
        ensure!(there == needed, "something is missing");
        Ok(())
    }
}

/// Fails if there was an error without a cause, or a cause without an error.
fn check_error(
    deed: &Deed,
    process: &Process,
    is_of_the_dead: &dyn Fn(&str) -> bool,
) -> Result<(), Broken> {
    let hit = process.hit();
    if let Err(error) = &deed.result {
        ensure!(hit.is_some() || process.is_dead(), "failed with no reason: {error}");
    }
    let is_strict = matches!(deed.op, Op::Prune(_) | Op::Forget { .. });
    if let (true, Some((Call::Read | Call::List, name))) = (is_strict, hit) {
        let is_right = deed.result.is_err() || is_of_the_dead(&name);
        ensure!(is_right, "went on after an error at {name}");
    }
    Ok(())
}

/// Leaves the turns to others in any case.
struct Leaves<'a>(&'a Turns, usize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}
