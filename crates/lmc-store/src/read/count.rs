//! Counting what snapshots hold. Their manifests go in one at a time, in the order in which they
//! were saved. What each of them added comes out, and in the end the sums. Of an archive, only a
//! few bytes stay in memory.

use crate::layout::identity::places;
use crate::layout::manifest::{ArchiveInfo, Manifest, total};
use crate::layout::names::PackName;
use crate::read::stats::Stats;
use crate::storage::ObjectInfo;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

/// What is known about a snapshot from its manifest and the snapshots before it. The bytes of its
/// files are what it saved in each way, and the archives that first hold a file of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of archives that no earlier snapshot has.
    pub added: u64,
    /// Bytes of archives that a restore reads: its own, and everything that they need.
    pub whole: u64,
    /// The number of bases in the longest base chain.
    pub depth: usize,
    /// Bytes of files whose archives an earlier snapshot already had.
    pub reused: u64,
    /// As in [`Stats`], by the files of this snapshot.
    pub saved_reuse: u64,
    /// See [`Figures::saved_reuse`].
    pub saved_delta: u64,
    /// See [`Figures::saved_reuse`].
    pub saved_coding: i64,
    /// The ids of the earlier snapshots that first had the bases of its archives, oldest first.
    pub bases: Vec<String>,
}

/// An archive that was counted.
struct Counted {
    /// The number of the first snapshot that has it.
    first: usize,
    /// Whether it holds a file of a snapshot.
    has_file: bool,
}

/// Bytes that were saved in each way. They are summed up first and cut off last: with a limit at
/// each step, the result would depend on the order.
#[derive(Clone, Copy, Default)]
struct Saved {
    reuse: u128,
    delta: u128,
    coding: i128,
}

impl Saved {
    /// Counts files that hold the original of an archive; `is_first` says whether no file held it
    /// before.
    fn add(&mut self, archive: &ArchiveInfo, files: u64, is_first: bool) {
        let (size, alone) = (u128::from(archive.size), u128::from(archive.alone));
        self.reuse += u128::from(files - u64::from(is_first)) * size;
        if is_first {
            self.delta += alone.saturating_sub(archive.stored.into());
            self.coding += size as i128 - alone as i128;
        }
    }

    fn limited(self) -> (u64, u64, i64) {
        let coding = self.coding.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        (limited(self.reuse), limited(self.delta), coding)
    }
}

/// Everything that was counted so far.
#[derive(Default)]
pub(crate) struct Count {
    /// What needs no more than a sum.
    stats: Stats,
    /// Ids of snapshots, by their numbers.
    ids: Vec<String>,
    archives: HashMap<u128, Counted>,
    saved: Saved,
    /// Bytes of all archives, and of those that hold a file.
    stored: (u128, u128),
    /// The packs that snapshots need; a bit for each rule that keeps one of these snapshots.
    packs: HashMap<PackName, u64>,
}

impl Count {
    /// Counts a snapshot. `kept_by` has a bit for each rule that keeps it.
    pub(crate) fn add(&mut self, id: &str, manifest: &Manifest, kept_by: u64) -> Figures {
        let (depth, whole) = manifest.reading();
        let mut figures = Figures { depth, whole, ..Figures::default() };
        let mut files_of = vec![0_u64; manifest.archives.len()];
        for (_, file) in manifest.files() {
            figures.files += 1;
            figures.bytes = figures.bytes.saturating_add(file.size);
            files_of[file.archive] += 1;
        }
        self.stats.snapshots += 1;
        self.stats.files += figures.files;
        self.stats.logical = self.stats.logical.saturating_add(figures.bytes);
        let depth = manifest.depths().into_iter().max().unwrap_or(0);
        self.stats.depth_max = self.stats.depth_max.max(depth);
        self.add_archives(manifest, &files_of, &mut figures);
        self.ids.push(id.to_string());
        for pack in &manifest.packs {
            match self.packs.get_mut(&pack.name) {
                Some(rules) => *rules |= kept_by,
                None => drop(self.packs.insert(pack.name.clone(), kept_by)),
            }
        }
        figures
    }

    fn add_archives(&mut self, manifest: &Manifest, files_of: &[u64], figures: &mut Figures) {
        let (number, places) = (self.ids.len(), places(manifest));
        let (mut saved, mut bases) = (Saved::default(), BTreeSet::new());
        for ((archive, &place), &files) in manifest.archives.iter().zip(&places).zip(files_of) {
            let counted = match self.archives.entry(place) {
                Entry::Occupied(counted) => counted.into_mut(),
                Entry::Vacant(free) => {
                    match archive.bases.is_empty() {
                        true => self.stats.whole += 1,
                        false => self.stats.deltas += 1,
                    }
                    self.stored.0 += u128::from(archive.stored);
                    figures.added = figures.added.saturating_add(archive.stored);
                    free.insert(Counted { first: number, has_file: false })
                }
            };
            if files == 0 {
                continue;
            }
            if counted.first != number {
                let bytes = files.saturating_mul(archive.size);
                figures.reused = figures.reused.saturating_add(bytes);
            }
            let is_first = !std::mem::replace(&mut counted.has_file, true);
            saved.add(archive, files, is_first);
            self.saved.add(archive, files, is_first);
            self.stored.1 += u128::from(if is_first { archive.stored } else { 0 });
            // Every archive comes after its bases, so these are counted.
            let firsts = archive.bases.iter().filter_map(|&base| self.archives.get(&places[base]));
            bases.extend(firsts.map(|base| base.first).filter(|&first| first != number));
        }
        (figures.saved_reuse, figures.saved_delta, figures.saved_coding) = saved.limited();
        figures.bases = bases.into_iter().map(|first| self.ids[first].clone()).collect();
    }

    /// The sums; `packs` and `manifests` are the objects of the store.
    pub(crate) fn stats(&self, packs: &[ObjectInfo], manifests: &[ObjectInfo]) -> Stats {
        let (saved_reuse, saved_delta, saved_coding) = self.saved.limited();
        let (stored, with_file) = self.stored;
        let packs: Vec<(&ObjectInfo, PackName)> = named(packs).collect();
        let unneeded = packs.iter().filter(|(_, name)| !self.packs.contains_key(name));
        Stats {
            archives: limited(with_file),
            bases_only: limited(stored - with_file),
            saved_reuse,
            saved_delta,
            saved_coding,
            packs: packs.len() as u64,
            pack_bytes: total(packs.iter().map(|(entry, _)| entry.stat.size)),
            unneeded_bytes: total(unneeded.map(|(entry, _)| entry.stat.size)),
            manifest_bytes: total(manifests.iter().map(|entry| entry.stat.size)),
            ..self.stats.clone()
        }
    }

    /// Bytes of the packs that no snapshot needs that the rule with this bit keeps, except those
    /// that `stays` names.
    pub(crate) fn freed(
        &self,
        packs: &[ObjectInfo],
        rule: u64,
        stays: impl Fn(&str) -> bool,
    ) -> u64 {
        let is_needed = |name: &PackName| self.packs.get(name).is_some_and(|by| by & rule != 0);
        let freed = named(packs).filter(|(entry, name)| !is_needed(name) && !stays(&entry.name));
        total(freed.map(|(entry, _)| entry.stat.size))
    }
}

/// The objects that are packs.
fn named(packs: &[ObjectInfo]) -> impl Iterator<Item = (&ObjectInfo, PackName)> {
    packs.iter().filter_map(|entry| Some((entry, PackName::from_object(&entry.name)?)))
}

fn limited(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}
