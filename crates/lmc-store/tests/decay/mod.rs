//! A store that rots: a history in more than a thousand packs, random damage, and what must be
//! said of it, told from what the manifests say and not by the code that looks for damage.

use crate::common::{TestClock, checkpoint, is_marker, save, tree, write};
use crate::disks::Random;
use lmc_store::storage::{MemoryStorage, Storage};
use lmc_store::{
    CONFIG_NAME, Manifest, Parent, Pending, RelPath, SaveOptions, SnapshotName, Store,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Everything below a path: kind, mode and content.
pub type Tree = BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>;
/// Objects and their bytes.
pub type Objects = BTreeMap<String, Vec<u8>>;
/// A file of a snapshot: the snapshot's object and the path.
pub type FileOf = (String, RelPath);

const FOLDERS: [&str; 7] =
    ["packs", "snapshots", "forgotten", "tags", "pending", "pruning", "damaged"];

/// A snapshot as it was saved.
pub struct Snapshot {
    pub name: SnapshotName,
    pub object: String,
    pub manifest: Arc<Manifest>,
    pub tree: Tree,
}

/// A store, all of its objects as they should be, and a copy of it.
pub struct History {
    pub store: Store,
    pub storage: Arc<dyn Storage>,
    pub copy: Store,
    pub good: Objects,
    pub saved: Vec<Snapshot>,
}

/// What must be said of a damaged store.
#[derive(Debug, Default)]
pub struct Expected {
    /// Snapshots that are shown.
    pub visible: BTreeSet<String>,
    pub manifests: BTreeSet<String>,
    pub packs: BTreeSet<String>,
    /// Files whose own bytes are not as they were.
    pub hurt: BTreeSet<FileOf>,
    /// Files that have such bytes in their chains; of a base, not every byte is needed.
    pub maybe_hurt: BTreeSet<FileOf>,
}

/// A folder in memory where there is one: what is restored is synced.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What is at a path; a file has no name.
pub fn content(path: &Path) -> Tree {
    use std::os::unix::fs::PermissionsExt;
    if path.is_dir() {
        return tree(path);
    }
    let mode = path.metadata().unwrap().permissions().mode() & 0o777;
    Tree::from([(Vec::new(), ('f', mode, std::fs::read(path).unwrap()))])
}

/// All objects of a storage.
pub fn objects(storage: &dyn Storage) -> Objects {
    let names = FOLDERS.iter().flat_map(|folder| storage.names(folder).unwrap());
    let names = names.chain(storage.stat(CONFIG_NAME).unwrap().map(|_| CONFIG_NAME.to_string()));
    let read = |name: String| storage.read_all(&name, 1 << 28).map(|bytes| (name, bytes)).unwrap();
    names.map(read).collect()
}

/// The files of one step of training. Steps with the same `drift` have the same model.
fn step_files(root: &Path, run: u64, drift: u32) {
    write(&root.join("model.safetensors"), &checkpoint(&["a", "b"], 5000, run, drift));
    write(&root.join("optim/exp_avg.bin"), &checkpoint(&["m"], 900, run + 7, drift));
    write(&root.join("same.bin"), &checkpoint(&["s"], 700, 50, 0));
    write(&root.join("own.bin"), &checkpoint(&["o"], 300, 1000 + u64::from(drift), 0));
    write(&root.join("empty.txt"), b"");
}

impl History {
    /// Chains, a fork, the same files in other packs and in packs of the same bytes, single files,
    /// packs for one snapshot alone, packs that hold many files, forgotten snapshots, tags, leases.
    pub fn new(storage: Arc<dyn Storage>, clock: &Arc<TestClock>) -> Self {
        let store = crate::common::alone(Store::init(storage.clone(), clock.clone()).unwrap());
        let work = folder();
        let mut saved = Vec::new();
        let mut number = 0;
        let mut add = |run: &str, parent: Parent, pack_len, make: &dyn Fn(&Path) -> PathBuf| {
            number += 1;
            let path = make(&work.path().join(number.to_string()));
            let (run, step) = (run.to_string(), Some(number));
            let options = SaveOptions { run, step, parent, pack_len, ..SaveOptions::default() };
            let name = save(&store, &path, options).name;
            let manifest = Arc::new(store.manifest(&name).unwrap());
            let object = name.object().unwrap();
            saved.push(Snapshot { name: name.clone(), object, manifest, tree: content(&path) });
            name
        };
        let files = |run: u64, drift: u32| {
            move |root: &Path| {
                step_files(root, run, drift);
                root.to_path_buf()
            }
        };
        let base: Vec<SnapshotName> =
            (0..9).map(|i| add("pre", Parent::Auto, 50, &files(1, i))).collect();
        let mut parent = Parent::Snapshot(base[4].clone());
        for i in 0..5 {
            add("tune", std::mem::take(&mut parent), 400, &files(1, 20 + i));
        }
        for i in [2, 5] {
            add("alone", Parent::None, 257, &files(1, i));
        }
        clock.pass_hours(30);
        for i in [2, 5] {
            add("twin", Parent::None, 257, &files(1, i));
        }
        for i in 0..3 {
            add("file", Parent::Auto, 100, &|root: &Path| {
                write(&root.join("w.safetensors"), &checkpoint(&["w"], 4000, 3, i));
                root.join("w.safetensors")
            });
        }
        let gone: Vec<SnapshotName> =
            (0..4).map(|i| add("gone", Parent::Auto, 300, &files(4, i))).collect();
        add("big", Parent::None, 1 << 20, &files(5, 1));
        store.forget(&gone[..2]).unwrap();
        for name in base.iter().take(3) {
            store.tag(name, "kept").unwrap();
        }
        for (i, snapshot) in saved.iter().enumerate().take(2) {
            let parents = vec![snapshot.name.key().unwrap()];
            let pending =
                Pending { save: format!("{i:032x}"), pid: 1, parents, ..Pending::default() };
            let bytes = serde_json::to_vec(&pending).unwrap();
            storage.put_new(&format!("pending/{i:032x}"), &bytes).unwrap();
        }
        let good = objects(&*storage);
        let copy = Arc::new(MemoryStorage::new(clock.clone()));
        good.iter().for_each(|(name, bytes)| copy.replace(name, bytes).unwrap());
        let copy = crate::common::alone(Store::open(copy, clock.clone()).unwrap());
        Self { store, storage, copy, good, saved }
    }

    /// What must be said of the store if its objects are `now`.
    pub fn expected(&self, now: &Objects) -> Expected {
        let mut expected = Expected::default();
        for snapshot in &self.saved {
            let object = &snapshot.object;
            let is_forgotten = now.contains_key(&snapshot.name.forgotten());
            if is_forgotten || !now.contains_key(object) {
                continue;
            }
            expected.visible.insert(object.clone());
            if now[object] != self.good[object] {
                expected.manifests.insert(object.clone());
                continue;
            }
            for pack in &snapshot.manifest.packs {
                let pack = pack.name.object();
                if now.get(&pack) != self.good.get(&pack) {
                    expected.packs.insert(pack);
                }
            }
            for (path, file) in snapshot.manifest.files() {
                let file_of = (object.clone(), path.clone());
                if self.is_hit(&snapshot.manifest, file.archive, now) {
                    expected.hurt.insert(file_of.clone());
                }
                if self.is_chain_hit(&snapshot.manifest, file.archive, now) {
                    expected.maybe_hurt.insert(file_of);
                }
            }
        }
        expected
    }

    /// Whether bytes of this archive are not as they were.
    fn is_hit(&self, manifest: &Manifest, archive: usize, now: &Objects) -> bool {
        manifest.archives[archive].extents.iter().any(|extent| {
            let pack = manifest.packs[extent.pack].name.object();
            let range = extent.offset as usize..(extent.offset + extent.len) as usize;
            let bytes = now.get(&pack).and_then(|bytes| bytes.get(range.clone()));
            bytes != Some(&self.good[&pack][range])
        })
    }

    fn is_chain_hit(&self, manifest: &Manifest, archive: usize, now: &Objects) -> bool {
        let bases = &manifest.archives[archive].bases;
        self.is_hit(manifest, archive, now)
            || bases.iter().any(|&base| self.is_chain_hit(manifest, base, now))
    }

    /// Puts everything back as it was.
    pub fn reset(&self, now: &Objects) {
        for (name, bytes) in &self.good {
            if now.get(name) != Some(bytes) {
                self.storage.replace(name, bytes).unwrap();
            }
        }
        let extra = now.keys().filter(|name| !self.good.contains_key(*name)).cloned();
        self.storage.delete(&extra.collect::<Vec<_>>()).unwrap();
    }

    /// Damages one object, or swaps two packs; says what it did. None if nothing changed by it.
    pub fn damage(&self, random: &mut Random) -> Option<String> {
        let folder = match random.below(100) {
            0..80 => "packs/",
            80..89 => "snapshots/",
            89..92 => "forgotten/",
            92..94 => "tags/",
            94..98 => "pending/",
            _ => CONFIG_NAME,
        };
        let names: Vec<&String> =
            self.good.keys().filter(|name| name.starts_with(folder) && !is_marker(name)).collect();
        let name = names[random.below(names.len())];
        let old = self.storage.read_all(name, 1 << 28).ok()?;
        let other = names[random.below(names.len())];
        let how = random.below(9);
        if how == 0 {
            self.storage.delete(std::slice::from_ref(name)).unwrap();
            return Some(format!("{name}: removed"));
        }
        if how == 1 {
            let theirs = self.storage.read_all(other, 1 << 28).ok()?;
            self.storage.replace(other, &old).unwrap();
            self.storage.replace(name, &theirs).unwrap();
            return (theirs != old).then(|| format!("{name}: swapped with {other}"));
        }
        let (what, new) = spoil(&old, how, random);
        self.storage.replace(name, &new).unwrap();
        (new != old).then(|| format!("{name}: {what}"))
    }
}

/// Bytes with something wrong with them.
fn spoil(old: &[u8], how: usize, random: &mut Random) -> (String, Vec<u8>) {
    let mut new = old.to_vec();
    let (at, len) = (random.below(old.len()), 1 + random.below(64));
    let end = old.len().min(at + len);
    let what = match how {
        2 => {
            new.clear();
            "emptied".to_string()
        }
        3 => {
            new.truncate(at);
            format!("cut to {at} bytes")
        }
        4 => {
            new.extend((0..len).map(|_| random.below(256) as u8));
            format!("{len} bytes more")
        }
        5 if !old.is_empty() => {
            new[at..end].fill(0);
            format!("zeros at {at}..{end}")
        }
        6 if !old.is_empty() => {
            new[at..end].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
            format!("noise at {at}..{end}")
        }
        _ if !old.is_empty() => {
            let bit = random.below(8);
            new[at] ^= 1 << bit;
            format!("bit {bit} of byte {at}")
        }
        _ => {
            new.push(0);
            "one byte more".to_string()
        }
    };
    (what, new)
}
