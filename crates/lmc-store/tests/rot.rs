//! Bit rot in a store of more than a thousand packs: `check` names exactly what is damaged and
//! exactly the files that this hurts, everything else restores, no wrong byte ever comes out, and
//! `repair` takes nothing away that could be read; with a good copy it puts all right.

use crate::common::TestClock;
use crate::decay::{Expected, FileOf, History, Objects, Snapshot, content, folder, objects};
use crate::disks::Random;
use lmc_store::storage::{LocalStorage, MemoryStorage};
use lmc_store::{
    CONFIG_NAME, CheckOptions, CheckReport, Error, ErrorKind, PackName, PruneOptions, RelPath,
    Repaired, RestoreOptions, Store, SystemClock,
};
use lmc_testkit::{Part, count};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Damages in a test run; `LMC_ROT` asks for more.
const DAMAGES: u64 = 60;
const ALL: CheckOptions = CheckOptions { read_percent: 100 };

/// What was seen in all.
#[derive(Debug, Default)]
struct Tally {
    damages: u64,
    groups: u64,
    packs: u64,
    manifests: u64,
    hurt: u64,
    /// Files with damage in their bases only that restore nevertheless.
    spared: u64,
    restored: u64,
    healed: u64,
}

/// A history and what is known of it.
struct Rot {
    history: History,
    /// How many damages come together is random too.
    random: Random,
    tally: Tally,
}

fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    items.into_iter().collect()
}

fn is_clear(error: &Error) -> bool {
    let is_damage =
        matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::NotFound);
    is_damage && !error.to_string().is_empty()
}

/// The files that a check found to be hurt; each is named once and with a clear error.
fn hurt(checked: &CheckReport) -> BTreeSet<FileOf> {
    assert!(checked.hurt.iter().all(|hurt| is_clear(&hurt.error)));
    let files = checked.hurt.iter().map(|h| (h.snapshot.object().unwrap(), h.path.clone()));
    let hurt = set(files);
    assert_eq!(hurt.len(), checked.hurt.len(), "a file is named twice");
    hurt
}

/// Compares what a check says with what it should.
fn compare(checked: &CheckReport, expected: &Expected) -> BTreeSet<FileOf> {
    assert_eq!(set(checked.damaged.iter().map(|(_, d)| d.object.clone())), expected.packs);
    assert_eq!(set(checked.manifests.iter().map(|d| d.object.clone())), expected.manifests);
    assert_eq!(checked.damaged.len(), expected.packs.len());
    assert_eq!(checked.manifests.len(), expected.manifests.len());
    let hurt = hurt(checked);
    assert!(hurt.is_superset(&expected.hurt), "missed: {:?}", expected.hurt.difference(&hurt));
    let extra = hurt.difference(&expected.maybe_hurt);
    assert!(hurt.is_subset(&expected.maybe_hurt), "not hurt: {extra:?}");
    hurt
}

/// Restores what can be restored of a snapshot, and compares it byte for byte; `hurt` are the paths
/// that must fail. Without `keep_going` there is nothing at all.
fn restore(store: &Store, snapshot: &Snapshot, hurt: &BTreeSet<RelPath>) {
    let folder = folder();
    let target = folder.path().join("target");
    let go = |keep_going, target: &std::path::Path| {
        let options = RestoreOptions { keep_going, ..RestoreOptions::default() };
        store.restore(&snapshot.name, target, &options)
    };
    let name = &snapshot.object;
    if !hurt.is_empty() {
        let error = go(false, &target).expect_err("it is damaged");
        // A single file is called as its target is.
        let mut names = hurt.iter().map(RelPath::to_string).chain(["target".to_string()]);
        let is_named = names.any(|name| error.to_string().starts_with(&name));
        assert!(is_clear(&error) && is_named, "{name}: {error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name}: leftovers");
        if snapshot.manifest.is_file {
            return;
        }
    }
    let restored = go(true, &target).unwrap_or_else(|e| panic!("{name}: {e}"));
    let failed = set(restored.failed.iter().map(|(path, _)| path.clone()));
    assert_eq!(failed, *hurt, "{name}: other files than check said");
    assert!(restored.failed.iter().all(|(_, error)| is_clear(error)));
    let mut wanted = snapshot.tree.clone();
    wanted.retain(|path, _| !hurt.iter().any(|hurt| hurt.as_bytes() == &path[..]));
    assert!(content(&target) == wanted, "{name}: wrong bytes");
}

