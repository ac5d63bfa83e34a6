//! Compresses a file to `.lmc`.

pub(crate) mod guess;
pub(crate) mod matching;
pub(crate) mod rounding;
pub(crate) mod uncoded;

use crate::base::budget::alone_if_spent;
use crate::base::needed::Going;
use crate::base::reference;
use crate::base::witness::Witness;
use crate::compress::matching::Spans;
use crate::crew::Crew;
use crate::files::folder::FileId;
use crate::io::{ByteSource, Input, Output, Sink};
use crate::items::{InputLayout, ItemHashes, hasher};
use crate::leaves::{LeafJoin, LeafPart, Weaver};
use crate::pipeline::{self, Buffer, Stages};
use crate::span::{CodedSpan, SpanEncoder};
use crate::view::View;
use crate::{BaseSet, Options, Reference, Summary};
use lmc_codec::{Dtype, Encoder, TensorSpec};
use lmc_format::file::header;
use lmc_format::limits::BASES_MAX;
use lmc_format::{
    Arranged, Arrangement, Conversion, Error, Footer, HEADER_LEN, Hash, Index, Result, SourceKind,
    Span, StoredIndex, hash,
};
use lmc_input::Cut;
use std::ops::Range;

/// The result of a compression: its sizes, the content hash, and the bases that it was coded
/// against.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// Bytes in and out.
    pub summary: Summary,
    /// The content hash of the original.
    pub content_hash: u128,
    /// The bases that are needed to restore it: those offered bases that were of use.
    pub bases: Vec<lmc_format::BaseId>,
}

/// Compresses all of `input`.
///
/// On an error the output is incomplete: a stream has some bytes of it, and a [`crate::Publish`]
/// that is not committed leaves nothing.
pub fn compress(input: Input, output: Output, options: &Options) -> Result<Compressed> {
    compress_source(&ByteSource::new(input)?, output, options)
}

fn compress_source(source: &ByteSource, output: Output, options: &Options) -> Result<Compressed> {
    let stamp = source.stamp()?;
    let job = CompressJob::new(source, options, output.replaced())?;
    let sink = Sink::new(output);
    sink.write(0, &header())?;
    let mut assembly = Assembly::new(&job);
    let mut next = 0;
    alone_if_spent(&options.bases.budgets(), &options.context, |context| {
        let first = next;
        let (ahead, crew) = (context.thread_count(), &context.crew);
        let stages = Compress { job: &job, sink: &sink, first, ahead, crew };
        pipeline::run(&stages, job.spans.cuts.len() - first, context, |i, done| {
            context.progress.add(done.coded.span.raw_len);
            next = first + i + 1;
            Ok(assembly.add(&job.spans.cuts[first + i], done))
        })
    })?;
    let end = assembly.end;
    let (tail, index) = assembly.finish()?;
    // If the files have changed in the meantime, the coded bytes may match neither the old file nor
    // the new one, or be a delta against neither the old base nor the new one.
    source.check_unchanged(stamp)?;
    options.bases.check_unchanged()?;
    sink.write(end, &tail)?;
    sink.flush()?;
    let summary = Summary { bytes_in: job.input.len, bytes_out: end + tail.len() as u64 };
    Ok(Compressed { summary, content_hash: index.content_hash(), bases: index.bases })
}

/// A file that is to be compressed.
pub(crate) struct CompressJob<'a> {
    source: &'a ByteSource<'a>,
    options: &'a Options,
    input: InputLayout,
    pub spans: Spans,
    /// Watches the bytes that are read more than once: those that showed the layout, and those that
    /// spans of the same file refer to.
    own: Witness,
}

impl<'a> CompressJob<'a> {
    /// `replaced` is the file that the result replaces.
    pub(crate) fn new(
        source: &'a ByteSource<'a>,
        options: &'a Options,
        replaced: Option<FileId>,
    ) -> Result<Self> {
        check_named(&options.bases)?;
        let going = Going { input: source.stamp()?.map(|stamp| stamp.id), replaced };
        going.check_given(&options.bases)?;
        let len = source.len()?;
        let input = InputLayout::read(source, len)?;
        let spans = matching::spans(source, &input, options)?;
        // Checked before anything is written.
        going.check_below(&spans.bases(&options.bases), &options.context)?;
        let own = Witness::new(read_twice(&spans, input.start.len() as u64));
        let view = input.view(source);
        own.saw_start(&input.start, |at, out| view.read(at, out))?;
        Ok(Self { source, options, input, spans, own })
    }

