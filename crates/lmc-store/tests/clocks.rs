//! Wrong clocks: a time that is ahead is said and not inherited, retention and `latest` go by the
//! storage's own times, and no clock makes a save return without its packs.

use crate::common::*;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    Clock, ErrorKind, Keep, Parent, PruneOptions, SaveOptions, Saved, SnapshotName, Store, Warning,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Once};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// How far past the storage's own time a name may be.
const AHEAD_MAX_MS: u64 = 60_000;

fn now() -> PruneOptions {
    PruneOptions { grace_ms: Some(0), ..PruneOptions::default() }
}

/// Saves a file whose bytes depend on the step.
fn save_as(store: &Store, folder: &Path, step: u64) -> (Saved, PathBuf) {
    let root = folder.join(format!("step{step}"));
    write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, step, 0));
    let options = SaveOptions {
        run: "r".into(),
        step: Some(step),
        parent: Parent::Auto,
        ..SaveOptions::default()
    };
    (save(store, &root, options), root)
}

fn steps(names: &[SnapshotName]) -> Vec<u64> {
    names.iter().map(|name| name.step).collect()
}

/// One save by a clock that is thirty days ahead: it says so, its time is that of the storage, and
/// the saves after it are neither ahead nor forgotten.
#[test]
fn a_clock_that_is_ahead_stamps_no_later_save() {
    let (store, storage, clock) = memory_store();
    let ahead = Store::open(storage, clock.later(30 * 24)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (wrong, _) = save_as(&ahead, folder.path(), 1);
    assert!(
        wrong.warnings.iter().any(|warning| warning.message.contains("ahead")),
        "{:?}",
        wrong.warnings
    );
    let mut saved = vec![wrong.name];
    for step in 2..5 {
        clock.pass_hours(2);
        let (right, _) = save_as(&store, folder.path(), step);
        assert!(right.warnings.is_empty(), "{:?}", right.warnings);
        saved.push(right.name);
    }
    for name in &saved {
        assert!(name.time_ms <= clock.now_ms() + AHEAD_MAX_MS, "{} is ahead", name.step);
    }
    assert_eq!(steps(&store.snapshots().unwrap()), [1, 2, 3, 4]);
    let keep = Keep { within_ms: Some(3 * HOUR_MS), ..Keep::default() };
    assert_eq!(steps(&store.plan_forget(&keep, None).unwrap().kept), [3, 4]);
    let keep = Keep { within_ms: Some(7 * DAY_MS), ..Keep::default() };
    assert_eq!(steps(&store.plan_forget(&keep, None).unwrap().forgotten), [0; 0]);
}

/// Saves by a clock that is a day behind, whatever they are coded against: each says so, has the
/// time of the storage, and is the latest and kept as such.
#[test]
fn a_clock_that_is_behind_makes_no_save_an_old_one() {
    let clock = TestClock::new();
    let right_clock = clock.later(24);
    let storage = Arc::new(MemoryStorage::new(right_clock.clone()));
    let right = Store::init(storage.clone(), right_clock).unwrap();
    let behind = Store::open(storage.clone(), clock).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut names: Vec<SnapshotName> =
        (1..4).map(|step| save_as(&right, folder.path(), step).0.name).collect();
    let root = folder.path().join("step1");
    let older = Parent::Snapshot(names[0].clone());
    for (parent, is_damaged) in
        [(Parent::None, false), (older, false), (Parent::Auto, false), (Parent::Auto, true)]
    {
        let newest = names.last().unwrap();
        if is_damaged {
            storage.replace(&newest.object().unwrap(), b"{}").unwrap();
        }
        let step = Some(newest.step + 1);
        let options = SaveOptions { run: "r".into(), step, parent, ..SaveOptions::default() };
        let saved = save(&behind, &root, options);
        assert!(
            saved.warnings.iter().any(|warning| warning.message.contains("behind")),
            "{:?}",
            saved.warnings
        );
        assert!(saved.name.time_ms > newest.time_ms);
        assert_eq!(right.find("latest").unwrap(), saved.name);
        let keep = Keep { last: Some(1), ..Keep::default() };
        let kept = right.plan_forget(&keep, None).unwrap().kept;
        assert_eq!(kept, std::slice::from_ref(&saved.name));
        names.push(saved.name);
    }
}

/// A clock that is behind by less than what is reported: the save comes after the newest of its run
/// all the same, whatever it is coded against, also if that newest one is damaged.
#[test]
fn a_save_is_later_than_the_newest_of_its_run() {
    let clock = TestClock::new();
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let right = Store::init(storage.clone(), clock.clone()).unwrap();
    let behind = Store::open(storage.clone(), Arc::new(Behind(clock, 50_000))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for is_damaged in [false, true] {
        let (newest, root) = save_as(&right, folder.path(), 1 + u64::from(is_damaged));
        if is_damaged {
            storage.replace(&newest.name.object().unwrap(), b"{}").unwrap();
        }
        let parent = if is_damaged { Parent::Auto } else { Parent::None };
        let step = Some(newest.name.step);
        let options = SaveOptions { run: "r".into(), step, parent, ..SaveOptions::default() };
        let saved = save(&behind, &root, options);
        assert!(
            !saved.warnings.iter().any(|warning| warning.message.contains("clock")),
            "{:?}",
            saved.warnings
        );
        assert_eq!(saved.name.time_ms, newest.name.time_ms + 1, "{is_damaged}");
        assert_eq!(right.find("latest").unwrap(), saved.name);
    }
}

/// The clock of the storage was a day ahead and is right again: a save says which snapshot counts
/// as newer than itself.
#[test]
fn a_save_says_that_an_older_one_has_a_later_time() {
    let clock = TestClock::new();
    let ahead = Arc::new(Ahead(clock.clone(), AtomicU64::new(86_400_000)));
    let storage = Arc::new(MemoryStorage::new(ahead.clone()));
    let store = Store::init(storage, ahead.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = save_as(&store, folder.path(), 1);
    ahead.1.store(0, Ordering::Relaxed);
    let (second, _) = save_as(&store, folder.path(), 2);
    let says = |Warning { message, .. }: &Warning| {
        message.contains(&first.name.id) && message.contains("counts as newer")
    };
    assert!(second.warnings.iter().any(says), "{:?}", second.warnings);
    assert!(second.name.time_ms < first.name.time_ms);
}

/// A clock that is ahead of another one.
#[derive(Debug)]
struct Ahead(Arc<TestClock>, AtomicU64);

impl Clock for Ahead {
    fn now_ms(&self) -> u64 {
        self.0.now_ms() + self.1.load(Ordering::Relaxed)
    }

    fn boot_ms(&self) -> u64 {
        self.0.boot_ms()
    }
}

/// A clock that is behind another one.
#[derive(Debug)]
struct Behind(Arc<TestClock>, u64);

impl Clock for Behind {
    fn now_ms(&self) -> u64 {
        self.0.now_ms() - self.1
    }

    fn boot_ms(&self) -> u64 {
        self.0.boot_ms()
    }
}

/// A snapshot whose name lies in the future, of an earlier version or from another store: it counts
/// as saved when the storage says that its manifest came, for `latest`, parents and retention.
#[test]
fn what_lies_in_the_future_is_only_as_new_as_its_manifest() {
    let (store, _, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = save_as(&store, folder.path(), 1);
    let mut manifest = manifest_json(&store, &first.name);
    manifest["time_ms"] = (first.name.time_ms + 30 * DAY_MS).into();
    manifest["step"] = 2.into();
    manifest["save"] = format!("{:032x}", 7).into();
    let future = plant(&store, &manifest);
    assert_eq!(store.find("latest").unwrap(), future);
    clock.pass_hours(1);
    let (next, _) = save_as(&store, folder.path(), 3);
    assert_eq!(next.parent.as_ref(), Some(&future));
    assert!(next.name.time_ms <= clock.now_ms() + AHEAD_MAX_MS);
    clock.pass_hours(1);
    let (last, _) = save_as(&store, folder.path(), 4);
    assert_eq!(last.parent.as_ref(), Some(&next.name));
    assert_eq!(steps(&store.snapshots().unwrap()), [1, 2, 3, 4]);
    assert_eq!(store.find("latest").unwrap(), last.name);
    assert_eq!(store.find("r@latest").unwrap(), last.name);
    assert_eq!(store.newest("r").unwrap(), Some(last.name));
    let keep = Keep { within_ms: Some(90 * 60_000), ..Keep::default() };
    assert_eq!(steps(&store.plan_forget(&keep, None).unwrap().kept), [3, 4]);
    let keep = Keep { last: Some(2), ..Keep::default() };
    assert_eq!(steps(&store.plan_forget(&keep, None).unwrap().kept), [3, 4]);
    // What a copy brings in counts in the same way.
    let (target, _, target_clock) = memory_store();
    store.copy_to(&target, &[future]).unwrap();
    target_clock.pass_hours(1);
    let (own, _) = save_as(&target, folder.path(), 5);
    assert_eq!(target.find("latest").unwrap(), own.name);
    assert!(own.name.time_ms <= target_clock.now_ms() + AHEAD_MAX_MS);
}

/// A save that stands still for longer than grace right before its commit, while a prune takes it
/// for dead: it ends in a conflict, and there is no snapshot that lacks a pack.
#[test]
fn a_save_that_slept_before_its_commit_takes_it_back() {
    let (store, storage, clock) = memory_store();
    let slow = MortalStorage::new(storage.clone(), u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    save_as(&store, folder.path(), 1);
    let (pruner, once) = (store.clone(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots/") {
            once.call_once(|| {
                clock.pass_hours(30);
                assert!(!pruner.prune(&PruneOptions::default()).unwrap().packs.is_empty());
            });
        }
        Fate::Done
    });
    let root = folder.path().join("new");
    write(&root.join("model.safetensors"), &checkpoint(&["x"], 3000, 77, 0));
    let options = SaveOptions { run: "r".into(), ..SaveOptions::default() };
    let error = sleeper.save(&root, &options).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert_eq!(steps(&store.snapshots().unwrap()), [1]);
    assert!(store.check(&Default::default()).unwrap().is_clean());
    let saved = save(&store, &root, options);
    check_restores(&store, &saved.name, &root);
}

/// A copy that slept leaves the manifest, which may be that of another copy, and says what it is.
#[test]
fn a_copy_that_slept_says_so() {
    let (source, _, _) = memory_store();
    let (target, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    save_as(&target, folder.path(), 1);
    let root = folder.path().join("other");
    write(&root.join("model.safetensors"), &checkpoint(&["x"], 3000, 77, 0));
    let name = save_step(&source, &root, "other", 2).name;
    let slow = MortalStorage::new(storage, u64::MAX);
    let sleeper = Store::open(slow.clone(), clock.clone()).unwrap();
    let (pruner, once) = (target.clone(), Once::new());
    slow.watch(move |call, name| {
        if call == Call::Change && name.starts_with("snapshots/") {
            once.call_once(|| {
                clock.pass_hours(30);
                assert!(!pruner.prune(&PruneOptions::default()).unwrap().packs.is_empty());
            });
        }
        Fate::Done
    });
    let error = source.copy_to(&sleeper, std::slice::from_ref(&name)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("is missing or incomplete"), "{error}");
    assert_eq!(target.snapshots().unwrap().len(), 2);
    assert!(!target.check(&Default::default()).unwrap().is_clean());
}

/// The times of a file system that takes them from its clients.
#[derive(Debug)]
struct ClientTimes {
    true_time: Arc<TestClock>,
    /// How far the clock of the client that is writing is ahead.
    ahead_ms: AtomicI64,
}

impl Clock for ClientTimes {
    fn now_ms(&self) -> u64 {
        self.true_time.now_ms().saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn boot_ms(&self) -> u64 {
        self.true_time.boot_ms()
    }
}

/// A store that is seen from clients whose clocks differ.
struct Clients {
    times: Arc<ClientTimes>,
    storage: Arc<MemoryStorage>,
}

impl Clients {
    fn new() -> Self {
        let (true_time, ahead_ms) = (TestClock::new(), AtomicI64::new(0));
        let times = Arc::new(ClientTimes { true_time, ahead_ms });
        let storage = Arc::new(MemoryStorage::new(times.clone()));
        Store::init(storage.clone(), times.true_time.clone()).unwrap();
        Self { times, storage }
    }

    /// The store as a client sees it whose clock is ahead; `before` is called before each of its
    /// calls.
    fn client(&self, ahead_ms: i64, before: impl Fn(Call, &str) + Send + Sync + 'static) -> Store {
        let storage = MortalStorage::new(self.storage.clone(), u64::MAX);
        let times = self.times.clone();
        storage.watch(move |call, name| {
            before(call, name);
            times.ahead_ms.store(ahead_ms, Ordering::SeqCst);
            Fate::Done
        });
        let hours = u64::try_from(ahead_ms).unwrap_or(0) / HOUR_MS;
        Store::open(storage, self.times.true_time.later(hours)).unwrap()
    }
}

/// A prune by a client whose clock is days ahead, or behind, at every moment of a save: the save is
/// whole or it is a conflict, and is never without its packs.
#[test]
fn clients_with_clocks_days_apart_lose_no_saved_pack() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new");
    write(&root.join("model.safetensors"), &checkpoint(&["x"], 3000, 77, 0));
    let options = SaveOptions { run: "r".into(), ..SaveOptions::default() };
    let (mut whole, mut conflicts) = (0, 0);
    for ahead_ms in [30 * HOUR_MS as i64, 13 * HOUR_MS as i64, -30 * HOUR_MS as i64] {
        for moment in 0.. {
            let clients = Clients::new();
            save_as(&clients.client(0, |_, _| ()), folder.path(), 1);
            let pruner = clients.client(ahead_ms, |_, _| ());
            let calls = Arc::new(AtomicU64::new(0));
            let counted = calls.clone();
            let saver = clients.client(0, move |_, _| {
                if counted.fetch_add(1, Ordering::SeqCst) == moment {
                    // It may refuse; what it does must harm nobody.
                    let _ = pruner.prune(&PruneOptions::default());
                }
            });
            let saved = saver.save(&root, &options);
            let looker = clients.client(0, |_, _| ());
            match saved {
                Ok(saved) => {
                    check_restores(&looker, &saved.name, &root);
                    whole += 1;
                }
                Err(e) => {
                    assert_eq!(e.kind, ErrorKind::Conflict, "{e}");
                    assert_eq!(steps(&looker.snapshots().unwrap()), [1]);
                    conflicts += 1;
                }
            }
            assert!(looker.check(&Default::default()).unwrap().is_clean());
            if calls.load(Ordering::SeqCst) <= moment {
                break;
            }
        }
    }
    println!("{whole} saves whole, {conflicts} conflicts");
    assert!(whole > 10 && conflicts > 3);
}

/// What is young by the storage's times stays, even if the clock of whoever prunes is ahead.
#[test]
fn the_clock_of_a_prune_makes_nothing_old() {
    let (store, storage, clock) = memory_store();
    let folder = tempfile::tempdir().unwrap();
    let (saved, root) = save_as(&store, folder.path(), 1);
    let orphan = lmc_store::PackName::of(b"orphan", 0).object();
    storage.put_new(&orphan, b"orphan").unwrap();
    let ahead = Store::open(storage.clone(), clock.later(1000)).unwrap();
    assert!(ahead.prune(&PruneOptions::default()).unwrap().packs.is_empty());
    assert_eq!(ahead.prune(&now()).unwrap().packs.len(), 1);
    check_restores(&store, &saved.name, &root);
}

/// A clock that is set to another time whenever somebody has looked at it, while the one that
/// nobody sets continues.
#[derive(Debug)]
struct Jumping {
    steady: Arc<TestClock>,
    looks: AtomicU64,
    by_ms: i64,
}

impl Clock for Jumping {
    fn now_ms(&self) -> u64 {
        let is_odd = self.looks.fetch_add(1, Ordering::SeqCst) % 2 == 1;
        let by_ms = if is_odd { self.by_ms } else { -self.by_ms };
        self.steady.now_ms().saturating_add_signed(by_ms)
    }

    fn boot_ms(&self) -> u64 {
        self.steady.boot_ms()
    }
}

/// The clock of the machine jumps days forth and back between any two looks at it: saves and prunes
/// do not take themselves for dead, nor each other, and those that have slept are found out.
#[test]
fn a_clock_that_jumps_ends_no_lease_and_keeps_none() {
    for by_ms in [40 * HOUR_MS as i64, -40 * HOUR_MS as i64, 400 * DAY_MS as i64] {
        let (store, storage, clock) = memory_store();
        let folder = tempfile::tempdir().unwrap();
        let (steady, looks) = (clock.clone(), AtomicU64::new(0));
        let jumping =
            Store::open(storage.clone(), Arc::new(Jumping { steady, looks, by_ms })).unwrap();
        for step in 1..6 {
            let root = folder.path().join(format!("step{step}"));
            write(&root.join("model.safetensors"), &checkpoint(&["a"], 3000, step, 0));
            let options = SaveOptions { step: Some(step), ..SaveOptions::default() };
            // A prune in the middle of each save finds its lease alive.
            let prune = |_| {
                let pruned = jumping.prune(&now()).unwrap();
                assert_eq!((pruned.leases, pruned.packs.len()), (1, 0));
            };
            let saved = watched(&jumping, &prune, |store| store.save(&root, &options)).unwrap();
            check_restores(&store, &saved.name, &root);
            assert!(saved.name.time_ms <= clock.now_ms() + AHEAD_MAX_MS);
        }
        assert_eq!(steps(&store.snapshots().unwrap()), [1, 2, 3, 4, 5]);
        // Thirteen hours are too long for a lease, whatever the clock says meanwhile.
        let root = folder.path().join("late");
        write(&root.join("model.safetensors"), &checkpoint(&["b"], 3000, 99, 0));
        let sleep = |_| clock.pass_hours(13);
        let late = SaveOptions::default();
        let error = watched(&jumping, &sleep, |store| store.save(&root, &late)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(objects_in(&*storage, "pending").is_empty());
    }
}

/// A lease from far in the future says that clocks are apart: a prune refuses to tell what is old.
#[test]
fn a_prune_refuses_times_that_are_yet_to_come() {
    let clients = Clients::new();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new");
    write(&root.join("model.safetensors"), &checkpoint(&["x"], 3000, 77, 0));
    let ahead = clients.client(100 * HOUR_MS as i64, |_, _| ());
    let right = clients.client(0, |_, _| ());
    let options = SaveOptions::default();
    let once = Once::new();
    let prune = |_| {
        once.call_once(|| {
            let error = right.prune(&now()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Conflict);
            assert!(error.to_string().contains("clock"), "{error}");
        });
    };
    let saved = watched(&ahead, &prune, |store| store.save(&root, &options)).unwrap();
    check_restores(&right, &saved.name, &root);
    right.prune(&now()).unwrap();
    check_restores(&right, &saved.name, &root);
}

/// So does the lease of a prune that was killed, which nobody would take for old before that time
/// comes: a prune, and a repair that brings something back, name it and say what to do.
#[test]
fn the_lease_of_a_prune_from_the_future_is_told_of() {
    let clients = Clients::new();
    let folder = tempfile::tempdir().unwrap();
    let right = clients.client(0, |_, _| ());
    let (saved, root) = save_as(&right, folder.path(), 1);
    let object = saved.name.object().unwrap();
    let moved = object.replacen("snapshots", "damaged", 1);
    let lease = format!("pruning/{:032x}", 7);
    clients.times.ahead_ms.store(1000 * DAY_MS as i64, Ordering::SeqCst);
    clients.storage.put_new(&lease, b"").unwrap();
    clients.storage.move_new(&object, &moved).unwrap();
    let errors = [right.prune(&now()).map(drop), right.repair(None, false).map(drop)];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains(&lease), "{error}");
        assert!(error.to_string().contains("remove that lease"), "{error}");
    }
    clients.storage.delete(&[lease]).unwrap();
    assert_eq!(right.repair(None, false).unwrap().manifests, [object]);
    right.prune(&now()).unwrap();
    check_restores(&right, &saved.name, &root);
}
