//! Copying snapshots from one store to another. Nothing in the source is trusted: packs are
//! compared with their hashes, and archives with what the manifest says about them.

use crate::Store;
use crate::layout::lease::{SaveLease, is_pruning};
use crate::layout::manifest::{Extent, Manifest, Pack};
use crate::layout::names::{PACKS, PackName, SnapshotName, random_id};
use crate::read::library::SnapshotLibrary;
use crate::save::commit::Author;
use crate::save::packs::{PackCount, Putter, Reuse};
use crate::save::reuse::is_unreadable;
use crate::upkeep::check::is_damage;
use crate::upkeep::copied::There;
use crate::upkeep::pack_reader::PackReader;
use crate::upkeep::verify::{SealedPacks, Seals, Verified};
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How many snapshots of the target are searched for packs that need not be copied again.
const PARENTS_MAX: usize = 3;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Snapshots, by their names in the target.
    pub snapshots: Vec<SnapshotName>,
    /// Snapshots that the target already had.
    pub there: u64,
    /// Snapshots that could not be copied, by their names in the source, and why: they are gone,
    /// damaged, or hold something else than they claim.
    pub left_out: Vec<(SnapshotName, Error)>,
    /// Packs.
    pub packs: PackCount,
    /// Objects of the target that were damaged or missing and have been repaired.
    pub healed: Vec<String>,
}

impl Store {
    /// Copies snapshots with their tags to another store. Each is completely there afterwards, or
    /// not at all. Snapshots that the target already has only get the tags and the packs that they
    /// lack. Snapshots that cannot be copied are left out, and the others are copied. Every pack is
    /// compared with its hash on the way, and every archive with what its manifest says about it.
    pub fn copy_to(&self, target: &Store, names: &[SnapshotName]) -> Result<Copied> {
        let there = target.snapshots()?;
        let mut target_tags = target.tags()?;
        // A tag without a snapshot may be removed at any time.
        let ids: HashSet<&str> = there.iter().map(|name| name.id.as_str()).collect();
        target_tags.retain(|id, _| ids.contains(id.as_str()));
        let mut copying = Copying {
            source: self,
            target,
            there: There::new(there),
            target_tags,
            damaged: BTreeSet::new(),
            essences: HashMap::new(),
            new_ids: HashMap::new(),
            target_packs: None,
            compared: HashSet::new(),
            verified: Verified::default(),
            seals: Arc::default(),
            copied: Copied::default(),
        };
        let tags = self.tags()?;
        let none = BTreeSet::new();
        for name in names {
            let tags = tags.get(&name.id).unwrap_or(&none);
            if let Err(error) = copying.one(name, tags)? {
                copying.copied.left_out.push((name.clone(), self.judge(name, error)));
            }
        }
        Ok(copying.copied)
    }

    /// Whether a snapshot of this name may be about to be removed here, or its mark may still
    /// exist: then another name is needed. Marks are looked for before prunes: a prune that begins
    /// later no longer sees the mark.
    fn was_there(&self, manifest: &Manifest, page: u64, lease: &SaveLease) -> Result<bool> {
        let (_, name) = manifest.write(page)?;
        Ok(self.is_forgotten(&name)? || is_pruning(self, lease.storage_now_ms())?)
    }
}

/// Snapshots that are being copied.
struct Copying<'a> {
    source: &'a Store,
    target: &'a Store,
    /// Snapshots of the target.
    there: There,
    /// The tags of the snapshots that the target had at first, by their ids.
    target_tags: BTreeMap<String, BTreeSet<String>>,
    /// Snapshots of the target whose manifests are damaged.
    damaged: BTreeSet<SnapshotName>,
    /// Hashes of the manifests that were read. Many snapshots may look the same, and each is read
    /// only once.
    essences: HashMap<SnapshotName, blake3::Hash>,
    /// The ids of snapshots in the target, by their ids in the source.
    new_ids: HashMap<String, String>,
    /// Packs in the target, by object, with their sizes, once they were listed.
    target_packs: Option<HashMap<String, u64>>,
    /// Packs of the target that were compared with their hashes.
    compared: HashSet<PackName>,
    verified: Verified,
    seals: Arc<Seals>,
    copied: Copied,
}

