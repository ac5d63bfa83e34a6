//! `lmc analyze`: how checkpoints compress and how they change from step to step.

mod measured;
mod saves;
mod store;
mod text;

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use lmc::{Context, Origin, Publish};
use lmc_analyze::page::Kind;
use lmc_analyze::{Analysis, CSV_TABLES, Options, Report, Series, Skipped};

use crate::args::analyze::AnalyzeArgs;
use crate::commands::store::open;
use crate::exit::{self, Exit, Failure};
use crate::html::{Page, check_outside_stores, check_overwritten, file_failure};
use crate::json;
use crate::printable::Printable;
use crate::progress::{ProgressBar, Volume};
use crate::signals;
use crate::stdio::{self, Pages, print};

/// Measures the checkpoints that `args` names.
pub fn run(args: &AnalyzeArgs) -> Exit {
    let begun = args.html.as_ref().map(|path| Page::begin(path, args.force)).transpose();
    let (page, report) = match begun.and_then(|page| Ok((page, analyze(args)?))) {
        Ok(done) => done,
        Err(failure) => return exit::report_at("analyze", Err(failure)),
    };
    for Skipped { path, why } in &report.skipped {
        stdio::say(Failure::new(why.clone()).line(path));
    }
    match exit::report_at("analyze", tell(&report, page, args)) {
        Exit::Done if !report.skipped.is_empty() => Exit::Partial,
        exit => exit,
    }
}

fn analyze(args: &AnalyzeArgs) -> Result<Report, Failure> {
    let names = measured::names(args)?;
    // Hours of work should not end with a table that may not be written.
    if let Some(dir) = &args.csv {
        check_tables(dir, args)?;
    }
    let context = signals::context_on(&args.threads);
    let series = match store::is_meant(args) {
        true => {
            let location = args.store.location()?;
            let series = open(&location).and_then(|store| store::series(&store, args, &context));
            series.map_err(|failure| failure.at(location))?
        }
        false => Series::from_paths(&args.checkpoints, &args.bases),
    };
    measure(series, &names, args, &context)
}

/// Fails if tables cannot be written into `dir`, or would overwrite something else.
fn check_tables(dir: &Path, args: &AnalyzeArgs) -> Result<(), Failure> {
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let has_place = match dir.symlink_metadata() {
        Ok(_) => dir.is_dir(),
        Err(_) => parent.is_none_or(Path::is_dir),
    };
    if !has_place {
        let message = format!("{} is not a directory, and cannot be made one", dir.display());
        return Err(Failure::new(message));
    }
    // The folder of the tables may not exist yet.
    check_outside_stores(dir)?;
    for table in CSV_TABLES {
        let path = dir.join(table.file_name);
        check_outside_stores(&path)?;
        if args.html.as_ref() == Some(&path) {
            let message = format!("{} cannot be both the page and a table", path.display());
            return Err(Failure::usage(message));
        }
        match args.force {
            true => check_overwritten(&path, table.start, "table")?,
            false if path.symlink_metadata().is_ok() => {
                let path = path.display();
                return Err(Failure::new(format!("{path} already exists; -f overwrites it")));
            }
            false => {}
        }
    }
    Ok(())
}

/// Measures a series, and shows how far that is.
fn measure(
    series: Series,
    names: &[String],
    args: &AnalyzeArgs,
    context: &Context,
) -> Result<Report, Failure> {
    let progress = ProgressBar::new(Volume::Normal);
    let sample = (!names.is_empty()).then_some(args.engines.sample);
    let options = Options { is_all: args.all, sample };
    let analysis = lmc_analyze::analyze(series, options, |name, bytes| {
        progress.finish();
        progress.start(name, Some(bytes));
        progress.watching(context)
    });
    progress.finish();
    let Analysis { mut report, sample } = analysis?;
    if let Some(sample) = sample {
        match measured::add(&mut report, sample, names, args, context) {
            Err(failure) if !failure.is_interrupted() => {
                // The figures so far may have taken hours.
                let what = if args.plan.plan { "--plan" } else { "--engines" };
                report.skipped.push(Skipped::new(what, failure.text()));
            }
            added => added?,
        }
    }
    Ok(report)
}

fn tell(report: &Report, page: Option<Page>, args: &AnalyzeArgs) -> Result<(), Failure> {
    if let Some(page) = page {
        page.finish(Kind::Analyze, &report.title, &report.to_json())?;
    }
    if let Some(dir) = &args.csv {
        write_tables(report, dir, args.force)?;
    }
    match args.format.json {
        true => print_json(report),
        false => {
            let mut summary = text::summary(report);
            summary.push(measured::text(report, args.engines.engines.is_some()));
            print(summary)
        }
    }
}

/// Prints the report piece by piece: there may be many tensors.
fn print_json(report: &Report) -> Result<(), Failure> {
    let mut pages = Pages::default();
    json::object(&mut pages, 0, &report.fields(), "tensors", report.tensors().map(Ok))?;
    pages.push(Printable::line(""))?;
    pages.finish()
}

/// Writes all tables into a directory, which is made if it does not exist.
fn write_tables(report: &Report, dir: &Path, force: bool) -> Result<(), Failure> {
    if !dir.is_dir() {
        let made = fs::create_dir(dir);
        made.map_err(|e| Failure::io(&format!("make the directory {}", dir.display()), &e))?;
    }
    for table in CSV_TABLES.iter().filter(|table| table.is_in(report)) {
        let path = dir.join(table.file_name);
        let create = || Publish::create(&path, force, &Origin::nothing());
        let (mut publish, _guard) = signals::guarded(create).map_err(file_failure)?;
        let mut lines = BufWriter::new(&mut publish);
        let written = table.write(report, &mut lines).and_then(|()| lines.flush());
        drop(lines);
        written.map_err(|e| Failure::io(&format!("write {}", path.display()), &e))?;
        publish.commit()?;
    }
    Ok(())
}
