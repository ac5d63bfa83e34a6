//! Reading archives in place in the store: slices of packs appear as one `.lmc`.

use crate::Store;
use crate::layout::manifest::{ArchiveInfo, Extent, Manifest};
use crate::layout::path::RelPath;
use crate::storage::Storage;
use lmc::{Archive, BaseSet, Context, Library, ReadAt};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Packs, identified by their numbers.
pub(crate) trait Packs: Send + Sync + fmt::Debug {
    /// Fills `out` with the bytes of a pack from `at` on.
    fn read(&self, pack: usize, at: u64, out: &mut [u8]) -> Result<()>;
    /// Whether a read waits for a network.
    fn is_far(&self) -> bool;
}

/// The packs of a manifest, as they are in the store.
#[derive(Debug)]
struct StoredPacks {
    storage: Arc<dyn Storage>,
    manifest: Arc<Manifest>,
}

impl Packs for StoredPacks {
    fn read(&self, pack: usize, at: u64, out: &mut [u8]) -> Result<()> {
        self.storage.read(&self.manifest.packs[pack].name.object(), at, out)
    }

    fn is_far(&self) -> bool {
        !self.storage.has_cheap_stat()
    }
}

/// The bytes of an archive, stored as slices of packs.
#[derive(Debug)]
pub(crate) struct StoredBytes {
    packs: Arc<dyn Packs>,
    slices: Vec<PackSlice>,
    size: u64,
}

/// A slice of a pack that holds the bytes of an archive from `start` on.
#[derive(Debug)]
struct PackSlice {
    start: u64,
    extent: Extent,
}

impl StoredBytes {
    pub(crate) fn new(packs: &Arc<dyn Packs>, archive: &ArchiveInfo) -> Self {
        let mut size = 0;
        let slice = |extent: &Extent| {
            let start = size;
            size += extent.len;
            PackSlice { start, extent: *extent }
        };
        let slices = archive.extents.iter().map(slice).collect();
        Self { packs: packs.clone(), slices, size }
    }
}

impl ReadAt for StoredBytes {
    fn size(&self) -> u64 {
        self.size
    }

    fn is_far(&self) -> bool {
        self.packs.is_far()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let first = self.slices.partition_point(|slice| slice.start <= at).saturating_sub(1);
        let (mut at, mut rest) = (at, out);
        for PackSlice { start, extent } in &self.slices[first.min(self.slices.len())..] {
            if rest.is_empty() {
                break;
            }
            let skip = at - start;
            let len = (extent.len - skip).min(rest.len() as u64);
            let (out, after) = rest.split_at_mut(len as usize);
            self.packs.read(extent.pack, extent.offset + skip, out)?;
            rest = after;
            at += len;
        }
        if rest.is_empty() { Ok(()) } else { Err(Error::truncated("the archive ends early")) }
    }
}

/// The archives of a snapshot, found by the content hashes of their originals.
#[derive(Debug)]
pub(crate) struct SnapshotLibrary {
    packs: Arc<dyn Packs>,
    manifest: Arc<Manifest>,
    /// The number of bases in the longest base chain of each archive.
    depths: Vec<usize>,
    /// Archives by their hashes. If several have the same hash, this is the one that is a base, or
    /// else the first.
    numbers: HashMap<u128, usize>,
    /// All archives whose hash is not unique.
    alike: HashMap<u128, Vec<usize>>,
    /// Which archives are bases.
    is_base: Vec<bool>,
    names: HashMap<usize, String>,
}

impl SnapshotLibrary {
    pub(crate) fn new(store: &Store, manifest: &Arc<Manifest>) -> Arc<Self> {
        let (storage, manifest) = (store.storage.clone(), manifest.clone());
        Self::with_packs(Arc::new(StoredPacks { storage, manifest: manifest.clone() }), &manifest)
    }

