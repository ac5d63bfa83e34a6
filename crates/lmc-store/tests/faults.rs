//! Disks that fail, at every operation in turn: an error and never a panic, the snapshots before
//! are as they were, nothing is half there, also after a power cut, and all is well when the fault
//! is gone.

use crate::common::TestClock;
use crate::disks::Random;
use crate::disks::crash::{Lie, State};
use crate::disks::cut::Cut;
use crate::disks::faulty::{EDQUOT, EINTR, EIO, ENOSPC, Failure, Fault, FaultyDisk, Kind};
use crate::disks::scene::{Expected, Player, Scene, Step};
use crate::disks::verify::{Broken, recover, verify_store};
use lmc_store::{CheckOptions, ErrorKind};
use lmc_testkit::{Part, count};
use std::sync::Arc;

/// Interrupted calls are made again, but not for ever by a test.
const INTERRUPTS_MAX: u64 = 20;

/// A store with three snapshots, to which something is done while the disk fails.
struct Base {
    scene: Scene,
    state: State,
    clock: Arc<TestClock>,
    expected: Expected,
}

/// What is done: something of each kind.
const STEPS: [Step; 5] = [
    Step::Save { step: 4, tag: Some("kept") },
    Step::Tag { step: 2, tag: "best" },
    Step::Forget { step: 1 },
    Step::Prune,
    Step::Rebase { step: 3 },
];

impl Base {
    fn new(seed: u64) -> Self {
        let scene = Scene::new(seed);
        let mut player = Player::new(&scene, Lie::None);
        player.play(&Step::Init).unwrap();
        for step in 1..=3 {
            player.play(&Step::Save { step, tag: None }).unwrap();
        }
        let (state, clock) = (player.disk.state(), player.clock.clone());
        let expected = player.expected.clone();
        Self { scene, state, clock, expected }
    }

    fn player(&self) -> Player<'_> {
        let (state, expected) = (self.state.clone(), self.expected.clone());
        Player::on(&self.scene, state, self.clock.later(0), expected, Lie::None)
    }

    /// Does everything on a disk with this fault; returns whether the fault was met.
    fn try_fault(&self, fault: Fault, random: &mut Random) -> Result<bool, Broken> {
        let mut player = self.player();
        let disk = FaultyDisk::new(player.disk.clone(), fault);
        for step in &STEPS {
            // Each as a command of its own, so that a failed sync does not stop the next one.
            player.reopen(Some(disk.clone()));
            let commits = disk.commits();
            if let Err(e) = player.play(step) {
                if e.kind != ErrorKind::Io {
                    return Err(format!("{step:?} fails with {:?}: {e}", e.kind));
                }
                // Only where the commit itself fails may a save leave a whole snapshot.
                if let Step::Save { step, .. } = step
                    && disk.commits() == commits
                {
                    player.expected.may.remove(step);
                }
            }
        }
        player.reopen(None);
        verify_store(&player)?;
        let cut = Cut::ALL[random.below(Cut::ALL.len())];
        for cut in [Cut::None, cut] {
            let image = cut.image(&player.disk.state(), random);
            recover(&self.scene, image, player.expected.clone(), player.clock.later(1), random)
                .map_err(|e| format!("{cut:?} afterwards: {e}"))?;
        }
        Ok(disk.was_touched())
    }

    /// Lets the first operation of a kind fail, then the second, until none is left that could; of
    /// these, what belongs to a part. Returns how many there were.
    fn try_all(&self, part: Part, kind: Kind, failure: Failure, times: u64, stride: u64) -> u64 {
        for (done, number) in part.numbers(0).enumerate() {
            let at = number.saturating_mul(stride);
            let fault = Fault { kind, at, times, failure };
            // What chance adds depends on the fault alone, so that all parts together are the
            // whole.
            match self.try_fault(fault, &mut Random::new(times ^ at)) {
                Ok(true) => {}
                Ok(false) => return done as u64,
                Err(broken) => panic!("{fault:?}: {broken}"),
            }
        }
        unreachable!("a history ends")
    }
}

