//! What compress and decompress share: from the names on the command line to files on disk.
//!
//! Each argument becomes a batch: one file, or all files of a directory. All batches are known before
//! the first file is written, so that no result takes the place of another input. A file that fails
//! is reported and the next one is worked on. Nothing appears under a final name before it is whole,
//! and nothing is removed but what was read.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use lmc::{
    FileId, FileKind, FileState, Folder, Links, Origin, Output, Publish, Sandbox, Summary, Tree,
};

use crate::args::FileArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure, Tally};
use crate::names;
use crate::progress::{Progress, Volume};
use crate::{interrupt, stdio};

/// Compressing or restoring.
pub trait Direction {
    /// The usual name of the result.
    fn target(&self, source: &Path) -> Result<PathBuf, Failure>;
    /// The path of the result of a file in a directory, both from the root of that on; none if it is
    /// left out.
    fn target_below(&self, source: &Path) -> Option<PathBuf>;
    /// Why a file named on the command line is not worked on without `-f`.
    fn refuses(&self, source: &Path) -> Option<&'static str>;
    /// Original bytes, if they are known before the work starts.
    fn total(&self, file: &File) -> Option<u64>;
    /// The bases of a file, of those that were given.
    fn bases(&self, given: &[PathBuf], place: bases::Place) -> Result<Vec<PathBuf>, Failure>;
    /// For each file of a directory, those among them that it may be on. A file is opened by its
    /// number.
    fn siblings(&self, files: &[PathBuf], open: &dyn Fn(usize) -> Option<File>) -> Vec<Vec<usize>>;
    /// The files that cannot go before this one, which is open, is done: all that may be read for
    /// it.
    fn needs(&self, job: &Job, file: File) -> Vec<PathBuf>;
    /// Does the work.
    fn convert(
        &self,
        job: &Job,
        source: Source,
        output: Output,
        progress: &Progress,
    ) -> lmc::Result<Summary>;
    /// Whether several results, one behind the other, can be read again.
    fn joins(&self) -> bool;
    /// How many times smaller the file is compressed.
    fn factor(&self, done: Summary) -> String;
}

/// An open input.
pub enum Opened {
    /// A file, or stdin where that is one.
    File(File),
    /// stdin that is a pipe.
    Stdin,
}

/// An open input, and files of its directory that it may be coded against.
pub struct Source {
    pub input: Opened,
    pub siblings: Vec<(PathBuf, File)>,
}

/// Where a result goes; nothing is stdout.
pub type Target = Option<PathBuf>;

/// One file and its result.
pub struct Job {
    /// Nothing is stdin.
    pub source: Option<PathBuf>,
    /// What it is or may be coded against.
    pub bases: Vec<PathBuf>,
    /// The same of its own directory, by their numbers in the batch.
    siblings: Vec<usize>,
    /// Where it goes.
    pub target: Target,
    /// Its place in the directory that was given, and that of its result.
    in_tree: Option<InTree>,
    /// What it was when it was looked for.
    state: Option<FileState>,
    /// Why it is not done.
    refused: Option<Failure>,
}

struct InTree {
    source: PathBuf,
    target: PathBuf,
}

/// The work of one argument.
struct Batch {
    jobs: Vec<Job>,
    tree: Option<TreePlan>,
}

/// A directory that was given, and what becomes of it beside its files.
struct TreePlan {
    source: Tree,
    target: PathBuf,
    /// Relative paths, each before what is below it, the root first.
    dirs: Vec<(PathBuf, FileState)>,
    left_out: Vec<(PathBuf, Failure)>,
}

/// A directory that results go into.
struct TargetTree {
    sandbox: Sandbox,
    /// Whether the directory itself was not there before.
    is_new: bool,
    /// Directories in it that were not there before.
    made: Vec<PathBuf>,
    /// What those were that were there.
    old: HashMap<PathBuf, FileState>,
}

/// An input whose result is there, and which may go.
struct Read {
    batch: usize,
    job: usize,
    state: FileState,
}

/// What each file needs.
type Needs = HashMap<FileId, HashSet<FileId>>;

