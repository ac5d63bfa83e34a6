//! Many processes that save to one store, with readers, prunes and killed saves beside them: every
//! commit is there, and nobody ever sees a part of one.
//!
//! `LMC_WRITERS=8x100` sets how many writers commit how often.

use crate::common;
#[cfg(feature = "s3")]
use crate::common::bucket;
use crate::common::*;
use lmc_store::storage::{self, Storage};
use lmc_store::{Store, SystemClock};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

/// How long packs of saves that ended or died are kept: short, so that prunes remove some, and
/// longer than a save takes on a busy machine. The command refuses it, since a save that takes
/// longer fails; the library leaves that to its caller.
const GRACE_SECONDS: u64 = 6;
const CONFLICT: i32 = 11;

/// A store and what happens to it.
struct Storm<'a> {
    folder: PathBuf,
    command: &'a (dyn Fn(&Path, &[&str]) -> Command + Sync),
    writers: u64,
    commits: u64,
    seed: u64,
    /// Commits of each writer that were acknowledged.
    done: Vec<AtomicU64>,
    is_over: AtomicBool,
    restored: AtomicU64,
    pruned: AtomicU64,
    killed: AtomicU64,
    conflicts: AtomicU64,
}

/// In a directory.
#[test]
fn directory() {
    let folder = Folder::new();
    let store = folder.path("store");
    let command = |folder: &Path, args: &[&str]| {
        let mut command = common::command(folder, args);
        command.env("LMC_STORE", &store);
        command
    };
    let storage = storage::open(store.to_str().expect("text")).expect("a place");
    storm(&folder, storage, &command, count((8, 10)));
}

/// In a bucket of a real server. Commits are late, so that there is time between them and their
/// packs for a prune that takes no notice of leases to do harm.
#[cfg(feature = "s3")]
#[test]
fn seaweedfs() {
    use lmc_testkit::s3::{Fault, Kind, Proxy, Server};
    let folder = Folder::new();
    let Some(server) = Kind::SeaweedFs.start(&folder.path("server")) else { return };
    let bucket = bucket::Bucket::new(folder.path("x"), server.address(), "storm");
    let proxy = Proxy::start(server.address(), |request| {
        let is_commit = request.method == "PUT" && request.target.contains("/snapshots/");
        if is_commit { Fault::Late } else { Fault::None }
    });
    let command = |folder: &Path, args: &[&str]| {
        let mut command = common::command(folder, args);
        command.env("LMC_STORE", bucket.url());
        command.envs(Server::environment(proxy.address()));
        command
    };
    let storage = bucket::storage(server.address(), "storm");
    storm(&folder, storage, &command, count((4, 5)));
}

fn count(usual: (u64, u64)) -> (u64, u64) {
    let Ok(text) = env::var("LMC_WRITERS") else { return usual };
    let (writers, commits) = text.split_once('x').expect("LMC_WRITERS is like 8x100");
    (writers.parse().expect("a number"), commits.parse().expect("a number"))
}

fn storm(
    folder: &Folder,
    storage: Arc<dyn Storage>,
    command: &(dyn Fn(&Path, &[&str]) -> Command + Sync),
    (writers, commits): (u64, u64),
) {
    let seed = env::var("LMC_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let storm = Storm {
        folder: folder.path("work"),
        command,
        writers,
        commits,
        seed,
        done: (0..writers).map(|_| AtomicU64::new(0)).collect(),
        is_over: AtomicBool::new(false),
        restored: AtomicU64::new(0),
        pruned: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        conflicts: AtomicU64::new(0),
    };
    fs::create_dir_all(&storm.folder).expect("a folder");
    println!("LMC_SEED={seed}");
    Store::init_with(storage, Arc::new(SystemClock), GRACE_SECONDS).expect("a store");
    std::thread::scope(|scope| {
        let storm = &storm;
        let all: Vec<_> =
            (0..writers).map(|writer| scope.spawn(move || storm.write(writer))).collect();
        // They run until the writers have ended; a panic ends all of it.
        let _over = Over(&storm.is_over);
        let beside = [
            scope.spawn(|| storm.churn()),
            scope.spawn(|| storm.prune()),
            scope.spawn(|| storm.read(1)),
            scope.spawn(|| storm.read(2)),
        ];
        let failed = all.into_iter().filter_map(|thread| thread.join().err()).count();
        // A prune that has something to remove has to wait for the grace of what died last.
        let patience = (0..200).take_while(|_| storm.pruned.load(Ordering::Relaxed) == 0);
        patience.for_each(|_| sleep(Duration::from_millis(100)));
        storm.is_over.store(true, Ordering::Relaxed);
        let failed = failed + beside.into_iter().filter_map(|thread| thread.join().err()).count();
        assert_eq!(failed, 0, "threads failed");
    });
    storm.check();
}

