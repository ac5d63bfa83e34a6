//! Path rules: what a result is called, and which files a directory holds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lmc::{FileKind, FileState, Links, Tree};

use crate::exit::Failure;

/// What compressed names end in.
pub const EXTENSION: &str = "lmc";

/// `-`, which stands for stdin or stdout.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// `path` with `.lmc` behind its name. Fails for `.` and `..`, which have none, and where there is no
/// room for it.
pub fn compressed(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().ok_or_else(|| Failure::new("has no name; give one with -o"))?;
    if !lmc::has_room(path) {
        return Err(Failure::new("its name has no room for .lmc; give another one with -o"));
    }
    let mut name = OsString::from(name);
    name.push(".");
    name.push(EXTENSION);
    Ok(path.with_file_name(name))
}

/// `path` without `.lmc`. Fails where it does not end so.
pub fn restored(path: &Path) -> Result<PathBuf, Failure> {
    if !is_compressed(path) {
        return Err(Failure::new("does not end in .lmc; give the name of the output with -o"));
    }
    Ok(path.with_extension(""))
}

/// Whether the name ends in `.lmc`.
pub fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Whether both names lead to one file that exists, whatever they are.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (FileState::at(a), FileState::at(b)) {
        (Ok(a), Ok(b)) => a.id == b.id,
        _ => false,
    }
}

/// The path that all names of a file come to, also if it is not there yet.
pub fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match (path.file_name(), parent) {
        (Some(name), Some(parent)) => resolved(parent).join(name),
        (Some(name), None) => std::env::current_dir().unwrap_or_default().join(name),
        _ => path.to_path_buf(),
    }
}

/// The `.lmc` files that `paths` name: files as they are, directories by what is in them.
/// A directory that cannot be read or holds none stays in the list, to fail where its turn comes.
pub fn archives(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        let tree = Tree::read(path, Links::Kept);
        let entries = tree.iter().flat_map(Tree::entries);
        let files = entries.filter(|entry| {
            entry.state.kind == FileKind::File && lmc::original_path(&entry.path).is_some()
        });
        let before = found.len();
        found.extend(files.map(|file| path.join(&file.path)));
        if found.len() == before {
            found.push(path.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name comes back from its compressed form; names without a stem or suffix are refused.
    #[test]
    fn names_there_and_back() {
        for name in ["a", "a.b", "dir/model.safetensors", "a.lmc", "dir/", ".hidden"] {
            let longer = compressed(Path::new(name)).expect("has a name");
            assert_eq!(restored(&longer).expect("ends in .lmc"), Path::new(name), "{name}");
        }
        assert_eq!(compressed(Path::new("d/x")).expect("has a name"), Path::new("d/x.lmc"));
        assert!(compressed(Path::new("..")).is_err());
        for name in ["a", ".lmc", "a.lmcx", "lmc"] {
            assert!(restored(Path::new(name)).is_err(), "{name}");
        }
    }
}
