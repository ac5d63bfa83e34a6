//! The rows of a file, as a table or as JSON.

use std::path::Path;

use lmc_engines::{Measured, Times};
use serde_json::{Value, json};

use super::storage::Storage;
use crate::printable::Printable;
use crate::table::{self, Align, Table};

/// A table, and whether compression pays off if the speed of storage is known.
pub fn text(
    path: &Path,
    data: &[u8],
    threads: usize,
    measured: &[Measured],
    storage: Option<&Storage>,
) -> Printable {
    let mut heading = vec![
        ("engine", Align::Left),
        ("MiB", Align::Right),
        ("ratio", Align::Right),
        ("compress GiB/s", Align::Right),
        ("decompress GiB/s", Align::Right),
    ];
    if storage.is_some() {
        heading.extend([("save s", Align::Right), ("load s", Align::Right)]);
    }
    let mut table = Table::new(&heading);
    for row in measured {
        let mut cells = vec![
            row.label.to_string(),
            format!("{:.1}", row.bytes_in as f64 / f64::from(1 << 20)),
            format!("{:.3}", 1.0 / row.share()),
            format!("{:.3}", gib_s(row, row.compress)),
            format!("{:.3}", gib_s(row, row.decompress)),
        ];
        if let Some(storage) = storage {
            cells.push(format!("{:.3}", storage.save_s(data.len(), row)));
            cells.push(format!("{:.3}", storage.load_s(data.len(), row)));
        }
        table.push(cells);
    }
    let head = format!("{}: {} bytes, threads: {threads}", path.display(), data.len());
    let mut text = Printable::line(head);
    text.push(table);
    if let Some(storage) = storage {
        text.push(verdict(data.len(), measured, storage));
    }
    text
}

/// Two lines: the fastest save and load, compared with plain bytes.
fn verdict(len: usize, measured: &[Measured], storage: &Storage) -> Printable {
    let how = if storage.is_measured { "measured by writing" } else { "as given" };
    let speed = storage.speed / 1e9;
    let mut text = Printable::line(format_args!("storage at {speed:.2} GB/s, {how}:"));
    type Seconds = fn(&Storage, usize, &Measured) -> f64;
    let moves: [(&str, Seconds); 2] = [("save", Storage::save_s), ("load", Storage::load_s)];
    for (name, seconds) in moves {
        let plain = len as f64 / storage.speed;
        let time = |row: &&Measured| seconds(storage, len, row);
        let best = measured.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
        let Some(best) = best else { continue };
        let best_s = time(&best);
        match best_s < plain {
            true => text.push_line(format_args!(
                "  {name}: {plain:.3} s as it is, {best_s:.3} s with {}: compression pays off",
                best.label
            )),
            false => {
                text.push_line(format_args!(
                    "  {name}: {plain:.3} s as it is, and no engine is faster"
                ));
            }
        }
    }
    text
}

/// One row per engine.
pub fn json(
    path: &Path,
    data: &[u8],
    threads: usize,
    measured: &[Measured],
    storage: Option<&Storage>,
) -> Vec<Value> {
    let row = |row: &Measured| {
        let mut value = json!({
            "file": path.to_string_lossy(),
            "engine": row.label.engine,
            "level": row.label.level,
            "grouped": row.label.grouped,
            "base": row.label.base,
            "threads": threads,
            "bytes_in": row.bytes_in,
            "bytes_out": row.bytes_out,
            "compress_gib_s": gib_s(row, row.compress),
            "decompress_gib_s": gib_s(row, row.decompress),
        });
        if let Some(storage) = storage {
            value["storage_gbps"] = json!(storage.speed / 1e9);
            value["save_s"] = json!(storage.save_s(data.len(), row));
            value["load_s"] = json!(storage.load_s(data.len(), row));
        }
        value
    };
    measured.iter().map(row).collect()
}

/// Original bytes per second.
fn gib_s(row: &Measured, times: Times) -> f64 {
    table::gib_s(row.bytes_in as u64, times.wall_s)
}
