//! Chooses what a file is coded against: the parent's archive of it, the root of that archive's
//! base chain, or nothing.
//!
//! A delta is small, but every restore of it reads its whole base chain. Reading a byte costs a
//! fraction of storing one ([`READ_SHARE`]). Each archive carries its rent: what the reads of its
//! chain have cost so far. A chain ends when the rent has reached the cost of a whole copy. That is
//! late for files that change little and early for files that change much; no count is fixed. Two
//! limits always hold, whatever the costs are: the depth of a base chain, and the bytes that a
//! restore reads.

use crate::layout::content_kind::ContentKind;
use crate::layout::manifest::{ArchiveInfo, DEPTH_MAX, Manifest, SIZE_MAX};
use crate::layout::path::RelPath;
use crate::read::library::SnapshotLibrary;
use std::collections::BTreeMap;

/// The default limit on the depth of base chains that a save makes.
pub const CHAIN_DEPTH_MAX: usize = 16;
/// A restore of a file reads at most this many times the bytes that the file takes without a base.
pub const READ_TIMES_MAX: u64 = 3;
/// Reading a byte costs this many times less than storing one.
const READ_SHARE: u64 = 16;
/// How many archives of the parent are offered to a file that is not in it.
const OFFERED_MAX: usize = 32;

/// What a file should be coded against, by the numbers of archives of the parent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BaseChoice {
    pub bases: Vec<usize>,
    /// Archives that would be better bases but are likely to cost too much. The file is coded
    /// against them to find out. They become the bases if that pays after all, as when layers have
    /// been frozen since.
    pub doubted: Vec<usize>,
}

/// A file that will be coded.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub path: &'a RelPath,
    /// Whether the parent has it only from an earlier snapshot.
    pub is_adopted: bool,
    /// Files of the parent that hold its earlier content, if known.
    pub like: &'a [RelPath],
}

/// Archives of the parent that are offered to files that are not in it, by kind of file. They are
/// looked up once and not again for each file.
#[derive(Debug, Default)]
pub(crate) struct Offered(BTreeMap<ContentKind, Vec<usize>>);

impl Offered {
    pub(crate) fn of(parent: &Manifest) -> Self {
        let mut offered = Self::default();
        for (_, file) in parent.files().filter(|(_, file)| file.size > 0) {
            offer(offered.0.entry(file.kind).or_default(), file.archive);
        }
        offered
    }

    fn get(&self, kind: ContentKind) -> &[usize] {
        self.0.get(&kind).map_or(&[], |archives| archives)
    }
}

/// Adds an archive to those that are offered, unless there are enough already.
fn offer(offered: &mut Vec<usize>, archive: usize) {
    if offered.len() < OFFERED_MAX && !offered.contains(&archive) {
        offered.push(archive);
    }
}

/// Chooses what a file should be coded against.
pub(crate) fn choose(
    library: &SnapshotLibrary,
    offered: &Offered,
    wanted: &Wanted,
    depth_max: usize,
) -> BaseChoice {
    let (parent, depths) = (library.manifest(), library.depths());
    let depth_max = depth_max.min(DEPTH_MAX);
    let is_deep = |i: usize| depths[i] >= depth_max;
    let fits = |&i: &usize| !is_deep(i) && may_be_read(&parent.archives[i]);
    let same = match wanted.like {
        [] => Some(wanted.path).filter(|_| !wanted.is_adopted),
        [one] => Some(one),
        _ => None,
    };
    if let Some(file) = same.and_then(|path| parent.file(path)) {
        let own = file.archive;
        let archive = &parent.archives[own];
        let next = likely_next(archive, depths[own]);
        if fits(&own) && is_worth_its_rent(archive.size, next, &[archive]) {
            return BaseChoice { bases: vec![own], doubted: Vec::new() };
        }
        let doubted = Some(own).filter(|&own| !is_deep(own)).into_iter().collect();
        // A file that changes fast is no longer similar to its root.
        let is_slow = depths[own] == 0 || archive.stored < archive.alone / 2;
        let root = Some(root(parent, own)).filter(|i| *i != own && is_slow && fits(i));
        return BaseChoice { bases: root.into_iter().collect(), doubted };
    }
    // Renamed, resharded, new, or not in every snapshot: any of the parent's files of its kind may
    // hold its tensors.
    let mut own: Vec<usize> = Vec::new();
    if wanted.like.is_empty() {
        own.extend(offered.get(ContentKind::of(wanted.path)));
    }
    for file in wanted.like.iter().filter_map(|path| parent.file(path)) {
        if file.size > 0 {
            offer(&mut own, file.archive);
        }
    }
    let instead = |&i: &usize| [i, root(parent, i)].into_iter().find(fits);
    let mut bases: Vec<usize> = own.iter().filter_map(instead).collect();
    bases.sort_unstable();
    bases.dedup();
    own.retain(|&i| !is_deep(i));
    let doubted = if own.iter().all(fits) { Vec::new() } else { own };
    BaseChoice { bases, doubted }
}

