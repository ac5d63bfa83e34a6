//! A disk in memory that knows what has been synced.
//!
//! It promises what POSIX does and no more. A sync of a file makes its bytes durable, not its name;
//! a sync of a directory makes the names in it durable, not the files, and not its own name. All
//! else may be there after a power cut or not, each name for itself (`cut.rs`).

use crate::common::TestClock;
use lmc_store::Clock;
use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, Renamed};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a name has stood for, and since which change.
pub type Past = Vec<(u64, Option<usize>)>;

/// A file or a directory.
#[derive(Clone, Debug)]
pub enum Node {
    File {
        /// What readers see.
        data: Arc<Vec<u8>>,
        /// How much of it is durable.
        synced_len: usize,
        /// Whether a sync failed: what was not durable then never will be.
        is_lost: bool,
        modified_ms: u64,
    },
    Dir {
        names: BTreeMap<String, usize>,
        /// What names that changed since the last sync stood for: first what is durable, last what
        /// holds now.
        past: BTreeMap<String, Past>,
    },
}

/// All that is on the disk; node 0 is the root.
#[derive(Clone, Debug)]
pub struct State {
    pub nodes: Vec<Node>,
    /// Changes of names so far.
    pub changes: u64,
}

/// Syncs that are not done though they are reported to be, to see that tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    #[default]
    None,
    /// Those of files.
    Files,
    /// Those of directories whose path has this part in front.
    Folders(&'static str),
}

/// A disk in memory; `note` is what the test wants to remember at each moment.
#[derive(Debug)]
pub struct CrashDisk<N> {
    inner: Mutex<Inner<N>>,
    clock: Arc<TestClock>,
    lie: Lie,
}

#[derive(Debug)]
struct Inner<N> {
    state: State,
    note: N,
    /// The state after each change.
    moments: Vec<(State, N)>,
    is_recording: bool,
}

impl State {
    pub fn new() -> Self {
        Self { nodes: vec![new_dir()], changes: 0 }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let mut at = 0;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            let Node::Dir { names, .. } = &self.nodes[at] else {
                return Err(io::ErrorKind::NotADirectory.into());
            };
            let name = name.to_str().expect("names of objects are text");
            at = *names.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(at)
    }

    /// Bytes of a file, if it is there.
    pub fn size(&self, path: &str) -> Option<u64> {
        self.find(Path::new(path)).ok().map(|node| self.nodes[node].stat(node).size)
    }

    /// The directory that a path is in, and its name there.
    fn place(&self, path: &Path) -> io::Result<(usize, String)> {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let dir = self.find(path.parent().expect("a folder"))?;
        Ok((dir, name.to_string()))
    }

