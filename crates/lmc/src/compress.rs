//! A file to `.lmc`.

use crate::guess;
use crate::io::{Input, Output, Sink, Source};
use crate::pipeline::{self, Buffer, Pool, Stages, Threads, thread_count};
use crate::span::{CodedSpan, SpanEncoder};
use crate::{Options, Progress, Summary};
use lmc_codec::{Encoder, TensorSpec};
use lmc_format::file::header;
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Footer, HEADER_LEN, Hash, Index, Item, Result, hash};
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
    let mut end = HEADER_LEN as u64;
    let mut spans = Vec::with_capacity(cuts.len());
    let mut hashes = ItemHashes::new(layout.items.len());
    pipeline::run(&stages, cuts.len(), threads, |i, done| {
        hashes.add(&cuts[i].items, done.hashes);
        progress(done.coded.span.raw_len);
        let at = end;
        end += done.coded.bytes.len() as u64;
        spans.push(done.coded.span);
        Ok((at, done.coded.bytes))
    })?;
    let items = layout.items.iter().zip(hashes.finish());
    let items = items.map(|(item, hash)| Item { len: item.len, hash }).collect();
    let index = Index { kind: layout.kind, spans, items }.write();
    let footer = Footer {
        body_len: end - HEADER_LEN as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len,
    };
    let tail = [index, footer.write()].concat();
    sink.write(end, &tail)?;
    sink.flush()?;
    Ok(Summary { bytes_in: original_len, bytes_out: end + tail.len() as u64 })
}

/// What the input is.
fn look(source: &Source, len: u64) -> Result<lmc_input::Source> {
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
struct Done {
    coded: CodedSpan,
    hashes: Vec<Hash>,
}

/// What a worker keeps.
struct Worker {
    spans: SpanEncoder,
    guesses: Encoder,
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
        let spans = SpanEncoder::new(self.options.level, self.options.verify);
        Worker { spans, guesses: Encoder::new() }
    }

    fn work(&self, worker: &mut Worker, i: usize, buffer: Buffer) -> Result<Done> {
        let cut = &self.cuts[i];
        let raw = buffer.bytes();
        let dtype = cut
            .dtype
            .unwrap_or_else(|| guess::dtype(&mut worker.guesses, worker.spans.level(), raw));
        let spec = TensorSpec { dtype, row_len: cut.row_len };
        let coded = worker.spans.encode(&spec, raw, self.coded_pool.take());
        let coded = coded.map_err(|e| e.at(format_args!("bytes from {}", cut.range.start)))?;
        let hashes = match &self.items[cut.items.clone()] {
            items @ [_, _, ..] => item_hashes(raw, items.iter().map(|item| item.len)),
            _ => vec![coded.raw_hash],
        };
        self.raw_pool.give(buffer);
        Ok(Done { coded, hashes })
    }

    fn write(&self, (at, bytes): (u64, Vec<u8>)) -> Result<()> {
        self.sink.write(at, &bytes)?;
        self.coded_pool.give(bytes);
        Ok(())
    }
}

/// The checksums of items of these lengths, of which `raw` is made.
pub(crate) fn item_hashes(raw: &[u8], lens: impl Iterator<Item = u64>) -> Vec<Hash> {
    let mut rest = raw;
    let take = |len: u64| {
        let (bytes, after) = rest.split_at(len as usize);
        rest = after;
        hash(bytes)
    };
    lens.map(take).collect()
}

/// The checksums of items as their spans come in.
struct ItemHashes(Vec<Vec<Hash>>);

impl ItemHashes {
    fn new(count: usize) -> Self {
        Self(vec![Vec::new(); count])
    }

    fn add(&mut self, items: &std::ops::Range<usize>, hashes: Vec<Hash>) {
        for (item, hash) in self.0[items.clone()].iter_mut().zip(hashes) {
            item.push(hash);
        }
    }

    fn finish(self) -> impl Iterator<Item = Hash> {
        self.0.into_iter().map(|hashes| match hashes[..] {
            [] => hash(&[]),
            [one] => one,
            _ => hash_of_hashes(&hashes),
        })
    }
}
