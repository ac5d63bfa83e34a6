//! Options as Python gives them.

use lmc::{Bases, Error, Level, Options};
use pyo3::prelude::*;
use std::path::PathBuf;

use crate::buffers::Bytes;
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
    /// Its bytes.
    Bytes(Vec<u8>),
}

/// The bases of a list of paths and buffers.
pub fn base_sources(list: &[Bound<'_, PyAny>]) -> PyResult<Vec<BaseSource>> {
    let source = |item: &Bound<'_, PyAny>| match Bytes::new(item) {
        // Bases are kept for as long as an archive lives, so that they are copied.
        Ok(bytes) => Ok(BaseSource::Bytes(bytes.get().to_vec())),
        Err(_) => Ok(BaseSource::Path(item.extract()?)),
    };
    list.iter().map(source).collect()
}

/// Opens them; paths come first.
pub fn open_bases(sources: Vec<BaseSource>, threads: usize) -> lmc::Result<Bases> {
    let (mut paths, mut files) = (Vec::new(), Vec::new());
    for source in sources {
        match source {
            BaseSource::Path(path) => paths.push(path),
            BaseSource::Bytes(bytes) => files.push((format!("base {}", files.len()), bytes)),
        }
    }
    match (paths.is_empty(), files.is_empty()) {
        (_, true) => Bases::open(&paths, threads),
        (true, false) => Bases::from_bytes(files, threads),
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