/// Works on all files.
pub fn run(args: &FileArgs, direction: &dyn Direction) -> Exit {
    if let Err(failure) = check(args, direction) {
        return exit::report("options".as_ref(), Err(failure));
    }
    let progress = Progress::new(Volume::new(args.quiet, args.verbose));
    let (tally, renewed) = (Tally::default(), HashMap::new());
    let mut transfer = Transfer { args, direction, progress, tally, renewed };
    let mut batches = Vec::new();
    for file in &args.files {
        match transfer.batch(file) {
            Ok(batch) => batches.push((file.as_path(), batch)),
            Err(failure) => transfer.failed(file, &failure),
        }
    }
    if args.force {
        refuse_collisions(&args.files, &mut batches);
    }
    transfer.run_batches(&batches);
    transfer.tally.exit()
}

/// Options that clap cannot judge.
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

/// Refuses the jobs whose results would take the place of an input of another job, or of its result.
/// All that was given counts, also what is left out or cannot be done. Inputs are told by what they
/// are, not by their names.
fn refuse_collisions(given: &[PathBuf], batches: &mut [(&Path, Batch)]) {
    let jobs = || batches.iter().flat_map(|(_, batch)| &batch.jobs);
    let mut inputs: HashMap<FileId, PathBuf> = HashMap::new();
    for path in given.iter().chain(jobs().flat_map(|job| &job.bases)) {
        let state = FileState::at(path).ok().filter(|state| state.kind != FileKind::Folder);
        inputs.extend(state.map(|state| (state.id, path.clone())));
    }
    for tree in batches.iter().filter_map(|(_, batch)| batch.tree.as_ref()) {
        let files = tree.source.entries().iter();
        let files = files.filter(|entry| entry.state.kind != FileKind::Folder);
        inputs.extend(files.map(|file| (file.state.id, tree.source.path().join(&file.path))));
    }
    let mut results: HashMap<PathBuf, PathBuf> = HashMap::new();
    for job in batches.iter_mut().flat_map(|(_, batch)| &mut batch.jobs) {
        let Some(target) = &job.target else { continue };
        let name = job.source.clone().unwrap_or_default();
        // Whether it would replace its own file or base is looked at when its turn comes.
        let is_own = |path: &&PathBuf| **path == name || job.bases.contains(path);
        let there = [FileState::at(target), FileState::of_name(target)].into_iter().flatten();
        let replaced = there.filter_map(|there| inputs.get(&there.id)).find(|path| !is_own(path));
        let other = results.insert(names::resolved(target), name.clone());
        let target = target.display();
        job.refused = match (replaced, other) {
            (Some(input), _) => Some(Failure::new(format!(
                "its result {target} would replace the input {}; give another -o",
                input.display()
            ))),
            (None, Some(other)) => Some(Failure::new(format!(
                "its result {target} would replace that of {}",
                other.display()
            ))),
            _ => None,
        };
    }
}

struct Transfer<'a> {
    args: &'a FileArgs,
    direction: &'a dyn Direction,
    progress: Progress,
    tally: Tally,
    /// Files that have lost one of several names to us, as they are now.
    renewed: HashMap<FileId, FileState>,
}

