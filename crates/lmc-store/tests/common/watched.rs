//! The disk of the machine, of which a test is told at the moments that matter.

use lmc_store::storage::disk::{Disk, DiskFile, DiskStat, RealDisk, Renamed};
use lmc_store::storage::{Access, LocalStorage};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

/// What is about to be done, or was done a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A file is about to be made.
    Create,
    /// The names in a folder were read; they are about to be looked at.
    Names,
    /// A file has got another name than this one, which it may have as well.
    Renamed,
}

type Tell = Box<dyn Fn(Moment, &Path) -> io::Result<()> + Send + Sync>;

/// A disk that tells of what is done to it.
pub struct WatchedDisk {
    inner: RealDisk,
    /// Whether a file gets another name by a hard link, as where nothing else refuses to replace.
    pub links: AtomicBool,
    tell: RwLock<Option<Tell>>,
}

impl std::fmt::Debug for WatchedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("WatchedDisk")
    }
}

impl WatchedDisk {
    /// A directory, and the disk that it is on.
    pub fn below(root: &Path) -> (Arc<LocalStorage>, Arc<Self>) {
        let inner = RealDisk::new(root, Access::Private);
        let disk = Arc::new(Self { inner, links: AtomicBool::new(false), tell: RwLock::default() });
        (Arc::new(LocalStorage::on(root, disk.clone())), disk)
    }

    /// From now on `tell` is called; what it fails with is what the disk fails with.
    pub fn watch(&self, tell: impl Fn(Moment, &Path) -> io::Result<()> + Send + Sync + 'static) {
        *self.tell.write().unwrap() = Some(Box::new(tell));
    }

    fn tell(&self, moment: Moment, path: &Path) -> io::Result<()> {
        self.tell.read().unwrap().as_ref().map_or(Ok(()), |tell| tell(moment, path))
    }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.tell(Moment::Create, path)?;
        self.inner.create(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(path)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        let renamed = match self.links.load(Ordering::SeqCst) {
            true => self.inner.link_new(from, to).map(|()| Renamed::Linked)?,
            false => self.inner.rename_new(from, to)?,
        };
        self.tell(Moment::Renamed, from)?;
        Ok(renamed)
    }
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_over(from, to)
    }
    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.link_new(from, to)
    }
    fn truncate(&self, path: &Path) -> io::Result<()> {
        self.inner.truncate(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.sync_dir(path)
    }
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        let names = self.inner.read_dir(path)?;
        self.tell(Moment::Names, path)?;
        Ok(names)
    }
    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        let stat = |name: &str| self.stat(&path.join(name)).ok();
        let names = self.read_dir(path)?.into_iter();
        Ok(names.map(|(name, _)| (name.clone(), stat(&name))).collect())
    }
    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        self.inner.stat(path)
    }
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }
}