/// Ends the readers even if a writer fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Storm<'_> {
    fn lmc(&self, args: &[&str]) -> Output {
        (self.command)(&self.folder, args).output().expect("lmc starts")
    }

    fn ok(&self, args: &[&str]) -> Vec<u8> {
        let output = self.lmc(args);
        assert_eq!(code(&output), 0, "lmc {args:?}: {}", stderr(&output));
        output.stdout
    }

    /// Runs a command until nobody is in its way.
    fn insist(&self, args: &[&str]) {
        loop {
            let output = self.lmc(args);
            match code(&output) {
                0 => return,
                CONFLICT => self.conflicts.fetch_add(1, Ordering::Relaxed),
                _ => panic!("lmc {args:?}: {}", stderr(&output)),
            };
        }
    }

    /// Commits of one writer, to a run of its own; some are killed and made again.
    fn write(&self, writer: u64) {
        let path = self.folder.join(format!("w{writer}"));
        let mut chance = Chance(self.seed * 1000 + writer);
        for step in 1..=self.commits {
            fs::create_dir_all(&path).expect("a folder");
            fs::write(path.join("model.safetensors"), content(writer, step)).expect("a file");
            let (path, run) = (path.to_str().expect("a path"), format!("run{writer}"));
            let step_text = step.to_string();
            let args = ["save", path, "--run", &run, "--step", &step_text, "-T1", "-q"];
            if chance.next().is_multiple_of(4) {
                self.kill(&args, chance.next() % 60);
                // It may have been too late.
                if self.log(&run).contains(&step) {
                    self.done[writer as usize].store(step, Ordering::SeqCst);
                    continue;
                }
            }
            self.insist(&args);
            self.done[writer as usize].store(step, Ordering::SeqCst);
        }
    }

    fn kill(&self, args: &[&str], after_ms: u64) {
        let mut child = (self.command)(&self.folder, args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("lmc starts");
        sleep(Duration::from_millis(after_ms));
        let _ = child.kill();
        child.wait().expect("it is dead");
        self.killed.fetch_add(1, Ordering::Relaxed);
    }

    /// A run of which only the newest is kept, so that there is something to remove.
    fn churn(&self) {
        let path = self.folder.join("churn");
        let mut step = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            step += 1;
            fs::create_dir_all(&path).expect("a folder");
            fs::write(path.join("model.safetensors"), content(1000 + step, 1)).expect("a file");
            let path = path.to_str().expect("a path");
            self.insist(&["save", path, "--run", "churn", "--parent", "none", "-q"]);
            self.insist(&["forget", "--run", "churn", "--keep-last", "1"]);
        }
    }

    fn prune(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let output = self.lmc(&["prune", "--grace", "0s", "--json"]);
            match code(&output) {
                0 => {
                    let pruned: serde_json::Value =
                        serde_json::from_slice(&output.stdout).expect("JSON");
                    let packs = pruned["packs"].as_array().map_or(0, Vec::len);
                    self.pruned.fetch_add(packs as u64, Ordering::Relaxed);
                }
                CONFLICT => {}
                _ => panic!("prune: {}", stderr(&output)),
            }
        }
    }

    /// Restores random snapshots of any writer: each is whole and the one that was meant.
    fn read(&self, reader: u64) {
        let mut chance = Chance(self.seed * 77 + reader);
        while !self.is_over.load(Ordering::Relaxed) {
            let writer = chance.next() % self.writers;
            let acknowledged = self.done[writer as usize].load(Ordering::SeqCst);
            let log = self.log(&format!("run{writer}"));
            for step in 1..=acknowledged {
                assert!(log.contains(&step), "run{writer}@{step} was committed and is gone");
            }
            let steps: Vec<u64> = log.into_iter().collect();
            if let Some(step) = steps.get(chance.next() as usize % steps.len().max(1)) {
                self.check_restores(writer, *step, &format!("reader{reader}"));
            }
        }
    }

    fn check_restores(&self, writer: u64, step: u64, target: &str) {
        let snapshot = format!("run{writer}@{step}");
        self.ok(&["restore", &snapshot, target, "-T1", "-q"]);
        let target = self.folder.join(target);
        let bytes = fs::read(target.join("model.safetensors")).expect("a file");
        assert!(bytes == content(writer, step), "{snapshot} has other bytes");
        fs::remove_dir_all(target).expect("it goes");
        self.restored.fetch_add(1, Ordering::Relaxed);
    }

    /// Steps of a run.
    fn log(&self, run: &str) -> BTreeSet<u64> {
        let log = self.ok(&["log", "--run", run, "--json"]);
        let log: serde_json::Value = serde_json::from_slice(&log).expect("JSON");
        let snapshots = log.as_array().expect("a list").iter();
        snapshots.map(|snapshot| snapshot["step"].as_u64().expect("a step")).collect()
    }

    /// All of it, once nobody writes any more.
    fn check(&self) {
        let mut there = 0;
        for writer in 0..self.writers {
            let log = self.log(&format!("run{writer}"));
            there += log.len() as u64;
            for step in 1..=self.commits {
                // A server may do what a killed process asked for a moment before.
                assert!(log.contains(&step), "run{writer}@{step} is gone");
                self.check_restores(writer, step, "last");
            }
        }
        assert_eq!(there, self.writers * self.commits);
        self.ok(&["check", "--read-data"]);
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        println!(
            "{there} of {there} there; {} restored, {} packs pruned, {} saves killed, {} conflicts",
            count(&self.restored),
            count(&self.pruned),
            count(&self.killed),
            count(&self.conflicts),
        );
        assert!(count(&self.pruned) > 0, "no prune removed anything");
    }
}

/// What a writer saves at a step: one value in nine has changed since the one before.
fn content(writer: u64, step: u64) -> Vec<u8> {
    let mut values = weights(3000, writer + 1);
    for i in (0..values.len()).step_by(18) {
        values[i] ^= (step as u8).wrapping_mul(i as u8 | 1);
    }
    safetensors(&[("w", "BF16", &[3000], &values)])
}

struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }
}
