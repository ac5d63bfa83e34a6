//! Collects the archives of a snapshot: those of the parent that are still needed, and the new
//! ones.

use crate::layout::identity::{Identity, identities};
use crate::layout::manifest::{ArchiveInfo, DEPTH_MAX, Extent, FileNode, Manifest, Node, Pack};
use crate::layout::names::PackName;
use crate::read::library::{Packs, SnapshotLibrary, StoredBytes, open};
use crate::save::base_choice;
use crate::save::files::LARGE_LEN;
use crate::save::packs::PackWriter;
use lmc::{Archive, BaseSet, Compressed, Context, Library, ReadAt};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The archives of a parent, with the same numbers as there, and new ones after them. The packs of
/// new archives are numbered from 0.
#[derive(Debug)]
pub(crate) struct Builder {
    parent: Option<Arc<SnapshotLibrary>>,
    added: Vec<ArchiveInfo>,
    /// The number of bases in the longest base chain of each new archive.
    depths: Vec<usize>,
    /// New archives by their hashes.
    numbers: HashMap<u128, Vec<usize>>,
    /// The bases of new archives, by their hashes. An archive names its bases by their hashes, so
    /// only one of several archives with the same hash can be a base.
    based: HashMap<u128, usize>,
    /// BLAKE3 hashes of originals that were compared with files.
    contents: HashMap<usize, [u8; 32]>,
    /// Archives with large originals, by their sizes.
    large: HashMap<u64, Vec<usize>>,
}

impl Builder {
    pub(crate) fn new(parent: Option<Arc<SnapshotLibrary>>) -> Self {
        let (numbers, based, contents, large) = Default::default();
        let (added, depths) = (Vec::new(), Vec::new());
        let mut builder = Self { parent, added, depths, numbers, based, contents, large };
        for number in 0..builder.parents().len() {
            builder.note_large(number);
        }
        builder
    }

    fn note_large(&mut self, number: usize) {
        let size = self.get(number).size;
        if size >= LARGE_LEN {
            self.large.entry(size).or_default().push(number);
        }
    }

