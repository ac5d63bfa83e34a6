//! What `lmc-bench` does: the whole benchmark, dumping a buffer, timing a file, sizes only.

use std::fs;
use std::path::{Path, PathBuf};

use lmc_testkit::{CorpusFile, corpus, entropy};

use crate::buffers::{self, Buffer, Part};
use crate::engines::{self, Engine, Lmc, Memcpy};
use crate::report::{self, Report};
use crate::run::{self, Limits};
use crate::{CorpusBitsArgs, DumpArgs, Result, RunArgs, ScaleArgs, TimeArgs, corpus_bits, scale};

const MIB: usize = 1 << 20;

/// Sizes on the corpus files, then speed on every set.
pub fn bench(args: &RunArgs) -> Result<()> {
    engines::check_names(&args.engines)?;
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let mut report = Report::default();
    if args.engines.iter().any(|name| name == "ours" || name == "lmc") {
        report.corpus_bits = corpus_bits::measure(&corpus)?;
        report::print_corpus_bits(&report.corpus_bits);
    }
    let limits = limits(args);
    let size_mib = if args.quick { args.size_mib.min(64) } else { args.size_mib };
    report::print_speed_heading();
    for set in &args.sets {
        let buffer = Buffer::build(&set.files(&corpus), size_mib * MIB, true)?;
        let mut engines = engines::select(&args.engines, buffer.width())?;
        let measured = run::run(&buffer, &mut engines, &limits)?;
        let first_new = report.rows.len();
        report.add(set.name(), &buffer, &measured);
        report.rows[first_new..].iter().for_each(report::print_row);
    }
    args.json.as_deref().map_or(Ok(()), |path| report.write_json(path))
}

/// Writes a set's buffer and its parts.
pub fn dump(args: &DumpArgs) -> Result<()> {
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let buffer = Buffer::build(&args.set.files(&corpus), args.size_mib * MIB, !args.plain)?;
    write(&args.out, &buffer.bytes)?;
    write(&parts_path(&args.out), &serde_json::to_vec(&buffer.parts)?)
}

/// Times our levels on a file.
pub fn time(args: &TimeArgs) -> Result<()> {
    let buffer = read_buffer(args)?;
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Memcpy)];
    for &level in &args.levels {
        engines.push(Box::new(Lmc::new(level)));
    }
    let limits = Limits { repeats: args.repeats, part_len: 0, slow_len: 0, slow_repeats: 0 };
    let measured = run::run(&buffer, &mut engines, &limits)?;
    let mut report = Report::default();
    report.add(&args.dtype, &buffer, &measured);
    if !to_stdout(args.json.as_deref()) {
        report::print_speed_heading();
        report.rows.iter().for_each(report::print_row);
    }
    args.json.as_deref().map_or(Ok(()), |path| report.write_json(path))
}

/// Sizes of our levels on the corpus files.
pub fn corpus_bits(args: &CorpusBitsArgs) -> Result<()> {
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let report = Report { corpus_bits: corpus_bits::measure(&corpus)?, ..Report::default() };
    if !to_stdout(args.json.as_deref()) {
        report::print_corpus_bits(&report.corpus_bits);
    }
    args.json.as_deref().map_or(Ok(()), |path| report.write_json(path))
}

/// Whole files on more and more threads.
pub fn scale(args: &ScaleArgs) -> Result<()> {
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    scale::run(args, &corpus)
}

/// Whether the JSON takes the place of the table.
fn to_stdout(json: Option<&Path>) -> bool {
    json == Some(Path::new("-"))
}

/// The corpus, or one line that says why there is nothing to do.
fn load_corpus() -> Result<Option<Vec<CorpusFile>>> {
    let Some(dir) = corpus::find() else {
        println!("no corpus: set LMC_CORPUS to its folder; nothing was measured");
        return Ok(None);
    };
    let files = corpus::load(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(Some(files))
}

fn limits(args: &RunArgs) -> Limits {
    if args.quick {
        return Limits { repeats: 1, part_len: 16 * MIB, slow_len: 2 * MIB, slow_repeats: 1 };
    }
    let repeats = args.repeats.max(1);
    Limits { repeats, part_len: 128 * MIB, slow_len: 32 * MIB, slow_repeats: 1 }
}

fn read_buffer(args: &TimeArgs) -> Result<Buffer> {
    let dtype = buffers::parse_dtype(&args.dtype)?;
    let bytes = read(&args.file)?;
    let parts = match &args.parts {
        Some(path) => serde_json::from_slice(&read(path)?)?,
        None => {
            let bound_bits = entropy::bound_bits(dtype, &bytes);
            vec![Part { len: bytes.len(), row_len: args.row_len, bound_bits }]
        }
    };
    let covered: usize = parts.iter().map(|part: &Part| part.len).sum();
    if covered != bytes.len() {
        return Err(format!("the parts hold {covered} bytes, the file {}", bytes.len()).into());
    }
    Ok(Buffer { dtype: buffers::codec_dtype(dtype)?, bytes, parts })
}

fn parts_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".parts.json");
    name.into()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()).into())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()).into())
}
