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
    /// it is given meanwhile: the last look is after the mark, from which on none is given.
    pub(crate) fn replace_with(
        &self,
        name: &SnapshotName,
        manifest: &Manifest,
        lease: SaveLease,
    ) -> Result<SnapshotName> {
        let tags = self.tags_of(name)?;
        let new = self.commit(manifest, name.page, &tags, Author::Us, lease)?;
        self.forget(std::slice::from_ref(name))?;
        for tag in self.tags_of(name)?.difference(&tags) {
            self.storage.put_new(&new.tag(tag)?, b"")?;
        }
        Ok(new)
    }
}
