//! The command `lmc`; everything is in the library, which the Python package calls too.
#![forbid(unsafe_code)]

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread::Builder;

/// Bytes of stack, as many as the first thread of a process has on most systems.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    let run = || lmc_cli::run(std::env::args_os());
    // The first thread has the stack that `ulimit -s` says, which may be too small even to read a
    // command line. Its own thread has what it needs; where none may be started, it has to do.
    match Builder::new().name("main".into()).stack_size(STACK).spawn(run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)).into(),
        Err(_) => run().into(),
    }
}
