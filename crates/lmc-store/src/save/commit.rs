//! The last step of whatever makes a snapshot: the moment from which on it is there.

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
    /// Nobody but this process: there is a random id of its own in it.
    Us,
    /// Whoever copies the same snapshot.
    Anyone,
}

impl Store {
    /// Makes a snapshot visible, whole, with its tags, and ends the lease.
    pub(crate) fn commit(
        &self,
        manifest: &Manifest,
        page: u64,
        tags: &BTreeSet<String>,
        author: Author,
        lease: SaveLease,
    ) -> Result<SnapshotName> {
        let (name, lease) = self.commit_under(manifest, page, tags, author, lease)?;
        // The snapshot is there. A lease that cannot be ended grows old and is removed by a prune.
        let _ = lease.end();
        Ok(name)
    }

    /// The same under a lease that goes on.
    pub(crate) fn commit_under<'a>(
        &self,
        manifest: &Manifest,
        page: u64,
        tags: &BTreeSet<String>,
        author: Author,
        mut lease: SaveLease<'a>,
    ) -> Result<(SnapshotName, SaveLease<'a>)> {
        let (bytes, name) = manifest.write(page)?;
        // Our own mistakes are found before anyone relies on them.
        Manifest::read(&bytes, &name)?;
        self.put_tags(&name, tags)?;
        lease.check()?;
        let object = name.object()?;
        // A put that failed is not taken back: another copy of the same snapshot may have made the
        // object, and one snapshot too many is no loss.
        let put = match self.storage.put_new(&object, &bytes) {
            Ok(put) => put,
            Err(e) => {
                // A request without an answer may still be done: until then nothing may be pruned.
                if !self.storage.has_cheap_stat() {
                    lease.leave();
                }
                return Err(e);
            }
        };
        if put == Put::Exists {
            // Its name is the hash of its bytes: it is the same one, or it is damaged.
            match self.storage.read_all(&object, MANIFEST_LEN_MAX) {
                Ok(found) if found == bytes => {}
                Err(e) if !is_damage(&e) => return Err(e),
                _ => self.storage.replace(&object, &bytes)?,
            }
        }
        let is_tagged_again = self
            .confirm(manifest, &name, tags, &lease)
            .map_err(|error| self.withdraw(&name, &object, author, error))?;
        // Of a save that was on time, others see the tags with the snapshot. A copy may have been
        // there before its tags were.
        if is_tagged_again || author == Author::Anyone {
            self.check_shown(&name)?;
        }
        Ok((name, lease))
    }

    /// Fails if a prune took this save for a dead one, and may have removed what it needs: the
    /// process may have slept between its last look and the commit, or clocks may be far apart. A
    /// prune removes the leases of the dead before it looks for snapshots, and packs after that: so
    /// whoever finds its lease still there has been seen by every prune, or will be.
    ///
    /// Tags may be gone too, as those of a save that died before its commit. They are put again:
    /// every prune that is running now has seen the snapshot. Says whether any were put.
    fn confirm(
        &self,
        manifest: &Manifest,
        name: &SnapshotName,
        tags: &BTreeSet<String>,
        lease: &SaveLease,
    ) -> Result<bool> {
        let is_there = match lease.is_there() {
            // Nothing speaks for it, and what is committed is not given up for a failed look.
            Err(_) if !lease.is_late() => return Ok(false),
            is_there => is_there?,
        };
        if is_there && !lease.is_late() {
            return Ok(false);
        }
        let conflict = |what: String| {
            let message = format!("the save was taken for a dead one by a prune, and {what}");
            Err(Error::new(ErrorKind::Conflict, message))
        };
        if !is_there && !self.list_of(PRUNING)?.is_empty() {
            return conflict("that may go on".to_string());
        }
        for Pack { name, size } in &manifest.packs {
            let object = name.object();
            if self.storage.stat(&object)?.is_none_or(|stat| stat.size != *size) {
                return conflict(format!("lacks {object} now"));
            }
        }
        self.put_tags(name, tags)?;
        Ok(!tags.is_empty())
    }

    /// Takes back a snapshot that may lack packs, and says what became of it. The manifest of a
    /// copy stays: it may be that of another process, which has told its user that it is there.
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
