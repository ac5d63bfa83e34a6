//! The packs of a save as far as they are written, to be read again by files that are coded against
//! earlier ones.

use crate::layout::names::PackName;
use crate::read::library::Packs;
use crate::save::pack_pieces::PackPieces;
use crate::storage::Storage;
use lmc_format::Result;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// Packs that are being filled, being put, or put.
#[derive(Debug)]
pub(crate) struct PackBytes {
    storage: Arc<dyn Storage>,
    written: RwLock<Written>,
}

#[derive(Debug, Default)]
struct Written {
    sent: Vec<Sent>,
    /// The pack after those that were sent.
    filling: PackPieces,
}

#[derive(Clone, Debug)]
enum Sent {
    OnItsWay(Arc<PackPieces>),
    Put(PackName),
}

impl PackBytes {
    pub(crate) fn new(storage: &Arc<dyn Storage>) -> Self {
        Self { storage: storage.clone(), written: RwLock::default() }
    }

    /// Adds a part of `bytes` to the pack that is being filled.
    pub(crate) fn push(&self, bytes: &Arc<Vec<u8>>, part: Range<usize>) {
        self.write().filling.push(bytes, part);
    }

    /// Ends the pack that is being filled, which is on its way from now on.
    pub(crate) fn end_pack(&self) -> Arc<PackPieces> {
        let mut written = self.write();
        let pieces = Arc::new(std::mem::take(&mut written.filling));
        written.sent.push(Sent::OnItsWay(pieces.clone()));
        pieces
    }

    /// Pack `i` is in the storage.
    pub(crate) fn was_put(&self, i: usize, name: PackName) {
        self.write().sent[i] = Sent::Put(name);
    }

    fn write(&self) -> RwLockWriteGuard<'_, Written> {
        self.written.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Packs for PackBytes {
    fn read(&self, pack: usize, at: u64, out: &mut [u8]) -> Result<()> {
        let sent = {
            let written = self.written.read().unwrap_or_else(PoisonError::into_inner);
            match written.sent.get(pack) {
                Some(sent) => sent.clone(),
                None => return written.filling.read(at, out),
            }
        };
        match sent {
            Sent::OnItsWay(pieces) => pieces.read(at, out),
            Sent::Put(name) => self.storage.read(&name.object(), at, out),
        }
    }

    fn is_far(&self) -> bool {
        !self.storage.has_cheap_stat()
    }
}
