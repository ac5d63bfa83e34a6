//! Looking for damage: what is damaged, and which files of which snapshots it affects.

use crate::Store;
use crate::layout::identity::{Identity, identities};
use crate::layout::manifest::{MANIFEST_LEN_MAX, Manifest, PACK_LEN_MAX, Pack};
use crate::layout::names::{
    DAMAGED, PACKS, PackName, SNAPSHOTS, SnapshotName, is_unreachable, random_id,
};
use crate::layout::path::RelPath;
use crate::read::library::SnapshotLibrary;
use crate::read::snapshots::LISTS_MAX;
use crate::storage::Storage;
use crate::upkeep::pack_reader::{PackReader, wrong_hash};
use crate::upkeep::verify::verify;
use lmc::Several;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How much a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// The percentage of packs, chosen at random, that are read and compared with their hashes.
    pub read_percent: u8,
}

/// An object that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The object.
    pub object: String,
    /// What is wrong with it.
    pub error: Error,
}

/// A file that cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hurt {
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// The file.
    pub path: RelPath,
    /// Where the damage is.
    pub error: Error,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Snapshots that were looked at.
    pub snapshots: u64,
    /// Packs that they need.
    pub packs: u64,
    /// Packs that were read.
    pub packs_read: u64,
    /// Bytes of the packs that were read.
    pub bytes_read: u64,
    /// Manifests that are damaged.
    pub manifests: Vec<Damage>,
    /// Packs that are damaged or missing.
    pub damaged: Vec<(PackName, Damage)>,
    /// Files that cannot be restored because of that damage.
    pub hurt: Vec<Hurt>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.manifests.is_empty() && self.damaged.is_empty() && self.hurt.is_empty()
    }
}

/// What became of a manifest that was listed.
pub(crate) enum Look {
    Good(Box<Manifest>),
    Bad(Error),
    /// A prune has removed it since.
    Gone,
}

/// The manifests of a store: the readable ones, and the others.
pub(crate) struct Manifests {
    pub good: Vec<(SnapshotName, Arc<Manifest>)>,
    pub bad: Vec<Damage>,
}

impl Store {
    /// Looks for damage. If packs are not read, only missing and cut-off objects are found.
    ///
    /// An error means that the check could not be done; damage is not an error.
    pub fn check(&self, options: &CheckOptions) -> Result<CheckReport> {
        let Manifests { good, bad } = self.all_manifests()?;
        let mut checked =
            CheckReport { snapshots: good.len() as u64, manifests: bad, ..CheckReport::default() };
        // Manifests may state different sizes for one pack.
        let mut packs: BTreeMap<&PackName, BTreeSet<u64>> = BTreeMap::new();
        for pack in good.iter().flat_map(|(_, manifest)| &manifest.packs) {
            packs.entry(&pack.name).or_default().insert(pack.size);
        }
        checked.packs = packs.len() as u64;
        let there: HashMap<String, u64> =
            self.list_of(PACKS)?.into_iter().map(|e| (e.name, e.stat.size)).collect();
        let seed = random_id()?;
        let mut read: HashSet<&PackName> = HashSet::new();
        let mut sizes_found: HashMap<&PackName, u64> = HashMap::new();
        let packs: Vec<(&PackName, BTreeSet<u64>)> = packs.into_iter().collect();
        let context = self.context_for_packs();
        let looks = lmc::each(packs.len(), &context, PackReader::default, |reader, i| {
            let (name, sizes) = &packs[i];
            let found = there.get(&name.object()).copied();
            let is_chosen = is_chosen(&seed, name, options.read_percent);
            self.look_at_pack(reader, name, sizes, found, is_chosen)
        })?;
        for ((name, _), look) in packs.iter().zip(looks) {
            if let Some(size) = look.read {
                checked.packs_read += 1;
                checked.bytes_read += size;
                read.insert(name);
            }
            sizes_found.extend(look.size_found.map(|size| (*name, size)));
            let damage = |error| ((*name).clone(), Damage { object: name.object(), error });
            checked.damaged.extend(look.error.map(damage));
        }
        let damaged = checked.damaged.iter().map(|(name, _)| name).collect();
        let mut contents = Contents { store: self, damaged, read, tested: HashMap::new() };
        for (snapshot, manifest) in &good {
            let (hurt, lies) = contents.test_snapshot(snapshot, manifest)?;
            checked.hurt.extend(hurt);
            checked.manifests.extend(lies);
            let is_wrong =
                |pack: &&Pack| sizes_found.get(&pack.name).is_some_and(|found| *found != pack.size);
            if let Some(Pack { name, size }) = manifest.packs.iter().find(is_wrong) {
                let error = wrong_size(name, *size, sizes_found[name]);
                checked.manifests.push(Damage { object: snapshot.object()?, error });
            }
        }
        self.leave_out_removed(&mut checked, &good)?;
        checked.manifests.extend(self.misnamed_in_damaged()?);
        Ok(checked)
    }

