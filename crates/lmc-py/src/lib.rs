//! The Python module `lmckpt._lmckpt`: it takes buffers, calls the libraries, and returns buffers
//! and errors.
//!
//! This crate makes no decision about bytes. Every call that does work releases the interpreter,
//! and a call that may take long ends if a signal handler raises an exception (`context.rs`).
#![deny(unsafe_code)]

mod advice;
mod archive;
mod buffers;
mod cli;
mod contents;
mod context;
mod copy;
mod dtypes;
mod errors;
mod memory;
mod options;
mod snapshot;
mod store;
mod text;

use pyo3::prelude::*;

/// Lossless compression and snapshots of checkpoints; use it through the package `lmckpt`.
#[pymodule]
mod _lmckpt {
    #[pymodule_export]
    use super::archive::Archive;
    #[pymodule_export]
    use super::cli::main;
    #[pymodule_export]
    use super::contents::Contents;
    #[pymodule_export]
    use super::copy::copy;
    #[pymodule_export]
    use super::errors::printable;
    #[pymodule_export]
    use super::memory::{
        compress, compress_file, compress_into, decompress, decompress_file, save_parts, write_file,
    };
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::store::{Store, shown};

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("DTYPES", dtypes::rows())?;
        module.add("HEADER_JSON_LEN_MAX", lmc::HEADER_JSON_LEN_MAX)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
