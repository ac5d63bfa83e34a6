//! The file operations that local storage uses. Tests can replace the disk with one that fails, or
//! with one that forgets everything that was not synced.

mod names;

use super::Access;
use crate::layout::clock::unix_ms;
use crate::layout::config::CONFIG_NAME;
use lmc::{Folder, Urgency};
use names::{disk_stat, for_each_name, is_utf8, look_at, shown};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// An open file.
pub trait DiskFile: Send + fmt::Debug {
    /// Writes some of `bytes` after those written before; returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes the written bytes durable; this does not include the name of the file.
    fn sync(&mut self) -> io::Result<()>;
    /// Reads some of the bytes from `at` on; returns how many, 0 at the end.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
}

/// What is known about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStat {
    /// The size in bytes if it is a file, and otherwise 0.
    pub size: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Device and inode: all names of one file have the same.
    pub id: (u64, u64),
}

/// How a file got its new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// The old name is gone.
    Moved,
    /// The file has both names, and the caller must remove the old one.
    Linked,
}

/// A file system. If something that is not a folder is on the way to a name, the error is
/// `InvalidData`.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a file that must not exist yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading. For anything else the error is `InvalidData`.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, which must be free; otherwise the error is `AlreadyExists`. The
    /// old name stays if only a hard link can do this.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed>;
    /// Gives a file another name and replaces any file of that name.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must be free; otherwise the error is `AlreadyExists`.
    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes all bytes of a file; it then has the time of a file written now. For anything else,
    /// and for a file that has another name, the error is `InvalidData`.
    fn truncate(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory that must not exist yet.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in any order, and whether each is a directory. A name that is not
    /// UTF-8 has U+FFFD in it and is not a usable name: nothing can be reached by it.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>>;
    /// Like `read_dir`, with what is known about each name; none for a name that is removed
    /// meanwhile.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>>;
    /// What is known about a name.
    fn stat(&self, path: &Path) -> io::Result<DiskStat>;
    /// The time by the clock that gives files their times, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The file system of the machine, for everything below one directory.
///
/// Every name is reached from that directory, folder by folder, and no link is followed on the way.
/// The target of a link is never listed, written or removed. The directory itself may be reached by
/// a link, unless another user has made that link. New files and folders are as open as the
/// directory, if it belongs to us or to the user root.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// How open the directory is made.
    access: Access,
    /// The directory as it was when it was first used.
    first: Arc<OnceLock<Root>>,
}

/// A directory: its id, its owner, and the permissions of new folders in it.
#[derive(Debug)]
struct Root {
    id: (u64, u64),
    owner: u32,
    mode: RawMode,
}

/// How many times a folder is read while it changes.
pub(super) const LISTS_MAX: usize = 8;
/// The bytes that are written in one turn on the CPU.
const LARGE: usize = 4 << 20;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);
/// Permissions of new files until they get those of the root.
const OWN_FILE: Mode = Mode::from_raw_mode(0o600);
const OWN_FOLDER: Mode = Mode::from_raw_mode(0o700);

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Manifests and leases are written while locks are held, so they wait for no turn.
        if bytes.len() < LARGE {
            return self.0.write(bytes);
        }
        lmc::in_turn(Urgency::Urgent, || self.0.write(&bytes[..LARGE]))
    }

    fn sync(&mut self) -> io::Result<()> {
        lmc::waiting(|| self.0.sync_all())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(out, at)
    }
}

/// A name in an open folder.
struct NameInFolder<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
    /// The permissions of a folder that is made there.
    mode: RawMode,
}

impl RealDisk {
    /// For everything below `root`, which is made by `access` if it does not exist.
    pub fn new(root: &Path, access: Access) -> Self {
        Self { root: root.to_path_buf(), access, first: Arc::default() }
    }

