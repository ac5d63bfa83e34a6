//! What compress and decompress share: from the names on the command line to files on disk.
//!
//! Each argument becomes a batch: one file, or all files of a directory. A file that fails is
//! reported and the next one is worked on. Nothing appears under a final name before it is whole.

use std::collections::HashSet;
use std::fs::{self, File, FileTimes, Metadata};
use std::path::{Path, PathBuf};

use lmc::{Output, Publish, Summary};

use crate::args::FileArgs;
use crate::bases;
use crate::exit::{self, Exit, Failure, Tally};
use crate::names::{self, Tree};
use crate::progress::{Progress, Volume};
use crate::{interrupt, stdio};

/// Compressing or restoring.
pub trait Direction {
    /// The usual name of the result.
    fn target(&self, source: &Path) -> Result<PathBuf, Failure>;
    /// Why a file named on the command line is not worked on without `-f`.
    fn refuses(&self, source: &Path) -> Option<&'static str>;
    /// Original bytes, if they are known before the work starts.
    fn total(&self, file: &File) -> Option<u64>;
    /// The bases of a file, of those that were given.
    fn bases(&self, given: &[PathBuf], place: bases::Place) -> Result<Vec<PathBuf>, Failure>;
    /// For each file of a directory, those among them that it may be on.
    fn siblings(&self, files: &[PathBuf]) -> Vec<Vec<usize>>;
    /// The files that cannot go before this one is done.
    fn needs(&self, job: &Job) -> Vec<PathBuf>;
    /// Does the work.
    fn convert(
        &self,
        job: &Job,
        source: Opened,
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

/// Where a result goes; nothing is stdout.
pub type Target = Option<PathBuf>;

/// One file and its result.
pub struct Job {
    /// Nothing is stdin.
    pub source: Option<PathBuf>,
    /// What it is or may be coded against.
    pub bases: Vec<PathBuf>,
    /// Where it goes.
    pub target: Target,
}

/// The work of one argument.
struct Batch {
    jobs: Vec<Job>,
    tree: Option<TreePlan>,
}

/// A directory that was given, and what becomes of it beside its files.
struct TreePlan {
    source: PathBuf,
    target: PathBuf,
    /// Relative paths, each before what is below it, and what they were like before the work.
    dirs: Vec<(PathBuf, Metadata)>,
    left_out: Vec<(PathBuf, Failure)>,
}

/// Works on all files.
pub fn run(args: &FileArgs, direction: &dyn Direction) -> Exit {
    if let Err(failure) = check(args, direction) {
        return exit::report("options".as_ref(), Err(failure));
    }
    let progress = Progress::new(Volume::new(args.quiet, args.verbose));
    let mut transfer = Transfer { args, direction, progress, tally: Tally::default() };
    for file in &args.files {
        match transfer.batch(file).and_then(|batch| transfer.run_batch(file, &batch)) {
            Ok(()) => {}
            Err(failure) => transfer.failed(file, &failure),
        }
        if transfer.tally.exit() == Exit::PipeClosed {
            break;
        }
    }
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

struct Transfer<'a> {
    args: &'a FileArgs,
    direction: &'a dyn Direction,
    progress: Progress,
    tally: Tally,
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
            return Ok(Batch { jobs: vec![Job { source: None, bases, target }], tree: None });
        }
        let metadata = fs::metadata(source).map_err(|error| Failure::io("open it", &error))?;
        if metadata.is_dir() {
            return self.directory(source);
        }
        let is_named = self.args.output.is_some() || self.args.stdout;
        if !metadata.is_file() && !is_named {
            return Err(Failure::new("is no regular file; name the result with -o, or use -c"));
        }
        let target = self.target(source)?;
        let refused = self.direction.refuses(source).filter(|_| !self.args.force);
        match (refused, &target, &self.args.output) {
            (Some(why), Some(_), None) => Err(Failure::new(why)),
            _ => {
                let bases = self.bases(bases::Place::File(source))?;
                let source = Some(source.to_path_buf());
                Ok(Batch { jobs: vec![Job { source, bases, target }], tree: None })
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
        let tree = Tree::read(source)?;
        let no_file = || Failure::new("a symbolic link or no regular file; left out");
        let others = tree.others.iter().map(|other| (source.join(other), no_file()));
        let mut left_out: Vec<(PathBuf, Failure)> = others.collect();
        let mut jobs = Vec::new();
        for file in tree.files {
            let from = source.join(&file);
            match self.direction.target(&file) {
                Ok(to) => {
                    let bases = self.bases(bases::Place::InTree(&file))?;
                    jobs.push(Job { source: Some(from), bases, target: Some(target.join(to)) });
                }
                Err(_) => left_out.push((from, Failure::new("does not end in .lmc; left out"))),
            }
        }
        let sources: Vec<PathBuf> = jobs.iter().filter_map(|job| job.source.clone()).collect();
        for (job, siblings) in jobs.iter_mut().zip(self.direction.siblings(&sources)) {
            job.bases.extend(siblings.into_iter().map(|i| sources[i].clone()));
        }
        if self.args.rm && !left_out.is_empty() {
            let name = left_out[0].0.display();
            return Err(Failure::new(format!("{name} would be left out, so --rm is refused")));
        }
        let dirs = [PathBuf::new()].into_iter().chain(tree.dirs);
        let look = |dir: PathBuf| Ok((dir.clone(), fs::metadata(source.join(dir))?));
        let dirs = dirs.map(look).collect::<std::io::Result<_>>();
        let dirs = dirs.map_err(|error| Failure::io("look at its directories", &error))?;
        let source = source.to_path_buf();
        Ok(Batch { jobs, tree: Some(TreePlan { source, target, dirs, left_out }) })
    }

    fn run_batch(&mut self, name: &Path, batch: &Batch) -> Result<(), Failure> {
        let made = batch.tree.as_ref().map_or(Ok(Vec::new()), make_dirs)?;
        let mut total = Summary { bytes_in: 0, bytes_out: 0 };
        let mut tally = Tally::default();
        // What others need stays until all are done.
        let needs = |job: &Job| if self.args.rm { self.direction.needs(job) } else { Vec::new() };
        let needed: HashSet<PathBuf> = batch.jobs.iter().flat_map(needs).collect();
        let mut kept = Vec::new();
        for job in &batch.jobs {
            let source = job.source.as_deref().unwrap_or(name);
            let is_needed = needed.contains(source);
            match self.run_job(source, job, !is_needed) {
                Ok(done) => {
                    total.bytes_in += done.bytes_in;
                    total.bytes_out += done.bytes_out;
                    tally.done();
                    self.tally.done();
                    kept.extend(is_needed.then_some(source));
                }
                Err(failure) => {
                    tally.failed(&failure);
                    self.failed(source, &failure);
                }
            }
            if tally.exit() == Exit::PipeClosed {
                break;
            }
        }
        for source in kept {
            remove(source)?;
        }
        for (path, failure) in batch.tree.iter().flat_map(|tree| &tree.left_out) {
            self.failed(path, failure);
        }
        if tally.is_all_failed() {
            // Nothing is in them, and they would be in the way of the next try.
            for dir in made.iter().rev() {
                let _ = fs::remove_dir(dir);
            }
        } else if let Some(tree) = &batch.tree {
            self.finish_tree(tree)?;
            if tally.is_clean() {
                let factor = self.direction.factor(total);
                let (source, target) = (tree.source.display(), tree.target.display());
                self.progress.summary(source, target, total, &factor);
            }
        }
        Ok(())
    }

    /// One file: the result is whole under its name, or there is none.
    fn run_job(&mut self, name: &Path, job: &Job, may_go: bool) -> Result<Summary, Failure> {
        self.check_bases(name, job)?;
        let (opened, like) = open(job.source.as_deref())?;
        let total = match &opened {
            Opened::File(file) => self.direction.total(file),
            Opened::Stdin => None,
        };
        self.progress.start(name.display(), total);
        let done = match &job.target {
            Some(target) => self.to_file(job, opened, like.as_ref(), name, target),
            None => self.to_stdout(job, opened),
        };
        self.progress.finish();
        let done = done?;
        let shown = job.target.as_deref().map(Path::display);
        let shown = shown.map_or_else(|| "stdout".into(), |target| target.to_string());
        self.progress.summary(name.display(), shown, done, &self.direction.factor(done));
        if let (true, Some(source)) = (self.args.rm && may_go, &job.source) {
            remove(source)?;
        }
        Ok(done)
    }

    /// A file that is its own base, or takes the place of it, could never be restored.
    fn check_bases(&self, name: &Path, job: &Job) -> Result<(), Failure> {
        for base in &job.bases {
            if names::is_same_file(name, base) {
                return Err(Failure::new("is its own --base; give an older one"));
            }
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
        opened: Opened,
        like: Option<&Metadata>,
        name: &Path,
        target: &Path,
    ) -> Result<Summary, Failure> {
        if names::is_same_file(name, target) {
            return Err(Failure::new("input and output are the same file; give another -o"));
        }
        let mut publish = Publish::create(target, self.args.force)?;
        let _guard = interrupt::guard(publish.temporary());
        let output = Output::File(&mut publish);
        let done = self.direction.convert(job, opened, output, &self.progress)?;
        publish.commit(like)?;
        Ok(done)
    }

    fn to_stdout(&self, job: &Job, opened: Opened) -> Result<Summary, Failure> {
        let mut stdout = stdio::BytesOut::new(self.args.force)?;
        let output = Output::Stream(&mut stdout);
        let done = self.direction.convert(job, opened, output, &self.progress);
        stdout.check(done)
    }

    /// Gives the directories their modes and times, and clears up.
    fn finish_tree(&self, tree: &TreePlan) -> Result<(), Failure> {
        // The deepest first: a change inside a directory changes its time.
        for (dir, like) in tree.dirs.iter().rev() {
            give_metadata(&tree.target.join(dir), like)
                .map_err(|error| Failure::io("copy the modes of directories", &error))?;
            if self.args.rm {
                // What was left out or failed stays, and so does the directory it is in.
                let _ = fs::remove_dir(tree.source.join(dir));
            }
        }
        Ok(())
    }
}

fn remove(source: &Path) -> Result<(), Failure> {
    fs::remove_file(source).map_err(|error| Failure::io("remove it", &error))
}

fn open(source: Option<&Path>) -> Result<(Opened, Option<Metadata>), Failure> {
    let Some(path) = source else {
        return Ok((stdio::stdin_file().map_or(Opened::Stdin, Opened::File), None));
    };
    let open = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        Ok((file, metadata))
    };
    let (file, metadata) = open().map_err(|error| Failure::io("open it", &error))?;
    Ok((Opened::File(file), Some(metadata)))
}

/// Makes the directories, down to the disk: files in them may replace inputs that are removed.
/// Returns those that were not there.
fn make_dirs(tree: &TreePlan) -> Result<Vec<PathBuf>, Failure> {
    let mut made = Vec::new();
    for (dir, _) in &tree.dirs {
        let path = tree.target.join(dir);
        let is_new = !path.exists();
        let done = fs::create_dir_all(&path).and_then(|()| sync_parent(&path));
        done.map_err(|error| {
            Failure::io(&format!("make the directory {}", path.display()), &error)
        })?;
        made.extend(is_new.then_some(path));
    }
    Ok(made)
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn give_metadata(dir: &Path, like: &Metadata) -> std::io::Result<()> {
    let dir = File::open(dir)?;
    dir.set_times(FileTimes::new().set_modified(like.modified()?))?;
    dir.set_permissions(like.permissions())
}
