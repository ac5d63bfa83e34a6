//! The archives of a snapshot as they come together: those of the parent that are still needed and
//! the new ones.

use crate::archives::SnapshotLibrary;
use crate::manifest::{ArchiveInfo, DEPTH_MAX, Extent, FileNode, Manifest, Node, Pack};
use crate::packs::PackWriter;
use crate::plan;
use lmc::Compressed;
use lmc_format::{Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Archives of a parent, numbered as there, and behind them new ones, whose packs are numbered from
/// 0 on.
#[derive(Debug)]
pub(crate) struct Builder {
    parent: Option<Arc<SnapshotLibrary>>,
    added: Vec<ArchiveInfo>,
    numbers: HashMap<u128, usize>,
}

impl Builder {
    pub(crate) fn new(parent: Option<Arc<SnapshotLibrary>>) -> Self {
        Self { parent, added: Vec::new(), numbers: HashMap::new() }
    }

    pub(crate) fn parent(&self) -> Option<&Arc<SnapshotLibrary>> {
        self.parent.as_ref()
    }

    fn parents(&self) -> &[ArchiveInfo] {
        self.parent.as_ref().map_or(&[], |parent| &parent.manifest().archives)
    }

    /// Sizes of what the parent has archives of.
    pub(crate) fn parent_sizes(&self) -> impl Iterator<Item = u64> {
        self.parents().iter().map(|archive| archive.size)
    }

    fn get(&self, number: usize) -> &ArchiveInfo {
        let parents = self.parents();
        parents.get(number).unwrap_or_else(|| &self.added[number - parents.len()])
    }

    /// The number of the archive of these bytes, if there is one.
    pub(crate) fn known(&self, hash: u128, size: u64) -> Option<usize> {
        let in_parent = self.parent.as_ref().and_then(|parent| parent.number(hash));
        let number = in_parent.or_else(|| self.numbers.get(&hash).copied())?;
        (self.get(number).size == size).then_some(number)
    }

    /// Whether what a known archive needs is there: a reference to what is lost would be lost too.
    pub(crate) fn is_there(&self, number: usize) -> Result<bool> {
        match &self.parent {
            Some(parent) if number < self.parents().len() => parent.is_there(number),
            _ => Ok(true),
        }
    }

    /// Whether another file of the same save may be coded against an archive.
    pub(crate) fn may_carry(&self, number: usize, depth_max: usize) -> bool {
        self.depth(number) < depth_max.min(DEPTH_MAX) && plan::may_be_read(self.get(number))
    }

    /// How many archives one stands on; each is on those before it.
    fn depth(&self, number: usize) -> usize {
        let mut depths: Vec<usize> = Vec::with_capacity(number + 1);
        for i in 0..=number {
            let below = self.get(i).bases.iter().map(|&base| depths[base] + 1);
            depths.push(below.max().unwrap_or(0));
        }
        depths[number]
    }

    /// Adds the archive that `code` writes; returns its number.
    pub(crate) fn add<'w>(
        &mut self,
        writer: &mut PackWriter<'w>,
        code: impl FnOnce(&mut PackWriter<'w>) -> Result<Compressed>,
    ) -> Result<usize> {
        let start = writer.position();
        let coded = code(writer)?;
        // Only now is it known for files that were not hashed before; what was written is wasted.
        if let Some(number) = self.known(coded.content_hash, coded.summary.bytes_in)
            && self.is_there(number)?
        {
            return Ok(number);
        }
        self.take(writer, start, coded)
    }

    /// The same where the parent has an archive of the same original, which this one replaces.
    pub(crate) fn add_again<'w>(
        &mut self,
        writer: &mut PackWriter<'w>,
        code: impl FnOnce(&mut PackWriter<'w>) -> Result<Compressed>,
    ) -> Result<usize> {
        let start = writer.position();
        let coded = code(writer)?;
        self.take(writer, start, coded)
    }

    fn take(&mut self, writer: &PackWriter, start: u64, coded: Compressed) -> Result<usize> {
        let bases = self.bases_of(&coded)?;
        let (size, stored) = (coded.summary.bytes_in, coded.summary.bytes_out);
        let below: Vec<&ArchiveInfo> = bases.iter().map(|&base| self.get(base)).collect();
        let (alone, read, rent) = plan::costs(size, stored, &below);
        let (hash, extents) = (coded.content_hash, writer.extents_from(start));
        Ok(self.push(ArchiveInfo { hash, size, stored, alone, read, rent, bases, extents }))
    }

    /// Whether what was coded on bases is better than a whole copy.
    pub(crate) fn pays(&self, coded: &Compressed) -> Result<bool> {
        let bases = self.bases_of(coded)?;
        let below: Vec<&ArchiveInfo> = bases.iter().map(|&base| self.get(base)).collect();
        let (size, stored) = (coded.summary.bytes_in, coded.summary.bytes_out);
        Ok(!below.is_empty() && plan::pays(size, stored, &below))
    }

    fn bases_of(&self, coded: &Compressed) -> Result<Vec<usize>> {
        let number = |base: &lmc_format::Base| {
            let number = self.known(base.hash, base.len);
            number.ok_or_else(|| Error::corrupt("it was coded against what was not offered"))
        };
        coded.bases.iter().map(number).collect()
    }

    fn push(&mut self, archive: ArchiveInfo) -> usize {
        let number = self.parents().len() + self.added.len();
        self.numbers.insert(archive.hash, number);
        self.added.push(archive);
        number
    }

    /// Completes a manifest whose files have numbers of this builder; `packs` are those of the new
    /// archives.
    pub(crate) fn finish(&self, mut manifest: Manifest, packs: Vec<Pack>) -> Result<Manifest> {
        let mut archives = Renumbered::default();
        for number in self.needed(&manifest) {
            let archive = self.get(number);
            let is_own = number >= self.parents().len();
            let place = |extent: &Extent| {
                let theirs = self.parent.as_ref().map(|parent| &parent.manifest().packs);
                let list = if is_own { Some(&packs) } else { theirs };
                let pack = list.and_then(|list| list.get(extent.pack));
                pack.map(|pack| (pack, *extent)).ok_or_else(|| Error::corrupt("a pack is missing"))
            };
            let places = archive.extents.iter().map(place).collect::<Result<Vec<_>>>()?;
            archives.add(number, archive, &places);
        }
        for entry in &mut manifest.entries {
            if let Node::File(FileNode { archive, .. }) = &mut entry.node {
                *archive = archives.numbers[archive];
            }
        }
        (manifest.archives, manifest.packs) = (archives.archives, archives.packs);
        Ok(manifest)
    }

    /// The archives that the files of a manifest need, each behind those that it is on.
    fn needed(&self, manifest: &Manifest) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut open: Vec<usize> = manifest.files().map(|(_, file)| file.archive).collect();
        while let Some(number) = open.pop() {
            if needed.insert(number) {
                open.extend(&self.get(number).bases);
            }
        }
        needed
    }
}

