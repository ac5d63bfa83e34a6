//! An open `.lmc` file: its tensors, and parts of its original.

use lmc::{Error, Site, Update};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::sync::Arc;

use crate::buffers::{Bytes, NewBytes, Scattered, check_apart, expect_writes};
use crate::context::{long, short, sized};
use crate::errors::{Raise, exception, partly_written};
use crate::options::{base_sources, count, open_bases};

/// A tensor: name, element type, shape, and where its bytes start and end in the original.
type TensorTuple = (String, &'static str, Vec<u64>, u64, u64);

/// An open `.lmc` file. It can be read from any thread.
#[pyclass(frozen, module = "lmckpt._lmckpt")]
#[derive(Debug)]
pub struct Archive(pub lmc::Archive);

#[pymethods]
impl Archive {
    /// Opens the file at `source`, or the file that the buffer `source` holds. An original of more
    /// than `max_size` bytes is refused. `threads` is for reading bases that are not `.lmc` files.
    #[new]
    #[pyo3(signature = (source, *, bases = Vec::new(), max_size = None, threads = 0))]
    fn new(
        source: &Bound<'_, PyAny>,
        bases: Vec<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = count)] max_size: Option<u64>,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<Self> {
        let (py, bases) = (source.py(), base_sources(&bases)?);
        let checked = |archive: lmc::Archive| archive.check_size(max_size).map(|()| archive);
        if let Ok(bytes) = Bytes::new(source) {
            let opened = long(py, |context| {
                let bytes = Arc::new(Scattered::new(vec![bytes]));
                lmc::Archive::from_elsewhere(
                    bytes,
                    &open_bases(bases, &context.on_threads(threads))?,
                )
                .and_then(checked)
            });
            return opened?.map(Self).raise();
        }
        let path: PathBuf = source.extract()?;
        let opened = long(py, |context| {
            lmc::Archive::open_on(&path, &open_bases(bases, &context.on_threads(threads))?)
                .and_then(checked)
        });
        opened?.map(Self).map_err(|error| exception(&error.at(path.display())))
    }

    /// Bytes of the original.
    #[getter]
    fn original_len(&self) -> u64 {
        self.0.original_len()
    }

    /// Bytes of the file.
    #[getter]
    fn file_len(&self) -> u64 {
        self.0.file_len()
    }

    /// The hash of the original, in hex.
    #[getter]
    fn content_hash(&self) -> String {
        format!("{:032x}", self.0.content_hash())
    }

    /// Whether the original is a safetensors file.
    #[getter]
    fn is_safetensors(&self) -> bool {
        self.0.is_safetensors()
    }

    /// The format of the original in words, as `lmc list` shows it.
    #[getter]
    fn format(&self, py: Python<'_>) -> PyResult<&'static str> {
        short(py, || self.0.contents().map(|contents| contents.format.label()))?.raise()
    }

    /// The tensors of the original, in the order of their bytes or as the original names them.
    fn tensors(&self, py: Python<'_>) -> PyResult<Vec<TensorTuple>> {
        let tensors = short(py, || self.0.tensors())?.raise()?;
        let tuple =
            |t: lmc::ArchiveTensor| (t.name, t.dtype.label(), t.shape, t.range.start, t.range.end);
        Ok(tensors.into_iter().map(tuple).collect())
    }

    /// Fails unless every base that the file names is available, including unused ones.
    fn check_named_bases(&self, py: Python<'_>) -> PyResult<()> {
        long(py, |context| self.0.check_named_bases(context))?.raise()
    }

    /// The original bytes from `start` to `end`.
    #[pyo3(signature = (start, end, *, threads = 0))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        end: u64,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if start > end || end > self.0.original_len() {
            let len = self.0.original_len();
            return Err(Error::invalid(format!("bytes {start} to {end} of {len}"))).raise();
        }
        let mut bytes = NewBytes::new(py, end - start)?;
        let out = bytes.get_mut();
        sized(py, out.len(), |context| self.0.read_to(start, out, &context.on_threads(threads)))?
            .raise()?;
        Ok(bytes.finish())
    }

    /// Fills `out` with the original bytes from `start` on.
    #[pyo3(signature = (start, out, *, threads = 0))]
    fn read_into(
        &self,
        py: Python<'_>,
        start: u64,
        out: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<()> {
        let mut out = Bytes::new_mut(out)?;
        let out = out.get_mut();
        sized(py, out.len(), |context| self.0.read_to(start, out, &context.on_threads(threads)))?
            .raise()
    }

    /// Restores the whole original into buffers that together have its length.
    #[pyo3(signature = (out, *, threads = 0))]
    fn scatter(
        &self,
        py: Python<'_>,
        out: Vec<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<()> {
        let mut out = out.iter().map(Bytes::new_mut).collect::<PyResult<Vec<_>>>()?;
        let mut places: Vec<&mut [u8]> = out.iter_mut().map(Bytes::get_mut).collect();
        check_apart(places.iter().map(|place| &**place))?;
        places.iter_mut().for_each(|place| expect_writes(place));
        let len = places.iter().map(|place| place.len()).sum();
        sized(py, len, |context| {
            lmc::decompress_scattered(&self.0, places, &context.on_threads(threads))
        })?
        .raise()
    }

    /// Restores the whole original into buffers that together have its length and that may hold the
    /// base. The number with each buffer says where its bytes are in the base, if they are part of
    /// it.
    ///
    /// `agree` is called when everything that can be checked has been checked, and all buffers that
    /// do not hold a part of the base have their bytes. Only then are the others overwritten,
    /// unless `agree` raises an exception.
    #[pyo3(signature = (places, agree, *, threads = 0))]
    fn update(
        &self,
        py: Python<'_>,
        places: Vec<(Bound<'_, PyAny>, Option<u64>)>,
        agree: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = count)] threads: usize,
    ) -> PyResult<()> {
        let mut sites = Vec::with_capacity(places.len());
        let mut memory = Vec::with_capacity(places.len());
        for (buffer, base_start) in &places {
            let bytes = Bytes::new_mut(buffer)?;
            sites.push(site(bytes.get().len() as u64, *base_start));
            memory.push(bytes);
        }
        check_apart(memory.iter().map(Bytes::get))?;
        let is_new = |(_, site): &(_, &Site)| matches!(site, Site::New { .. });
        // Only these: the others hold the base, which is read through the archive.
        let new = memory.iter_mut().zip(&sites).filter(is_new);
        let mut new: Vec<&mut [u8]> = new.map(|(bytes, _)| bytes.get_mut()).collect();
        new.iter_mut().for_each(|place| expect_writes(place));
        let update = long(py, |context| {
            Update::prepare(&self.0, &sites, new, &context.on_threads(threads))
        })?
        .raise()?;
        agree.call0()?;
        let places = memory.iter_mut().map(Bytes::get_mut).collect();
        long(py, |context| update.finish(places, &context.on_threads(threads)))?
            .map_err(|error| partly_written(&error))
    }

    /// Reads and checks everything.
    #[pyo3(signature = (*, threads = 0))]
    fn test(&self, py: Python<'_>, #[pyo3(from_py_with = count)] threads: usize) -> PyResult<()> {
        long(py, |context| self.0.test(&context.on_threads(threads)))?.raise()
    }
}

/// Memory of `len` bytes that holds the base from `base_start` on, or no part of it.
fn site(len: u64, base_start: Option<u64>) -> Site {
    match base_start {
        Some(base_start) => Site::Held { len, base_start },
        None => Site::New { len },
    }
}
