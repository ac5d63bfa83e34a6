//! Bases: checkpoints that others are coded against. They are opened, identified by their content,
//! and read in parts.
//!
//! A base is any file, or a `.lmc` file, which represents its original and may have bases of its
//! own. A base is requested by its content hash, and one with another hash is refused.
//!
//! Who owns whom (`=>` keeps alive, `->` does not):
//!
//! ```text
//! BaseSet => BaseCatalog => Base (given or found) => Raw      any file
//!                        => DecodeCache           => Archive  a `.lmc` file
//! Archive => OwnBases => Base        each base of the archive, once it is found
//!                     => BaseCatalog for an archive that is read by itself
//!                     -> BaseCatalog for an archive that is a base: the catalog may own it
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `set.rs` | `BaseSet`, `Library`: which bases a call gets |
//! | `catalog.rs` | `BaseCatalog`: the bases of a set, those found later, files that were seen |
//! | `lookup.rs` | `OwnBases`: finds the bases that an archive names, when they are needed |
//! | `mod.rs`, `raw.rs` | `Base`, and `Raw` for a base that is not an archive |
//! | `reference.rs`, `convert.rs` | the bytes that a reference names, rounded if it says so |
//! | `witness.rs` | bytes that are read twice must be the same both times |
//! | `budget.rs`, `decode_cache.rs` | limits the work; keeps decoded parts for the next read |
//! | `needed.rs`, `dependencies.rs` | which files must not be removed or replaced |

pub(crate) mod budget;
pub(crate) mod catalog;
pub(crate) mod convert;
pub(crate) mod decode_cache;
pub(crate) mod dependencies;
pub(crate) mod lookup;
pub(crate) mod needed;
pub(crate) mod raw;
pub(crate) mod reference;
pub(crate) mod set;
pub(crate) mod witness;

use crate::archive::Archive;
use crate::base::budget::{Budget, Cost, Effort};
use crate::base::catalog::{BaseCatalog, Seen};
use crate::base::lookup::{OwnBases, fit_name};
use crate::base::raw::Raw;
use crate::context::Context;
use crate::files::folder::FileId;
use crate::io::{ByteSource, SourceFile, Stamp};
use crate::once::Once;
use crate::view::{arranged, read_original};
use lmc_format::file::MAGIC;
use lmc_format::{Advice, Arrangement, Error, ErrorKind, Hash, Result};
use lmc_input::TensorInfo;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

pub use set::{BaseSet, Library};

/// The largest depth of a base chain.
const DEPTH_MAX: usize = 64;

/// A checkpoint that others are coded against.
#[derive(Debug)]
pub struct Base {
    name: String,
    /// Where it was found.
    pub(crate) path: String,
    content: Content,
    pub(crate) stamp: Option<Stamp>,
    /// For work that is not handed another one.
    context: Context,
    hash: Once<Hash>,
    tensors: Once<Vec<TensorInfo>>,
    /// The depth of the base chain from here down, in `.lmc` files.
    height: OnceLock<usize>,
    /// For samples, and for reads when something is coded against it. Samples decode more bytes
    /// than they contain: all of them together may cost as much as a restore.
    pub(crate) budget: Budget,
}

#[derive(Debug)]
enum Content {
    Raw(Box<Raw<'static>>),
    Archive(Box<Archive>),
}

impl Base {
    pub(crate) fn open(path: &Path, catalog: &Arc<BaseCatalog>) -> Result<Arc<Self>> {
        // Opening a pipe would block otherwise.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path);
        Self::of_file(file.map_err(|e| Error::io("cannot open it", e))?, path, catalog)
    }

    pub(crate) fn of_file(
        file: File,
        path: &Path,
        catalog: &Arc<BaseCatalog>,
    ) -> Result<Arc<Self>> {
        let kind = file.metadata().map_err(|e| Error::io("cannot access it", e))?;
        if !kind.is_file() {
            return Err(Error::invalid("is not a regular file"));
        }
        let folder = path.parent().map(Path::to_path_buf);
        Self::new(ByteSource::File(SourceFile::Owned(file)), path, folder, catalog)
    }

