//! Options as they come from Python.

use lmc::{BaseSet, Context, Error, Level, Options, ReadAt};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::buffers::{Scattered, parts};
use crate::errors::{Raise, exception};

/// The level of this name.
pub fn level(name: &Bound<'_, PyAny>) -> PyResult<Level> {
    match &*name.cast::<PyString>()?.to_string_lossy() {
        "fast" => Ok(Level::Fast),
        "default" => Ok(Level::Default),
        "max" => Ok(Level::Max),
        name => {
            Err(Error::invalid(format!("level must be fast, default or max, not {name:?}"))).raise()
        }
    }
}

/// A number that is not negative.
pub fn count<'py, T: FromPyObjectOwned<'py>>(number: &Bound<'py, PyAny>) -> PyResult<T> {
    number.extract().map_err(|error: T::Error| {
        let error: PyErr = error.into();
        match error.is_instance_of::<PyOverflowError>(number.py()) {
            true => exception(&Error::invalid(format!("{number} is out of range"))),
            false => error,
        }
    })
}

/// A base: the path of a file, or its bytes.
#[derive(Debug)]
pub enum BaseSource {
    /// A file, raw or `.lmc`.
    Path(PathBuf),
    /// Its bytes, in one place or several.
    Memory(Scattered),
}

impl BaseSource {
    /// Its bytes, if they are in memory.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let memory = match self {
            Self::Path(_) => None,
            Self::Memory(bytes) => Some(bytes),
        };
        memory.into_iter().flat_map(Scattered::slices)
    }
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
pub fn open_bases(sources: Vec<BaseSource>, context: &Context) -> lmc::Result<BaseSet> {
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
        (_, true) => BaseSet::open(&paths, context),
        (true, false) => BaseSet::from_elsewhere(files, context),
        _ => Err(Error::invalid("bases must be all paths or all buffers")),
    }
}

/// How to compress.
pub fn options(
    context: Context,
    level: Level,
    verify: bool,
    bases: Vec<BaseSource>,
) -> lmc::Result<Options> {
    let bases = open_bases(bases, &context)?;
    Ok(Options { context, level, verify, bases })
}
