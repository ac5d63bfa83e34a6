//! Open folders and their entries. This makes sure that the file that was looked at is the one that
//! is read, written or removed.
//!
//! A path may lead elsewhere each time it is used. Here a name is used only within an open folder,
//! and a link is followed only on request.

use crate::files::acl;
use crate::files::leftover::free_name;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode, Stat, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The mode bits that are taken over from files: read, write and execute. The bits that make a
/// program run as its owner never are.
pub const MODE_BITS: u32 = 0o777;

/// The times of a directory that was just created may differ by this many seconds. Some file
/// systems count in steps of two.
const MOMENT_S: u64 = 2;

/// The identity of a file, whatever its names are: its device and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 }
    }

    pub(crate) fn of_metadata(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// The kind of file that a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, a device and the like.
    Other,
}

/// A file as it was when it was looked at.
#[derive(Clone, Copy, Debug)]
pub struct FileState {
    /// Which file it is.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Its permissions, without any other bits.
    pub mode: u32,
    /// The permissions that its access list (ACL) gives to everyone else, three bits, if it was
    /// opened and has one.
    pub acl: Option<u32>,
    /// Its group.
    pub group: u32,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970 of the last write, and nanoseconds.
    pub mtime: (i64, u32),
    /// The same of the last change of any kind, which cannot be set.
    pub ctime: (i64, u32),
    /// How many names it has.
    pub names: u64,
}

impl FileState {
    /// Looks at an open file.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        Ok(Self { acl: acl::for_everyone(&file), ..Self::new(&stat) })
    }

    /// Looks at the file that `path` leads to.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&rustix::fs::stat(path)?))
    }

    /// Looks at `path` itself, which may be a link.
    pub fn of_name(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&rustix::fs::lstat(path)?))
    }

    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn new(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode as RawMode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Folder,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        Self {
            id: FileId::of(stat),
            kind,
            mode: stat.st_mode as u32 & MODE_BITS,
            acl: None,
            group: stat.st_gid as u32,
            size: stat.st_size as u64,
            mtime: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            names: stat.st_nlink as u64,
        }
    }

    /// The permissions for a file that is made from it and has no access list. If this file has a
    /// list, they are no more than the list gives to everyone else.
    pub fn plain_mode(&self) -> u32 {
        self.acl.map_or(self.mode, |all| self.mode & (0o700 | all << 3 | all))
    }

    /// Whether it is the same file with the same content, as far as can be told without reading it.
    pub fn is_unchanged(&self, now: &Self) -> bool {
        self.has_content_of(now) && self.ctime == now.ctime
    }

    /// The same, but ignores the time of the last change, which moves when a name is added or
    /// removed.
    pub(crate) fn has_content_of(&self, now: &Self) -> bool {
        (self.id, self.kind, self.size, self.mtime) == (now.id, now.kind, now.size, now.mtime)
    }

    /// Its state after we removed one of its names: `now`, unless more has changed.
    pub fn renewed(&self, now: Self) -> Self {
        if self.has_content_of(&now) { now } else { *self }
    }
}

/// An open directory.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
}

/// Whether a link is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The name refers to the link itself, which is never opened.
    Kept,
    /// The name refers to the target of the link.
    Followed,
}

/// How directories are opened.
pub(crate) const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);

