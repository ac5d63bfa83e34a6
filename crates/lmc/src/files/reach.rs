//! Follows a path that will be written to, folder by folder and link by link.
//!
//! A path that a user gives may go through links: their own, those of the administrator, or those
//! that the owner of a folder has put in it. A link that another user has put into a folder that
//! everyone or a group can write to, such as `/tmp`, is not followed, whether it is the last part
//! of a path or not: that user chose where it leads. This is stricter than the rule of Linux
//! (`fs.protected_symlinks`), which covers only folders such as `/tmp`, and which is not enabled on
//! every machine.

#[cfg(not(target_os = "linux"))]
use crate::files::folder::FileId;
use crate::files::folder::{FOLDER, Folder, parent};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawMode, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

/// Most links that are followed in one path, as in the system itself.
const LINKS_MAX: usize = 40;

/// How folders on the path are opened: as paths only, where possible, so that they need not be
/// readable.
#[cfg(target_os = "linux")]
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const ON_THE_WAY: OFlags = FOLDER;

impl Folder {
    /// Opens the directory at `path`, or the one that links lead to, to write into it. Links that
    /// another user has put there are not followed.
    pub fn reach(path: &Path) -> io::Result<Self> {
        match open_without_links(CWD, path) {
            Some(folder) => Ok(folder),
            None => Walk::new(path)?.reach_folder(|_, _, error| Err(error)),
        }
    }

    /// The same for the directory that holds `path`; returns the name in it too.
    pub fn reach_parent(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((Self::reach(parent(path))?, name.to_os_string()))
    }

    /// The same as [`Folder::reach`], but creates missing directories, with this mode less the mask
    /// of the process.
    pub fn reach_or_make(path: &Path, mode: u32) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(mode as RawMode);
        Walk::new(path)?.reach_folder(|above, name, error| match error {
            Errno::NOENT => match rustix::fs::mkdirat(above, name, mode) {
                // Somebody else was faster.
                Err(Errno::EXIST) => Ok(()),
                made => made,
            },
            _ => Err(error),
        })
    }

    /// The directory that holds the file at `path`, or the file that links there lead to, and the
    /// name of the file, which is not a link. The file need not exist, unless a link leads to it.
    pub(crate) fn reach_file(path: &Path) -> io::Result<(Self, OsString)> {
        Walk::new(path)?.reach_file()
    }
}

