//! Looks for the bases of a file: among those that were given, and in its folder.

use crate::base::catalog::{BaseCatalog, Seen};
use crate::base::decode_cache::DecodeCache;
use crate::base::{Base, BaseSet};
use crate::context::Context;
use crate::io::Stamp;
use crate::once::Once;
use lmc_format::limits::BASE_NAME_LEN_MAX;
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The bases of a file. They are looked for when they are first needed, among those that were given
/// and in the folder of the file.
#[derive(Debug)]
pub(crate) struct OwnBases {
    folder: Option<PathBuf>,
    catalog: CatalogPointer,
    found: Vec<Once<Arc<Base>>>,
}

/// How the bases of a file reach the catalog: an archive that is read keeps it alive, and a base
/// that may be in it must not.
#[derive(Debug)]
enum CatalogPointer {
    /// Of a file that is read.
    Strong(Arc<BaseCatalog>),
    /// Of a base, which the catalog may own.
    Weak(Weak<BaseCatalog>),
}

impl OwnBases {
    /// For a file in `folder`, or in none, that `bases` were given with.
    pub(crate) fn of_file(folder: Option<PathBuf>, bases: &BaseSet) -> Self {
        let catalog = CatalogPointer::Strong(bases.catalog.clone());
        Self { folder, catalog, found: Vec::new() }
    }

    /// For a base in `folder`, or in none, that `catalog` may own.
    pub(crate) fn of_base(folder: Option<PathBuf>, catalog: &Arc<BaseCatalog>) -> Self {
        let catalog = CatalogPointer::Weak(Arc::downgrade(catalog));
        Self { folder, catalog, found: Vec::new() }
    }

    /// The catalog, unless this is a base and all sets that it was in are gone.
    fn catalog(&self) -> Option<Arc<BaseCatalog>> {
        match &self.catalog {
            CatalogPointer::Strong(catalog) => Some(catalog.clone()),
            CatalogPointer::Weak(catalog) => catalog.upgrade(),
        }
    }

    /// The cache that the file shares with its bases and with the files that need it.
    pub(crate) fn cache(&self) -> Arc<DecodeCache> {
        self.catalog().map_or_else(Arc::default, |catalog| catalog.cache.clone())
    }

    /// The context in which the given bases were opened, for work that is not handed another one.
    pub(crate) fn context(&self) -> Context {
        self.catalog().map_or_else(Context::default, |catalog| catalog.context.clone())
    }

    /// Makes room for as many bases as the file has.
    pub(crate) fn sized(mut self, count: usize) -> Self {
        self.found.resize_with(count, Once::default);
        self
    }

    /// Base `i`, which must be `wanted`.
    pub(crate) fn get(
        &self,
        i: usize,
        wanted: &lmc_format::BaseId,
        context: &Context,
    ) -> Result<&Base> {
        Ok(self.found[i].get(|| self.find(wanted, context))?)
    }

    /// The depth of the base chain from base `i` down. Fails unless the base is there, with
    /// everything that it needs.
    pub(crate) fn height(
        &self,
        i: usize,
        wanted: &lmc_format::BaseId,
        depth: usize,
        context: &Context,
    ) -> Result<usize> {
        self.get(i, wanted, context)?.height(depth + 1, context)
    }

    /// The files that were given, and for each of `wanted` one file that may be it, judging by name
    /// and length alone. That is good enough to describe them, not to read from them. Of the latter
    /// files, only one is open at a time.
    pub(crate) fn likely(&self, wanted: &[lmc_format::BaseId]) -> impl Iterator<Item = Arc<Base>> {
        let catalog = self.catalog().unwrap_or_default();
        let (mut known, mut files) = (HashSet::new(), Vec::new());
        for wanted in wanted {
            let mut paths = paths(wanted, self.folder.as_deref(), &catalog.folders, &catalog);
            let id = paths.find_map(|path| {
                let (id, seen) = catalog.glance(&path)?;
                (seen.len == wanted.len).then_some((id, path))
            });
            files.extend(id.filter(|(id, _)| known.insert(*id)).map(|(_, path)| path));
        }
        let given: Vec<Arc<Base>> = catalog.given.get().into_iter().flatten().cloned().collect();
        let opened = files.into_iter().filter_map(move |path| Base::open(&path, &catalog).ok());
        given.into_iter().chain(opened)
    }

