//! The last step of everything that makes a snapshot: making it visible.

use crate::Store;
use crate::layout::lease::SaveLease;
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest, Pack};
use crate::layout::names::{PRUNING, SnapshotName};
use crate::storage::Put;
use crate::upkeep::check::is_damage;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// Who may have made a manifest of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// Only this process: the manifest contains its own random id.
    Us,
    /// Any process that copies the same snapshot.
    Anyone,
}

impl Store {
    /// Makes a whole snapshot visible, with its tags, and ends the lease.
    pub(crate) fn commit(
        &self,
        manifest: &Manifest,
        page: u64,
        tags: &BTreeSet<String>,
        author: Author,
        lease: SaveLease,
    ) -> Result<SnapshotName> {
        let (name, lease) = self.commit_under(manifest, page, tags, author, lease)?;
        // The snapshot is committed. If the lease cannot be ended, it expires and a prune removes
        // it.
        let _ = lease.end();
        Ok(name)
    }

    /// Like `commit`, under a lease that continues.
    pub(crate) fn commit_under<'a>(
        &self,
        manifest: &Manifest,
        page: u64,
        tags: &BTreeSet<String>,
        author: Author,
        mut lease: SaveLease<'a>,
    ) -> Result<(SnapshotName, SaveLease<'a>)> {
        let (bytes, name) = manifest.write(page)?;
        // Finds our own mistakes before anyone relies on the manifest.
        Manifest::read(&bytes, &name)?;
        self.put_tags(&name, tags)?;
        lease.check()?;
        let object = name.object()?;
        // A put that failed is not undone: another copy of the same snapshot may have made the
        // object, and an extra snapshot does no harm.
        let put = match self.storage.put_new(&object, &bytes) {
            Ok(put) => put,
            Err(e) => {
                // A request without an answer may still be carried out: nothing may be pruned until
                // then.
                if !self.storage.has_cheap_stat() {
                    lease.leave();
                }
                return Err(e);
            }
        };
        if put == Put::Exists {
            // Its name is the hash of its bytes, so it is the same manifest or a damaged one.
            match self.storage.read_all(&object, MANIFEST_LEN_MAX) {
                Ok(found) if found == bytes => {}
                Err(e) if !is_damage(&e) => return Err(e),
                _ => self.storage.replace(&object, &bytes)?,
            }
        }
        let is_tagged_again = self
            .confirm(manifest, &name, tags, &lease)
            .map_err(|error| self.withdraw(&name, &object, author, error))?;
        // If the save was on time, others see the snapshot and its tags together. A copy may have
        // existed before its tags.
        if is_tagged_again || author == Author::Anyone {
            self.check_shown(&name)?;
        }
        Ok((name, lease))
    }

    /// Fails if a prune took this save for dead and may have removed what it needs. The process may
    /// have been suspended between its last look and the commit, or clocks may be far apart. A
    /// prune removes expired leases before it lists snapshots, and packs after that. So every prune
    /// sees the snapshot of a save that still finds its lease.
    ///
    /// A prune may also have removed tags, as those of a save that died before its commit. They are
    /// put again: every prune that is running now has seen the snapshot. Returns whether any were
    /// put.
    fn confirm(
        &self,
        manifest: &Manifest,
        name: &SnapshotName,
        tags: &BTreeSet<String>,
        lease: &SaveLease,
    ) -> Result<bool> {
        let is_there = match lease.is_there() {
            // There is no sign of trouble, and a committed snapshot is not given up because a look
            // failed.
            Err(_) if !lease.is_late() => return Ok(false),
            is_there => is_there?,
        };
        if is_there && !lease.is_late() {
            return Ok(false);
        }
        let conflict = |what: String| {
            let message = format!("a prune considered this save dead, and {what}");
            Err(Error::new(ErrorKind::Conflict, message))
        };
        if !is_there && !self.list_of(PRUNING)?.is_empty() {
            return conflict("that prune may still be running".to_string());
        }
        for Pack { name, size } in &manifest.packs {
            let object = name.object();
            if self.storage.stat(&object)?.is_none_or(|stat| stat.size != *size) {
                return conflict(format!("{object} is missing or incomplete now"));
            }
        }
        self.put_tags(name, tags)?;
        Ok(!tags.is_empty())
    }

    /// Takes back a snapshot that may lack packs, and says what became of it. The manifest of a
    /// copy stays: another process may have made it and reported to its user that it exists.
    fn withdraw(&self, name: &SnapshotName, object: &str, author: Author, error: Error) -> Error {
        match author {
            Author::Us if self.storage.delete(&[object.to_string()]).is_ok() => {
                error.at("there is no new snapshot; save again")
            }
            _ => error
                .at(format_args!("snapshot {} exists, but may be incomplete", name.short_id()))
                .with_advice(Advice::CheckAndRepair),
        }
    }
}
