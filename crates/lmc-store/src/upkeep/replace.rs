//! Replacing a snapshot with another one: the common part of rebasing and thinning.

use crate::Store;
use crate::layout::lease::SaveLease;
use crate::layout::manifest::Manifest;
use crate::layout::names::{SnapshotName, random_id};
use crate::save::commit::Author;
use crate::storage::Put;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

impl Store {
    /// The start of a save that replaces `name`: its id, a lease that names `name`, and the
    /// manifest.
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

    /// Commits the replacement of `name`, and forgets `name`. The replacement gets its tags,
    /// including those that are added meanwhile: the last look comes after the mark, and from then
    /// on tags can be neither added nor removed. Until then, the lease protects `name` and its
    /// tags. If somebody else marks the replacement, `name` gets no mark or loses it again, so one
    /// of the two stays.
    pub(crate) fn replace_with(
        &self,
        name: &SnapshotName,
        manifest: &Manifest,
        mut lease: SaveLease,
    ) -> Result<SnapshotName> {
        let tags = self.tags_of(name)?;
        // Before the commit: on a full disk this may fail, and would leave two snapshots.
        lease.renew()?;
        let (new, mut lease) = self.commit_under(manifest, name.page, &tags, Author::Us, lease)?;
        if !lease.is_there()? {
            // A prune took this process for dead.
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
                "snapshot {} has replaced {}, and may lack a tag that was added meanwhile: a prune \
                 considered this process dead",
                new.short_id(),
                name.short_id()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        // A lease that cannot be ended expires, and a prune removes it.
        let _ = lease.end();
        Ok(new)
    }

    /// Adds to `new`, which got the tags `before`, the tags that `name` has by now, and removes
    /// those that `name` has lost. Fails if `new` is forgotten.
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