/// Whether a restore of a delta against this archive stays within its limit, even if the delta
/// saves nothing.
pub(crate) fn may_be_read(archive: &ArchiveInfo) -> bool {
    archive.read <= archive.alone.saturating_mul(READ_TIMES_MAX - 1)
}

/// The likely size of the next delta in a chain: that of the last one, or half a copy if there is
/// none.
fn likely_next(archive: &ArchiveInfo, depth: usize) -> u64 {
    if depth == 0 { archive.alone / 2 } else { archive.stored }
}

/// Whether an archive of `stored` bytes against `bases` costs less than a whole copy, and a restore
/// of it stays within its limit.
pub(crate) fn is_worth_its_rent(size: u64, stored: u64, bases: &[&ArchiveInfo]) -> bool {
    let (alone, read, rent) = costs(size, stored, bases);
    rent <= alone.saturating_sub(stored) && read <= alone.saturating_mul(READ_TIMES_MAX)
}

/// The cost of reading `read` bytes instead of `alone`.
fn rent_of(read: u64, alone: u64) -> u64 {
    read.saturating_sub(alone) / READ_SHARE
}

/// The first archive of a base chain.
fn root(manifest: &Manifest, mut number: usize) -> usize {
    while let Some(&base) = manifest.archives[number].bases.first() {
        number = base;
    }
    number
}

/// The costs of an archive of `stored` bytes against `bases`, whose original has `size` bytes:
/// `alone`, `read` and `rent`, each limited to what a manifest may state.
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
    // All of the archive is counted as if it were coded against the deepest of its bases.
    let deepest = bases
        .iter()
        .map(|base| scaled(u128::from(base.read), u128::from(alone), u128::from(base.alone)));
    let read = deepest.max().unwrap_or(0).saturating_add(stored);
    let rent = bases
        .iter()
        .map(|base| scaled(u128::from(base.rent), u128::from(alone), u128::from(base.alone)));
    let rent = rent.max().unwrap_or(0).saturating_add(rent_of(read, alone));
    (alone.min(SIZE_MAX), read.min(SIZE_MAX), rent.min(SIZE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::manifest::{FileNode, MANIFEST_FORMAT, ManifestEntry, Node};
    use crate::read::library::Packs;
    use lmc_format::{Error, Result};
    use std::sync::Arc;

    #[derive(Debug)]
    struct NoPacks;

    impl Packs for NoPacks {
        fn read(&self, _: usize, _: u64, _: &mut [u8]) -> Result<()> {
            Err(Error::invalid("there are none"))
        }

        fn is_far(&self) -> bool {
            false
        }
    }

    fn path(folder: &str, i: usize) -> RelPath {
        RelPath::new(format!("{folder}/{i:08}.bin").as_bytes()).unwrap()
    }

    /// Plans as many files as a snapshot can hold one by one, known ones and new ones. If each
    /// looked through the whole parent, this would take a hundred billion steps.
    #[test]
    fn a_plan_does_not_look_through_the_whole_parent() {
        let count = 400_000;
        let archive = |i: usize| ArchiveInfo {
            hash: i as u128,
            size: 100,
            stored: 50,
            alone: 50,
            read: 50,
            rent: 0,
            bases: Vec::new(),
            extents: Vec::new(),
            blake3: None,
        };
        let entry = |i: usize| {
            let (mode, mtime, size) = (0o644, (0, 0), 100);
            let node = FileNode { mode, mtime, size, kind: ContentKind::Weights, archive: i };
            ManifestEntry { path: path("a", i), node: Node::File(node) }
        };
        let manifest = Manifest {
            format: MANIFEST_FORMAT,
            run: String::new(),
            step: 0,
            time_ms: 0,
            save: String::new(),
            copy: None,
            parent: None,
            meta: Default::default(),
            is_thinned: false,
            root_mode: None,
            is_file: false,
            added: 0,
            entries: (0..count).map(entry).collect(),
            archives: (0..count).map(archive).collect(),
            packs: Vec::new(),
        };
        let library = SnapshotLibrary::with_packs(Arc::new(NoPacks), &Arc::new(manifest));
        let offered = Offered::of(library.manifest());
        for i in 0..count {
            let chosen = |path: &RelPath| {
                let wanted = Wanted { path, is_adopted: false, like: &[] };
                choose(&library, &offered, &wanted, CHAIN_DEPTH_MAX)
            };
            assert_eq!(chosen(&path("a", i)).bases, [i]);
            assert_eq!(chosen(&path("new", i)).bases.len(), OFFERED_MAX);
        }
    }
}
