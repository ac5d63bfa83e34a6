//! Where the bases of a file are looked for: among those that were given, and beside the file.

use crate::base::{Base, Bases, Shelf};
use crate::interrupt::Once;
use lmc_format::limits::BASE_NAME_LEN_MAX;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Directories beside a compressed one that are looked into.
const BESIDE_MAX: usize = 1024;

/// The bases of a file: looked for when they are first needed, among those that were given and
/// beside the file.
#[derive(Debug)]
pub(crate) struct Links {
    folder: Option<PathBuf>,
    given: Given,
    found: Vec<Once<Arc<Base>>>,
}

/// What was given: a file keeps it alive, a base that may be part of it does not.
#[derive(Debug)]
pub(crate) enum Given {
    File(Bases),
    Base(Weak<Shelf>),
}

impl Given {
    fn shelf(&self) -> Weak<Shelf> {
        match self {
            Self::File(bases) => Arc::downgrade(&bases.shelf),
            Self::Base(shelf) => shelf.clone(),
        }
    }
}

impl Links {
    pub(crate) fn new(folder: Option<PathBuf>, given: Given) -> Self {
        Self { folder, given, found: Vec::new() }
    }

    /// For a file in `folder`, or nowhere, that `bases` were given with.
    pub(crate) fn with(folder: Option<PathBuf>, bases: &Bases) -> Self {
        Self::new(folder, Given::File(bases.clone()))
    }

    /// Makes room for as many bases as the file has.
    pub(crate) fn sized(mut self, count: usize) -> Self {
        self.found.resize_with(count, Once::default);
        self
    }

    /// Base `i`, which is to be `wanted`.
    pub(crate) fn get(&self, i: usize, wanted: &lmc_format::Base) -> Result<&Base> {
        Ok(self.found[i].get(|| self.find(wanted))?)
    }

    /// Fails unless base `i` is there, and all that it needs.
    pub(crate) fn check(&self, i: usize, wanted: &lmc_format::Base, depth: usize) -> Result<()> {
        self.get(i, wanted)?.check_bases(depth + 1)
    }

    /// Files that were given, and one that may be `wanted` by its name and length alone: good enough
    /// to tell of them, not to read from them.
    pub(crate) fn likely(&self, wanted: &[lmc_format::Base]) -> Vec<Arc<Base>> {
        let weak = self.given.shelf();
        let shelf = weak.upgrade();
        let given = shelf.iter().flat_map(|shelf| shelf.given.get()).flatten().cloned();
        // Many bases may have one name; each file is opened once.
        let mut opened: HashMap<PathBuf, Option<Arc<Base>>> = HashMap::new();
        let mut beside: Vec<Arc<Base>> = Vec::new();
        for wanted in wanted {
            for path in self.paths(wanted, shelf.as_deref()) {
                let base =
                    opened.entry(path).or_insert_with_key(|path| Base::open(path, &weak).ok());
                let Some(base) = base.as_ref() else { continue };
                if base.original_len() == wanted.len {
                    if !beside.iter().any(|other| Arc::ptr_eq(other, base)) {
                        beside.push(base.clone());
                    }
                    break;
                }
            }
        }
        given.chain(beside).collect()
    }

    /// The files that `wanted` may be: those that were given and those beside it, as far as they fit
    /// without being read.
    pub(crate) fn files(&self, wanted: &[lmc_format::Base]) -> Vec<PathBuf> {
        let weak = self.given.shelf();
        let shelf = weak.upgrade();
        let given = shelf.iter().flat_map(|shelf| shelf.given.get()).flatten();
        let given = given.filter(|base| wanted.iter().any(|wanted| base.may_be(wanted)));
        let mut files: Vec<PathBuf> = given.filter_map(|base| base.file.clone()).collect();
        // Many bases may have one name; each file is opened once.
        let mut beside: BTreeMap<PathBuf, Vec<&lmc_format::Base>> = BTreeMap::new();
        for wanted in wanted {
            for path in self.paths(wanted, shelf.as_deref()) {
                beside.entry(path).or_default().push(wanted);
            }
        }
        for (path, wanted) in beside {
            let fits = |base: Arc<Base>| wanted.iter().any(|wanted| base.may_be(wanted));
            if Base::open(&path, &weak).is_ok_and(fits) {
                files.push(path);
            }
        }
        files
    }

    /// The same, and what those may be on.
    pub(crate) fn files_below(&self, wanted: &[lmc_format::Base]) -> Vec<PathBuf> {
        with_files_below(self.files(wanted), &self.given.shelf())
    }

