//! Text tables and the numbers in them.

use std::fmt;

use crate::exit::Failure;
use crate::printable::Printable;
use crate::stdio::Pages;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of text, aligned in columns when printed. No cell can end a line, whatever it contains.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<Printable>>,
}

impl Table {
    /// A table with a heading and the alignment of each column.
    pub fn new(heading: &[(&str, Align)]) -> Self {
        let names = heading.iter().map(|(name, _)| Printable::word(name)).collect();
        Self { columns: heading.iter().map(|(_, align)| *align).collect(), rows: vec![names] }
    }

    /// Adds a row with one cell per column.
    pub fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row.into_iter().map(Printable::word).collect());
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.columns.len()];
        self.rows.iter().for_each(|row| widen(&mut widths, row));
        widths
    }

    /// Prints a table with too many rows for memory: `rows` makes them twice, the first time to
    /// find the widths of the columns.
    pub fn print_rows<I: Iterator<Item = Result<Vec<String>, Failure>>>(
        self,
        pages: &mut Pages,
        rows: impl Fn() -> I,
    ) -> Result<(), Failure> {
        let printable = |row: Vec<String>| row.into_iter().map(Printable::word).collect::<Vec<_>>();
        let mut widths = self.widths();
        for row in rows() {
            widen(&mut widths, &printable(row?));
        }
        for row in &self.rows {
            pages.push(Printable::layout(line(row, &widths, &self.columns)))?;
        }
        for row in rows() {
            pages.push(Printable::layout(line(&printable(row?), &widths, &self.columns)))?;
        }
        Ok(())
    }
}

/// Makes columns wide enough for a row.
fn widen(widths: &mut [usize], row: &[Printable]) {
    for (width, cell) in widths.iter_mut().zip(row) {
        *width = cell.as_str().chars().count().max(*width);
    }
}

/// A row as a line.
fn line(row: &[Printable], widths: &[usize], columns: &[Align]) -> String {
    let mut line = String::new();
    for ((cell, &width), align) in row.iter().zip(widths).zip(columns) {
        let cell = cell.as_str();
        // Not by format!, whose widths are 16 bits.
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        line += &match align {
            Align::Left => format!("{cell}{blanks}  "),
            Align::Right => format!("{blanks}{cell}  "),
        };
    }
    format!("{}\n", line.trim_end())
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let widths = self.widths();
        self.rows.iter().try_for_each(|row| f.write_str(&line(row, &widths, &self.columns)))
    }
}

/// `original / coded` with two digits; a dash if nothing was coded.
pub fn ratio(original: u64, coded: u64) -> String {
    if coded == 0 { "-".into() } else { format!("{:.2}", original as f64 / coded as f64) }
}

/// `bytes` in `seconds` as GiB/s.
pub fn gib_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / f64::from(1 << 30) / seconds
}

/// The dimensions of a tensor.
pub fn shape(dimensions: &[u64]) -> String {
    let dimensions: Vec<String> = dimensions.iter().map(u64::to_string).collect();
    format!("[{}]", dimensions.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns are aligned by their widest cell, and lines have no trailing blanks.
    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.push(vec!["a".into(), "100".into()]);
        table.push(vec!["longer".into(), String::new()]);
        assert_eq!(table.to_string(), "name      n\na       100\nlonger\n");
    }

    /// Rows that are made while they are printed are aligned like others.
    #[test]
    fn printed_rows_line_up() {
        let rows = || [["a", "100"], ["longer", ""]].map(|row| Ok(row.map(String::from).to_vec()));
        let mut pages = Pages::default();
        let table = Table::new(&[("name", Align::Left), ("n", Align::Right)]);
        table.print_rows(&mut pages, || rows().into_iter()).expect("printed");
        assert_eq!(pages.waiting(), "name      n\na       100\nlonger\n");
    }
}