/// Archives and packs with new numbers.
#[derive(Default)]
pub(crate) struct Renumbered {
    archives: Vec<ArchiveInfo>,
    numbers: HashMap<usize, usize>,
    packs: Vec<Pack>,
    pack_numbers: HashMap<String, usize>,
}

impl Renumbered {
    /// Those of a manifest, under the numbers that they have there.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let (archives, packs) = (manifest.archives.clone(), manifest.packs.clone());
        let name = |(i, pack): (usize, &Pack)| (pack.name.as_str().to_string(), i);
        let pack_numbers = packs.iter().enumerate().map(name).collect();
        Self { archives, packs, pack_numbers, numbers: HashMap::new() }
    }

    /// Adds an archive of another manifest with all that it is on, unless its original has one;
    /// returns its number.
    pub(crate) fn adopt(&mut self, other: &Manifest, number: usize) -> usize {
        let archive = &other.archives[number];
        if let Some(known) = self.archives.iter().position(|known| known.hash == archive.hash) {
            return known;
        }
        let bases = archive.bases.iter().map(|&base| self.adopt(other, base)).collect();
        let place = |extent: &Extent| (&other.packs[extent.pack], *extent);
        let places: Vec<(&Pack, Extent)> = archive.extents.iter().map(place).collect();
        self.place(ArchiveInfo { bases, ..archive.clone() }, &places)
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
        *self.pack_numbers.entry(pack.name.as_str().to_string()).or_insert_with(|| {
            packs.push(pack.clone());
            packs.len() - 1
        })
    }
}
