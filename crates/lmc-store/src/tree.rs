//! What is saved: a file, or all of a directory, or files that are in memory, in the order of the
//! paths.

use crate::manifest::{Bytes, MODE_BITS};
use crate::path::RelPath;
use crate::storage::io_error;
use lmc::Input;
use lmc_format::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that is in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile<'a> {
    /// Its path in the snapshot.
    pub path: RelPath,
    /// Its bytes, one part behind the other.
    pub parts: Vec<&'a [u8]>,
    /// Files of the parent that hold what it was, if that is known; otherwise it is looked for.
    pub like: Vec<RelPath>,
}

/// A name that is to be saved.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    /// Its path in the snapshot.
    pub path: RelPath,
    /// Where it is now.
    pub place: Place<'a>,
    /// What it is.
    pub what: What,
    /// Files of the parent that hold what it was, if that is known.
    pub like: &'a [RelPath],
}

/// Where a file is.
#[derive(Debug)]
pub(crate) enum Place<'a> {
    Disk(PathBuf),
    Memory(&'a [&'a [u8]]),
}

impl Place<'_> {
    /// Its path, if it is on a disk.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Disk(path) => Some(path),
            Self::Memory(_) => None,
        }
    }

    pub(crate) fn open(&self) -> Result<Opened<'_>> {
        match self {
            Self::Disk(path) => {
                let file = File::open(path).map_err(|e| io_error("cannot open it", &e))?;
                Ok(Opened::File(file))
            }
            Self::Memory(parts) => Ok(Opened::Memory(parts)),
        }
    }
}

/// A file that can be read.
#[derive(Debug)]
pub(crate) enum Opened<'a> {
    File(File),
    Memory(&'a [&'a [u8]]),
}

impl Opened<'_> {
    pub(crate) fn input(&self) -> Input<'_> {
        match self {
            Self::File(file) => Input::File(file),
            Self::Memory(parts) => Input::Parts(parts),
        }
    }

    /// Fails if a file is not as it was when it was first looked at.
    pub(crate) fn check(&self, state: &FileState) -> Result<()> {
        let Self::File(file) = self else { return Ok(()) };
        let metadata = file.metadata().map_err(|e| io_error("cannot look at it", &e))?;
        if FileState::new(&metadata) != *state {
            let message = "changed while it was saved; save again when nobody writes to it";
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(())
    }
}

/// What a name is.
#[derive(Debug)]
pub(crate) enum What {
    File(FileState),
    Directory { mode: u32 },
    Link { target: Bytes },
}

/// A file, as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileState {
    pub mode: u32,
    pub mtime: (i64, u32),
    pub size: u64,
}

impl FileState {
    pub(crate) fn new(metadata: &Metadata) -> Self {
        let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Self { mode: mode(metadata), mtime: (metadata.mtime(), nanoseconds), size: metadata.len() }
    }
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & MODE_BITS
}

/// Everything at `root`, and whether that is a single file. Links in it are not followed, unless
/// `follow` is set; `root` itself always is.
pub(crate) fn walk(root: &Path, follow: bool) -> Result<(Vec<Leaf<'static>>, bool)> {
    let metadata = fs::metadata(root)
        .map_err(|e| io_error(format_args!("cannot look at {}", root.display()), &e))?;
    let mut leaves = Vec::new();
    if metadata.is_dir() {
        let mut walk = Walk { follow, leaves: &mut leaves };
        walk.folder(root, None, 0)?;
    } else if metadata.is_file() {
        let name = fs::canonicalize(root).ok().and_then(|path| Some(path.file_name()?.to_owned()));
        let name = root.file_name().map(ToOwned::to_owned).or(name).unwrap_or_default();
        let path = RelPath::new(name.as_bytes())?;
        let what = What::File(FileState::new(&metadata));
        leaves.push(Leaf { path, place: Place::Disk(root.to_path_buf()), what, like: &[] });
    } else {
        return Err(Error::invalid(format!("{} is no file or directory", root.display())));
    }
    leaves.sort_by(|a, b| a.path.cmp(&b.path));
    Ok((leaves, metadata.is_file()))
}

/// Files in memory, with the folders that they are in. They get `time_ms` as their time.
pub(crate) fn in_memory<'a>(files: &'a [MemoryFile<'a>], time_ms: u64) -> Result<Vec<Leaf<'a>>> {
    let mut leaves: BTreeMap<RelPath, Leaf> = BTreeMap::new();
    let mtime = ((time_ms / 1000) as i64, (time_ms % 1000) as u32 * 1_000_000);
    for MemoryFile { path, parts, like } in files {
        let twice = || Error::invalid(format!("{path} is there twice, or is a folder too"));
        for folder in std::iter::successors(path.folder(), RelPath::folder) {
            let (place, what) = (Place::Memory(&[]), What::Directory { mode: FOLDER_MODE });
            let leaf = leaves.entry(folder.clone());
            let leaf = leaf.or_insert(Leaf { path: folder, place, what, like: &[] });
            if matches!(leaf.what, What::File(_)) {
                return Err(twice());
            }
        }
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let what = What::File(FileState { mode: FILE_MODE, mtime, size });
        let leaf = Leaf { path: path.clone(), place: Place::Memory(parts), what, like };
        if leaves.insert(path.clone(), leaf).is_some() {
            return Err(twice());
        }
    }
    Ok(leaves.into_values().collect())
}

/// Permissions of what never was on a disk.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// Folders that may stand one in the other: more is a loop of links.
const FOLDERS_MAX: usize = 200;

struct Walk<'a> {
    follow: bool,
    leaves: &'a mut Vec<Leaf<'static>>,
}

impl Walk<'_> {
    fn folder(&mut self, source: &Path, path: Option<&RelPath>, depth: usize) -> Result<()> {
        if depth > FOLDERS_MAX {
            let message = format!("{}: folders are too deep, or a loop of links", source.display());
            return Err(Error::invalid(message));
        }
        let cannot =
            |e: &std::io::Error| io_error(format_args!("cannot list {}", source.display()), e);
        for entry in fs::read_dir(source).map_err(|e| cannot(&e))? {
            let entry = entry.map_err(|e| cannot(&e))?;
            let name = entry.file_name();
            let path = match path {
                Some(path) => path.join(name.as_bytes())?,
                None => RelPath::new(name.as_bytes())?,
            };
            self.leaf(entry.path(), path, depth)?;
        }
        Ok(())
    }

    fn leaf(&mut self, source: PathBuf, path: RelPath, depth: usize) -> Result<()> {
        let cannot =
            |e: &std::io::Error| io_error(format_args!("cannot look at {}", source.display()), e);
        let look = if self.follow { fs::metadata } else { fs::symlink_metadata };
        let metadata = look(&source).map_err(|e| cannot(&e))?;
        let what = if metadata.is_symlink() {
            let target = fs::read_link(&source).map_err(|e| cannot(&e))?;
            What::Link { target: Bytes(target.as_os_str().as_bytes().to_vec()) }
        } else if metadata.is_dir() {
            self.folder(&source, Some(&path), depth + 1)?;
            What::Directory { mode: mode(&metadata) }
        } else if metadata.is_file() {
            What::File(FileState::new(&metadata))
        } else {
            let message = "is no file, directory or link, so it cannot be saved; move it away";
            return Err(Error::invalid(format!("{} {message}", source.display())));
        };
        self.leaves.push(Leaf { path, place: Place::Disk(source), what, like: &[] });
        Ok(())
    }
}
