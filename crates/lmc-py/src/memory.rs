//! Compressing buffers and files to `.lmc`, and restoring them.

use lmc::{Context, Error, ErrorKind, FileState, Input, Level, Origin, Output, Publish};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffers::{Bytes, NewBytes, Scattered, check_outside, expect_writes, parts};
use crate::context::{long, short, sized, watched};
use crate::errors::{Raise, exception};
use crate::options::{BaseSource, base_sources, count, level as level_of, open_bases, options};

/// Data of at least this length is coded directly into the object that is returned.
const IN_PLACE_LEN_MIN: usize = 1 << 20;

/// Compresses a buffer, or several buffers in order, to the bytes of a `.lmc` file. With
/// `name_bases`, the file names all bases, including unused ones.
#[pyfunction]
#[pyo3(signature = (data, *, level = Level::Default, threads = 0, verify = true,
                    bases = Vec::new(), name_bases = false))]
pub fn compress<'py>(
    data: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = level_of)] level: Level,
    #[pyo3(from_py_with = count)] threads: usize,
    verify: bool,
    bases: Vec<Bound<'py, PyAny>>,
    name_bases: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let (py, parts, bases) = (data.py(), parts(data)?, base_sources(&bases)?);
    let slices: Vec<&[u8]> = parts.iter().map(Bytes::get).collect();
    let len = slices.iter().map(|part| part.len()).sum();
    // As long as if nothing were saved; memory that is not written to takes no room. Small results
    // would each waste a page that way, so they are copied at the end.
    let room = if len < IN_PLACE_LEN_MIN { 0 } else { len as u64 };
    let mut bytes = NewBytes::new(py, room).or_else(|_| NewBytes::new(py, 0))?;
    let out = bytes.get_mut();
    let coded = sized(py, len, |context| {
        let mut options = options(context.on_threads(threads), level, verify, bases)?;
        if name_bases {
            options.bases = options.bases.named();
        }
        lmc::compress_into(Input::Parts(&slices), &options, out)
    });
    let (written, rest) = coded?.raise()?;
    let rest = rest.concat();
    let mut bytes = bytes.resized(written + rest.len())?;
    if !rest.is_empty() {
        bytes.get_mut()[written..].copy_from_slice(&rest);
    }
    Ok(bytes.finish())
}

/// Compresses into existing memory, which `data` must not overlap; returns the bytes written.
#[pyfunction]
#[pyo3(signature = (data, into, *, level = Level::Default, threads = 0, verify = true,
                    bases = Vec::new()))]
pub fn compress_into(
    data: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = level_of)] level: Level,
    #[pyo3(from_py_with = count)] threads: usize,
    verify: bool,
    bases: Vec<Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let (parts, bases, mut into) = (parts(data)?, base_sources(&bases)?, Bytes::new_mut(into)?);
    let slices: Vec<&[u8]> = parts.iter().map(Bytes::get).collect();
    let read = slices.iter().copied().chain(bases.iter().flat_map(BaseSource::slices));
    check_outside(into.get(), read)?;
    let out = into.get_mut();
    expect_writes(out);
    let room = out.len();
    let coded = sized(data.py(), slices.iter().map(|part| part.len()).sum(), |context| {
        let options = options(context.on_threads(threads), level, verify, bases)?;
        let (written, rest) = lmc::compress_into(Input::Parts(&slices), &options, out)?;
        let more: usize = rest.iter().map(Vec::len).sum();
        if more > 0 {
            let message = format!("{} bytes do not fit into {room}", written + more);
            return Err(Error::new(ErrorKind::LimitExceeded, message));
        }
        Ok(written)
    });
    coded?.raise()
}

/// Restores the data that [`compress`] was given, to new bytes or into `into`. More than `max_size`
/// bytes are refused.
#[pyfunction]
#[pyo3(signature = (data, *, into = None, threads = 0, bases = Vec::new(), max_size = None))]
pub fn decompress<'py>(
    data: &Bound<'py, PyAny>,
    into: Option<&Bound<'py, PyAny>>,
    #[pyo3(from_py_with = count)] threads: usize,
    bases: Vec<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = count)] max_size: Option<u64>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = data.py();
    let (bytes, bases) = (Bytes::new(data)?, base_sources(&bases)?);
    let mut into = into.map(Bytes::new_mut).transpose()?;
    if let Some(into) = &into {
        let read = std::iter::once(bytes.get()).chain(bases.iter().flat_map(BaseSource::slices));
        check_outside(into.get(), read)?;
    }
    let archive = short(py, || {
        let bases = open_bases(bases, &Context::with_threads(threads))?;
        lmc::Archive::from_elsewhere(Arc::new(Scattered::new(vec![bytes])), &bases)
    });
    let archive = archive?.raise()?;
    archive.check_size(max_size).raise()?;
    if let Some(into) = &mut into {
        let out = into.get_mut();
        expect_writes(out);
        let done = sized(py, out.len(), |context| {
            lmc::decompress_into(&archive, out, &context.on_threads(threads))
        });
        return done?.raise().map(|()| None);
    }
    let mut bytes = NewBytes::new(py, archive.original_len())?;
    let out = bytes.get_mut();
    sized(py, out.len(), |context| {
        lmc::decompress_into(&archive, out, &context.on_threads(threads))
    })?
    .raise()?;
    Ok(Some(bytes.finish()))
}