    /// The archives of a manifest, with packs that are read from elsewhere.
    pub(crate) fn with_packs(packs: Arc<dyn Packs>, manifest: &Arc<Manifest>) -> Arc<Self> {
        let mut is_base = vec![false; manifest.archives.len()];
        for &base in manifest.archives.iter().flat_map(|archive| &archive.bases) {
            is_base[base] = true;
        }
        let mut numbers: HashMap<u128, usize> = HashMap::with_capacity(manifest.archives.len());
        let mut alike: HashMap<u128, Vec<usize>> = HashMap::new();
        for (i, archive) in manifest.archives.iter().enumerate() {
            let first = *numbers.entry(archive.hash).or_insert(i);
            if first != i {
                alike.entry(archive.hash).or_insert_with(|| vec![first]).push(i);
                if is_base[i] {
                    numbers.insert(archive.hash, i);
                }
            }
        }
        let mut names = HashMap::new();
        for (path, file) in manifest.files() {
            let name = || path.name().to_string_lossy().into_owned();
            names.entry(file.archive).or_insert_with(name);
        }
        let (depths, manifest) = (manifest.depths(), manifest.clone());
        Arc::new(Self { packs, manifest, depths, numbers, alike, is_base, names })
    }

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The number of bases in the longest base chain of each archive.
    pub(crate) fn depths(&self) -> &[usize] {
        &self.depths
    }

    /// The number of the archive that a base with this hash means.
    pub(crate) fn number(&self, hash: u128) -> Option<usize> {
        self.numbers.get(&hash).copied()
    }

    /// The archive with this hash that is a base of others.
    pub(crate) fn base(&self, hash: u128) -> Option<usize> {
        self.number(hash).filter(|&number| self.is_base[number])
    }

    /// All archives with this hash: they may hold different originals.
    pub(crate) fn all_of(&self, hash: u128) -> Vec<usize> {
        match self.alike.get(&hash) {
            Some(all) => all.clone(),
            None => self.number(hash).into_iter().collect(),
        }
    }

    fn name(&self, archive: usize) -> String {
        self.names.get(&archive).cloned().unwrap_or_else(|| "base".to_string())
    }

    pub(crate) fn bytes(&self, archive: usize) -> Arc<dyn ReadAt> {
        Arc::new(StoredBytes::new(&self.packs, &self.manifest.archives[archive]))
    }

    /// The same archives, except that the given one is found first by its hash.
    pub(crate) fn with_first(self: &Arc<Self>, number: usize) -> Arc<dyn Library> {
        Arc::new(WithFirst { library: self.clone(), number })
    }

    /// Opens an archive; its bases are found here too.
    pub(crate) fn open(self: &Arc<Self>, number: usize) -> Result<Archive> {
        let bases = BaseSet::from_library(self.clone(), &[], &Context::with_threads(1))?;
        open(self.bytes(number), &bases, &self.manifest.archives[number])
    }
}

/// Opens an archive as a manifest describes it.
pub(crate) fn open(bytes: Arc<dyn ReadAt>, bases: &BaseSet, info: &ArchiveInfo) -> Result<Archive> {
    let archive = Archive::from_elsewhere(bytes, bases)?;
    if archive.content_hash() != info.hash || archive.original_len() != info.size {
        return Err(Error::corrupt("the archive in the store is not the one that was saved"));
    }
    Ok(archive)
}

impl Library for SnapshotLibrary {
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>> {
        let Some(number) = self.number(hash) else { return Ok(None) };
        Ok(Some((self.name(number), self.bytes(number))))
    }
}

/// The archives of a snapshot, with one preferred over all others with its hash. No archive has a
/// base with its own hash, so its bases are found as usual.
#[derive(Debug)]
struct WithFirst {
    library: Arc<SnapshotLibrary>,
    number: usize,
}

impl Library for WithFirst {
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>> {
        match hash == self.library.manifest.archives[self.number].hash {
            true => Ok(Some((self.library.name(self.number), self.library.bytes(self.number)))),
            false => self.library.find(hash),
        }
    }
}

impl Store {
    /// Opens the archive of one file of a snapshot, to read tensors or other parts of it.
    pub fn archive(&self, manifest: &Arc<Manifest>, path: &RelPath) -> Result<Archive> {
        let file = manifest.file(path).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("the snapshot has no file {path}"))
        })?;
        SnapshotLibrary::new(self, manifest).open(file.archive).map_err(|e| e.at(path))
    }
}
