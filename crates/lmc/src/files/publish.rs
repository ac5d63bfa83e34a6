//! A file that appears under its name only when it is whole and on the disk.

use crate::files::acl;
use crate::files::folder::{
    FileId, FileKind, FileState, Folder, Links, MODE_BITS, parent, set_time,
};
use crate::files::leftover::Leftover;
use crate::files::sandbox::exists;
use lmc_format::{Advice, Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{Mode, RawMode};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode that files are asked for; the mask of the process takes some of it.
const NEW_MODE: u32 = 0o666;
/// The permissions of the owner.
const OWNER_BITS: u32 = 0o700;
/// The mode of a file until it is whole, if it is made from another.
const CLOSED_MODE: u32 = 0o600;

/// What a new file takes over from what it is made from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    mode: Option<u32>,
    /// The group that the mode is about.
    group: Option<u32>,
    mtime: Option<(i64, u32)>,
    /// What it takes the place of.
    replaced: Option<FileState>,
}

impl Origin {
    /// Nothing on a disk: the mode is that of any new file, but not wider than that of a file whose
    /// place it takes.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// All of this file, whose permissions and time it gets.
    pub fn file(state: &FileState) -> Self {
        Self { mtime: Some(state.mtime), ..Self::part_of(state) }
    }

    /// Something of this file, whose permissions it gets.
    pub fn part_of(state: &FileState) -> Self {
        Self { mode: Some(state.plain_mode()), group: Some(state.group), ..Self::default() }
    }

    /// A file of which only this was kept. Its group is not known, so the permissions are taken for
    /// those of the group that the process makes files with.
    pub fn recorded(mode: u32, mtime: (i64, u32)) -> Self {
        Self { mtime: Some(mtime), ..Self::recorded_mode(mode) }
    }

    /// Something of which only the permissions were kept.
    pub fn recorded_mode(mode: u32) -> Self {
        let group = Some(rustix::process::getegid().as_raw());
        Self { mode: Some(mode & MODE_BITS), group, ..Self::default() }
    }

    /// The same for what takes the place of `old`, if there is one: nobody but the owner may do
    /// more than before.
    #[must_use]
    pub fn in_place_of(self, old: Option<FileState>) -> Self {
        Self { replaced: old, ..self }
    }

    /// The permissions for what is `made`.
    fn mode_for(&self, made: &FileState) -> u32 {
        // Another group than before may do no more than everyone.
        let as_made = |mode: u32, group: Option<u32>| match group {
            Some(group) if group != made.group => mode & (0o707 | (mode & 0o007) << 3),
            _ => mode,
        };
        let mode = self.mode.map_or(made.mode, |mode| as_made(mode, self.group));
        let most = match self.replaced {
            // A folder that was there keeps its access list, which a mask can only narrow. A new
            // file may have got the number of an old one.
            Some(old) if made.kind == FileKind::Folder && old.id == made.id => old.mode,
            Some(old) => as_made(old.plain_mode(), Some(old.group)),
            None => MODE_BITS,
        };
        mode & (most | OWNER_BITS)
    }

    /// Makes a file that is never more open than it will be.
    fn make_file(&self, folder: Folder, prefix: &str) -> io::Result<(Leftover, File)> {
        if self.mode.is_some() {
            return Leftover::make_file(folder, prefix, CLOSED_MODE);
        }
        let mode = self.replaced.map_or(NEW_MODE, |old| NEW_MODE & old.mode);
        let (leftover, file) = Leftover::make_file(folder.again()?, prefix, mode)?;
        let made = FileState::of(&file)?;
        let wanted = self.mode_for(&made);
        let is_listed = self.replaced.is_some() && made.acl.is_some();
        if wanted == made.mode && !is_listed {
            return Ok((leftover, file));
        }
        // It has another group than the old one, or an access list. Whoever has opened it must not
        // see what will be written, so that goes into another file.
        leftover.remove()?;
        let mode = if is_listed { CLOSED_MODE } else { NEW_MODE & wanted };
        Leftover::make_file(folder, prefix, mode)
    }

    /// Gives a file that is whole its permissions and its time.
    fn give(&self, file: &File) -> io::Result<()> {
        // What has a source or takes a place is not as any new file: nobody named in a list that
        // its folder gave it may read it.
        if self.mode.is_some() || self.replaced.is_some() {
            acl::remove(file)?;
        }
        let made = FileState::of(file)?;
        let mode = self.mode_for(&made);
        if mode != made.mode {
            rustix::fs::fchmod(file, Mode::from_raw_mode(mode as RawMode))?;
        }
        self.mtime.map_or(Ok(()), |mtime| set_time(file.as_fd(), mtime))
    }

