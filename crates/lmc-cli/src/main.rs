//! The command `lmc`; everything is in the library, which the Python package calls too.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    lmc_cli::run(std::env::args_os()).into()
}
