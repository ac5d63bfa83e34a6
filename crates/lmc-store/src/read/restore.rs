//! Restoring a snapshot to files.

use crate::Store;
use crate::layout::content_kind::ContentKind;
use crate::layout::manifest::{FileNode, ManifestEntry, Node};
use crate::layout::names::SnapshotName;
use crate::layout::path::RelPath;
use crate::read::glob::Glob;
use crate::read::library::SnapshotLibrary;
use crate::upkeep::check::is_lost;
use crate::upkeep::rebase::original;
use lmc::{Input, Leftover, NewDirectory, Options, Origin, Output, Sandbox, Several};
use lmc_format::{Advice, Error, ErrorKind, Result};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The bytes that are copied in one go.
const COPY_LEN: usize = 1 << 20;

/// What to restore, and how.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// Only paths that match one of these, and everything below them; all paths if the list is
    /// empty.
    pub only: Vec<Glob>,
    /// Leave out files that are only needed to continue the training.
    pub weights_only: bool,
    /// Write into a directory that is not empty, and replace existing files.
    pub overwrite: bool,
    /// Keep the files that can be restored if others cannot.
    pub keep_going: bool,
    /// Restore nothing if the wanted files have more bytes than this.
    pub max_size: Option<u64>,
    /// Called with each temporary file or directory; several may be in use. With it, a process that
    /// is told to end can clean up.
    pub on_temporary: Option<fn(Arc<Leftover>)>,
}

/// What was restored.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that could not be restored, and why.
    pub failed: Vec<(RelPath, Error)>,
}

impl RestoreOptions {
    /// Whether an entry is to be restored.
    pub fn wants(&self, entry: &ManifestEntry) -> bool {
        let is_left_out =
            matches!(&entry.node, Node::File(file) if file.kind == ContentKind::Optimizer);
        let fits = |glob: &Glob| glob.fits_path(&entry.path);
        !(self.weights_only && is_left_out) && (self.only.is_empty() || self.only.iter().any(fits))
    }
}

impl Store {
    /// Restores a snapshot to `target`: a new directory, or the one file that was saved. A new
    /// directory appears only when it is complete. Nothing outside the target is written.
    ///
    /// On an error, a new target does not exist. In a target that existed before, the files that
    /// were already restored are whole. With [`RestoreOptions::keep_going`], damage is reported in
    /// [`Restored::failed`].
    pub fn restore(
        &self,
        name: &SnapshotName,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        self.write_out(name, target, options, Form::Original)
    }

    /// Writes a snapshot to a directory of `.lmc` files that need no store and no base, as `lmc
    /// compress` makes them from a directory.
    pub fn export(
        &self,
        name: &SnapshotName,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        self.write_out(name, target, options, Form::Archive)
    }

    fn write_out(
        &self,
        name: &SnapshotName,
        target: &Path,
        options: &RestoreOptions,
        form: Form,
    ) -> Result<Restored> {
        let _shift = self.context.shift();
        let manifest = &Arc::new(self.manifest(name)?);
        let size = |entry: &ManifestEntry| match &entry.node {
            Node::File(file) if options.wants(entry) => file.size,
            _ => 0,
        };
        let sizes = manifest.entries.iter().map(size);
        lmc::check_size(sizes.fold(0, u64::saturating_add), options.max_size)?;
        let library = SnapshotLibrary::new(self, manifest);
        let work = Work { store: self, name, library, options, form };
        work.check_wanted()?;
        if manifest.is_file {
            return work.single(target);
        }
        match fs::metadata(target) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => work.new_directory(target),
            Err(e) => Err(Error::io(format_args!("cannot access {}", target.display()), e)),
            Ok(metadata) if !metadata.is_dir() => {
                Err(exists(format!("{} exists and is not a directory", target.display())))
            }
            Ok(_) => {
                if !options.overwrite && !is_empty(target)? {
                    let error = exists(format!("{} is not empty", target.display()));
                    return Err(error.with_advice(Advice::RestoreIntoDirectory));
                }
                let sandbox = Sandbox::open(target, options.overwrite)?;
                let restored = work.all(&sandbox, true)?;
                sandbox.sync_dir(Path::new(""))?;
                Ok(restored)
            }
        }
    }
}

/// The form in which files are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Original,
    /// `.lmc` files without bases.
    Archive,
}

