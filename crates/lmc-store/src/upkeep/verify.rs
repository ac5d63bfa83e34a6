//! Comparing archives with what their manifest says about them. A manifest with the right hash says
//! what its author wanted it to say, so data from another store is decoded before it is trusted.

use crate::Store;
use crate::layout::identity::{Identity, identities};
use crate::layout::manifest::{Manifest, Pack};
use crate::layout::names::PackName;
use crate::read::library::{Packs, SnapshotLibrary};
use crate::save::reuse::is_unreadable;
use crate::storage::not_found;
use crate::upkeep::check::wrong_size;
use lmc::{Context, Output};
use lmc_format::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a pack that share one seal.
const SEALED_LEN: u64 = 256 << 10;

/// Fails unless an archive holds what its manifest says: an original with that content hash, size
/// and BLAKE3 hash, coded against the bases that it names and no others.
pub(crate) fn verify(
    library: &Arc<SnapshotLibrary>,
    number: usize,
    context: &Context,
) -> Result<()> {
    let (archive, context) = (library.open(number)?, context.unwatched());
    let manifest = library.manifest();
    let info = &manifest.archives[number];
    let bases: HashSet<(u128, u64)> = info
        .bases
        .iter()
        .map(|&base| (manifest.archives[base].hash, manifest.archives[base].size))
        .collect();
    let own: HashSet<(u128, u64)> =
        archive.bases().iter().map(|base| (base.hash, base.len)).collect();
    if own != bases {
        return Err(Error::corrupt("the archive has other bases than the manifest says"));
    }
    let Some(content) = info.blake3 else { return archive.test(&context) };
    let mut hashing = Hashing(blake3::Hasher::new());
    lmc::decompress(&archive, Output::Stream(&mut hashing), &context)?;
    if *hashing.0.finalize().as_bytes() != content {
        return Err(Error::corrupt(
            "the original has a different BLAKE3 hash than the manifest says",
        ));
    }
    Ok(())
}

/// Computes the hash of the bytes that are written.
struct Hashing(blake3::Hasher);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Archives that hold what manifests say about them.
#[derive(Debug, Default)]
pub(crate) struct Verified(HashSet<(Identity, Option<[u8; 32]>)>);

impl Verified {
    /// Takes all archives of a manifest as verified.
    pub(crate) fn trust(&mut self, manifest: &Manifest) {
        let identities = identities(manifest, PackName::hash);
        let contents = manifest.archives.iter().map(|archive| archive.blake3);
        self.0.extend(identities.into_iter().zip(contents));
    }

    /// Verifies the archives of a manifest that are not verified yet; `may` says for which of them
    /// this is possible. The inner error says that the manifest is wrong, and about which file.
    pub(crate) fn verify_all(
        &mut self,
        library: &Arc<SnapshotLibrary>,
        context: &Context,
        may: impl Fn(usize) -> bool,
    ) -> Result<Result<()>> {
        let manifest = library.manifest();
        let identities = identities(manifest, PackName::hash);
        for (number, identity) in identities.into_iter().enumerate() {
            let key = (identity, manifest.archives[number].blake3);
            if self.0.contains(&key) || !may(number) {
                continue;
            }
            match verify(library, number, context) {
                Ok(()) => drop(self.0.insert(key)),
                Err(e) if is_unreadable(&e) => return Ok(Err(at_file(manifest, number, e))),
                Err(e) => return Err(e),
            }
        }
        Ok(Ok(()))
    }
}

/// An error about an archive, with the path of a file that it holds.
fn at_file(manifest: &Manifest, number: usize, error: Error) -> Error {
    match manifest.files().find(|(_, file)| file.archive == number) {
        Some((path, _)) => error.at(path),
        None => error.at(format_args!("archive {number}")),
    }
}

/// The hashes of pieces of packs whose bytes were compared with their names once, by the hashes in
/// these names.
#[derive(Debug, Default)]
pub(crate) struct Seals(Mutex<HashMap<String, Arc<Vec<[u8; 32]>>>>);

impl Seals {
    fn map(&self) -> MutexGuard<'_, HashMap<String, Arc<Vec<[u8; 32]>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the bytes of a pack, which have the hash in its name.
    pub(crate) fn seal(&self, name: &PackName, bytes: &[u8]) -> Arc<Vec<[u8; 32]>> {
        let pieces = bytes.chunks(SEALED_LEN as usize);
        let seals = Arc::new(pieces.map(|piece| *blake3::hash(piece).as_bytes()).collect());
        self.map().insert(name.hash().to_string(), Arc::clone(&seals));
        seals
    }
}

