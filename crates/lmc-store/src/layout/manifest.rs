//! The manifest of a snapshot: everything a restore needs to know, except the packs themselves.
//!
//! It is one line of JSON, and its name contains the hash of its bytes, so any damage is found. Its
//! contents are checked before they are used: a path cannot lead out of the snapshot, an archive
//! depends only on archives before it, and every extent lies in its pack.

use crate::layout::content_kind::ContentKind;
use crate::layout::names::{PackName, SnapshotName};
use crate::layout::path::{PATH_LEN_MAX, RelPath};
use lmc_format::{Advice, Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Largest manifest in bytes.
pub(crate) const MANIFEST_LEN_MAX: u64 = 1 << 28;
/// The version of manifests that this code reads and writes.
pub(crate) const MANIFEST_FORMAT: u32 = 1;
/// The most bases that a base chain may have.
pub(crate) const DEPTH_MAX: usize = 48;
/// The longest pack that a reader accepts, in bytes; packs that are written are shorter.
pub(crate) const PACK_LEN_MAX: u64 = 256 << 20;
/// The most bytes that all files and archives of a snapshot may have together, and the largest byte
/// count that a manifest may state.
pub(crate) const SIZE_MAX: u64 = 1 << 60;
/// The bits of a mode that are kept.
pub(crate) const MODE_BITS: u32 = lmc::MODE_BITS;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the manifest.
    pub format: u32,
    /// The run it belongs to.
    pub run: String,
    /// The step of training.
    pub step: u64,
    /// When it was saved, in milliseconds since 1970.
    pub time_ms: u64,
    /// The id of the save that made it; it is different for every snapshot.
    pub save: String,
    /// A random id that makes a copy differ from the manifest it was copied from, where needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<String>,
    /// The id of the snapshot that it was coded against.
    pub parent: Option<String>,
    /// Metadata from the user.
    pub meta: BTreeMap<String, String>,
    /// Whether optimizer state was saved and later removed.
    pub is_thinned: bool,
    /// Whether a single file was saved; it is then the only entry.
    pub is_file: bool,
    /// The permissions of the saved directory, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_mode: Option<u32>,
    /// Bytes that it added to the store.
    pub added: u64,
    /// Files, directories and links, in the order of their paths.
    pub entries: Vec<ManifestEntry>,
    /// All archives that its files need, each after its bases.
    pub archives: Vec<ArchiveInfo>,
    /// The packs that hold the archives, with their sizes.
    pub packs: Vec<Pack>,
}

/// A name in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// Where it is.
    pub path: RelPath,
    /// What it is.
    #[serde(flatten)]
    pub node: Node,
}

/// What a name in a snapshot stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Node {
    /// A file.
    File(FileNode),
    /// A directory.
    Directory {
        /// Permissions.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it points to; never followed.
        target: Bytes,
    },
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNode {
    /// Permissions.
    pub mode: u32,
    /// Seconds since 1970 of the last change, and nanoseconds.
    pub mtime: (i64, u32),
    /// Bytes.
    pub size: u64,
    /// What it is for.
    pub kind: ContentKind,
    /// The number of its archive.
    pub archive: usize,
}

/// Bytes that may not be text: written as text if they are UTF-8, and as hex otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// A `.lmc` archive in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveInfo {
    /// The content hash of its original.
    #[serde(with = "hash_text")]
    pub hash: u128,
    /// Bytes of its original.
    pub size: u64,
    /// Its own bytes.
    pub stored: u64,
    /// The bytes it would take without a base, as far as known.
    pub alone: u64,
    /// The bytes that a restore of it reads, including its bases, as far as known.
    pub read: u64,
    /// What reading its chain has cost so far; see `base_choice.rs`.
    pub rent: u64,
    /// Its bases, by their numbers.
    pub bases: Vec<usize>,
    /// Where its bytes are, in order.
    pub extents: Vec<Extent>,
    /// The BLAKE3 hash of its original, once the store has compared the original with a file byte
    /// by byte.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "blake3_text")]
    pub blake3: Option<[u8; 32]>,
}

/// Part of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(usize, u64, u64)", into = "(usize, u64, u64)")]
pub struct Extent {
    /// The number of the pack.
    pub pack: usize,
    /// Where it starts in the pack.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A pack and its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// Its name.
    pub name: PackName,
    /// Bytes.
    pub size: u64,
}

