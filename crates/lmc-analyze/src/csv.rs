//! The report as tables of comma-separated values: a report in, lines of text out.
//!
//! Each has a line of names first. Cells without a figure are empty, and lists such as planes have
//! a space between their numbers.

use crate::engines::Row;
use crate::figures::{Alone, Change};
use crate::plan::Method;
use crate::report::Report;
use std::fmt::Display;
use std::io::{self, Write};

/// A table of a report.
#[derive(Clone, Copy, Debug)]
pub struct CsvTable {
    /// The name of its file.
    pub file_name: &'static str,
    /// How it begins.
    pub start: &'static str,
    write: fn(&Report, &mut dyn Write) -> io::Result<()>,
}

/// All tables.
pub const CSV_TABLES: [CsvTable; 6] = [
    CsvTable { file_name: "checkpoints.csv", start: "checkpoint,", write: checkpoints },
    CsvTable { file_name: "pairs.csv", start: "checkpoint,", write: pairs },
    CsvTable { file_name: "tensors.csv", start: "checkpoint,", write: tensors },
    CsvTable { file_name: "changes.csv", start: "checkpoint,", write: changes },
    CsvTable { file_name: "engines.csv", start: "engine,", write: engines },
    CsvTable { file_name: "plan.csv", start: "method,", write: plan },
];

const ALONE: &str = "values,bytes,planes,sign,exponent,mantissa,bound,block_planes,block_sign,\
                     block_exponent,block_mantissa,block_bound,coded,counted";
const CHANGE: &str = "values,compared,unchanged,exponent_changed,flipped,xor,xor_planes,difference,\
                      difference_given_exponent,coded,coded_alone,counted";

const ENGINE: &str = "engine,level,grouped,base,xor,bytes_in,bytes_out,ratio,bits_per_value,\
                      compress_speed,decompress_speed,compress_cpu,decompress_cpu";
const PLAN: &str = "method,delta,ratio,whole_ratio,compress_speed,decompress_speed,\
                    whole_decompress_speed,save,wait_blocking,wait_background,lost_blocking,\
                    lost_background,blocking_1,blocking_2,blocking_5,background_1,background_2,\
                    background_5,month_bytes,restore";

impl CsvTable {
    /// Whether a report has anything for it.
    pub fn is_in(&self, report: &Report) -> bool {
        match self.file_name {
            "engines.csv" => report.engines.is_some(),
            "plan.csv" => report.plan.is_some(),
            _ => true,
        }
    }

    /// Writes it.
    pub fn write(&self, report: &Report, to: &mut dyn Write) -> io::Result<()> {
        (self.write)(report, to)
    }
}

fn checkpoints(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "checkpoint,step,files,file_bytes,other_bytes,group,{ALONE}")?;
    for row in &report.checkpoints {
        let groups = std::iter::once(("total".to_string(), &row.total))
            .chain(row.dtypes.iter().map(|(name, figures)| (format!("dtype {name}"), figures)))
            .chain(row.kinds.iter().map(|(name, figures)| (format!("kind {name}"), figures)));
        for (group, figures) in groups {
            let (name, step) = (quoted(&row.name), or_empty(row.step));
            let (files, bytes, other) = (row.files, row.bytes, row.other_bytes);
            let group = quoted(&group);
            writeln!(to, "{name},{step},{files},{bytes},{other},{group},{}", alone(figures))?;
        }
    }
    Ok(())
}

fn pairs(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "checkpoint,base,distance,steps,sampled,group,{CHANGE}")?;
    for row in &report.pairs {
        let groups = std::iter::once(("total".to_string(), &row.total))
            .chain(row.dtypes.iter().map(|(name, figures)| (format!("dtype {name}"), figures)))
            .chain(row.kinds.iter().map(|(name, figures)| (format!("kind {name}"), figures)));
        for (group, figures) in groups {
            let name = |i: usize| quoted(&report.checkpoints[i].name);
            let (own, base) = (name(row.checkpoint), name(row.base));
            let (distance, steps, sampled) = (row.distance, or_empty(row.steps), row.sampled);
            let group = quoted(&group);
            writeln!(to, "{own},{base},{distance},{steps},{sampled},{group},{}", change(figures))?;
        }
    }
    Ok(())
}

fn tensors(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "checkpoint,tensor,kind,dtype,shape,{ALONE}")?;
    for row in &report.tensors {
        for (checkpoint, figures) in &row.alone {
            let checkpoint = quoted(&report.checkpoints[*checkpoint].name);
            let (name, kind, dtype) = (quoted(&row.name), quoted(&row.kind), &row.dtype);
            let shape = list(&row.shape);
            writeln!(to, "{checkpoint},{name},{kind},{dtype},{shape},{}", alone(figures))?;
        }
    }
    Ok(())
}

fn changes(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "checkpoint,base,tensor,kind,dtype,shape,{CHANGE}")?;
    for row in &report.tensors {
        for (pair, figures) in &row.changes {
            let pair = &report.pairs[*pair];
            let name = |i: usize| quoted(&report.checkpoints[i].name);
            let (own, base) = (name(pair.checkpoint), name(pair.base));
            let (name, kind, dtype) = (quoted(&row.name), quoted(&row.kind), &row.dtype);
            let shape = list(&row.shape);
            writeln!(to, "{own},{base},{name},{kind},{dtype},{shape},{}", change(figures))?;
        }
    }
    Ok(())
}

