//! The report: a table for people, and the same rows as JSON.

use lmc_codec::{Isa, IsaKind};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use lmc_engines::Measured;
use serde::Serialize;

use crate::Result;
use crate::buffers::Buffer;
use crate::corpus_bits::FileBits;

const GIB: f64 = (1_u64 << 30) as f64;

/// Which clock a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Wall,
    /// CPU time of the thread.
    Cpu,
}

/// One engine on one set.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub set: String,
    pub engine: String,
    pub level: String,
    pub grouped: bool,
    /// Whether it codes against a base.
    pub base: bool,
    pub threads: usize,
    pub bytes_in: usize,
    pub bytes_out: usize,
    pub bits_per_value: f64,
    pub bound_bits: f64,
    pub compress_gib_s: f64,
    pub decompress_gib_s: f64,
    pub compress_cpu_gib_s: f64,
    pub decompress_cpu_gib_s: f64,
    /// Speed of memcpy in the compress direction, in the same run.
    pub memcpy_gib_s: f64,
    pub memcpy_cpu_gib_s: f64,
    /// The share of compression, by CPU time, that passes before anything is coded.
    pub planning_share: f64,
    pub repeats: usize,
    pub machine: String,
    pub simd: &'static str,
}

/// All results of one run.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub rows: Vec<Row>,
    pub corpus_bits: Vec<FileBits>,
    /// Like `corpus_bits`, for files against a base.
    pub pair_bits: Vec<FileBits>,
}

impl Report {
    /// Adds the rows of one set and returns them. They are all compared with memcpy in the compress
    /// direction.
    pub fn add(&mut self, set: &str, buffer: &Buffer, measured: &[Measured]) -> &[Row] {
        let first_new = self.rows.len();
        let is_memcpy = |m: &&Measured| m.label.engine == "memcpy";
        let memcpy = measured.iter().find(is_memcpy);
        let copy_speed = |seconds: fn(&Measured) -> f64| {
            memcpy.map_or(f64::NAN, |m| gib_s(m.bytes_in, seconds(m)))
        };
        let memcpy_gib_s = copy_speed(|m| m.compress.wall_s);
        let memcpy_cpu_gib_s = copy_speed(|m| m.compress.cpu_s);
        let (machine, simd) = (machine(), simd());
        self.rows.extend(measured.iter().map(|m| Row {
            set: set.into(),
            engine: m.label.engine.into(),
            level: m.label.level.clone(),
            grouped: m.label.grouped,
            base: m.label.base,
            threads: 1,
            bytes_in: m.bytes_in,
            bytes_out: m.bytes_out,
            bits_per_value: m.bytes_out as f64 * 8.0 / (m.bytes_in / buffer.width()) as f64,
            bound_bits: buffer.bound_bits_per_value(m.bytes_in),
            compress_gib_s: gib_s(m.bytes_in, m.compress.wall_s),
            decompress_gib_s: gib_s(m.bytes_in, m.decompress.wall_s),
            compress_cpu_gib_s: gib_s(m.bytes_in, m.compress.cpu_s),
            decompress_cpu_gib_s: gib_s(m.bytes_in, m.decompress.cpu_s),
            memcpy_gib_s,
            memcpy_cpu_gib_s,
            planning_share: m.planning_share,
            repeats: m.rounds,
            machine: machine.clone(),
            simd,
        }));
        &self.rows[first_new..]
    }

    /// Writes the JSON to a file, or to stdout for `-`.
    pub fn write_json(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        if path == Path::new("-") {
            io::stdout().write_all(text.as_bytes())?;
        } else {
            fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(())
    }
}

fn gib_s(bytes: usize, seconds: f64) -> f64 {
    bytes as f64 / GIB / seconds
}

/// Prints the heading of the speed table.
pub fn print_speed_heading(clock: Clock) {
    let time = if clock == Clock::Cpu { "CPU" } else { "wall" };
    println!("machine: {}, {}; one thread, {time} time of the fastest round", machine(), simd());
    println!(
        "{:16} {:7} {:8} {:7} {:4} {:>11} {:>11} {:>6} {:>7} {:>7} {:>8} {:>8} {:>7} {:>7} {:>6}",
        "set",
        "engine",
        "level",
        "grouped",
        "base",
        "bytes in",
        "bytes out",
        "ratio",
        "bits",
        "to bnd%",
        "c GiB/s",
        "d GiB/s",
        "c xcpy",
        "d xcpy",
        "plan%",
    );
}

/// Prints one line of the speed table.
pub fn print_row(row: &Row, clock: Clock) {
    let (compress, decompress, memcpy) = match clock {
        Clock::Wall => (row.compress_gib_s, row.decompress_gib_s, row.memcpy_gib_s),
        Clock::Cpu => (row.compress_cpu_gib_s, row.decompress_cpu_gib_s, row.memcpy_cpu_gib_s),
    };
    println!(
        "{:16} {:7} {:8} {:7} {:4} {:11} {:11} {:6.3} {:7.3} {:+7.2} {:8.3} {:8.3} \
         {:7.3} {:7.3} {:6.1}",
        row.set,
        row.engine,
        row.level,
        yes_no(row.grouped),
        yes_no(row.base),
        row.bytes_in,
        row.bytes_out,
        row.bytes_in as f64 / row.bytes_out as f64,
        row.bits_per_value,
        above_percent(row.bits_per_value, row.bound_bits),
        compress,
        decompress,
        compress / memcpy,
        decompress / memcpy,
        100.0 * row.planning_share,
    );
}

/// Prints the sizes on the corpus files: bits per value, and percent above the bound.
pub fn print_corpus_bits(files: &[FileBits]) {
    let Some(first) = files.first() else { return };
    println!("corpus bits: whole files, tables and lengths included");
    print!("{:38} {:>9} {:>7}", "file", "values", "bound");
    first.levels.iter().for_each(|l| print!(" {:>7} {:>6}", l.level, "%"));
    println!();
    for file in files {
        print!("{:38} {:9} {:7.3}", file.file, file.values, file.bound_bits);
        for level in &file.levels {
            let above = above_percent(level.bits_per_value, file.bound_bits);
            print!(" {:7.3} {above:+6.2}", level.bits_per_value);
        }
        println!();
    }
    println!();
}

/// Prints the sizes of files against a base, in bits per value.
pub fn print_pair_bits(pairs: &[FileBits]) {
    let Some(first) = pairs.first() else { return };
    println!("bits per value: new/base, tables and lengths included");
    print!("{:16} {:>9}", "pair", "values");
    first.levels.iter().for_each(|l| print!(" {:>11}", l.level));
    println!();
    for bits in pairs {
        print!("{:16} {:9}", bits.file, bits.values);
        bits.levels.iter().for_each(|l| print!(" {:11.4}", l.bits_per_value));
        println!();
    }
    println!();
}

fn yes_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn above_percent(bits: f64, bound: f64) -> f64 {
    (bits / bound - 1.0) * 100.0
}

/// The CPU's name, if the system reports it.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).into()
}

/// The instruction set that our kernels use.
fn simd() -> &'static str {
    match Isa::best().kind() {
        IsaKind::Portable => "portable",
        IsaKind::Avx2 => "avx2",
        IsaKind::Avx512 => "avx512",
    }
}
