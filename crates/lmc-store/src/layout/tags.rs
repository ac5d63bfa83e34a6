//! Tags: labels that users give to snapshots, one object each.

use crate::Store;
use crate::layout::names::SnapshotName;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeSet;

impl Store {
    /// Adds a tag to a snapshot; it is not an error if the snapshot already has it. If the snapshot
    /// is concurrently forgotten or replaced, that is a conflict.
    pub fn tag(&self, name: &SnapshotName, tag: &str) -> Result<()> {
        self.storage.put_new(&name.tag(tag)?, b"")?;
        // The tag stays: it may have existed before, and a prune removes the tags of snapshots that
        // are gone.
        self.check_shown(name)
    }

    /// Fails unless a snapshot exists and is not forgotten. Call this after every change to the
    /// tags of a visible snapshot: a process that marks it later sees the change, and an earlier
    /// mark is seen here. The mark is looked for first, since a prune removes it after the
    /// manifest.
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

    /// Adds the tags that a snapshot lacks. If others can see the snapshot, call
    /// [`Self::check_shown`] afterwards.
    pub(crate) fn put_tags(&self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<()> {
        for tag in tags {
            let object = name.tag(tag)?;
            if self.storage.stat(&object)?.is_none() {
                self.storage.put_new(&object, b"")?;
            }
        }
        Ok(())
    }

    /// Removes a tag from a snapshot; it is not an error if the snapshot does not have it. If the
    /// snapshot is concurrently forgotten or replaced, that is a conflict.
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
