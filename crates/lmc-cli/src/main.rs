//! The command `lmc`; everything is in the library, which the Python package calls too.
#![deny(unsafe_code)]

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread::Builder;

/// Bytes of stack, as many as the first thread of a process has on most systems.
const STACK: usize = 8 << 20;

/// Looks at stdin, stdout and stderr before `main`: std opens `/dev/null` in the place of those
/// that are closed, and from then on nobody can tell.
// SAFETY: the section is a list of functions that the C library calls before `main`, and this is
// one of them. It takes no arguments, cannot panic, and uses nothing of std that has to be set up:
// it asks the system about three numbers and keeps the answer in an atomic.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "only a function that runs before `main` can tell")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = lmc_cli::hold_places;

fn main() -> ExitCode {
    let run = || lmc_cli::run(std::env::args_os());
    // The first thread has the stack that `ulimit -s` says, which may be too small even to read a
    // command line. Its own thread has what it needs; where none may be started, it has to do.
    match Builder::new().name("main".into()).stack_size(STACK).spawn(run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)).into(),
        Err(_) => run().into(),
    }
}