    /// Opens the root; also returns the permissions of new folders in it. If somebody has replaced
    /// the root with another folder, that folder must not belong to another user, and it must not
    /// open anything to more people.
    fn root(&self) -> io::Result<(OwnedFd, RawMode)> {
        let root = OwnedFd::from(Folder::reach(&self.root)?);
        let (stat, mode) = (rustix::fs::fstat(&root)?, mode_of_new(&root)?);
        let id = id(&stat);
        let first = self.first.get_or_init(|| Root { id, owner: stat.st_uid, mode });
        if id == first.id {
            return Ok((root, mode));
        }
        if stat.st_uid != first.owner {
            let message = format!(
                "a folder of another user has replaced {}; check it, and open the store again",
                self.root.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok((root, mode & first.mode))
    }

    /// Opens the root or a folder below it; also returns the permissions of new folders in it.
    fn folder(&self, path: &Path) -> io::Result<(OwnedFd, RawMode)> {
        let (mut folder, mode) = self.root()?;
        let Ok(below) = path.strip_prefix(&self.root) else {
            // The folder that contains the root.
            return Ok((Folder::reach(path)?.into(), mode));
        };
        if let Some(folder) = open_below(&folder, below, FOLDER) {
            return Ok((folder, mode));
        }
        for name in below.components() {
            let name = name.as_os_str();
            folder = rustix::fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|e| blocked(&folder, name, e))?;
        }
        Ok((folder, mode))
    }

    /// What `look` sees in a folder. If the folder changed meanwhile, it is read again. Names are
    /// read a few at a time, so a name may disappear before it is read while its replacement
    /// appears after that.
    fn look_into<T>(
        &self,
        path: &Path,
        look: impl Fn(&OwnedFd) -> io::Result<Vec<T>>,
    ) -> io::Result<Vec<T>> {
        let mut looks = 0;
        loop {
            let (folder, _) = self.folder(path)?;
            let changed = || {
                let stat = rustix::fs::fstat(&folder)?;
                io::Result::Ok((stat.st_mtime, stat.st_mtime_nsec))
            };
            let (before, seen) = (changed()?, look(&folder)?);
            looks += 1;
            if looks == LISTS_MAX || changed()? == before {
                return Ok(seen);
            }
        }
    }

    /// The open folder and the name in it that a path below the root means.
    fn locate<'a>(&self, path: &'a Path) -> io::Result<NameInFolder<'a>> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (folder, mode) = self.folder(above)?;
        Ok(NameInFolder { folder, name, mode })
    }

    /// Makes the directory itself; the kernel removes the permissions that the umask forbids.
    fn create_root(&self) -> io::Result<()> {
        let mode = match self.access {
            Access::Private => OWN_FOLDER,
            Access::Shared => Mode::from_raw_mode(0o777),
        };
        if self.root.file_name().is_none() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (above, name) = Folder::reach_parent(&self.root)?;
        Ok(rustix::fs::mkdirat(OwnedFd::from(above), name, mode)?)
    }
}

/// The permissions of new folders below a root: those of the root. A root of another user decides
/// less, since that user may change its mode at any time. Nothing is then made writable for
/// everyone. If somebody else made the store itself, the mode of its configuration counts instead.
fn mode_of_new(root: &OwnedFd) -> io::Result<RawMode> {
    let stat = rustix::fs::fstat(root)?;
    let mode = stat.st_mode & 0o777;
    let is_trusted = stat.st_uid == rustix::process::geteuid().as_raw() || stat.st_uid == 0;
    if is_trusted {
        return Ok(mode);
    }
    let config = rustix::fs::statat(root, CONFIG_NAME, AtFlags::SYMLINK_NOFOLLOW).ok();
    let made = config.filter(|config| kind(config) == FileType::RegularFile);
    Ok(match made.filter(|config| config.st_uid != stat.st_uid) {
        Some(config) => {
            let files = config.st_mode & 0o666;
            // Whoever may read a folder may enter it.
            files | (files & 0o444) >> 2
        }
        None => mode,
    } & !0o002)
}

/// Opens a path below a folder in one call, without following links. None if that failed or the
/// kernel cannot do it; a walk from folder to folder then finds out why.
#[cfg(target_os = "linux")]
fn open_below(root: &OwnedFd, below: &Path, flags: OFlags) -> Option<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, below, flags, Mode::empty(), resolve).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_below(_root: &OwnedFd, _below: &Path, _flags: OFlags) -> Option<OwnedFd> {
    None
}

/// Why opening a folder without following links failed.
fn blocked(above: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    match rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) != FileType::Directory => {
            let name = name.to_string_lossy();
            let message = format!(
                "{name} is a link, or not a directory; a store must not contain links: replace it \
                 with its folder"
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        }
        _ => error.into(),
    }
}

/// Why opening a file without following links failed.
fn unopened(folder: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) != FileType::RegularFile => no_file(kind(&stat)),
        _ => error.into(),
    }
}

