//! Which of the files and directories given with --base belong to a file.

use std::path::{Path, PathBuf};

use lmc::Archive;
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::names;

/// The location of a file whose bases are looked for.
#[derive(Clone, Copy, Debug)]
pub enum InputLocation<'a> {
    /// Standard input, which has no location.
    Stdin,
    /// A file that was named directly.
    File(&'a Path),
    /// A file in a directory that was named, as the path within it.
    InTree(&'a Path),
}

/// The location of a file that was found through `names`, which are files and directories.
pub fn location<'a>(path: &'a Path, names: &[PathBuf]) -> InputLocation<'a> {
    let within =
        names.iter().filter(|name| name.is_dir()).find_map(|dir| path.strip_prefix(dir).ok());
    within.map_or(InputLocation::File(path), InputLocation::InTree)
}

/// The files to compress a file against. From a directory, it is the file of the same name, raw or
/// .lmc. A file within a directory need not have one.
pub fn to_compress(given: &[PathBuf], location: InputLocation) -> Result<Vec<PathBuf>, Failure> {
    let mut bases = Vec::new();
    for path in given {
        if !path.is_dir() {
            bases.push(path.clone());
            continue;
        }
        let relative = match location {
            InputLocation::Stdin => {
                return Err(Failure::new("stdin has no name; --base must be a file"));
            }
            InputLocation::File(file) => file.file_name().map(Path::new).unwrap_or(file),
            InputLocation::InTree(file) => file,
        };
        let raw = path.join(relative);
        let found = [names::compressed(&raw)?, raw].into_iter().rev().find(|base| base.is_file());
        match (found, location) {
            (Some(base), _) => bases.push(base),
            (None, InputLocation::InTree(_)) => {}
            (None, _) => {
                let (dir, name) = (path.display(), relative.display());
                return Err(Failure::new(format!("base {dir} has no file {name}; name a file")));
            }
        }
    }
    Ok(bases)
}

/// The files and directories in which the bases of a .lmc file are looked for.
pub fn to_restore(given: &[PathBuf], location: InputLocation) -> Vec<PathBuf> {
    let below = match location {
        InputLocation::InTree(file) => {
            file.parent().filter(|parent| !parent.as_os_str().is_empty())
        }
        _ => None,
    };
    let base = |path: &PathBuf| match below {
        Some(below) if path.is_dir() => Some(path.join(below)).filter(|dir| dir.is_dir()),
        _ => Some(path.clone()),
    };
    given.iter().filter_map(base).collect()
}

/// The bases that a file names.
pub fn json(archive: &Archive) -> Value {
    let base = |base: &lmc_format::BaseId| {
        let hash = format!("{:032x}", base.hash);
        json!({"name": base.name, "bytes": base.len, "content_hash": hash})
    };
    archive.bases().iter().map(base).collect()
}