    /// The same for a folder.
    pub(crate) fn give_folder(&self, folder: &Folder) -> io::Result<()> {
        if let Some(mtime) = self.mtime {
            folder.set_time(mtime)?;
        }
        let made = folder.state()?;
        let mode = self.mode_for(&made);
        if mode == made.mode { Ok(()) } else { folder.set_mode(mode) }
    }
}

/// A file being written under a temporary name beside its final one. Dropped without
/// [`Publish::commit`], it is removed; killed, it leaves only the temporary name.
#[derive(Debug)]
pub struct Publish {
    file: File,
    leftover: Arc<Leftover>,
    name: OsString,
    /// How the final name is called in errors.
    shown: PathBuf,
    overwrite: bool,
    origin: Origin,
    is_named: bool,
}

impl Publish {
    /// Starts a file that will become `path`, or what a link there leads to, unless another user
    /// has put that there. Fails if there is a file already, unless it may be overwritten. It is
    /// closed to others until it is whole.
    pub fn create(path: &Path, overwrite: bool, origin: &Origin) -> Result<Self> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let (folder, name) = Folder::reach_file(path).map_err(|e| create_error(path, e))?;
        Self::create_in(folder, &name, path, overwrite, origin)
    }

    /// Starts a file that will become `name` in `folder`, in place of a link of that name too.
    pub(crate) fn create_in(
        folder: Folder,
        name: &OsStr,
        shown: &Path,
        overwrite: bool,
        origin: &Origin,
    ) -> Result<Self> {
        let old = folder.look_closely(name, Links::Kept).ok();
        match old.map(|old| old.kind) {
            Some(_) if !overwrite => return Err(exists(shown)),
            // A device or a pipe would be replaced, and a directory cannot be.
            Some(FileKind::Folder | FileKind::Other) => return Err(not_a_file(shown)),
            _ => {}
        }
        let origin = origin.in_place_of(old.filter(|old| old.kind == FileKind::File));
        let made = origin.make_file(folder, &prefix(name));
        let (leftover, file) =
            made.map_err(|e| Error::io("cannot make a temporary file beside it", e))?;
        let (leftover, shown) = (Arc::new(leftover), shown.to_path_buf());
        let name = name.to_os_string();
        Ok(Self { file, leftover, name, shown, overwrite, origin, is_named: false })
    }

    /// The temporary file, for a process that is told to end and wants to leave nothing.
    pub fn leftover(&self) -> Arc<Leftover> {
        self.leftover.clone()
    }

    /// The file, to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file whose place it takes, if there is one.
    pub(crate) fn replaced(&self) -> Option<FileId> {
        self.origin.replaced.map(|old| old.id)
    }

    /// Puts the file under its name, whole and durable.
    ///
    /// On an error there is nothing new under the name, and what was there is as it was; unless the
    /// error says that the file is there, which is so if only its folder cannot be synced.
    pub fn commit(self) -> Result<()> {
        let (leftover, shown) = (self.leftover.clone(), self.shown.clone());
        self.place()?;
        leftover.folder.sync().map_err(|e| {
            let shown = shown.display();
            Error::io(format_args!("{shown} is there, but may be gone after a power cut"), e)
        })
    }

    /// Puts the file under its name, whole. The name is durable once its folder is synced.
    pub fn place(mut self) -> Result<()> {
        self.origin.give(&self.file).map_err(|e| Error::io("cannot set its mode and time", e))?;
        self.file.sync_all().map_err(|e| Error::io("cannot write it to the disk", e))?;
        let Leftover { folder, name: temporary, .. } = &*self.leftover;
        folder.rename(temporary, &self.name, self.overwrite).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.shown),
            _ => Error::io("cannot give it its name", e),
        })?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for Publish {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = self.leftover.remove();
        }
    }
}

/// Adds to what was written before.
impl Write for Publish {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn not_a_file(path: &Path) -> Error {
    let message = format!("{} is not a regular file", path.display());
    Error::invalid(message).with_advice(Advice::ChooseFileOrStream)
}

fn create_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let message = format!("no folder {}", parent(path).display());
            Error::new(ErrorKind::NotFound, message).with_advice(Advice::CreateFolder)
        }
        _ => Error::io(format_args!("cannot reach {}", path.display()), error),
    }
}

/// The start of a temporary name, which tells what it was to become.
pub(crate) fn prefix(name: &OsStr) -> String {
    let short: String = name.to_string_lossy().chars().take(40).collect();
    format!(".{short}.")
}
