//! `lmc man`: prints the man page of lmc, or of one command, to stdout.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::exit::{self, Exit, Failure};
use crate::printable::Printable;
use crate::stdio::print;

/// Prints the page.
pub fn run(args: &ManArgs) -> Exit {
    let printed = page(args.command.as_deref()).and_then(|page| print(Printable::layout(page)));
    exit::report_at("man", printed)
}

fn page(command: Option<&str>) -> Result<String, Failure> {
    let mut lmc = Cli::command();
    // Gives the commands their full names, `lmc-list` and so on.
    lmc.build();
    let found = match command {
        None => Some(&lmc),
        Some(name) => lmc.find_subcommand(name),
    };
    let found = found.ok_or_else(|| Failure::usage("no such command; `lmc help` lists them"))?;
    let mut page = Vec::new();
    let rendered = Man::new(found.clone()).render(&mut page);
    rendered.map_err(|error| Failure::io("write the man page", &error))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page is printed unchanged: nothing in it needs escaping.
    #[test]
    fn pages_are_printed_as_they_are() {
        let cli = Cli::command();
        let commands = cli.get_subcommands().map(|command| Some(command.get_name()));
        for command in commands.chain([None]) {
            let page = page(command).expect("a page");
            assert_eq!(Printable::layout(&page).as_str(), page, "{command:?}");
        }
    }
}
