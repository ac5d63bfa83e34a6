//! Tags: names that users give to snapshots, one object each.

use crate::Store;
use crate::layout::names::SnapshotName;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

impl Store {
    /// Gives a snapshot a tag; one that it has already is no error. One that is forgotten or
    /// replaced at the same time is a conflict.
    pub fn tag(&self, name: &SnapshotName, tag: &str) -> Result<()> {
        self.storage.put_new(&name.tag(tag)?, b"")?;
        // The tag stays: it may have been there before, and of what is gone a prune removes it.
        self.check_shown(name)
    }

    /// Fails unless a snapshot is there and not to go. Whoever changes the tags of what others can
    /// see looks after that: whoever marks it later sees the change, and whoever has marked it is
    /// seen here. The mark first: a prune removes it after the manifest.
    pub(crate) fn check_shown(&self, name: &SnapshotName) -> Result<()> {
        if self.is_forgotten(name)? || self.storage.stat(&name.object()?)?.is_none() {
            let message = format!(
                "snapshot {} was forgotten, replaced or removed meanwhile",
                name.short_id()
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(())
    }

    /// Gives a snapshot those tags that it has not. If others can see it, [`Self::check_shown`] is
    /// to follow.
    pub(crate) fn put_tags(&self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<()> {
        for tag in tags {
            let object = name.tag(tag)?;
            if self.storage.stat(&object)?.is_none() {
                self.storage.put_new(&object, b"")?;
            }
        }
        Ok(())
    }

    /// Takes a tag from a snapshot; one that it has not is no error. One that is forgotten or
    /// replaced at the same time is a conflict.
    pub fn untag(&self, name: &SnapshotName, tag: &str) -> Result<()> {
        self.storage.delete(&[name.tag(tag)?])?;
        self.check_shown(name)
    }

    /// Whether a snapshot has one of these tags.
    pub(crate) fn has_one_of(&self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<bool> {
        for tag in tags {
            if self.storage.stat(&name.tag(tag)?)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The tags of a snapshot.
    pub(crate) fn tags_of(&self, name: &SnapshotName) -> Result<BTreeSet<String>> {
        Ok(self.tags()?.remove(&name.id).unwrap_or_default())
    }
}