/// The error about something that is not a file: it is not an object, whatever its name is.
fn no_file(kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Symlink => {
            "it is a link; a store must not contain links: replace it with its file"
        }
        FileType::Directory => "it is a folder, not a file",
        _ => "it is not a file",
    };
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn kind(stat: &rustix::fs::Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn id(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Gives a new file or folder its permissions. A file system that has no permissions, or different
/// ones, keeps those from its creation, which are not wider.
fn open_up(made: impl AsFd, wanted: RawMode) -> io::Result<()> {
    let now = rustix::fs::fstat(&made)?.st_mode;
    // The bits that a folder inherits from the one above it, such as its group, stay.
    let wanted = now & 0o7000 | wanted;
    if now & 0o7777 == wanted {
        return Ok(());
    }
    match rustix::fs::fchmod(&made, Mode::from_raw_mode(wanted)) {
        Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        done => Ok(done?),
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let NameInFolder { folder, name, mode } = self.locate(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, OWN_FILE)?;
        open_up(&file, mode & 0o666)?;
        Ok(Box::new(RealFile(file.into())))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // Opening a pipe would block; only a file can be an object.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (root, _) = self.root()?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let file = match open_below(&root, below, flags) {
            Some(file) => file,
            None => {
                let NameInFolder { folder, name, .. } = self.locate(path)?;
                rustix::fs::openat(&folder, name, flags, Mode::empty())
                    .map_err(|e| unopened(&folder, name, e))?
            }
        };
        match kind(&rustix::fs::fstat(&file)?) {
            FileType::RegularFile => Ok(Box::new(RealFile(file.into()))),
            other => Err(no_file(other)),
        }
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed> {
        let (old, new) = (self.locate(from)?, self.locate(to)?);
        let no_replace = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&old.folder, old.name, &new.folder, new.name, no_replace) {
            // Some file systems cannot rename without replacing, but a hard link can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.link_new(from, to)?;
                Ok(Renamed::Linked)
            }
            other => Ok(other.map(|()| Renamed::Moved)?),
        }
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.locate(from)?, self.locate(to)?);
        Ok(rustix::fs::renameat(&old.folder, old.name, &new.folder, new.name)?)
    }

    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.locate(from)?, self.locate(to)?);
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(&old.folder, old.name, &new.folder, new.name, flags)?)
    }

    fn truncate(&self, path: &Path) -> io::Result<()> {
        let NameInFolder { folder, name, .. } = self.locate(path)?;
        // Opening a pipe would block.
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty())
            .map_err(|e| unopened(&folder, name, e))?;
        let stat = rustix::fs::fstat(&file)?;
        match kind(&stat) {
            FileType::RegularFile if stat.st_nlink == 1 => {}
            FileType::RegularFile => {
                let message = "it has another name too, so it must not be emptied";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            other => return Err(no_file(other)),
        }
        rustix::fs::ftruncate(&file, 0)?;
        Ok(rustix::fs::fsync(file)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let NameInFolder { folder, name, .. } = self.locate(path)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path == self.root {
            return self.create_root();
        }
        let NameInFolder { folder, name, mode } = self.locate(path)?;
        if let Err(e) = rustix::fs::mkdirat(&folder, name, OWN_FOLDER) {
            // An existing folder must be one that can be used.
            let is_there = e == Errno::EXIST;
            return Err(if is_there {
                self.folder(path).err().unwrap_or(e.into())
            } else {
                e.into()
            });
        }
        let made = rustix::fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let made = Folder::from(made);
        // An older folder that somebody has put there instead does not get these permissions.
        if !made.is_just_made()? {
            return Err(io::Error::other("another directory has replaced it"));
        }
        open_up(&made, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.folder(path)?.0)?)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>> {
        self.look_into(path, |folder| {
            let mut names = Vec::new();
            for_each_name(folder, |name, kind| {
                let is_dir = match kind {
                    // Some file systems do not state the type.
                    FileType::Unknown => look_at(folder, name)?.is_some_and(|stat| stat.is_dir),
                    kind => kind == FileType::Directory,
                };
                names.push((shown(name), is_dir && is_utf8(name)));
                Ok(())
            })?;
            Ok(names)
        })
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>> {
        self.look_into(path, |folder| {
            let mut names = Vec::new();
            for_each_name(folder, |name, _| {
                let stat = look_at(folder, name)?;
                let is_dir = |stat: &DiskStat| stat.is_dir && is_utf8(name);
                names.push((shown(name), stat.map(|s| DiskStat { is_dir: is_dir(&s), ..s })));
                Ok(())
            })?;
            Ok(names)
        })
    }

    fn stat(&self, path: &Path) -> io::Result<DiskStat> {
        let NameInFolder { folder, name, .. } = self.locate(path)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(disk_stat(&stat))
    }

    fn now_ms(&self) -> u64 {
        unix_ms(SystemTime::now())
    }
}

#[cfg(test)]
mod tests;
