//! Folders that somebody has put into a store, thousands deep: what a command costs depends on what
//! is in the store, and not on how deep they are.

use crate::disks::crash::{Handle, Lie};
use crate::disks::faulty::{Failure, Fault, FaultyDisk, Kind};
use crate::disks::scene::{Player, ROOT, Scene, Step};
use crate::disks::verify::verify_store;
use lmc_store::storage::disk::Disk;
use lmc_store::{CheckOptions, PruneOptions};
use std::path::Path;

/// How deep the folders are.
const DEPTH: usize = 3000;
/// Folders of a store, with places at every depth that objects have.
const PLACES: [&str; 11] = [
    "packs",
    "packs/ab",
    "snapshots",
    "snapshots/main",
    "snapshots/main/00000000",
    "tags/kept/main/00000000",
    "forgotten",
    "pending",
    "pruning",
    "damaged",
    "tmp",
];
/// Lists of all folders that one command makes, at most.
const LISTS_MAX: u64 = 20;

/// Does all that lists something; returns how many folders were listed for each.
fn use_store(player: &mut Player) -> Vec<u64> {
    let never = Fault { kind: Kind::ReadDir, at: u64::MAX, times: 0, failure: Failure::Silent };
    let disk = FaultyDisk::new(player.disk.clone(), never);
    player.reopen(Some(disk.clone()));
    let mut counts = vec![disk.count()];
    let mut count = || counts.push(disk.count());
    let store = player.store().unwrap();
    assert_eq!(store.snapshots().unwrap().len(), 2);
    count();
    assert_eq!(store.tags().unwrap().len(), 1);
    count();
    assert!(store.check(&CheckOptions { read_percent: 100 }).unwrap().is_clean());
    count();
    let dry = PruneOptions { dry_run: true, ..PruneOptions::default() };
    assert!(store.prune(&dry).unwrap().packs.is_empty());
    count();
    store.prune(&PruneOptions::default()).unwrap();
    count();
    assert!(store.repair(None, false).unwrap().after.is_clean());
    count();
    counts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Chains of folders in every folder of a store add a few lists to what a command makes, and hide
/// nothing.
#[test]
fn deep_folders_cost_nothing() {
    let scene = Scene::new(0);
    let mut player = Player::new(&scene, Lie::None);
    let save = |step| Step::Save { step, tag: (step == 1).then_some("kept") };
    for step in [Step::Init, save(1), save(2)] {
        player.play(&step).unwrap();
    }
    let disk = Handle(player.disk.clone());
    drop(player.disk.take_moments());
    let before = use_store(&mut player);
    for place in PLACES {
        let mut path = Path::new(ROOT).join(place);
        // Most are there.
        let _ = disk.create_dir(&path);
        for _ in 0..DEPTH {
            path.push("d");
            disk.create_dir(&path).unwrap();
        }
    }
    let after = use_store(&mut player);
    for (command, (after, before)) in after.iter().zip(&before).enumerate() {
        let limit = before + LISTS_MAX * PLACES.len() as u64;
        assert!(*after <= limit, "command {command}: {after} lists and {before} before");
    }
    verify_store(&player).unwrap();
}
