//! What the tests of the store share: stores in memory, a clock that is set, trees of files.

pub mod watched;

use lmc::Context;
use lmc_store::storage::{
    LocalStorage, MemoryStorage, ObjectInfo, Put, Stat, Storage, folders_of_names, read_by_parts,
};
use lmc_store::{
    Clock, Error, ErrorKind, RestoreOptions, Result, SaveOptions, Saved, SnapshotName, Store,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

/// A clock that advances by a second each time it is read, and by more if told to.
#[derive(Debug)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000_000)))
    }

    /// A clock that starts `hours` after this one.
    pub fn later(&self, hours: u64) -> Arc<Self> {
        let later = Arc::new(Self(AtomicU64::new(self.0.load(Ordering::Relaxed))));
        later.pass_hours(hours);
        later
    }

    pub fn pass_hours(&self, hours: u64) {
        self.0.fetch_add(hours * 3_600_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }

    fn boot_ms(&self) -> u64 {
        self.now_ms() - BOOTED_MS
    }
}

/// When the machines of the tests were started.
const BOOTED_MS: u64 = 1_600_000_000_000;

/// The same store, which works on one thread: what is read comes in the same order each time.
pub fn alone(store: Store) -> Store {
    store.with_context(&Context::with_threads(1))
}

/// Does work on a store; `meanwhile` is called with each number of bytes that is done, while the
/// work waits for it.
pub fn watched<T: Send>(
    store: &Store,
    meanwhile: &dyn Fn(u64),
    work: impl FnOnce(&Store) -> T + Send,
) -> T {
    let (done, heard) = sync_channel::<(u64, SyncSender<()>)>(0);
    let context = Context::with_threads(1).watched(move |bytes| {
        let (go_on, wait) = sync_channel(0);
        // Whoever listens is gone if the test has failed.
        if done.send((bytes, go_on)).is_ok() {
            let _ = wait.recv();
        }
    });
    let store = store.with_context(&context);
    drop(context);
    std::thread::scope(|scope| {
        // The store goes with its thread, and that ends the loop.
        let worker = scope.spawn(move || work(&store));
        for (bytes, go_on) in heard {
            meanwhile(bytes);
            go_on.send(()).unwrap();
        }
        worker.join().unwrap()
    })
}

/// A store in memory, its storage and its clock.
pub fn memory_store() -> (Store, Arc<MemoryStorage>, Arc<TestClock>) {
    let clock = TestClock::new();
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    let store = alone(Store::init(storage.clone(), clock.clone()).unwrap());
    (store, storage, clock)
}

/// A store in a new directory.
pub fn local_store(root: &Path) -> (Store, Arc<TestClock>) {
    let clock = TestClock::new();
    let storage = Arc::new(LocalStorage::new(root));
    (alone(Store::init(storage, clock.clone()).unwrap()), clock)
}