/// Compresses buffers, in order, to a file, which replaces an existing one; returns the bytes in
/// and out.
#[pyfunction]
#[pyo3(signature = (data, target, *, level = Level::Default, threads = 0, verify = true,
                    bases = Vec::new()))]
pub fn save_parts(
    data: &Bound<'_, PyAny>,
    target: PathBuf,
    #[pyo3(from_py_with = level_of)] level: Level,
    #[pyo3(from_py_with = count)] threads: usize,
    verify: bool,
    bases: Vec<Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    let (parts, bases) = (parts(data)?, base_sources(&bases)?);
    let done = long(data.py(), |context| {
        let slices: Vec<&[u8]> = parts.iter().map(Bytes::get).collect();
        let options = options(context.on_threads(threads), level, verify, bases)?;
        let mut publish = Publish::create(&target, true, &Origin::nothing())?;
        let output = Output::File(&mut publish);
        let done = lmc::compress(Input::Parts(&slices), output, &options)?.summary;
        publish.commit()?;
        Ok(done)
    });
    done?
        .map(|done| (done.bytes_in, done.bytes_out))
        .map_err(|error: lmc::Error| exception(&error.at(target.display())))
}

/// Writes a file as it is. It replaces an existing one, and appears whole or not at all.
#[pyfunction]
pub fn write_file(py: Python<'_>, target: PathBuf, data: Vec<u8>) -> PyResult<()> {
    let written = long(py, |_| {
        let mut publish = Publish::create(&target, true, &Origin::nothing())?;
        publish.write_all(&data).map_err(|e| Error::io("cannot write it", e))?;
        publish.commit()
    });
    written?.map_err(|error: Error| exception(&error.at(target.display())))
}

/// Compresses a file; returns the bytes in and out. `progress` is called with the bytes done so
/// far.
#[pyfunction]
#[pyo3(signature = (source, target, *, level = Level::Default, threads = 0, verify = true,
                    bases = Vec::new(), overwrite = false, progress = None))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn compress_file(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    #[pyo3(from_py_with = level_of)] level: Level,
    #[pyo3(from_py_with = count)] threads: usize,
    verify: bool,
    bases: Vec<Bound<'_, PyAny>>,
    overwrite: bool,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    let bases = base_sources(&bases)?;
    let done = watched(py, progress, |context| {
        let options = options(context.on_threads(threads), level, verify, bases)?;
        let (file, origin) = open(&source)?;
        let mut publish = Publish::create(&target, overwrite, &origin)?;
        let output = Output::File(&mut publish);
        let done = lmc::compress(Input::File(&file), output, &options)?.summary;
        publish.commit()?;
        Ok(done)
    });
    done?
        .map(|done| (done.bytes_in, done.bytes_out))
        .map_err(|error: lmc::Error| exception(&error.at(source.display())))
}

/// Restores a file; returns the bytes in and out. `progress` is called with the bytes done so far.
#[pyfunction]
#[pyo3(signature = (source, target, *, threads = 0, bases = Vec::new(), overwrite = false,
                    max_size = None, progress = None))]
#[allow(clippy::too_many_arguments, reason = "keywords in Python")]
pub fn decompress_file(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    #[pyo3(from_py_with = count)] threads: usize,
    bases: Vec<Bound<'_, PyAny>>,
    overwrite: bool,
    #[pyo3(from_py_with = count)] max_size: Option<u64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64)> {
    let bases = base_sources(&bases)?;
    let done = watched(py, progress, |context| {
        let context = &context.on_threads(threads);
        let bases = open_bases(bases, context)?;
        let (file, origin) = open(&source)?;
        let archive = lmc::Archive::from_file(file, source.parent(), &bases)?;
        archive.check_size(max_size)?;
        let mut publish = Publish::create(&target, overwrite, &origin)?;
        let done = lmc::decompress(&archive, Output::File(&mut publish), context)?;
        publish.commit()?;
        Ok(done)
    });
    done?
        .map(|done| (done.bytes_in, done.bytes_out))
        .map_err(|error: lmc::Error| exception(&error.at(source.display())))
}

/// Opens a file; also returns what a result made from it inherits.
fn open(path: &Path) -> lmc::Result<(File, Origin)> {
    let opened = File::open(path).and_then(|file| Ok((FileState::of(&file)?, file)));
    let (state, file) = opened.map_err(|e| Error::io("cannot open it", e))?;
    Ok((file, Origin::file(&state)))
}
