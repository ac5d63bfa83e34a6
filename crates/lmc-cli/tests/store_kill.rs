//! `kill -9` of the real command at every system call that changes something, and at any moment:
//! what was saved is there, nothing is half there, and the next commands work without repair.

use crate::history::{Act, Broken, Expected, Random, Sources, fast_folder, lmc};
use lmc_testkit::{Part, count};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ACTS: [Act; 9] = [
    Act::Init,
    Act::Save(1),
    Act::Save(2),
    Act::Save(3),
    Act::Tag,
    Act::Forget(2),
    Act::Prune,
    Act::Rebase,
    Act::Save(4),
];

/// A store before each of the commands.
struct Stage {
    sources: Sources,
    folder: TempDir,
}

/// A command that is about to be killed.
struct Scene {
    act: Act,
    before: PathBuf,
    expected: Expected,
}

impl Stage {
    fn new() -> (Self, Vec<Scene>) {
        let stage = Self { sources: Sources::new(6000), folder: fast_folder() };
        let mut expected = Expected::default();
        let mut scenes = Vec::new();
        let store = stage.folder.path().join("history");
        std::fs::create_dir(&store).expect("a folder");
        for (number, act) in ACTS.into_iter().enumerate() {
            let before = stage.folder.path().join(format!("before-{number}"));
            copy(&store, &before);
            scenes.push(Scene { act, before, expected: expected.clone() });
            stage.sources.done(act, &store).expect("it works when nobody disturbs it");
            expected = expected.after(act);
        }
        (stage, scenes)
    }

    /// The store as it is before the command.
    fn set(&self, scene: &Scene) -> PathBuf {
        let store = self.folder.path().join("store");
        if store.exists() {
            std::fs::remove_dir_all(&store).expect("it goes");
        }
        copy(&scene.before, &store);
        store
    }

    /// What must hold after a kill, and after the same command and one more save.
    fn verify(&self, scene: &Scene, store: &Path, is_done: bool) -> Result<(), Broken> {
        let Scene { act, expected, .. } = scene;
        let now = if is_done { expected.after(*act) } else { expected.during(*act) };
        let seen = self.sources.verify(store, &now)?;
        // A store that is there cannot be made again.
        if *act != Act::Init || !store.join("lmc-store.json").exists() {
            self.sources.done(*act, store).map_err(|e| format!("again: {e}"))?;
        }
        let after = seen.after(*act).after(Act::Init);
        self.sources.done(Act::Save(9), store).map_err(|e| format!("then: {e}"))?;
        self.sources.verify(store, &after.after(Act::Save(9))).map(|_| ())
    }
}

/// Copies a folder; `cp` keeps times, from which ages are told.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(status.expect("cp runs").success());
}

/// Runs a command and kills it at its call of this number; returns how many calls were seen and
/// the exit code. None where calls cannot be traced.
fn kill_at(call: u64, command: &[String]) -> Option<(u64, i32)> {
    let mut python = Command::new("python3");
    python
        .args(["-c", include_str!("kill_at.py")])
        .arg(call.to_string())
        .args(command)
        .stderr(Stdio::null());
    let Ok(output) = python.output() else {
        lmc_testkit::skip(
            lmc_testkit::Missing::Tool,
            "python3 is not here, which traces system calls",
        );
        return None;
    };
    let code = output.status.code().unwrap_or(-1);
    if code == 77 {
        lmc_testkit::skip(lmc_testkit::Missing::System, "ptrace is not allowed here");
        return None;
    }
    let calls = String::from_utf8_lossy(&output.stdout).trim().parse();
    Some((calls.expect("the tracer says how many calls"), code))
}

/// Kills at every call of every command; `LMC_KILL_STRIDE=1` leaves none out.
#[test]
fn killed_at_every_call() {
    let stride = count("LMC_KILL_STRIDE", 10);
    let part = Part::from_env();
    let (stage, scenes) = Stage::new();
    let (mut calls_all, mut tries, mut kills) = (0, 0, 0);
    for (number, scene) in (0..).zip(&scenes) {
        let command = |store: &Path| {
            let args = stage.sources.args(scene.act, store);
            [vec![lmc()], args].concat()
        };
        let Some((calls, code)) = kill_at(0, &command(&stage.set(scene))) else { return };
        assert_eq!(code, 0, "{:?} under the tracer", scene.act);
        calls_all += calls;
        for call in 1..=calls {
            // Other calls of each command. Which ones does not depend on how many calls the
            // commands before had, as that differs a little between processes.
            let place = call + number;
            if !place.is_multiple_of(stride) || !part.has(place / stride) {
                continue;
            }
            tries += 1;
            let store = stage.set(scene);
            let Some((_, code)) = kill_at(call, &command(&store)) else { return };
            kills += u64::from(code == 137);
            stage
                .verify(scene, &store, code == 0)
                .unwrap_or_else(|e| panic!("{:?} killed at call {call}: {e}", scene.act));
        }
    }
    println!("{part}: {kills} kills at {tries} of {calls_all} calls, no promise broken");
    assert!(kills >= tries * 9 / 10, "{kills} kills at {tries} of {calls_all} calls");
}

/// A command that makes a snapshot visible before its packs are there is found out.
#[test]
fn the_wrong_order_is_found() {
    let (stage, scenes) = Stage::new();
    let (scene, after) = (&scenes[2], &scenes[3].before);
    let mut found = 0;
    for call in 1.. {
        let store = stage.set(scene);
        let (from, to) = (after.display(), store.display());
        let line = format!("cp -r {from}/snapshots {to}; cp -r {from}/packs {to}");
        let command = ["bash", "-c", &line].map(str::to_string);
        let Some((calls, _)) = kill_at(call, &command) else { return };
        if calls < call {
            break;
        }
        found += u64::from(stage.verify(scene, &store, false).is_err());
    }
    assert!(found > 0, "nobody noticed");
}

/// Kills at random moments; `LMC_KILLS` says how many.
#[test]
fn killed_at_any_moment() {
    let part = Part::from_env();
    let (kills, seed) = (part.share(count("LMC_KILLS", 50)), part.seed(count("LMC_SEED", 0)));
    let (stage, scenes) = Stage::new();
    let mut random = Random::new(seed);
    let mut killed = 0;
    for number in 0..kills {
        let scene = &scenes[random.below(scenes.len() as u64) as usize];
        let store = stage.set(scene);
        let start = Instant::now();
        stage.sources.done(scene.act, &store).expect("it works when nobody disturbs it");
        let time_us = start.elapsed().as_micros() as u64;
        let store = stage.set(scene);
        let mut command = Command::new(lmc());
        command.args(stage.sources.args(scene.act, &store));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("lmc runs");
        std::thread::sleep(Duration::from_micros(random.below(time_us)));
        child.kill().expect("a kill");
        let is_done = child.wait().expect("an end").success();
        killed += u64::from(!is_done);
        stage
            .verify(scene, &store, is_done)
            .unwrap_or_else(|e| panic!("{:?}, kill {number}, LMC_SEED={seed}: {e}", scene.act));
    }
    println!("{part}: {killed} of {kills} were killed before they were done, no promise broken");
    assert!(killed >= kills / 4, "{killed} kills came in time");
}