/// Every operation of every kind, with every error, once and for good. `LMC_FAULT_STRIDE=1` tries
/// each one; otherwise some are left out, for the time it takes.
#[test]
fn every_operation_fails_in_turn() {
    let stride = count("LMC_FAULT_STRIDE", 11);
    let (part, base) = (Part::from_env(), Base::new(count("LMC_SEED", 0)));
    let errors = [ENOSPC, EDQUOT, EIO, EINTR];
    let mut faults = 0;
    for kind in Kind::ALL {
        for (number, error) in errors.into_iter().enumerate() {
            // Another one of the errors for each operation, unless all are asked for.
            let lasting = if error == EINTR { INTERRUPTS_MAX } else { u64::MAX };
            let stride = stride + u64::from(stride > 1) * number as u64;
            faults += base.try_all(part, kind, Failure::Error(error), 1, stride);
            faults += base.try_all(part, kind, Failure::Error(error), lasting, stride);
        }
        if !matches!(kind, Kind::Create | Kind::Open) {
            faults += base.try_all(part, kind, Failure::ErrorAfter(EIO), 1, stride);
        }
        if matches!(kind, Kind::Write | Kind::ReadAt) {
            faults += base.try_all(part, kind, Failure::Short, 1, stride);
            faults += base.try_all(part, kind, Failure::Short, u64::MAX, u64::MAX / 2);
        }
    }
    println!("{part}: {faults} faults, no promise broken");
}

/// Writes and syncs that fail in silence are found: the tests look where they should.
#[test]
fn a_silent_fault_is_found() {
    let base = Base::new(0);
    for kind in [Kind::Write, Kind::Sync, Kind::SyncDir] {
        let broken = |at| {
            let fault = Fault { kind, at, times: 1, failure: Failure::Silent };
            base.try_fault(fault, &mut Random::new(at)).err()
        };
        let found = (0..40).find_map(broken);
        println!("{kind:?}: {}", found.unwrap_or_else(|| panic!("nobody noticed {kind:?}")));
    }
}

/// Each sync of a save fails once and then works again, as the kernel has it: the save fails, its
/// snapshot is not there, after a power cut neither, unless it was the last sync of the commit, and
/// the writer writes nothing more.
#[test]
fn a_failed_sync_is_never_forgotten() {
    let base = Base::new(1);
    let mut random = Random::new(1);
    let save = |step| Step::Save { step, tag: Some("new") };
    let mut outcomes = [0, 0];
    for kind in [Kind::Sync, Kind::SyncDir] {
        for at in 0.. {
            let mut player = base.player();
            let fault = Fault { kind, at, times: 1, failure: Failure::Error(EIO) };
            let disk = FaultyDisk::new(player.disk.clone(), fault);
            player.reopen(Some(disk.clone()));
            let saved = player.play(&save(4));
            if !disk.was_touched() {
                assert!(saved.is_ok());
                break;
            }
            if saved.is_err() && disk.commits() == 0 {
                player.expected.may.clear();
            }
            outcomes[usize::from(saved.is_ok())] += 1;
            let again = player.play(&save(5));
            assert_eq!(again.map_err(|e| e.kind), Err(ErrorKind::Io), "{fault:?}: not poisoned");
            player.expected.may.remove(&5);
            let (state, expected) = (player.disk.state(), player.expected.clone());
            for cut in Cut::ALL {
                let image = cut.image(&state, &mut random);
                recover(&base.scene, image, expected.clone(), base.clock.later(1), &mut random)
                    .unwrap_or_else(|e| panic!("{fault:?}, {cut:?}: {e}"));
            }
            player.reopen(None);
            verify_store(&player).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
            player.play(&save(6)).unwrap();
            verify_store(&player).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        }
    }
    // The end of the lease is synced after the commit; that it may come back harms nobody.
    assert!(outcomes[0] > 5, "{outcomes:?}");
    assert_eq!(outcomes[1], 1, "{outcomes:?}");
}

/// On a disk that takes names but not one byte more, snapshots can be forgotten and pruned.
#[test]
fn room_can_be_made_on_a_full_disk() {
    let base = Base::new(2);
    let mut player = base.player();
    let full = Fault { kind: Kind::Write, at: 0, times: u64::MAX, failure: Failure::Error(ENOSPC) };
    player.reopen(Some(FaultyDisk::new(player.disk.clone(), full)));
    let save = Step::Save { step: 4, tag: None };
    assert_eq!(player.play(&save).map_err(|e| e.kind), Err(ErrorKind::Io));
    player.expected.may.clear();
    for step in [Step::Forget { step: 1 }, Step::Forget { step: 2 }, Step::Prune] {
        player.play(&step).unwrap();
    }
    verify_store(&player).unwrap();
    player.reopen(None);
    player.play(&save).unwrap();
    verify_store(&player).unwrap();
}

