//! Series of checkpoints: paths in, checkpoints in order out, each with its files. Nothing is
//! opened before it is read.
//!
//! A checkpoint is a file or the files of a directory. A directory is a series if its folders or
//! files differ only in a number, the step.

mod folder;
pub(crate) mod names;

use crate::report::Skipped;
use folder::Listing;
use lmc::{BaseSet, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Opens a file: the set's last base is the file itself.
type Open = Box<dyn Fn(&Context) -> Result<BaseSet> + Send + Sync>;

/// Checkpoints in their order.
#[derive(Debug, Default)]
pub struct Series {
    /// The name of the series.
    pub title: String,
    /// The checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

/// A checkpoint.
#[derive(Debug, Default)]
pub struct Checkpoint {
    /// Its name.
    pub name: String,
    /// The step of training, if it is known.
    pub step: Option<u64>,
    pub(crate) parts: Vec<Part>,
}

/// A file of a checkpoint.
pub(crate) struct Part {
    /// How messages name it.
    pub path: String,
    /// What tells it from the other files of the checkpoint.
    pub key: String,
    /// The version of the file when it was first opened.
    pub version: OnceLock<Option<String>>,
    open: Open,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path, self.key)
    }
}

impl Part {
    /// Opens it.
    pub(crate) fn open(&self, context: &Context) -> Result<BaseSet> {
        (self.open)(context)
    }

    /// Whether its name says that it is a safetensors file.
    pub(crate) fn is_safetensors(&self) -> bool {
        names::is_safetensors(&self.path)
    }
}

impl Checkpoint {
    /// A checkpoint without files.
    pub fn new(name: impl Into<String>, step: Option<u64>) -> Self {
        Self { name: name.into(), step, parts: Vec::new() }
    }

    /// Adds a file. Messages call it `shown`; `path` is where it is in the checkpoint or in its
    /// series. `open` gives a set whose last base is the file.
    pub fn add(
        &mut self,
        shown: impl Into<String>,
        path: &str,
        open: impl Fn(&Context) -> Result<BaseSet> + Send + Sync + 'static,
    ) {
        let key = names::key(path, self.step);
        self.parts.push(Part {
            path: shown.into(),
            key,
            version: OnceLock::new(),
            open: Box::new(open),
        });
    }

    /// Whether it has files of several kinds, whose tensors may have the same names.
    pub(crate) fn has_several_keys(&self) -> bool {
        let named = self.parts.iter().filter(|part| names::holds_tensors(&part.path));
        named.map(|part| &part.key).collect::<BTreeSet<_>>().len() > 1
    }
}

impl Series {
    /// The checkpoints at `paths`: several files or directories are a series in this order, unless
    /// they are series themselves. Archives look for their bases in `bases` too.
    pub fn from_paths(paths: &[PathBuf], bases: &[PathBuf]) -> Self {
        let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let title = match shown.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first, .., last] => format!("{first} to {last}"),
        };
        let mut series = Self { title, ..Self::default() };
        let steps = names::steps(&shown);
        for (i, path) in paths.iter().enumerate() {
            let step = match &steps {
                Some(steps) => steps[i],
                None => names::step_of(&file_name(path)),
            };
            // The name alone, if it tells the checkpoint from the others.
            let name = file_name(path);
            let is_repeated = paths.iter().filter(|other| file_name(other) == name).count() > 1;
            let name = if is_repeated { shown[i].clone() } else { name };
            match path.is_dir() {
                true => series.add_directory(path, name, step, bases),
                false => {
                    let mut checkpoint = Checkpoint::new(name, step);
                    let (path, bases) = (path.clone(), bases.to_vec());
                    checkpoint.add(&shown[i], &file_name(&path), move |context| {
                        let paths: Vec<&PathBuf> = bases.iter().chain([&path]).collect();
                        BaseSet::open(&paths, context)
                    });
                    series.checkpoints.push(checkpoint);
                }
            }
        }
        series
    }

    /// Adds a directory, which is a checkpoint or a series.
    fn add_directory(&mut self, path: &Path, name: String, step: Option<u64>, bases: &[PathBuf]) {
        let mut listing = Listing::read(path, &mut self.skipped);
        // A directory around the only one that holds tensors.
        let mut depth = 0;
        loop {
            let entries = listing.entries(depth);
            let candidates: Vec<&String> = entries
                .iter()
                .filter(|(_, entry)| entry.has_tensors)
                .map(|(name, _)| name)
                .collect();
            let names: Vec<String> = candidates.into_iter().cloned().collect();
            if let Some(steps) = names::steps(&names) {
                let steps = names.into_iter().zip(steps).collect();
                return self.add_steps(&listing, depth, &steps, bases);
            }
            match names.as_slice() {
                [only] if entries[only].is_folder => {
                    listing.keep(depth, only);
                    depth += 1;
                }
                _ => break,
            }
        }
        let several = listing.series_below(depth);
        if !several.is_empty() {
            let why = format!("holds several series; name one of them: {}", several.join(", "));
            self.skipped.push(Skipped::new(path.display().to_string(), why));
            return;
        }
        if listing.files.is_empty() {
            let why = "holds no files that could be read";
            self.skipped.push(Skipped::new(path.display().to_string(), why));
            return;
        }
        let mut checkpoint = Checkpoint::new(name, step);
        for file in &listing.files {
            listing.add_to(&mut checkpoint, file, depth, bases);
        }
        self.checkpoints.push(checkpoint);
    }

    /// Adds a checkpoint for each step, in their order.
    fn add_steps(
        &mut self,
        listing: &Listing,
        depth: usize,
        steps: &BTreeMap<String, Option<u64>>,
        bases: &[PathBuf],
    ) {
        let mut checkpoints: BTreeMap<u64, Checkpoint> = BTreeMap::new();
        let mut names: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        let mut lost: BTreeSet<&str> = BTreeSet::new();
        for file in &listing.files {
            let Some((name, step)) = steps.get_key_value(&file.parts[depth]) else { continue };
            let Some(step) = *step else {
                lost.insert(name);
                continue;
            };
            names.entry(step).or_default().insert(name);
            let checkpoint = checkpoints
                .entry(step)
                .or_insert_with(|| Checkpoint::new(String::new(), Some(step)));
            listing.add_to(checkpoint, file, depth, bases);
        }
        for name in lost {
            let path = listing.path(depth).join(name);
            let why = "belongs to no step of the series";
            self.skipped.push(Skipped::new(path.display().to_string(), why));
        }
        for (step, mut checkpoint) in checkpoints {
            checkpoint.name = common_name(&names.remove(&step).unwrap_or_default(), step);
            self.checkpoints.push(checkpoint);
        }
    }
}

/// What the names of the files and folders of a step have in common, up to the step.
fn common_name(names: &BTreeSet<&str>, step: u64) -> String {
    let start = |name: &str| {
        let number = names::numbers(name).into_iter().find(|number| number.value == Some(step));
        number
            .map(|number| (name[..number.digits.end].to_string(), name[number.digits].to_string()))
    };
    let mut starts = names.iter().filter_map(|name| start(name));
    let Some((first, digits)) = starts.next() else { return step.to_string() };
    if starts.all(|(other, _)| other == first) { first } else { digits }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| path.display().to_string())
}