    /// Looks at one pack. Manifests state these sizes for it, and its object was listed with the
    /// size `found`.
    fn look_at_pack(
        &self,
        reader: &mut PackReader,
        name: &PackName,
        sizes: &BTreeSet<u64>,
        found: Option<u64>,
        is_chosen: bool,
    ) -> Result<PackLook> {
        let mut look = PackLook::default();
        let object = name.object();
        let size = found.filter(|found| sizes.contains(found));
        let Some(size) = size.or_else(|| sizes.first().copied()) else { return Ok(look) };
        look.error = wrong_object(&object, size, found);
        if found.is_some() && (look.error.is_some() || sizes.len() > 1) {
            // A pack with the hash in its name is right, whatever manifests state.
            look.size_found = self.size_of_pack(name)?;
            look.error = match look.size_found {
                Some(_) => None,
                None => Some(look.error.unwrap_or_else(wrong_hash)),
            };
        }
        if look.error.is_none() && is_chosen {
            let size = look.size_found.unwrap_or(size);
            look.read = Some(size);
            look.error = reader.check(self, name, size)?.err();
        }
        if look.error.is_some() {
            look.error = self.look_again(name, size)?;
        }
        Ok(look)
    }

    /// Looks again at a pack that seemed to be missing or damaged: it may have been put since the
    /// list was made, and a single read may fail.
    fn look_again(&self, name: &PackName, size: u64) -> Result<Option<Error>> {
        let object = name.object();
        let found = match self.storage.stat(&object) {
            // Something that is not a file has its name.
            Err(e) if is_damage(&e) => return Ok(Some(e)),
            found => found?.map(|stat| stat.size),
        };
        match wrong_object(&object, size, found) {
            None => Ok(self.read_pack(name, size)?.err()),
            error => Ok(self.no_file(&object).or(error)),
        }
    }

    /// What is wrong with an object that is not even a file.
    pub(crate) fn no_file(&self, object: &str) -> Option<Error> {
        self.storage.read(object, 0, &mut []).err().filter(is_damage)
    }

    /// Leaves out everything about snapshots that were forgotten or removed since they were listed.
    /// Manifests are removed before their packs. So if a manifest still exists after its pack was
    /// found missing, that is damage.
    fn leave_out_removed(
        &self,
        checked: &mut CheckReport,
        good: &[(SnapshotName, Arc<Manifest>)],
    ) -> Result<()> {
        if checked.is_clean() {
            return Ok(());
        }
        let keys = self.keys(SNAPSHOTS)?;
        let marks = self.marks()?;
        let is_shown = |key: &str| {
            let id = SnapshotName::parse(key).map(|name| name.id);
            keys.contains(key) && id.is_none_or(|id| !marks.contains(&id))
        };
        let mut shown: HashSet<&SnapshotName> = HashSet::new();
        let mut needed: HashSet<&PackName> = HashSet::new();
        for (name, manifest) in good {
            if is_shown(&name.key()?) {
                shown.insert(name);
                needed.extend(manifest.packs.iter().map(|pack| &pack.name));
            }
        }
        checked.snapshots = shown.len() as u64;
        checked.manifests.retain(|damage| is_shown(&damage.object[SNAPSHOTS.len() + 1..]));
        checked.damaged.retain(|(name, _)| needed.contains(name));
        checked.hurt.retain(|hurt| shown.contains(&hurt.snapshot));
        Ok(())
    }

    /// All snapshots that are not forgotten.
    pub(crate) fn all_manifests(&self) -> Result<Manifests> {
        let mut manifests = Manifests { good: Vec::new(), bad: Vec::new() };
        let mut seen = HashSet::new();
        // The replacement of a removed snapshot is not in the list that names the removed one.
        for _ in 0..LISTS_MAX {
            if self.add_manifests(&mut manifests, &mut seen)? {
                break;
            }
        }
        Ok(manifests)
    }