    /// The file in the order in which it is coded.
    pub(crate) fn view(&self) -> View<'_> {
        self.input.view(self.source)
    }
}

/// Fails if more bases must be named than a file can name.
fn check_named(bases: &BaseSet) -> Result<()> {
    let count = bases.list().len();
    if bases.is_named() && count as u64 > BASES_MAX {
        let message =
            format!("the file would need {count} bases, and at most {BASES_MAX} are allowed");
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// The spans that hold the first `start` bytes, or bytes that spans of the file itself refer to.
fn read_twice(spans: &Spans, start: u64) -> Vec<Range<u64>> {
    let refers = |(cut, reference): (&Cut, &Option<Reference>)| {
        let own = reference.filter(Reference::is_own)?;
        Some(own.start..own.end(cut.range.end - cut.range.start))
    };
    let ranges = spans.cuts.iter().zip(&spans.references).filter_map(refers);
    let mut ranges: Vec<Range<u64>> = std::iter::once(0..start).chain(ranges).collect();
    ranges.sort_by_key(|range| range.start);
    let mut ranges = ranges.into_iter().peekable();
    let mut reached = 0;
    let mut is_read_twice = |cut: &&Cut| {
        while let Some(range) = ranges.next_if(|range| range.start < cut.range.end) {
            reached = reached.max(range.end);
        }
        reached > cut.range.start
    };
    spans.cuts.iter().filter(|cut| is_read_twice(cut)).map(|cut| cut.range.clone()).collect()
}

/// Puts a file together from its spans, which arrive in order.
pub(crate) struct Assembly<'a> {
    job: &'a CompressJob<'a>,
    end: u64,
    spans: Vec<Span>,
    hashes: ItemHashes,
    leaves: LeafJoin,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(job: &'a CompressJob<'a>) -> Self {
        let hashes = ItemHashes::new(job.input.layout.items.len());
        let (spans, leaves) = (Vec::new(), LeafJoin::default());
        Self { job, end: HEADER_LEN as u64, spans, hashes, leaves }
    }

    /// Adds a span; returns its bytes and where they go.
    pub(crate) fn add(&mut self, cut: &Cut, done: EncodedSpan) -> (u64, Vec<u8>) {
        self.hashes.add(cut, done.hashes);
        done.leaves.iter().for_each(|leaves| self.leaves.add(leaves));
        let at = self.end;
        self.end += done.coded.bytes.len() as u64;
        self.spans.push(done.coded.span);
        (at, done.coded.bytes)
    }

    /// The bytes after the last span, and the index that they hold.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, Index)> {
        let (bases, base_orders) = self.bases()?;
        let input = &self.job.input;
        let (kind, items) = (input.layout.kind, self.hashes.finish(&input.layout));
        let arranged = (kind == SourceKind::Arranged).then(|| Arranged {
            content_hash: input.content_hash(self.leaves),
            order: input.order.clone(),
        });
        let index = Index { kind, bases, base_orders, spans: self.spans, items, arranged };
        let bytes = index.write();
        let footer = Footer {
            body_len: self.end - HEADER_LEN as u64,
            index_len: bytes.len() as u64,
            index_hash: hash(&bytes),
            original_len: input.len,
        };
        check_readable(&bytes, &footer)?;
        Ok(([bytes, footer.write()].concat(), index))
    }

    /// The bases that spans refer to, or all bases if that is asked for, renumbered; and the order
    /// in which the bytes of each are counted.
    fn bases(&mut self) -> Result<(Vec<lmc_format::BaseId>, Vec<Arrangement>)> {
        let (mut bases, mut orders) = (Vec::new(), Vec::new());
        for (i, base) in self.job.options.bases.list().iter().enumerate() {
            let number = bases.len() as u64 + 1;
            let mut is_used = self.job.options.bases.is_named();
            for reference in self.spans.iter_mut().filter_map(|span| span.reference.as_mut()) {
                if reference.source == i as u64 + 1 {
                    reference.source = number;
                    is_used = true;
                }
            }
            if is_used {
                let (hash, len) = (base.content_hash()?, base.original_len());
                bases.push(lmc_format::BaseId { hash, len, name: base.name().to_string() });
                orders.push(base.order()?.clone());
            }
        }
        Ok((bases, orders))
    }
}

/// Fails unless our reader accepts this index: the reader has limits, and an index that it refuses
/// must never be written.
fn check_readable(index: &[u8], footer: &Footer) -> Result<()> {
    StoredIndex::read(index.to_vec(), footer.body_len, footer.original_len)
        .map(|_| ())
        .map_err(|e| Error::invalid(format!("cannot be stored, since nothing could read it: {e}")))
}

