//! The file operations that local storage is made of, so that tests can put another disk below it:
//! one that fails, or one that forgets what was not synced.

mod names;

use super::Access;
use crate::layout::clock::unix_ms;
use crate::layout::config::CONFIG_NAME;
use lmc::Folder;
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
    /// Writes some of `bytes` behind what was written before; returns how many.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable; the name of the file is not part of that.
    fn sync(&mut self) -> io::Result<()>;
    /// Reads some of the bytes from `at` on; returns how many, 0 at the end.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize>;
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskStat {
    /// Bytes, if it is a file, and otherwise 0.
    pub size: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub modified_ms: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Device and inode: names of one file have the same.
    pub id: (u64, u64),
}

/// How a file got another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// It has left the old one.
    Moved,
    /// It has both, and the old one is for the caller to remove.
    Linked,
}

/// A file system. Where something that is no folder is on the way to a name, the error is
/// `InvalidData`.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a file that must not be there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file for reading. Of anything else the error is `InvalidData`.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name, which must be free: otherwise the error is `AlreadyExists`. The
    /// old name stays where only a hard link can do this.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<Renamed>;
    /// Gives a file another name; a file of that name is replaced.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must be free: otherwise the error is `AlreadyExists`.
    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes all bytes from a file, which is as new as if it were written now. Of anything else,
    /// and of a file that has another name, the error is `InvalidData`.
    fn truncate(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a directory that must not be there.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in any order, and whether each is a directory. A name that is not
    /// UTF-8 has U+FFFD in it and is none: nothing can be reached by it.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<(String, bool)>>;
    /// The same with what each name is; none of one that is removed meanwhile.
    fn list_dir(&self, path: &Path) -> io::Result<Vec<(String, Option<DiskStat>)>>;
    /// What a name is.
    fn stat(&self, path: &Path) -> io::Result<DiskStat>;
    /// The time by the clock that gives files their times, in milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The file system of the machine, for what lies in one directory.
///
/// Every name is reached from there folder by folder, and no link is followed on the way: what is
/// behind one is nobody's to list, to write and to remove. The directory itself may be reached by a
/// link, unless another user has put that there. What is made is as open as the directory is, if
/// that belongs to us or to root.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// How open the directory is made.
    access: Access,
    /// The directory as it was when it was used first.
    first: Arc<OnceLock<Root>>,
}

/// A directory: which one, whose, and the permissions of what is made in it.
#[derive(Debug)]
struct Root {
    id: (u64, u64),
    owner: u32,
    mode: RawMode,
}

/// Times that a folder is looked at while it changes.
pub(super) const LISTS_MAX: usize = 8;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::CLOEXEC);
/// Permissions of what is being made, until it has those of the root.
const OWN_FILE: Mode = Mode::from_raw_mode(0o600);
const OWN_FOLDER: Mode = Mode::from_raw_mode(0o700);

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(out, at)
    }
}

/// A name in an open folder.
struct Place<'a> {
    folder: OwnedFd,
    name: &'a OsStr,
    /// The permissions of a folder that is made there.
    mode: RawMode,
}

impl RealDisk {
    /// For what lies below `root`, which is made by `access` if it is not there.
    pub fn new(root: &Path, access: Access) -> Self {
        Self { root: root.to_path_buf(), access, first: Arc::default() }
    }

    /// Opens the root; also gives the permissions of what is made in it. If somebody has put
    /// another folder in its place, that may not belong to another user, and opens nothing to more
    /// people.
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
                "somebody has put a folder of another user in the place of {}; look into it, and \
                 open the store again",
                self.root.display()
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok((root, mode & first.mode))
    }

    /// Opens the root or a folder below it; also gives the permissions of what is made in it.
    fn folder(&self, path: &Path) -> io::Result<(OwnedFd, RawMode)> {
        let (mut folder, mode) = self.root()?;
        let Ok(below) = path.strip_prefix(&self.root) else {
            // The folder that the root is in.
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

    /// What `look` sees in a folder. One that changed meanwhile is looked at again: its names are
    /// read a few at a time, so that one may go before it is read and what took its place come
    /// after that.
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

    /// The place that a path below the root names.
    fn place<'a>(&self, path: &'a Path) -> io::Result<Place<'a>> {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let (folder, mode) = self.folder(above)?;
        Ok(Place { folder, name, mode })
    }

    /// Makes the directory itself; the kernel takes away what the umask does not allow.
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