/// On a disk without a single file left, snapshots can be forgotten, any number of them, and
/// pruned, and neither takes more than what it needs of the reserve.
#[test]
fn room_can_be_made_on_a_disk_without_files() {
    let base = Base::new(3);
    let mut player = base.player();
    for step in 4..8 {
        player.play(&Step::Save { step, tag: None }).unwrap();
    }
    for kind in [Kind::Create, Kind::Write] {
        let error = Failure::Error(ENOSPC);
        let full = Fault { kind, at: 0, times: u64::MAX, failure: error };
        player.reopen(Some(FaultyDisk::new(player.disk.clone(), full)));
        let save = Step::Save { step: 9, tag: None };
        assert_eq!(player.play(&save).map_err(|e| e.kind), Err(ErrorKind::Io));
        player.expected.may.clear();
        let last = if kind == Kind::Create { 4 } else { 6 };
        for step in last - 3..last {
            player.play(&Step::Forget { step }).unwrap();
        }
        let reserve = player.disk.state().size("/store/reserve");
        assert_eq!(reserve, Some(64 << 10), "marks need nothing of it");
        player.play(&Step::Prune).unwrap();
        verify_store(&player).unwrap();
        player.reopen(None);
        player.play(&Step::Prune).unwrap();
        assert_eq!(player.disk.state().size("/store/reserve"), Some(64 << 10));
    }
    player.play(&Step::Save { step: 9, tag: None }).unwrap();
    verify_store(&player).unwrap();
}

/// Where a second name takes a file too, one mark and one prune after the other still make room.
#[test]
fn room_can_be_made_where_links_count_as_files() {
    let base = Base::new(4);
    let mut player = base.player();
    let error = Failure::Error(ENOSPC);
    let full = Fault { kind: Kind::CreateOrLink, at: 0, times: u64::MAX, failure: error };
    for step in 1..3 {
        player.reopen(Some(FaultyDisk::new(player.disk.clone(), full)));
        player.play(&Step::Forget { step }).unwrap();
        player.play(&Step::Prune).unwrap();
        verify_store(&player).unwrap();
        // What was freed makes the spare files again.
        player.reopen(None);
        player.play(&Step::Prune).unwrap();
    }
    player.play(&Step::Save { step: 9, tag: None }).unwrap();
    verify_store(&player).unwrap();
}

/// A pack or a manifest that the disk cannot read is damage like any other: a check names it and
/// looks at all else. A repair without a copy leaves it where it is, and all is well when the disk
/// reads it again.
#[test]
fn bad_sectors_are_damage_and_the_rest_is_checked() {
    let options = CheckOptions { read_percent: 100 };
    let base = Base::new(5);
    let mut player = base.player();
    player.reopen(None);
    let store = player.store().unwrap();
    let good = store.check(&options).unwrap();
    assert!(good.is_clean() && good.packs > 1);
    let name = store.snapshots().unwrap().swap_remove(0);
    let pack = store.manifest(&name).unwrap().packs[0].name.object();
    let manifest = name.object().unwrap();
    for (object, is_pack) in [(pack, true), (manifest, false)] {
        player.reopen(Some(FaultyDisk::with_bad_sectors(player.disk.clone(), &object)));
        let store = player.store().unwrap();
        let checked = store.check(&options).unwrap();
        let packs = checked.damaged.iter().map(|(_, damage)| damage);
        let named: Vec<_> = packs.chain(&checked.manifests).collect();
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!((&named[0].object, named[0].error.kind), (&object, ErrorKind::Io));
        assert!(named[0].error.to_string().contains(&object), "{named:?}");
        assert_eq!(checked.hurt.is_empty(), !is_pack);
        if is_pack {
            assert_eq!((checked.snapshots, checked.packs_read), (good.snapshots, good.packs));
        }
        let repaired = store.repair(None, false).unwrap();
        assert_eq!((repaired.lost.len(), repaired.moved.len()), (usize::from(is_pack), 0));
        assert!(repaired.packs.is_empty() && !repaired.after.is_clean());
        player.reopen(None);
        verify_store(&player).unwrap();
        assert!(player.store().unwrap().check(&options).unwrap().is_clean());
    }
}