    fn find(&self, wanted: &lmc_format::BaseId, context: &Context) -> Result<Arc<Base>> {
        let (others, damage, stopped) = (Vec::new(), None, None);
        let mut search = Search { wanted, context, others, damage, stopped };
        let catalog = self.catalog();
        for base in catalog.iter().flat_map(|catalog| catalog.given.get()).flatten() {
            if search.fits(base) {
                return Ok(base.clone());
            }
        }
        let Some(catalog) = &catalog else { return Err(search.failure()) };
        if let Some(base) = catalog.find(wanted.hash, Some(wanted.len))? {
            return Ok(base);
        }
        for path in paths(wanted, self.folder.as_deref(), &catalog.folders, catalog) {
            if let Some(base) = search.open(&path, catalog) {
                catalog.keep(wanted.hash, &base);
                return Ok(base);
            }
        }
        Err(search.failure())
    }
}

/// Where a base that was not given may be: in the same `folder` as the file, in `folders`, or in
/// the compressed directories next to that of the file. Those are listed only if all others were of
/// no use.
pub(crate) fn paths<'a>(
    wanted: &lmc_format::BaseId,
    folder: Option<&'a Path>,
    folders: &'a [PathBuf],
    catalog: &'a BaseCatalog,
) -> impl Iterator<Item = PathBuf> + use<'a> {
    let names = [wanted.name.clone(), format!("{}.lmc", wanted.name)];
    let folders = folder.into_iter().chain(folders.iter().map(PathBuf::as_path));
    let join = |folder: &Path| names.each_ref().map(|name| folder.join(name));
    let near: Vec<PathBuf> = folders.flat_map(join).collect();
    let [_, name] = names;
    let beside = move || folder.map_or_else(Vec::new, |folder| catalog.beside(folder).paths(&name));
    near.into_iter().chain(std::iter::once_with(beside).flatten())
}

/// The name by which a base is recorded and looked for: characters that a name cannot have are
/// replaced.
pub(crate) fn fit_name(name: &str) -> String {
    let fit = |c: char| if c == '/' || c.is_control() { '_' } else { c };
    let mut fitted: String = name.chars().map(fit).collect();
    while fitted.len() > BASE_NAME_LEN_MAX {
        fitted.pop();
    }
    if lmc_format::BaseId::is_name(&fitted) { fitted } else { "base".to_string() }
}

/// A search for a base, and the wrong files that were found.
struct Search<'a> {
    wanted: &'a lmc_format::BaseId,
    context: &'a Context,
    others: Vec<String>,
    damage: Option<Error>,
    /// What ended the search, if the result is unknown: an interrupt, or too many open files.
    stopped: Option<Error>,
}

