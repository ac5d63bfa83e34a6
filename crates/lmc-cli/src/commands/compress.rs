//! `lmc compress`.

use std::fs::File;
use std::io::stdin;
use std::path::{Path, PathBuf};

use lmc::{BaseSet, Context, Dependencies, FileId, Input, Level, Options, Output, Summary};

use super::transfer::{self, Direction, FileTask, Opened, TaskInput};
use crate::args::files::{CodecName, CompressArgs};
use crate::bases::{self, InputLocation};
use crate::exit::{Exit, Failure};
use crate::names;
use crate::progress::ProgressBar;
use crate::signals;
use crate::table::ratio;

/// Compresses every file that `args` names.
pub fn run(args: &CompressArgs) -> Exit {
    let options = Options {
        level: level(args),
        context: signals::context(&args.files.resources),
        verify: !args.no_verify,
        ..Options::default()
    };
    transfer::run(&args.files, &Compress { options, given: &args.files.bases.paths })
}

fn level(args: &CompressArgs) -> Level {
    match args {
        CompressArgs { fast: true, .. } => Level::Fast,
        CompressArgs { max: true, .. } => Level::Max,
        CompressArgs { codec: CodecName::Paper, .. } => Level::Paper,
        _ => Level::Default,
    }
}

struct Compress<'a> {
    options: Options,
    /// Bases as they were named; a file in a directory also has others.
    given: &'a [PathBuf],
}

impl Direction for Compress<'_> {
    fn context(&self) -> &Context {
        &self.options.context
    }

    fn target(&self, source: &Path) -> Result<PathBuf, Failure> {
        names::compressed(source)
    }

    fn target_below(&self, source: &Path) -> Option<PathBuf> {
        Some(lmc::archive_path(source))
    }

    fn refuses(&self, source: &Path) -> Option<&'static str> {
        names::is_compressed(source).then_some("already ends in .lmc; -f compresses it again")
    }

    fn total(&self, file: &File) -> Option<u64> {
        Some(file.metadata().ok()?.len())
    }

    fn bases(&self, given: &[PathBuf], location: InputLocation) -> Result<Vec<PathBuf>, Failure> {
        bases::to_compress(given, location)
    }

    fn rounding_sources(
        &self,
        files: &[PathBuf],
        open: &dyn Fn(usize) -> Option<File>,
    ) -> Vec<Vec<usize>> {
        lmc::rounding_sources(files, open)
    }

    fn add_needs(&self, task: &FileTask, id: FileId, _file: File, needs: &mut Dependencies) {
        needs.add_bases(id, &task.bases);
    }

    fn convert(
        &self,
        task: &FileTask,
        input: TaskInput,
        output: Output,
        progress: &ProgressBar,
    ) -> lmc::Result<Summary> {
        let context = progress.watching(&self.options.context);
        let bases = BaseSet::open_with(&task.bases, input.rounding_sources, &context)?;
        let options = Options { context, bases, ..self.options.clone() };
        let done = match input.opened {
            Opened::File(file) => lmc::compress(Input::File(&file), output, &options),
            Opened::Stdin => lmc::compress(Input::Stream(&mut stdin()), output, &options),
        }?;
        let is_given = |base: &PathBuf| self.given.iter().any(|own| base.starts_with(own));
        if done.bases.is_empty() && task.bases.iter().any(is_given) {
            let name = task.source.as_deref().unwrap_or(Path::new("stdin")).display();
            progress.note(format_args!("lmc: {name}: its base did not help; it needs none"));
        }
        Ok(done.summary)
    }

    fn joins(&self) -> bool {
        false
    }

    fn factor(&self, done: Summary) -> String {
        ratio(done.bytes_in, done.bytes_out)
    }
}