/// The permissions of folders that are made below a root: its own. A root of another user decides
/// less, since that user may change its mode at any time: nothing is ever made that everyone may
/// write to, and where the store itself was made by somebody else, it is as open as that made it.
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
            // Who may read a folder may enter it.
            files | (files & 0o444) >> 2
        }
        None => mode,
    } & !0o002)
}

/// Opens what is below a folder in one call, without following links; none if that failed or the
/// kernel cannot do it, and then it is for a walk from folder to folder to say why.
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

/// What an open of a folder without following links failed at.
fn blocked(above: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    match rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) != FileType::Directory => {
            let name = name.to_string_lossy();
            let message = format!(
                "{name} is a link, or not a directory; a store holds no links, put its folders in \
                 its place"
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        }
        _ => error.into(),
    }
}

/// What an open of a file without following links failed at.
fn unopened(folder: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if kind(&stat) != FileType::RegularFile => no_file(kind(&stat)),
        _ => error.into(),
    }
}

/// What is said of something that is no file: it is no object, whatever its name is.
fn no_file(kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Symlink => "it is a link; a store holds no links, put the file in its place",
        FileType::Directory => "it is a folder and not a file",
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

/// Gives what was just made the permissions that it should have. A file system that has none, or
/// others than ours, keeps what was asked for when it was made, which is no more.
fn open_up(made: impl AsFd, wanted: RawMode) -> io::Result<()> {
    let now = rustix::fs::fstat(&made)?.st_mode;
    // What a folder has from the one above it, for its group, stays.
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
        let Place { folder, name, mode } = self.place(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, OWN_FILE)?;
        open_up(&file, mode & 0o666)?;
        Ok(Box::new(RealFile(file.into())))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // A pipe would have to be waited for; what is no file is no object.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (root, _) = self.root()?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let file = match open_below(&root, below, flags) {
            Some(file) => file,
            None => {
                let Place { folder, name, .. } = self.place(path)?;
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
        let (old, new) = (self.place(from)?, self.place(to)?);
        let no_replace = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(&old.folder, old.name, &new.folder, new.name, no_replace) {
            // Some file systems cannot refuse to replace; a hard link can.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.link_new(from, to)?;
                Ok(Renamed::Linked)
            }
            other => Ok(other.map(|()| Renamed::Moved)?),
        }
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.place(from)?, self.place(to)?);
        Ok(rustix::fs::renameat(&old.folder, old.name, &new.folder, new.name)?)
    }

    fn link_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old, new) = (self.place(from)?, self.place(to)?);
        let flags = AtFlags::empty();
        Ok(rustix::fs::linkat(&old.folder, old.name, &new.folder, new.name, flags)?)
    }

    fn truncate(&self, path: &Path) -> io::Result<()> {
        let Place { folder, name, .. } = self.place(path)?;
        // A pipe would have to be waited for.
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty())
            .map_err(|e| unopened(&folder, name, e))?;
        let stat = rustix::fs::fstat(&file)?;
        match kind(&stat) {
            FileType::RegularFile if stat.st_nlink == 1 => {}
            FileType::RegularFile => {
                let message = "it has another name, so that its bytes are not ours to take";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            other => return Err(no_file(other)),
        }
        rustix::fs::ftruncate(&file, 0)?;
        Ok(rustix::fs::fsync(file)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let Place { folder, name, .. } = self.place(path)?;
        Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path == self.root {
            return self.create_root();
        }
        let Place { folder, name, mode } = self.place(path)?;
        if let Err(e) = rustix::fs::mkdirat(&folder, name, OWN_FOLDER) {
            // One that is there must be one that is used.
            let is_there = e == Errno::EXIST;
            return Err(if is_there {
                self.folder(path).err().unwrap_or(e.into())
            } else {
                e.into()
            });
        }
        let made = rustix::fs::openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let made = Folder::from(made);
        // An older folder, which somebody has put in its place, is not opened up.
        if !made.is_just_made()? {
            return Err(io::Error::other("somebody else has put another directory in its place"));
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
                    // Some file systems do not say.
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
        let Place { folder, name, .. } = self.place(path)?;
        let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(disk_stat(&stat))
    }

    fn now_ms(&self) -> u64 {
        unix_ms(SystemTime::now())
    }
}

#[cfg(test)]
mod tests;
