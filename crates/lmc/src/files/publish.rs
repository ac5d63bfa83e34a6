//! A file that appears under its name only when it is complete and durable.

use crate::files::acl;
use crate::files::folder::{
    FileId, FileKind, FileState, Folder, Links, MODE_BITS, parent, set_time,
};
use crate::files::leftover::Leftover;
use crate::files::sandbox::exists;
use lmc_format::{Advice, Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{Mode, RawMode};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The mode for new files, before the mask of the process takes some of it away.
const NEW_MODE: u32 = 0o666;
/// The permissions of the owner.
const OWNER_BITS: u32 = 0o700;
/// The mode of an incomplete file that is made from another one.
const CLOSED_MODE: u32 = 0o600;

/// What a new file takes over from its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    mode: Option<u32>,
    /// The group that the mode refers to.
    group: Option<u32>,
    mtime: Option<(i64, u32)>,
    /// The file that it replaces.
    replaced: Option<FileState>,
}

impl Origin {
    /// Not made from a file on disk: the mode is that of any new file, but not wider than that of a
    /// file it replaces.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Made from all of this file, and gets its permissions and time.
    pub fn file(state: &FileState) -> Self {
        Self { mtime: Some(state.mtime), ..Self::part_of(state) }
    }

    /// Made from a part of this file, and gets its permissions.
    pub fn part_of(state: &FileState) -> Self {
        Self { mode: Some(state.plain_mode()), group: Some(state.group), ..Self::default() }
    }

    /// Made from a file of which only the mode and time were recorded. Its group is not known, so
    /// the permissions are taken to be for the group that the process creates files with.
    pub fn recorded(mode: u32, mtime: (i64, u32)) -> Self {
        Self { mtime: Some(mtime), ..Self::recorded_mode(mode) }
    }

    /// Made from something of which only the permissions were recorded.
    pub fn recorded_mode(mode: u32) -> Self {
        let group = Some(rustix::process::getegid().as_raw());
        Self { mode: Some(mode & MODE_BITS), group, ..Self::default() }
    }

    /// The same for a file that replaces `old`, if there is one: nobody but the owner gets more
    /// permissions than before.
    #[must_use]
    pub fn in_place_of(self, old: Option<FileState>) -> Self {
        Self { replaced: old, ..self }
    }

    /// The permissions for the new file `made`.
    fn mode_for(&self, made: &FileState) -> u32 {
        // A different group gets no more permissions than everyone.
        let as_made = |mode: u32, group: Option<u32>| match group {
            Some(group) if group != made.group => mode & (0o707 | (mode & 0o007) << 3),
            _ => mode,
        };
        let mode = self.mode.map_or(made.mode, |mode| as_made(mode, self.group));
        let most = match self.replaced {
            // An existing folder keeps its access list, which a mask can only narrow. The kind is
            // checked because a new file may have got the number of an old one.
            Some(old) if made.kind == FileKind::Folder && old.id == made.id => old.mode,
            Some(old) => as_made(old.plain_mode(), Some(old.group)),
            None => MODE_BITS,
        };
        mode & (most | OWNER_BITS)
    }

