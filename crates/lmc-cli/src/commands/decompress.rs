//! `lmc decompress`.

use std::fs::File;
use std::path::{Path, PathBuf};

use lmc::{Archive, BaseSet, Context, Dependencies, FileId, Output, Summary};

use super::transfer::{self, Direction, FileTask, Opened, TaskInput};
use crate::args::files::DecompressArgs;
use crate::bases::{self, InputLocation};
use crate::exit::{Exit, Failure};
use crate::names;
use crate::progress::ProgressBar;
use crate::signals;
use crate::stdio;
use crate::table::ratio;

/// Restores every file that `args` names.
pub fn run(args: &DecompressArgs) -> Exit {
    let (context, max_size) = (signals::context(&args.files.resources), args.limit.max_size);
    transfer::run(&args.files, &Decompress { context, max_size })
}

struct Decompress {
    context: Context,
    max_size: Option<u64>,
}

impl Direction for Decompress {
    fn context(&self) -> &Context {
        &self.context
    }

    fn target(&self, source: &Path) -> Result<PathBuf, Failure> {
        names::restored(source)
    }

    fn target_below(&self, source: &Path) -> Option<PathBuf> {
        lmc::original_path(source)
    }

    fn refuses(&self, _source: &Path) -> Option<&'static str> {
        None
    }

    fn total(&self, _file: &File) -> Option<u64> {
        None
    }

    fn bases(&self, given: &[PathBuf], location: InputLocation) -> Result<Vec<PathBuf>, Failure> {
        Ok(bases::to_restore(given, location))
    }

    fn rounding_sources(
        &self,
        files: &[PathBuf],
        _: &dyn Fn(usize) -> Option<File>,
    ) -> Vec<Vec<usize>> {
        vec![Vec::new(); files.len()]
    }

    fn add_needs(&self, task: &FileTask, id: FileId, file: File, needs: &mut Dependencies) {
        let folder = task.source.as_deref().and_then(Path::parent);
        needs.add_archive(id, file, folder, &task.bases);
    }

    fn convert(
        &self,
        task: &FileTask,
        input: TaskInput,
        output: Output,
        progress: &ProgressBar,
    ) -> lmc::Result<Summary> {
        let file = match input.opened {
            Opened::File(file) => file,
            Opened::Stdin => stdio::spool_stdin()?,
        };
        let bases = BaseSet::open(&task.bases, &self.context)?;
        let folder = task.source.as_deref().and_then(Path::parent);
        let archive = Archive::from_file(file, folder, &bases)?;
        archive.check_size(self.max_size)?;
        progress.announce(&archive);
        progress.set_total(archive.original_len());
        lmc::decompress(&archive, output, &progress.watching(&self.context))
    }

    fn joins(&self) -> bool {
        true
    }

    fn factor(&self, done: Summary) -> String {
        ratio(done.bytes_out, done.bytes_in)
    }
}