    /// The archives of this size, if that is large.
    pub(crate) fn large_of(&self, size: u64) -> &[usize] {
        self.large.get(&size).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn parent(&self) -> Option<&Arc<SnapshotLibrary>> {
        self.parent.as_ref()
    }

    fn parents(&self) -> &[ArchiveInfo] {
        self.parent.as_ref().map_or(&[], |parent| &parent.manifest().archives)
    }

    /// The sizes of the originals of the parent's archives.
    pub(crate) fn parent_sizes(&self) -> impl Iterator<Item = u64> {
        self.parents().iter().map(|archive| archive.size)
    }

    pub(crate) fn get(&self, number: usize) -> &ArchiveInfo {
        let parents = self.parents();
        parents.get(number).unwrap_or_else(|| &self.added[number - parents.len()])
    }

    /// The numbers of archives that may hold a file, by its content hash and size.
    pub(crate) fn candidates(&self, hash: u128, size: u64) -> Vec<usize> {
        let in_parent = self.parent.iter().flat_map(|parent| parent.all_of(hash));
        let own = self.numbers.get(&hash).into_iter().flatten().copied();
        in_parent.chain(own).filter(|&number| self.get(number).size == size).collect()
    }

    /// The BLAKE3 hash of the original of an archive, if the store has ever compared it with a
    /// file.
    pub(crate) fn content(&self, number: usize) -> Option<[u8; 32]> {
        self.contents.get(&number).copied().or(self.get(number).blake3)
    }

    /// Remembers the hash of the original of an archive.
    pub(crate) fn learn(&mut self, number: usize, content: [u8; 32]) {
        self.contents.insert(number, content);
    }

    /// Opens an archive; new ones are in `packs`.
    pub(crate) fn open(&self, number: usize, packs: &Arc<dyn Packs>) -> Result<Archive> {
        if let Some(parent) = self.parent.as_ref().filter(|_| number < self.parents().len()) {
            return parent.open(number);
        }
        let below = self.closure([number]).into_iter().filter(|&base| base != number);
        let found = below.map(|base| (self.get(base).hash, self.bytes(base, packs))).collect();
        let bases = BaseSet::from_library(Arc::new(Below(found)), &[], &Context::with_threads(1))?;
        open(self.bytes(number, packs), &bases, self.get(number))
    }

    fn bytes(&self, number: usize, packs: &Arc<dyn Packs>) -> Arc<dyn ReadAt> {
        match &self.parent {
            Some(parent) if number < self.parents().len() => parent.bytes(number),
            _ => Arc::new(StoredBytes::new(packs, self.get(number))),
        }
    }

    /// Whether another file of the same save may be coded against an archive.
    pub(crate) fn may_carry(&self, number: usize, depth_max: usize) -> bool {
        self.depth(number) < depth_max.min(DEPTH_MAX)
            && base_choice::may_be_read(self.get(number))
            && self.may_be_base(number)
    }

    /// Whether no other archive of the same hash is a base.
    pub(crate) fn may_be_base(&self, number: usize) -> bool {
        let hash = self.get(number).hash;
        let in_parent = || self.parent.as_ref().and_then(|parent| parent.base(hash));
        let base = self.based.get(&hash).copied().or_else(in_parent);
        base.is_none_or(|base| base == number)
    }

    /// The number of bases in the longest base chain of an archive.
    fn depth(&self, number: usize) -> usize {
        match &self.parent {
            Some(parent) if number < self.parents().len() => parent.depths()[number],
            _ => self.depths[number - self.parents().len()],
        }
    }

    /// Adds the archive that `code` writes, against some of the archives `offered`; returns its
    /// number.
    pub(crate) fn add<'w>(
        &mut self,
        writer: &mut PackWriter<'w>,
        offered: &[usize],
        code: impl FnOnce(&mut PackWriter<'w>) -> Result<Compressed>,
    ) -> Result<usize> {
        let start = writer.position();
        let coded = code(writer)?;
        let bases = self.bases_of(&coded, offered)?;
        let (size, stored) = (coded.summary.bytes_in, coded.summary.bytes_out);
        let below: Vec<&ArchiveInfo> = bases.iter().map(|&base| self.get(base)).collect();
        if below.iter().any(|base| base.hash == coded.content_hash) {
            // Identical content becomes a reference, so the file was different when it was looked
            // at before.
            let message = "changed while it was saved; save again when nobody writes to it";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let (alone, read, rent) = base_choice::costs(size, stored, &below);
        let (hash, extents) = (coded.content_hash, writer.extents_from(start));
        let info =
            ArchiveInfo { hash, size, stored, alone, read, rent, bases, extents, blake3: None };
        Ok(self.push(info))
    }

    /// Whether a coded delta is better than a whole copy.
    pub(crate) fn is_worth_its_rent(&self, coded: &Compressed, offered: &[usize]) -> Result<bool> {
        let bases = self.bases_of(coded, offered)?;
        let below: Vec<&ArchiveInfo> = bases.iter().map(|&base| self.get(base)).collect();
        let (size, stored) = (coded.summary.bytes_in, coded.summary.bytes_out);
        Ok(!below.is_empty() && base_choice::is_worth_its_rent(size, stored, &below))
    }

    /// The bases by their numbers: only archives that were offered, never others with the same
    /// hash.
    fn bases_of(&self, coded: &Compressed, offered: &[usize]) -> Result<Vec<usize>> {
        let number = |base: &lmc_format::BaseId| {
            let is_it = |number: &&usize| {
                let archive = self.get(**number);
                archive.hash == base.hash && archive.size == base.len
            };
            let number = offered.iter().find(is_it).copied();
            number.ok_or_else(|| {
                if offered.iter().any(|&number| self.get(number).hash == base.hash) {
                    // For an archive that this save stored itself, hash and size are both right.
                    let message = "an earlier snapshot states a wrong size for it";
                    return Error::corrupt(message);
                }
                // A file beside it has changed since it was stored.
                let message = "was coded against a file that changed while it was saved; save \
                               again when nobody writes to it";
                Error::new(ErrorKind::Conflict, message)
            })
        };
        coded.bases.iter().map(number).collect()
    }

    fn push(&mut self, archive: ArchiveInfo) -> usize {
        let number = self.parents().len() + self.added.len();
        let below = archive.bases.iter().map(|&base| self.depth(base) + 1);
        self.depths.push(below.max().unwrap_or(0));
        for &base in &archive.bases {
            self.based.insert(self.get(base).hash, base);
        }
        self.numbers.entry(archive.hash).or_default().push(number);
        self.added.push(archive);
        self.note_large(number);
        number
    }

    /// Completes a manifest whose files have numbers of this builder; `packs` are those of the new
    /// archives.
    pub(crate) fn finish(&self, mut manifest: Manifest, packs: Vec<Pack>) -> Result<Manifest> {
        let mut archives = Renumbered::default();
        for number in self.closure(manifest.files().map(|(_, file)| file.archive)) {
            let mut archive = self.get(number).clone();
            archive.blake3 = self.content(number);
            let is_own = number >= self.parents().len();
            let place = |extent: &Extent| {
                let theirs = self.parent.as_ref().map(|parent| &parent.manifest().packs);
                let list = if is_own { Some(&packs) } else { theirs };
                let pack = list.and_then(|list| list.get(extent.pack));
                pack.map(|pack| (pack, *extent)).ok_or_else(|| Error::corrupt("a pack is missing"))
            };
            let places = archive.extents.iter().map(place).collect::<Result<Vec<_>>>()?;
            archives.add(number, &archive, &places);
        }
        for entry in &mut manifest.entries {
            if let Node::File(FileNode { archive, .. }) = &mut entry.node {
                *archive = archives.numbers[archive];
            }
        }
        (manifest.archives, manifest.packs) = (archives.archives, archives.packs);
        Ok(manifest)
    }

    /// The archives that some need, including themselves, each after its bases.
    fn closure(&self, wanted: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<usize> = wanted.into_iter().collect();
        while let Some(number) = open.pop() {
            if needed.insert(number) {
                open.extend(&self.get(number).bases);
            }
        }
        needed
    }
}

/// The bases of a new archive, by the hashes that it names.
#[derive(Debug)]
struct Below(HashMap<u128, Arc<dyn ReadAt>>);

impl Library for Below {
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>> {
        Ok(self.0.get(&hash).map(|bytes| ("base".to_string(), bytes.clone())))
    }
}

/// Archives and packs with new numbers.
#[derive(Default)]
pub(crate) struct Renumbered {
    archives: Vec<ArchiveInfo>,
    numbers: HashMap<usize, usize>,
    packs: Vec<Pack>,
    pack_numbers: HashMap<PackName, usize>,
    /// Archives by everything that is known about them.
    known: HashMap<Identity, usize>,
    /// Archives that are bases, by their hashes.
    based: HashMap<u128, usize>,
}

/// A manifest whose archives are added to others.
pub(crate) struct Donor<'a> {
    manifest: &'a Manifest,
    identities: Vec<Identity>,
}

impl<'a> Donor<'a> {
    pub(crate) fn new(manifest: &'a Manifest) -> Self {
        Self { manifest, identities: identities(manifest, PackName::hash) }
    }
}

impl Renumbered {
    /// The archives of a manifest, with the same numbers as there.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let (archives, packs) = (manifest.archives.clone(), manifest.packs.clone());
        let name = |(i, pack): (usize, &Pack)| (pack.name.clone(), i);
        let pack_numbers = packs.iter().enumerate().map(name).collect();
        let known = identities(manifest, PackName::hash).into_iter().zip(0..).collect();
        let bases = archives.iter().flat_map(|archive| &archive.bases);
        let based = bases.map(|&base| (archives[base].hash, base)).collect();
        Self { archives, packs, pack_numbers, numbers: HashMap::new(), known, based }
    }

