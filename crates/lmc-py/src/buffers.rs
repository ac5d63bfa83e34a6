//! Memory of Python objects as slices.
#![allow(unsafe_code, reason = "the one place where memory of Python objects is borrowed")]

use lmc::{Error, ErrorKind};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;
use std::ptr::null;

use crate::errors::exception;

/// Bytes of a Python object, which do not move while this value exists.
///
/// They must not be changed during a call that uses them. The documentation tells Python users that
/// the result is otherwise undefined.
#[derive(Debug)]
pub struct Bytes(PyBuffer<u8>);

impl Bytes {
    /// The bytes of `object`, which must be contiguous.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(exception(&Error::invalid("a buffer must be contiguous")));
        }
        Ok(Self(buffer))
    }

    /// The same for writable memory.
    pub fn new_mut(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = Self::new(object)?;
        if bytes.0.readonly() {
            return Err(exception(&Error::invalid("a buffer to write to is read-only")));
        }
        Ok(bytes)
    }

    /// As a slice.
    pub fn get(&self) -> &[u8] {
        if self.0.len_bytes() == 0 {
            return &[];
        }
        // SAFETY: the buffer is held, so these bytes exist; `new` checked that they are contiguous;
        // an element is one byte.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }

    /// As a slice to write to; empty for read-only memory.
    pub fn get_mut(&mut self) -> &mut [u8] {
        if self.0.len_bytes() == 0 || self.0.readonly() {
            return &mut [];
        }
        // SAFETY: as above; the memory may be written to, and `self` is borrowed for as long as the
        // slice lives. The caller must make sure that no other object shares this memory.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast(), self.0.len_bytes()) }
    }
}

/// A `bytes` object that nobody else has seen yet.
///
/// [`PyBytes::new_with`] fills it with zeros first, on one thread and with the interpreter held,
/// which takes longer than decoding into it.
#[derive(Debug)]
pub struct NewBytes<'py>(Bound<'py, PyBytes>);

// Part of the stable ABI, but private in pyo3.
unsafe extern "C" {
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, len: ffi::Py_ssize_t) -> c_int;
}

impl<'py> NewBytes<'py> {
    /// An object of `len` undefined bytes; fails if there is not enough memory.
    pub fn new(py: Python<'py>, len: u64) -> PyResult<Self> {
        let too_many = || {
            let message = format!("{len} bytes are more than memory can hold");
            exception(&Error::new(ErrorKind::LimitExceeded, message))
        };
        let size = ffi::Py_ssize_t::try_from(len).map_err(|_| too_many())?;
        // SAFETY: without a source this is a new object of this length, or NULL with an error set.
        let object = unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(null(), size))
        };
        let object = object.map_err(|error| match error.is_instance_of::<PyMemoryError>(py) {
            true => too_many(),
            false => error,
        });
        let mut bytes = Self(object?.cast_into()?);
        expect_writes(bytes.get_mut());
        Ok(bytes)
    }

    /// As a slice to write to.
    pub fn get_mut(&mut self) -> &mut [u8] {
        let len = self.0.as_bytes().len();
        if len == 0 {
            return &mut []; // This object is shared.
        }
        // SAFETY: the object has this many bytes, and nobody else has it. It was made by foreign
        // code, so as far as Rust knows its bytes are initialized.
        unsafe {
            std::slice::from_raw_parts_mut(ffi::PyBytes_AsString(self.0.as_ptr()).cast(), len)
        }
    }

    /// The same object with another length; added bytes are undefined.
    pub fn resized(self, len: usize) -> PyResult<Self> {
        let (py, size) = (self.0.py(), ffi::Py_ssize_t::try_from(len)?);
        let mut object = self.0.into_ptr();
        // SAFETY: the one reference to an object that nobody else has seen is given away. It comes
        // back for the same object, possibly at another address, or as NULL with an error set.
        let object = unsafe {
            _PyBytes_Resize(&raw mut object, size);
            Bound::from_owned_ptr_or_err(py, object)
        };
        Ok(Self(object?.cast_into()?))
    }

    /// The finished object, which others may now see.
    pub fn finish(self) -> Bound<'py, PyBytes> {
        self.0
    }
}

