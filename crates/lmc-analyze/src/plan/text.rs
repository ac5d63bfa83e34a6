//! A plan as text: a line about the run, and the cells of a table.

use std::collections::BTreeMap;

use super::{Inputs, Method, Plan};

/// The percentage of [`super::PERCENTS`] that the table shows.
const SHOWN: u32 = 1;

impl Plan {
    /// The names of the columns. The first is that of a name, the others are those of numbers.
    pub const HEADING: [&str; 9] = [
        "method",
        "ratio",
        "save",
        "lost, waiting",
        "lost, background",
        "1 % lost, waiting",
        "1 % lost, background",
        "30 days",
        "restore",
    ];

    /// What the plan is for, in one line.
    pub fn head(&self) -> String {
        let Inputs { state_bytes, cores, bandwidth, copy_speed, step_time, interval, .. } =
            self.inputs;
        let cores = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
        let steps = if interval == 1 { "step".into() } else { format!("{interval} steps") };
        format!(
            "{} every {steps} of {}, {cores}, storage at {}/s, copies at {}/s",
            size(state_bytes as f64),
            time(step_time),
            size(bandwidth),
            size(copy_speed),
        )
    }

    /// The cells of the table, a row for each method.
    pub fn cells(&self) -> Vec<[String; Self::HEADING.len()]> {
        self.methods.iter().map(Method::cells).collect()
    }
}

impl Method {
    fn cells(&self) -> [String; Plan::HEADING.len()] {
        let shown = |of: &BTreeMap<u32, f64>| {
            of.get(&SHOWN).map_or_else(String::new, |&seconds| time(seconds))
        };
        [
            self.name.clone(),
            format!("{:.2}", self.ratio),
            time(self.save),
            percent(self.lost_blocking),
            percent(self.lost_background),
            shown(&self.shortest_blocking),
            shown(&self.shortest_background),
            size(self.month_bytes),
            time(self.restore),
        ]
    }
}

/// A share in percent, with about three digits.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let digits = if percent < 1.0 { 3 } else { usize::from(percent < 10.0) + 1 };
    format!("{percent:.digits$} %")
}

/// Seconds in a unit that suits them, with about three digits.
fn time(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")];
    // A number of minutes and so on begins at 2, so that 90 s are not 1.50 min.
    let found = units.into_iter().find(|(unit, _)| *unit == 1.0 || seconds >= 2.0 * unit);
    match found {
        Some((unit, name)) if seconds >= 1.0 => number(seconds / unit, name),
        _ => number(seconds * 1e3, "ms"),
    }
}

/// Bytes in a unit that suits them, with about three digits.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = units.iter().enumerate().find(|(i, _)| bytes < 1024_f64.powi(*i as i32 + 1));
    match step.unwrap_or((units.len() - 1, &units[units.len() - 1])) {
        (0, unit) => format!("{bytes:.0} {unit}"),
        (i, unit) => number(bytes / 1024_f64.powi(i as i32), unit),
    }
}

fn number(number: f64, unit: &str) -> String {
    let digits = match number {
        n if n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        _ => 2,
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers have the unit that a reader would choose, and about three digits.
    #[test]
    fn units() {
        let times = [0.0, 0.000_5, 0.25, 1.0, 90.0, 150.0, 7200.0, 200_000.0].map(time);
        let expected =
            ["0.00 ms", "0.50 ms", "250 ms", "1.00 s", "90.0 s", "2.50 min", "2.00 h", "2.31 d"];
        assert_eq!(times, expected);
        let sizes = [0.0, 1023.0, 1024.0, 2.5e9, 1e12, 1e20].map(size);
        let expected = ["0 B", "1023 B", "1.00 KiB", "2.33 GiB", "931 GiB", "88818 PiB"];
        assert_eq!(sizes, expected);
        let shares = [0.0, 0.000_12, 0.0123, 0.45, 1.0].map(percent);
        assert_eq!(shares, ["0.000 %", "0.012 %", "1.23 %", "45.0 %", "100.0 %"]);
    }
}
