//! Tags: names that users give to snapshots, one object each.

use crate::Store;
use crate::names::SnapshotName;
use lmc_format::Result;

impl Store {
    /// Gives a snapshot a tag; one that it has already is no error.
    pub fn tag(&self, name: &SnapshotName, tag: &str) -> Result<()> {
        self.storage.put_new(&name.tag(tag)?, b"").map(|_| ())
    }

    /// Takes a tag from a snapshot; one that it has not is no error.
    pub fn untag(&self, name: &SnapshotName, tag: &str) -> Result<()> {
        self.storage.delete(&[name.tag(tag)?])
    }
}