    /// Adds manifests that were not seen before; returns whether all listed ones still exist.
    fn add_manifests(
        &self,
        Manifests { good, bad }: &mut Manifests,
        seen: &mut HashSet<String>,
    ) -> Result<bool> {
        let list = || self.names_of(SNAPSHOTS);
        let (mut objects, forgotten) = self.list_and_marks(list, |object| object)?;
        objects.retain(|object| seen.insert(object.clone()));
        objects.sort();
        let mut are_there = true;
        for object in objects {
            let name = SnapshotName::parse(&object[SNAPSHOTS.len() + 1..]);
            if name.as_ref().is_some_and(|name| forgotten.contains(&name.id)) {
                continue;
            }
            let Some(name) = name else {
                bad.push(Damage { error: misnamed(&object), object });
                continue;
            };
            match self.look_at_manifest(&object, &name)? {
                Look::Good(manifest) => good.push((name, Arc::from(manifest))),
                Look::Bad(error) => bad.push(Damage { object, error }),
                Look::Gone => {
                    seen.remove(&object);
                    are_there = false;
                }
            }
        }
        Ok(are_there)
    }

    /// Reads the manifest of the snapshot `name`. Nothing is called damaged after a single look. An
    /// error means that the manifest could not be looked at.
    pub(crate) fn look_at_manifest(&self, object: &str, name: &SnapshotName) -> Result<Look> {
        let read = || {
            let bytes = self.storage.read_all(object, MANIFEST_LEN_MAX)?;
            Manifest::read(&bytes, name)
        };
        let is_bad =
            |error: &Error| is_damage(error) || has_bad_bytes(&*self.storage, object, error);
        let read = match read() {
            Err(error) if is_bad(&error) => read(),
            first => first,
        };
        match read {
            Ok(manifest) => Ok(Look::Good(Box::new(manifest))),
            Err(e) if e.kind == ErrorKind::NotFound => Ok(Look::Gone),
            Err(error) if is_bad(&error) => Ok(Look::Bad(error)),
            Err(e) => Err(e),
        }
    }

    /// Objects that were moved away and have names by which they cannot be brought back.
    fn misnamed_in_damaged(&self) -> Result<Vec<Damage>> {
        let names = self.names_of(DAMAGED)?.into_iter().filter(|object| is_unreachable(object));
        let damage = |object: String| Damage { error: misnamed(&object), object };
        Ok(names.map(damage).collect())
    }

    /// The bytes of a pack, or how it is damaged. The outer error means that this could not be
    /// found out.
    pub(crate) fn read_pack(&self, name: &PackName, size: u64) -> Result<Result<Vec<u8>>> {
        let read = self.read_named(name, size)?;
        Ok(read.and_then(|bytes| match bytes.len() as u64 {
            found if found == size => Ok(bytes),
            found => Err(wrong_size(name, size, found)),
        }))
    }

    /// The size of a pack, if it exists with the bytes that its name promises.
    pub(crate) fn size_of_pack(&self, name: &PackName) -> Result<Option<u64>> {
        Ok(self.read_named(name, PACK_LEN_MAX)?.ok().map(|bytes| bytes.len() as u64))
    }

    /// The bytes of a pack of at most `len_max`, if they have the hash in its name.
    fn read_named(&self, name: &PackName, len_max: u64) -> Result<Result<Vec<u8>>> {
        let object = name.object();
        let bytes = match self.storage.read_all(&object, len_max) {
            Ok(bytes) => bytes,
            Err(e) if is_lost(&e) => return Ok(Err(e)),
            Err(e) if has_bad_bytes(&*self.storage, &object, &e) => return Ok(Err(e)),
            Err(e) => return Err(e),
        };
        if !name.fits(&bytes) {
            let found = blake3::hash(&bytes).to_hex();
            return Ok(Err(Error::corrupt(format!("its bytes have the hash {found}"))));
        }
        Ok(Ok(bytes))
    }
}

/// What a look at a pack has shown.
#[derive(Default)]
struct PackLook {
    /// Its size, if it was read.
    read: Option<u64>,
    /// Its size, if manifests state another one and it has the right bytes all the same.
    size_found: Option<u64>,
    error: Option<Error>,
}

/// The contents of archives.
struct Contents<'a> {
    store: &'a Store,
    damaged: HashSet<&'a PackName>,
    /// Packs that were read.
    read: HashSet<&'a PackName>,
    /// The result for each archive. The key covers everything that is read for it and not just its
    /// content: the same file may be stored in several places.
    tested: HashMap<Identity, Option<Error>>,
}

