//! Open folders and what is in them, so that what was looked at is what is read, written or
//! removed.
//!
//! A path may lead elsewhere each time it is used. Here a name is only used in a folder that is
//! open, and a link is followed only where that is asked for.

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

/// The bits of a mode that are taken over from files: reading, writing and executing. Those that
/// make a program run as its owner never are.
pub const MODE_BITS: u32 = 0o777;

/// Seconds that the times of a directory which was just made may be apart. Some file systems count
/// in twos.
const MOMENT_S: u64 = 2;

/// What makes a file itself, whatever its names are: its device and its number there.
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

/// What kind of file a name stands for.
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
    /// What it is.
    pub kind: FileKind,
    /// Its permissions, without any other bits.
    pub mode: u32,
    /// What its access list (ACL) gives to all others, three bits, if it was opened and has one.
    pub acl: Option<u32>,
    /// Its group.
    pub group: u32,
    /// Bytes.
    pub size: u64,
    /// Seconds since 1970 of the last write, and nanoseconds.
    pub mtime: (i64, u32),
    /// The same of the last change of any kind, which nobody can set.
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

    /// Looks at what `path` leads to.
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

    /// The permissions for what is made from it and has no access list: where it has one, no more
    /// than that gives to all others.
    pub fn plain_mode(&self) -> u32 {
        self.acl.map_or(self.mode, |all| self.mode & (0o700 | all << 3 | all))
    }

    /// Whether it is the same file with the same content, as far as can be told without reading it.
    pub fn is_unchanged(&self, now: &Self) -> bool {
        self.has_content_of(now) && self.ctime == now.ctime
    }

    /// The same but for the time of the last change, which moves with a name that comes or goes.
    pub(crate) fn has_content_of(&self, now: &Self) -> bool {
        (self.id, self.kind, self.size, self.mtime) == (now.id, now.kind, now.size, now.mtime)
    }

    /// What it is after one of its names was removed by us: `now`, unless more has changed.
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
    /// It is what the name stands for, and never opened.
    Kept,
    /// What it leads to is meant.
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
    /// Opens the directory at `path`, or that a link there leads to, to read what is in it.
    /// [`Folder::reach`] is for writing.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::open(path, FOLDER, Mode::empty())? })
    }

    /// Opens the directory that holds `path`; the name in it comes along.
    pub fn open_parent(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
        Ok((Self::open(parent(path))?, name.to_os_string()))
    }

    /// The directory once more.
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

    /// The same, and looks at the access list of a file or directory, for which it is opened. If it
    /// cannot be, the list counts as one that gives others nothing.
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

    /// The names in it, in their order.
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

    /// Opens a regular file in it for reading. Nothing else is waited for.
    pub fn file(&self, name: &OsStr, links: Links) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags | links.open_flags(), Mode::empty())?;
        if FileState::of(&fd)?.kind != FileKind::File {
            return Err(io::Error::other("is not a regular file"));
        }
        Ok(File::from(fd))
    }

    /// What a link in it says.
    pub fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes the names in it durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    /// Makes a file with this mode, less the mask of the process; the name must be free.
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

    /// Makes a directory that is closed to others; the name must be free. On an error it is gone
    /// again, and what somebody else has put in its place is not.
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

    /// Opens a directory that was just made. What somebody has put in its place meanwhile is not
    /// ours to fill: a folder of their own, or an older one of ours.
    fn open_made(&self, name: &OsStr) -> io::Result<Self> {
        let made = self.folder(name, Links::Kept)?;
        let stat = rustix::fs::fstat(&made.fd)?;
        if !is_ours(&stat) || !is_just_made(&stat) || !made.names()?.is_empty() {
            return Err(io::Error::other("somebody else has put another directory in its place"));
        }
        acl::remove(&made.fd)?;
        if stat.st_mode & 0o077 != 0 {
            // A file system may know no modes.
            let _ = made.set_mode(0o700);
        }
        Ok(made)
    }

    /// Whether it was made a moment ago, as far as can be told, and not moved to where it is.
    pub fn is_just_made(&self) -> io::Result<bool> {
        Ok(is_just_made(&rustix::fs::fstat(&self.fd)?))
    }

    /// Makes a symbolic link; the name must be free.
    pub(crate) fn make_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.fd, name)?)
    }

    /// The mode of a new directory by the mask of the process. One is made and removed again, in
    /// this one, which others must not be able to enter.
    pub(crate) fn default_mode(&self) -> io::Result<u32> {
        let mode = Mode::from_raw_mode(0o777);
        // What is in it may have any name.
        let make = |name: &OsString| Ok(rustix::fs::mkdirat(&self.fd, name, mode)?);
        let (name, ()) = free_name(".lmc-mode-", make)?;
        let made = self.look(&name, Links::Kept);
        rustix::fs::unlinkat(&self.fd, &name, AtFlags::REMOVEDIR)?;
        Ok(made?.mode)
    }

    /// Sets the permissions of the directory. What the system gave it beyond those stays.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let own = rustix::fs::fstat(&self.fd)?.st_mode & !(MODE_BITS as RawMode);
        let mode = Mode::from_raw_mode(own | mode as RawMode);
        Ok(rustix::fs::fchmod(&self.fd, mode)?)
    }

    pub(crate) fn set_time(&self, mtime: (i64, u32)) -> io::Result<()> {
        set_time(self.fd.as_fd(), mtime)
    }

    /// Renames `from` to `to`, both in it. A name that is there is replaced only if that is asked
    /// for; otherwise the error is `AlreadyExists`.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        use rustix::fs::{RenameFlags, linkat, renameat, renameat_with, unlinkat};
        if replace {
            return Ok(renameat(&self.fd, from, &self.fd, to)?);
        }
        match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot refuse to replace. A hard link can, and without the flag a
            // directory takes the place of an empty one only.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                if self.look(from, Links::Kept)?.kind == FileKind::Folder {
                    return Ok(renameat(&self.fd, from, &self.fd, to)?);
                }
                linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?;
                // The file has its name. What is left is a second one that nobody asks for.
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
            return Err(io::Error::other("another one is in its place"));
        }
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }
}

/// Whether something belongs to who runs this.
pub(crate) fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Whether an empty directory was made a moment ago, as far as its own times tell: both are those
/// of its making then. A rename sets one of them, so that an older one which was moved here is
/// found out. The clock of the process, which need not be that of the file system, has no say.
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

    /// An older folder of ours that somebody has put in the place of one that was just made is told
    /// by its times, though it is empty, and it stays.
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

    /// One that others could enter is closed before it is used.
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

    /// The mode of a new folder is told whatever is in this one, and nothing is left of the look.
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
