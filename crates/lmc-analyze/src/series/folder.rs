//! The files below a directory. Links are not followed, and nothing is opened.

use super::{Checkpoint, names};
use crate::report::Skipped;
use lmc::{BaseSet, Error, FileKind, Folder, Links};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Deepest nesting of folders.
const DEPTH_MAX: usize = 100;

/// All files below a directory, sorted by their paths.
#[derive(Debug)]
pub(super) struct Listing {
    root: PathBuf,
    pub files: Vec<Listed>,
    /// The folders that were descended into.
    inner: PathBuf,
}

/// A file.
#[derive(Debug)]
pub(super) struct Listed {
    /// Where it is below the directory.
    path: PathBuf,
    /// The names on the way, as text.
    pub parts: Vec<String>,
}

/// A file or folder of one folder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub is_folder: bool,
    /// Whether names say that it holds tensors.
    pub has_tensors: bool,
}

impl Listing {
    /// Lists a directory. Says what is left out.
    pub(super) fn read(root: &Path, skipped: &mut Vec<Skipped>) -> Self {
        let mut listing =
            Self { root: root.to_path_buf(), files: Vec::new(), inner: PathBuf::new() };
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            let path = root.join(&folder);
            let listed = Folder::open(&path).and_then(|open| Ok((open.names()?, open)));
            let (names, opened) = match listed {
                Ok(listed) => listed,
                Err(error) => {
                    let error = Error::io("cannot list it", error);
                    skipped.push(Skipped::of_error(&path.display().to_string(), &error));
                    continue;
                }
            };
            for name in names.iter().filter(|name| !names::is_hidden(&name.to_string_lossy())) {
                let at = folder.join(name);
                match opened.look(name, Links::Kept).map(|state| state.kind) {
                    Ok(FileKind::File) => listing.files.push(Listed::new(at)),
                    Ok(FileKind::Folder) if at.components().count() < DEPTH_MAX => open.push(at),
                    Ok(FileKind::Link) if listing.leads_inside(&at) => {}
                    other => {
                        let why = match other {
                            Ok(FileKind::Link) => "is a link, which is not followed".to_string(),
                            Ok(FileKind::Folder) => "is nested too deeply".to_string(),
                            Err(error) => format!("cannot access it: {error}"),
                            _ => "is not a regular file".to_string(),
                        };
                        skipped.push(Skipped::new(root.join(at).display().to_string(), why));
                    }
                }
            }
        }
        listing.files.sort_by(|a, b| a.path.cmp(&b.path));
        listing
    }

    /// Whether a link is a second name for something that is listed anyway, such as `latest`.
    fn leads_inside(&self, link: &Path) -> bool {
        let target = self.root.join(link).canonicalize();
        let root = self.root.canonicalize();
        matches!((target, root), (Ok(target), Ok(root)) if target.starts_with(&root))
    }

    /// The names in the folder that was descended into `depth` times.
    pub(super) fn entries(&self, depth: usize) -> BTreeMap<String, Entry> {
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        for file in &self.files {
            let entry = entries.entry(file.parts[depth].clone()).or_default();
            entry.is_folder |= file.parts.len() > depth + 1;
            entry.has_tensors |= file.parts.last().is_some_and(|name| names::holds_tensors(name));
        }
        entries
    }

    /// Descends into a folder: forgets everything else.
    pub(super) fn keep(&mut self, depth: usize, name: &str) {
        self.files.retain(|file| file.parts[depth] == name && file.parts.len() > depth + 1);
        let first = self.files.first().and_then(|file| file.path.components().nth(depth));
        self.inner.extend(first);
    }

    /// The folder that was descended into `depth` times.
    pub(super) fn path(&self, depth: usize) -> PathBuf {
        self.root.join(self.inner.components().take(depth).collect::<PathBuf>())
    }

    /// The folders here that are series themselves.
    pub(super) fn series_below(&self, depth: usize) -> Vec<String> {
        let mut below: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for file in &self.files {
            if let [folder, name, ..] = &file.parts[depth..]
                && file.parts.last().is_some_and(|last| names::holds_tensors(last))
            {
                let names = below.entry(folder).or_default();
                if names.last() != Some(name) {
                    names.push(name.clone());
                }
            }
        }
        let is_series = |names: &[String]| names::steps(names).is_some();
        let found = below.into_iter().filter(|(_, names)| is_series(names));
        found.map(|(folder, _)| folder.to_string()).collect()
    }

    /// Adds a file to a checkpoint. It is opened by its name in its folder, and not if a link has
    /// taken its place.
    pub(super) fn add_to(
        &self,
        checkpoint: &mut Checkpoint,
        file: &Listed,
        depth: usize,
        bases: &[PathBuf],
    ) {
        let path = self.root.join(&file.path);
        let within = file.parts[depth..].join("/");
        let bases = bases.to_vec();
        checkpoint.add(path.display().to_string(), &within, move |context| {
            let (folder, name): (Folder, OsString) =
                Folder::open_parent(&path).map_err(|e| Error::io("cannot open it", e))?;
            let file = folder.file(&name, Links::Kept);
            let file = file.map_err(|e| Error::io("cannot open it", e))?;
            BaseSet::open_with(&bases, vec![(path.clone(), file)], context)
        });
    }
}

impl Listed {
    fn new(path: PathBuf) -> Self {
        let part = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().into_owned();
        Self { parts: path.components().map(part).collect(), path }
    }
}