impl Links {
    fn open_flags(self) -> OFlags {
        match self {
            Self::Kept => OFlags::NOFOLLOW,
            Self::Followed => OFlags::empty(),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Folder {
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl From<Folder> for OwnedFd {
    fn from(folder: Folder) -> Self {
        folder.fd
    }
}

impl Folder {
    /// Opens the directory at `path`, or the target of a link there, to read its contents.
    /// [`Folder::reach`] is for writing.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::open(path, FOLDER, Mode::empty())? })
    }

    /// Opens the directory that holds `path`; returns the name in it too.
    pub fn open_parent(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
        Ok((Self::open(parent(path))?, name.to_os_string()))
    }

    /// A second handle to the directory.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// Which directory it is.
    pub(crate) fn id(&self) -> io::Result<FileId> {
        Ok(FileId::of(&rustix::fs::fstat(&self.fd)?))
    }

    /// Looks at the directory itself.
    pub fn state(&self) -> io::Result<FileState> {
        FileState::of(&self.fd)
    }

    /// Looks at a name in it.
    pub fn look(&self, name: &OsStr, links: Links) -> io::Result<FileState> {
        let flags = match links {
            Links::Kept => AtFlags::SYMLINK_NOFOLLOW,
            Links::Followed => AtFlags::empty(),
        };
        Ok(FileState::new(&rustix::fs::statat(&self.fd, name, flags)?))
    }

    /// The same, and looks at the access list of a file or directory, which is opened for that. If
    /// it cannot be opened, it counts as having a list that gives others nothing.
    pub fn look_closely(&self, name: &OsStr, links: Links) -> io::Result<FileState> {
        let state = self.look(name, links)?;
        let opened = match state.kind {
            FileKind::File => self.file(name, links).and_then(FileState::of),
            FileKind::Folder => self.folder(name, links).and_then(|folder| folder.state()),
            FileKind::Link | FileKind::Other => return Ok(state),
        };
        let opened = opened.ok().filter(|opened| opened.id == state.id);
        Ok(FileState { acl: opened.map_or(Some(0), |opened| opened.acl), ..state })
    }

    /// The names in it, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Opens a directory in it.
    pub fn folder(&self, name: &OsStr, links: Links) -> io::Result<Self> {
        let flags = FOLDER | links.open_flags();
        Ok(Self { fd: rustix::fs::openat(&self.fd, name, flags, Mode::empty())? })
    }

    /// Opens a regular file in it for reading. Never waits for other kinds of file.
    pub fn file(&self, name: &OsStr, links: Links) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags | links.open_flags(), Mode::empty())?;
        if FileState::of(&fd)?.kind != FileKind::File {
            return Err(io::Error::other("is not a regular file"));
        }
        Ok(File::from(fd))
    }

    /// The target of a link in it.
    pub fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes the names in it durable (fsync).
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Creates a file with this mode, less the mask of the process; the name must be free.
    pub(crate) fn make_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(
            &self.fd,
            name,
            flags,
            Mode::from_raw_mode(mode as RawMode),
        )?))
    }

    /// Creates a directory that is closed to others; the name must be free. On an error it is
    /// removed again, but not if somebody else has replaced it.
    pub(crate) fn make_folder(&self, name: &OsStr) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        let made = self.open_made(name);
        if made.is_err() {
            let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| is_ours(&stat) && is_just_made(&stat)) {
                // Only if it is empty.
                let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR);
            }
        }
        made
    }

    /// Opens a directory that was just created. If somebody has replaced it in the meantime, we
    /// must not fill the replacement: it may be their own folder, or an older one of ours.
    fn open_made(&self, name: &OsStr) -> io::Result<Self> {
        let made = self.folder(name, Links::Kept)?;
        let stat = rustix::fs::fstat(&made.fd)?;
        if !is_ours(&stat) || !is_just_made(&stat) || !made.names()?.is_empty() {
            return Err(io::Error::other("another directory has replaced it"));
        }
        acl::remove(&made.fd)?;
        if stat.st_mode & 0o077 != 0 {
            // The file system may not support modes.
            let _ = made.set_mode(0o700);
        }
        Ok(made)
    }

    /// Whether it was created a moment ago, as far as can be told, and was not moved to its place.
    pub fn is_just_made(&self) -> io::Result<bool> {
        Ok(is_just_made(&rustix::fs::fstat(&self.fd)?))
    }

    /// Creates a symbolic link; the name must be free.
    pub(crate) fn make_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, name)?)
    }

    /// The mode of a new directory under the mask of the process. To find it, one is created in
    /// this directory and removed again; others must not be able to enter this directory.
    pub(crate) fn default_mode(&self) -> io::Result<u32> {
        let mode = Mode::from_raw_mode(0o777);
        // Any name may be taken in this directory.
        let make = |name: &OsString| Ok(rustix::fs::mkdirat(&self.fd, name, mode)?);
        let (name, ()) = free_name(".lmc-mode-", make)?;
        let made = self.look(&name, Links::Kept);
        rustix::fs::unlinkat(&self.fd, &name, AtFlags::REMOVEDIR)?;
        Ok(made?.mode)
    }

    /// Sets the permissions of the directory. Other bits that the system has set stay.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let own = rustix::fs::fstat(&self.fd)?.st_mode & !(MODE_BITS as RawMode);
        let mode = Mode::from_raw_mode(own | mode as RawMode);
        Ok(rustix::fs::fchmod(&self.fd, mode)?)
    }

    pub(crate) fn set_time(&self, mtime: (i64, u32)) -> io::Result<()> {
        set_time(self.fd.as_fd(), mtime)
    }

    /// Renames `from` to `to`, both in it. An existing name is replaced only on request; otherwise
    /// the error is `AlreadyExists`.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        use rustix::fs::{RenameFlags, linkat, renameat, renameat_with, unlinkat};
        if replace {
            return Ok(renameat(&self.fd, from, &self.fd, to)?);
        }
        match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot refuse to replace. A hard link can, and without the flag a
            // directory replaces only an empty one.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                if self.look(from, Links::Kept)?.kind == FileKind::Folder {
                    return Ok(renameat(&self.fd, from, &self.fd, to)?);
                }
                linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                // The file has its name. The old name that is left does no harm.
                let _ = unlinkat(&self.fd, from, AtFlags::empty());
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Removes a name that is not a directory.
    pub(crate) fn unlink(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty directory, if it still is the one with this id.
    pub fn remove_folder(&self, name: &OsStr, id: FileId) -> io::Result<()> {
        if self.look(name, Links::Kept)?.id != id {
            return Err(io::Error::other("another one has replaced it"));
        }
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }
}

