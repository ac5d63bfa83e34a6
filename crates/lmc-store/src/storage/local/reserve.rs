//! Room on a full disk for marks and leases, which help to make more.

use super::LocalStorage;
use crate::layout::names::{FORGOTTEN, MARKER, PRUNING};
use crate::storage::{Put, Storage};
use lmc_format::Result;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// A file that is given up when the disk is full. Marks and leases, which help to make room, first
/// need entries in folders, and a lease needs a file.
const RESERVE: &str = "reserve";
/// Its size in bytes: enough for the entries of a few hundred marks.
const RESERVE_LEN: usize = 64 << 10;
/// A second file that is given up, an empty one: it becomes a mark if a hard link takes a file too
/// (tmpfs).
const SPARE: &str = "spare";

impl LocalStorage {
    /// Makes the reserve if it is missing or used up and there is room. Only a failed sync is an
    /// error.
    pub(super) fn make_reserve(&self) -> Result<()> {
        let path = self.path(RESERVE);
        let is_whole = self.disk.stat(&path).is_ok_and(|stat| stat.size == RESERVE_LEN as u64);
        if !is_whole {
            // Bytes that no file system can compress.
            let mut bytes = vec![0; RESERVE_LEN];
            blake3::Hasher::new().finalize_xof().fill(&mut bytes);
            self.make_spare(&bytes, &path);
        }
        let spare = self.path(SPARE);
        if self.disk.stat(&spare).is_err() {
            self.make_spare(b"", &spare);
        }
        self.check_usable()
    }

    fn make_spare(&self, bytes: &[u8], path: &Path) {
        if let Ok(temporary) = self.write_temporary(&[bytes])
            && self.disk.rename_over(&temporary, path).is_err()
        {
            let _ = self.disk.remove(&temporary);
        }
    }

    /// Puts a mark or the lease of a prune on a disk that has no bytes or no files left: they help
    /// to make room. A mark needs no file of its own. It becomes another name of the marker of its
    /// folder, or the spare file. A lease becomes the reserve itself, since its time matters. None
    /// if nothing can be done.
    pub(super) fn put_in_need(&self, name: &str) -> Option<Result<Put>> {
        let is_in = |folder: &str| name.split_once('/').is_some_and(|(top, _)| top == folder);
        let is_full = self.is_full.swap(false, Ordering::AcqRel);
        if !is_full || !is_in(FORGOTTEN) && !is_in(PRUNING) {
            return None;
        }
        let (path, reserve) = (self.path(name), self.path(RESERVE));
        let again = || self.publish(name, &[], |from, to| self.rename_new(from, to));
        if is_in(FORGOTTEN) {
            // The bytes of the reserve are given up only if the name needs room in its folder. Its
            // file is never given up here, since a prune needs it.
            let with_room = || {
                self.empty_reserve()?;
                self.give_mark(&path).or_else(|| Some(again()))
            };
            return self.give_mark(&path).or_else(with_room);
        }
        // This also sets the time of the file, since the time of a lease is when it was made.
        self.empty_reserve()?;
        self.named(&path, self.rename_new(&reserve, &path)).or_else(|| {
            // In a store of an earlier version, the folder may not exist yet.
            self.delete(&[RESERVE.to_string()]).ok()?;
            Some(again())
        })
    }

    /// Frees the bytes of the reserve; none if that fails. If the reserve is not a plain file, or
    /// has another name too, its bytes stay and only this name is removed.
    fn empty_reserve(&self) -> Option<()> {
        let reserve = self.path(RESERVE);
        let emptied = match self.disk.truncate(&reserve) {
            Err(e) if e.kind() == io::ErrorKind::InvalidData => self.disk.remove(&reserve),
            emptied => emptied,
        };
        emptied.ok()
    }

    /// Makes a mark without a new file.
    fn give_mark(&self, path: &Path) -> Option<Result<Put>> {
        let marker = self.path(&format!("{FORGOTTEN}/{MARKER}"));
        let linked = self.named(path, self.disk.link_new(&marker, path));
        linked.or_else(|| self.named(path, self.rename_new(&self.path(SPARE), path)))
    }
}
