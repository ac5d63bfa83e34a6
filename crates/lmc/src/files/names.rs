//! The names of files in a directory of `.lmc` files.
//!
//! `dir/NAME` becomes `dir/NAME.lmc` there. A name that has no room for the ending becomes a
//! folder, and the name of the file in it is just the ending: `dir/NAME/.lmc`. So every tree of
//! files has names there, and each can be turned back in exactly one way.

use crate::base::lookup::fit_name;
use std::path::{Path, PathBuf};

/// Longest name in bytes.
const NAME_LEN_MAX: usize = 255;
const ENDING: &str = ".lmc";

/// Whether the name of a file has room for the ending.
pub fn has_room(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.len() + ENDING.len() <= NAME_LEN_MAX)
}

/// Whether a delta against a file can find it by name in a directory of `.lmc` files: the file is
/// in the same folder as the others there, and its name can be recorded unchanged.
pub fn is_findable(path: &Path) -> bool {
    let is_recorded = |name: &str| fit_name(name) == name;
    has_room(path) && path.file_name().is_none_or(|name| name.to_str().is_some_and(is_recorded))
}

/// The path of the `.lmc` for the file at `path`, both relative to the root of a directory.
pub fn archive_path(path: &Path) -> PathBuf {
    if !has_room(path) {
        return path.join(ENDING);
    }
    let mut path = path.as_os_str().to_os_string();
    path.push(ENDING);
    PathBuf::from(path)
}

/// The path that has its `.lmc` at `path`; none if there is no such path.
pub fn original_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    if name == ENDING {
        return path.parent().filter(|path| !path.as_os_str().is_empty()).map(Path::to_path_buf);
    }
    let is_archive = path.extension().is_some_and(|ending| ending == &ENDING[1..]);
    is_archive.then(|| path.with_extension(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of all lengths are restored, including those that end in .lmc or are just .lmc.
    #[test]
    fn there_and_back() {
        let names = ["a", "a.b", "d/a.lmc", "d/.lmc", ".hidden"].map(str::to_string);
        for name in names.into_iter().chain((249..=255).map(|len| "n".repeat(len))) {
            let archive = archive_path(Path::new(&name));
            assert_eq!(original_path(&archive).as_deref(), Some(Path::new(&name)));
            assert!(archive.iter().all(|part| part.len() <= NAME_LEN_MAX), "{name}");
        }
        for name in ["a", ".lmc", "a.lmcx", "lmc"] {
            assert_eq!(original_path(Path::new(name)), None, "{name}");
        }
    }
}
