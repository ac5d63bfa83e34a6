//! Errors of the libraries as exceptions of `lmckpt.errors`, which Python code defines.

use lmc::{Error, ErrorKind};
use lmc_store::storage::without_secrets;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::advice;
use crate::text::visible;

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
        ErrorKind::Interrupted => "StoppedError",
        _ => "LmcError",
    }
}

/// The exception for an error.
pub fn exception(error: &Error) -> PyErr {
    raised(class_name(error.kind), advice::of_error(error))
}

/// The exception for an error that occurred after weights had begun to be overwritten.
pub fn partly_written(error: &Error) -> PyErr {
    let error = advice::of_error(error);
    raised("PartlyWrittenError", format!("the weights are partly old and partly new: {error}"))
}

/// The exception for something that should never happen.
pub fn internal(text: &str) -> PyErr {
    raised("LmcError", text.to_string())
}

/// Text for a terminal or a log, in one line. Characters that control a terminal or are invisible
/// are escaped, and URLs are shown without their secrets.
#[pyfunction]
pub fn printable(text: &Bound<'_, PyString>) -> PyResult<String> {
    Ok(lmc_cli::one_line(&without_secrets(&visible(text)?)))
}

/// The exception of a class of `lmckpt.errors`. A URL may have been given as a file or a snapshot,
/// so its secrets are left out here too.
fn raised(class: &str, text: String) -> PyErr {
    let text = without_secrets(&text);
    Python::attach(|py| {
        let class = py
            .import("lmckpt.errors")
            .and_then(|module| module.getattr(class))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match class {
            Ok(class) => PyErr::from_type(class, (text,)),
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
