//! The common part of compress and decompress: from the names on the command line to files on disk.
//!
//! Each argument becomes a batch: one file, or all files of a directory. All batches are known
//! before the first file is written, so that no result replaces another input. If a file fails,
//! this is reported and the next one is processed. Nothing appears under its final name before it
//! is whole, and only files that were read are removed.

mod plan;
mod removal;
mod task;
mod tree;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use lmc::{Dependencies, FileId, FileState, Origin, Output, Publish, Summary};

pub use task::{FileTask, Opened, TaskInput};

use crate::args::files::FileArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure, Tally};
use crate::names;
use crate::progress::{ProgressBar, Volume};
use crate::{signals, stdio};
use plan::{Batch, refuse_collisions};
use removal::Read;
use tree::TargetTree;

/// Compressing or restoring.
pub trait Direction {
    /// The usual name of the result.
    fn target(&self, source: &Path) -> Result<PathBuf, Failure>;
    /// The path of the result of a file in a directory, both relative to the root of the directory;
    /// none if the file is left out.
    fn target_below(&self, source: &Path) -> Option<PathBuf>;
    /// Why a file named on the command line is not processed without `-f`.
    fn refuses(&self, source: &Path) -> Option<&'static str>;
    /// The size of the original in bytes, if known before the work starts.
    fn total(&self, file: &File) -> Option<u64>;
    /// The bases of a file, from those that were given.
    fn bases(
        &self,
        given: &[PathBuf],
        location: bases::InputLocation,
    ) -> Result<Vec<PathBuf>, Failure>;
    /// For each file of a directory, the other files in it that it may be the rounding of. A file
    /// is opened by its number.
    fn rounding_sources(
        &self,
        files: &[PathBuf],
        open: &dyn Fn(usize) -> Option<File>,
    ) -> Vec<Vec<usize>>;
    /// Adds the files that must not be removed before this one, which is open, is done: all that
    /// may be read for it.
    fn add_needs(&self, task: &FileTask, id: FileId, file: File, needs: &mut Dependencies);
    /// Does the work.
    fn convert(
        &self,
        task: &FileTask,
        input: TaskInput,
        output: Output,
        progress: &ProgressBar,
    ) -> lmc::Result<Summary>;
    /// Whether several results, one after the other, can be read back.
    fn joins(&self) -> bool;
    /// How many times smaller the compressed file is.
    fn factor(&self, done: Summary) -> String;
}

/// Processes all files.
pub fn run(args: &FileArgs, direction: &dyn Direction) -> Exit {
    if let Err(failure) = check(args, direction) {
        return exit::report("options".as_ref(), Err(failure));
    }
    let progress = ProgressBar::new(Volume::new(args.quiet, args.verbose));
    let (tally, renewed) = (Tally::default(), HashMap::new());
    let mut transfer = Transfer { args, direction, progress, tally, renewed };
    let mut batches = Vec::new();
    for file in &args.files {
        match transfer.batch(file) {
            Ok(batch) => batches.push((file.as_path(), batch)),
            Err(failure) => transfer.failed(file, &failure),
        }
    }
    let needs = match args.rm || args.force {
        true => transfer.needs(&batches),
        false => Dependencies::new([]),
    };
    if args.force {
        refuse_collisions(&args.files, &mut batches, &needs);
    }
    transfer.run_batches(&batches, &needs);
    transfer.tally.exit()
}

/// Checks options that clap cannot check.
fn check(args: &FileArgs, direction: &dyn Direction) -> Result<(), Failure> {
    let several = args.files.len() > 1;
    if several && args.output.is_some() {
        return Err(Failure::usage("-o takes one input; several would overwrite each other"));
    }
    if several && args.stdout && !direction.joins() {
        return Err(Failure::usage("-c takes one input; joined .lmc files cannot be read"));
    }
    if args.rm && args.output.as_deref().is_some_and(names::is_dash) {
        return Err(Failure::usage("--rm and stdout do not go together"));
    }
    Ok(())
}

struct Transfer<'a> {
    args: &'a FileArgs,
    direction: &'a dyn Direction,
    progress: ProgressBar,
    tally: Tally,
    /// The current state of files that have lost one of several names to us.
    renewed: HashMap<FileId, FileState>,
}

