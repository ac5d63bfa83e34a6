//! Files to search for bases, and what is known of those that were looked at: each is opened and
//! read once or twice, however many bases it might be.

use crate::base::decode_cache::DecodeCache;
use crate::base::{Base, Library};
use crate::context::Context;
use crate::files::beside::Beside;
use crate::files::folder::FileId;
use crate::io::{ByteSource, Stamp};
use lmc_format::{Error, ErrorKind, Hash, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The part of a [`crate::BaseSet`] that all its copies share, and the bases in it.
#[derive(Debug, Default)]
pub(crate) struct BaseCatalog {
    /// The bases of the set, in their order. They are opened after the catalog is made, because
    /// they point to it.
    pub(crate) given: OnceLock<Vec<Arc<Base>>>,
    /// Directories that are searched for bases by name.
    pub(crate) folders: Vec<PathBuf>,
    library: Option<Arc<dyn Library>>,
    /// Bases that were found in addition to the given ones, by content hash and length: each is
    /// opened once, however many files need it.
    found: Mutex<HashMap<(Hash, u64), Arc<Base>>>,
    /// Files that were looked at. Most of them are not kept open, because there can be many.
    seen: Mutex<HashMap<Stamp, Result<Seen>>>,
    /// The compressed directories next to a folder.
    beside: Mutex<HashMap<PathBuf, Arc<Beside>>>,
    /// For work that is not handed another one.
    pub(crate) context: Context,
    /// The cache that everything which looks for bases here shares.
    pub(crate) cache: Arc<DecodeCache>,
}

/// What is known of a file, to tell whether it is a base.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Bytes of its original.
    pub len: u64,
    /// Content hash of its original, if it is a `.lmc` or was read.
    pub hash: Option<Hash>,
    /// The one that archives without an arrangement have for it, if that was needed.
    pub old_hash: Option<Hash>,
    /// Content hashes of its own bases.
    pub on: Arc<[Hash]>,
}

impl Seen {
    /// Whether it is `wanted`, as far as is known.
    pub(crate) fn may_be(&self, wanted: &lmc_format::BaseId) -> bool {
        let is_other = self.hash.is_some_and(|hash| hash != wanted.hash)
            && self.old_hash.is_none_or(|hash| hash != wanted.hash);
        self.len == wanted.len && !is_other && !self.on.contains(&wanted.hash)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BaseCatalog {
    pub(crate) fn new(
        folders: Vec<PathBuf>,
        library: Option<Arc<dyn Library>>,
        context: Context,
    ) -> Self {
        Self { folders, library, context, ..Self::default() }
    }

    /// All files that have been opened.
    pub(crate) fn open(&self) -> Vec<Arc<Base>> {
        let given = self.given.get().into_iter().flatten().cloned();
        given.chain(lock(&self.found).values().cloned()).collect()
    }

    /// A base that was found before, or the archive of a library; of this length, if one is wanted.
    pub(crate) fn find(
        self: &Arc<Self>,
        hash: Hash,
        len: Option<u64>,
    ) -> Result<Option<Arc<Base>>> {
        if let Some(len) = len
            && let Some(base) = lock(&self.found).get(&(hash, len))
        {
            return Ok(Some(base.clone()));
        }
        let Some(library) = &self.library else { return Ok(None) };
        let Some((name, bytes)) = library.find(hash)? else { return Ok(None) };
        let base = Base::new(ByteSource::Elsewhere(bytes), Path::new(&name), None, self)
            .map_err(|e| e.at(format_args!("base {name}")))?;
        if base.content_hash()? != hash || len.is_some_and(|len| len != base.original_len()) {
            let message = format!("base {name} is not the one with content hash {hash:032x}");
            return Err(Error::corrupt(message));
        }
        self.keep(hash, &base);
        Ok(Some(base))
    }

    /// Keeps a base with this content hash.
    pub(crate) fn keep(&self, hash: Hash, base: &Arc<Base>) {
        lock(&self.found).insert((hash, base.original_len()), base.clone());
    }

    /// What is known of a file from an earlier look.
    pub(crate) fn seen(&self, stamp: &Stamp) -> Option<Result<Seen>> {
        lock(&self.seen).get(stamp).cloned()
    }

    /// Records what a file is, or why that cannot be told, but not if an interrupt is the reason.
    pub(crate) fn saw(&self, stamp: Stamp, seen: &Result<Seen>) {
        if !seen.as_ref().is_err_and(|e| e.kind == ErrorKind::Interrupted) {
            lock(&self.seen).insert(stamp, seen.clone());
        }
    }

    /// The compressed directories next to `folder`.
    pub(crate) fn beside(&self, folder: &Path) -> Arc<Beside> {
        let mut known = lock(&self.beside);
        let found = known.entry(folder.to_path_buf());
        found.or_insert_with(|| Arc::new(Beside::of(folder))).clone()
    }

    /// The id of the file at `path` and what is known of it, if it is a file, without reading all
    /// of it. It is opened once.
    pub(crate) fn glance(self: &Arc<Self>, path: &Path) -> Option<(FileId, Seen)> {
        let stamp = Stamp::of(&path.metadata().ok()?);
        if let Some(seen) = self.seen(&stamp) {
            return Some((stamp.id, seen.ok()?));
        }
        let base = Base::open(path, self);
        let opened = base.as_ref().ok().and_then(|base| base.stamp).unwrap_or(stamp);
        let seen = base.map(|base| base.seen());
        self.saw(opened, &seen);
        Some((opened.id, seen.ok()?))
    }
}
