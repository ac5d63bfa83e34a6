//! Errors of the libraries as exceptions of `lmckpt.errors`, which Python code defines.

use lmc::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The name of the exception for a kind.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Truncated => "TruncatedError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::LimitExceeded => "LimitError",
        ErrorKind::InvalidArgument => "InvalidError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::AlreadyExists => "ExistsError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::NoStore => "NoStoreError",
        ErrorKind::Io => "StorageError",
        _ => "LmcError",
    }
}

/// The exception for an error.
pub fn exception(error: &Error) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("lmckpt.errors")
            .and_then(|module| module.getattr(class_name(error.kind)))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, (error.to_string(),)),
            Err(failure) => failure,
        }
    })
}

/// The result of a library as a result for Python.
pub trait Raise<T> {
    /// Turns the error into an exception.
    fn raise(self) -> PyResult<T>;
}

impl<T> Raise<T> for lmc::Result<T> {
    fn raise(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}
