//! The whole file format on an increasing number of threads, from memory to memory: planning,
//! coding and every checksum, and compressing also with the decoding that verifies each block. Each
//! is measured with output into memory of an earlier round, into a new vector and into
//! [`NewMemory`]. A base, if there is one, is also in memory and has already been hashed.

use std::fs;
use std::ops::DerefMut;
use std::path::Path;
use std::time::Instant;

use lmc::{
    Archive, BaseSet, Context, Input, NewMemory, Options, compress_into, compress_parts,
    decompress_into, decompress_to_memory, decompress_to_vec,
};
use lmc_bench::Result;
use lmc_bench::buffers::Buffer;
use lmc_testkit::CorpusFile;

use crate::ScaleArgs;
use crate::pairs::Pair;

const MIB: usize = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;

/// The kinds of memory for output, in the order of [`measure`].
const MEMORY: [&str; 3] = ["reused", "new Vec", "NewMemory"];

/// The least seconds with one kind of memory, for one number of threads.
#[derive(Clone, Copy)]
struct Row {
    copy: f64,
    compress: f64,
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
        "threads     memory  memcpy  compress  with verify  decompress  GiB/s; compress of one \
         thread"
    );
    let bases = match base {
        Some(base) => BaseSet::from_bytes(vec![("base".into(), base)], &Context::default())?,
        None => BaseSet::default(),
    };
    let mut one = [None; MEMORY.len()];
    for &threads in &args.threads {
        let options = Options {
            level: args.level.level(),
            context: Context::with_threads(threads),
            bases: bases.clone(),
            verify: false,
        };
        let rows = measure(&file, &options, args.repeats)?;
        let speed = |seconds: f64| file.len() as f64 / GIB / seconds;
        for ((memory, row), one) in MEMORY.iter().zip(rows).zip(&mut one) {
            println!(
                "{threads:7} {memory:>10} {:7.2} {:9.2} {:12.2} {:11.2}  {:.2}",
                speed(row.copy),
                speed(row.compress),
                speed(row.verified),
                speed(row.decompress),
                *one.get_or_insert(row.compress * threads as f64) / row.compress,
            );
        }
    }
    Ok(())
}

fn measure(file: &[u8], options: &Options, repeats: usize) -> Result<[Row; MEMORY.len()]> {
    let context = &options.context;
    let verified = Options { verify: true, ..options.clone() };
    let mut rows = [Row::new(); MEMORY.len()];
    let mut parts = Vec::new();
    let mut back = vec![1; file.len()];
    // The first round allocates the memory of the parts, which later rounds reuse.
    for round in 0..=repeats.max(1) {
        let [reused, vec, new] = &mut rows;
        least(&mut reused.copy, || {
            copy(file, &mut back, context.threads);
            Ok(())
        })?;
        for (options, best) in [(options, &mut reused.compress), (&verified, &mut reused.verified)]
        {
            let reuse = std::mem::take(&mut parts);
            parts = least(best, || Ok(compress_parts(Input::Bytes(file), options, reuse)?))?;
        }
        let archive = Archive::from_bytes_on(parts.concat(), &options.bases)?;
        least(&mut reused.decompress, || Ok(decompress_into(&archive, &mut back, context)?))?;
        check(&back, file)?;
        into_new(file, options, vec, || Ok(vec![0; file.len()]))?;
        let restored = least(&mut vec.decompress, || Ok(decompress_to_vec(&archive, context)?))?;
        check(&restored, file)?;
        drop(restored);
        into_new(file, options, new, || Ok(NewMemory::new(file.len() as u64)?))?;
        let restored = least(&mut new.decompress, || Ok(decompress_to_memory(&archive, context)?))?;
        check(&restored, file)?;
        if round == 0 {
            rows = [Row::new(); MEMORY.len()];
        }
    }
    Ok(rows)
}

impl Row {
    fn new() -> Self {
        Self { copy: f64::MAX, compress: f64::MAX, verified: f64::MAX, decompress: f64::MAX }
    }
}

/// Times `work`, and keeps the time if it is the least so far.
fn least<T>(best: &mut f64, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = work()?;
    *best = best.min(start.elapsed().as_secs_f64());
    Ok(result)
}

/// Times copying and compressing into memory that is allocated for each of them. Allocating counts,
/// freeing does not.
fn into_new<M: DerefMut<Target = [u8]>>(
    file: &[u8],
    options: &Options,
    row: &mut Row,
    allocate: impl Fn() -> Result<M>,
) -> Result<()> {
    let verified = Options { verify: true, ..options.clone() };
    least(&mut row.copy, || {
        let mut out = allocate()?;
        copy(file, &mut out, options.context.threads);
        Ok(out)
    })?;
    for (options, best) in [(options, &mut row.compress), (&verified, &mut row.verified)] {
        least(best, || {
            let mut out = allocate()?;
            let rest = compress_into(Input::Bytes(file), options, &mut out)?;
            Ok((out, rest))
        })?;
    }
    Ok(())
}

fn check(restored: &[u8], file: &[u8]) -> Result<()> {
    match restored == file {
        true => Ok(()),
        false => Err("the restored bytes differ from the input".into()),
    }
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
