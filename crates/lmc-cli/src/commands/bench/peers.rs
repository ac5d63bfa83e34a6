//! The other compressors and memcpy, on chunks that threads share.

use lmc_engines::{Bzip2, Codec, Filter, Lz4, Xz, Zstd};

use super::engine::{Engine, Label, Sizes};
use super::share::share;
use crate::exit::Failure;

/// Bytes that are coded in one call: several windows of every engine here, so that none of them
/// loses by it.
const CHUNK_LEN: usize = 4 << 20;
/// Chunks that a slow engine is given at most: 64 MiB.
const SAMPLE_CHUNKS: usize = 16;

/// Makes a codec; each thread has its own.
type Make = fn() -> lmc_engines::Result<Box<dyn Codec>>;

const ZSTD_3: Make = || Ok(Box::new(Zstd::new(3)?));
const BZIP2_9: Make = || Ok(Box::new(Bzip2));
const MEMCPY: Spec = Spec { make: || Ok(Box::new(Memcpy)), width: None, base: None };

/// An engine that is not made yet, since its buffers are as large as the file.
#[derive(Clone, Copy)]
pub struct Spec<'a> {
    make: Make,
    /// Bytes of a value if they are grouped first.
    width: Option<usize>,
    /// As many bytes as the file, if it is XORed with them first.
    base: Option<&'a [u8]>,
}

/// One codec over all chunks.
pub struct Peer<'a> {
    workers: Vec<Worker>,
    spec: Spec<'a>,
    pieces: Vec<Piece<'a>>,
}

/// What a thread has to itself.
struct Worker {
    codec: Box<dyn Codec>,
    filter: Filter,
}

/// A chunk with room for its results.
struct Piece<'a> {
    data: &'a [u8],
    base: Option<&'a [u8]>,
    coded: Vec<u8>,
    coded_len: usize,
    restored: Vec<u8>,
}

/// The yardstick: a plain copy there and a plain copy back.
struct Memcpy;

/// memcpy, then every compressor on raw bytes and on those of values of `width` bytes, grouped.
pub fn specs(width: usize) -> Vec<Spec<'static>> {
    let codecs: [Make; 5] = [
        || Ok(Box::new(Zstd::new(1)?)),
        ZSTD_3,
        || Ok(Box::new(Lz4)),
        BZIP2_9,
        || Ok(Box::new(Xz)),
    ];
    let raw = codecs.map(|make| Spec { make, width: None, base: None });
    let grouped = codecs.map(|make| Spec { make, width: grouped(width), base: None });
    let grouped = grouped.into_iter().filter(|spec| spec.width.is_some());
    [MEMCPY].into_iter().chain(raw).chain(grouped).collect()
}

/// memcpy, then what is usual after XOR with a base, on grouped bytes.
pub fn specs_on(base: &[u8], width: usize) -> Vec<Spec<'_>> {
    let spec = |make| Spec { make, width: grouped(width), base: Some(base) };
    vec![MEMCPY, spec(ZSTD_3), spec(BZIP2_9)]
}

/// Grouping values of one byte would change nothing.
fn grouped(width: usize) -> Option<usize> {
    (width > 1).then_some(width)
}

impl<'a> Peer<'a> {
    /// The engine for `data`, or a sample of it.
    pub fn new(data: &'a [u8], spec: Spec<'a>, threads: usize) -> Result<Self, Failure> {
        let worker = |_| Ok(Worker { codec: (spec.make)()?, filter: Filter::new(spec.width) });
        let workers: lmc_engines::Result<Vec<_>> = (0..threads).map(worker).collect();
        let workers = workers.map_err(|error| Failure::new(error.to_string()))?;
        let chunks: Vec<&[u8]> = data.chunks(CHUNK_LEN).collect();
        let is_slow = workers.first().is_some_and(|worker| worker.codec.is_slow());
        let count = if is_slow { chunks.len().min(SAMPLE_CHUNKS) } else { chunks.len() };
        let piece = |i: usize| {
            let i = i * chunks.len() / count;
            let base = spec.base.map(|base| &base[i * CHUNK_LEN..][..chunks[i].len()]);
            Piece::new(chunks[i], base)
        };
        Ok(Self { workers, spec, pieces: (0..count).map(piece).collect() })
    }
}

impl<'a> Piece<'a> {
    fn new(data: &'a [u8], base: Option<&'a [u8]>) -> Self {
        // Not 0: a zeroed allocation is mapped only when it is first written.
        let coded = vec![1; data.len() + data.len() / 16 + (1 << 16)];
        Self { data, base, coded, coded_len: 0, restored: vec![1; data.len()] }
    }
}

impl Engine for Peer<'_> {
    fn label(&self) -> Label {
        let first = self.workers.first();
        Label {
            engine: first.map_or("", |worker| worker.codec.name()),
            level: first.map_or_else(String::new, |worker| worker.codec.level()),
            grouped: self.spec.width.is_some(),
            base: self.spec.base.is_some(),
        }
    }

    fn is_slow(&self) -> bool {
        self.workers.first().is_some_and(|worker| worker.codec.is_slow())
    }

    fn compress(&mut self) -> Result<Sizes, Failure> {
        share(&mut self.workers, &mut self.pieces, |worker, piece| {
            let filtered = worker.filter.forward(piece.data, piece.base);
            piece.coded_len = worker.codec.compress(filtered, &mut piece.coded)?;
            Ok(())
        })?;
        let sum = |len: fn(&Piece) -> usize| self.pieces.iter().map(|p| len(p) as u64).sum();
        Ok(Sizes { bytes_in: sum(|p| p.data.len()), bytes_out: sum(|p| p.coded_len) })
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn decompress(&mut self) -> Result<(), Failure> {
        share(&mut self.workers, &mut self.pieces, |worker, piece| {
            let decode =
                |out: &mut [u8]| worker.codec.decompress(&piece.coded[..piece.coded_len], out);
            worker.filter.inverse(piece.base, &mut piece.restored, decode)
        })
    }

    fn came_back(&self) -> bool {
        self.pieces.iter().all(|piece| piece.restored == piece.data)
    }
}

impl Codec for Memcpy {
    fn name(&self) -> &'static str {
        "memcpy"
    }

    fn level(&self) -> String {
        String::new()
    }

    fn is_slow(&self) -> bool {
        false
    }

    fn grouped_block_len(&self) -> usize {
        CHUNK_LEN
    }

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> lmc_engines::Result<usize> {
        coded[..data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> lmc_engines::Result<()> {
        out.copy_from_slice(coded);
        Ok(())
    }
}
