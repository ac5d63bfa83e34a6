//! A file to `.lmc`.

use crate::guess;
use crate::io::{Input, Output, Sink, Source};
use crate::item_hash::ItemHasher;
use crate::pipeline::{self, Buffer, Pool, Stages, Threads, thread_count};
use crate::span::{CodedSpan, SpanEncoder};
use crate::{Options, Progress, Summary};
use lmc_codec::{Encoder, TensorSpec};
use lmc_format::file::header;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Footer, HEADER_LEN, Hash, Index, Item, Result, Span, hash};
use lmc_input::{Cut, SourceItem};

/// Compresses all of `input`.
///
/// On an error the output is incomplete: a stream has some bytes of it, and a [`crate::Publish`]
/// that is not committed leaves nothing.
pub fn compress(
    input: Input,
    output: Output,
    options: &Options,
    progress: Progress,
) -> Result<Summary> {
    let source = Source::new(input)?;
    let sink = Sink::new(output);
    let original_len = source.len()?;
    let layout = look(&source, original_len)?;
    let cuts = lmc_input::cut(&layout);
    let stages = Compress {
        source: &source,
        sink: &sink,
        cuts: &cuts,
        items: &layout.items,
        options: *options,
        raw_pool: Pool::default(),
        coded_pool: Pool::default(),
    };
    let work = thread_count(options.threads);
    let threads = Threads { work, write: sink.writers(work) };
    sink.write(0, &header())?;
    let mut assembly = Assembly::new(layout.items.len());
    pipeline::run(&stages, cuts.len(), threads, |i, done| {
        progress(done.coded.span.raw_len);
        Ok(assembly.add(&cuts[i], done))
    })?;
    let end = assembly.end;
    let tail = assembly.finish(&layout, original_len);
    sink.write(end, &tail)?;
    sink.flush()?;
    Ok(Summary { bytes_in: original_len, bytes_out: end + tail.len() as u64 })
}

/// A file as its spans come in, in order.
pub(crate) struct Assembly {
    end: u64,
    spans: Vec<Span>,
    /// Of items, or of the spans of one: its number and the checksum, in order.
    hashes: Vec<(usize, Hash)>,
}

impl Assembly {
    pub(crate) fn new(items: usize) -> Self {
        let hashes = Vec::with_capacity(items);
        Self { end: HEADER_LEN as u64, spans: Vec::new(), hashes }
    }

    /// Adds a span; returns its bytes and where they go.
    pub(crate) fn add(&mut self, cut: &Cut, done: Done) -> (u64, Vec<u8>) {
        self.hashes.extend(cut.items.clone().zip(done.hashes));
        let at = self.end;
        self.end += done.coded.bytes.len() as u64;
        self.spans.push(done.coded.span);
        (at, done.coded.bytes)
    }

    /// What comes behind the last span.
    pub(crate) fn finish(self, layout: &lmc_input::Source, original_len: u64) -> Vec<u8> {
        let mut rest = &self.hashes[..];
        let item = |(i, item): (usize, &SourceItem)| {
            let own = rest.iter().take_while(|(of, _)| *of == i).count();
            let (own, after) = rest.split_at(own);
            rest = after;
            let hash = match own {
                [] => hash(&[]),
                [(_, one)] => *one,
                _ => hash_of_hashes(&own.iter().map(|(_, hash)| *hash).collect::<Vec<_>>()),
            };
            Item { len: item.len, hash }
        };
        let items = layout.items.iter().enumerate().map(item).collect();
        let index = Index { kind: layout.kind, spans: self.spans, items }.write();
        let footer = Footer {
            body_len: self.end - HEADER_LEN as u64,
            index_len: index.len() as u64,
            index_hash: hash(&index),
            original_len,
        };
        [index, footer.write()].concat()
    }
}

/// What the input is.
pub(crate) fn look(source: &Source, len: u64) -> Result<lmc_input::Source> {
    if len >= 8 {
        let mut start = [0; 8];
        source.read(0, &mut start)?;
        if let Some(header_len) = lmc_input::header_len(start, len) {
            let header = source.read_vec(0, header_len)?;
            if let Some(layout) = lmc_input::parse(&header, len) {
                return Ok(layout);
            }
        }
    }
    Ok(lmc_input::Source::bytes(len))
}

struct Compress<'a, 'sink> {
    source: &'a Source<'a>,
    sink: &'a Sink<'sink>,
    cuts: &'a [Cut],
    items: &'a [SourceItem],
    options: Options,
    raw_pool: Pool<Buffer>,
    coded_pool: Pool<Vec<u8>>,
}

/// A coded span and the checksums of its items, or of its part of one.
pub(crate) struct Done {
    coded: CodedSpan,
    hashes: Vec<Hash>,
}

/// What a worker keeps.
pub(crate) struct Worker {
    spans: SpanEncoder,
    guesses: Encoder,
}

impl Worker {
    pub(crate) fn new(options: &Options) -> Self {
        let spans = SpanEncoder::new(options.level, options.verify);
        Self { spans, guesses: Encoder::new() }
    }

    /// Codes the bytes of `cut` into `out`, whose contents are replaced.
    pub(crate) fn encode(
        &mut self,
        cut: &Cut,
        items: &[SourceItem],
        raw: &[u8],
        out: Vec<u8>,
    ) -> Result<Done> {
        let guess = |encoder: &mut Encoder, level| guess::dtype(encoder, level, raw);
        let dtype = cut.dtype.unwrap_or_else(|| guess(&mut self.guesses, self.spans.level()));
        let spec = TensorSpec { dtype, row_len: cut.row_len };
        let mut hashes = ItemHasher::new(match &items[cut.items.clone()] {
            items @ [_, _, ..] => items.iter().map(|item| item.len).collect(),
            _ => vec![raw.len() as u64],
        });
        let coded = self.spans.encode(&spec, raw, out, |block| hashes.write(block));
        let coded = coded.map_err(|e| e.at(format_args!("bytes from {}", cut.range.start)))?;
        Ok(Done { coded, hashes: hashes.finish() })
    }
}

impl Stages for Compress<'_, '_> {
    type Read = Buffer;
    type Worker = Worker;
    type Done = Done;
    type Write = (u64, Vec<u8>);

    fn read(&self, i: usize) -> Result<Buffer> {
        let range = &self.cuts[i].range;
        let mut buffer = self.raw_pool.take();
        self.source.read(range.start, buffer.sized(range.end - range.start)?)?;
        Ok(buffer)
    }

    fn worker(&self) -> Worker {
        Worker::new(&self.options)
    }

    fn work(&self, worker: &mut Worker, i: usize, buffer: Buffer) -> Result<Done> {
        let out = self.coded_pool.take();
        let done = worker.encode(&self.cuts[i], self.items, buffer.bytes(), out)?;
        self.raw_pool.give(buffer);
        Ok(done)
    }

    fn write(&self, (at, bytes): (u64, Vec<u8>)) -> Result<()> {
        self.sink.write(at, &bytes)?;
        self.coded_pool.give(bytes);
        Ok(())
    }
}