struct Compress<'a, 'sink> {
    job: &'a CompressJob<'a>,
    sink: &'a Sink<'sink>,
    /// The first span that is not coded yet; spans here are counted from it.
    first: usize,
    /// How many spans further a span is read ahead.
    ahead: usize,
    crew: &'a Crew,
}

/// A coded span and the checksums of its items, or of the part if it is part of an item.
pub(crate) struct EncodedSpan {
    coded: CodedSpan,
    hashes: Vec<Hash>,
    leaves: Option<LeafPart>,
}

/// What coding a span needs, for use with one span after the other.
#[derive(Default)]
pub(crate) struct Worker {
    spans: SpanEncoder,
    guesses: Encoder,
    base: Buffer,
    wide: Buffer,
}

impl Worker {
    /// Codes the bytes of span `i` into `out`, replacing its contents.
    pub(crate) fn encode(
        &mut self,
        job: &CompressJob,
        i: usize,
        raw: &[u8],
        out: Vec<u8>,
    ) -> Result<EncodedSpan> {
        let cut = &job.spans.cuts[i];
        let reference = job.spans.references[i];
        let Self { spans, guesses, base, wide } = self;
        let base = match reference {
            Some(reference) => Some((reference, base_of(job, &reference, raw.len(), base, wide)?)),
            None => None,
        };
        let dtype = match (cut.dtype, base) {
            (Some(dtype), _) => dtype,
            (None, Some((_, base))) if base == raw => Dtype::Bytes,
            (None, _) => guess::dtype(guesses, raw),
        };
        let spec = TensorSpec { dtype, row_len: cut.row_len };
        let mut hashes = hasher(cut, &job.input.layout.items);
        let mut leaves = job.input.weaver(&cut.range);
        let mut pieces = job.own.hasher(&cut.range);
        spans.set(job.options.level, job.options.verify);
        let coded = spans.encode(&spec, raw, base, out, |block| {
            hashes.write(block);
            leaves.iter_mut().for_each(|leaves| leaves.write(block));
            pieces.iter_mut().for_each(|pieces| pieces.write(block));
        });
        let coded = coded.map_err(|e| e.at(format_args!("bytes from {}", cut.range.start)))?;
        job.own.saw_run(cut.range.start, pieces)?;
        let leaves = leaves.map(Weaver::finish);
        Ok(EncodedSpan { coded, hashes: hashes.finish(), leaves })
    }
}

/// The base of a span of `len` bytes; it is read into `buffer` unless it is contiguous in memory.
fn base_of<'b>(
    job: &'b CompressJob,
    reference: &Reference,
    len: usize,
    buffer: &'b mut Buffer,
    wide: &mut Buffer,
) -> Result<&'b [u8]> {
    let base = (reference.source as usize).checked_sub(1).map(|i| &job.options.bases.list()[i]);
    if let (Some(base), Conversion::None) = (base, reference.conversion)
        && let Some(bytes) = base.bytes(reference.start, len as u64)?
    {
        return Ok(bytes);
    }
    let out = buffer.sized(len as u64)?;
    reference::read(reference, 0..len as u64, wide, out, |start, out| match base {
        None => job.own.read(start, out, |at, out| job.view().read(at, out)),
        Some(base) => base.read_alone(start, out),
    })?;
    Ok(buffer.bytes())
}

impl Stages for Compress<'_, '_> {
    type Read = Buffer;
    type Worker = Worker;
    type Done = EncodedSpan;
    type Write = (u64, Vec<u8>);

    fn is_far(&self) -> bool {
        self.job.view().is_far()
    }

    fn read(&self, i: usize) -> Result<Buffer> {
        let cuts = &self.job.spans.cuts[self.first + i..];
        let range = &cuts[0].range;
        if let Some(Cut { range, .. }) = cuts.get(self.ahead) {
            self.job.view().read_ahead(range.start, range.end - range.start);
        }
        let mut buffer: Buffer = self.crew.take();
        self.job.view().read(range.start, buffer.sized(range.end - range.start)?)?;
        Ok(buffer)
    }

    fn work(&self, worker: &mut Worker, i: usize, buffer: Buffer) -> Result<EncodedSpan> {
        let out = self.crew.take();
        let done = worker.encode(self.job, self.first + i, buffer.bytes(), out)?;
        self.crew.give(buffer);
        Ok(done)
    }

    fn write(&self, (at, bytes): (u64, Vec<u8>)) -> Result<()> {
        if let Some(bytes) = self.sink.write_owned(at, bytes)? {
            self.crew.give(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