/// Packs that give the bytes that their names promise at every read: a store of others may give
/// different bytes the second time.
#[derive(Debug)]
pub(crate) struct SealedPacks {
    /// Where each pack is; none for packs that no store has.
    places: Vec<Option<(Store, Pack)>>,
    seals: Arc<Seals>,
}

impl SealedPacks {
    /// The packs of a manifest, as they are in one store.
    pub(crate) fn of(store: &Store, manifest: &Manifest, seals: &Arc<Seals>) -> Self {
        let place = |pack: &Pack| Some((store.clone(), pack.clone()));
        let places = manifest.packs.iter().map(place).collect();
        Self { places, seals: seals.clone() }
    }

    /// The packs of a manifest, each in the first of some stores that has it whole. The inner error
    /// means that the manifest states another size for a pack.
    fn in_any(stores: &[&Store], manifest: &Manifest) -> Result<Result<Self>> {
        let seals = Arc::new(Seals::default());
        let mut places = Vec::with_capacity(manifest.packs.len());
        for pack in &manifest.packs {
            let mut place = None;
            for store in stores {
                if let Ok(bytes) = store.read_pack(&pack.name, pack.size)? {
                    seals.seal(&pack.name, &bytes);
                    place = Some(((*store).clone(), pack.clone()));
                    break;
                }
                if let Some(found) = store.size_of_pack(&pack.name)?.filter(|&n| n != pack.size) {
                    return Ok(Err(wrong_size(&pack.name, pack.size, found)));
                }
            }
            places.push(place);
        }
        Ok(Ok(Self { places, seals }))
    }

    fn seals_of(&self, store: &Store, pack: &Pack) -> Result<Arc<Vec<[u8; 32]>>> {
        if let Some(seals) = self.seals.map().get(pack.name.hash()) {
            return Ok(seals.clone());
        }
        let bytes = store.read_pack(&pack.name, pack.size)?;
        let bytes = bytes.map_err(|e| e.at(pack.name.object()))?;
        Ok(self.seals.seal(&pack.name, &bytes))
    }
}

impl Packs for SealedPacks {
    fn read(&self, pack: usize, at: u64, out: &mut [u8]) -> Result<()> {
        let Some((store, pack)) = &self.places[pack] else { return Err(not_found("a pack")) };
        let (seals, object) = (self.seals_of(store, pack)?, pack.name.object());
        // Extents lie in their packs.
        let end = at + out.len() as u64;
        let start = at / SEALED_LEN * SEALED_LEN;
        let mut bytes = vec![0; (end.next_multiple_of(SEALED_LEN).min(pack.size) - start) as usize];
        store.storage.read(&object, start, &mut bytes)?;
        let first = (start / SEALED_LEN) as usize;
        for (piece, seal) in bytes.chunks(SEALED_LEN as usize).zip(seals.iter().skip(first)) {
            if blake3::hash(piece).as_bytes() != seal {
                return Err(Error::corrupt(format!("{object} changed while it was read")));
            }
        }
        let skip = (at - start) as usize;
        out.copy_from_slice(&bytes[skip..skip + out.len()]);
        Ok(())
    }

    fn is_far(&self) -> bool {
        self.places.iter().flatten().any(|(store, _)| !store.storage.has_cheap_stat())
    }
}

impl Store {
    /// Decodes as much as possible of a manifest from another store, with packs of either store.
    /// The inner error means that the manifest is wrong. Archives whose packs are lost are left to
    /// a check.
    pub(crate) fn vouch_for(&self, other: &Store, manifest: &Manifest) -> Result<Result<()>> {
        let packs = match SealedPacks::in_any(&[self, other], manifest)? {
            Ok(packs) => packs,
            Err(lie) => return Ok(Err(lie)),
        };
        let is_lost: Vec<bool> = packs.places.iter().map(Option::is_none).collect();
        let is_hit = manifest.archives_in(&is_lost);
        let library = SnapshotLibrary::with_packs(Arc::new(packs), &Arc::new(manifest.clone()));
        Verified::default().verify_all(&library, &self.context, |number| !is_hit[number])
    }
}