/// Whether something belongs to the user who runs this.
pub(crate) fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Whether an empty directory was created a moment ago, judging by its own times: both are then the
/// time of its creation. A rename sets one of them, which exposes an older directory that was moved
/// here. The clock of the process is not used, because it may differ from that of the file system.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn is_just_made(stat: &Stat) -> bool {
    (stat.st_ctime as i64).abs_diff(stat.st_mtime as i64) <= MOMENT_S
}

/// Gives a file its time of the last write.
pub(crate) fn set_time(file: BorrowedFd, mtime: (i64, u32)) -> io::Result<()> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };
    let last_modification = Timespec { tv_sec: mtime.0, tv_nsec: mtime.1.into() };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?)
}

/// The directory that holds `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// `path` as bytes, for an order that is the same everywhere.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// If somebody replaces a folder that was just created by an older folder of ours, the times
    /// give it away, though it is empty, and it stays.
    #[test]
    fn an_older_folder_is_not_taken_for_a_new_one() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        fs::create_dir(dir.path().join("older")).expect("a folder");
        let older = top.folder(OsStr::new("older"), Links::Kept).expect("it is there");
        older.set_time((1_000_000_000, 0)).expect("a time");
        fs::rename(dir.path().join("older"), dir.path().join("new")).expect("moved");
        assert!(!older.is_just_made().expect("open"));
        assert!(top.open_made(OsStr::new("new")).is_err());
        let made = top.make_folder(OsStr::new("made")).expect("a folder");
        assert!(made.is_just_made().expect("open"));
        fs::write(dir.path().join("made/file"), b"").expect("a file");
        assert!(top.open_made(OsStr::new("made")).is_err(), "it is not empty");
    }

    /// A new folder that others could enter is closed before it is used.
    #[test]
    fn a_new_folder_is_closed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        let path = dir.path().join("open");
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("a mode");
        let made = top.open_made(OsStr::new("open")).expect("new and empty");
        assert_eq!(made.state().expect("open").mode, 0o700);
    }

    /// The mode of a new folder is found whatever this one contains, and no trace is left.
    #[test]
    fn the_mode_of_a_new_folder_is_told_whatever_is_there() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let top = Folder::open(dir.path()).expect("it is there");
        for name in [".lmc-mode.part", "new"] {
            fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        let usual = top.look(OsStr::new("new"), Links::Kept).expect("there").mode;
        assert_eq!(top.default_mode().expect("a mode"), usual);
        assert_eq!(top.names().expect("open").len(), 2);
    }
}
