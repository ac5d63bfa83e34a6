//! A snapshot in the place of another one: what rebasing and thinning share.

use crate::Store;
use crate::commit::Author;
use crate::lease::SaveLease;
use crate::manifest::Manifest;
use crate::names::{SnapshotName, random_id};
use lmc_format::{Error, ErrorKind, Result};

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

    /// Commits what takes the place of `name`, and forgets that. Tags go with it, those too that
    /// it is given meanwhile: the last look is after the mark, from which on none is given. Until
    /// then the lease keeps `name` and its tags.
    pub(crate) fn replace_with(
        &self,
        name: &SnapshotName,
        manifest: &Manifest,
        lease: SaveLease,
    ) -> Result<SnapshotName> {
        let tags = self.tags_of(name)?;
        let (new, mut lease) = self.commit_under(manifest, name.page, &tags, Author::Us, lease)?;
        // The one that it had may have been taken for that of a dead process.
        lease.renew()?;
        self.forget(std::slice::from_ref(name))?;
        self.put_tags(&new, &self.tags_of(name)?)?;
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
}
