//! What is measured on a sample: other compressors, and a plan of saves that follows from them.

use lmc::Context;
use lmc_analyze::engines::{self, Engines, Row};
use lmc_analyze::plan::{self, Plan};
use lmc_analyze::{Report, Sample};

use super::saves;
use crate::args::analyze::AnalyzeArgs;
use crate::exit::Failure;
use crate::printable::Printable;
use crate::progress::ProgressBar;
use crate::storage_speed;
use crate::table::{Align, Table};

/// Bytes that are written to measure a directory.
const PROBE_LEN: usize = 512 << 20;

/// The engines to measure, if any are needed. Fails in a build that lacks those asked for.
pub fn names(args: &AnalyzeArgs) -> Result<Vec<String>, Failure> {
    let mut names = args.engines.names()?.unwrap_or_default().to_vec();
    if args.plan.plan {
        names.extend(plan::ENGINES.iter().map(|name| (*name).to_string()));
    }
    Ok(names)
}

/// Measures engines on the sample, and adds them and the plan to the report.
pub fn add(
    report: &mut Report,
    sample: Sample,
    names: &[String],
    args: &AnalyzeArgs,
    context: &Context,
) -> Result<(), Failure> {
    let progress = ProgressBar::new(crate::progress::Volume::Normal);
    let mut watch = |engine: &str| {
        progress.finish();
        progress.start(engine, None);
    };
    let Sample { checkpoint, base, pieces } = sample;
    let rows = engines::measure(&pieces, names, &context.interrupt, &mut watch)?;
    if args.plan.plan {
        watch("storage");
        let data = pieces.iter().map(|piece| piece.bytes.as_slice()).max_by_key(|data| data.len());
        let bandwidth = match (args.plan.bandwidth, &args.plan.storage_dir) {
            (Some(bandwidth), _) => bandwidth as f64,
            (None, Some(dir)) => {
                let data = data.unwrap_or_default();
                storage_speed::measure(dir, data, PROBE_LEN, &context.interrupt)?
            }
            // Either is required with --plan; the plan refuses 0.
            (None, None) => 0.0,
        };
        let pair = report.pairs.iter().find(|p| p.checkpoint == checkpoint && p.distance == 1);
        let steps = pair.and_then(|pair| u64::try_from(pair.steps?).ok()).filter(|&n| n > 0);
        let bytes = report.checkpoints[checkpoint].bytes;
        let inputs = args.plan.inputs(bytes, steps, bandwidth, engines::copy_speed());
        let mut rows = rows.clone();
        watch("saves");
        let dir = args.plan.storage_dir.clone().unwrap_or_else(std::env::temp_dir);
        saves::measure(&mut rows, &pieces, &dir, context)?;
        report.plan = Some(Plan::new(inputs, &rows)?);
    }
    progress.finish();
    let sample_bytes = pieces.iter().map(|piece| piece.bytes.len() as u64).sum();
    report.engines = Some(Engines { sample_bytes, checkpoint, base, rows });
    Ok(())
}

/// Both as tables.
pub fn text(report: &Report, with_engines: bool) -> Printable {
    let mut text = Printable::default();
    if let Some(engines) = report.engines.as_ref().filter(|_| with_engines) {
        let name = &report.checkpoints[engines.checkpoint].name;
        text.push_line("");
        text.push_line(format_args!("engines on a sample of {name}, one thread, MB/s"));
        text.push(engines_table(&engines.rows));
    }
    if let Some(plan) = &report.plan {
        text.push_line("");
        text.push_line(plan.head());
        let columns: Vec<(&str, Align)> = Plan::HEADING
            .iter()
            .enumerate()
            .map(|(i, name)| (*name, if i == 0 { Align::Left } else { Align::Right }))
            .collect();
        let mut table = Table::new(&columns);
        plan.cells().into_iter().for_each(|cells| table.push(cells.to_vec()));
        text.push(table);
    }
    text
}

fn engines_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("engine", Align::Left),
        ("before it", Align::Left),
        ("bits", Align::Right),
        ("ratio", Align::Right),
        ("compress", Align::Right),
        ("decompress", Align::Right),
    ]);
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| {
        (a.base, a.bits_per_value)
            .partial_cmp(&(b.base, b.bits_per_value))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    for row in sorted {
        let before = match (row.base, row.xor, row.grouped) {
            (_, true, true) => "XOR, byte groups",
            (_, true, false) => "XOR",
            (true, false, _) => "base",
            (false, _, true) => "byte groups",
            (false, _, false) => "",
        };
        let speed = |bytes: f64| match bytes / 1e6 {
            slow if slow < 10.0 => format!("{slow:.1}"),
            speed => format!("{speed:.0}"),
        };
        table.push(vec![
            format!("{} {}", row.engine, row.level).trim().to_string(),
            before.to_string(),
            format!("{:.3}", row.bits_per_value),
            format!("{:.2}", row.ratio),
            speed(row.compress_speed),
            speed(row.decompress_speed),
        ]);
    }
    table
}