/// A safetensors file of one bf16 tensor for each name, whose values come from a seed.
pub fn checkpoint(names: &[&str], values: usize, seed: u64, drift: u32) -> Vec<u8> {
    let mut header = String::from("{");
    for (i, name) in names.iter().enumerate() {
        let (start, end) = (i * values * 2, (i + 1) * values * 2);
        let comma = if i > 0 { "," } else { "" };
        header += &format!(
            "{comma}\"{name}\":{{\"dtype\":\"BF16\",\"shape\":[{values}],\
             \"data_offsets\":[{start},{end}]}}"
        );
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut changes = u64::from(drift).wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    for _ in 0..names.len() * values {
        let word =
            (0x3c00 + (next(&mut state) % 1024) as u16) ^ ((next(&mut state) as u16) & 0x8000);
        // One value in eight has moved since, if there was any drift.
        let moved = drift > 0 && next(&mut changes).is_multiple_of(8);
        bytes.extend((word ^ u16::from(moved)).to_le_bytes());
    }
    bytes
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 16
}

/// A safetensors file of f32 values whose rounding towards zero is given.
pub fn f32_of(bf16: &[u8], values: usize, mut low: impl FnMut() -> u16) -> Vec<u8> {
    let mut header = format!(
        "{{\"a\":{{\"dtype\":\"F32\",\"shape\":[{values}],\"data_offsets\":[0,{}]}}}}",
        4 * values
    );
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    for high in bf16.chunks(2) {
        bytes.extend(low().to_le_bytes());
        bytes.extend(high);
    }
    bytes
}

/// Writes a file, with the folders it is in.
pub fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Makes a pipe with a name, which is not a file.
pub fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// Everything below a folder: kind, mode and content.
pub fn tree(root: &Path) -> BTreeMap<Vec<u8>, (char, u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    walk(root, root, &mut all);
    all
}

fn walk(root: &Path, folder: &Path, all: &mut BTreeMap<Vec<u8>, (char, u32, Vec<u8>)>) {
    use std::os::unix::ffi::OsStrExt;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let node = if metadata.is_symlink() {
            ('l', 0, fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
        } else if metadata.is_dir() {
            walk(root, &path, all);
            ('d', mode, Vec::new())
        } else {
            ('f', mode, fs::read(&path).unwrap())
        };
        all.insert(name, node);
    }
}

/// Saves.
pub fn save(store: &Store, path: &Path, options: SaveOptions) -> Saved {
    store.save(path, &options).unwrap()
}

/// Saves as a step of a run.
pub fn save_step(store: &Store, path: &Path, run: &str, step: u64) -> Saved {
    save(store, path, SaveOptions { run: run.into(), step: Some(step), ..SaveOptions::default() })
}

/// Fails unless a snapshot restores to what `wanted` holds.
pub fn check_restores(store: &Store, name: &SnapshotName, wanted: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("restored");
    let options = RestoreOptions::default();
    store.restore(name, &target, &options).unwrap();
    assert!(tree(&target) == tree(wanted), "snapshot {} differs", name.step);
}

/// Bytes of all objects below a folder of a store.
pub fn stored(storage: &dyn Storage, folder: &str) -> u64 {
    storage.list(folder).unwrap().iter().map(|entry| entry.stat.size).sum()
}

/// What is asked of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    List,
    Change,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Done,
    /// It fails, and nothing was done.
    Fails,
    /// It is done, but whoever asked for it is told that it failed.
    SeemsToFail,
    /// What is looked for seems not to be there; of a list, the folder itself is there.
    FindsNothing,
    /// A read seems to end before the object does.
    EndsEarly,
}

type Decide = Box<dyn Fn(Call, &str) -> Fate + Send + Sync>;