impl Transfer<'_> {
    fn failed(&mut self, name: &Path, failure: &Failure) {
        self.progress.failure(name.display(), failure);
        self.tally.failed(failure);
    }

    /// What an argument asks for.
    fn batch(&self, source: &Path) -> Result<Batch, Failure> {
        if names::is_dash(source) {
            let target = self.args.output.clone().filter(|path| !names::is_dash(path));
            let bases = self.bases(bases::Place::Stdin)?;
            return Ok(Batch { jobs: vec![Job::new(None, bases, target, None)], tree: None });
        }
        let state = FileState::at(source).map_err(|error| Failure::io("open it", &error))?;
        if state.kind == FileKind::Folder {
            return self.directory(source);
        }
        let is_named = self.args.output.is_some() || self.args.stdout;
        if state.kind != FileKind::File && !is_named {
            return Err(Failure::new("is not a regular file; name the result with -o, or use -c"));
        }
        if self.args.rm && fs::symlink_metadata(source).is_ok_and(|found| found.is_symlink()) {
            return Err(Failure::new("is a link, so --rm is refused; name the file it leads to"));
        }
        let target = self.target(source)?;
        let refused = self.direction.refuses(source).filter(|_| !self.args.force);
        match (refused, &target, &self.args.output) {
            (Some(why), Some(_), None) => Err(Failure::new(why)),
            _ => {
                let bases = self.bases(bases::Place::File(source))?;
                let job = Job::new(Some(source.to_path_buf()), bases, target, Some(state));
                Ok(Batch { jobs: vec![job], tree: None })
            }
        }
    }

    fn bases(&self, place: bases::Place) -> Result<Vec<PathBuf>, Failure> {
        self.direction.bases(&self.args.bases.paths, place)
    }

    fn target(&self, source: &Path) -> Result<Target, Failure> {
        match &self.args.output {
            _ if self.args.stdout => Ok(None),
            Some(path) if names::is_dash(path) => Ok(None),
            Some(path) => Ok(Some(path.clone())),
            None => self.direction.target(source).map(Some),
        }
    }

    /// A job for each file of a directory.
    fn directory(&self, source: &Path) -> Result<Batch, Failure> {
        let target = self.target(source)?;
        let target =
            target.ok_or_else(|| Failure::new("a directory does not fit into stdout; use -o"))?;
        if !self.args.force && target.symlink_metadata().is_ok() {
            let target = target.display();
            return Err(Failure::new(format!("{target} is there already; -f writes into it")));
        }
        let tree = Tree::read(source, Links::Kept)?;
        let mut plan = TreePlan {
            target,
            dirs: vec![(PathBuf::new(), *tree.root())],
            left_out: Vec::new(),
            source: tree,
        };
        let mut jobs = Vec::new();
        for entry in plan.source.entries() {
            let from = source.join(&entry.path);
            match (entry.state.kind, self.direction.target_below(&entry.path)) {
                (FileKind::Folder, _) => plan.dirs.push((entry.path.clone(), entry.state)),
                (FileKind::File, Some(to)) => {
                    let bases = match lmc::has_room(&entry.path) {
                        true => self.bases(bases::Place::InTree(&entry.path))?,
                        false => Vec::new(),
                    };
                    let target = Some(plan.target.join(&to));
                    let mut job = Job::new(Some(from), bases, target, Some(entry.state));
                    job.in_tree = Some(InTree { source: entry.path.clone(), target: to });
                    jobs.push(job);
                }
                (FileKind::File, None) => {
                    plan.left_out.push((from, Failure::new("does not end in .lmc; left out")));
                }
                _ => {
                    let why = "a symbolic link or not a regular file; left out";
                    plan.left_out.push((from, Failure::new(why)));
                }
            }
        }
        if self.args.rm && !plan.left_out.is_empty() {
            let name = plan.left_out[0].0.display();
            return Err(Failure::new(format!("{name} would be left out, so --rm is refused")));
        }
        plan.fit_folders(&jobs);
        refuse_folders_in_the_way(&jobs, &plan)?;
        let sources: Vec<PathBuf> = jobs.iter().filter_map(|job| job.source.clone()).collect();
        let siblings = self.direction.siblings(&sources, &|i| jobs[i].open_in(&plan).ok());
        // A file in a folder of its own is not beside the others any more.
        let is_beside = |i: usize| lmc::has_room(&sources[i]);
        for (i, siblings) in siblings.into_iter().enumerate().filter(|(i, _)| is_beside(*i)) {
            jobs[i].siblings = siblings.into_iter().filter(|&i| is_beside(i)).collect();
        }
        Ok(Batch { jobs, tree: Some(plan) })
    }

    fn run_batches(&mut self, batches: &[(&Path, Batch)]) {
        let needs = if self.args.rm { self.needs(batches) } else { HashMap::new() };
        // What others need stays until all are done.
        let needed: HashSet<FileId> = needs.values().flatten().copied().collect();
        let mut kept = Vec::new();
        let mut left = HashSet::new();
        for (i, (name, batch)) in batches.iter().enumerate() {
            match self.run_batch(name, i, batch, &needed, &mut left) {
                Ok(read) => kept.extend(read),
                Err(failure) => {
                    self.failed(name, &failure);
                    left.extend(batch.jobs.iter().filter_map(Job::id));
                }
            }
            if self.tally.exit() == Exit::PipeClosed {
                break;
            }
        }
        self.remove_kept(batches, kept, &needs, left);
        if self.args.rm {
            for tree in batches.iter().filter_map(|(_, batch)| batch.tree.as_ref()) {
                tree.remove_source_folders();
            }
        }
    }

    /// For each file that is worked on, the files that it needs, whatever their names are.
    fn needs(&self, batches: &[(&Path, Batch)]) -> Needs {
        let mut needs = Needs::new();
        for batch in batches.iter().map(|(_, batch)| batch) {
            for job in batch.jobs.iter().filter(|job| job.is_file()) {
                // One that cannot be opened fails when its turn comes.
                let (Ok(Opened::File(file)), Some(id)) = (job.open(batch.tree.as_ref()), job.id())
                else {
                    continue;
                };
                let siblings = job.siblings.iter().filter_map(|&i| batch.jobs[i].id());
                let named = self.direction.needs(job, file);
                let named = named.iter().filter_map(|path| Some(FileState::at(path).ok()?.id));
                needs.entry(id).or_default().extend(named.chain(siblings));
            }
        }
        needs
    }

    /// Works on an argument; returns the files that were read and that others still need. Those that
    /// failed are added to `left`.
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
        for (i, job) in batch.jobs.iter().enumerate() {
            let source = job.source.as_deref().unwrap_or(name);
            let done =
                self.run_job(source, job, batch, target.as_ref()).and_then(|(done, read)| {
                    total.bytes_in += done.bytes_in;
                    total.bytes_out += done.bytes_out;
                    is_written = true;
                    // The file stays open until it is removed: its number is not given to another.
                    let Some((_file, state)) = read.filter(|_| self.args.rm) else { return Ok(()) };
                    if job.id().is_some_and(|id| needed.contains(&id)) {
                        kept.push(Read { batch: number, job: i, state });
                        return Ok(());
                    }
                    self.remove(job, batch.tree.as_ref(), &state)
                });
            match done {
                Ok(()) => {
                    tally.done();
                    self.tally.done();
                }
                Err(failure) => {
                    tally.failed(&failure);
                    self.failed(source, &failure);
                    left.extend(job.id());
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

    /// One file: the result is whole under its name, or there is none. Returns the file that was
    /// read, as it was then.
    fn run_job(
        &mut self,
        name: &Path,
        job: &Job,
        batch: &Batch,
        target: Option<&TargetTree>,
    ) -> Result<(Summary, Option<(File, FileState)>), Failure> {
        if let Some(failure) = &job.refused {
            return Err(failure.clone());
        }
        self.check_bases(job)?;
        let input = job.open_renewed(batch.tree.as_ref(), &self.renewed)?;
        let (total, read) = match &input {
            Opened::File(file) => {
                let kept = file.try_clone().and_then(|file| Ok((FileState::of(&file)?, file)));
                let (state, file) = kept.map_err(|error| Failure::io("look at it", &error))?;
                (self.direction.total(&file), Some((file, state)))
            }
            Opened::Stdin => (None, None),
        };
        let sibling = |&i: &usize| {
            let sibling = &batch.jobs[i];
            let path = sibling.source.clone().unwrap_or_default();
            match sibling.open_renewed(batch.tree.as_ref(), &self.renewed)? {
                Opened::File(file) => Ok((path, file)),
                Opened::Stdin => Err(Failure::new("a file beside it is gone")),
            }
        };
        let siblings = job.siblings.iter().map(sibling).collect::<Result<_, Failure>>()?;
        let source = Source { input, siblings };
        let state = read.as_ref().map(|(_, state)| state);
        let origin = match (&job.source, state) {
            (Some(_), Some(state)) => Origin::file(state),
            (None, Some(state)) => Origin::part_of(state),
            _ => Origin::nothing(),
        };
        self.progress.start(name.display(), total);
        let done = match &job.target {
            Some(path) => self.to_file(job, source, &origin, name, path, target),
            None => self.to_stdout(job, source),
        };
        self.progress.finish();
        let done = done?;
        let shown = job.target.as_deref().map(Path::display);
        let shown = shown.map_or_else(|| "stdout".into(), |target| target.to_string());
        self.progress.summary(name.display(), shown, done, &self.direction.factor(done));
        Ok((done, read.filter(|_| job.source.is_some())))
    }

    /// A result that takes the place of its base could never be restored, or would cost others
    /// theirs.
    fn check_bases(&self, job: &Job) -> Result<(), Failure> {
        for base in &job.bases {
            if job.target.as_deref().is_some_and(|target| names::is_same_file(target, base)) {
                let base = base.display();
                return Err(Failure::new(format!(
                    "would replace its base {base}; give another -o"
                )));
            }
        }
        Ok(())
    }

    fn to_file(
        &self,
        job: &Job,
        source: Source,
        origin: &Origin,
        name: &Path,
        path: &Path,
        target: Option<&TargetTree>,
    ) -> Result<Summary, Failure> {
        if names::is_same_file(name, path) {
            return Err(Failure::new("input and output are the same file; give another -o"));
        }
        let mut publish = match (target, &job.in_tree) {
            (Some(target), Some(place)) => target.sandbox.create(&place.target, origin)?,
            _ => Publish::create(path, self.args.force, origin)?,
        };
        let _guard = interrupt::guard(publish.leftover());
        let output = Output::File(&mut publish);
        let done = self.direction.convert(job, source, output, &self.progress)?;
        publish.commit()?;
        Ok(done)
    }

    fn to_stdout(&self, job: &Job, source: Source) -> Result<Summary, Failure> {
        let mut stdout = stdio::BytesOut::new(self.args.force)?;
        let output = Output::Stream(&mut stdout);
        let done = self.direction.convert(job, source, output, &self.progress);
        stdout.check(done)
    }

    /// Removes what was kept for others, unless one of these is left: then a second try needs it,
    /// and what it needs itself.
    fn remove_kept(
        &mut self,
        batches: &[(&Path, Batch)],
        kept: Vec<Read>,
        needs: &Needs,
        mut left: HashSet<FileId>,
    ) {
        let mut open: Vec<FileId> = left.iter().copied().collect();
        while let Some(id) = open.pop() {
            for &needed in needs.get(&id).into_iter().flatten() {
                if left.insert(needed) {
                    open.push(needed);
                }
            }
        }
        for read in kept {
            let batch = &batches[read.batch].1;
            let job = &batch.jobs[read.job];
            let name = job.source.as_deref().unwrap_or(Path::new("-"));
            if job.id().is_some_and(|id| left.contains(&id)) {
                let name = name.display();
                self.progress
                    .note(format_args!("lmc: {name}: kept, since a file that is left needs it"));
            } else if let Err(failure) = self.remove(job, batch.tree.as_ref(), &read.state) {
                self.failed(name, &failure);
            }
        }
    }

    /// Removes an input if it still is what was read.
    fn remove(
        &mut self,
        job: &Job,
        tree: Option<&TreePlan>,
        read: &FileState,
    ) -> Result<(), Failure> {
        let seen = *self.renewed.get(&read.id).unwrap_or(read);
        // Its other names may be inputs too: they have not changed because this one is gone.
        let other_name = (seen.names > 1).then(|| job.open_renewed(tree, &self.renewed));
        match (tree, &job.in_tree, &job.source) {
            (Some(tree), Some(place), _) => tree.source.remove(&place.source, &seen)?,
            (_, _, Some(path)) => {
                let (folder, name) = Folder::open_parent(path)
                    .map_err(|error| Failure::io("open its folder", &error))?;
                lmc::remove_seen(&folder, &name, &seen)?;
            }
            _ => {}
        }
        if let Some(Opened::File(file)) = other_name.transpose()? {
            let now = FileState::of(&file).map_err(|error| Failure::io("look at it", &error))?;
            self.renewed.insert(seen.id, seen.renewed(now));
        }
        Ok(())
    }
}

impl Job {
    fn new(
        source: Option<PathBuf>,
        bases: Vec<PathBuf>,
        target: Target,
        state: Option<FileState>,
    ) -> Self {
        let (siblings, in_tree, refused) = (Vec::new(), None, None);
        Self { source, bases, siblings, target, in_tree, state, refused }
    }

    /// Its file, whatever its name is.
    fn id(&self) -> Option<FileId> {
        self.state.map(|state| state.id)
    }

    fn is_file(&self) -> bool {
        self.state.is_some_and(|state| state.kind == FileKind::File)
    }

    fn open(&self, tree: Option<&TreePlan>) -> Result<Opened, Failure> {
        self.open_renewed(tree, &HashMap::new())
    }

    /// Opens its file. One of a directory must be as it was listed, or as it is in `renewed`.
    fn open_renewed(
        &self,
        tree: Option<&TreePlan>,
        renewed: &HashMap<FileId, FileState>,
    ) -> Result<Opened, Failure> {
        match (tree, &self.in_tree, &self.state, &self.source) {
            (Some(tree), Some(place), Some(listed), _) => {
                let listed = renewed.get(&listed.id).unwrap_or(listed);
                Ok(Opened::File(tree.source.open(&place.source, listed)?))
            }
            (_, _, _, Some(path)) => {
                let file = File::open(path).map_err(|error| Failure::io("open it", &error))?;
                Ok(Opened::File(file))
            }
            _ => Ok(stdio::stdin_file().map_or(Opened::Stdin, Opened::File)),
        }
    }

    /// Opens its file, in the directory that was given.
    fn open_in(&self, tree: &TreePlan) -> Result<File, Failure> {
        match self.open(Some(tree))? {
            Opened::File(file) => Ok(file),
            Opened::Stdin => Err(Failure::new("is not in a directory")),
        }
    }
}

/// Refuses a directory in which a file and a folder would come to have the same name.
fn refuse_folders_in_the_way(jobs: &[Job], plan: &TreePlan) -> Result<(), Failure> {
    let dirs: HashSet<&Path> = plan.dirs.iter().map(|(dir, _)| dir.as_path()).collect();
    for job in jobs {
        let (Some(place), Some(source)) = (&job.in_tree, &job.source) else { continue };
        if dirs.contains(place.target.as_path()) {
            let folder = plan.source.path().join(&place.target);
            return Err(Failure::new(format!(
                "the result of {} would have the name of the folder {}; rename one of them",
                source.display(),
                folder.display()
            )));
        }
    }
    Ok(())
}

impl TreePlan {
    /// Adds the folders that results come to be in because of their long names, and leaves out those
    /// that only such a name made.
    fn fit_folders(&mut self, jobs: &[Job]) {
        let mut alone: HashMap<&Path, bool> = HashMap::new();
        for folder in self.source.entries().iter().filter_map(|entry| entry.path.parent()) {
            alone.entry(folder).and_modify(|alone| *alone = false).or_insert(true);
        }
        let mut made = HashSet::new();
        for (place, state) in
            jobs.iter().filter_map(|job| Some((job.in_tree.as_ref()?, job.state?)))
        {
            if place.target.parent() == Some(&place.source) {
                // Who may read the file may enter its folder.
                let mode = state.mode | (state.mode & 0o444) >> 2;
                self.dirs.push((place.source.clone(), FileState { mode, ..state }));
            } else if place.source.parent() == Some(&place.target)
                && alone.get(place.target.as_path()) == Some(&true)
            {
                made.insert(&place.target);
            }
        }
        self.dirs.retain(|(dir, _)| !made.contains(dir));
    }

    /// Removes the folders of the source that are empty by now. What was left out or failed stays,
    /// and so does the directory it is in.
    fn remove_source_folders(&self) {
        let entries = self.source.entries().iter().rev();
        for folder in entries.filter(|entry| entry.state.kind == FileKind::Folder) {
            let _ = self.source.remove_folder(&folder.path);
        }
        let _ = self.source.remove_folder(Path::new(""));
    }
}

impl TargetTree {
    /// Makes the directories, closed to others, down to the disk: files in them may replace inputs
    /// that are removed.
    fn make(tree: &TreePlan, overwrite: bool) -> Result<Self, Failure> {
        let (sandbox, is_new) = Sandbox::make(&tree.target, overwrite)?;
        let (made, old) = (Vec::new(), HashMap::new());
        let mut target = Self { sandbox, is_new, made, old };
        let made = target.make_dirs(tree);
        if made.is_err() {
            target.remove(tree);
        }
        made.map(|()| target)
    }

    fn make_dirs(&mut self, tree: &TreePlan) -> Result<(), Failure> {
        for (dir, like) in tree.dirs.iter().skip(1) {
            match self.sandbox.make_dir(dir, like.mode)? {
                None => self.made.push(dir.clone()),
                Some(old) => drop(self.old.insert(dir.clone(), old)),
            }
        }
        for (dir, _) in &tree.dirs {
            self.sandbox.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Gives the directories their modes and times. The one that was named as the target keeps its
    /// own if it was there, and the others let nobody do more than before.
    fn finish(&self, tree: &TreePlan) -> Result<(), Failure> {
        let dirs = if self.is_new { &tree.dirs[..] } else { &tree.dirs[1..] };
        // The deepest first: a change inside a directory changes its time.
        for (dir, like) in dirs.iter().rev() {
            let origin = Origin::file(like).in_place_of(self.old.get(dir).copied());
            self.sandbox.finish_dir(dir, &origin)?;
        }
        Ok(())
    }

    /// Removes the directories that were made: nothing is in them, and they would be in the way of
    /// the next try.
    fn remove(&self, tree: &TreePlan) {
        for dir in self.made.iter().rev() {
            let _ = self.sandbox.remove_dir(dir);
        }
        if self.is_new {
            let _ = self.sandbox.remove_root(&tree.target);
        }
    }
}