/// Opens a directory by a path without links from an open one, in one call. None if that fails or
/// the kernel cannot do it; a walk then finds out why.
#[cfg(target_os = "linux")]
pub(crate) fn open_without_links(from: impl AsFd, path: &Path) -> Option<Folder> {
    use rustix::fs::ResolveFlags;
    let none = ResolveFlags::NO_SYMLINKS;
    Some(Folder::from(rustix::fs::openat2(from, path, FOLDER, Mode::empty(), none).ok()?))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_without_links(_from: impl AsFd, _path: &Path) -> Option<Folder> {
    None
}

/// A path that has been followed in part.
struct Walk {
    /// The folder that was reached.
    folder: OwnedFd,
    /// The remaining names, with the next one last.
    rest: Vec<OsString>,
    links: usize,
}

impl Walk {
    fn new(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        // The working directory may not be accessible, so it is opened only if it is needed.
        let start = if path.is_absolute() { "/" } else { "." };
        let folder = rustix::fs::openat(CWD, start, ON_THE_WAY, Mode::empty())?;
        let mut walk = Self { folder, rest: Vec::new(), links: 0 };
        walk.add(path);
        Ok(walk)
    }

    /// Puts the names of `path` before the remaining ones.
    fn add(&mut self, path: &Path) {
        let is_name =
            |part: &Component| matches!(part, Component::Normal(_) | Component::ParentDir);
        let names = path.components().rev().filter(is_name);
        self.rest.extend(names.map(|part| part.as_os_str().to_os_string()));
    }

    /// Follows the path to its end. If a folder cannot be entered, `missing` is called, and the
    /// folder is tried again if that succeeds.
    fn reach_folder(
        mut self,
        missing: impl Fn(&OwnedFd, &OsStr, Errno) -> rustix::io::Result<()>,
    ) -> io::Result<Folder> {
        while let Some(name) = self.rest.pop() {
            if self.follow(&name)? {
                continue;
            }
            if let Err(error) = self.enter(&name) {
                missing(&self.folder, &name, error)?;
                self.enter(&name)?;
            }
        }
        self.open()
    }

    /// Follows the path to its last name, which must not be a link. If it was one, the target must
    /// exist.
    fn reach_file(mut self) -> io::Result<(Folder, OsString)> {
        let mut was_link = false;
        while let Some(name) = self.rest.pop() {
            let is_last = self.rest.is_empty();
            if self.follow(&name)? {
                was_link |= is_last;
                continue;
            }
            if is_last && name != ".." {
                if was_link && look(&self.folder, &name).is_err() {
                    let message =
                        format!("a link points to {}, which does not exist", name.display());
                    return Err(io::Error::other(message));
                }
                return Ok((self.open()?, name));
            }
            self.enter(&name)?;
        }
        Err(no_name())
    }

    /// Whether a name is a link; if so, its target is followed next.
    fn follow(&mut self, name: &OsStr) -> io::Result<bool> {
        if !look(&self.folder, name).is_ok_and(|found| kind(&found) == FileType::Symlink) {
            return Ok(false);
        }
        let (link, target) = read_link(&self.folder, name)?;
        let folder = rustix::fs::fstat(&self.folder)?;
        if is_planted(&folder, &link, rustix::process::geteuid().as_raw()) {
            let message = format!(
                "{} is a link that another user has put there; give the path that it points to, or \
                 another one",
                name.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = Path::new(&target);
        if target.is_absolute() {
            self.folder = rustix::fs::openat(CWD, "/", ON_THE_WAY, Mode::empty())?;
        }
        self.add(target);
        Ok(true)
    }

    fn enter(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        let flags = ON_THE_WAY | OFlags::NOFOLLOW;
        self.folder = rustix::fs::openat(&self.folder, name, flags, Mode::empty())?;
        Ok(())
    }

    /// The folder that was reached, opened for reading.
    fn open(&self) -> io::Result<Folder> {
        Ok(Folder::from(rustix::fs::openat(&self.folder, ".", FOLDER, Mode::empty())?))
    }
}

fn look(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// A link and its target. The link that is read is the one that was looked at, whatever is renamed
/// in the meantime.
#[cfg(target_os = "linux")]
fn read_link(folder: &OwnedFd, name: &OsStr) -> io::Result<(Stat, OsString)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&link)?;
    if kind(&stat) != FileType::Symlink {
        return Err(replaced());
    }
    let target = rustix::fs::readlinkat(&link, c"", Vec::new())?;
    Ok((stat, OsString::from_vec(target.into_bytes())))
}

/// The same where a link cannot be opened. The name must refer to the same link afterwards, with
/// the same owner, since another link may have got the number of one that was removed.
#[cfg(not(target_os = "linux"))]
fn read_link(folder: &OwnedFd, name: &OsStr) -> io::Result<(Stat, OsString)> {
    let stat = look(folder, name)?;
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    let now = look(folder, name)?;
    if (FileId::of(&now), now.st_uid) != (FileId::of(&stat), stat.st_uid) {
        return Err(replaced());
    }
    Ok((stat, OsString::from_vec(target.into_bytes())))
}

fn replaced() -> io::Error {
    io::Error::other("a link on the way was replaced meanwhile; try again")
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Whether a link in a folder may be there to mislead `user`: users other than the owner of the
/// folder can put one there, and it belongs neither to `user` nor to that owner. Links of root are
/// trusted, except where Linux would not follow them either.
fn is_planted(folder: &Stat, link: &Stat, user: u32) -> bool {
    const SHARED: RawMode = 0o022;
    const EVERYONES: RawMode = 0o1002;
    let is_others = link.st_uid != user && link.st_uid != folder.st_uid;
    let is_everyones = folder.st_mode & EVERYONES == EVERYONES;
    is_others && folder.st_mode & SHARED != 0 && (is_everyones || link.st_uid != 0)
}

fn no_name() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it has no name")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::folder::FileId;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn id(folder: &Folder) -> FileId {
        folder.state().expect("open").id
    }

    fn folder_at(path: &Path) -> FileId {
        id(&Folder::open(path).expect("there"))
    }

    /// A link counts as planted in a folder that a group or everyone can write to, unless it
    /// belongs to the user, to the owner of the folder, or to root.
    #[test]
    fn planted_links_are_told_from_others() {
        let stat = rustix::fs::stat("/").expect("there");
        let with = |mode: RawMode, user: u32| {
            let mut stat = stat;
            (stat.st_mode, stat.st_uid) = (mode, user);
            stat
        };
        let (link, roots) = (with(0o777, 7), with(0o777, 0));
        for mode in [0o1777, 0o1703, 0o777, 0o703, 0o1775, 0o775, 0o2775, 0o720] {
            assert!(is_planted(&with(mode, 0), &link, 0), "{mode:o}");
            assert!(is_planted(&with(mode, 0), &link, 8), "{mode:o}");
            assert!(is_planted(&with(mode, 8), &link, 8), "{mode:o}");
            assert!(!is_planted(&with(mode, 0), &link, 7), "{mode:o}: the user's own");
            assert!(!is_planted(&with(mode, 7), &link, 8), "{mode:o}: of the folder's owner");
            assert!(!is_planted(&with(mode, 0), &roots, 8), "{mode:o}: root's in root's");
            let is_everyones = mode & 0o1002 == 0o1002;
            assert_eq!(is_planted(&with(mode, 9), &roots, 8), is_everyones, "{mode:o}: root's");
        }
        for mode in [0o755, 0o1755, 0o700, 0o555] {
            assert!(!is_planted(&with(mode, 0), &link, 8), "{mode:o}");
        }
    }

    /// Links lead where the system says, even several in a row and with `..` in them.
    #[test]
    fn a_walk_goes_where_the_system_goes() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b/c")).expect("ours");
        symlink("a/b", path("relative")).expect("a link");
        symlink(path("a/b/c"), path("absolute")).expect("a link");
        symlink("../relative/c/../..", path("a/up")).expect("a link");
        symlink(".", path("a/b/here")).expect("a link");
        symlink("/", path("root")).expect("a link");
        for name in [
            "a",
            "relative",
            "relative/c",
            "absolute/..",
            "absolute/../../up/b",
            "a/up",
            "a/b/here/c",
            "a/b/../../relative/./c/",
            "root",
            ".",
            "a/../a",
        ] {
            let path = path(name);
            // The walk itself, even where one call would do.
            let walked = Walk::new(&path).and_then(|walk| walk.reach_folder(|_, _, e| Err(e)));
            let reached = Folder::reach(&path).expect("there");
            assert_eq!(id(&walked.expect("there")), folder_at(&path), "{name}");
            assert_eq!(id(&reached), folder_at(&path), "{name}");
        }
        for name in ["none", "a/none/..", "relative/none"] {
            let error = Folder::reach(&path(name)).expect_err("not there");
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
        fs::write(path("file"), b"").expect("ours");
        assert!(Folder::reach(&path("file")).is_err() && Folder::reach(&path("file/x")).is_err());
        assert!(Folder::reach(Path::new("")).is_err());
    }

    /// A file is where its links lead, and must exist if there are any. Missing folders are
    /// created, after links too.
    #[test]
    fn files_and_new_folders_are_reached() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("a")).expect("ours");
        fs::write(path("a/file"), b"").expect("ours");
        symlink("a", path("folder")).expect("a link");
        symlink("folder/file", path("file")).expect("a link");
        symlink("file", path("again")).expect("a link");
        for (name, wanted) in
            [("again", "file"), ("file", "file"), ("folder/file", "file"), ("folder/new", "new")]
        {
            let (folder, found) = Folder::reach_file(&path(name)).expect("there");
            assert_eq!((id(&folder), found), (folder_at(&path("a")), OsString::from(wanted)));
        }
        symlink("nowhere", path("dangling")).expect("a link");
        symlink("..", path("up")).expect("a link");
        for name in ["dangling", "none/file", "up"] {
            assert!(Folder::reach_file(&path(name)).is_err(), "{name}");
        }
        Folder::reach_or_make(&path("folder/x/y/../z"), 0o700).expect("made");
        assert!(path("a/x/y").is_dir() && path("a/x/z").is_dir());
        Folder::reach_or_make(&path("folder/x"), 0o700).expect("there");
        assert!(Folder::reach_or_make(&path("a/file/x"), 0o700).is_err());
    }

    /// Forty links are followed in one path, as in the system itself, and a cycle is an error.
    #[test]
    fn circles_end() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = |i: usize| -> PathBuf { dir.path().join(i.to_string()) };
        fs::create_dir(path(0)).expect("ours");
        (1..=LINKS_MAX + 1).for_each(|i| symlink((i - 1).to_string(), path(i)).expect("a link"));
        Folder::reach(&path(LINKS_MAX)).expect("as the system does");
        assert!(Folder::reach(&path(LINKS_MAX + 1)).is_err());
        symlink("circle", dir.path().join("circle")).expect("a link");
        for path in [dir.path().join("circle"), dir.path().join("circle/x")] {
            assert!(Folder::reach(&path).is_err() && Folder::reach_file(&path).is_err());
        }
    }
}