    pub(crate) fn new(
        source: ByteSource<'static>,
        path: &Path,
        folder: Option<PathBuf>,
        catalog: &Arc<BaseCatalog>,
    ) -> Result<Arc<Self>> {
        let (len, stamp) = (source.len()?, source.stamp()?);
        let start = source.read_vec(0, len.min(MAGIC.len() as u64))?;
        let mut name = path.file_name().map_or("base".into(), |name| name.to_string_lossy());
        let content = if start == MAGIC {
            if let Some(stem) = name.strip_suffix(".lmc").filter(|stem| !stem.is_empty()) {
                name = stem.to_string().into();
            }
            Content::Archive(Box::new(Archive::new(source, OwnBases::of_base(folder, catalog))?))
        } else {
            Content::Raw(Box::new(Raw::new(source)?))
        };
        let context = catalog.context.clone();
        let (hash, tensors) = (Once::default(), Once::default());
        let (name, path) = (fit_name(&name), path.display().to_string());
        let height = OnceLock::new();
        let budget = match &content {
            Content::Raw(_) => Budget::new(0, 0, &context),
            Content::Archive(archive) => archive.budget(&context),
        };
        Ok(Arc::new(Self { name, path, content, stamp, context, hash, tensors, height, budget }))
    }

    /// The name of its original.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a `.lmc` archive.
    pub fn is_archive(&self) -> bool {
        matches!(self.content, Content::Archive(_))
    }

    /// A text that changes when the file is written to or another one takes its place; none for
    /// what is not a file.
    pub fn version(&self) -> Option<String> {
        self.stamp.map(|stamp| format!("{stamp:?}"))
    }

    /// Bytes of its original.
    pub fn original_len(&self) -> u64 {
        match &self.content {
            Content::Raw(raw) => raw.len,
            Content::Archive(archive) => archive.original_len(),
        }
    }

    /// The content hash of its original. A file that is not a `.lmc` is read in full for it, the
    /// first time.
    pub fn content_hash(&self) -> Result<u128> {
        self.content_hash_in(&self.context)
    }

    pub(crate) fn content_hash_in(&self, context: &Context) -> Result<u128> {
        let hash = || match &self.content {
            Content::Raw(raw) => raw.hash(context),
            Content::Archive(archive) => Ok(archive.content_hash()),
        };
        self.hash.get(hash).copied().map_err(|e| e.at(&self.path))
    }

    /// The order in which the bytes of its original are counted here.
    pub(crate) fn order(&self) -> Result<&Arrangement> {
        match &self.content {
            Content::Raw(raw) => Ok(&raw.examined().map_err(|e| e.at(&self.path))?.input.order),
            Content::Archive(archive) => Ok(&archive.index.order),
        }
    }

    /// The tensors of its original, with their arranged positions, in the order of their bytes.
    pub fn tensors(&self) -> Result<&[TensorInfo]> {
        let tensors = || match &self.content {
            Content::Raw(raw) => Ok(raw.examined()?.input.tensors()),
            Content::Archive(archive) => archive.item_tensors(),
        };
        let tensors = self.tensors.get(tensors).map_err(|e| e.at(&self.path))?;
        Ok(tensors)
    }

    /// The layout of its original, in arranged order. If that has tensors, they are all items but
    /// the first.
    pub fn layout(&self) -> Result<lmc_input::FileLayout> {
        match &self.content {
            Content::Raw(raw) => Ok(raw.examined()?.input.layout.clone()),
            Content::Archive(archive) => archive.layout(),
        }
        .map_err(|e| e.at(&self.path))
    }

