//! `lmc test`: reads .lmc files and checks every byte.

use lmc::{Archive, BaseSet};

use crate::args::files::TestArgs;
use crate::bases;
use crate::exit::{self, Exit};
use crate::names::{self, Archives};
use crate::progress::{ProgressBar, Volume};
use crate::{signals, stdio};

/// Tests every file.
pub fn run(args: &TestArgs) -> Exit {
    let files = Archives::list(&args.files);
    let progress = ProgressBar::new(Volume::new(args.quiet, false));
    let context = signals::context(&args.resources);
    exit::for_each(&files.paths, |path| {
        let bases = bases::to_restore(&args.bases.paths, bases::location(path, &args.files));
        let bases = BaseSet::open(&bases, &context)?;
        let archive = match names::is_dash(path) {
            true => Archive::from_file(stdio::stdin_or_spooled()?, None, &bases)?,
            false => files.open(path, &bases)?,
        };
        archive.check_size(args.limit.max_size)?;
        progress.start(path.display(), Some(archive.original_len()));
        progress.announce(&archive);
        let tested = archive.test(&progress.watching(&context));
        progress.finish();
        tested?;
        progress.note(format!("{}: ok, {} bytes", path.display(), archive.original_len()));
        Ok(())
    })
}
