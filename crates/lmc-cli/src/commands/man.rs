//! `lmc man`: the man page of lmc, or of one command, on stdout.

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{Cli, ManArgs};
use crate::exit::{self, Exit, Failure};
use crate::stdio::print;

/// Prints the page.
pub fn run(args: &ManArgs) -> Exit {
    exit::report("man".as_ref(), page(args.command.as_deref()).and_then(print))
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
