//! A directory as storage.
//!
//! An object is written under a temporary name in `tmp/` and synced. Then it is renamed to its
//! name, and the folder of that name is synced. A new folder is synced into its own folder first.
//! So a name in a folder always means a whole file, even after a power cut.

mod errors;
mod reserve;

use super::disk::{Disk, DiskStat, LISTS_MAX, RealDisk, Renamed};
use super::{Access, ObjectInfo, Put, Stat, Storage, not_found, read_by_parts};
use crate::layout::config::CONFIG_NAME;
use crate::layout::names::{NAME_PARTS_MAX, is_id, random_id};
use errors::{object_error, swept};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The folder of files that do not have their final names yet.
const TEMPORARY: &str = "tmp";
/// A directory as storage.
#[derive(Debug)]
pub struct LocalStorage {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    /// Folders that are known to be durable.
    folders: Mutex<HashSet<PathBuf>>,
    /// Set when a sync failed: from then on, nobody knows what the disk holds.
    is_poisoned: AtomicBool,
    /// Set when the disk was full.
    is_full: AtomicBool,
}

impl LocalStorage {
    /// The directory `root`, which putting `lmc-store.json` makes, but not the folders above it.
    pub fn new(root: &Path) -> Self {
        Self::on(root, Arc::new(RealDisk::new(root, Access::Private)))
    }

    /// The same on another disk.
    pub fn on(root: &Path, disk: Arc<dyn Disk>) -> Self {
        let (folders, is_poisoned) = (Mutex::default(), AtomicBool::new(false));
        let (root, is_full) = (root.to_path_buf(), AtomicBool::new(false));
        Self { root, disk, folders, is_poisoned, is_full }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn check_usable(&self) -> Result<()> {
        if self.is_poisoned.load(Ordering::Acquire) {
            let message = "an earlier sync failed, so nothing more is written; check the disk and \
                           start again";
            return Err(Error::new(ErrorKind::Io, message).at(self.root.display()));
        }
        Ok(())
    }

    /// An error of the disk; remembers whether the disk is full.
    fn failed(&self, what: impl std::fmt::Display, error: io::Error) -> Error {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.is_full.store(true, Ordering::Release);
        }
        object_error(what, error)
    }

