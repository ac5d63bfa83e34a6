//! `lmc analyze`: how checkpoints compress and how they change from step to step.

mod text;

use lmc::Context;
use lmc_analyze::{Options, Report, Series, Skipped};

use crate::args::analyze::AnalyzeArgs;
use crate::exit::{self, Exit, Failure};
use crate::json;
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{self, Pages, print};

/// Measures the checkpoints that `args` names.
pub fn run(args: &AnalyzeArgs) -> Exit {
    let report = match analyze(args) {
        Ok(report) => report,
        Err(failure) => return exit::report_at("analyze", Err(failure)),
    };
    for Skipped { path, why } in &report.skipped {
        stdio::say(Failure::new(why.clone()).line(path));
    }
    let told = match args.format.json {
        true => print_json(&report),
        false => print(text::summary(&report)),
    };
    match exit::report_at("analyze", told) {
        Exit::Done if !report.skipped.is_empty() => Exit::Partial,
        exit => exit,
    }
}

fn analyze(args: &AnalyzeArgs) -> Result<Report, Failure> {
    let context = signals::context(args.threads.count);
    let series = Series::from_paths(&args.checkpoints, &args.bases.paths);
    measure(series, args, &context)
}

/// Measures a series, and shows how far that is.
fn measure(series: Series, args: &AnalyzeArgs, context: &Context) -> Result<Report, Failure> {
    let mut progress = ProgressBar::new(Volume::Normal);
    let report = lmc_analyze::analyze(series, Options { is_all: args.all }, |name, bytes| {
        progress.finish();
        progress.start(name, Some(bytes));
        progress.watching(context)
    });
    progress.finish();
    Ok(report?)
}

/// Prints the report piece by piece: there may be many tensors.
fn print_json(report: &Report) -> Result<(), Failure> {
    let mut pages = Pages::default();
    json::object(&mut pages, 0, &report.fields(), "tensors", report.tensors().map(Ok))?;
    pages.push(Printable::line(""))?;
    pages.finish()
}