    /// Creates a file that is never more open than it will be in the end.
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
        // It has another group than the old one, or an access list. Anyone who has already opened
        // it must not see what will be written, so another file is used.
        leftover.remove()?;
        let mode = if is_listed { CLOSED_MODE } else { NEW_MODE & wanted };
        Leftover::make_file(folder, prefix, mode)
    }

    /// Gives a complete file its permissions and its time.
    fn give(&self, file: &File) -> io::Result<()> {
        // A file that has a source or replaces another is not like any new file: users named in a
        // list that it inherited from its folder must not be able to read it.
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

/// A file that is being written under a temporary name next to its final one. If it is dropped
/// without [`Publish::commit`], it is removed. If the process is killed, only the temporary name is
/// left.
#[derive(Debug)]
pub struct Publish {
    file: File,
    leftover: Arc<Leftover>,
    name: OsString,
    /// The final name as it is shown in errors.
    shown: PathBuf,
    overwrite: bool,
    origin: Origin,
    /// The other results in the same directory.
    siblings: Siblings,
    is_named: bool,
}

/// The files that were made for one directory. None of them may replace another.
pub(crate) type Siblings = Arc<Mutex<HashSet<FileId>>>;

impl Publish {
    /// Starts a file that will become `path`, or the target of a link there, unless another user
    /// has put the link there. Fails if the file already exists, unless it may be overwritten. It
    /// is closed to others until it is complete.
    pub fn create(path: &Path, overwrite: bool, origin: &Origin) -> Result<Self> {
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let (folder, name) = Folder::reach_file(path).map_err(|e| create_error(path, e))?;
        Self::create_in(folder, &name, path, overwrite, origin, Siblings::default())
    }

    /// Starts a file that will become `name` in `folder`; it replaces a link of that name too.
    pub(crate) fn create_in(
        folder: Folder,
        name: &OsStr,
        shown: &Path,
        overwrite: bool,
        origin: &Origin,
        siblings: Siblings,
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
            made.map_err(|e| Error::io("cannot make a temporary file next to it", e))?;
        let (leftover, shown) = (Arc::new(leftover), shown.to_path_buf());
        let name = name.to_os_string();
        Ok(Self { file, leftover, name, shown, overwrite, origin, siblings, is_named: false })
    }

    /// The temporary file, for a process that is told to stop and should leave nothing.
    pub fn leftover(&self) -> Arc<Leftover> {
        self.leftover.clone()
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file that it replaces, if there is one.
    pub(crate) fn replaced(&self) -> Option<FileId> {
        self.origin.replaced.map(|old| old.id)
    }

    /// Puts the complete file under its name, durably.
    ///
    /// On an error there is nothing new under the name, and any old file there is unchanged. The
    /// exception is an error that says that the file is there, which means that only its folder
    /// could not be synced.
    pub fn commit(self) -> Result<()> {
        let (leftover, shown) = (self.leftover.clone(), self.shown.clone());
        self.place()?;
        leftover.folder.sync().map_err(|e| {
            let shown = shown.display();
            Error::io(format_args!("{shown} is complete, but a power cut may still lose it"), e)
        })
    }

    /// Puts the complete file under its name. The name is durable once its folder is synced.
    pub fn place(mut self) -> Result<()> {
        self.origin.give(&self.file).map_err(|e| Error::io("cannot set its mode and time", e))?;
        self.file.sync_all().map_err(|e| Error::io("cannot write it to the disk", e))?;
        let Leftover { folder, name: temporary, id, .. } = &*self.leftover;
        let siblings = self.siblings.lock().unwrap_or_else(PoisonError::into_inner);
        // The file system may not distinguish the names of two results that are made concurrently.
        if let Ok(there) = folder.look(&self.name, Links::Kept)
            && there.id != *id
            && siblings.contains(&there.id)
        {
            return Err(is_another(&self.shown));
        }
        folder.rename(temporary, &self.name, self.overwrite).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.shown),
            _ => Error::io("cannot give it its final name", e),
        })?;
        drop(siblings);
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

/// Appends to the bytes written before.
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

/// The error where the file system does not distinguish this name from that of another result.
pub(crate) fn is_another(shown: &Path) -> Error {
    let message = format!(
        "{}: another result already has this name on this file system, which may ignore the case \
         of letters; use another directory",
        shown.display()
    );
    Error::new(ErrorKind::AlreadyExists, message)
}

fn create_error(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let message = format!("there is no folder {}", parent(path).display());
            Error::new(ErrorKind::NotFound, message).with_advice(Advice::CreateFolder)
        }
        _ => Error::io(format_args!("cannot reach {}", path.display()), error),
    }
}

/// The start of a temporary name, which shows the intended final name.
pub(crate) fn prefix(name: &OsStr) -> String {
    let short: String = name.to_string_lossy().chars().take(40).collect();
    format!(".{short}.")
}
