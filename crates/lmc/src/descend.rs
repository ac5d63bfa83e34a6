//! The way down to a folder that is known: past no link, and to no other folder.
//!
//! A folder deep below another one is opened in one call where the system can do that, since a walk
//! from name to name for each of thousands of folders one in the other would take longer and longer.
//! What decides is which folder it is that was opened. Where that is another one, or none, a walk
//! finds out where the way was lost.

use crate::folder::{FileId, Folder, Links};
use crate::reach::open_without_links;
use rustix::io::Errno;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Bytes of a path that the system takes in one call, with some to spare.
const PIECE_LEN_MAX: usize = 4000;

/// Why a folder cannot be had.
#[derive(Debug)]
pub(crate) enum Astray {
    /// The path leads elsewhere than down.
    NotBelow,
    /// At this path is another folder than the one that is known, or none is known.
    Other(PathBuf),
    /// What is at this path cannot be opened.
    Unopened(PathBuf, io::Error),
}

impl Folder {
    /// Opens the folder at `path` below this one, if it is the one that `known` says. Where links are
    /// followed, each folder on the way must be known too.
    pub(crate) fn known_below(
        &self,
        path: &Path,
        links: Links,
        known: impl Fn(&Path) -> Option<FileId>,
    ) -> Result<Self, Astray> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Astray::NotBelow);
        }
        let at_once = match links {
            Links::Kept => self.below(path).zip(known(path)),
            Links::Followed => None,
        };
        if let Some((folder, id)) = at_once
            && folder.id().ok() == Some(id)
        {
            return Ok(folder);
        }
        self.walk_below(path, links, known)
    }

    /// The same from name to name, where every folder on the way must be known.
    fn walk_below(
        &self,
        path: &Path,
        links: Links,
        known: impl Fn(&Path) -> Option<FileId>,
    ) -> Result<Self, Astray> {
        let mut reached = PathBuf::new();
        let mut folder = self.again().map_err(|e| Astray::Unopened(reached.clone(), e))?;
        for name in path.iter() {
            reached.push(name);
            let next = folder.folder(name, links).and_then(|next| Ok((next.id()?, next)));
            let (id, next) = next.map_err(|e| Astray::Unopened(reached.clone(), e))?;
            if known(&reached) != Some(id) {
                return Err(Astray::Other(reached));
            }
            folder = next;
        }
        Ok(folder)
    }

    /// Opens what is at `path` below this one without following links, in as few calls as its length
    /// allows; none if that failed.
    fn below(&self, path: &Path) -> Option<Self> {
        let (mut reached, mut piece) = (None, PathBuf::new());
        for name in path.iter() {
            if piece.as_os_str().len() + name.len() >= PIECE_LEN_MAX {
                reached = Some(open_without_links(reached.as_ref().unwrap_or(self), &piece)?);
                piece.clear();
            }
            piece.push(name);
        }
        open_without_links(reached.as_ref().unwrap_or(self), &piece)
    }
}

/// Whether an error says that a name does not stand for what it stood for.
pub(crate) fn is_replaced(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::NOTDIR, Errno::NOENT, Errno::NXIO]
        .iter()
        .any(|errno| Some(errno.raw_os_error()) == error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A chain of folders below a new one, and which they are.
    fn chain(depth: usize, name: &OsStr) -> (tempfile::TempDir, Folder, HashMap<PathBuf, FileId>) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        let (mut path, mut folder) = (PathBuf::new(), top.again().expect("open"));
        let mut ids = HashMap::new();
        for _ in 0..depth {
            path.push(name);
            folder = folder.make_folder(name).expect("a folder");
            ids.insert(path.clone(), folder.id().expect("open"));
        }
        (dir, top, ids)
    }

    /// Paths that are longer than the system takes lead to the same folders as short ones, in one
    /// call or in several, as a walk does.
    #[test]
    fn a_deep_folder_is_reached_in_few_calls() {
        let name = "n".repeat(255);
        let (_dir, top, ids) = chain(40, name.as_ref());
        for (path, id) in &ids {
            let known = |path: &Path| ids.get(path).copied();
            if cfg!(target_os = "linux") {
                assert_eq!(top.below(path).expect("there").id().expect("open"), *id);
            }
            let walked = top.walk_below(path, Links::Kept, known).expect("there");
            let reached = top.known_below(path, Links::Kept, known).expect("there");
            assert_eq!([walked.id().expect("open"), reached.id().expect("open")], [*id; 2]);
        }
        top.clear().expect("nothing is left of it");
        assert!(top.names().expect("open").is_empty());
    }

    /// Another folder, a link and a path that leads up are no ways down.
    #[test]
    fn the_way_is_lost_where_something_else_is() {
        let (dir, top, ids) = chain(3, OsStr::new("a"));
        let known = |path: &Path| ids.get(path).copied();
        let reach = |path: &str| top.known_below(Path::new(path), Links::Kept, known);
        for path in ["..", "a/../a", "/a", "./a/.."] {
            assert!(matches!(reach(path), Err(Astray::NotBelow)), "{path}");
        }
        fs::rename(dir.path().join("a/a"), dir.path().join("b")).expect("moved");
        assert!(matches!(reach("a/a/a"), Err(Astray::Unopened(at, _)) if at == Path::new("a/a")));
        symlink("../b", dir.path().join("a/a")).expect("a link");
        assert!(matches!(reach("a/a/a"), Err(Astray::Unopened(at, e))
            if at == Path::new("a/a") && is_replaced(&e)));
        fs::remove_file(dir.path().join("a/a")).expect("the link");
        fs::create_dir_all(dir.path().join("a/a/a")).expect("others");
        assert!(matches!(reach("a/a/a"), Err(Astray::Other(at)) if at == Path::new("a/a")));
        assert!(matches!(reach("b"), Err(Astray::Other(_))), "it is not known");
    }
}