fn engines(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{ENGINE}")?;
    for row in report.engines.iter().flat_map(|engines| &engines.rows) {
        writeln!(to, "{}", engine(row))?;
    }
    Ok(())
}

fn engine(row: &Row) -> String {
    [
        row.engine.to_string(),
        row.level.clone(),
        row.grouped.to_string(),
        row.base.to_string(),
        row.xor.to_string(),
        row.bytes_in.to_string(),
        row.bytes_out.to_string(),
        real(Some(row.ratio)),
        real(Some(row.bits_per_value)),
        real(Some(row.compress_speed)),
        real(Some(row.decompress_speed)),
        real(Some(row.compress_cpu)),
        real(Some(row.decompress_cpu)),
    ]
    .join(",")
}

fn plan(report: &Report, to: &mut dyn Write) -> io::Result<()> {
    writeln!(to, "{PLAN}")?;
    for method in report.plan.iter().flat_map(|plan| &plan.methods) {
        writeln!(to, "{}", planned(method))?;
    }
    Ok(())
}

fn planned(method: &Method) -> String {
    let mut cells = vec![
        quoted(&method.name),
        method.delta.to_string(),
        real(Some(method.ratio)),
        real(Some(method.whole_ratio)),
        real(method.compress_speed),
        real(method.decompress_speed),
        real(method.whole_decompress_speed),
        real(Some(method.save)),
        real(Some(method.wait_blocking)),
        real(Some(method.wait_background)),
        real(Some(method.lost_blocking)),
        real(Some(method.lost_background)),
    ];
    let shortest = [&method.shortest_blocking, &method.shortest_background];
    cells.extend(shortest.into_iter().flat_map(|of| of.values()).map(|&s| real(Some(s))));
    cells.extend([real(Some(method.month_bytes)), real(Some(method.restore))]);
    cells.join(",")
}

fn alone(figures: &Alone) -> String {
    let Alone { values, bytes, planes, sign, exponent, mantissa, bound, .. } = figures;
    let (blocks, coded, counted) = (&figures.blocks, figures.coded, figures.counted);
    [
        values.to_string(),
        bytes.to_string(),
        reals(planes.as_deref()),
        real(*sign),
        real(*exponent),
        real(*mantissa),
        real(*bound),
        reals(blocks.planes.as_deref()),
        real(blocks.sign),
        real(blocks.exponent),
        real(blocks.mantissa),
        real(blocks.bound),
        real(coded),
        counted.to_string(),
    ]
    .join(",")
}

fn change(figures: &Change) -> String {
    [
        figures.values.to_string(),
        figures.compared.to_string(),
        real(figures.unchanged),
        real(figures.exponent_changed),
        reals(figures.flipped.as_deref()),
        real(figures.xor),
        reals(figures.xor_planes.as_deref()),
        real(figures.difference),
        real(figures.difference_given_exponent),
        real(figures.coded),
        real(figures.coded_alone),
        figures.counted.to_string(),
    ]
    .join(",")
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Six digits after the point.
fn real(figure: Option<f64>) -> String {
    or_empty(figure.map(|figure| (figure * 1e6).round() / 1e6))
}

fn reals(figures: Option<&[f64]>) -> String {
    let figures: Vec<String> =
        figures.unwrap_or_default().iter().map(|&figure| real(Some(figure))).collect();
    figures.join(" ")
}

fn list(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Text as one cell. One that a spreadsheet would take for a formula begins with an apostrophe, and
/// control characters, which could steer a terminal, are written as escapes.
fn quoted(text: &str) -> String {
    let text: String = text
        .chars()
        .flat_map(|c| {
            let escape = c.is_control().then(|| c.escape_default());
            let own = escape.is_none().then_some(c);
            escape.into_iter().flatten().chain(own)
        })
        .collect();
    let text = text.as_str();
    let mark = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    match mark.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        true => text.to_string(),
        false => format!("\"{mark}{}\"", text.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of any kind stay in their cell, and none is a formula.
    #[test]
    fn cells() {
        for (text, cell) in [
            ("a.b", "a.b"),
            ("a,b", "\"a,b\""),
            ("a\"b\nc", "\"a\"\"b\\nc\""),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("=1+1", "\"'=1+1\""),
            ("", ""),
        ] {
            assert_eq!(quoted(text), cell);
        }
        assert_eq!(real(Some(1.0 / 3.0)), "0.333333");
        assert_eq!(reals(Some(&[1.0, 0.5])), "1 0.5");
        assert_eq!(real(None), "");
    }

    /// Each line of figures has as many cells as there are names.
    #[test]
    fn lines_are_complete() {
        let count = |text: &str| text.split(',').count();
        assert_eq!(count(&alone(&Alone::default())), count(ALONE));
        assert_eq!(count(&change(&Change::default())), count(CHANGE));
    }
}
