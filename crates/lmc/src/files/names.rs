//! What files are called in a directory of `.lmc` files.
//!
//! `dir/NAME` is `dir/NAME.lmc` there. A name that has no room for the ending becomes a folder, and
//! the file in it is called by the ending alone: `dir/NAME/.lmc`. So every tree of files has its
//! names there, and they can be turned back in exactly one way.

use crate::base::lookup::fit_name;
use std::path::{Path, PathBuf};

/// Longest name in bytes.
const NAME_LEN_MAX: usize = 255;
const ENDING: &str = ".lmc";

/// Whether the name of a file has room for the ending.
pub fn has_room(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.len() + ENDING.len() <= NAME_LEN_MAX)
}

/// Whether what is compressed on a file finds it by its name, in a directory of `.lmc` files: it is
/// beside the others there, and its name can be recorded as it is.
pub fn is_findable(path: &Path) -> bool {
    let is_recorded = |name: &str| fit_name(name) == name;
    has_room(path) && path.file_name().is_none_or(|name| name.to_str().is_some_and(is_recorded))
}

/// Where the `.lmc` of the file at `path` is, both from the root of a directory on.
pub fn archive_path(path: &Path) -> PathBuf {
    if !has_room(path) {
        return path.join(ENDING);
    }
    let mut path = path.as_os_str().to_os_string();
    path.push(ENDING);
    PathBuf::from(path)
}

/// The path whose `.lmc` is at `path`; none if there is no such path.
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

    /// Names of all lengths come back, those that end in .lmc or are nothing else too.
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