impl Contents<'_> {
    /// The files of a snapshot that cannot be restored, and archives without a file that do not
    /// hold what the manifest says. Each file that needs a damaged pack is decoded: damage
    /// elsewhere in the pack does not affect it. Every archive in packs that were read is decoded
    /// and compared with what the manifest says about it.
    fn test_snapshot(
        &mut self,
        snapshot: &SnapshotName,
        manifest: &Arc<Manifest>,
    ) -> Result<(Vec<Hurt>, Vec<Damage>)> {
        let packs = |set: &HashSet<&PackName>| -> Vec<bool> {
            manifest.packs.iter().map(|pack| set.contains(&pack.name)).collect()
        };
        let is_hit = manifest.archives_in(&packs(&self.damaged));
        let is_read = packs(&self.read);
        let mut has_file = vec![false; manifest.archives.len()];
        manifest.files().for_each(|(_, file)| has_file[file.archive] = true);
        let library = SnapshotLibrary::new(self.store, manifest);
        let identities = identities(manifest, PackName::as_str);
        let is_tested = |number: usize| {
            let extents = &manifest.archives[number].extents;
            let was_read = !extents.is_empty() && extents.iter().all(|e| is_read[e.pack]);
            if is_hit[number] { has_file[number] } else { was_read }
        };
        let tested: Vec<usize> = (0..identities.len()).filter(|&i| is_tested(i)).collect();
        let mut seen = HashSet::new();
        let is_new = |&&number: &&usize| {
            let identity = &identities[number];
            !self.tested.contains_key(identity) && seen.insert(identity)
        };
        let new: Vec<usize> = tested.iter().filter(is_new).copied().collect();
        let context = &self.store.context;
        let several = Several::of(context, new.len());
        let work = |&i: &usize| verify(&library, i, context).err();
        let is_short = |error: &Option<Error>| error.as_ref().is_some_and(Error::is_shortage);
        several.run(&new, work, is_short, |&i, error| {
            self.tested.insert(identities[i], error);
            true
        });
        let mut errors: Vec<Option<Error>> = vec![None; identities.len()];
        for number in tested {
            errors[number] = self.tested.get(&identities[number]).cloned().flatten();
        }
        let hurt = manifest.files().filter_map(|(path, file)| {
            let error = errors[file.archive].clone()?;
            Some(Hurt { snapshot: snapshot.clone(), path: path.clone(), error })
        });
        let hurt = hurt.collect();
        let object = snapshot.object()?;
        let lies = errors.into_iter().enumerate().filter(|(number, _)| !has_file[*number]);
        let lie = |(number, error): (usize, Option<Error>)| {
            let error = error?.at(format_args!("archive {number}"));
            Some(Damage { object: object.clone(), error })
        };
        Ok((hurt, lies.filter_map(lie).collect()))
    }
}

/// The error about an object that does not have the name of a manifest.
pub(crate) fn misnamed(object: &str) -> Error {
    match is_unreachable(object) {
        true => Error::corrupt(
            "its name is not UTF-8; give it its name back, or move it out of the store",
        ),
        false => Error::corrupt("is not a snapshot").with_advice(Advice::RepairStore),
    }
}

/// Whether an error says that bytes are wrong, and not that they could not be read.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Truncated)
}

/// Whether an error says that data in the store is damaged or missing.
pub(crate) fn is_lost(error: &Error) -> bool {
    is_damage(error) || error.kind == ErrorKind::NotFound
}

/// Whether an error of the system is about the bytes of an object, as with a bad sector: it is on a
/// disk, and the object can still be opened. In a bucket, an error says nothing about the object.
pub(crate) fn has_bad_bytes(storage: &dyn Storage, object: &str, error: &Error) -> bool {
    let can_open = || storage.read(object, 0, &mut []).is_ok();
    error.kind == ErrorKind::Io && storage.has_cheap_stat() && can_open()
}

/// The error about an object that is missing or has another size.
pub(crate) fn wrong_object(object: &str, size: u64, found: Option<u64>) -> Option<Error> {
    match found {
        Some(found) if found == size => None,
        Some(found) => {
            Some(Error::truncated(format!("{object} has {found} bytes and should have {size}")))
        }
        None => Some(Error::new(ErrorKind::NotFound, format!("{object} is missing"))),
    }
}

/// The error about a manifest that states another size for a pack than the right bytes have.
pub(crate) fn wrong_size(name: &PackName, size: u64, found: u64) -> Error {
    let object = name.object();
    Error::corrupt(format!("the manifest says that {object} has {size} bytes, but it has {found}"))
}

fn is_chosen(seed: &str, name: &PackName, percent: u8) -> bool {
    let hash = blake3::hash(format!("{seed}{}", name.as_str()).as_bytes());
    let number = u32::from(u16::from_le_bytes([hash.as_bytes()[0], hash.as_bytes()[1]]));
    number * 100 < u32::from(percent) * 65_536
}
