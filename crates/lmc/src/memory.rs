//! Compresses and restores from memory to memory, without a copy in between.

use crate::Options;
use crate::archive::Archive;
use crate::archive::original::{Original, OriginalChecks, OriginalWorker, SpanHashes};
use crate::archive::restore::{ItemChecks, SpanItems, check_empty_items};
use crate::base::budget::{Budget, alone_if_spent};
use crate::compress::{Assembly, CompressJob, EncodedSpan, Worker};
use crate::context::Context;
use crate::io::{ByteSource, Input, zeroed};
use crate::leaves::LeafPart;
use crate::new_memory::NewMemory;
use crate::pipeline::{Buffer, Pool, for_each};
use crate::view::arranged;
use lmc_format::file::header;
use lmc_format::{Error, Hash, Result, SourceKind, StoredIndex};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of the original that a thread puts together in one go.
const PART_LEN: usize = 1 << 22;

/// Compresses `input` to parts that make up the file when they are joined.
///
/// `reuse` is memory for them, such as the parts of an earlier call: new memory costs more than
/// coding on many cores.
pub fn compress_parts(
    input: Input,
    options: &Options,
    reuse: Vec<Vec<u8>>,
) -> Result<Vec<Vec<u8>>> {
    Ok(compress_to(input, options, reuse, &mut [])?.1)
}

/// Compresses `input` into `out`, from its start. Returns how many bytes of it were written, and
/// the rest that does not fit there, as parts that follow it.
pub fn compress_into(
    input: Input,
    options: &Options,
    out: &mut [u8],
) -> Result<(usize, Vec<Vec<u8>>)> {
    compress_to(input, options, Vec::new(), out)
}

fn compress_to(
    input: Input,
    options: &Options,
    reuse: Vec<Vec<u8>>,
    out: &mut [u8],
) -> Result<(usize, Vec<Vec<u8>>)> {
    compress_source(&ByteSource::new(input)?, options, reuse, out)
}

pub(crate) fn compress_source(
    source: &ByteSource,
    options: &Options,
    reuse: Vec<Vec<u8>>,
    out: &mut [u8],
) -> Result<(usize, Vec<Vec<u8>>)> {
    let stamp = source.stamp()?;
    let job = CompressJob::new(source, options, None)?;
    let pool = Pool::new(reuse);
    let copy = |(target, bytes): (&mut [u8], Vec<u8>)| {
        target.copy_from_slice(&bytes);
        pool.give(bytes);
    };
    let mut memory = Memory { written: 0, free: out, rest: Vec::new() };
    memory.push(header().to_vec()).map(copy);
    let body = Mutex::new(Body::new(&job, memory));
    let new_worker = || (Worker::default(), Buffer::default());
    let budgets = options.bases.budgets();
    alone_if_spent(&budgets, &options.context, |context| {
        let first = body.lock().map_err(|_| another_failed())?.turn;
        for_each(job.spans.cuts.len() - first, context, new_worker, |(worker, raw), i| {
            let i = first + i;
            let range = &job.spans.cuts[i].range;
            let raw = job.view().bytes(range.start, range.end - range.start, raw)?;
            let done = worker.encode(&job, i, raw, pool.take())?;
            let placed = body.lock().map_err(|_| another_failed())?.add(i, done);
            placed.into_iter().for_each(copy);
            context.progress.add(raw.len() as u64);
            Ok(())
        })
    })?;
    let Body { assembly, mut memory, .. } = body.into_inner().map_err(|_| another_failed())?;
    let (tail, _) = assembly.finish()?;
    memory.push(tail).map(copy);
    source.check_unchanged(stamp)?;
    options.bases.check_unchanged()?;
    Ok((memory.written, memory.rest))
}

