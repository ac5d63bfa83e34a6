//! Pages that commands write: started before the work, so that a name that cannot be used is
//! refused before hours of work, and published when they are complete.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lmc::{Advice, Error, Origin, Publish};
use lmc_analyze::page::{Kind, render};
use lmc_store::CONFIG_NAME;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::exit::Failure;
use crate::names;
use crate::signals::{self, Guard};

/// Opening a pipe would wait for its other end without it.
const O_NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

/// A page that is being made.
pub struct Page {
    path: PathBuf,
    file: Publish,
    _guard: Guard,
}

/// Fails if `path` is a file that does not begin with `start`: whatever it is, a command that only
/// looks at checkpoints does not destroy it.
pub fn check_overwritten(path: &Path, start: &str, what: &str) -> Result<(), Failure> {
    let Ok(file) = File::options().read(true).custom_flags(O_NONBLOCK).open(path) else {
        // It does not exist, or is refused when it is written.
        return Ok(());
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let mut found = Vec::new();
    let read = file.take(start.len() as u64).read_to_end(&mut found);
    read.map_err(|error| Failure::io(&format!("read {}", path.display()), &error))?;
    match found.eq_ignore_ascii_case(start.as_bytes()) {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{} exists and is not a {what} that lmc wrote, so it is not overwritten; give another \
             name",
            path.display(),
        ))),
    }
}

/// Fails if `path` is in the directory of a store, which holds nothing but what lmc stores there.
pub fn check_outside_stores(path: &Path) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A folder that does not exist is refused when the file is made.
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    match folder.ancestors().find(|folder| folder.join(CONFIG_NAME).symlink_metadata().is_ok()) {
        Some(store) => Err(Failure::usage(format!(
            "{} is in the store {}; write it somewhere else",
            path.display(),
            store.display(),
        ))),
        None => Ok(()),
    }
}

/// The failure of a file that an option other than `-o` names.
pub fn file_failure(error: Error) -> Failure {
    match error.advice() {
        Some(Advice::ChooseFileOrStream) => error.with_advice(Advice::ChooseName).into(),
        _ => error.into(),
    }
}

impl Page {
    /// Starts the page that is to be written to `path`.
    pub fn begin(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        if names::is_dash(path) {
            return Err(Failure::usage("--html writes a file, not stdout; give it a name"));
        }
        if overwrite {
            check_overwritten(path, "<!doctype html>", "page")?;
        }
        check_outside_stores(path)?;
        let create = || Publish::create(path, overwrite, &Origin::nothing());
        let (file, guard) = signals::guarded(create).map_err(file_failure)?;
        Ok(Self { path: path.to_path_buf(), file, _guard: guard })
    }

    /// Writes it and puts it under its name.
    pub fn finish(mut self, kind: Kind, title: &str, data: &Value) -> Result<(), Failure> {
        let html = render(kind, title, data);
        let written = self.file.write_all(html.as_bytes()).and_then(|()| self.file.flush());
        let what = format!("write {}", self.path.display());
        written.map_err(|error| Failure::io(&what, &error))?;
        Ok(self.file.commit()?)
    }
}
