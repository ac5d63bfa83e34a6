//! What a file is coded against: the parent's archive of it, the one at the root of that chain, or
//! nothing.
//!
//! A delta is small, but every restore of it reads its whole chain. Reading costs a share of
//! storing ([`READ_SHARE`]), and each archive carries what the reads of its chain have cost so far,
//! its rent. A chain is left when the rent has come to what a whole copy would cost. Where files
//! change little that is late, where they change much it is early, and no count is fixed.
//! Two bounds hold whatever the costs are: how many archives stand one on the other, and how many
//! bytes a restore reads.

use crate::kind::Kind;
use crate::manifest::{ArchiveInfo, DEPTH_MAX, Manifest};
use crate::path::RelPath;

/// Most archives that stand one on the other in what is saved.
pub const CHAIN_DEPTH_MAX: usize = 16;
/// A restore of a file reads at most this many times what the file takes alone.
pub const READ_TIMES_MAX: u64 = 3;
/// A byte that a restore reads costs one of this many parts of a byte that is stored.
const READ_SHARE: u64 = 16;
/// Files of the parent that are offered to one that is not in it.
const OFFERED_MAX: usize = 32;

/// The numbers of the archives of `parent` that the file at `path` should be coded against.
pub(crate) fn bases(parent: &Manifest, path: &RelPath, depth_max: usize) -> Vec<usize> {
    let (depths, depth_max) = (parent.depths(), depth_max.min(DEPTH_MAX));
    let fits = |&i: &usize| depths[i] < depth_max && may_be_read(&parent.archives[i]);
    if let Some(file) = parent.file(path) {
        let own = file.archive;
        let archive = &parent.archives[own];
        if fits(&own) && !is_rent_due(archive, depths[own]) {
            return vec![own];
        }
        // What changes fast has left its root behind.
        let is_slow = depths[own] == 0 || archive.stored < archive.alone / 2;
        return Some(root(parent, own))
            .filter(|i| *i != own && is_slow && fits(i))
            .into_iter()
            .collect();
    }
    // Renamed, resharded, or new: any of the parent's files of its kind may hold its tensors.
    let kind = Kind::of(path);
    let like = parent.files().filter(|(_, file)| file.kind == kind && file.size > 0);
    let mut offered: Vec<usize> = Vec::new();
    for (_, file) in like {
        let own = file.archive;
        let base = if fits(&own) { Some(own) } else { Some(root(parent, own)).filter(fits) };
        if let Some(base) = base.filter(|base| !offered.contains(base)) {
            offered.push(base);
        }
        if offered.len() == OFFERED_MAX {
            break;
        }
    }
    offered
}

/// Whether a restore of what is coded against it stays within its bound, even if nothing is gained.
fn may_be_read(archive: &ArchiveInfo) -> bool {
    archive.read <= archive.alone.saturating_mul(READ_TIMES_MAX - 1)
}

/// Whether going on with a chain costs more than leaving it: the next delta is taken to be as large
/// as the last one, or half a copy where there is none.
fn is_rent_due(archive: &ArchiveInfo, depth: usize) -> bool {
    let next = if depth == 0 { archive.alone / 2 } else { archive.stored };
    let rent =
        archive.rent.saturating_add(rent_of(archive.read.saturating_add(next), archive.alone));
    rent > archive.alone.saturating_sub(next)
}

/// What reading `read` bytes instead of `alone` costs.
fn rent_of(read: u64, alone: u64) -> u64 {
    read.saturating_sub(alone) / READ_SHARE
}

/// The first archive of a chain.
fn root(manifest: &Manifest, mut number: usize) -> usize {
    while let Some(&base) = manifest.archives[number].bases.first() {
        number = base;
    }
    number
}

/// What is known of an archive of `size` original and `stored` own bytes on `bases`:
/// `alone`, `read` and `rent`.
pub(crate) fn costs(size: u64, stored: u64, bases: &[&ArchiveInfo]) -> (u64, u64, u64) {
    if bases.is_empty() {
        return (stored, stored, 0);
    }
    let sum = |of: fn(&ArchiveInfo) -> u64| -> u128 {
        bases.iter().map(|base| u128::from(of(base))).sum()
    };
    let scaled = |value: u128, by: u128, to: u128| {
        u64::try_from(value.saturating_mul(by) / to.max(1)).unwrap_or(u64::MAX)
    };
    let alone = scaled(sum(|base| base.alone), u128::from(size), sum(|base| base.size)).max(stored);
    // As deep as the deepest of them all, for all of it.
    let deepest = bases
        .iter()
        .map(|base| scaled(u128::from(base.read), u128::from(alone), u128::from(base.alone)));
    let read = deepest.max().unwrap_or(0).saturating_add(stored);
    let rent = bases
        .iter()
        .map(|base| scaled(u128::from(base.rent), u128::from(alone), u128::from(base.alone)));
    (alone, read, rent.max().unwrap_or(0).saturating_add(rent_of(read, alone)))
}
