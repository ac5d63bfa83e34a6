//! Path rules: what a result is called, and which files a directory holds.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// What compressed names end in.
pub const EXTENSION: &str = "lmc";

/// `-`, which stands for stdin or stdout.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// `path` with `.lmc` behind its name. Fails for `.` and `..`, which have none.
pub fn compressed(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().ok_or_else(|| Failure::new("has no name; give one with -o"))?;
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

/// Whether both names lead to one file that exists.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// What is below a directory, as paths relative to it, in the order of their names.
#[derive(Debug, Default)]
pub struct Tree {
    /// Directories, each before what is in it.
    pub dirs: Vec<PathBuf>,
    /// Regular files.
    pub files: Vec<PathBuf>,
    /// Symbolic links, pipes and the like.
    pub others: Vec<PathBuf>,
}

impl Tree {
    /// Reads the tree below `root`; follows no link.
    pub fn read(root: &Path) -> Result<Self, Failure> {
        let mut tree = Self::default();
        // A stack of our own: a deep tree must not overflow the thread's.
        let mut pending = vec![PathBuf::new()];
        while let Some(dir) = pending.pop() {
            let below = tree.read_dir(root, &dir);
            pending.extend(below.map_err(|error| {
                Failure::io(&format!("read the directory {}", root.join(&dir).display()), &error)
            })?);
        }
        tree.dirs.sort();
        tree.files.sort();
        tree.others.sort();
        Ok(tree)
    }

    /// Adds what is in `root/dir` itself, and returns the directories in it.
    fn read_dir(&mut self, root: &Path, dir: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut below = Vec::new();
        for entry in fs::read_dir(root.join(dir))? {
            let entry = entry?;
            let path = dir.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                below.push(path.clone());
                self.dirs.push(path);
            } else if kind.is_file() {
                self.files.push(path);
            } else {
                self.others.push(path);
            }
        }
        Ok(below)
    }
}

/// The `.lmc` files that `paths` name: files as they are, directories by what is in them.
/// A directory that cannot be read or holds none stays in the list, to fail where its turn comes.
pub fn archives(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        match Tree::read(path) {
            Ok(tree) if path.is_dir() && tree.files.iter().any(|file| is_compressed(file)) => {
                let files = tree.files.iter().filter(|file| is_compressed(file));
                found.extend(files.map(|file| path.join(file)));
            }
            _ => found.push(path.clone()),
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
