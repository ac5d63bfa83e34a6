//! The other compressors and memcpy, on chunks that threads share.

use std::sync::Mutex;
use std::thread;

use lmc_peers::{Bzip2, Codec, Filter, Lz4, Xz, Zstd};

use super::engine::{Engine, Label, Sizes};
use crate::exit::Failure;

/// Bytes that are coded in one call: several windows of every engine here, so that none of them
/// loses by it.
const CHUNK_LEN: usize = 4 << 20;
/// Chunks that a slow engine is given at most: 64 MiB.
const SAMPLE_CHUNKS: usize = 16;

/// Makes a codec; each thread has its own.
type Make = fn() -> lmc_peers::Result<Box<dyn Codec>>;

/// An engine that is not made yet, since its buffers are as large as the file.
#[derive(Clone, Copy)]
pub struct Spec {
    make: Make,
    /// Bytes of a value if they are grouped first.
    width: Option<usize>,
}

/// One codec over all chunks.
pub struct Peer<'a> {
    workers: Vec<Worker>,
    width: Option<usize>,
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
    coded: Vec<u8>,
    coded_len: usize,
    restored: Vec<u8>,
}

/// The yardstick: a plain copy there and a plain copy back.
struct Memcpy;

/// memcpy, then every compressor on raw bytes and on those of values of `width` bytes, grouped.
pub fn specs(width: usize) -> Vec<Spec> {
    let codecs: [Make; 5] = [
        || Ok(Box::new(Zstd::new(1)?)),
        || Ok(Box::new(Zstd::new(3)?)),
        || Ok(Box::new(Lz4)),
        || Ok(Box::new(Bzip2)),
        || Ok(Box::new(Xz)),
    ];
    let memcpy = Spec { make: || Ok(Box::new(Memcpy)), width: None };
    let raw = codecs.map(|make| Spec { make, width: None });
    let grouped = codecs.map(|make| Spec { make, width: Some(width) });
    // Grouping values of one byte would change nothing.
    let grouped = grouped.into_iter().filter(|_| width > 1);
    [memcpy].into_iter().chain(raw).chain(grouped).collect()
}

impl<'a> Peer<'a> {
    /// The engine for `data`, or a sample of it.
    pub fn new(data: &'a [u8], spec: Spec, threads: usize) -> Result<Self, Failure> {
        let worker = |_| Ok(Worker { codec: (spec.make)()?, filter: Filter::new(spec.width) });
        let workers: lmc_peers::Result<Vec<_>> = (0..threads).map(worker).collect();
        let workers = workers.map_err(|error| Failure::new(error.to_string()))?;
        let chunks: Vec<&[u8]> = data.chunks(CHUNK_LEN).collect();
        let is_slow = workers.first().is_some_and(|worker| worker.codec.is_slow());
        let count = if is_slow { chunks.len().min(SAMPLE_CHUNKS) } else { chunks.len() };
        let pieces = (0..count).map(|i| Piece::new(chunks[i * chunks.len() / count])).collect();
        Ok(Self { workers, width: spec.width, pieces })
    }

    /// Gives every piece to the next thread that is free.
    fn for_each(
        &mut self,
        work: impl Fn(&mut Worker, &mut Piece<'a>) -> lmc_peers::Result<()> + Sync,
    ) -> Result<(), Failure> {
        let pieces = Mutex::new(self.pieces.iter_mut());
        let next = || pieces.lock().ok()?.next();
        let run = |worker: &mut Worker| -> lmc_peers::Result<()> {
            while let Some(piece) = next() {
                work(worker, piece)?;
            }
            Ok(())
        };
        let run = &run;
        let results: Vec<lmc_peers::Result<()>> = thread::scope(|scope| {
            let threads: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(move || run(worker))).collect();
            let join = |thread: thread::ScopedJoinHandle<_>| {
                thread.join().unwrap_or_else(|_| Err("a thread panicked".into()))
            };
            threads.into_iter().map(join).collect()
        });
        let results: lmc_peers::Result<()> = results.into_iter().collect();
        results.map_err(|error| Failure::new(error.to_string()))
    }
}

impl<'a> Piece<'a> {
    fn new(data: &'a [u8]) -> Self {
        // Not 0: a zeroed allocation is mapped only when it is first written.
        let coded = vec![1; data.len() + data.len() / 16 + (1 << 16)];
        Self { data, coded, coded_len: 0, restored: vec![1; data.len()] }
    }
}

impl Engine for Peer<'_> {
    fn label(&self) -> Label {
        let first = self.workers.first();
        Label {
            engine: first.map_or("", |worker| worker.codec.name()),
            level: first.map_or_else(String::new, |worker| worker.codec.level()),
            grouped: self.width.is_some(),
        }
    }

    fn is_slow(&self) -> bool {
        self.workers.first().is_some_and(|worker| worker.codec.is_slow())
    }

    fn compress(&mut self) -> Result<Sizes, Failure> {
        self.for_each(|worker, piece| {
            let filtered = worker.filter.forward(piece.data, None);
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
        self.for_each(|worker, piece| {
            let decode =
                |out: &mut [u8]| worker.codec.decompress(&piece.coded[..piece.coded_len], out);
            worker.filter.inverse(None, &mut piece.restored, decode)
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

    fn compress(&mut self, data: &[u8], coded: &mut [u8]) -> lmc_peers::Result<usize> {
        coded[..data.len()].copy_from_slice(data);
        Ok(data.len())
    }

    fn decompress(&mut self, coded: &[u8], out: &mut [u8]) -> lmc_peers::Result<()> {
        out.copy_from_slice(coded);
        Ok(())
    }
}
