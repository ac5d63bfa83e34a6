//! What a store holds, and how much was saved in which way.

use crate::Store;
use crate::layout::manifest::{ArchiveInfo, total};
use crate::layout::names::{PACKS, PackName, SNAPSHOTS};
use lmc_format::Result;
use std::collections::{HashMap, HashSet};

/// Sums over all snapshots; a sum that is too large becomes the largest number. `logical` is the
/// sum of `archives` and the bytes saved by reuse, deltas and coding.
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

impl Stats {
    /// Counts an archive that holds `logical` bytes of files.
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
    }
}

/// The bytes that coding an archive without bases saves; negative if it takes more.
fn saved_coding(archive: &ArchiveInfo, logical: u64) -> i128 {
    i128::from(logical.min(archive.size)) - i128::from(archive.alone)
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
        // Summed up first and cut off last: with a limit at each step, the result would depend on
        // the order of the archives, which is random.
        let saved: i128 = archives.values().map(|(a, logical)| saved_coding(a, *logical)).sum();
        stats.saved_coding = saved.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
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
