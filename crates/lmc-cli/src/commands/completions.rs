//! `lmc completions`: prints the completions of a shell to stdout.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::{self, Exit};
use crate::printable::Printable;
use crate::stdio::print;

/// Prints the completions.
pub fn run(args: &CompletionsArgs) -> Exit {
    exit::report_at("completions", print(Printable::layout(script(args.shell))))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lmc", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    /// A script is printed unchanged: nothing in it needs escaping.
    #[test]
    fn scripts_are_printed_as_they_are() {
        for &shell in Shell::value_variants() {
            let script = script(shell);
            assert_eq!(Printable::layout(&script).as_str(), script, "{shell}");
        }
    }
}