    /// Gives a file of ours its final name, which must be free.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.disk.rename_new(from, to)? == Renamed::Linked {
            // The new name exists, whatever becomes of the old one.
            let _ = self.disk.remove(from);
        }
        Ok(())
    }

    /// The result of giving a name, made durable; none if the disk refused it.
    fn named(&self, path: &Path, given: io::Result<()>) -> Option<Result<Put>> {
        let put = match given {
            Ok(()) => Put::Created,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Put::Exists,
            Err(_) => return None,
        };
        Some(self.sync_dir(path.parent().unwrap_or(&self.root)).map(|()| put))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.disk.sync_dir(path).map_err(|e| self.poison(path, e))
    }

    /// After a failed sync, the kernel may drop unwritten data and report success the next time.
    fn poison(&self, path: &Path, error: io::Error) -> Error {
        self.is_poisoned.store(true, Ordering::Release);
        Error::io(format_args!("cannot sync {}", path.display()), error)
    }

    /// Makes a folder and all folders above it; each is durable before the next one.
    fn make_folder(&self, folder: &Path) -> Result<()> {
        let is_known = |folder: &Path| {
            self.folders.lock().unwrap_or_else(PoisonError::into_inner).contains(folder)
        };
        if is_known(folder) {
            return Ok(());
        }
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
        if folder != self.root
            && let Some(above) = above
        {
            self.make_folder(above)?;
        }
        match self.disk.create_dir(folder) {
            Ok(()) => {}
            // Another process may have made it just now and not synced it yet.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(self.failed(format_args!("cannot make {}", folder.display()), e));
            }
        }
        self.sync_dir(above.unwrap_or(Path::new(".")))?;
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.insert(folder.to_path_buf());
        Ok(())
    }

    /// Writes a file under a temporary name and syncs it.
    fn write_temporary(&self, pieces: &[&[u8]]) -> Result<PathBuf> {
        let folder = self.path(TEMPORARY);
        self.make_folder(&folder)?;
        let path = folder.join(random_id()?);
        let written = self.write_file(&path, pieces);
        if written.is_err() {
            // Best effort: a prune removes files that stay here.
            let _ = self.disk.remove(&path);
        }
        written.map(|()| path)
    }

    fn write_file(&self, path: &Path, pieces: &[&[u8]]) -> Result<()> {
        let cannot = |e: io::Error| self.failed(format_args!("cannot write {}", path.display()), e);
        let mut file = self.disk.create(path).map_err(cannot)?;
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                match file.write(rest) {
                    Ok(0) => return Err(cannot(io::ErrorKind::WriteZero.into())),
                    Ok(count) => rest = &rest[count..],
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(cannot(e)),
                }
            }
        }
        file.sync().map_err(|e| self.poison(path, e))
    }

    /// Gives a written file its final name with `rename`, durably.
    fn publish(
        &self,
        name: &str,
        pieces: &[&[u8]],
        rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<Put> {
        self.check_usable()?;
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        self.make_folder(&folder)?;
        let temporary = self.write_temporary(pieces)?;
        let renamed = rename(&temporary, &path);
        if let Err(error) = renamed {
            let is_swept = self.was_swept(&temporary, &error);
            let _ = self.disk.remove(&temporary);
            if error.kind() == io::ErrorKind::AlreadyExists {
                // The other writer may not have synced it yet, and we rely on its name now.
                self.sync_dir(&folder)?;
                return Ok(Put::Exists);
            }
            return Err(match is_swept {
                true => swept(name),
                false => {
                    self.failed(format_args!("cannot rename a file to {}", path.display()), error)
                }
            });
        }
        self.sync_dir(&folder)?;
        Ok(Put::Created)
    }

    /// Whether a file got no name because it is gone: a prune removes the files of dead processes,
    /// and of processes that were suspended for longer than the grace period.
    fn was_swept(&self, temporary: &Path, error: &io::Error) -> bool {
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        is_gone(error)
            && self.disk.stat(temporary).is_err_and(|e| is_gone(&e))
            && self.check_root().is_ok()
    }

    /// The contents of a folder.
    fn look_into<T>(
        &self,
        folder: &str,
        look: impl FnOnce(&Path) -> io::Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let path = self.path(folder);
        match look(&path) {
            Ok(entries) => Ok(entries),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.check_root().map(|()| Vec::new()),
            Err(e) => Err(Error::io(format_args!("cannot list {}", path.display()), e)),
        }
    }

    fn walk(&self, folder: &str, found: &mut Vec<String>) -> Result<()> {
        for (name, is_dir) in self.look_into(folder, |path| self.disk.read_dir(path))? {
            let name = format!("{folder}/{name}");
            if is_dir {
                if may_hold_objects(&name) {
                    self.walk(&name, found)?;
                }
            } else {
                found.push(name);
            }
        }
        Ok(())
    }

    /// The contents of a folder, with what is known about each name. If a name disappears before it
    /// is looked at, all are listed again: its replacement was made earlier and is not among the
    /// names that were read.
    fn entries(&self, folder: &str) -> Result<Vec<(String, Option<DiskStat>)>> {
        let list = || self.look_into(folder, |path| self.disk.list_dir(path));
        let mut entries = list()?;
        for _ in 1..LISTS_MAX {
            if entries.iter().all(|(_, stat)| stat.is_some()) {
                break;
            }
            entries = list()?;
        }
        Ok(entries)
    }

    fn walk_entries(&self, folder: &str, found: &mut Vec<ObjectInfo>) -> Result<()> {
        for (name, stat) in self.entries(folder)? {
            let Some(stat) = stat else { continue };
            let name = format!("{folder}/{name}");
            if stat.is_dir {
                if may_hold_objects(&name) {
                    self.walk_entries(&name, found)?;
                }
            } else {
                let stat = Stat { size: stat.size, modified_ms: stat.modified_ms };
                found.push(ObjectInfo { name, stat });
            }
        }
        Ok(())
    }

    /// A missing folder counts as empty only if the store exists: it may have been unmounted.
    fn check_root(&self) -> Result<()> {
        let path = self.path(CONFIG_NAME);
        let stat = self.disk.stat(&path);
        stat.map(|_| ()).map_err(|e| Error::io(format_args!("cannot access {}", path.display()), e))
    }
}

/// Whether a folder can contain objects: the names of our objects have few parts, and deeper files
/// of others are not looked for.
fn may_hold_objects(folder: &str) -> bool {
    folder.split('/').count() < NAME_PARTS_MAX
}

impl Storage for LocalStorage {
    fn put_new(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        if name == CONFIG_NAME {
            self.make_folder(&self.root)?;
            self.make_reserve()?;
        }
        let put = || self.put_pieces(name, &[bytes]);
        match put() {
            // Marks and leases of prunes, which help to make room, are empty.
            Err(error) if bytes.is_empty() => self.put_in_need(name).unwrap_or(Err(error)),
            other => other,
        }
    }

