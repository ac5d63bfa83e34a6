//! Compares packs with the hashes in their names.

use crate::Store;
use crate::layout::names::PackName;
use crate::upkeep::check::{has_bad_bytes, is_lost, wrong_object};
use lmc_format::{Error, Result};

/// Reads packs piece by piece, into memory that stays in the caches of the CPU.
#[derive(Default)]
pub(crate) struct PackReader(Vec<u8>);

/// The bytes that are read in one go.
const PIECE_LEN: u64 = 1 << 20;

impl PackReader {
    /// Says how a pack of this size is damaged, if it is. The outer error means that this could not
    /// be found out.
    pub(crate) fn check(
        &mut self,
        store: &Store,
        name: &PackName,
        size: u64,
    ) -> Result<Result<()>> {
        if !store.storage.has_cheap_stat() {
            // Each piece would be a request.
            return Ok(store.read_pack(name, size)?.map(drop));
        }
        let object = name.object();
        match self.hash(store, &object, size) {
            Ok(hash) if name.hash() == hash.to_hex().as_str() => Ok(Ok(())),
            Ok(_) => Ok(Err(wrong_hash())),
            Err(e) if is_lost(&e) || has_bad_bytes(&*store.storage, &object, &e) => Ok(Err(e)),
            Err(e) => Err(e),
        }
    }

    fn hash(&mut self, store: &Store, object: &str, size: u64) -> Result<blake3::Hash> {
        let found = store.storage.stat(object)?.map(|stat| stat.size);
        if let Some(error) = wrong_object(object, size, found) {
            return Err(error);
        }
        let mut hasher = blake3::Hasher::new();
        let mut at = 0;
        while at < size {
            store.context.interrupt.check()?;
            let len = PIECE_LEN.min(size - at);
            self.0.resize(len as usize, 0);
            store.storage.read(object, at, &mut self.0)?;
            hasher.update(&self.0);
            at += len;
        }
        Ok(hasher.finalize())
    }
}

pub(crate) fn wrong_hash() -> Error {
    Error::corrupt("its bytes have a different hash")
}