impl Manifest {
    /// The bytes of the manifest, and its name on a page of its run.
    pub fn write(&self, page: u64) -> Result<(Vec<u8>, SnapshotName)> {
        let mut bytes = serde_json::to_vec(self)
            .map_err(|e| Error::invalid(format!("cannot write the manifest: {e}")))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MANIFEST_LEN_MAX {
            let message = "the manifest is larger than a store allows: too many files or archives";
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        let name = self.name(page, SnapshotName::id_of(&bytes));
        Ok((bytes, name))
    }

    fn name(&self, page: u64, id: String) -> SnapshotName {
        let (run, step, time_ms) = (self.run.clone(), self.step, self.time_ms);
        SnapshotName { run, page, step, time_ms, size: self.size(), added: self.added, id }
    }

    /// Reads the manifest of the snapshot `name`. All its contents have been checked.
    pub fn read(bytes: &[u8], name: &SnapshotName) -> Result<Self> {
        if SnapshotName::id_of(bytes) != name.id {
            let found = SnapshotName::id_of(bytes);
            let message = format!("the manifest has hash {found}, its name says {}", name.id);
            return Err(Error::corrupt(message));
        }
        let manifest = Self::parse(bytes)?;
        if manifest.name(name.page, name.id.clone()) != *name {
            return Err(Error::corrupt("the manifest belongs to another snapshot"));
        }
        Ok(manifest)
    }

    /// Reads a manifest regardless of its name.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let damaged = |e| Error::corrupt(format!("the manifest cannot be read: {e}"));
        let version: Version = serde_json::from_slice(bytes).map_err(damaged)?;
        if version.format != MANIFEST_FORMAT {
            let found = version.format;
            let message =
                format!("the snapshot has format {found}, this reader knows {MANIFEST_FORMAT}");
            let error = Error::new(ErrorKind::Unsupported, message);
            return Err(error.with_advice(Advice::Upgrade));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(damaged)?;
        manifest.check().map_err(|e| Error::corrupt(format!("the manifest is wrong: {e}")))?;
        Ok(manifest)
    }

    /// Bytes of all files.
    pub fn size(&self) -> u64 {
        total(self.files().map(|(_, file)| file.size))
    }

    /// The files, with their paths.
    pub fn files(&self) -> impl Iterator<Item = (&RelPath, &FileNode)> {
        self.entries.iter().filter_map(|entry| match &entry.node {
            Node::File(file) => Some((&entry.path, file)),
            _ => None,
        })
    }

    /// What is at `path`.
    pub fn node(&self, path: &RelPath) -> Option<&Node> {
        let i = self.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        Some(&self.entries[i].node)
    }

    /// The file at `path`.
    pub fn file(&self, path: &RelPath) -> Option<&FileNode> {
        match self.node(path)? {
            Node::File(file) => Some(file),
            _ => None,
        }
    }

    /// The number of bases in the longest base chain of each archive.
    pub fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.archives.len());
        for archive in &self.archives {
            let below = archive.bases.iter().filter_map(|&base| depths.get(base)).max();
            depths.push(below.map_or(0, |depth| depth + 1));
        }
        depths
    }

    /// The archives that `wanted` need, including themselves, in order.
    pub fn closure(&self, wanted: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<usize> = wanted.into_iter().collect();
        while let Some(i) = open.pop() {
            if needed.insert(i) {
                open.extend(&self.archives[i].bases);
            }
        }
        needed
    }

    /// The number of bases in the longest base chain that a restore reads, and all bytes that it
    /// reads.
    pub fn reading(&self) -> (usize, u64) {
        let depths = self.depths();
        let needed = self.closure(self.files().map(|(_, file)| file.archive));
        let depth = needed.iter().map(|&i| depths[i]).max().unwrap_or(0);
        (depth, total(needed.iter().map(|&i| self.archives[i].stored)))
    }

    /// Which archives need one of some packs, for themselves or for their bases.
    pub(crate) fn archives_in(&self, packs: &[bool]) -> Vec<bool> {
        let mut is_in: Vec<bool> = Vec::with_capacity(self.archives.len());
        for archive in &self.archives {
            // Every archive comes after its bases.
            let below = archive.bases.iter().any(|&base| is_in[base]);
            is_in.push(below || archive.extents.iter().any(|extent| packs[extent.pack]));
        }
        is_in
    }

    pub(crate) fn check(&self) -> Result<()> {
        crate::layout::names::check_label(&self.run)?;
        self.check_entries()?;
        self.check_archives()?;
        let mut names = HashSet::new();
        for pack in &self.packs {
            if !names.insert(&pack.name) {
                return Err(Error::invalid("a pack is named twice"));
            }
            if pack.size > PACK_LEN_MAX {
                return Err(Error::invalid("a pack is larger than a pack can be"));
            }
        }
        // So that no sum of them overflows.
        let sizes = self.archives.iter().map(|archive| [archive.size, archive.stored]);
        let files = self.files().map(|(_, file)| file.size);
        let total = sizes.flatten().chain(files).map(u128::from).sum::<u128>();
        if total > u128::from(SIZE_MAX) {
            return Err(Error::invalid("the files are larger than files can be"));
        }
        let said = self.archives.iter().flat_map(|a| [a.alone, a.read, a.rent]);
        if said.chain([self.added]).any(|bytes| bytes > SIZE_MAX) {
            return Err(Error::invalid("it states sizes that no archive can have"));
        }
        Ok(())
    }

    fn check_entries(&self) -> Result<()> {
        let mut folders: HashSet<RelPath> = HashSet::new();
        let mut last: Option<&RelPath> = None;
        for ManifestEntry { path, node } in &self.entries {
            let wrong = |why: &str| Err(Error::invalid(format!("{path}: {why}")));
            if last.is_some_and(|last| last >= path) {
                return wrong("is listed twice or out of order");
            }
            last = Some(path);
            if path.folder().is_some_and(|folder| !folders.contains(&folder)) {
                return wrong("is in a folder that is not listed");
            }
            match node {
                Node::File(file) => self.check_file(file).map_err(|e| e.at(path))?,
                Node::Directory { mode } if *mode > MODE_BITS => {
                    return wrong("has an invalid mode");
                }
                Node::Directory { .. } => drop(folders.insert(path.clone())),
                Node::Link { target } => {
                    let len = target.0.len();
                    if len == 0 || len > PATH_LEN_MAX || target.0.contains(&0) {
                        return wrong("is a link with an invalid target");
                    }
                }
            }
        }
        if self.root_mode.is_some_and(|mode| mode > MODE_BITS) {
            return Err(Error::invalid("the directory has an invalid mode"));
        }
        if self.is_file && (self.entries.len() != 1 || self.files().count() != 1) {
            return Err(Error::invalid("a single file was saved, but more is listed"));
        }
        Ok(())
    }

    fn check_file(&self, file: &FileNode) -> Result<()> {
        if file.mode > MODE_BITS || file.mtime.1 >= 1_000_000_000 {
            return Err(Error::invalid("has an invalid mode or time"));
        }
        match self.archives.get(file.archive) {
            Some(archive) if archive.size == file.size => Ok(()),
            Some(_) => Err(Error::invalid("does not have the size of its archive")),
            None => Err(Error::invalid("has no archive")),
        }
    }

    fn check_archives(&self) -> Result<()> {
        // An archive names its bases by their hashes, so only one of several archives with the same
        // hash can be a base.
        let mut based: HashMap<u128, usize> = HashMap::new();
        for (i, archive) in self.archives.iter().enumerate() {
            let wrong = |why: &str| Err(Error::invalid(format!("archive {i} {why}")));
            if archive.bases.iter().any(|&base| base >= i) {
                return wrong("has a base that does not come before it");
            }
            let bases: HashSet<&usize> = archive.bases.iter().collect();
            if bases.len() != archive.bases.len() {
                return wrong("names a base twice");
            }
            for &base in &archive.bases {
                let hash = self.archives[base].hash;
                if hash == archive.hash {
                    return wrong("has a base with its own hash");
                }
                if *based.entry(hash).or_insert(base) != base {
                    return wrong("has a base whose hash another base has too");
                }
            }
            let mut len = 0_u128;
            for extent in &archive.extents {
                let end = extent.offset.checked_add(extent.len);
                let size = self.packs.get(extent.pack).map(|pack| pack.size);
                if extent.len == 0 || end.is_none() || size.is_none() || end > size {
                    return wrong("has an extent outside of its pack");
                }
                len += u128::from(extent.len);
            }
            if len != u128::from(archive.stored) {
                return wrong("has extents that do not add up to its length");
            }
        }
        match self.depths().into_iter().max() {
            Some(depth) if depth > DEPTH_MAX => Err(Error::invalid("a base chain is too long")),
            _ => Ok(()),
        }
    }
}