impl Search<'_> {
    /// Opens a file if it may be the wanted one, and checks whether it is.
    fn open(&mut self, path: &Path, catalog: &Arc<BaseCatalog>) -> Option<Arc<Base>> {
        let shown = path.display().to_string();
        let stamp = match path.metadata() {
            Ok(metadata) => Stamp::of(&metadata),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => {
                self.failed(&shown, Error::io("cannot access it", e));
                return None;
            }
        };
        if let Some(seen) = catalog.seen(&stamp)
            && !self.is_it(&shown, &seen)
        {
            return None;
        }
        let base = Base::open(path, catalog);
        let seen = base.as_ref().map_err(Clone::clone).and_then(|base| self.look(base));
        let opened = base.as_ref().ok().and_then(|base| base.stamp);
        catalog.saw(opened.unwrap_or(stamp), &seen);
        if self.is_it(&shown, &seen) { base.ok() } else { None }
    }

    fn fits(&mut self, base: &Base) -> bool {
        let seen = self.look(base);
        self.is_it(&base.path, &seen)
    }

    /// What is known of a file, to tell whether it is the wanted one. A file that is not a `.lmc`
    /// is read in full only if nothing else rules it out.
    fn look(&self, base: &Base) -> Result<Seen> {
        let mut seen = base.seen();
        if self.difference(&seen).is_none() {
            let hash = base.content_hash_in(self.context)?;
            seen.hash = Some(hash);
            if hash != self.wanted.hash {
                seen.old_hash = base.old_hash(self.context)?;
            }
        }
        Ok(seen)
    }

    /// Why a file is not the wanted one, as far as is known.
    fn difference(&self, seen: &Seen) -> Option<String> {
        match seen.hash {
            _ if seen.len != self.wanted.len => Some(format!("has {} bytes", seen.len)),
            // This file equals its base, and may be the very file that is looking for the base
            // here.
            _ if seen.on.contains(&self.wanted.hash) => Some("needs it too".to_string()),
            _ if seen.old_hash == Some(self.wanted.hash) => None,
            Some(hash) if hash != self.wanted.hash => Some(format!("has {hash:032x}")),
            _ => None,
        }
    }

    /// Whether a file is the wanted one, as far as is known; if it is not, the reason is recorded.
    fn is_it(&mut self, path: &str, seen: &Result<Seen>) -> bool {
        match seen.as_ref().map(|seen| self.difference(seen)) {
            Ok(None) => return true,
            Ok(Some(why)) => self.others.push(format!("{path} {why}")),
            Err(e) => self.failed(path, e.clone()),
        }
        false
    }

    fn failed(&mut self, name: &str, error: Error) {
        if error.kind == ErrorKind::Interrupted || error.is_shortage() {
            self.stopped = Some(error);
            return;
        }
        self.others.push(format!("{name} cannot be used: {error}"));
        let is_damage = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Truncated);
        self.damage = Some(error).filter(|_| is_damage).or(self.damage.take());
    }

    fn failure(self) -> Error {
        if let Some(stopped) = self.stopped {
            return stopped;
        }
        let found = match &self.others[..] {
            [] => "it is not next to the file".to_string(),
            others => others.join(", "),
        };
        let lmc_format::BaseId { hash, len, name } = self.wanted;
        let kind = self.damage.map_or(ErrorKind::NotFound, |error| error.kind);
        let message =
            format!("base {name} of {len} bytes with content hash {hash:032x} is needed: {found}");
        Error::new(kind, message).with_advice(Advice::GiveBase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that was looked at is recognized by its stamp: it is neither opened nor hashed again
    /// for the next base that it might be, whatever its name.
    #[test]
    fn a_file_is_looked_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base");
        std::fs::write(&path, b"12345").unwrap();
        std::os::unix::fs::symlink("base", folder.path().join("other")).unwrap();
        let stamp = Stamp::of(&path.metadata().unwrap());
        let context = Context::with_threads(1);
        let hash = crate::content_hash(crate::Input::Bytes(b"12345"), &context).unwrap();
        let wanted = |name: &str, hash| lmc_format::BaseId { hash, len: 5, name: name.to_string() };
        let bases = BaseSet::default();
        let own_bases = OwnBases::of_file(Some(folder.path().to_path_buf()), &bases);
        own_bases.find(&wanted("base", 1), &context).unwrap_err();
        let seen = bases.catalog.seen(&stamp).unwrap().unwrap();
        assert_eq!(seen.hash, Some(hash));
        // The wrong record is believed: another look would show that it is wrong.
        bases.catalog.saw(stamp, &Ok(Seen { hash: Some(2), old_hash: None, ..seen }));
        for name in ["base", "other"] {
            let error = own_bases.find(&wanted(name, hash), &context).unwrap_err();
            assert!(error.to_string().contains("has 0000"), "{error}");
        }
        std::fs::write(&path, b"12346").unwrap();
        let hash = crate::content_hash(crate::Input::Bytes(b"12346"), &context).unwrap();
        own_bases.find(&wanted("base", hash), &context).unwrap();
    }
}
