//! What a store holds, and what saved how much.

use crate::Store;
use crate::layout::manifest::{ArchiveInfo, total};
use crate::layout::names::{PACKS, PackName, SNAPSHOTS};
use lmc_format::Result;
use std::collections::{HashMap, HashSet};

/// Sums over all snapshots, or the largest number there is if they come to more. `logical` is
/// `archives` and what was saved by reuse, deltas and coding.
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
    /// Bytes of archives that hold no file of any snapshot and that others stand on.
    pub bases_only: u64,
    /// Bytes of files that another snapshot, or the same one, has already.
    pub saved_reuse: u64,
    /// Bytes that archives on bases take less than they would alone, as far as is known.
    pub saved_delta: u64,
    /// Bytes that archives alone take less than the files; below 0 where they take more.
    pub saved_coding: i64,
    /// Packs, and their bytes.
    pub packs: u64,
    /// See [`Stats::packs`].
    pub pack_bytes: u64,
    /// Bytes of packs that no snapshot needs.
    pub unneeded_bytes: u64,
    /// Bytes of manifests.
    pub manifest_bytes: u64,
    /// Most archives that stand one on the other.
    pub depth_max: usize,
    /// Archives that stand on no other.
    pub whole: u64,
    /// Archives that stand on others.
    pub deltas: u64,
}

impl Stats {
    /// Counts an archive that `logical` bytes of files are in.
    fn add(&mut self, archive: &ArchiveInfo, logical: u64) {
        if archive.bases.is_empty() {
            self.whole += 1
        } else {
            self.deltas += 1
        }
        if logical == 0 && archive.size > 0 {
            add(&mut self.bases_only, archive.stored);
            return;
        }
        add(&mut self.archives, archive.stored);
        add(&mut self.saved_reuse, logical.saturating_sub(archive.size));
        add(&mut self.saved_delta, archive.alone.saturating_sub(archive.stored));
        // A manifest says of no archive that it has more bytes than fit here.
        let saved = logical.min(archive.size) as i64 - archive.alone as i64;
        self.saved_coding = self.saved_coding.saturating_add(saved);
    }
}

impl Store {
    /// Counts everything; all manifests are read.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        let mut archives: HashMap<u128, (ArchiveInfo, u64)> = HashMap::new();
        let mut needed: HashSet<PackName> = HashSet::new();
        for name in self.snapshots()? {
            let Some(manifest) = self.manifest_of(&name)? else { continue };
            stats.snapshots += 1;
            stats.depth_max = stats.depth_max.max(manifest.depths().into_iter().max().unwrap_or(0));
            let mut sizes: HashMap<usize, u64> = HashMap::new();
            for (_, file) in manifest.files() {
                stats.files += 1;
                add(&mut stats.logical, file.size);
                add(sizes.entry(file.archive).or_default(), file.size);
            }
            for (i, archive) in manifest.archives.into_iter().enumerate() {
                let logical = sizes.get(&i).copied().unwrap_or(0);
                add(&mut archives.entry(archive.hash).or_insert((archive, 0)).1, logical);
            }
            needed.extend(manifest.packs.into_iter().map(|pack| pack.name));
        }
        for (archive, logical) in archives.values() {
            stats.add(archive, *logical);
        }
        for entry in self.list_of(PACKS)? {
            let Some(name) = PackName::from_object(&entry.name) else { continue };
            stats.packs += 1;
            add(&mut stats.pack_bytes, entry.stat.size);
            if !needed.contains(&name) {
                add(&mut stats.unneeded_bytes, entry.stat.size);
            }
        }
        stats.manifest_bytes = total(self.list_of(SNAPSHOTS)?.iter().map(|e| e.stat.size));
        Ok(stats)
    }
}

fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}