/// The sum of some byte counts. Others may have made up these numbers, so the sum may be more than
/// a `u64` holds.
pub(crate) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

impl From<(usize, u64, u64)> for Extent {
    fn from((pack, offset, len): (usize, u64, u64)) -> Self {
        Self { pack, offset, len }
    }
}

impl From<Extent> for (usize, u64, u64) {
    fn from(extent: Extent) -> Self {
        (extent.pack, extent.offset, extent.len)
    }
}

impl Serialize for Pack {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.name.as_str(), self.size).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (name, size) = <(String, u64)>::deserialize(deserializer)?;
        let name = PackName::parse(&name);
        let name = name.ok_or_else(|| serde::de::Error::custom("not the name of a pack"))?;
        Ok(Self { name, size })
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                BTreeMap::from([("hex", crate::layout::names::hex(&self.0))]).serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Plain(String),
            Hex { hex: String },
        }
        match Text::deserialize(deserializer)? {
            Text::Plain(text) => Ok(Self(text.into_bytes())),
            Text::Hex { hex } => {
                let bytes = crate::layout::names::unhex(&hex);
                Ok(Self(bytes.ok_or_else(|| serde::de::Error::custom("not hex"))?))
            }
        }
    }
}

mod hash_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{hash:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_hash = text.len() == 32 && crate::layout::names::is_hex(&text);
        let hash = u128::from_str_radix(&text, 16).ok().filter(|_| is_hash);
        hash.ok_or_else(|| serde::de::Error::custom("not a content hash"))
    }
}

mod blake3_text {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        hash: &Option<[u8; 32]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match hash {
            Some(hash) => serializer.serialize_some(&crate::layout::names::hex(hash)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<[u8; 32]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = crate::layout::names::unhex(&text).and_then(|bytes| bytes.try_into().ok());
        hash.map(Some).ok_or_else(|| serde::de::Error::custom("not a BLAKE3 hash"))
    }
}