/// Decides what becomes of each call, by its kind and what it is about.
#[derive(Default)]
pub struct Watch(Option<Decide>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// A storage that counts what is done to it and, from some operation on, is dead: as if the process
/// had been killed, or the machine could not be reached any more. Before that, single calls can
/// fail, lie or be held up.
#[derive(Debug)]
pub struct MortalStorage {
    pub inner: Arc<dyn Storage>,
    /// Changes that are still done; after that every call fails.
    pub changes_left: AtomicU64,
    /// Puts of packs that were done.
    pub packs_put: AtomicU64,
    /// Bytes of packs that were read.
    pub pack_bytes_read: AtomicU64,
    /// A folder that cannot be listed.
    pub unlistable: std::sync::Mutex<Option<String>>,
    watch: std::sync::RwLock<Watch>,
}

impl MortalStorage {
    pub fn new(inner: Arc<dyn Storage>, changes: u64) -> Arc<Self> {
        let (changes_left, packs_put) = (AtomicU64::new(changes), AtomicU64::new(0));
        let (pack_bytes_read, unlistable, watch) = Default::default();
        Arc::new(Self { inner, changes_left, packs_put, pack_bytes_read, unlistable, watch })
    }

    /// From now on `decide` is asked before each call.
    pub fn watch(&self, decide: impl Fn(Call, &str) -> Fate + Send + Sync + 'static) {
        *self.watch.write().unwrap() = Watch(Some(Box::new(decide)));
    }

    fn fate(&self, call: Call, name: &str) -> Fate {
        let watch = self.watch.read().unwrap();
        watch.0.as_ref().map_or(Fate::Done, |decide| decide(call, name))
    }

    /// Does a change, unless death or its fate is against it.
    fn change<T>(&self, name: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
        let fate = self.fate(Call::Change, name);
        let left = self.changes_left.load(Ordering::SeqCst);
        self.changes_left.store(left.saturating_sub(1), Ordering::SeqCst);
        match fate {
            _ if left == 0 => Err(dead()),
            Fate::Fails => Err(failed(name)),
            Fate::SeemsToFail => act().and_then(|_| Err(failed(name))),
            Fate::Done | Fate::FindsNothing | Fate::EndsEarly => act(),
        }
    }

    fn alive(&self) -> Result<()> {
        if self.changes_left.load(Ordering::SeqCst) == 0 { Err(dead()) } else { Ok(()) }
    }

    /// Whether there seems to be anything.
    fn readable(&self, name: &str) -> Result<bool> {
        let fate = self.fate(Call::Read, name);
        self.alive()?;
        match fate {
            Fate::Fails | Fate::SeemsToFail => Err(failed(name)),
            Fate::EndsEarly => Err(Error::truncated(format!("{name} ends early"))),
            Fate::Done | Fate::FindsNothing => Ok(fate == Fate::Done),
        }
    }

    /// Lists a folder, unless something is against it.
    fn listed<T>(
        &self,
        folder: &str,
        list: impl FnOnce() -> Result<Vec<T>>,
        is_marker: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>> {
        let fate = self.fate(Call::List, folder);
        self.alive()?;
        let unlistable = self.unlistable.lock().unwrap();
        let is_unlistable = unlistable.as_deref().is_some_and(|name| folder.starts_with(name));
        match fate {
            _ if is_unlistable => Err(failed(folder)),
            Fate::Fails | Fate::SeemsToFail => Err(failed(folder)),
            Fate::FindsNothing => Ok(list()?.into_iter().filter(is_marker).collect()),
            Fate::Done | Fate::EndsEarly => list(),
        }
    }
}

/// Whether an object only says that its folder is there.
pub fn is_marker(name: &str) -> bool {
    name.ends_with("/.folder")
}

/// The names of all objects below a folder but for its marker.
pub fn objects_in(storage: &dyn Storage, folder: &str) -> Vec<String> {
    storage.names(folder).unwrap().into_iter().filter(|name| !is_marker(name)).collect()
}

fn dead() -> Error {
    Error::new(ErrorKind::Io, "the storage is dead")
}

fn failed(name: &str) -> Error {
    Error::new(ErrorKind::Io, format!("the storage fails at {name}"))
}

impl Storage for MortalStorage {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        self.put_pieces(name, &[bytes])
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        let put = self.change(name, || self.inner.put_pieces(name, pieces))?;
        if name.starts_with("packs/") && put == Put::Created {
            self.packs_put.fetch_add(1, Ordering::SeqCst);
        }
        Ok(put)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(name, || self.inner.replace(name, bytes))
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        self.change(from, || self.inner.move_new(from, to))
    }

    fn make_durable(&self, name: &str) -> Result<()> {
        self.readable(name)?;
        self.inner.make_durable(name)
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        self.readable(name)?;
        if name.starts_with("packs/") {
            self.pack_bytes_read.fetch_add(out.len() as u64, Ordering::SeqCst);
        }
        self.inner.read(name, at, out)
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        if self.readable(name)? { self.inner.stat(name) } else { Ok(None) }
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        self.listed(folder, || self.inner.names(folder), |name| is_marker(name))
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(folders_of_names(&self.names(folder)?, folder))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        self.listed(folder, || self.inner.list(folder), |entry| is_marker(&entry.name))
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        // One at a time, so that death can come between two.
        for name in names {
            self.change(name, || self.inner.delete(std::slice::from_ref(name)))?;
        }
        Ok(())
    }

    fn remove_temporaries(&self, before_ms: u64) -> Result<u64> {
        self.alive()?;
        self.inner.remove_temporaries(before_ms)
    }

    fn has_cheap_stat(&self) -> bool {
        // As a bucket, whatever is below it.
        false
    }

    fn concurrent_puts(&self) -> usize {
        1
    }

    fn directory(&self) -> Option<&Path> {
        self.inner.directory()
    }

    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        read_by_parts(self, name, len_max)
    }
}

/// Puts a manifest into a store under the name that fits it, whatever it says.
pub fn plant(store: &Store, manifest: &serde_json::Value) -> SnapshotName {
    let bytes = serde_json::to_vec(manifest).unwrap();
    let number = |key: &str| manifest[key].as_u64().unwrap();
    let entries = manifest["entries"].as_array().unwrap();
    let name = SnapshotName {
        run: manifest["run"].as_str().unwrap().to_string(),
        page: 0,
        step: number("step"),
        time_ms: number("time_ms"),
        size: entries
            .iter()
            .filter_map(|entry| entry["size"].as_u64())
            .fold(0, u64::saturating_add),
        added: number("added"),
        id: SnapshotName::id_of(&bytes),
    };
    store.storage().put_new(&name.object().unwrap(), &bytes).unwrap();
    name
}

/// The manifest of a snapshot as JSON, to be changed.
pub fn manifest_json(store: &Store, name: &SnapshotName) -> serde_json::Value {
    let bytes = store.storage().read_all(&name.object().unwrap(), 1 << 28).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}
