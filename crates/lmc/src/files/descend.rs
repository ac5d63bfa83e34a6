//! Opens a known folder below another one: follows no link, and accepts no other folder.
//!
//! A deep folder is opened in one call where the system can do that. A walk from name to name for
//! each of thousands of nested folders would take longer and longer. The check is on the identity
//! of the folder that was opened. If it is the wrong one, or none, a walk finds out where the path
//! went wrong.

use crate::files::folder::{FileId, Folder, Links};
use crate::files::reach::open_without_links;
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Bytes of a path that the system accepts in one call, with some to spare.
const PIECE_LEN_MAX: usize = 4000;

/// Why a folder cannot be opened.
#[derive(Debug)]
pub(crate) enum Astray {
    /// The path does not lead down.
    NotBelow,
    /// The folder at this path is not the known one, or none is known.
    Other(PathBuf),
    /// The entry at this path cannot be opened.
    Unopened(PathBuf, io::Error),
}

/// Tells whether a folder is the right one.
pub(crate) trait FolderCheck {
    /// Looks at an open folder.
    fn is(&self, folder: &Folder) -> io::Result<bool>;
}

/// The device and number alone, for reading only: the contents of the folder are checked again in
/// that case.
impl FolderCheck for FileId {
    fn is(&self, folder: &Folder) -> io::Result<bool> {
        Ok(folder.id()? == *self)
    }
}

/// Distinguishes a folder that is not kept open from others, even after it was removed. The next
/// folder that anybody creates may then get its number (ext4 does that). But nobody can create a
/// folder of another user, and a new folder is never older than this one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FolderId {
    /// Its device and its number there.
    pub(crate) id: FileId,
    owner: u32,
    /// When it was created, to within a few milliseconds, if we created it and the file system
    /// records that. Otherwise the owner has to do. The same goes for a folder that already
    /// existed: on an overlay, the recorded time changes with the first write into it.
    born: Option<(i64, u32)>,
}

impl FolderId {
    /// A folder that already existed.
    pub(crate) fn found(folder: &Folder) -> io::Result<Self> {
        let stat = rustix::fs::fstat(folder)?;
        Ok(Self { id: FileId::of(&stat), owner: stat.st_uid, born: None })
    }

    /// A folder that we have just created.
    pub(crate) fn made(folder: &Folder) -> io::Result<Self> {
        Ok(Self { born: born(folder), ..Self::found(folder)? })
    }

    /// Whether the time of its creation is known.
    #[cfg(test)]
    pub(crate) fn has_time(&self) -> bool {
        self.born.is_some()
    }

