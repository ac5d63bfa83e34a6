//! The command `lmc` of the wheel.

use pyo3::prelude::*;
use std::ffi::OsString;

use crate::context::short;
use crate::errors::Raise;

/// Runs the command line `args`, whose first item is the name of the program; returns its exit
/// code.
#[pyfunction]
pub fn main(py: Python<'_>, args: Vec<OsString>) -> PyResult<u8> {
    short(py, || Ok(lmc_cli::run(args).code()))?.raise()
}
