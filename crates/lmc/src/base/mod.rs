//! Bases: checkpoints that others are coded against. They are opened, identified by their content,
//! and read in parts.
//!
//! A base is any file, or a `.lmc` file, which represents its original and may have bases of its
//! own. A base is requested by its content hash, and one with another hash is refused.

pub(crate) mod convert;
pub(crate) mod dependencies;
pub(crate) mod effort;
pub(crate) mod lookup;
pub(crate) mod needed;
pub(crate) mod raw;
pub(crate) mod recent;
pub(crate) mod reference;
pub(crate) mod shelf;
pub(crate) mod witness;

use crate::archive::Archive;
use crate::base::effort::{Budget, Cost, Effort};
use crate::base::lookup::{Given, Links, fit_name};
use crate::base::raw::Raw;
use crate::base::shelf::{Seen, Shelf};
use crate::context::Context;
use crate::files::folder::FileId;
use crate::io::{ReadAt, Source, SourceFile, Stamp};
use crate::once::Once;
use lmc_format::file::MAGIC;
use lmc_format::{Advice, Error, ErrorKind, Hash, Result};
use lmc_input::Tensor;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

/// The largest depth of a base chain.
const DEPTH_MAX: usize = 64;

/// A place where archives are found by the content of their originals, such as a store.
pub trait Library: Send + Sync + fmt::Debug {
    /// The archive of the original with this content hash, and its name, if there is one.
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>>;
}

/// Files to code against, or to search for bases.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    pub(crate) shelf: Arc<Shelf>,
    /// Whether a file names all of them, even those that it does not need.
    is_named: bool,
}

impl Bases {
    /// Opens the files at `paths`. Directories among them are searched for bases by name. The files
    /// are read in `context`, unless the reader has another one.
    pub fn open<P: AsRef<Path>>(paths: &[P], context: &Context) -> Result<Self> {
        Self::open_with(paths, Vec::new(), context)
    }

    /// The same, followed by files that are already open, with the paths where they were found.
    pub fn open_with<P: AsRef<Path>>(
        paths: &[P],
        opened: Vec<(PathBuf, File)>,
        context: &Context,
    ) -> Result<Self> {
        let paths = paths.iter().map(|path| path.as_ref().to_path_buf());
        let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.partition(|path| path.is_dir());
        Self::fill(folders, None, context, |shelf| {
            let named = files.iter().map(|path| Self::open_file(path, shelf));
            let opened = opened.into_iter().map(|(path, file)| Self::of_file(file, &path, shelf));
            named.chain(opened).collect()
        })
    }

    /// Files that are in memory, with their names.
    pub fn from_bytes(files: Vec<(String, Vec<u8>)>, context: &Context) -> Result<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, Source::Owned(bytes)));
        Self::from_sources(files.collect(), context)
    }

    /// Files that are stored elsewhere, with their names.
    pub fn from_elsewhere(
        files: Vec<(String, Arc<dyn ReadAt>)>,
        context: &Context,
    ) -> Result<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, Source::Elsewhere(bytes)));
        Self::from_sources(files.collect(), context)
    }

    fn from_sources(files: Vec<(String, Source<'static>)>, context: &Context) -> Result<Self> {
        Self::fill(Vec::new(), None, context, |shelf| {
            let open = |(name, source): (String, Source<'static>)| {
                let named = format!("base {name}");
                Base::new(source, Path::new(&name), None, shelf).map_err(|e| e.at(named))
            };
            files.into_iter().map(open).collect()
        })
    }

    /// Archives of a library. Those with the content hashes `offered` are coded against; all others
    /// are used only where one of these needs them.
    pub fn from_library(
        library: Arc<dyn Library>,
        offered: &[u128],
        context: &Context,
    ) -> Result<Self> {
        Self::from_library_and_files(library, offered, Vec::new(), context)
    }

    /// The same, followed by files that are already open, with the paths where they were found.
    pub fn from_library_and_files(
        library: Arc<dyn Library>,
        offered: &[u128],
        opened: Vec<(PathBuf, File)>,
        context: &Context,
    ) -> Result<Self> {
        Self::fill(Vec::new(), Some(library), context, |shelf| {
            let strong = shelf.upgrade();
            let find = |&hash: &u128| {
                let found = strong.as_ref().map_or(Ok(None), |own| own.find(hash, None, shelf))?;
                found.ok_or_else(|| {
                    let message = format!("no archive with content hash {hash:032x}");
                    Error::new(ErrorKind::NotFound, message)
                })
            };
            let opened = opened.into_iter().map(|(path, file)| Self::of_file(file, &path, shelf));
            offered.iter().map(find).chain(opened).collect()
        })
    }

    fn open_file(path: &Path, shelf: &Weak<Shelf>) -> Result<Arc<Base>> {
        Base::open(path, shelf).map_err(|e| e.at(format_args!("base {}", path.display())))
    }

    fn of_file(file: File, path: &Path, shelf: &Weak<Shelf>) -> Result<Arc<Base>> {
        let base = Base::of_file(file, path, shelf);
        base.map_err(|e| e.at(format_args!("base {}", path.display())))
    }

    /// Lets the bases find each other without owning each other.
    fn fill(
        folders: Vec<PathBuf>,
        library: Option<Arc<dyn Library>>,
        context: &Context,
        open: impl FnOnce(&Weak<Shelf>) -> Result<Vec<Arc<Base>>>,
    ) -> Result<Self> {
        let shelf = Arc::new(Shelf::new(folders, library, context.unwatched()));
        let given = open(&Arc::downgrade(&shelf))?;
        shelf.given.get_or_init(|| given);
        Ok(Self { shelf, is_named: false })
    }

    /// The same, but an archive that is compressed against them names each of them, even if
    /// restoring the original does not need it. [`Archive::check_named_bases`] can then tell
    /// whether they are there.
    pub fn named(self) -> Self {
        Self { is_named: true, ..self }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Fails if one of the opened files has been written to since.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.shelf.open().iter().try_for_each(|base| base.check_unchanged())
    }

    /// The budgets for coding against each of them.
    pub(crate) fn budgets(&self) -> Vec<&Budget> {
        self.list().iter().map(|base| &base.budget).collect()
    }

    /// The bases that were given, in their order.
    pub fn list(&self) -> &[Arc<Base>] {
        self.shelf.given.get().map_or(&[], |given| given)
    }
}

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
    tensors: Once<Vec<Tensor>>,
    /// The depth of the base chain from here down, in `.lmc` files.
    height: OnceLock<usize>,
    /// For samples, and for reads when something is coded against it. Samples decode more bytes
    /// than they contain: all of them together may cost as much as a restore.
    budget: Budget,
}

