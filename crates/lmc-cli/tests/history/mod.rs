//! The history of a store by the real command, and what must be seen of it at each moment.

use lmc_store::{CheckOptions, ErrorKind, RestoreOptions, Store, SystemClock, storage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// A broken promise, in words.
pub type Broken = String;

/// Random numbers that a seed reproduces.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

/// What must be seen in a store. Snapshots are told by their steps, which tell their content too.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub has_store: bool,
    /// Steps that are there.
    pub must: BTreeSet<u64>,
    /// Steps that may be there; no others may.
    pub may: BTreeSet<u64>,
}

/// A command of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Init,
    Save(u64),
    Tag,
    /// All but so many of the newest.
    Forget(u64),
    Prune,
    Rebase,
}

impl Expected {
    /// What holds while a command runs.
    pub fn during(&self, act: Act) -> Self {
        let mut expected = self.clone();
        match act {
            Act::Save(step) => drop(expected.may.insert(step)),
            Act::Forget(kept) => {
                let going: Vec<u64> = self.must.iter().rev().skip(kept as usize).copied().collect();
                for step in going {
                    expected.must.remove(&step);
                    expected.may.insert(step);
                }
            }
            _ => {}
        }
        expected
    }

    /// What holds when it has said that it is done.
    pub fn after(&self, act: Act) -> Self {
        let mut expected = self.during(act);
        expected.has_store |= act == Act::Init;
        if let Act::Save(step) = act {
            expected.must.insert(step);
        }
        expected.may.clear();
        expected
    }
}

/// Checkpoints to be saved, in a folder of their own, and their content.
pub struct Sources {
    folder: TempDir,
    contents: Vec<BTreeMap<String, Vec<u8>>>,
}

impl Sources {
    /// Checkpoints with about `len` bytes each, of which an eighth is never the same.
    pub fn new(len: usize) -> Self {
        let folder = fast_folder();
        let mut contents = Vec::new();
        let mut random = Random::new(7);
        let mut weights: Vec<u8> = (0..len).map(|_| random.below(16) as u8 + 60).collect();
        for number in 0..5 {
            let at = random.below(len as u64) as usize;
            weights[at] ^= 1;
            let noise = (0..len / 8).map(|_| random.below(256) as u8).collect();
            let files = BTreeMap::from([
                ("model.bin".to_string(), weights.clone()),
                ("optimizer.pt".to_string(), noise),
                ("config.json".to_string(), b"{}".to_vec()),
            ]);
            let path = folder.path().join(format!("source-{number}"));
            fs::create_dir(&path).expect("a folder");
            for (name, bytes) in &files {
                fs::write(path.join(name), bytes).expect("a file");
            }
            contents.push(files);
        }
        Self { folder, contents }
    }

    pub fn path(&self, step: u64) -> PathBuf {
        self.folder.path().join(format!("source-{}", step % 5))
    }

    /// The command, with a store.
    pub fn args(&self, act: Act, store: &Path) -> Vec<String> {
        let store = store.to_str().expect("text").to_string();
        let text = |args: &[&str]| args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>();
        let mut args = match act {
            Act::Init => return vec!["init".to_string(), store],
            Act::Save(step) => {
                let path = self.path(step);
                text(&["save", path.to_str().expect("text"), "--step", &step.to_string(), "-q"])
            }
            Act::Tag => text(&["tag", "latest", "best"]),
            Act::Forget(kept) => text(&["forget", "--keep-last", &kept.to_string()]),
            Act::Prune => text(&["prune", "--grace", "0s"]),
            Act::Rebase => text(&["rebase", "latest", "-q"]),
        };
        args.extend(["--store".to_string(), store]);
        args
    }

    /// Runs a command to its end.
    pub fn run(&self, act: Act, store: &Path) -> Output {
        let mut command = Command::new(lmc());
        command.args(self.args(act, store)).stdin(Stdio::null());
        command.output().expect("lmc runs")
    }

    /// Runs a command that must work.
    pub fn done(&self, act: Act, store: &Path) -> Result<(), Broken> {
        let output = self.run(act, store);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("{act:?}: {text}")) }
    }

    /// Fails unless a store holds what it must and nothing that it may not, all of it whole;
    /// returns what is there, which must be there from now on.
    pub fn verify(&self, path: &Path, expected: &Expected) -> Result<Expected, Broken> {
        let storage = storage::open(path.to_str().expect("text")).map_err(|e| e.to_string())?;
        let store = match Store::open(storage, Arc::new(SystemClock)) {
            Ok(store) => store,
            Err(e) if e.kind == ErrorKind::NoStore && !expected.has_store => {
                return Ok(Expected::default());
            }
            Err(e) => return Err(format!("the store does not open: {e}")),
        };
        let names = store.snapshots().map_err(|e| format!("no list: {e}"))?;
        let seen: BTreeSet<u64> = names.iter().map(|name| name.step).collect();
        if let Some(step) = expected.must.difference(&seen).next() {
            return Err(format!("the snapshot of step {step} is lost"));
        }
        for step in &seen {
            if !expected.must.contains(step) && !expected.may.contains(step) {
                return Err(format!("the snapshot of step {step} should not be there"));
            }
        }
        for name in &names {
            let target = self.folder.path().join("restored");
            let options = RestoreOptions::default();
            store
                .restore(name, &target, &options)
                .map_err(|e| format!("step {} does not restore: {e}", name.step))?;
            let is_same = files(&target) == self.contents[name.step as usize % 5];
            fs::remove_dir_all(&target).map_err(|e| e.to_string())?;
            if !is_same {
                return Err(format!("step {} restores to other bytes", name.step));
            }
        }
        let options = CheckOptions { read_percent: 100 };
        let checked = store.check(&options).map_err(|e| format!("no check: {e}"))?;
        if !checked.is_clean() {
            return Err(format!("the check finds {checked:?}"));
        }
        Ok(Expected { has_store: true, must: seen, may: BTreeSet::new() })
    }
}

/// The command under test; `LMC_COMMAND` names it where the tests were built elsewhere.
pub fn lmc() -> String {
    std::env::var("LMC_COMMAND").unwrap_or_else(|_| env!("CARGO_BIN_EXE_lmc").to_string())
}

/// A folder in memory where there is one: what is tried here does not depend on syncs.
pub fn fast_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
    folder.expect("a folder")
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    entries.map(|entry| (name(&entry), fs::read(entry.path()).expect("a file"))).collect()
}
