//! The whole file format on an increasing number of threads, from memory to memory: planning,
//! coding and every checksum. Output goes into memory of an earlier round and into new memory, and
//! a third measurement includes the decoding that verifies each block. A base, if there is one, is
//! also in memory and has already been hashed.

use std::fs;
use std::path::Path;
use std::time::Instant;

use lmc::{
    Archive, BaseSet, Context, Input, Options, compress_into, compress_parts, decompress_into,
};
use lmc_bench::Result;
use lmc_bench::buffers::Buffer;
use lmc_testkit::CorpusFile;

use crate::ScaleArgs;
use crate::pairs::Pair;

const MIB: usize = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;

/// The results for one number of threads, in seconds.
struct Row {
    threads: usize,
    copy: f64,
    compress: f64,
    compress_new: f64,
    verified: f64,
    decompress: f64,
}

/// The data to compress.
pub struct Case {
    name: String,
    file: Vec<u8>,
    base: Option<Vec<u8>>,
}

impl Case {
    /// A file given by the user.
    pub fn of_file(path: &Path) -> Result<Self> {
        let file = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { name: path.display().to_string(), file, base: None })
    }

    /// A buffer of the corpus, or a pair of them, as safetensors files.
    pub fn of_corpus(args: &ScaleArgs, corpus: &[CorpusFile]) -> Result<Self> {
        let len_min = args.size_mib * MIB;
        if let Some(name) = &args.pair {
            let pair = *Pair::select(std::slice::from_ref(name))?.first().ok_or("no pair")?;
            let (new, base) = pair.buffers(corpus, len_min, true)?;
            let base = Some(safetensors(&base)?);
            return Ok(Self { name: pair.name.into(), file: safetensors(&new)?, base });
        }
        let buffer = Buffer::build(&args.set.files(corpus), len_min, true)?;
        Ok(Self { name: args.set.to_string(), file: safetensors(&buffer)?, base: None })
    }
}

/// Measures and prints the results for every number of threads.
pub fn run(args: &ScaleArgs, case: Case) -> Result<()> {
    let Case { name, file, base } = case;
    println!("{name} at level {}, {} bytes", args.level, file.len());
    println!(
        "threads  memcpy  compress  new memory  with verify  decompress  GiB/s; compress of one \
         thread"
    );
    let bases = match base {
        Some(base) => BaseSet::from_bytes(vec![("base".into(), base)], &Context::default())?,
        None => BaseSet::default(),
    };
    let mut one = None;
    for &threads in &args.threads {
        let options = Options {
            level: args.level.level(),
            context: Context::with_threads(threads),
            bases: bases.clone(),
            verify: false,
        };
        let row = measure(&file, &options, args.repeats)?;
        let speed = |seconds: f64| file.len() as f64 / GIB / seconds;
        let base = *one.get_or_insert(row.compress * row.threads as f64);
        println!(
            "{:7} {:7.2} {:9.2} {:11.2} {:12.2} {:11.2}  {:.2}",
            row.threads,
            speed(row.copy),
            speed(row.compress),
            speed(row.compress_new),
            speed(row.verified),
            speed(row.decompress),
            base / row.compress,
        );
    }
    Ok(())
}

fn measure(file: &[u8], options: &Options, repeats: usize) -> Result<Row> {
    let threads = options.context.threads;
    let verified = Options { verify: true, ..options.clone() };
    let mut row = Row {
        threads,
        copy: f64::MAX,
        compress: f64::MAX,
        compress_new: f64::MAX,
        verified: f64::MAX,
        decompress: f64::MAX,
    };
    let mut parts = Vec::new();
    let mut back = vec![1; file.len()];
    // The first round allocates the memory of the parts, which later rounds reuse.
    for round in 0..=repeats.max(1) {
        let least = |best: &mut f64, start: Instant| {
            if round > 0 {
                *best = best.min(start.elapsed().as_secs_f64());
            }
        };
        let start = Instant::now();
        copy(file, &mut back, threads);
        least(&mut row.copy, start);
        for (options, best) in [(options, &mut row.compress), (&verified, &mut row.verified)] {
            let start = Instant::now();
            parts = compress_parts(Input::Bytes(file), options, parts)?;
            least(best, start);
        }
        let start = Instant::now();
        compress_into(Input::Bytes(file), options, &mut vec![0; file.len()])?;
        least(&mut row.compress_new, start);
        let archive = Archive::from_bytes_on(parts.concat(), &options.bases)?;
        let start = Instant::now();
        decompress_into(&archive, &mut back, &Context::with_threads(threads))?;
        least(&mut row.decompress, start);
        if back != file {
            return Err("the restored bytes differ from the input".into());
        }
    }
    Ok(row)
}

/// A copy on all threads: the limit that memory sets.
fn copy(from: &[u8], to: &mut [u8], threads: usize) {
    let len = from.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
            scope.spawn(move || to.copy_from_slice(from));
        }
    });
}

/// The buffer as a safetensors file.
fn safetensors(buffer: &Buffer) -> Result<Vec<u8>> {
    let dtype = buffer.dtype.label();
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (i, part) in buffer.parts.iter().enumerate() {
        let values = part.len as u64 / buffer.width() as u64;
        let shape = match part.row_len {
            0 => vec![values],
            row_len => vec![values / row_len, row_len],
        };
        let entry = serde_json::json!({
            "dtype": dtype, "shape": shape, "data_offsets": [end, end + part.len],
        });
        header.insert(format!("tensor.{i:06}"), entry);
        end += part.len;
    }
    let header = serde_json::to_vec(&header)?;
    let mut file = Vec::with_capacity(8 + header.len() + buffer.bytes.len());
    file.extend_from_slice(&(header.len() as u64).to_le_bytes());
    file.extend_from_slice(&header);
    file.extend_from_slice(&buffer.bytes);
    Ok(file)
}
