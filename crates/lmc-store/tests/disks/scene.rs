//! The history of a store that is cut off or fails: what is done, and what must hold meanwhile.

use super::Random;
use super::crash::{CrashDisk, Handle, Lie, State};
use crate::common::{TestClock, checkpoint, tree, write};
use lmc::Context;
use lmc_store::storage::LocalStorage;
use lmc_store::storage::disk::Disk;
use lmc_store::{PruneOptions, Result, SaveOptions, SnapshotName, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Where the store is on the disk in memory.
pub const ROOT: &str = "/store";
/// Saves that are made after a cut have steps from here on.
pub const STEP_AFTER: u64 = 100;
const RUN: &str = "main";

/// What is done to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Init,
    Save { step: u64, tag: Option<&'static str> },
    Tag { step: u64, tag: &'static str },
    Forget { step: u64 },
    Prune,
    Rebase { step: u64 },
    PassHours(u64),
}

/// What must be seen in a store. Snapshots are told by their steps, which tell their content too.
#[derive(Clone, Debug, Default, Hash)]
pub struct Expected {
    pub has_store: bool,
    /// Steps that are there.
    pub must: BTreeSet<u64>,
    /// Steps that may be there; no others may.
    pub may: BTreeSet<u64>,
    /// Tags that are there.
    pub tags: BTreeSet<(u64, &'static str)>,
}

impl Expected {
    /// What holds while a step is running, and if it failed.
    pub fn during(&self, step: &Step) -> Self {
        let mut expected = self.clone();
        match step {
            Step::Save { step, .. } => drop(expected.may.insert(*step)),
            Step::Forget { step } => {
                expected.must.remove(step);
                expected.may.insert(*step);
                expected.tags.retain(|(tagged, _)| tagged != step);
            }
            _ => {}
        }
        expected
    }

    /// What holds when a step has returned.
    pub fn after(&self, step: &Step) -> Self {
        let mut expected = self.during(step);
        match step {
            Step::Init => expected.has_store = true,
            Step::Save { step, tag } => {
                expected.may.remove(step);
                expected.must.insert(*step);
                expected.tags.extend(tag.map(|tag| (*step, tag)));
            }
            Step::Tag { step, tag } => drop(expected.tags.insert((*step, tag))),
            Step::Forget { step } => drop(expected.may.remove(step)),
            Step::Prune | Step::Rebase { .. } | Step::PassHours(_) => {}
        }
        expected
    }
}

/// Checkpoints to be saved, and how.
pub struct Scene {
    folder: TempDir,
    sources: Vec<(PathBuf, Tree)>,
    pub options: SaveOptions,
    threads: usize,
}

type Tree = BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>;

impl Scene {
    /// Checkpoints of one run that a seed gives.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Syncs of the checkpoints themselves are not what is tried, so memory will do.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        let folder = folder.expect("a folder");
        let values = 600 + random.below(1200);
        let mut sources = Vec::new();
        for drift in 0..5_u32 {
            let path = folder.path().join(format!("checkpoint-{drift}"));
            write(&path.join("model.safetensors"), &checkpoint(&["a", "b"], values, seed, drift));
            write(&path.join("frozen.bin"), &checkpoint(&["c"], 300, seed + 1, 0));
            let noise: Vec<u8> = (0..700).map(|_| random.below(256) as u8).collect();
            write(&path.join("sub/optimizer.pt"), &noise);
            let seen = tree(&path);
            sources.push((path, seen));
        }
        // One pack a save, or many.
        let pack_len = [400, 1500, 1 << 20][random.below(3)];
        let options = SaveOptions { pack_len, ..SaveOptions::default() };
        // Two packs put concurrently, or eight.
        let threads = [1, 16][random.below(2)];
        Self { folder, sources, options, threads }
    }

    /// What is saved as a step.
    pub fn source(&self, step: u64) -> &Path {
        &self.sources[step as usize % self.sources.len()].0
    }

    /// All that a snapshot of a step must restore to.
    pub fn tree(&self, step: u64) -> &Tree {
        &self.sources[step as usize % self.sources.len()].1
    }

    /// A folder to restore to; it is not there yet.
    pub fn target(&self) -> PathBuf {
        self.folder.path().join("restored")
    }

    /// The steps of a history: saves, a tag, a forget, a prune, a rebase, and time that passes.
    pub fn history(seed: u64) -> Vec<Step> {
        let mut random = Random::new(seed ^ 0xfeed);
        let mut steps = vec![
            Step::Init,
            Step::Save { step: 1, tag: None },
            Step::Save { step: 2, tag: Some("kept") },
            Step::Save { step: 3, tag: None },
            Step::Tag { step: 3, tag: "best" },
            Step::Forget { step: 1 },
            Step::Prune,
            Step::Rebase { step: 3 },
        ];
        if random.once_in(2) {
            steps.insert(6, Step::PassHours(30));
        }
        if random.once_in(2) {
            steps.extend([Step::PassHours(30), Step::Prune, Step::Save { step: 4, tag: None }]);
        } else {
            steps.extend([Step::Save { step: 4, tag: Some("kept") }, Step::Forget { step: 2 }]);
            steps.extend([Step::Rebase { step: 4 }, Step::Prune]);
        }
        steps
    }
}

/// Does steps on a disk, which remembers what holds at each moment.
pub struct Player<'a> {
    pub scene: &'a Scene,
    pub disk: Arc<CrashDisk<Expected>>,
    pub clock: Arc<TestClock>,
    pub expected: Expected,
    storage: Arc<LocalStorage>,
}

impl<'a> Player<'a> {
    /// On an empty disk.
    pub fn new(scene: &'a Scene, lie: Lie) -> Self {
        let clock = TestClock::new();
        Self::on(scene, State::new(), clock, Expected::default(), lie)
    }

    /// On a disk that holds something.
    pub fn on(
        scene: &'a Scene,
        state: State,
        clock: Arc<TestClock>,
        expected: Expected,
        lie: Lie,
    ) -> Self {
        let disk = CrashDisk::new(state, clock.clone(), expected.clone(), lie);
        let storage = storage_on(Arc::new(Handle(disk.clone())));
        Self { scene, disk, clock, expected, storage }
    }

    /// Continues as a new process, maybe through another disk above the same one.
    pub fn reopen(&mut self, disk: Option<Arc<dyn Disk>>) {
        self.storage = storage_on(disk.unwrap_or_else(|| Arc::new(Handle(self.disk.clone()))));
    }

    pub fn store(&self) -> Result<Store> {
        let store = Store::open(self.storage.clone(), self.clock.clone())?;
        Ok(store.with_context(&Context::with_threads(self.scene.threads)))
    }

    /// Does a step, and notes what holds before it, while it runs and after it.
    pub fn play(&mut self, step: &Step) -> Result<()> {
        let during = self.expected.during(step);
        self.disk.note(during.clone());
        let result = self.act(step);
        self.expected = if result.is_ok() { self.expected.after(step) } else { during };
        self.disk.note(self.expected.clone());
        result
    }

    fn act(&self, step: &Step) -> Result<()> {
        match step {
            Step::Init => {
                Store::init(self.storage.clone(), self.clock.clone())?;
            }
            Step::Save { step, tag } => {
                let tags = tag.iter().map(|tag| tag.to_string()).collect();
                let options = SaveOptions { step: Some(*step), tags, ..self.scene.options.clone() };
                let source = self.scene.source(*step);
                self.store()?.save(source, &options)?;
            }
            Step::Tag { step, tag } => {
                let store = self.store()?;
                store.tag(&store.find(&format!("{RUN}@{step}"))?, tag)?;
            }
            Step::Forget { step } => {
                let store = self.store()?;
                let is_meant = |name: &SnapshotName| name.step == *step;
                let names: Vec<_> = store.snapshots()?.into_iter().filter(is_meant).collect();
                store.forget(&names)?;
            }
            Step::Prune => {
                // A save that was cut off may have left packs and no snapshot.
                let options = PruneOptions { grace_ms: Some(0), dry_run: false, allow_empty: true };
                self.store()?.prune(&options)?;
            }
            Step::Rebase { step } => {
                let store = self.store()?;
                let name = store.find(&format!("{RUN}@{step}"))?;
                store.rebase(&name, &self.scene.options)?;
            }
            Step::PassHours(hours) => self.clock.pass_hours(*hours),
        }
        Ok(())
    }
}

fn storage_on(disk: Arc<dyn Disk>) -> Arc<LocalStorage> {
    Arc::new(LocalStorage::on(Path::new(ROOT), disk))
}