impl Transfer<'_> {
    fn failed(&mut self, name: &Path, failure: &Failure) {
        self.progress.failure(name.display(), failure);
        self.tally.failed(failure);
    }

    fn run_batches(&mut self, batches: &[(&Path, Batch)], needs: &Dependencies) {
        // Files that others need stay until all are done.
        let needed = needs.needed();
        let mut kept = Vec::new();
        let mut left = HashSet::new();
        for (i, (name, batch)) in batches.iter().enumerate() {
            match self.run_batch(name, i, batch, &needed, &mut left) {
                Ok(read) => kept.extend(read),
                Err(failure) => {
                    self.failed(name, &failure);
                    left.extend(batch.tasks.iter().filter_map(FileTask::id));
                }
            }
            if self.tally.exit() == Exit::PipeClosed {
                break;
            }
        }
        self.remove_kept(batches, kept, needs, left);
        if self.args.rm {
            for tree in batches.iter().filter_map(|(_, batch)| batch.tree.as_ref()) {
                tree.remove_source_folders();
            }
        }
    }

    /// Processes an argument; returns the files that were read and that others still need. Files
    /// that failed are added to `left`.
    fn run_batch(
        &mut self,
        name: &Path,
        number: usize,
        batch: &Batch,
        needed: &HashSet<FileId>,
        left: &mut HashSet<FileId>,
    ) -> Result<Vec<Read>, Failure> {
        let make = |tree| TargetTree::make(tree, self.args.force);
        let target = batch.tree.as_ref().map(make).transpose()?;
        let mut total = Summary { bytes_in: 0, bytes_out: 0 };
        let mut tally = Tally::default();
        let (mut kept, mut is_written) = (Vec::new(), false);
        for (i, task) in batch.tasks.iter().enumerate() {
            let source = task.source.as_deref().unwrap_or(name);
            let done =
                self.run_task(source, task, batch, target.as_ref()).and_then(|(done, read)| {
                    total.bytes_in += done.bytes_in;
                    total.bytes_out += done.bytes_out;
                    is_written = true;
                    // The file stays open until it is removed, so its inode number is not reused.
                    let Some((_file, state)) = read.filter(|_| self.args.rm) else { return Ok(()) };
                    if task.id().is_some_and(|id| needed.contains(&id)) {
                        kept.push(Read { batch: number, task: i, state });
                        return Ok(());
                    }
                    self.remove(task, batch.tree.as_ref(), &state)
                });
            match done {
                Ok(()) => {
                    tally.done();
                    self.tally.done();
                }
                Err(failure) => {
                    tally.failed(&failure);
                    self.failed(source, &failure);
                    left.extend(task.id());
                }
            }
            if tally.exit() == Exit::PipeClosed {
                break;
            }
        }
        for (path, failure) in batch.tree.iter().flat_map(|tree| &tree.left_out) {
            self.failed(path, failure);
        }
        if let Some(Err(replaced)) = batch.tree.as_ref().map(|tree| tree.source.check_folders()) {
            self.failed(name, &replaced.into());
        }
        if let (Some(tree), Some(target)) = (&batch.tree, &target) {
            if tally.is_all_failed() && !is_written {
                target.remove(tree);
            } else {
                target.finish(tree)?;
                if tally.is_clean() {
                    let factor = self.direction.factor(total);
                    let (source, target) = (tree.source.path().display(), tree.target.display());
                    self.progress.summary(source, target, total, &factor);
                }
            }
        }
        Ok(kept)
    }

    /// Processes one file: the result is whole under its name, or there is none. Returns the file
    /// that was read, as it was then.
    fn run_task(
        &mut self,
        name: &Path,
        task: &FileTask,
        batch: &Batch,
        target: Option<&TargetTree>,
    ) -> Result<(Summary, Option<(File, FileState)>), Failure> {
        if let Some(failure) = &task.refused {
            return Err(failure.clone());
        }
        let opened = task.open_renewed(batch.tree.as_ref(), &self.renewed)?;
        let (total, read) = match &opened {
            Opened::File(file) => {
                let kept = file.try_clone().and_then(|file| Ok((FileState::of(&file)?, file)));
                let (state, file) = kept.map_err(|error| Failure::io("access it", &error))?;
                (self.direction.total(&file), Some((file, state)))
            }
            Opened::Stdin => (None, None),
        };
        let open = |&i: &usize| {
            let other = &batch.tasks[i];
            let path = other.source.clone().unwrap_or_default();
            match other.open_renewed(batch.tree.as_ref(), &self.renewed)? {
                Opened::File(file) => Ok((path, file)),
                Opened::Stdin => Err(Failure::new("a file next to it is gone")),
            }
        };
        let sources = task.rounding_sources.iter().map(open);
        let rounding_sources = sources.collect::<Result<_, Failure>>()?;
        let input = TaskInput { opened, rounding_sources };
        let state = read.as_ref().map(|(_, state)| state);
        let origin = match (&task.source, state) {
            (Some(_), Some(state)) => Origin::file(state),
            (None, Some(state)) => Origin::part_of(state),
            _ => Origin::nothing(),
        };
        self.progress.start(name.display(), total);
        let done = match &task.target {
            Some(path) => self.to_file(task, input, &origin, name, path, target),
            None => self.to_stdout(task, input),
        };
        self.progress.finish();
        let done = done?;
        let shown = task.target.as_deref().map(Path::display);
        let shown = shown.map_or_else(|| "stdout".into(), |target| target.to_string());
        self.progress.summary(name.display(), shown, done, &self.direction.factor(done));
        Ok((done, read.filter(|_| task.source.is_some())))
    }

    fn to_file(
        &self,
        task: &FileTask,
        input: TaskInput,
        origin: &Origin,
        name: &Path,
        path: &Path,
        target: Option<&TargetTree>,
    ) -> Result<Summary, Failure> {
        if names::is_same_file(name, path) {
            return Err(Failure::new("input and output are the same file; give another -o"));
        }
        let mut publish = match (target, &task.in_tree) {
            (Some(target), Some(place)) => target.sandbox.create(&place.target, origin)?,
            _ => Publish::create(path, self.args.force, origin)?,
        };
        let _guard = signals::guard(publish.leftover());
        let output = Output::File(&mut publish);
        let done = self.direction.convert(task, input, output, &self.progress)?;
        publish.commit()?;
        Ok(done)
    }

    fn to_stdout(&self, task: &FileTask, input: TaskInput) -> Result<Summary, Failure> {
        let mut stdout = stdio::BytesOut::new(self.args.force)?;
        let output = Output::Stream(&mut stdout);
        let done = self.direction.convert(task, input, output, &self.progress);
        stdout.check(done)
    }
}
