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

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use lmc::{Context, Dependencies, FileId, FileState, Origin, Output, Publish, Several, Summary};

pub use task::{FileTask, Opened, TaskInput};

use crate::args::files::FileArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure, Tally};
use crate::names;
use crate::progress::{ProgressBar, Volume};
use crate::{signals, stdio};
use plan::{Batch, refuse_collisions};
use removal::{Read, remove};
use tree::{TargetTree, TreePlan};

/// Compressing or restoring.
pub trait Direction: Sync {
    /// What all work shares.
    fn context(&self) -> &Context;
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
    let _shift = direction.context().shift();
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
        let (mut kept, mut left) = (Vec::new(), HashSet::new());
        for group in groups(batches) {
            let mut ends = Ends { needed: &needed, kept: &mut kept, left: &mut left };
            if let Err(failure) = self.run_group(batches, group.clone(), &mut ends) {
                self.failed(batches[group.start].0, &failure);
                let tasks = batches[group].iter().flat_map(|(_, batch)| &batch.tasks);
                left.extend(tasks.filter_map(FileTask::id));
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

    /// Processes the files of a group concurrently, the longest first.
    fn run_group(
        &mut self,
        batches: &[(&Path, Batch)],
        group: Range<usize>,
        ends: &mut Ends,
    ) -> Result<(), Failure> {
        let (name, Batch { tree, .. }) = &batches[group.start];
        let make = |tree| TargetTree::make(tree, self.args.force);
        let target = tree.as_ref().map(make).transpose()?;
        let mut jobs: Vec<Job> = group.flat_map(|i| jobs(batches, i)).collect();
        jobs.sort_by_key(|job| Reverse(job.task.state.map_or(0, |state| state.size)));
        let Self { args, direction, progress, tally: all, renewed } = self;
        let (args, direction, progress) = (*args, *direction, &*progress);
        let (mut total, mut tally) = (Summary { bytes_in: 0, bytes_out: 0 }, Tally::default());
        let (mut is_written, started) = (false, Instant::now());
        let several = Several::of(direction.context(), jobs.len());
        progress.expect(several.count());
        let work = FileWork { args, direction, progress, target: target.as_ref(), renewed };
        let work_on = |job: &Job| work.run_task(job);
        let is_short = |done: &Result<_, Failure>| done.as_ref().is_err_and(Failure::is_shortage);
        several.run(&jobs, work_on, is_short, |job, done| {
            let done = done.and_then(|(done, read)| {
                total.bytes_in += done.bytes_in;
                total.bytes_out += done.bytes_out;
                is_written = true;
                // The file stays open until it is removed, so its inode number is not reused.
                let Some((_file, state)) = read.filter(|_| args.rm) else { return Ok(()) };
                // The removal of a name changes the file, which others may be reading by another.
                let is_needed = job.task.id().is_some_and(|id| ends.needed.contains(&id));
                if state.names > 1 || is_needed {
                    ends.kept.push(Read { batch: job.batch, task: job.number, state, is_needed });
                    return Ok(());
                }
                remove(job.task, job.tree, &state)
            });
            match done {
                Ok(()) => {
                    tally.done();
                    all.done();
                }
                Err(failure) => {
                    tally.failed(&failure);
                    all.failed(&failure);
                    progress.failure(job.name.display(), &failure);
                    ends.left.extend(job.task.id());
                }
            }
            tally.exit() != Exit::PipeClosed
        });
        progress.finish();
        let Some(tree) = tree else { return Ok(()) };
        for (path, failure) in &tree.left_out {
            self.failed(path, failure);
        }
        if let Err(replaced) = tree.source.check_folders() {
            self.failed(name, &replaced.into());
        }
        let Some(target) = target else { return Ok(()) };
        if tally.is_all_failed() && !is_written {
            target.remove(tree);
        } else {
            target.finish(tree)?;
            if tally.is_clean() {
                let factor = self.direction.factor(total);
                let (source, target) = (tree.source.path().display(), tree.target.display());
                self.progress.summary(source, target, total, &factor, started);
            }
        }
        Ok(())
    }
}

/// What is known of inputs once they were processed.
struct Ends<'a> {
    /// Inputs that others need.
    needed: &'a HashSet<FileId>,
    /// Those that were read and are to be removed at the end.
    kept: &'a mut Vec<Read>,
    /// Those that stay, because their task failed.
    left: &'a mut HashSet<FileId>,
}

/// A file to process.
struct Job<'a> {
    name: &'a Path,
    batch: usize,
    /// The number of the task in the batch.
    number: usize,
    task: &'a FileTask,
    tasks: &'a [FileTask],
    tree: Option<&'a TreePlan>,
}

