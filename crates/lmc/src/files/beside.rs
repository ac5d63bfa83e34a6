//! The compressed directories next to one: files of the same name in them may be older versions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Most directories next to a compressed one that are looked into.
const BESIDE_MAX: usize = 1024;

/// The contents of the same folder in the compressed directories next to one, as they were listed.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    folders: Vec<PathBuf>,
    /// For each name of a `.lmc`, the folders that have it.
    names: HashMap<OsString, Vec<usize>>,
}

impl Beside {
    /// Lists the directories next to `folder`, each of them once.
    pub(crate) fn of(folder: &Path) -> Self {
        let folders = folders(folder);
        let mut names: HashMap<OsString, Vec<usize>> = HashMap::new();
        for (i, folder) in folders.iter().enumerate() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                if is_compressed(&entry.path()) {
                    names.entry(entry.file_name()).or_default().push(i);
                }
            }
        }
        Self { folders, names }
    }

    /// The files of this name, in the order of their directories.
    pub(crate) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let folders = self.names.get(OsString::from(name).as_os_str()).into_iter().flatten();
        folders.map(|&i| self.folders[i].join(name)).collect()
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "lmc")
}

/// The same folder in the other compressed directories next to one, in the order of their names.
fn folders(folder: &Path) -> Vec<PathBuf> {
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