/// Separates an error about one snapshot from other errors, which end the copy.
fn apart<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(e) if !is_unreadable(&e) => Err(e),
        result => Ok(result),
    }
}

/// An error about the target. An object that is missing now existed a moment ago, so the source is
/// not to blame.
fn of_target(error: Error) -> Error {
    if error.kind != ErrorKind::NotFound {
        return error;
    }
    let message = format!(
        "the target lacks what was copied there: {error}; a prune there considered this copy dead; \
         copy again"
    );
    Error::new(ErrorKind::Conflict, message).with_source(error)
}

/// Returns early with an error that is about one snapshot.
macro_rules! or_leave_out {
    ($result:expr) => {
        match $result? {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

impl<'a> Copying<'a> {
    /// Copies one snapshot; the inner error means that this one cannot be copied.
    fn one(&mut self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<Result<()>> {
        let (source, target) = (self.source, self.target);
        let manifest = or_leave_out!(apart(source.manifest(name)));
        if or_leave_out!(self.has(name, &manifest, tags)) {
            return Ok(Ok(()));
        }
        // Another copy may have made it meanwhile.
        self.list_again(name)?;
        if or_leave_out!(self.has(name, &manifest, tags)) {
            return Ok(Ok(()));
        }
        let (lease, reuse) = self.lease_for(&manifest, name)?;
        let putter = Putter::new(target, lease, reuse);
        let names = or_leave_out!(self.packs(&manifest, &putter));
        let mut new = with_packs(&manifest, &names);
        new.copy = None;
        or_leave_out!(self.verify(&manifest, &new));
        let (count, healed, lease) = putter.into_parts();
        self.copied.healed.extend(healed.iter().map(PackName::object));
        if target.was_there(&new, name.page, &lease)? {
            new.copy = Some(random_id()?);
            // Under another id, the target would have it twice.
            self.list_again(name)?;
            if or_leave_out!(self.has(name, &manifest, tags)) {
                return Ok(Ok(()));
            }
        }
        let committed = target.commit(&new, name.page, tags, Author::Anyone, lease);
        let new = or_leave_out!(apart(committed.map_err(of_target)));
        if self.damaged.contains(&new) {
            self.copied.healed.push(new.object()?);
        }
        self.copied.packs.put += count.put;
        self.copied.packs.found += count.found;
        self.new_ids.insert(name.id.clone(), new.id.clone());
        self.there.add(new.clone());
        self.copied.snapshots.push(new);
        Ok(Ok(()))
    }

    /// Adds snapshots that others have made since the target was listed, on the page of a snapshot:
    /// all copies of it are on that page.
    fn list_again(&mut self, name: &SnapshotName) -> Result<()> {
        let names = self.target.names_on_page(&name.run, name.page)?.into_iter();
        let new: Vec<SnapshotName> = names.filter(|name| !self.there.has_seen(name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let marks = self.target.marks()?;
        for name in new {
            match marks.contains(&name.id) {
                true => self.there.pass_over(name),
                false => self.there.add(name),
            }
        }
        Ok(())
    }

    /// Whether the target has the snapshot, with all tags and packs; missing ones are put again.
    fn has(
        &mut self,
        name: &SnapshotName,
        manifest: &Manifest,
        tags: &BTreeSet<String>,
    ) -> Result<Result<bool>> {
        let own = hash_of(&essence(manifest))?;
        for other in self.there.likely(name) {
            if self.essences.get(&other).is_some_and(|theirs| *theirs != own) {
                continue;
            }
            let theirs = match self.target.manifest_of(&other) {
                Ok(Some(theirs)) => theirs,
                Ok(None) => continue,
                // It is put again, under its name or another.
                Err(e) if is_damage(&e) => {
                    self.damaged.insert(other);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let essence_of_theirs = essence(&theirs);
            self.essences.insert(other.clone(), hash_of(&essence_of_theirs)?);
            // What a manifest says about itself proves nothing; all of it must be the same.
            if essence_of_theirs == essence(manifest) {
                // The process that made it may not have made it durable.
                self.target.storage.make_durable(&other.object()?)?;
                or_leave_out!(self.complete(&theirs, manifest));
                if !self.tag(&other, tags)? {
                    continue;
                }
                self.new_ids.insert(name.id.clone(), other.id.clone());
                self.copied.there += 1;
                return Ok(Ok(true));
            }
        }
        Ok(Ok(false))
    }

    /// Adds the tags that a snapshot of the target lacks; returns whether it still exists.
    fn tag(&self, name: &SnapshotName, tags: &BTreeSet<String>) -> Result<bool> {
        let own = self.target_tags.get(&name.id);
        for tag in tags.iter().filter(|tag| own.is_none_or(|own| !own.contains(*tag))) {
            match self.target.tag(name, tag) {
                Err(e) if e.kind == ErrorKind::Conflict => return Ok(false),
                tagged => tagged?,
            }
        }
        Ok(true)
    }

    /// Puts packs again that a snapshot of the target lacks or that are cut off. If reading is
    /// cheap, packs with wrong bytes are put again too.
    fn complete(&mut self, theirs: &Manifest, manifest: &Manifest) -> Result<Result<()>> {
        if self.target_packs.is_none() {
            let packs = self.target.storage.list(PACKS)?.into_iter();
            self.target_packs = Some(packs.map(|entry| (entry.name, entry.stat.size)).collect());
        }
        let own: HashMap<&str, &Pack> =
            manifest.packs.iter().map(|pack| (pack.name.hash(), pack)).collect();
        for Pack { name, size } in &theirs.packs {
            let found = self.target_packs.as_ref().and_then(|packs| packs.get(&name.object()));
            if self.compared.contains(name) || found == Some(size) && !self.is_near() {
                continue;
            }
            let Some(pack) = own.get(name.hash()) else { continue };
            or_leave_out!(self.compare(name, pack));
            self.compared.insert(name.clone());
        }
        Ok(Ok(()))
    }

    /// Writes a pack of the target again, with the bytes of the pack in the source.
    fn heal(&mut self, name: &PackName, pack: &Pack) -> Result<Result<()>> {
        let bytes = or_leave_out!(self.source.read_pack(&pack.name, pack.size));
        or_leave_out!(apart(self.target.storage.replace(&name.object(), &bytes)));
        self.copied.healed.push(name.object());
        self.compared.insert(name.clone());
        Ok(Ok(()))
    }

    /// The names that the packs of a snapshot have in the target, where they now exist.
    fn packs(&mut self, manifest: &Manifest, putter: &Putter) -> Result<Result<Vec<PackName>>> {
        let context = self.target.context_with_packs(&self.source.context);
        let copied = lmc::each(
            manifest.packs.len(),
            &context,
            || (),
            |(), i| {
                let copied = self.pack(&manifest.packs[i], putter)?;
                context.progress.add(manifest.packs[i].size);
                Ok(copied)
            },
        )?;
        let mut names = Vec::with_capacity(copied.len());
        for (copied, pack) in copied.into_iter().zip(&manifest.packs) {
            let (name, is_good) = or_leave_out!(Ok(copied));
            if !is_good {
                or_leave_out!(self.heal(&name, pack));
            }
            self.compared.insert(name.clone());
            names.push(name);
        }
        Ok(Ok(names))
    }

    /// The name that a pack has in the target, where it now exists, and whether it is right there.
    fn pack(&self, pack: &Pack, putter: &Putter) -> Result<Result<(PackName, bool)>> {
        if let Some(name) = putter.known(&pack.name) {
            let is_good = self.is_good(&name, pack)?;
            return Ok(Ok((name, is_good)));
        }
        let bytes = or_leave_out!(self.source.read_pack(&pack.name, pack.size));
        if !self.is_near() {
            self.seals.seal(&pack.name, &bytes);
        }
        Ok(Ok((putter.put(&[&bytes])?, true)))
    }

    /// Whether reading from the target is cheap.
    fn is_near(&self) -> bool {
        self.target.storage.has_cheap_stat()
    }

    /// Makes sure that a pack which the target already needs is right: by its bytes, or, if they
    /// would have to be downloaded, by its size.
    fn compare(&mut self, name: &PackName, pack: &Pack) -> Result<Result<()>> {
        if self.is_good(name, pack)? { Ok(Ok(())) } else { self.heal(name, pack) }
    }

    fn is_good(&self, name: &PackName, pack: &Pack) -> Result<bool> {
        if self.compared.contains(name) {
            return Ok(true);
        }
        if self.is_near() {
            return Ok(PackReader::default().check(self.target, name, pack.size)?.is_ok());
        }
        let stat = self.target.storage.stat(&name.object())?;
        Ok(stat.is_some_and(|stat| stat.size == pack.size))
    }

    /// Decodes the archives that the target does not have yet: from the target, or, if that is far
    /// away, from the bytes that were read.
    fn verify(&mut self, manifest: &Manifest, new: &Manifest) -> Result<Result<()>> {
        if self.is_near() {
            let library = SnapshotLibrary::new(self.target, &Arc::new(new.clone()));
            let verified = self.verified.verify_all(&library, &self.source.context, |_| true)?;
            return apart(verified.map_err(of_target));
        }
        let packs = SealedPacks::of(self.source, manifest, &self.seals);
        let library = SnapshotLibrary::with_packs(Arc::new(packs), &Arc::new(manifest.clone()));
        self.verified.verify_all(&library, &self.source.context, |_| true)
    }

    /// A lease that names the snapshots that are likely to share packs with the one to be copied,
    /// and their packs.
    fn lease_for(
        &mut self,
        manifest: &Manifest,
        name: &SnapshotName,
    ) -> Result<(SaveLease<'a>, Reuse)> {
        let id = manifest.parent.as_ref().map(|id| self.new_ids.get(id).unwrap_or(id));
        let parents = self.there.parents(id.map(String::as_str), &name.run, PARENTS_MAX);
        let keys = parents.iter().map(|parent| parent.key()).collect::<Result<Vec<_>>>()?;
        let target = self.target;
        let lease = SaveLease::create(target, &random_id()?, keys)?;
        let mut known: Vec<Pack> = Vec::new();
        for parent in parents {
            match target.read_leased(&parent) {
                Ok(Some(manifest)) => {
                    self.verified.trust(&manifest);
                    known.extend(manifest.packs);
                }
                Ok(None) => {}
                // It is only searched for packs.
                Err(e) if is_damage(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let is_pruning = is_pruning(target, lease.storage_now_ms())?;
        Ok((lease, Reuse::new(known.iter(), is_pruning)))
    }
}

/// A manifest whose packs have other names; several packs of the same bytes may have become one.
fn with_packs(manifest: &Manifest, names: &[PackName]) -> Manifest {
    let mut packs: Vec<Pack> = Vec::with_capacity(names.len());
    let mut numbers: HashMap<&PackName, usize> = HashMap::new();
    let mut places = Vec::with_capacity(names.len());
    for (name, Pack { size, .. }) in names.iter().zip(&manifest.packs) {
        let number = *numbers.entry(name).or_insert_with(|| {
            packs.push(Pack { name: name.clone(), size: *size });
            packs.len() - 1
        });
        places.push(number);
    }
    let mut manifest = Manifest { packs, ..manifest.clone() };
    for archive in &mut manifest.archives {
        for Extent { pack, .. } in &mut archive.extents {
            *pack = places[*pack];
        }
    }
    manifest
}

fn hash_of(essence: &Manifest) -> Result<blake3::Hash> {
    let bytes = serde_json::to_vec(essence)
        .map_err(|e| Error::invalid(format!("a manifest cannot be written: {e}")))?;
    Ok(blake3::hash(&bytes))
}

/// The parts that a snapshot and its copies share: everything except names that copies choose.
fn essence(manifest: &Manifest) -> Manifest {
    let plain = |pack: &Pack| pack.name.numbered_copy(0);
    let names: Vec<PackName> = manifest.packs.iter().map(plain).collect();
    Manifest { copy: None, ..with_packs(manifest, &names) }
}
