//! Where the bases of a file are looked for: among those that were given, and beside the file.

use crate::base::{Base, Bases};
use crate::interrupt::Once;
use crate::io::{Stamp, io_error};
use crate::recent::Desk;
use crate::shelf::{Seen, Shelf};
use lmc_format::limits::BASE_NAME_LEN_MAX;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
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

    /// What the file shares with those that it is on, and that are on it.
    pub(crate) fn desk(&self) -> Arc<Desk> {
        let shelf = self.given.shelf().upgrade();
        shelf.map_or_else(Arc::default, |shelf| shelf.desk.clone())
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

    /// How many files stand one on the other from base `i` down; fails unless it is there, and all
    /// that it needs.
    pub(crate) fn height(
        &self,
        i: usize,
        wanted: &lmc_format::Base,
        depth: usize,
    ) -> Result<usize> {
        self.get(i, wanted)?.height(depth + 1)
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
        let compressed = match (&self.folder, shelf) {
            (Some(folder), Some(shelf)) => shelf.beside(folder),
            _ => Arc::default(),
        };
        near.chain(compressed.iter().map(|folder| folder.join(&names[1]))).collect()
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
        let Some(shelf) = &shelf else { return Err(search.failure()) };
        if let Some(base) = shelf.find(wanted.hash, Some(wanted.len), &weak)? {
            return Ok(base);
        }
        for path in self.paths(wanted, Some(shelf)) {
            if let Some(base) = search.open(&path, shelf, &weak) {
                shelf.keep(wanted.hash, &base);
                return Ok(base);
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

/// The same folder in the other compressed directories beside one, in the order of their names: files
/// of the same name in them may be older versions of those in it.
pub(crate) fn beside(folder: &Path) -> Vec<PathBuf> {
    let is_compressed = |path: &Path| path.extension().is_some_and(|ending| ending == "lmc");
    let Ok(folder) = folder.canonicalize() else { return Vec::new() };
    let mut found = Vec::new();
    for own in folder.ancestors().filter(|path| is_compressed(path)) {
        let (Some(above), Ok(below)) = (own.parent(), folder.strip_prefix(own)) else { continue };
        let entries = std::fs::read_dir(above).into_iter().flatten().flatten();
        let others = entries.map(|entry| entry.path()).filter(|path| path != own);
        let mut others: Vec<PathBuf> =
            others.filter(|path| is_compressed(path) && path.is_dir()).collect();
        others.sort();
        found.extend(others.into_iter().map(|other| other.join(below)));
    }
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
    /// Opens a file if it is the one, as far as is known, and looks whether it is.
    fn open(&mut self, path: &Path, shelf: &Shelf, weak: &Weak<Shelf>) -> Option<Arc<Base>> {
        let shown = path.display().to_string();
        let stamp = match path.metadata() {
            Ok(metadata) => Stamp::of(&metadata),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                self.failed(&shown, io_error("cannot look at it", &e));
                return None;
            }
        };
        if let Some(seen) = shelf.seen(&stamp)
            && !self.is_it(&shown, &seen)
        {
            return None;
        }
        let base = Base::open(path, weak);
        let seen = base.as_ref().map_err(Clone::clone).and_then(|base| self.look(base));
        let opened = base.as_ref().ok().and_then(|base| base.stamp);
        shelf.saw(opened.unwrap_or(stamp), &seen);
        if self.is_it(&shown, &seen) { base.ok() } else { None }
    }

    fn fits(&mut self, base: &Base) -> bool {
        let seen = self.look(base);
        self.is_it(&base.path, &seen)
    }

    /// What tells whether a file is the one. All of one that is no `.lmc` is read only if nothing else
    /// tells that it is not.
    fn look(&self, base: &Base) -> Result<Seen> {
        let (len, on) = (base.original_len(), base.bases().iter().map(|base| base.hash).collect());
        let mut seen = Seen { len, hash: None, on };
        if self.difference(&seen).is_none() {
            seen.hash = Some(base.content_hash()?);
        }
        Ok(seen)
    }

    /// Why a file is not the one, as far as is known.
    fn difference(&self, seen: &Seen) -> Option<String> {
        match seen.hash {
            _ if seen.len != self.wanted.len => Some(format!("has {} bytes", seen.len)),
            // A file that is the same as its base, and may be the very one that looks for it here.
            _ if seen.on.contains(&self.wanted.hash) => Some("needs it too".to_string()),
            Some(hash) if hash != self.wanted.hash => Some(format!("has {hash:032x}")),
            _ => None,
        }
    }

    /// Whether a file is the one, as far as is known; takes note of why it is not.
    fn is_it(&mut self, path: &str, seen: &Result<Seen>) -> bool {
        match seen.as_ref().map(|seen| self.difference(seen)) {
            Ok(None) => return true,
            Ok(Some(why)) => self.others.push(format!("{path} {why}")),
            Err(e) => self.failed(path, e.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that was looked at once is known by its stamp: it is neither opened nor hashed again for
    /// the next base that it might be, under whatever name.
    #[test]
    fn a_file_is_looked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        std::fs::write(&path, b"12345").unwrap();
        std::os::unix::fs::symlink("base", folder.path().join("other")).unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        let hash = crate::content_hash(crate::Input::Bytes(b"12345"), 1).unwrap();
        let wanted = |name: &str, hash| lmc_format::Base { hash, len: 5, name: name.to_string() };
        let bases = Bases::default();
        let links = Links::with(Some(folder.path().to_path_buf()), &bases);
        links.find(&wanted("base", 1)).unwrap_err();
        let seen = bases.shelf.seen(&stamp).unwrap().unwrap();
        assert_eq!(seen.hash, Some(hash));
        // It is believed: another look would tell that this is wrong.
        bases.shelf.saw(stamp, &Ok(Seen { hash: Some(2), ..seen }));
        for name in ["base", "other"] {
            let error = links.find(&wanted(name, hash)).unwrap_err();
            assert!(error.to_string().contains("has 0000"), "{error}");
        }
        std::fs::write(&path, b"12346").unwrap();
        let hash = crate::content_hash(crate::Input::Bytes(b"12346"), 1).unwrap();
        links.find(&wanted("base", hash)).unwrap();
    }
}