    /// Fills `out` with the arranged bytes of its original from `start` on; fails if they are not
    /// the ones that its content hash was computed from.
    pub(crate) fn read(&self, start: u64, out: &mut [u8], effort: Effort) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.read(start, out),
            Content::Archive(_) if effort.depth > DEPTH_MAX => Err(too_deep()),
            Content::Archive(archive) => archive.read_into(start, out, effort),
        }
        .map_err(|e| self.named(e, effort.depth))
    }

    /// The same with the bytes counted in another order.
    pub(crate) fn read_in(
        &self,
        order: &Arrangement,
        start: u64,
        out: &mut [u8],
        effort: Effort,
    ) -> Result<()> {
        let own = self.order()?;
        if order.is_same(own) {
            return self.read(start, out, effort);
        }
        let mut rest = out;
        for piece in order.pieces(start..start + rest.len() as u64) {
            // A file that is not an archive reads and hashes more than the piece.
            effort.look(1)?;
            let (to, after) = rest.split_at_mut((piece.end - piece.start) as usize);
            read_original(own, piece.start, to, |at, out| self.read(at, out, effort))?;
            rest = after;
        }
        Ok(())
    }

    /// [`Self::read`] for callers that are not restoring: the budget grows with each request.
    pub(crate) fn read_alone(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.budget.extend(out.len() as u64, 1);
        self.read(start, out, self.budget.effort().deeper())
    }

    /// The `len` arranged bytes of its original from `start` on, if they are contiguous in memory.
    pub(crate) fn bytes(&self, start: u64, len: u64) -> Result<Option<&[u8]>> {
        match &self.content {
            Content::Raw(raw) => raw.bytes(start, len).map_err(|e| self.named(e, 1)),
            Content::Archive(_) => Ok(None),
        }
    }

    /// Fills `out` with the arranged bytes of its original from `start` on, for callers that only
    /// choose or show something: a write to the file in the meantime goes unnoticed.
    pub fn sample(&self, start: u64, out: &mut [u8]) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.sample(start, out).map_err(|e| self.named(e, 1)),
            Content::Archive(_) => self.read_alone(start, out),
        }
    }

    /// The same with the bytes in their own order.
    pub(crate) fn sample_original(&self, start: u64, out: &mut [u8]) -> Result<()> {
        read_original(self.order()?, start, out, |at, out| self.sample(at, out))
    }

    /// The content hash that archives without an arrangement have for its original, if that is
    /// another one.
    pub(crate) fn old_hash(&self, context: &Context) -> Result<Option<Hash>> {
        match &self.content {
            Content::Raw(raw) => raw.old_hash(context).map_err(|e| e.at(&self.path)),
            Content::Archive(_) => Ok(None),
        }
    }

    /// [`Self::cost`] with the bytes counted in another order.
    pub(crate) fn cost_in(
        &self,
        order: &Arrangement,
        range: Range<u64>,
        depth: usize,
        cost: &mut Cost,
    ) -> Result<()> {
        let own = self.order()?;
        if order.is_same(own) {
            return self.cost(range, depth, cost);
        }
        for piece in order.pieces(range) {
            for part in arranged(own, piece).into_iter().filter(|part| !part.is_empty()) {
                if cost.is_too_much() {
                    return Ok(());
                }
                self.cost(part, depth, cost)?;
            }
        }
        Ok(())
    }

    /// Adds up what decoders will write to read the arranged bytes `range` of its original.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.cost(range, depth, cost),
            Content::Archive(_) if depth > DEPTH_MAX => Err(too_deep()),
            Content::Archive(archive) => archive.cost(range, depth, cost),
        }
        .map_err(|e| self.named(e, depth))
    }

    /// Fails if the file was written to since it was opened. Archives need no check: their pieces
    /// have their own checksums.
    pub fn check_unchanged(&self) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.source.check_unchanged(self.stamp),
            Content::Archive(_) => Ok(()),
        }
        .map_err(|e| e.at(format_args!("base {}", self.path)))
    }

    /// What is known of it, to tell whether it is a base, without reading a file that is not a
    /// `.lmc`.
    pub(crate) fn seen(&self) -> Seen {
        let hash = match &self.content {
            Content::Raw(_) => None,
            Content::Archive(archive) => Some(archive.content_hash()),
        };
        let on = self.bases().iter().map(|base| base.hash).collect();
        Seen { len: self.original_len(), hash, old_hash: None, on }
    }

    /// The bases that it names.
    pub(crate) fn bases(&self) -> &[lmc_format::BaseId] {
        match &self.content {
            Content::Raw(..) => &[],
            Content::Archive(archive) => archive.bases(),
        }
    }

    /// The depth of the base chain from here down, in `.lmc` files. Fails unless everything that it
    /// needs is there, and if the chain is too deep with the `depth` files above this one. A base
    /// that many files need is looked into once: there can be more paths through the bases than
    /// could ever be followed.
    pub(crate) fn height(&self, depth: usize, context: &Context) -> Result<usize> {
        let Content::Archive(archive) = &self.content else { return Ok(0) };
        let height = match self.height.get() {
            Some(&height) => Ok(height),
            None if depth > DEPTH_MAX => Err(too_deep()),
            None => {
                archive.height(depth, context).map(|below| *self.height.get_or_init(|| below + 1))
            }
        };
        let fits = height.and_then(|height| match depth + height > DEPTH_MAX + 1 {
            true => Err(too_deep()),
            false => Ok(height),
        });
        fits.map_err(|e| self.named(e, depth))
    }

    /// Its own bases, as far as any of its spans refers to them.
    pub(crate) fn needed(&self) -> Result<Vec<&Base>> {
        match &self.content {
            Content::Raw(..) => Ok(Vec::new()),
            Content::Archive(archive) => archive.needed(),
        }
    }

    /// The id of the file, if it is one.
    pub(crate) fn id(&self) -> Option<FileId> {
        Some(self.stamp?.id)
    }

    /// Adds the name of the base to an error. If a base chain is too deep, only the first base is
    /// named: all of them would fill a screen.
    fn named(&self, error: Error, depth: usize) -> Error {
        match error.kind {
            ErrorKind::LimitExceeded if depth > 1 => error,
            _ => error.at(format_args!("base {}", self.path)),
        }
    }
}

fn too_deep() -> Error {
    let message = format!("the base chain has more than {DEPTH_MAX} files, or is a cycle");
    Error::new(ErrorKind::LimitExceeded, message).with_advice(Advice::ShortenChain)
}
