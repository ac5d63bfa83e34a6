//! A snapshot in the place of another one: what rebasing and thinning share.

use crate::Store;
use crate::layout::lease::SaveLease;
use crate::layout::manifest::Manifest;
use crate::layout::names::{SnapshotName, random_id};
use crate::save::commit::Author;
use crate::storage::Put;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

impl Store {
    /// The beginning of a save that takes the place of `name`: its id, a lease that names that, and
    /// the manifest.
    pub(crate) fn lease_of(
        &self,
        name: &SnapshotName,
    ) -> Result<(String, SaveLease<'_>, Manifest)> {
        let save = random_id()?;
        let lease = SaveLease::create(self, &save, vec![name.key()?])?;
        let manifest = self.read_leased(name)?.ok_or_else(|| {
            let message = format!("snapshot {} is being removed", name.short_id());
            Error::new(ErrorKind::Conflict, message)
        })?;
        Ok((save, lease, manifest))
    }

    /// Commits what takes the place of `name`, and forgets that. Tags go with it, those too that it
    /// is given meanwhile: the last look is after the mark, from which on none is given or taken.
    /// Until then the lease keeps `name` and its tags. If somebody else marks the new one, `name`
    /// gets no mark, or loses it again: one of the two stays.
    pub(crate) fn replace_with(
        &self,
        name: &SnapshotName,
        manifest: &Manifest,
        mut lease: SaveLease,
    ) -> Result<SnapshotName> {
        let tags = self.tags_of(name)?;
        // Before the commit: on a full disk it may fail, and would leave two snapshots.
        lease.renew()?;
        let (new, mut lease) = self.commit_under(manifest, name.page, &tags, Author::Us, lease)?;
        if !lease.is_there()? {
            // It was taken for that of a dead process.
            lease.renew()?;
        }
        self.check_shown(&new)?;
        let mark = name.forgotten();
        let is_own = self.storage.put_new(&mark, b"")? == Put::Created;
        if let Err(error) = self.hand_over(name, &new, &tags) {
            if is_own {
                self.storage.delete(&[mark])?;
            }
            return Err(error);
        }
        if !lease.is_there()? {
            let message = format!(
                "snapshot {} has taken the place of {}, and may lack a tag that this was given \
                 meanwhile: a prune took this process for a dead one",
                new.short_id(),
                name.short_id()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        // A lease that cannot be ended grows old and is removed by a prune.
        let _ = lease.end();
        Ok(new)
    }

    /// Gives `new`, which got the tags `before`, those that `name` has by now, and takes from it
    /// those that `name` has lost. Fails if `new` is to go.
    fn hand_over(
        &self,
        name: &SnapshotName,
        new: &SnapshotName,
        before: &BTreeSet<String>,
    ) -> Result<()> {
        let now = self.tags_of(name)?;
        let lost = before.difference(&now).map(|tag| new.tag(tag)).collect::<Result<Vec<_>>>()?;
        self.storage.delete(&lost)?;
        self.put_tags(new, &now)?;
        self.check_shown(new)
    }
}
