//! Power cuts at every moment of a store's history: what was saved is there, whole, nothing else is
//! seen, and the store works on without repair.

use crate::common::TestClock;
use crate::disks::Random;
use crate::disks::crash::{Lie, State};
use crate::disks::cut::{Cut, fingerprint};
use crate::disks::scene::{Expected, Player, Scene};
use crate::disks::verify::{Broken, recover};
use lmc_testkit::{Part, count};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Images that are looked at in a test run; `LMC_CRASH_IMAGES` asks for more.
const IMAGES: u64 = 2000;
/// Of so many images one is cut again while the store on it is used.
const CUT_AGAIN: usize = 4;

/// What was looked at.
#[derive(Debug, Default)]
struct Tally {
    histories: AtomicU64,
    moments: AtomicU64,
    images: AtomicU64,
    cut_again: AtomicU64,
}

/// Plays the history of a seed and cuts the power at each of its moments, in ways that differ;
/// stops at the first promise that is broken, or when there were enough images.
fn cut_history(seed: u64, lie: Lie, images_max: u64, tally: &Tally) -> Result<(), Broken> {
    let scene = Scene::new(seed);
    let mut player = Player::new(&scene, lie);
    for step in Scene::history(seed) {
        player.play(&step).map_err(|e| format!("{step:?}: {e}"))?;
    }
    let moments = player.disk.take_moments();
    tally.histories.fetch_add(1, Ordering::Relaxed);
    tally.moments.fetch_add(moments.len() as u64, Ordering::Relaxed);
    let mut random = Random::new(seed);
    let mut seen = HashSet::new();
    for (number, (state, expected)) in moments.iter().enumerate() {
        for cut in Cut::ALL {
            let image = cut.image(state, &mut random);
            if !seen.insert(key(&image, expected)) {
                continue;
            }
            if tally.images.fetch_add(1, Ordering::Relaxed) >= images_max {
                return Ok(());
            }
            let hours = [0, 1, 30][random.below(3)];
            let clock = player.clock.later(hours);
            look_at(&scene, image, expected, &clock, &mut random, tally)
                .map_err(|e| format!("seed {seed}, moment {number}, {cut:?}: {e}"))?;
        }
    }
    Ok(())
}

/// Continues with the store on an image, and now and then cuts the power again in the middle of
/// that.
fn look_at(
    scene: &Scene,
    image: State,
    expected: &Expected,
    clock: &TestClock,
    random: &mut Random,
    tally: &Tally,
) -> Result<(), Broken> {
    let mut moments = recover(scene, image, expected.clone(), clock.later(0), random)?;
    let mut cuts = 0;
    while random.once_in(CUT_AGAIN) {
        let (state, expected) = moments.swap_remove(random.below(moments.len()));
        let image = Cut::ALL[random.below(Cut::ALL.len())].image(&state, random);
        cuts += 1;
        tally.images.fetch_add(1, Ordering::Relaxed);
        tally.cut_again.fetch_add(1, Ordering::Relaxed);
        moments = recover(scene, image, expected, clock.later(100 * cuts), random)
            .map_err(|e| format!("cut again: {e}"))?;
    }
    Ok(())
}

fn key(image: &State, expected: &Expected) -> u64 {
    let mut hasher = DefaultHasher::new();
    (fingerprint(image), expected).hash(&mut hasher);
    hasher.finish()
}

/// Every moment of many histories, in ways that a file system may leave it.
#[test]
fn power_cuts_lose_nothing() {
    let part = Part::from_env();
    let images_max = part.share(count("LMC_CRASH_IMAGES", IMAGES));
    let seeds = Mutex::new(part.numbers(count("LMC_SEED", 0)));
    let next = || seeds.lock().expect("a lock").next().expect("a seed");
    let tally = Tally::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while tally.images.load(Ordering::Relaxed) < images_max {
                    let seed = next();
                    if let Err(broken) = cut_history(seed, Lie::None, images_max, &tally) {
                        panic!("{broken}; LMC_SEED={seed} starts with it");
                    }
                }
            });
        }
    });
    println!("{part}: {tally:?}, no promise broken");
}

/// A sync that is left out is found: the images are as bad as they should be.
#[test]
fn a_sync_that_is_left_out_is_found() {
    let lies = [
        Lie::Files,
        Lie::Folders("/store"),
        Lie::Folders("/store/packs"),
        Lie::Folders("/store/snapshots"),
        Lie::Folders("/store/forgotten"),
        Lie::Folders("/store/tags"),
    ];
    for lie in lies {
        let found =
            (0..20).find_map(|seed| cut_history(seed, lie, u64::MAX, &Tally::default()).err());
        let found = found.unwrap_or_else(|| panic!("nobody noticed {lie:?}"));
        println!("{lie:?}: {found}");
    }
}
