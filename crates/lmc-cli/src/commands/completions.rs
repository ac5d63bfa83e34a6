//! `lmc completions`: the completions of a shell, on stdout.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{self, Exit};
use crate::stdio::print;

/// Prints the completions.
pub fn run(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lmc", &mut script);
    exit::report("completions".as_ref(), print(String::from_utf8_lossy(&script)))
}
