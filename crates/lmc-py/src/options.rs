//! Options as Python gives them.

use lmc::{Bases, Error, Level, Options, ReadAt};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

use crate::buffers::{Scattered, parts};
use crate::errors::Raise;

/// The level of this name.
pub fn level(name: &str) -> PyResult<Level> {
    match name {
        "fast" => Ok(Level::Fast),
        "default" => Ok(Level::Default),
        "max" => Ok(Level::Max),
        _ => {
            Err(Error::invalid(format!("level {name:?} is none of fast, default and max"))).raise()
        }
    }
}

/// A base: the path of a file, or its bytes.
#[derive(Debug)]
pub enum BaseSource {
    /// A file, raw or `.lmc`.
    Path(PathBuf),
    /// Its bytes, in one place or several.
    Memory(Scattered),
}

/// The bases of a list: each a path, a buffer, or a list of buffers.
pub fn base_sources(list: &[Bound<'_, PyAny>]) -> PyResult<Vec<BaseSource>> {
    let source = |item: &Bound<'_, PyAny>| match parts(item) {
        Ok(parts) => Ok(BaseSource::Memory(Scattered::new(parts))),
        Err(_) => Ok(BaseSource::Path(item.extract()?)),
    };
    list.iter().map(source).collect()
}

/// Opens them.
pub fn open_bases(sources: Vec<BaseSource>, threads: usize) -> lmc::Result<Bases> {
    let (mut paths, mut files) = (Vec::new(), Vec::new());
    for source in sources {
        match source {
            BaseSource::Path(path) => paths.push(path),
            BaseSource::Memory(bytes) => {
                let bytes: Arc<dyn ReadAt> = Arc::new(bytes);
                files.push((format!("in memory {}", files.len()), bytes));
            }
        }
    }
    match (paths.is_empty(), files.is_empty()) {
        (_, true) => Bases::open(&paths, threads),
        (true, false) => Bases::from_elsewhere(files, threads),
        _ => Err(Error::invalid("bases are all paths or all buffers")),
    }
}

/// How to compress.
pub fn options(
    level: Level,
    threads: usize,
    verify: bool,
    bases: Vec<BaseSource>,
) -> lmc::Result<Options> {
    Ok(Options { level, threads, verify, bases: open_bases(bases, threads)? })
}
