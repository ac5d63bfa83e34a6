//! The source of a save: a file, a whole directory, or files in memory, in the order of their
//! paths.
//!
//! A directory is listed once. The files that are read later must be those that were listed: the
//! same files in the same folders, not written to since. Links are not followed unless the caller
//! asks for it.

use crate::layout::manifest::Bytes;
use crate::layout::path::RelPath;
use crate::save::warning::Warning;
use lmc::{FileKind, Input, Links, Tree};
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file in memory.
#[derive(Clone, Debug)]
pub struct MemoryFile<'a> {
    /// Its path in the snapshot.
    pub path: RelPath,
    /// Its bytes, as parts in order.
    pub parts: Vec<&'a [u8]>,
    /// Files of the parent that hold its earlier content, if known; otherwise the save looks for
    /// them.
    pub like: Vec<RelPath>,
}

/// A file or a directory on a disk that is to be saved.
#[derive(Debug)]
pub(crate) struct SaveSource {
    pub leaves: Vec<Leaf<'static>>,
    root: Root,
}

#[derive(Debug)]
enum Root {
    Directory(Arc<Tree>),
    File { path: PathBuf, state: lmc::FileState },
}

impl SaveSource {
    /// Whether it is a single file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.root, Root::File { .. })
    }

    /// The permissions of the directory itself.
    pub(crate) fn root_mode(&self) -> Option<u32> {
        match &self.root {
            Root::Directory(tree) => Some(tree.root().plain_mode()),
            Root::File { .. } => None,
        }
    }

    /// Fails if the file, or one of the folders, is not the one that was listed. Files were checked
    /// as they were read, so the bytes are those of one moment: the moment at which all were
    /// listed.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.root {
            Root::Directory(tree) => tree.check_folders(),
            Root::File { path, state } => lmc::check_place(path, state.id),
        }
    }

    /// A warning about the source, if there is one.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let is =
            |what: fn(&What) -> bool| self.leaves.iter().filter(|leaf| what(&leaf.what)).count();
        let links = is(|what| matches!(what, What::Link { .. }));
        match (is(|what| matches!(what, What::File(_))), links) {
            (0, 0) => Some(Warning::new("it contains no file")),
            (0, _) => {
                let warning = format!(
                    "it contains no file; {links} links are saved as links, without their targets"
                );
                Some(Warning::new(warning).with_advice(Advice::FollowLinks))
            }
            _ => None,
        }
    }
}

/// A name that is to be saved.
#[derive(Debug)]
pub(crate) struct Leaf<'a> {
    /// Its path in the snapshot.
    pub path: RelPath,
    /// Where it is now.
    pub source: FileSource<'a>,
    /// What it is.
    pub what: What,
    /// Files of the parent that hold its earlier content, if known.
    pub like: &'a [RelPath],
}

/// Where a file is.
#[derive(Debug)]
pub(crate) enum FileSource<'a> {
    /// Below a directory, by its number there.
    Below(Arc<Tree>, usize),
    /// An open file, and its path.
    Open(File, PathBuf),
    Memory(&'a [&'a [u8]]),
}