    fn get(&self, (dir, name): &(usize, String)) -> Option<usize> {
        match &self.nodes[*dir] {
            Node::Dir { names, .. } => names.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    /// Lets a name stand for something else; `change` is the number of the change.
    fn set(&mut self, (dir, name): (usize, String), node: Option<usize>, change: u64) {
        let Node::Dir { names, past } = &mut self.nodes[dir] else { panic!("no directory") };
        let before = names.get(&name).copied();
        let past = past.entry(name.clone()).or_insert_with(|| vec![(0, before)]);
        past.push((change, node));
        match node {
            Some(node) => names.insert(name, node),
            None => names.remove(&name),
        };
    }

    fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    fn add(&mut self, path: &Path, node: Node) -> io::Result<usize> {
        let place = self.place(path)?;
        if self.get(&place).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.nodes.push(node);
        let (number, change) = (self.nodes.len() - 1, self.change());
        self.set(place, Some(number), change);
        Ok(number)
    }

    fn rename(&mut self, from: &Path, to: &Path, replaces: bool) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let node = self.get(&from).ok_or(io::ErrorKind::NotFound)?;
        if !replaces && self.get(&to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let change = self.change();
        self.set(to, Some(node), change);
        self.set(from, None, change);
        Ok(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        let node = self.get(&from).ok_or(io::ErrorKind::NotFound)?;
        if self.get(&to).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let change = self.change();
        self.set(to, Some(node), change);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path)?;
        let node = self.get(&place).ok_or(io::ErrorKind::NotFound)?;
        if matches!(self.nodes[node], Node::Dir { .. }) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let change = self.change();
        self.set(place, None, change);
        Ok(())
    }
}

impl Node {
    /// What this node, which has a number, is.
    fn stat(&self, number: usize) -> DiskStat {
        let id = (0, number as u64);
        match self {
            Self::File { data, modified_ms, .. } => {
                DiskStat { size: data.len() as u64, modified_ms: *modified_ms, is_dir: false, id }
            }
            Self::Dir { .. } => DiskStat { size: 0, modified_ms: 0, is_dir: true, id },
        }
    }
}

pub fn new_dir() -> Node {
    Node::Dir { names: BTreeMap::new(), past: BTreeMap::new() }
}

impl<N: Clone> CrashDisk<N> {
    /// A disk that holds `state`.
    pub fn new(state: State, clock: Arc<TestClock>, note: N, lie: Lie) -> Arc<Self> {
        let inner = Inner { state, note, moments: Vec::new(), is_recording: true };
        Arc::new(Self { inner: Mutex::new(inner), clock, lie })
    }

    fn inner(&self) -> MutexGuard<'_, Inner<N>> {
        self.inner.lock().expect("no panic under the lock")
    }

    pub fn state(&self) -> State {
        self.inner().state.clone()
    }

    /// What holds from now on.
    pub fn note(&self, note: N) {
        let mut inner = self.inner();
        inner.note = note;
        inner.remember();
    }

    /// All moments so far; from now on none are remembered.
    pub fn take_moments(&self) -> Vec<(State, N)> {
        let mut inner = self.inner();
        inner.is_recording = false;
        std::mem::take(&mut inner.moments)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut inner = self.inner();
        let result = change(&mut inner.state)?;
        inner.remember();
        Ok(result)
    }
}

impl<N: Clone> Inner<N> {
    fn remember(&mut self) {
        if self.is_recording {
            self.moments.push((self.state.clone(), self.note.clone()));
        }
    }
}

/// An open file on a [`CrashDisk`].
#[derive(Debug)]
pub struct CrashFile<N> {
    disk: Arc<CrashDisk<N>>,
    node: usize,
}

/// A handle on a disk, which is what storage is given.
#[derive(Clone, Debug)]
pub struct Handle<N>(pub Arc<CrashDisk<N>>);

impl<N: Clone> CrashFile<N> {
    /// A sync that fails, after which the kernel forgets what it could not write.
    pub fn fail_sync(&self) {
        let mut inner = self.disk.inner();
        if let Node::File { is_lost, .. } = &mut inner.state.nodes[self.node] {
            *is_lost = true;
        }
    }
}

impl<N: Note> DiskFile for CrashFile<N> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let now_ms = self.disk.clock.now_ms();
        self.disk.change(|state| {
            let Node::File { data, modified_ms, .. } = &mut state.nodes[self.node] else {
                return Err(io::ErrorKind::IsADirectory.into());
            };
            Arc::make_mut(data).extend_from_slice(bytes);
            *modified_ms = now_ms;
            Ok(bytes.len())
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.disk.lie == Lie::Files {
            return Ok(());
        }
        self.disk.change(|state| {
            if let Node::File { data, synced_len, is_lost: false, .. } = &mut state.nodes[self.node]
            {
                *synced_len = data.len();
            }
            Ok(())
        })
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let inner = self.disk.inner();
        let Node::File { data, .. } = &inner.state.nodes[self.node] else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let rest = usize::try_from(at).ok().and_then(|at| data.get(at..)).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// What a test remembers with each moment.
pub trait Note: Clone + Send + Sync + std::fmt::Debug + 'static {}

impl<T: Clone + Send + Sync + std::fmt::Debug + 'static> Note for T {}

impl<N: Note> Handle<N> {
    pub fn create_file(&self, path: &Path) -> io::Result<CrashFile<N>> {
        let modified_ms = self.0.clock.now_ms();
        let (data, synced_len, is_lost) = (Arc::default(), 0, false);
        let file = Node::File { data, synced_len, is_lost, modified_ms };
        let node = self.0.change(|state| state.add(path, file))?;
        Ok(CrashFile { disk: self.0.clone(), node })
    }

    pub fn open_file(&self, path: &Path) -> io::Result<CrashFile<N>> {
        let node = self.0.inner().state.find(path)?;
        Ok(CrashFile { disk: self.0.clone(), node })
    }
}

impl<N: Note> Disk for Handle<N> {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.create_file(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.open_file(path)?))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        self.0.change(|state| state.rename(from, to, false))?;
        Ok(Renamed::Moved)
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.change(|state| state.rename(from, to, true))
    }

    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.change(|state| state.link(from, to))
    }

    fn truncate(&self, path: &Path) -> io::Result<()> {
        let now_ms = self.0.clock.now_ms();
        self.0.change(|state| {
            let node = state.find(path)?;
            let Node::File { data, synced_len, modified_ms, .. } = &mut state.nodes[node] else {
                return Err(io::ErrorKind::IsADirectory.into());
            };
            (*data, *synced_len, *modified_ms) = (Arc::default(), 0, now_ms);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.change(|state| state.remove(path))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.change(|state| state.add(path, new_dir()).map(|_| ()))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if matches!(self.0.lie, Lie::Folders(start) if path.starts_with(start)) {
            return Ok(());
        }
        self.0.change(|state| {
            let dir = state.find(path)?;
            match &mut state.nodes[dir] {
                Node::Dir { past, .. } => past.clear(),
                Node::File { .. } => return Err(io::ErrorKind::NotADirectory.into()),
            }
            Ok(())
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        let inner = self.0.inner();
        let state = &inner.state;
        let Node::Dir { names, .. } = &state.nodes[state.find(path)?] else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let is_dir = |node: usize| matches!(state.nodes[node], Node::Dir { .. });
        Ok(names.iter().map(|(name, &node)| (name.clone(), is_dir(node))).collect())
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        let inner = self.0.inner();
        let state = &inner.state;
        let Node::Dir { names, .. } = &state.nodes[state.find(path)?] else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let stat = |node: usize| Some(state.nodes[node].stat(node));
        Ok(names.iter().map(|(name, &node)| (name.clone(), stat(node))).collect())
    }

    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        let inner = self.0.inner();
        let state = &inner.state;
        let node = state.find(path)?;
        Ok(state.nodes[node].stat(node))
    }

    fn now_ms(&self) -> u64 {
        self.0.clock.now_ms()
    }
}