    /// Where a base may be that was not given.
    fn paths(&self, wanted: &lmc_format::Base, shelf: Option<&Shelf>) -> Vec<PathBuf> {
        let names = [wanted.name.clone(), format!("{}.lmc", wanted.name)];
        let folders = self.folder.iter().chain(shelf.into_iter().flat_map(|shelf| &shelf.folders));
        let near = folders.flat_map(|folder| names.iter().map(|name| folder.join(name)));
        let compressed = self.folder.iter().flat_map(|folder| beside(folder));
        near.chain(compressed.map(|folder| folder.join(&names[1]))).collect()
    }

    fn find(&self, wanted: &lmc_format::Base) -> Result<Arc<Base>> {
        let mut search = Search { wanted, others: Vec::new(), damage: None };
        let weak = self.given.shelf();
        let shelf = weak.upgrade();
        for base in shelf.iter().flat_map(|shelf| shelf.given.get()).flatten() {
            if search.fits(base) {
                return Ok(base.clone());
            }
        }
        if let Some(shelf) = &shelf
            && let Some(base) = shelf.find(wanted.hash, &weak)?
        {
            return Ok(base);
        }
        for path in self.paths(wanted, shelf.as_deref()) {
            match Base::open(&path, &weak) {
                Ok(base) if search.fits(&base) => {
                    if let Some(shelf) = &shelf {
                        shelf.found().insert(wanted.hash, base.clone());
                    }
                    return Ok(base);
                }
                Ok(_) => {}
                Err(e) if e.kind == ErrorKind::NotFound => {}
                Err(e) => search.failed(&path.display().to_string(), e),
            }
        }
        Err(search.failure())
    }
}

/// Files, and behind them those that they may be on. One is open at a time.
pub(crate) fn with_files_below(mut files: Vec<PathBuf>, shelf: &Weak<Shelf>) -> Vec<PathBuf> {
    let mut known: HashSet<PathBuf> = files.iter().cloned().collect();
    let mut next = 0;
    while let Some(path) = files.get(next) {
        let below = Base::open(path, shelf).map(|base| base.files()).unwrap_or_default();
        files.extend(below.into_iter().filter(|path| known.insert(path.clone())));
        next += 1;
    }
    files
}

/// The other directories beside a compressed one that are compressed too, in the order of their
/// names: files of the same name in them may be older versions of those in it.
fn beside(folder: &Path) -> Vec<PathBuf> {
    let is_compressed = |path: &Path| path.extension().is_some_and(|ending| ending == "lmc");
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    let Some(above) = folder.parent().filter(|_| is_compressed(&folder)) else { return Vec::new() };
    let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| is_compressed(path) && *path != folder && path.is_dir()).collect();
    found.sort();
    found.truncate(BESIDE_MAX);
    found
}

/// The name by which a base is recorded and looked for: what cannot stand in one is replaced.
pub(crate) fn fit_name(name: &str) -> String {
    let fit = |c: char| if c == '/' || c.is_control() { '_' } else { c };
    let mut fitted: String = name.chars().map(fit).collect();
    while fitted.len() > BASE_NAME_LEN_MAX {
        fitted.pop();
    }
    if lmc_format::Base::is_name(&fitted) { fitted } else { "base".to_string() }
}

/// A search for a base, and what was found instead.
struct Search<'a> {
    wanted: &'a lmc_format::Base,
    others: Vec<String>,
    damage: Option<Error>,
}

impl Search<'_> {
    fn fits(&mut self, base: &Base) -> bool {
        // The length tells most files apart before anything is read.
        if base.original_len() != self.wanted.len {
            self.others.push(format!("{} has {} bytes", base.path, base.original_len()));
            return false;
        }
        // A file that is the same as its base, and may be the very one that looks for it here.
        if base.is_on(self.wanted.hash) {
            self.others.push(format!("{} needs it too", base.path));
            return false;
        }
        match base.content_hash() {
            Ok(hash) if hash == self.wanted.hash => return true,
            Ok(hash) => self.others.push(format!("{} has {hash:032x}", base.path)),
            Err(e) => self.failed(&base.path, e),
        }
        false
    }

    fn failed(&mut self, name: &str, error: Error) {
        self.others.push(format!("{name} cannot be used: {error}"));
        let is_damage = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Truncated);
        self.damage = Some(error).filter(|_| is_damage).or(self.damage.take());
    }

    fn failure(self) -> Error {
        let found = match &self.others[..] {
            [] => "it is not beside the file".to_string(),
            others => others.join(", "),
        };
        let lmc_format::Base { hash, len, name } = self.wanted;
        let kind = self.damage.map_or(ErrorKind::NotFound, |error| error.kind);
        Error::new(
            kind,
            format!(
                "base {name} of {len} bytes with content hash {hash:032x} is needed: {found}; give \
                 it with --base"
            ),
        )
    }
}