/// Asks the system for large pages for new memory. The first write to each page stops a thread, and
/// with pages of 4 KiB that takes longer than decoding. numpy does the same.
#[cfg_attr(not(target_os = "linux"), allow(unused_variables))]
pub fn expect_writes(memory: &mut [u8]) {
    const LARGE: usize = 2 << 20;
    let start = memory.as_ptr().align_offset(LARGE);
    let len = memory.len().saturating_sub(start) / LARGE * LARGE;
    #[cfg(target_os = "linux")]
    if len > 0 {
        let place = memory[start..].as_mut_ptr().cast();
        // SAFETY: the pages lie in the slice, and the advice changes nothing in them. It may fail
        // if the system has no such pages, and then nothing changes.
        unsafe {
            let _ = rustix::mm::madvise(place, len, rustix::mm::Advice::LinuxHugepage);
        }
    }
}

/// Fails if any two of these share memory.
pub fn check_apart<'a>(slices: impl Iterator<Item = &'a [u8]>) -> PyResult<()> {
    let mut ranges: Vec<_> =
        slices.filter(|slice| !slice.is_empty()).map(<[u8]>::as_ptr_range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    match ranges.is_sorted_by(|low, high| low.end <= high.start) {
        true => Ok(()),
        false => Err(exception(&Error::invalid("buffers to write to share memory"))),
    }
}

/// Fails if `out`, which will be written to, shares memory with data that is read for it.
pub fn check_outside<'a>(out: &[u8], mut read: impl Iterator<Item = &'a [u8]>) -> PyResult<()> {
    let place = out.as_ptr_range();
    let is_inside = |slice: &[u8]| {
        let range = slice.as_ptr_range();
        !slice.is_empty() && range.start < place.end && place.start < range.end
    };
    match read.any(is_inside) {
        true => Err(exception(&Error::invalid("the data and where it goes share memory"))),
        false => Ok(()),
    }
}

/// Bytes in several places, as parts in order.
#[derive(Debug)]
pub struct Scattered {
    parts: Vec<Bytes>,
    /// Where each part ends.
    ends: Vec<u64>,
}

impl Scattered {
    /// All of `parts`.
    pub fn new(parts: Vec<Bytes>) -> Self {
        let mut end = 0;
        let ends = parts.iter().map(|part| {
            end += part.get().len() as u64;
            end
        });
        Self { ends: ends.collect(), parts }
    }

    /// The parts.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(Bytes::get)
    }
}

impl lmc::ReadAt for Scattered {
    fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> lmc::Result<()> {
        let (mut at, mut rest) = (at, out);
        let first = self.ends.partition_point(|&end| end <= at);
        for (part, end) in self.parts.iter().zip(&self.ends).skip(first) {
            let bytes = part.get();
            let start = bytes.len() - (end - at) as usize;
            let count = rest.len().min(bytes.len() - start);
            let (own, after) = rest.split_at_mut(count);
            own.copy_from_slice(&bytes[start..start + count]);
            (at, rest) = (*end, after);
            if rest.is_empty() {
                return Ok(());
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(Error::truncated("the buffers end too early")) }
    }

    fn slice(&self, at: u64, len: u64) -> Option<&[u8]> {
        let i = self.ends.partition_point(|&end| end <= at);
        let bytes = self.parts.get(i)?.get();
        let start = bytes.len() - (self.ends[i] - at) as usize;
        bytes.get(start..)?.get(..usize::try_from(len).ok()?)
    }
}

/// All buffers of a list, or `object` itself as the only buffer.
pub fn parts(object: &Bound<'_, PyAny>) -> PyResult<Vec<Bytes>> {
    match object.cast::<pyo3::types::PyList>() {
        Ok(list) => list.iter().map(|item| Bytes::new(&item)).collect(),
        Err(_) => Ok(vec![Bytes::new(object)?]),
    }
}
