//! The command `lmc`; everything is in the library, which the Python package also calls.
#![deny(unsafe_code)]

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread::Builder;

/// Stack size in bytes: the same as that of the first thread on most systems.
const STACK: usize = 8 << 20;

/// Looks at stdin, stdout and stderr before `main`: std replaces closed ones with `/dev/null`, and
/// after that nobody can tell.
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
    // `ulimit -s` sets the stack of the first thread, which may be too small even to parse a
    // command line. So the work gets a thread with enough stack, or this thread if none can be
    // started.
    match Builder::new().name("main".into()).stack_size(STACK).spawn(run) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)).into(),
        Err(_) => run().into(),
    }
}