/// The file as its spans arrive, in any order.
struct Body<'job, 'out> {
    job: &'job CompressJob<'job>,
    assembly: Assembly<'job>,
    /// Coded spans that come after others which have not arrived yet.
    waiting: BTreeMap<usize, EncodedSpan>,
    /// The span that comes next.
    turn: usize,
    memory: Memory<'out>,
}

/// Memory that is filled from its start.
struct Memory<'out> {
    written: usize,
    free: &'out mut [u8],
    /// The parts that did not fit.
    rest: Vec<Vec<u8>>,
}

impl<'job, 'out> Body<'job, 'out> {
    fn new(job: &'job CompressJob<'job>, memory: Memory<'out>) -> Self {
        Self { job, assembly: Assembly::new(job), waiting: BTreeMap::new(), turn: 0, memory }
    }

    /// Takes span `i`; returns spans that can now be copied to the memory.
    fn add(&mut self, i: usize, done: EncodedSpan) -> Vec<(&'out mut [u8], Vec<u8>)> {
        self.waiting.insert(i, done);
        let mut placed = Vec::new();
        while let Some(done) = self.waiting.remove(&self.turn) {
            let (_, bytes) = self.assembly.add(&self.job.spans.cuts[self.turn], done);
            self.turn += 1;
            placed.extend(self.memory.push(bytes));
        }
        placed
    }
}

impl<'out> Memory<'out> {
    /// Takes the bytes that come next; returns them with the memory for them. If they do not fit,
    /// they are kept, and none is returned.
    fn push(&mut self, bytes: Vec<u8>) -> Option<(&'out mut [u8], Vec<u8>)> {
        if !self.rest.is_empty() || bytes.len() > self.free.len() {
            self.rest.push(bytes);
            return None;
        }
        let (target, after) = std::mem::take(&mut self.free).split_at_mut(bytes.len());
        self.free = after;
        self.written += bytes.len();
        Some((target, bytes))
    }
}

pub(crate) fn another_failed() -> Error {
    Error::invalid("another thread failed")
}

/// Restores all of the original into `out`, which must be as long as it is.
pub fn decompress_into(archive: &Archive, out: &mut [u8], context: &Context) -> Result<()> {
    decompress_scattered(archive, vec![out], context)
}

/// Restores all of the original into several buffers, one part after the other; together they must
/// be as long as the original.
pub fn decompress_scattered(
    archive: &Archive,
    out: Vec<&mut [u8]>,
    context: &Context,
) -> Result<()> {
    let len: u64 = out.iter().map(|part| part.len() as u64).sum();
    if len != archive.original_len() {
        let original_len = archive.original_len();
        let message = format!("the original has {original_len} bytes, the buffers {len}");
        return Err(Error::invalid(message));
    }
    archive.height(0, context)?;
    let index = &archive.index;
    let budget = archive.budget(context);
    let original = Original::new(archive, &budget)?;
    let span_items = (index.kind != SourceKind::Arranged).then(|| SpanItems::new(index));
    let span_items = span_items.transpose()?;
    let first = original.first_span;
    let count = index.span_count() - first;
    let lens = (first..index.span_count()).map(|i| {
        let covered = original.covered(i);
        (covered.end - covered.start) as usize
    });
    let buffers = cut_for_spans(out, lens.chain([original.rest().len()]));
    let worker = || (OriginalWorker::default(), Buffer::default(), Vec::new());
    alone_if_spent(&[&budget], context, |context| {
        let checks = Mutex::new(Joined::new(original.checks()?, first));
        let threads = context.thread_count();
        for_each(count, context, worker, |(worker, coded, whole), k| {
            let i = first + k;
            let mut buffer = buffers[k].lock().map_err(|_| another_failed())?;
            // The disk works while this thread decodes.
            archive.read_ahead(i + threads);
            let from = (i..i + 1, archive.span_bytes(i, coded)?);
            let found = decode_to(&mut buffer, whole, |out| {
                let effort = budget.effort();
                worker.decode(archive, &original, from, span_items.as_ref(), out, effort)
            })?;
            context.progress.add(index.raw_len(i));
            checks.lock().map_err(|_| another_failed())?.add(index, i, found)
        })?;
        let mut buffer = buffers[count].lock().map_err(|_| another_failed())?;
        decode_to(&mut buffer, &mut Vec::new(), |out| {
            out.copy_from_slice(original.rest());
            Ok(())
        })?;
        let checks = checks.into_inner().map_err(|_| another_failed())?;
        checks.checks.finish(archive, original.rest())
    })?;
    check_empty_items(index)
}