#[derive(Debug)]
enum Content {
    Raw(Box<Raw<'static>>),
    Archive(Box<Archive>),
}

impl Base {
    pub(crate) fn open(path: &Path, shelf: &Weak<Shelf>) -> Result<Arc<Self>> {
        // Opening a pipe would block otherwise.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(path);
        Self::of_file(file.map_err(|e| Error::io("cannot open it", e))?, path, shelf)
    }

    fn of_file(file: File, path: &Path, shelf: &Weak<Shelf>) -> Result<Arc<Self>> {
        let kind = file.metadata().map_err(|e| Error::io("cannot access it", e))?;
        if !kind.is_file() {
            return Err(Error::invalid("is not a regular file"));
        }
        let folder = path.parent().map(Path::to_path_buf);
        Self::new(Source::File(SourceFile::Owned(file)), path, folder, shelf)
    }

    pub(crate) fn new(
        source: Source<'static>,
        path: &Path,
        folder: Option<PathBuf>,
        shelf: &Weak<Shelf>,
    ) -> Result<Arc<Self>> {
        let (len, stamp) = (source.len()?, source.stamp()?);
        let start = source.read_vec(0, len.min(MAGIC.len() as u64))?;
        let mut name = path.file_name().map_or("base".into(), |name| name.to_string_lossy());
        let content = if start == MAGIC {
            if let Some(stem) = name.strip_suffix(".lmc").filter(|stem| !stem.is_empty()) {
                name = stem.to_string().into();
            }
            Content::Archive(Box::new(Archive::new(
                source,
                Links::new(folder, Given::Base(shelf.clone())),
            )?))
        } else {
            Content::Raw(Box::new(Raw::new(source)?))
        };
        let context = shelf.upgrade().map(|shelf| shelf.context.clone()).unwrap_or_default();
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

    /// The tensors of its original, in the order of their bytes.
    pub(crate) fn tensors(&self) -> Result<&[Tensor]> {
        let tensors = || match &self.content {
            Content::Raw(raw) => Ok(raw.known()?.looked.tensors()),
            Content::Archive(archive) => archive.original_tensors(),
        };
        let tensors = self.tensors.get(tensors).map_err(|e| e.at(&self.path))?;
        Ok(tensors)
    }

    /// The layout of its original.
    pub(crate) fn layout(&self) -> Result<lmc_input::Source> {
        match &self.content {
            Content::Raw(raw) => Ok(raw.known()?.looked.layout.clone()),
            Content::Archive(archive) => archive.layout(),
        }
        .map_err(|e| e.at(&self.path))
    }

    /// Fills `out` with the bytes of its original from `start` on; fails if they are not the ones
    /// that its content hash was computed from.
    pub(crate) fn read(&self, start: u64, out: &mut [u8], effort: Effort) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.read(start, out),
            Content::Archive(_) if effort.depth > DEPTH_MAX => Err(too_deep()),
            Content::Archive(archive) => archive.read_into(start, out, effort),
        }
        .map_err(|e| self.named(e, effort.depth))
    }

    /// The same for callers that are not restoring: the budget grows with each request.
    pub(crate) fn read_alone(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.budget.extend(out.len() as u64, 1);
        self.read(start, out, self.budget.effort().deeper())
    }

    /// The `len` bytes of its original from `start` on, if they are in memory in one place.
    pub(crate) fn bytes(&self, start: u64, len: u64) -> Result<Option<&[u8]>> {
        match &self.content {
            Content::Raw(raw) => raw.bytes(start, len).map_err(|e| self.named(e, 1)),
            Content::Archive(_) => Ok(None),
        }
    }

    /// Fills `out` for callers that only choose or show something: a write to the file in the
    /// meantime goes unnoticed.
    pub(crate) fn sample(&self, start: u64, out: &mut [u8]) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.source.read(start, out).map_err(|e| self.named(e, 1)),
            Content::Archive(_) => self.read_alone(start, out),
        }
    }

    /// Adds up what decoders will write to read the bytes `range` of its original.
    pub(crate) fn cost(&self, range: Range<u64>, depth: usize, cost: &mut Cost) -> Result<()> {
        match &self.content {
            Content::Raw(raw) => raw.cost(range, depth, cost),
            Content::Archive(_) if depth > DEPTH_MAX => Err(too_deep()),
            Content::Archive(archive) => archive.cost(range, depth, cost),
        }
        .map_err(|e| self.named(e, depth))
    }

    /// Archives need no check: their pieces have their own checksums.
    fn check_unchanged(&self) -> Result<()> {
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
        Seen { len: self.original_len(), hash, on }
    }

    /// The bases that it names.
    pub(crate) fn bases(&self) -> &[lmc_format::Base] {
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