    /// Whether a name in a folder refers to it, as far as can be told without opening it.
    pub(crate) fn is_at(&self, above: &Folder, name: &OsStr) -> io::Result<bool> {
        Ok(self.fits(&rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn fits(&self, stat: &Stat) -> bool {
        (FileId::of(stat), stat.st_uid) == (self.id, self.owner)
    }
}

impl FolderCheck for FolderId {
    fn is(&self, folder: &Folder) -> io::Result<bool> {
        let fits = self.fits(&rustix::fs::fstat(folder)?);
        Ok(fits && (self.born.is_none() || self.born == born(folder)))
    }
}

/// When a folder was created, if the file system records that.
#[cfg(target_os = "linux")]
fn born(folder: &Folder) -> Option<(i64, u32)> {
    use rustix::fs::{StatxFlags, statx};
    let stat = statx(folder, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let is_told = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_told.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
}

/// On other systems, setting a time may change it.
#[cfg(not(target_os = "linux"))]
fn born(_folder: &Folder) -> Option<(i64, u32)> {
    None
}

/// Folders below one. Each is the only folder that is used at its path.
#[derive(Debug, Default)]
pub(crate) struct KnownFolders {
    by_path: HashMap<PathBuf, FolderId>,
    numbers: HashSet<FileId>,
}

impl KnownFolders {
    pub(crate) fn get(&self, path: &Path) -> Option<FolderId> {
        self.by_path.get(path).copied()
    }

    /// Adds a folder that already existed. Fails if another one is known at this path.
    pub(crate) fn add_found(&mut self, path: &Path, found: &Folder) -> Result<(), Astray> {
        let unopened = |e| Astray::Unopened(path.to_path_buf(), e);
        match self.get(path) {
            Some(known) if known.is(found).map_err(unopened)? => Ok(()),
            Some(_) => Err(Astray::Other(path.to_path_buf())),
            None => {
                self.add(path, FolderId::found(found).map_err(unopened)?);
                Ok(())
            }
        }
    }

    /// Adds a folder that was just created. Fails if one is already known at this path. Also fails
    /// if one with the same number is known at another path: that folder must be gone, and the new
    /// one could be moved to its path.
    pub(crate) fn add_made(&mut self, path: &Path, made: &Folder) -> Result<(), Astray> {
        let made = FolderId::made(made).map_err(|e| Astray::Unopened(path.to_path_buf(), e))?;
        if self.by_path.contains_key(path) {
            return Err(Astray::Other(path.to_path_buf()));
        }
        if self.numbers.contains(&made.id) {
            let gone = self.by_path.iter().find(|(_, known)| known.id == made.id);
            return Err(Astray::Other(gone.map_or(path, |(gone, _)| gone).to_path_buf()));
        }
        self.add(path, made);
        Ok(())
    }

    fn add(&mut self, path: &Path, id: FolderId) {
        self.numbers.insert(id.id);
        self.by_path.insert(path.to_path_buf(), id);
    }

    /// Forgets a folder that we have removed.
    pub(crate) fn forget(&mut self, path: &Path) {
        if let Some(known) = self.by_path.remove(path) {
            self.numbers.remove(&known.id);
        }
    }
}

impl Folder {
    /// Opens the folder at `path` below this one, if `known` accepts it. Where links are followed,
    /// each folder on the path must be known too.
    pub(crate) fn known_below<K: FolderCheck>(
        &self,
        path: &Path,
        links: Links,
        known: impl Fn(&Path) -> Option<K>,
    ) -> Result<Self, Astray> {
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(Astray::NotBelow);
        }
        let at_once = match links {
            Links::Kept => self.below(path).zip(known(path)),
            Links::Followed => None,
        };
        if let Some((folder, known)) = at_once
            && known.is(&folder).is_ok_and(|is| is)
        {
            return Ok(folder);
        }
        self.walk_below(path, links, known)
    }

    /// The same from name to name; every folder on the path must be known.
    fn walk_below<K: FolderCheck>(
        &self,
        path: &Path,
        links: Links,
        known: impl Fn(&Path) -> Option<K>,
    ) -> Result<Self, Astray> {
        let mut reached = PathBuf::new();
        let mut folder = self.again().map_err(|e| Astray::Unopened(reached.clone(), e))?;
        for name in path.iter() {
            reached.push(name);
            let known = known(&reached);
            let next = folder.folder(name, links).and_then(|next| {
                let is_known = known.map_or(Ok(false), |known| known.is(&next))?;
                Ok((is_known, next))
            });
            let (is_known, next) = next.map_err(|e| Astray::Unopened(reached.clone(), e))?;
            if !is_known {
                return Err(Astray::Other(reached));
            }
            folder = next;
        }
        Ok(folder)
    }

    /// Opens the folder at `path` below this one without following links, in as few calls as its
    /// length allows; none if that fails.
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

/// Whether an error says that a name no longer refers to the same entry.
pub(crate) fn is_replaced(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::NOTDIR, Errno::NOENT, Errno::NXIO]
        .iter()
        .any(|errno| Some(errno.raw_os_error()) == error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A chain of nested folders in a new one, and their ids.
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

    /// Paths that are longer than the system accepts lead to the same folders as short ones, in one
    /// call or in several, just as a walk does.
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

    /// Another folder, a link and a path that leads up are all refused.
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
