//! Archives in the store, read where they are: parts of packs as one `.lmc`.

use crate::Store;
use crate::manifest::{ArchiveInfo, Manifest};
use crate::path::RelPath;
use crate::storage::Storage;
use lmc::{Archive, Bases, Library, ReadAt};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The bytes of an archive, which are parts of packs.
#[derive(Debug)]
struct StoredBytes {
    storage: Arc<dyn Storage>,
    parts: Vec<Part>,
    size: u64,
}

#[derive(Debug)]
struct Part {
    /// Where it starts in the archive.
    start: u64,
    object: String,
    offset: u64,
    len: u64,
}

impl StoredBytes {
    fn new(storage: &Arc<dyn Storage>, manifest: &Manifest, archive: &ArchiveInfo) -> Self {
        let mut size = 0;
        let part = |extent: &crate::manifest::Extent| {
            let object = manifest.packs[extent.pack].name.object();
            let part = Part { start: size, object, offset: extent.offset, len: extent.len };
            size += extent.len;
            part
        };
        let parts = archive.extents.iter().map(part).collect();
        Self { storage: storage.clone(), parts, size }
    }
}

impl ReadAt for StoredBytes {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let first = self.parts.partition_point(|part| part.start <= at).saturating_sub(1);
        let (mut at, mut rest) = (at, out);
        for part in &self.parts[first.min(self.parts.len())..] {
            if rest.is_empty() {
                break;
            }
            let skip = at - part.start;
            let len = (part.len - skip).min(rest.len() as u64);
            let (out, after) = rest.split_at_mut(len as usize);
            self.storage.read(&part.object, part.offset + skip, out)?;
            rest = after;
            at += len;
        }
        if rest.is_empty() { Ok(()) } else { Err(Error::truncated("the archive ends early")) }
    }
}

/// The archives of a snapshot, found by the content of their originals.
#[derive(Debug)]
pub(crate) struct SnapshotLibrary {
    storage: Arc<dyn Storage>,
    manifest: Arc<Manifest>,
    numbers: HashMap<u128, usize>,
    names: HashMap<usize, String>,
}

impl SnapshotLibrary {
    pub(crate) fn new(store: &Store, manifest: &Arc<Manifest>) -> Arc<Self> {
        let numbered = manifest.archives.iter().enumerate();
        let numbers = numbered.map(|(i, archive)| (archive.hash, i)).collect();
        let mut names = HashMap::new();
        for (path, file) in manifest.files() {
            let name = path.name().to_string_lossy().into_owned();
            names.entry(file.archive).or_insert(name);
        }
        let (storage, manifest) = (store.storage.clone(), manifest.clone());
        Arc::new(Self { storage, manifest, numbers, names })
    }

    pub(crate) fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// Whether all that an archive needs is there with the right size, as far as a look can tell;
    /// where that is not cheap, it is believed.
    pub(crate) fn is_there(&self, archive: usize) -> Result<bool> {
        if !self.storage.has_cheap_stat() {
            return Ok(true);
        }
        let archives = self.manifest.closure([archive]);
        let extents = archives.iter().flat_map(|&i| &self.manifest.archives[i].extents);
        let packs: BTreeSet<usize> = extents.map(|extent| extent.pack).collect();
        for pack in packs.into_iter().map(|i| &self.manifest.packs[i]) {
            let found = self.storage.stat(&pack.name.object())?;
            if found.is_none_or(|stat| stat.size != pack.size) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of the archive with this content.
    pub(crate) fn number(&self, hash: u128) -> Option<usize> {
        self.numbers.get(&hash).copied()
    }

    pub(crate) fn bytes(&self, archive: usize) -> Arc<dyn ReadAt> {
        let info = &self.manifest.archives[archive];
        Arc::new(StoredBytes::new(&self.storage, &self.manifest, info))
    }

    /// Opens an archive; what it is on is found here too.
    pub(crate) fn open(self: &Arc<Self>, number: usize) -> Result<Archive> {
        let bases = Bases::from_library(self.clone(), &[], 1)?;
        let archive = Archive::from_elsewhere(self.bytes(number), &bases)?;
        let info = &self.manifest.archives[number];
        if archive.content_hash() != info.hash || archive.original_len() != info.size {
            return Err(Error::corrupt("the archive in the store is not the one that was saved"));
        }
        Ok(archive)
    }
}

impl Library for SnapshotLibrary {
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>> {
        let Some(number) = self.number(hash) else { return Ok(None) };
        let name = self.names.get(&number).cloned().unwrap_or_else(|| "base".to_string());
        Ok(Some((name, self.bytes(number))))
    }
}

impl Store {
    /// Opens the archive of one file of a snapshot, to read tensors or other parts of it.
    pub fn archive(&self, manifest: &Arc<Manifest>, path: &RelPath) -> Result<Archive> {
        let file = manifest.file(path).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("no file {path} is in the snapshot"))
        })?;
        SnapshotLibrary::new(self, manifest).open(file.archive).map_err(|e| e.at(path))
    }
}
