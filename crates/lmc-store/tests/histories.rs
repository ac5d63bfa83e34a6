//! Random histories of saves, forgets, prunes, tags and rebases, of which some are killed, meet
//! errors or go on at the same time, against a model: what should be there is there, in order and
//! byte for byte, and nothing else.

use crate::history::Broken;
use crate::history::player::{Player, Tally};
use crate::history::trouble::Lie;
use lmc_testkit::{Part, count};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Steps in a test run; `LMC_HISTORY_STEPS` asks for more.
const STEPS: u64 = 500;
/// Steps of one history, which begins with an empty store.
const STEPS_EACH: u64 = 100;
/// Steps that are shown of one that went wrong.
const STEPS_SHOWN: usize = 12;

/// Plays the history of a seed.
fn play(seed: u64, lie: Lie, tally: &Tally) -> Result<(), Broken> {
    let mut player = Player::new(seed, lie, tally);
    let mut played = Ok(());
    let mut steps = 0;
    while steps < STEPS_EACH && played.is_ok() {
        steps += 1;
        played = player.step();
    }
    played.and_then(|()| player.end()).map_err(|broken| {
        let log = &player.log[player.log.len().saturating_sub(STEPS_SHOWN)..];
        format!("{}\nseed {seed}, step {steps}: {broken}", log.join("\n"))
    })
}

/// Every promise holds after every step of many histories.
#[test]
fn histories_agree_with_the_model() {
    let steps = count("LMC_HISTORY_STEPS", STEPS);
    let (part, first) = (Part::from_env(), count("LMC_SEED", 0));
    let end = first.saturating_add(steps.div_ceil(STEPS_EACH));
    let seeds = Mutex::new(part.numbers(first).take_while(|seed| *seed < end));
    let next = || seeds.lock().expect("a lock").next();
    let tally = Tally::default();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    if let Err(broken) = play(seed, Lie::None, &tally) {
                        panic!("{broken}\nLMC_SEED={seed} starts with it");
                    }
                }
            });
        }
    });
    println!("{part}, seeds {first} to {end}: {tally:?}, no promise broken");
}

/// Mistakes of a store are found, here made by a storage that lies to it.
#[test]
fn lies_are_found() {
    for lie in [Lie::Leases, Lie::Snapshots, Lie::ErrorsOfLists] {
        let tally = Tally::default();
        let found = (0..20).find_map(|seed| play(seed, lie, &tally).err());
        let found = found.unwrap_or_else(|| panic!("nobody noticed {lie:?}"));
        let steps = tally.steps.load(Ordering::Relaxed);
        println!("{lie:?}, after {steps} steps: {}", found.lines().last().unwrap_or_default());
    }
}