/// What was found of spans as they arrive, in any order.
struct Joined {
    checks: OriginalChecks,
    /// Of spans that come after others which have not arrived yet.
    waiting: BTreeMap<usize, (SpanHashes, Option<LeafPart>)>,
    /// The span that comes next.
    turn: usize,
}

impl Joined {
    fn new(checks: OriginalChecks, first: usize) -> Self {
        Self { checks, waiting: BTreeMap::new(), turn: first }
    }

    fn add(
        &mut self,
        index: &StoredIndex,
        i: usize,
        found: (SpanHashes, Option<LeafPart>),
    ) -> Result<()> {
        self.waiting.insert(i, found);
        while let Some((hashes, leaves)) = self.waiting.remove(&self.turn) {
            self.checks.add(index, self.turn..self.turn + 1, hashes, leaves)?;
            self.turn += 1;
        }
        Ok(())
    }
}

/// The checksums of spans as they arrive, in any order.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    items: ItemChecks,
    /// Those of spans that come after others which have not arrived yet.
    waiting: BTreeMap<usize, Vec<Hash>>,
    /// The span that comes next.
    turn: usize,
}

impl Checks {
    pub(crate) fn add(&mut self, index: &StoredIndex, i: usize, hashes: Vec<Hash>) -> Result<()> {
        self.waiting.insert(i, hashes);
        while let Some(hashes) = self.waiting.remove(&self.turn) {
            self.items.add(index, self.turn, hashes)?;
            self.turn += 1;
        }
        Ok(())
    }
}

/// Where the bytes of one span go. The thread that decodes into it locks it.
pub(crate) type SpanBuffers<'a> = Mutex<Pieces<'a>>;

/// Memory in one piece, which is the usual case, or in several.
pub(crate) enum Pieces<'a> {
    One(&'a mut [u8]),
    Several(Vec<&'a mut [u8]>),
}

/// Cuts memory into the buffers of spans of these lengths, which add up to its length.
pub(crate) fn cut_for_spans<'a>(
    out: Vec<&'a mut [u8]>,
    lens: impl Iterator<Item = usize>,
) -> Vec<SpanBuffers<'a>> {
    let mut parts = out.into_iter();
    let mut rest: &mut [u8] = &mut [];
    let mut cut = |mut len: usize| {
        let mut buffer = Pieces::One(&mut []);
        while len > 0 {
            if rest.is_empty() {
                let Some(next) = parts.next() else { break };
                rest = next;
                continue;
            }
            let count = len.min(rest.len());
            let (own, after) = std::mem::take(&mut rest).split_at_mut(count);
            len -= count;
            buffer.push(own);
            rest = after;
        }
        Mutex::new(buffer)
    };
    lens.map(&mut cut).collect()
}

impl<'a> Pieces<'a> {
    fn push(&mut self, piece: &'a mut [u8]) {
        match self {
            Self::One(one) if one.is_empty() => *one = piece,
            Self::One(one) => *self = Self::Several(vec![std::mem::take(one), piece]),
            Self::Several(several) => several.push(piece),
        }
    }
}

/// Decodes directly into the buffer of a span, or, if it is in several pieces, into `whole` first.
pub(crate) fn decode_to<T>(
    buffer: &mut Pieces,
    whole: &mut Vec<u8>,
    decode: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    match buffer {
        Pieces::One(out) => decode(out),
        Pieces::Several(pieces) => {
            whole.resize(pieces.iter().map(|piece| piece.len()).sum(), 0);
            let decoded = decode(whole)?;
            scatter(whole, pieces);
            Ok(decoded)
        }
    }
}