struct Work<'a> {
    store: &'a Store,
    name: &'a SnapshotName,
    library: Arc<SnapshotLibrary>,
    options: &'a RestoreOptions,
    form: Form,
}

impl Work<'_> {
    /// Restores a directory that gets its name only when it is complete.
    fn new_directory(&self, target: &Path) -> Result<Restored> {
        let new = NewDirectory::create(target)?;
        if let Some(tell) = self.options.on_temporary {
            tell(new.leftover());
        }
        let restored = self.all(new.sandbox(), false)?;
        new.commit(self.library.manifest().root_mode)?;
        Ok(restored)
    }

    /// Fails if nothing matches the request, or if two entries would get the same path.
    fn check_wanted(&self) -> Result<()> {
        let mut paths = BTreeSet::new();
        for entry in self.wanted() {
            let path = match &entry.node {
                Node::File(_) => self.path(&entry.path)?,
                _ => entry.path.clone(),
            };
            if let Some(path) = paths.replace(path) {
                let message = format!(
                    "two files would both be exported as {path}; restore the snapshot instead, and \
                     compress what you need"
                );
                return Err(Error::invalid(message));
            }
        }
        if paths.is_empty() && !self.options.only.is_empty() {
            let globs: Vec<String> = self.options.only.iter().map(Glob::to_string).collect();
            let message = format!("nothing in the snapshot matches {}", globs.join(", "));
            let error = Error::new(ErrorKind::NotFound, message);
            return Err(error.with_advice(Advice::ListPaths));
        }
        Ok(())
    }

    fn wanted(&self) -> impl Iterator<Item = &ManifestEntry> {
        self.library.manifest().entries.iter().filter(|entry| self.options.wants(entry))
    }

    /// Restores the one file of a snapshot of a file: to `target`, or into it if that is a
    /// directory.
    fn single(&self, target: &Path) -> Result<Restored> {
        let entry = &self.library.manifest().entries[0];
        let Node::File(file) = &entry.node else {
            return Err(Error::corrupt("it contains no file"));
        };
        let (folder, path) = if target.is_dir() {
            (target, self.path(&entry.path)?)
        } else {
            let name =
                target.file_name().ok_or_else(|| Error::invalid("the target has no name"))?;
            (folder_of(target), RelPath::new(name.as_bytes())?)
        };
        let sandbox = Sandbox::open(folder, self.options.overwrite)?;
        self.file(&sandbox, &path, file, true)?;
        sandbox.sync_dir(Path::new(""))?;
        Ok(Restored { files: 1, bytes: file.size, failed: Vec::new() })
    }

    /// Restores everything that is wanted into a directory; `stays` says whether the directory
    /// still exists after an error.
    fn all(&self, sandbox: &Sandbox, stays: bool) -> Result<Restored> {
        let manifest = self.library.manifest();
        let wanted: Vec<&ManifestEntry> = self.wanted().collect();
        let folders = self.folders(&wanted)?;
        let mode = |path: &RelPath| match manifest.node(path) {
            Some(Node::Directory { mode }) => *mode,
            // The folder of a long name: whoever may read the file may enter it.
            Some(Node::File(file)) => file.mode | (file.mode & 0o444) >> 2,
            _ => 0o700,
        };
        let mut old = HashMap::new();
        for path in &folders {
            old.insert(path, sandbox.make_dir(path.as_path(), mode(path))?);
        }
        let restored = self.files(sandbox, &wanted, stays)?;
        // Links last: nothing is written after them.
        for ManifestEntry { path, node } in wanted.iter().copied() {
            if let Node::Link { target } = node {
                sandbox.link(path.as_path(), Path::new(OsStr::from_bytes(&target.0)))?;
            }
        }
        // Inner folders first: an outer folder may be closed to writing.
        for path in folders.iter().rev() {
            let origin = Origin::recorded_mode(mode(path)).in_place_of(old[path]);
            sandbox.finish_dir(path.as_path(), &origin)?;
        }
        Ok(restored)
    }

    /// Restores files concurrently, the longest first.
    fn files(&self, sandbox: &Sandbox, wanted: &[&ManifestEntry], stays: bool) -> Result<Restored> {
        let file = |entry: &&ManifestEntry| match &entry.node {
            Node::File(file) => Some((entry.path.clone(), *file)),
            _ => None,
        };
        let mut jobs: Vec<(RelPath, FileNode)> = wanted.iter().filter_map(file).collect();
        jobs.sort_by_key(|(_, file)| Reverse(file.size));
        let mut restored = Restored::default();
        let mut failure: Option<(RelPath, Error)> = None;
        let several = Several::of(&self.store.context, jobs.len());
        let work =
            |(path, file): &(RelPath, FileNode)| self.file(sandbox, &self.path(path)?, file, stays);
        let is_short = |done: &Result<()>| done.as_ref().is_err_and(Error::is_shortage);
        several.run(&jobs, work, is_short, |(path, file), done| {
            match done {
                Ok(()) => {
                    restored.files += 1;
                    restored.bytes += file.size;
                }
                Err(e) if self.options.keep_going && is_lost(&e) => {
                    restored.failed.push((path.clone(), e));
                }
                Err(e) if failure.as_ref().is_none_or(|(first, _)| path < first) => {
                    failure = Some((path.clone(), e));
                }
                Err(_) => {}
            }
            failure.is_none()
        });
        restored.failed.sort_by(|(a, _), (b, _)| a.cmp(b));
        failure.map_or(Ok(restored), |(_, e)| Err(e))
    }

    /// The folders that are wanted, and those that contain wanted entries.
    fn folders(&self, wanted: &[&ManifestEntry]) -> Result<BTreeSet<RelPath>> {
        let mut folders = BTreeSet::new();
        for entry in wanted {
            let mut next = match &entry.node {
                Node::Directory { .. } => Some(entry.path.clone()),
                Node::File(_) => self.path(&entry.path)?.folder(),
                Node::Link { .. } => entry.path.folder(),
            };
            while let Some(folder) = next {
                next = folder.folder();
                if !folders.insert(folder) {
                    break;
                }
            }
        }
        Ok(folders)
    }

    /// The path of a file in the target.
    fn path(&self, path: &RelPath) -> Result<RelPath> {
        match self.form {
            Form::Original => Ok(path.clone()),
            Form::Archive => RelPath::new(lmc::archive_path(path.as_path()).as_os_str().as_bytes()),
        }
    }

    fn file(&self, sandbox: &Sandbox, path: &RelPath, file: &FileNode, stays: bool) -> Result<()> {
        let new = sandbox.create(path.as_path(), &Origin::recorded(file.mode, file.mtime))?;
        if let Some(tell) = self.options.on_temporary.filter(|_| stays) {
            tell(new.leftover());
        }
        let written = match self.form {
            Form::Original => self.write_original(file.archive, new.file()),
            Form::Archive => self.write_archive(file.archive, new.file()),
        };
        let written = written.map_err(|e| self.store.judge(self.name, e));
        written.and_then(|()| new.place()).map_err(|e| e.at(path))
    }

    fn write_original(&self, archive: usize, out: &File) -> Result<()> {
        let archive = self.library.open(archive)?;
        lmc::decompress(&archive, Output::Open(out), &self.store.context).map(|_| ())
    }

    /// Writes an archive as it is if it has no bases, and otherwise codes it again.
    fn write_archive(&self, archive: usize, out: &File) -> Result<()> {
        let context = &self.store.context;
        let info = &self.library.manifest().archives[archive];
        if !info.bases.is_empty() {
            let original = original(&self.library, archive, context)?;
            let options = Options { context: context.clone(), ..Options::default() };
            let input = Input::File(&original);
            return lmc::compress(input, Output::Open(out), &options).map(|_| ());
        }
        self.library.open(archive)?.test(context)?;
        let bytes = self.library.bytes(archive);
        let mut buffer = vec![0; COPY_LEN];
        let mut at = 0;
        while at < info.stored {
            let part = &mut buffer[..COPY_LEN.min((info.stored - at) as usize)];
            bytes.read_at(at, part)?;
            out.write_all_at(part, at).map_err(|e| Error::io("cannot write", e))?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

fn exists(message: String) -> Error {
    Error::new(ErrorKind::AlreadyExists, message)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn is_empty(folder: &Path) -> Result<bool> {
    let mut entries = fs::read_dir(folder)
        .map_err(|e| Error::io(format_args!("cannot list {}", folder.display()), e))?;
    Ok(entries.next().is_none())
}