fn jobs<'a>(batches: &'a [(&Path, Batch)], batch: usize) -> impl Iterator<Item = Job<'a>> {
    let (named, Batch { tasks, tree }) = &batches[batch];
    tasks.iter().enumerate().map(move |(number, task)| {
        let name = task.source.as_deref().unwrap_or(named);
        Job { name, batch, number, task, tasks, tree: tree.as_ref() }
    })
}

/// Batches whose files may be processed concurrently: a directory, or files that follow each other.
fn groups(batches: &[(&Path, Batch)]) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut may_go_on = false;
    for (i, (_, batch)) in batches.iter().enumerate() {
        // Results on stdout keep their order.
        let is_free = |task: &FileTask| task.source.is_some() && task.target.is_some();
        let may_join = batch.tree.is_none() && batch.tasks.iter().all(is_free);
        match groups.last_mut().filter(|_| may_go_on && may_join) {
            Some(group) => group.end = i + 1,
            None => groups.push(i..i + 1),
        }
        may_go_on = may_join;
    }
    groups
}

/// What the threads that process files share.
struct FileWork<'a> {
    args: &'a FileArgs,
    direction: &'a dyn Direction,
    progress: &'a ProgressBar,
    target: Option<&'a TargetTree>,
    renewed: &'a HashMap<FileId, FileState>,
}

impl FileWork<'_> {
    /// Processes one file: the result is whole under its name, or there is none. Returns the file
    /// that was read, as it was then.
    fn run_task(&self, job: &Job) -> Result<(Summary, Option<(File, FileState)>), Failure> {
        let Job { name, task, tasks, tree, .. } = *job;
        if let Some(failure) = &task.refused {
            return Err(failure.clone());
        }
        let opened = task.open_renewed(tree, self.renewed)?;
        let (total, read) = match &opened {
            Opened::File(file) => {
                let kept = file.try_clone().and_then(|file| Ok((FileState::of(&file)?, file)));
                let (state, file) = kept.map_err(|error| Failure::io("access it", &error))?;
                (self.direction.total(&file), Some((file, state)))
            }
            Opened::Stdin => (None, None),
        };
        let open = |&i: &usize| {
            let other = &tasks[i];
            let path = other.source.clone().unwrap_or_default();
            match other.open_renewed(tree, self.renewed)? {
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
        let started = Instant::now();
        self.progress.start(name.display(), total);
        let done = match &task.target {
            Some(path) => self.to_file(task, input, &origin, name, path)?,
            None => self.to_stdout(task, input)?,
        };
        let shown = task.target.as_deref().map(Path::display);
        let shown = shown.map_or_else(|| "stdout".into(), |target| target.to_string());
        let factor = self.direction.factor(done);
        self.progress.summary(name.display(), shown, done, &factor, started);
        Ok((done, read.filter(|_| task.source.is_some())))
    }

    fn to_file(
        &self,
        task: &FileTask,
        input: TaskInput,
        origin: &Origin,
        name: &Path,
        path: &Path,
    ) -> Result<Summary, Failure> {
        if names::is_same_file(name, path) {
            return Err(Failure::new("input and output are the same file; give another -o"));
        }
        let (mut publish, _guard) = signals::guarded(|| match (self.target, &task.in_tree) {
            (Some(target), Some(place)) => target.sandbox.create(&place.target, origin),
            _ => Publish::create(path, self.args.force, origin),
        })?;
        let output = Output::File(&mut publish);
        let done = self.direction.convert(task, input, output, self.progress)?;
        publish.commit()?;
        Ok(done)
    }

    fn to_stdout(&self, task: &FileTask, input: TaskInput) -> Result<Summary, Failure> {
        let mut stdout = stdio::BytesOut::new(self.args.force)?;
        let output = Output::Stream(&mut stdout);
        let done = self.direction.convert(task, input, output, self.progress);
        stdout.check(done)
    }
}
