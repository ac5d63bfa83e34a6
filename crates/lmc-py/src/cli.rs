//! The command `lmc` of the wheel.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line `args`, whose first item is the name of the program; returns its exit
/// code.
#[pyfunction]
pub fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    py.detach(|| lmc_cli::run(args)).code()
}