    /// Adds an archive of another manifest with all its bases, unless it already exists; returns
    /// its number. None if another archive with the hash of one of its bases is already a base
    /// here.
    pub(crate) fn adopt(&mut self, donor: &Donor, number: usize) -> Option<usize> {
        let (identity, archive) = (donor.identities[number], &donor.manifest.archives[number]);
        if let Some(&known) = self.known.get(&identity) {
            let content = &mut self.archives[known].blake3;
            *content = content.or(archive.blake3);
            return Some(known);
        }
        let mut bases = Vec::with_capacity(archive.bases.len());
        for &base in &archive.bases {
            let base = self.adopt(donor, base)?;
            if *self.based.entry(self.archives[base].hash).or_insert(base) != base {
                return None;
            }
            bases.push(base);
        }
        let place = |extent: &Extent| (&donor.manifest.packs[extent.pack], *extent);
        let places: Vec<(&Pack, Extent)> = archive.extents.iter().map(place).collect();
        let number = self.place(ArchiveInfo { bases, ..archive.clone() }, &places);
        self.known.insert(identity, number);
        Some(number)
    }

    pub(crate) fn into_parts(self) -> (Vec<ArchiveInfo>, Vec<Pack>) {
        (self.archives, self.packs)
    }

    fn add(&mut self, number: usize, archive: &ArchiveInfo, places: &[(&Pack, Extent)]) {
        let mut archive = archive.clone();
        archive.bases.iter_mut().for_each(|base| *base = self.numbers[base]);
        let place = self.place(archive, places);
        self.numbers.insert(number, place);
    }

    fn place(&mut self, mut archive: ArchiveInfo, places: &[(&Pack, Extent)]) -> usize {
        archive.extents = places
            .iter()
            .map(|(pack, extent)| Extent { pack: self.pack(pack), ..*extent })
            .collect();
        self.archives.push(archive);
        self.archives.len() - 1
    }

    fn pack(&mut self, pack: &Pack) -> usize {
        let packs = &mut self.packs;
        *self.pack_numbers.entry(pack.name.clone()).or_insert_with(|| {
            packs.push(pack.clone());
            packs.len() - 1
        })
    }
}