    fn put_pieces(&self, name: &str, pieces: &[&[u8]]) -> Result<Put> {
        self.publish(name, pieces, |from, to| self.rename_new(from, to))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.publish(name, &[bytes], |from, to| self.disk.rename_over(from, to)).map(|_| ())
    }

    fn move_new(&self, from: &str, to: &str) -> Result<Put> {
        self.check_usable()?;
        let (old, new) = (self.path(from), self.path(to));
        let folder = |path: &Path| path.parent().unwrap_or(&self.root).to_path_buf();
        self.make_folder(&folder(&new))?;
        let renamed = match self.disk.rename_new(&old, &new) {
            Ok(renamed) => renamed,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(Put::Exists),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(not_found(from)),
            Err(e) => return Err(self.failed(format_args!("cannot move {from} to {to}"), e)),
        };
        // The new name first, so that after a power cut at least one of the two exists.
        self.sync_dir(&folder(&new))?;
        let id = |path: &Path| self.disk.stat(path).map(|stat| stat.id).ok();
        // A file that has got the old name meanwhile stays.
        if renamed == Renamed::Linked && id(&old).is_some_and(|own| id(&new) == Some(own)) {
            let cannot =
                |e| Error::io(format_args!("cannot remove {from}, which is now also {to}"), e);
            self.disk.remove(&old).map_err(cannot)?;
        }
        self.sync_dir(&folder(&old))?;
        Ok(Put::Created)
    }

    fn make_durable(&self, name: &str) -> Result<()> {
        self.check_usable()?;
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.root);
        self.make_folder(folder)?;
        self.sync_dir(folder)
    }

    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()> {
        let cannot = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => not_found(name),
            _ => object_error(format_args!("cannot read {name}"), e),
        };
        let file = self.disk.open(&self.path(name)).map_err(cannot)?;
        let mut done = 0;
        while done < out.len() {
            match file.read_at(at + done as u64, &mut out[done..]) {
                Ok(0) => {
                    let end = at + done as u64;
                    return Err(Error::truncated(format!("{name} ends at byte {end}")));
                }
                Ok(count) => done += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(cannot(e)),
            }
        }
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>> {
        match self.disk.stat(&self.path(name)) {
            Ok(stat) if stat.is_dir => {
                Err(Error::corrupt(format!("{name} is a folder, not a file")))
            }
            Ok(stat) => Ok(Some(Stat { size: stat.size, modified_ms: stat.modified_ms })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(object_error(format_args!("cannot access {name}"), e)),
        }
    }

    fn names(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.walk(folder, &mut names)?;
        Ok(names)
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let entries = self.look_into(folder, |path| self.disk.read_dir(path))?.into_iter();
        Ok(entries.filter(|(_, is_dir)| *is_dir).map(|(name, _)| name).collect())
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        let mut entries = Vec::new();
        self.walk_entries(folder, &mut entries)?;
        Ok(entries)
    }

    fn delete(&self, names: &[String]) -> Result<()> {
        self.check_usable()?;
        let mut folders = BTreeSet::new();
        for name in names {
            let path = self.path(name);
            match self.disk.remove(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(format_args!("cannot remove {name}"), e)),
            }
            folders.extend(path.parent().map(Path::to_path_buf));
        }
        for folder in folders {
            match self.disk.sync_dir(&folder) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(self.poison(&folder, e)),
            }
        }
        Ok(())
    }

    fn remove_temporaries(&self, before_ms: u64) -> Result<u64> {
        // A store may have been made where others already have a folder of this name.
        let is_ours = |name: &str| name.split_once('/').is_some_and(|(_, name)| is_id(name));
        let old = |entry: &ObjectInfo| is_ours(&entry.name) && entry.stat.modified_ms < before_ms;
        let names: Vec<String> =
            self.list(TEMPORARY)?.into_iter().filter(old).map(|entry| entry.name).collect();
        self.delete(&names)?;
        // At the end of a prune, which has made room.
        self.make_reserve()?;
        Ok(names.len() as u64)
    }

    fn has_cheap_stat(&self) -> bool {
        true
    }

    fn concurrent_puts(&self) -> usize {
        16 // Each is a file of its own.
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.root)
    }

    fn read_all(&self, name: &str, len_max: u64) -> Result<Vec<u8>> {
        read_by_parts(self, name, len_max)
    }
}
