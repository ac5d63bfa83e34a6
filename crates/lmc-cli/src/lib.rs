//! The command `lmc`: it takes arguments, calls the library `lmc`, and prints lines and returns an
//! exit code.
//!
//! stdout carries data, tables or JSON; progress, summaries and errors go to stderr. This crate
//! makes no decision about bytes.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advice;
mod args;
mod bases;
mod commands;
mod exit;
mod html;
mod json;
mod names;
mod printable;
mod progress;
mod safetensors;
mod signals;
mod stdio;
mod storage_speed;
mod table;

use std::ffi::OsString;

use args::{Cli, Command};
use clap::Parser;
use clap::error::ContextValue;
use lmc_store::storage::without_secrets;
use printable::Printable;

pub use exit::Exit;
pub use printable::one_line;
pub use stdio::hold_places;

/// The answer to `lmc bench` in a build without the other compressors.
#[cfg(not(feature = "bench"))]
const NO_BENCH: &str = "this lmc was built without it; build one that has it with \
     `cargo install --path crates/lmc-cli --features bench`";

/// Runs the command line `args`, whose first item is the name of the program.
///
/// Errors are printed to stderr before it returns.
pub fn run(args: impl IntoIterator<Item = OsString>) -> Exit {
    hold_places();
    raise_open_files();
    signals::install();
    let args = args::expand_short_form(args.into_iter().collect());
    let exit = match Cli::try_parse_from(args::command_first(args)) {
        Ok(cli) => dispatch(&cli.command),
        Err(error) if error.use_stderr() => {
            stdio::say(refusal(error));
            Exit::Usage
        }
        Err(help) => exit::report_at("help", stdio::print(Printable::layout(help.render()))),
    };
    signals::wait();
    exit
}

/// Raises the limit on open files to what the system allows: a file may have 1,024 bases, and the
/// usual limit is 1,024 files.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If this is refused, the old limit must be enough.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Why a command line is refused. The quoted text may come from a pattern of the shell, and so from
/// names of files.
fn refusal(mut error: clap::Error) -> Printable {
    let quoted = |text: &str| Printable::word(without_secrets(text)).as_str().to_string();
    let clean = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(quoted(text))),
        ContextValue::Strings(texts) => {
            Some(ContextValue::Strings(texts.iter().map(|text| quoted(text)).collect()))
        }
        ContextValue::StyledStrs(texts) => Some(ContextValue::StyledStrs(
            texts.iter().map(|text| quoted(&text.to_string()).into()).collect(),
        )),
        _ => None,
    };
    let cleaned: Vec<_> =
        error.context().filter_map(|(kind, value)| Some((kind, clean(value)?))).collect();
    for (kind, value) in cleaned {
        error.insert(kind, value);
    }
    Printable::layout(error.render())
}

fn dispatch(command: &Command) -> Exit {
    match command {
        Command::Compress(args) => commands::compress::run(args),
        Command::Decompress(args) => commands::decompress::run(args),
        Command::List(args) => commands::list::run(args),
        Command::Test(args) => commands::test::run(args),
        Command::Cat(args) => exit::report(&args.file, commands::cat::run(args)),
        Command::Inspect(args) => exit::report(&args.file, commands::inspect::run(args)),
        Command::Diff(args) if commands::store::diff::is_meant(args) => {
            commands::store::diff::run(args)
        }
        Command::Diff(args) => exit::report(&args.new, commands::diff::run(args)),
        Command::Analyze(args) => commands::analyze::run(args),
        Command::Init(args) => commands::store::init::run(args),
        Command::Save(args) => commands::store::save::run(args),
        Command::Log(args) => commands::store::log::run(args),
        Command::Show(args) => commands::store::show::run(args),
        Command::Ls(args) => commands::store::ls::run(args),
        Command::Restore(args) => commands::store::restore::run(args),
        Command::Stats(args) => commands::store::stats::run(args),
        Command::Report(args) => commands::store::report::run(args),
        Command::Check(args) => commands::store::check::run(args),
        Command::Repair(args) => commands::store::repair::run(args),
        Command::Forget(args) => commands::store::forget::run(args),
        Command::Prune(args) => commands::store::prune::run(args),
        Command::Rebase(args) => commands::store::rebase::run(args),
        Command::Tag(args) => commands::store::tag::run(args),
        Command::Copy(args) => commands::store::copy::run(args),
        Command::Export(args) => commands::store::export::run(args),
        Command::Demo(args) => exit::report_at("demo", commands::demo::run(args)),
        #[cfg(feature = "bench")]
        Command::Bench(args) => commands::bench::run(args),
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => exit::report_at("bench", Err(exit::Failure::new(NO_BENCH))),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
    }
}