impl FileSource<'_> {
    /// Its path; empty for files in memory.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Below(tree, i) => tree.path().join(&tree.entries()[*i].path),
            Self::Open(_, path) => path.clone(),
            Self::Memory(_) => PathBuf::new(),
        }
    }

    /// Opens a file on a disk; fails if it is not the one that was listed.
    pub(crate) fn file(&self) -> Result<Option<File>> {
        match self {
            Self::Below(tree, i) => {
                let entry = &tree.entries()[*i];
                tree.open(&entry.path, &entry.state).map(Some)
            }
            Self::Open(file, _) => {
                let file = file.try_clone();
                Ok(Some(file.map_err(|e| Error::io("cannot open it again", e))?))
            }
            Self::Memory(_) => Ok(None),
        }
    }

    pub(crate) fn open(&self) -> Result<Opened<'_>> {
        match (self, self.file()?) {
            (_, Some(file)) => Ok(Opened::File(file)),
            (Self::Memory(parts), _) => Ok(Opened::Memory(parts)),
            _ => Err(Error::invalid("it is not a file")),
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

    /// Fills `out` with the bytes from `at` on.
    pub(crate) fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let parts = match self {
            Self::File(file) => return file.read_exact_at(out, at),
            Self::Memory(parts) => parts,
        };
        let (mut skip, mut rest) = (at, out);
        for part in *parts {
            let start = part.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
            let own = &part[start..];
            let (out, after) = rest.split_at_mut(own.len().min(rest.len()));
            out.copy_from_slice(&own[..out.len()]);
            (skip, rest) = (skip - start as u64, after);
        }
        if rest.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Fails if a file has changed since it was listed.
    pub(crate) fn check(&self, state: &FileState) -> Result<()> {
        let (Self::File(file), Some(listed)) = (self, &state.listed) else { return Ok(()) };
        let now = lmc::FileState::of(file).map_err(|e| Error::io("cannot access it", e))?;
        if !listed.is_unchanged(&now) {
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileState {
    pub mode: u32,
    pub mtime: (i64, u32),
    pub size: u64,
    /// Everything that the disk says about it.
    pub listed: Option<lmc::FileState>,
}

impl FileState {
    fn new(listed: lmc::FileState) -> Self {
        let lmc::FileState { mtime, size, .. } = listed;
        Self { mode: listed.plain_mode(), mtime, size, listed: Some(listed) }
    }
}

/// Everything at `root`, or at the target of a link there. Links inside are kept, unless `follow`
/// is set.
pub(crate) fn walk(root: &Path, follow: bool) -> Result<SaveSource> {
    let cannot = |e| Error::io(format_args!("cannot access {}", root.display()), e);
    match lmc::FileState::at(root).map_err(cannot)?.kind {
        FileKind::Folder => directory(root, follow),
        FileKind::File => single(root),
        _ => Err(Error::invalid(format!("{} is not a file or directory", root.display()))),
    }
}

fn single(root: &Path) -> Result<SaveSource> {
    let cannot = |e| Error::io(format_args!("cannot open {}", root.display()), e);
    // Opening a pipe with this name would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(root).map_err(cannot)?;
    let state = lmc::FileState::of(&file).map_err(cannot)?;
    if state.kind != FileKind::File {
        return Err(Error::invalid(format!("{} is no longer a file", root.display())));
    }
    let name = fs::canonicalize(root).ok().and_then(|path| Some(path.file_name()?.to_owned()));
    let name = root.file_name().map(ToOwned::to_owned).or(name).unwrap_or_default();
    let path = RelPath::new(name.as_bytes())?;
    let source = FileSource::Open(file, root.to_path_buf());
    let leaf = Leaf { path, source, what: What::File(FileState::new(state)), like: &[] };
    Ok(SaveSource { leaves: vec![leaf], root: Root::File { path: root.to_path_buf(), state } })
}

fn directory(root: &Path, follow: bool) -> Result<SaveSource> {
    let links = if follow { Links::Followed } else { Links::Kept };
    let tree = Arc::new(Tree::read(root, links)?);
    let leaf = |(i, entry): (usize, &lmc::TreeEntry)| {
        let what = match (entry.state.kind, &entry.target) {
            (FileKind::File, _) => What::File(FileState::new(entry.state)),
            (FileKind::Folder, _) => What::Directory { mode: entry.state.plain_mode() },
            (FileKind::Link, Some(target)) => {
                What::Link { target: Bytes(target.clone().into_vec()) }
            }
            _ => {
                let message =
                    "is not a file, directory or link, so it cannot be saved; move it away";
                return Err(Error::invalid(format!(
                    "{} {message}",
                    root.join(&entry.path).display()
                )));
            }
        };
        let path = RelPath::new(entry.path.as_os_str().as_bytes())?;
        let source = FileSource::Below(tree.clone(), i);
        Ok(Leaf { path, source, what, like: &[] })
    };
    let leaves = tree.entries().iter().enumerate().map(leaf).collect::<Result<_>>()?;
    Ok(SaveSource { leaves, root: Root::Directory(tree) })
}

/// Files in memory, with the folders that they are in. They get `time_ms` as their time.
pub(crate) fn in_memory<'a>(files: &'a [MemoryFile<'a>], time_ms: u64) -> Result<Vec<Leaf<'a>>> {
    let mut leaves: BTreeMap<RelPath, Leaf> = BTreeMap::new();
    let mtime = ((time_ms / 1000) as i64, (time_ms % 1000) as u32 * 1_000_000);
    for MemoryFile { path, parts, like } in files {
        let twice = || Error::invalid(format!("{path} is given twice, or is also a folder"));
        for folder in std::iter::successors(path.folder(), RelPath::folder) {
            let (source, what) = (FileSource::Memory(&[]), What::Directory { mode: FOLDER_MODE });
            let leaf = leaves.entry(folder.clone());
            let leaf = leaf.or_insert(Leaf { path: folder, source, what, like: &[] });
            if matches!(leaf.what, What::File(_)) {
                return Err(twice());
            }
        }
        let size = parts.iter().map(|part| part.len() as u64).sum();
        let what = What::File(FileState { mode: FILE_MODE, mtime, size, listed: None });
        let leaf = Leaf { path: path.clone(), source: FileSource::Memory(parts), what, like };
        if leaves.insert(path.clone(), leaf).is_some() {
            return Err(twice());
        }
    }
    Ok(leaves.into_values().collect())
}

/// Permissions of files that were never on a disk: memory is not open to others either.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
