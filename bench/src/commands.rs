//! The commands of `lmc-bench`: the whole benchmark, dumping a buffer, timing a file, sizes only,
//! pairs.

use std::fs;
use std::path::{Path, PathBuf};

use lmc_bench::buffers::{self, Buffer, BufferTensor};
use lmc_bench::report::{self, Clock, Report};
use lmc_bench::run::{self, Limits};
use lmc_bench::{Result, corpus_bits, load_corpus};
use lmc_engines::{Engine, Lmc, Memcpy, Spec, alone, check_names};
use lmc_testkit::{CorpusFile, entropy};

use crate::pairs::{self, Pair};
use crate::{CorpusBitsArgs, DumpArgs, PairsArgs, RunArgs, ScaleArgs, TimeArgs, scale};

const MIB: usize = 1 << 20;

/// Sizes on the corpus files, then speed on every set.
pub fn bench(args: &RunArgs, clock: Clock) -> Result<()> {
    check_names(&args.engines)?;
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let mut report = Report::default();
    if args.engines.iter().any(|name| name == "ours" || name == "lmc") {
        report.corpus_bits = corpus_bits::measure(&corpus)?;
        report::print_corpus_bits(&report.corpus_bits);
    }
    let limits = Limits::new(args.repeats, args.quick);
    let len_min = len_min(args.size_mib, args.quick);
    report::print_speed_heading(clock);
    for set in &args.sets {
        let buffer = Buffer::build(&set.files(&corpus), len_min, true)?;
        let specs = alone(&args.engines, buffer.width());
        let engines: Result<Vec<_>> = specs.iter().map(Spec::for_buffer).collect();
        let measured = run::run(&buffer, None, &mut engines?, &limits)?;
        report
            .add(set.name(), &buffer, &measured)
            .iter()
            .for_each(|row| report::print_row(row, clock));
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
pub fn time(args: &TimeArgs, clock: Clock) -> Result<()> {
    let buffer = read_buffer(args)?;
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Memcpy)];
    for &level in &args.levels {
        engines.push(Box::new(Lmc::new(level, false).streaming()));
    }
    let limits = Limits { repeats: args.repeats, part_len: 0, slow_len: 0, slow_repeats: 0 };
    let measured = run::run(&buffer, None, &mut engines, &limits)?;
    let mut report = Report::default();
    report.add(&args.dtype, &buffer, &measured);
    if !to_stdout(args.json.as_deref()) {
        report::print_speed_heading(clock);
        report.rows.iter().for_each(|row| report::print_row(row, clock));
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

/// Whole files on an increasing number of threads.
pub fn scale(args: &ScaleArgs) -> Result<()> {
    if let Some(path) = &args.file {
        return scale::run(args, scale::Case::of_file(path)?);
    }
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    scale::run(args, scale::Case::of_corpus(args, &corpus)?)
}

/// Sizes and speed on checkpoints that have a base.
pub fn pairs(args: &PairsArgs, clock: Clock) -> Result<()> {
    let selected = Pair::select(&args.pairs)?;
    if args.list {
        let files: Vec<&Pair> = selected.iter().filter(|pair| pair.is_of_files()).collect();
        println!("{}", serde_json::to_string(&files)?);
        return Ok(());
    }
    let Some(corpus) = load_corpus()? else { return Ok(()) };
    let sizes: Result<_> = selected.iter().map(|pair| pair.sizes(&corpus, &args.engines)).collect();
    let mut report = Report { pair_bits: sizes?, ..Report::default() };
    if let Some(path) = &args.others {
        pairs::add_others(&mut report.pair_bits, path)?;
    }
    report::print_pair_bits(&report.pair_bits);
    if !args.no_speed {
        time_pairs(args, &selected, &corpus, &mut report, clock)?;
    }
    pairs::verdicts(&report.pair_bits).iter().for_each(|line| println!("{line}"));
    args.json.as_deref().map_or(Ok(()), |path| report.write_json(path))
}

fn time_pairs(
    args: &PairsArgs,
    pairs: &[Pair],
    corpus: &[CorpusFile],
    report: &mut Report,
    clock: Clock,
) -> Result<()> {
    let limits = Limits::new(args.repeats, args.quick);
    let len_min = len_min(args.size_mib, args.quick);
    report::print_speed_heading(clock);
    for pair in pairs {
        let (buffer, measured) = pair.speeds(corpus, &args.engines, len_min, &limits)?;
        report
            .add(pair.name, &buffer, &measured)
            .iter()
            .for_each(|row| report::print_row(row, clock));
    }
    println!();
    Ok(())
}

/// Whether the JSON replaces the table.
fn to_stdout(json: Option<&Path>) -> bool {
    json == Some(Path::new("-"))
}

fn len_min(size_mib: usize, quick: bool) -> usize {
    if quick { size_mib.min(64) * MIB } else { size_mib * MIB }
}

fn read_buffer(args: &TimeArgs) -> Result<Buffer> {
    let dtype = buffers::parse_dtype(&args.dtype)?;
    let bytes = read(&args.file)?;
    let parts = match &args.parts {
        Some(path) => serde_json::from_slice(&read(path)?)?,
        None => {
            let bound_bits = entropy::bound_bits(dtype, &bytes);
            vec![BufferTensor { len: bytes.len(), row_len: args.row_len, bound_bits }]
        }
    };
    let covered: usize = parts.iter().map(|part: &BufferTensor| part.len).sum();
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
