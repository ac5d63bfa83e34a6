//! Rules for paths: the names of results, and which files a directory holds.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lmc::{Archive, BaseSet, FileKind, FileState, Links, Tree, TreeEntry};

use crate::exit::Failure;

/// The extension of compressed files.
pub const EXTENSION: &str = "lmc";

/// Whether a path is `-`, which means stdin or stdout.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// `path` with `.lmc` after its name. Fails for `.` and `..`, which have no name, and if the name
/// would become too long.
pub fn compressed(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().ok_or_else(|| Failure::new("has no name; give one with -o"))?;
    if !lmc::has_room(path) {
        return Err(Failure::new("its name is too long to add .lmc; give another one with -o"));
    }
    let mut name = OsString::from(name);
    name.push(".");
    name.push(EXTENSION);
    Ok(path.with_file_name(name))
}

/// `path` without `.lmc`. Fails if it does not end in that.
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

/// Whether both paths lead to the same existing file.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    match (FileState::at(a), FileState::at(b)) {
        (Ok(a), Ok(b)) => a.id == b.id,
        _ => false,
    }
}

/// The path that all names of a file resolve to, even if the file does not exist yet.
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

/// The `.lmc` files that a command line names: files directly, directories by their contents.
pub struct Archives {
    /// All of them. A directory that cannot be read or holds no such file is also listed, and fails
    /// later.
    pub paths: Vec<PathBuf>,
    /// Those in directories: the file that is opened must be the one that was listed.
    listed: HashMap<PathBuf, (Rc<Tree>, TreeEntry)>,
}

impl Archives {
    /// Lists all directories among `paths`.
    pub fn list(paths: &[PathBuf]) -> Self {
        let mut found = Self { paths: Vec::new(), listed: HashMap::new() };
        for path in paths {
            let before = found.paths.len();
            if let Ok(tree) = Tree::read(path, Links::Kept) {
                found.add(&Rc::new(tree));
            }
            if found.paths.len() == before {
                found.paths.push(path.clone());
            }
        }
        found
    }

    fn add(&mut self, tree: &Rc<Tree>) {
        let is_archive = |entry: &&TreeEntry| {
            entry.state.kind == FileKind::File && lmc::original_path(&entry.path).is_some()
        };
        for entry in tree.entries().iter().filter(is_archive) {
            let path = tree.path().join(&entry.path);
            self.listed.insert(path.clone(), (tree.clone(), entry.clone()));
            self.paths.push(path);
        }
    }

    /// Opens one of them.
    pub fn open(&self, path: &Path, bases: &BaseSet) -> lmc::Result<Archive> {
        match self.listed.get(path) {
            Some((tree, entry)) => {
                let file = tree.open(&entry.path, &entry.state)?;
                Archive::from_file(file, path.parent(), bases)
            }
            None => Archive::open_on(path, bases),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name can be recovered from its compressed form; names without a stem or suffix are
    /// refused.
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

    /// If a file in a directory is replaced after the directory was listed, it is not opened,
    /// whether the replacement is a pipe that would block or a link to another file.
    #[test]
    fn what_was_listed_is_what_is_opened() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.lmc");
        let list = || {
            std::fs::write(&path, b"no archive").expect("a file");
            let archives = Archives::list(&[dir.path().to_path_buf()]);
            assert_eq!(archives.paths, std::slice::from_ref(&path));
            std::fs::remove_file(&path).expect("a file");
            archives
        };
        let refused = |archives: Archives| {
            let error = archives.open(&path, &BaseSet::default()).expect_err("another file");
            assert_eq!(error.kind, lmc::ErrorKind::Conflict, "{error}");
            std::fs::remove_file(&path).expect("it is there");
        };
        let archives = list();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        refused(archives);
        let archives = list();
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        refused(archives);
    }
}