impl Rot {
    fn new(history: History, seed: u64) -> Self {
        let packs = history.good.keys().filter(|name| name.starts_with("packs/")).count();
        assert!(packs >= 1000, "only {packs} packs");
        assert!(history.store.check(&ALL).unwrap().is_clean());
        Self { history, random: Random::new(seed), tally: Tally::default() }
    }

    fn now(&self) -> Objects {
        objects(&*self.history.storage)
    }

    /// Several damages at once, mostly one, sometimes very many; says what they were.
    fn damage(&mut self, most: u64) -> Vec<String> {
        let wanted = match self.random.below(40) {
            0..28 => 1,
            28..39 => 2 + self.random.below(6),
            _ => 40,
        };
        let mut done = Vec::new();
        while done.len() < wanted.min(most as usize) {
            done.extend(self.history.damage(&mut self.random));
        }
        self.tally.damages += done.len() as u64;
        self.tally.groups += 1;
        done
    }

    /// Everything that must hold of a damaged store, and its way back.
    fn verify_all(&mut self) {
        let now = self.now();
        let expected = self.history.expected(&now);
        let store = &self.history.store;
        self.look_at_config(&now);
        self.look_at_leases(&now);
        let hurt = compare(&store.check(&ALL).unwrap(), &expected);
        assert!(self.now() == now, "a check changes nothing");
        self.tally.packs += expected.packs.len() as u64;
        self.tally.manifests += expected.manifests.len() as u64;
        self.tally.hurt += hurt.len() as u64;
        self.tally.spared += (expected.maybe_hurt.len() - hurt.len()) as u64;
        self.restore_some(&expected, &hurt);
        if self.random.once_in(2) {
            self.repair_alone(&now, &expected, &hurt);
        }
        self.repair_with_copy(&now, &expected);
    }

    /// A damaged configuration is seen when the store is opened.
    fn look_at_config(&self, now: &Objects) {
        let is_good = now.get(CONFIG_NAME) == self.history.good.get(CONFIG_NAME);
        let opened = Store::open(self.history.storage.clone(), Arc::new(SystemClock));
        match opened {
            Ok(store) => assert_eq!(store.config(), self.history.store.config()),
            Err(e) => {
                assert!(!is_good, "{e}");
                let is_clear = matches!(
                    e.kind,
                    ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::NoStore
                );
                assert!(is_clear && !e.to_string().is_empty(), "{e}");
            }
        }
    }

    /// A prune that cannot read a lease says so and removes nothing.
    fn look_at_leases(&self, now: &Objects) {
        let options = PruneOptions { dry_run: true, ..PruneOptions::default() };
        match self.history.store.prune(&options) {
            Ok(pruned) => {
                let visible = self.history.expected(now).visible;
                let saved = self.history.saved.iter();
                let shown = saved.filter(|snapshot| visible.contains(&snapshot.object));
                let mut needed = shown.flat_map(|snapshot| &snapshot.manifest.packs);
                assert!(!needed.any(|pack| pruned.packs.contains(&pack.name)));
            }
            Err(e) => {
                let good = &self.history.good;
                let is_changed = |name: &&String| good.get(*name) != now.get(*name);
                let mut changed = now.keys().filter(is_changed);
                assert!(changed.any(|name| e.to_string().contains(name)), "{e}");
            }
        }
        assert!(self.now() == *now, "a dry run changes nothing");
    }

    /// Restores all snapshots that may be hurt, and some of the others.
    fn restore_some(&mut self, expected: &Expected, hurt: &BTreeSet<FileOf>) {
        let mut paths: BTreeMap<&String, BTreeSet<RelPath>> = BTreeMap::new();
        for (object, path) in hurt {
            paths.entry(object).or_default().insert(path.clone());
        }
        let none = BTreeSet::new();
        for snapshot in &self.history.saved {
            let object = &snapshot.object;
            let store = &self.history.store;
            if expected.manifests.contains(object) {
                let error = store.manifest(&snapshot.name).expect_err("its manifest is damaged");
                assert!(error.kind == ErrorKind::Corrupt, "{error}");
            } else if expected.visible.contains(object) {
                let may_be_hurt = expected.maybe_hurt.iter().any(|(hurt, _)| hurt == object);
                if may_be_hurt || self.random.once_in(15) {
                    restore(store, snapshot, paths.get(object).unwrap_or(&none));
                    self.tally.restored += 1;
                }
            }
        }
    }

