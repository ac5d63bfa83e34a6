//! The bases of a call: files, memory, or archives of a library.

use crate::base::Base;
use crate::base::budget::Budget;
use crate::base::catalog::BaseCatalog;
use crate::context::Context;
use crate::io::{ByteSource, ReadAt};
use lmc_format::{Error, ErrorKind, Result};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place where archives are found by the content of their originals, such as a store.
pub trait Library: Send + Sync + fmt::Debug {
    /// The archive of the original with this content hash, and its name, if there is one.
    fn find(&self, hash: u128) -> Result<Option<(String, Arc<dyn ReadAt>)>>;
}

/// Files to code against, or to search for bases.
#[derive(Clone, Debug, Default)]
pub struct BaseSet {
    pub(crate) catalog: Arc<BaseCatalog>,
    /// Whether a file names all of them, even those that it does not need.
    is_named: bool,
}

impl BaseSet {
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
        Self::fill(folders, None, context, |catalog| {
            let named = files.iter().map(|path| Self::open_file(path, catalog));
            let opened = opened.into_iter().map(|(path, file)| Self::of_file(file, &path, catalog));
            named.chain(opened).collect()
        })
    }

    /// Files that are in memory, with their names.
    pub fn from_bytes(files: Vec<(String, Vec<u8>)>, context: &Context) -> Result<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, ByteSource::Owned(bytes)));
        Self::from_sources(files.collect(), context)
    }

    /// Files that are stored elsewhere, with their names.
    pub fn from_elsewhere(
        files: Vec<(String, Arc<dyn ReadAt>)>,
        context: &Context,
    ) -> Result<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, ByteSource::Elsewhere(bytes)));
        Self::from_sources(files.collect(), context)
    }

    fn from_sources(files: Vec<(String, ByteSource<'static>)>, context: &Context) -> Result<Self> {
        Self::fill(Vec::new(), None, context, |catalog| {
            let open = |(name, source): (String, ByteSource<'static>)| {
                let named = format!("base {name}");
                Base::new(source, Path::new(&name), None, catalog).map_err(|e| e.at(named))
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
        Self::fill(Vec::new(), Some(library), context, |catalog| {
            let find = |&hash: &u128| {
                catalog.find(hash, None)?.ok_or_else(|| {
                    let message = format!("no archive with content hash {hash:032x}");
                    Error::new(ErrorKind::NotFound, message)
                })
            };
            let opened = opened.into_iter().map(|(path, file)| Self::of_file(file, &path, catalog));
            offered.iter().map(find).chain(opened).collect()
        })
    }

    fn open_file(path: &Path, catalog: &Arc<BaseCatalog>) -> Result<Arc<Base>> {
        Base::open(path, catalog).map_err(|e| e.at(format_args!("base {}", path.display())))
    }

    fn of_file(file: File, path: &Path, catalog: &Arc<BaseCatalog>) -> Result<Arc<Base>> {
        let base = Base::of_file(file, path, catalog);
        base.map_err(|e| e.at(format_args!("base {}", path.display())))
    }

    /// Makes a catalog, and fills it with the bases that `open` gives.
    fn fill(
        folders: Vec<PathBuf>,
        library: Option<Arc<dyn Library>>,
        context: &Context,
        open: impl FnOnce(&Arc<BaseCatalog>) -> Result<Vec<Arc<Base>>>,
    ) -> Result<Self> {
        let catalog = Arc::new(BaseCatalog::new(folders, library, context.unwatched()));
        let given = open(&catalog)?;
        catalog.given.get_or_init(|| given);
        Ok(Self { catalog, is_named: false })
    }

    /// The same, but an archive that is compressed against them names each of them, even if
    /// restoring the original does not need it. [`crate::Archive::check_named_bases`] can then tell
    /// whether they are there.
    pub fn named(self) -> Self {
        Self { is_named: true, ..self }
    }

    pub(crate) fn is_named(&self) -> bool {
        self.is_named
    }

    /// Fails if one of the opened files has been written to since.
    pub(crate) fn check_unchanged(&self) -> Result<()> {
        self.catalog.open().iter().try_for_each(|base| base.check_unchanged())
    }

    /// The budgets for coding against each of them.
    pub(crate) fn budgets(&self) -> Vec<&Budget> {
        self.list().iter().map(|base| &base.budget).collect()
    }

    /// The bases that were given, in their order.
    pub fn list(&self) -> &[Arc<Base>] {
        self.catalog.given.get().map_or(&[], |given| given)
    }
}
