//! The Python module `lmckpt._lmckpt`: buffers in, calls of the libraries, buffers and errors out.
//!
//! No decision about bytes is taken here. Every call that does work lets go of the interpreter, and
//! one that may take long ends when a handler of a signal raises (`work.rs`).
#![deny(unsafe_code)]

mod advice;
mod archive;
mod buffers;
mod cli;
mod contents;
mod copy;
mod dtypes;
mod errors;
mod memory;
mod options;
mod snapshot;
mod store;
mod text;
mod work;

use pyo3::prelude::*;

/// Lossless compression and snapshots of checkpoints; the package `lmckpt` is the face of it.
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
