//! Pages that commands write: started before the work, so that a name that cannot be used is
//! refused before hours of work, and published when they are complete.

use std::io::Write;
use std::path::{Path, PathBuf};

use lmc::{Origin, Publish};
use lmc_analyze::page::{Kind, render};
use serde_json::Value;

use crate::exit::Failure;
use crate::names;
use crate::signals::{self, Guard};

/// A page that is being made.
pub struct Page {
    path: PathBuf,
    file: Publish,
    _guard: Guard,
}

impl Page {
    /// Starts the page that is to be written to `path`.
    pub fn begin(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        if names::is_dash(path) {
            return Err(Failure::usage("--html writes a file, not stdout; give it a name"));
        }
        let file = Publish::create(path, overwrite, &Origin::nothing())?;
        let guard = signals::guard(file.leftover());
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