    /// What can be had from other packs of the same bytes, or grew, is repaired; damaged manifests
    /// are moved away; all else is as it was, byte for byte, and so is what can be read.
    fn repair_alone(&mut self, now: &Objects, expected: &Expected, hurt: &BTreeSet<FileOf>) {
        let twin = |object: &&String| {
            let hash = PackName::from_object(object).unwrap().hash().to_string();
            let mut others = now.iter().filter(|(other, _)| other.contains(&hash));
            others.any(|(other, bytes)| bytes.starts_with(&self.history.good[other]))
        };
        let healed: BTreeSet<String> = expected.packs.iter().filter(twin).cloned().collect();
        let mut wanted = now.clone();
        for pack in &healed {
            wanted.insert(pack.clone(), self.history.good[pack].clone());
        }
        for object in &expected.manifests {
            let bytes = wanted.remove(object).unwrap();
            wanted.insert(object.replacen("snapshots/", "damaged/", 1), bytes);
        }
        let store = &self.history.store;
        let tried = store.repair(None, true).unwrap();
        assert!(self.now() == *now, "a dry run changes nothing");
        let repaired = store.repair(None, false).unwrap();
        let names = |repaired: &Repaired| set(repaired.packs.iter().map(PackName::object));
        assert!(names(&tried) == healed && names(&repaired) == healed);
        assert_eq!(set(repaired.moved), expected.manifests);
        assert_eq!(repaired.lost.len(), expected.packs.len() - healed.len());
        assert!(self.now() == wanted, "a repair changed what it should not");
        let after = compare(&repaired.after, &self.history.expected(&wanted));
        assert!(after.is_subset(hurt), "a repair hurt files: {:?}", after.difference(hurt));
        self.tally.healed += healed.len() as u64;
    }

    /// With a good copy everything that is shown is repaired; what was moved away stays where it
    /// is.
    fn repair_with_copy(&mut self, now: &Objects, expected: &Expected) {
        let moved = self.now().into_iter().filter(|(name, _)| name.starts_with("damaged/"));
        let moved: Objects = moved.collect();
        let repaired = self.history.store.repair(Some(&self.history.copy), false).unwrap();
        assert!(repaired.lost.is_empty() && repaired.moved.is_empty(), "{repaired:?}");
        assert!(repaired.after.is_clean());
        let mut wanted = now.clone();
        wanted.extend(moved);
        for object in expected.packs.iter().chain(&expected.manifests) {
            wanted.insert(object.clone(), self.history.good[object].clone());
        }
        // Packs that only damaged manifests named.
        for snapshot in &self.history.saved {
            if expected.visible.contains(&snapshot.object) {
                for pack in &snapshot.manifest.packs {
                    let object = pack.name.object();
                    wanted.insert(object.clone(), self.history.good[&object].clone());
                }
            }
        }
        let found = self.now();
        assert!(found == wanted, "a repair with a copy left {:?}", differing(&found, &wanted));
        self.history.reset(&found);
    }

    fn run(mut self, damages: u64, seed: u64) {
        let start = std::time::Instant::now();
        while self.tally.damages < damages {
            let most = damages - self.tally.damages;
            let done = self.damage(most);
            let looked =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.verify_all()));
            if let Err(panic) = looked {
                println!("LMC_SEED={seed}, damage {}: {done:#?}", self.tally.damages);
                std::panic::resume_unwind(panic);
            }
        }
        assert!(self.now() == self.history.good);
        let none = BTreeSet::new();
        for snapshot in &self.history.saved {
            restore(&self.history.store, snapshot, &none);
        }
        let packs = self.history.good.keys().filter(|name| name.starts_with("packs/")).count();
        let (snapshots, took) = (self.history.saved.len(), start.elapsed().as_secs_f64());
        println!("{packs} packs, {snapshots} snapshots, {took:.1} s: {:?}", self.tally);
    }
}

fn differing<'a>(a: &'a Objects, b: &'a Objects) -> BTreeSet<&'a String> {
    a.keys().chain(b.keys()).filter(|name| a.get(*name) != b.get(*name)).collect()
}

/// Damages that are done here, and the seed of them.
fn damages(one_in: u64, seed: u64) -> (u64, u64) {
    let part = Part::from_env();
    (part.share(count("LMC_ROT", DAMAGES) / one_in), part.seed(count("LMC_SEED", seed)))
}

/// In memory.
#[test]
fn rot_in_memory() {
    let (damages, seed) = damages(1, 1);
    let clock = TestClock::new();
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    Rot::new(History::new(storage, &clock), seed).run(damages, seed);
}

/// In a directory.
#[test]
fn rot_on_disk() {
    let (damages, seed) = damages(4, 2);
    let root = folder();
    let storage = Arc::new(LocalStorage::new(&root.path().join("store")));
    Rot::new(History::new(storage, &TestClock::new()), seed).run(damages, seed);
}
