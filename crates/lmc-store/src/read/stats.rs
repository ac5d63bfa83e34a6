//! What a store holds, and how much was saved in which way.

use crate::Store;
use crate::layout::names::{PACKS, SNAPSHOTS};
use crate::read::count::Count;
use lmc_format::Result;

/// Sums over all snapshots; a sum that is too large becomes the largest number. `logical` is the
/// sum of `archives` and the bytes saved by reuse, deltas and coding. Archives that were stored
/// twice count twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Snapshots.
    pub snapshots: u64,
    /// Files in them.
    pub files: u64,
    /// Bytes of these files.
    pub logical: u64,
    /// Bytes of the different archives that hold them.
    pub archives: u64,
    /// Bytes of archives that hold no file of any snapshot and are only bases of others.
    pub bases_only: u64,
    /// Bytes of files that another snapshot, or the same one, already has.
    pub saved_reuse: u64,
    /// Bytes that deltas save compared with archives without bases, as far as known.
    pub saved_delta: u64,
    /// Bytes that coding without bases saves compared with the files; negative if it takes more.
    pub saved_coding: i64,
    /// Packs, and their bytes.
    pub packs: u64,
    /// See [`Stats::packs`].
    pub pack_bytes: u64,
    /// Bytes of packs that no snapshot needs.
    pub unneeded_bytes: u64,
    /// Bytes of manifests.
    pub manifest_bytes: u64,
    /// The number of bases in the longest base chain.
    pub depth_max: usize,
    /// Archives without bases.
    pub whole: u64,
    /// Archives with bases.
    pub deltas: u64,
}

impl Store {
    /// Counts everything; all manifests are read, one at a time.
    pub fn stats(&self) -> Result<Stats> {
        let mut count = Count::default();
        for name in self.snapshots()? {
            if let Some(manifest) = self.manifest_of(&name)? {
                count.add(&name.id, &manifest, 0);
            }
        }
        Ok(count.stats(&self.list_of(PACKS)?, &self.list_of(SNAPSHOTS)?))
    }
}