/// The same where the decoded bytes replace those that are there, which are needed for it.
pub(crate) fn replace_in<T>(
    buffer: &mut Pieces,
    whole: &mut Vec<u8>,
    replace: impl FnOnce(&mut [u8]) -> Result<T>,
) -> Result<T> {
    match buffer {
        Pieces::One(out) => replace(out),
        Pieces::Several(pieces) => {
            whole.clear();
            pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
            let replaced = replace(whole)?;
            scatter(whole, pieces);
            Ok(replaced)
        }
    }
}

/// Copies bytes to pieces with the same total length.
fn scatter(mut bytes: &[u8], pieces: &mut [&mut [u8]]) {
    for piece in pieces {
        let (own, after) = bytes.split_at(piece.len());
        piece.copy_from_slice(own);
        bytes = after;
    }
}

impl Archive {
    /// Fills `out` with the original bytes from `start` on, using several threads. Only the blocks
    /// that hold these bytes are read and checked.
    pub fn read_to(&self, start: u64, out: &mut [u8], context: &Context) -> Result<()> {
        let range = start..start.saturating_add(out.len() as u64);
        self.check_range(&range)?;
        let budget = self.budget(context);
        let [outside, data] = arranged(&self.index.order, range);
        if outside.is_empty() || data.is_empty() {
            let arranged = if data.is_empty() { outside } else { data };
            return self.read_arranged(arranged, out, &budget, context);
        }
        // Where both are wanted, parts of the original are put together one by one.
        let parts: Vec<Mutex<&mut [u8]>> = out.chunks_mut(PART_LEN).map(Mutex::new).collect();
        let read = |(): &mut (), i: usize| {
            let mut out = parts[i].lock().map_err(|_| another_failed())?;
            self.read_original(start + (i * PART_LEN) as u64, &mut out, budget.effort())
        };
        alone_if_spent(&[&budget], context, |context| for_each(parts.len(), context, || (), read))
    }

    /// Fills `out` with the arranged bytes `range`.
    fn read_arranged(
        &self,
        range: Range<u64>,
        out: &mut [u8],
        budget: &Budget,
        context: &Context,
    ) -> Result<()> {
        let spans = self.spans_of(&range);
        let bound = |i: usize| self.index.raw_start(i).clamp(range.start, range.end);
        let buffers =
            cut_for_spans(vec![out], spans.clone().map(|i| (bound(i + 1) - bound(i)) as usize));
        let read = |(): &mut (), i: usize| {
            let mut buffer = buffers[i].lock().map_err(|_| another_failed())?;
            // It was one piece, and so is each part of it.
            let Pieces::One(out) = &mut *buffer else { return Err(another_failed()) };
            self.read_into(bound(spans.start + i), out, budget.effort())
        };
        alone_if_spent(&[budget], context, |context| for_each(spans.len(), context, || (), read))
    }
}

/// Restores all of the original into new memory.
pub fn decompress_to_memory(archive: &Archive, context: &Context) -> Result<NewMemory> {
    let mut out = NewMemory::new(archive.original_len())?;
    decompress_into(archive, &mut out, context)?;
    Ok(out)
}

/// Restores all of the original into a new vector. One thread fills it with zeros first, so
/// [`decompress_to_memory`] is several times as fast.
pub fn decompress_to_vec(archive: &Archive, context: &Context) -> Result<Vec<u8>> {
    // `vec![0; len]` would not fill it, but it ends the process if there is not enough memory. To
    // try the length first does not help: another thread can take that memory in between.
    let mut out = zeroed(archive.original_len())?;
    decompress_into(archive, &mut out, context)?;
    Ok(out)
}
