//! A file to `.lmc`.

use crate::effort::alone_if_spent;
use crate::guess;
use crate::io::{Input, Output, Sink, Source};
use crate::items::{ItemHashes, Looked, hasher};
use crate::matching::{self, Spans};
use crate::pipeline::{self, Buffer, Pool, Stages, Threads, thread_count};
use crate::reference;
use crate::span::{CodedSpan, SpanEncoder};
use crate::witness::Witness;
use crate::{Options, Progress, Reference, Summary};
use lmc_codec::{Dtype, Encoder, TensorSpec};
use lmc_format::file::header;
use lmc_format::{Footer, HEADER_LEN, Hash, Index, Result, Span, hash};
use lmc_input::Cut;
use std::ops::Range;

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
    Ok(compress_known(input, output, options, progress)?.summary)
}

/// What was compressed, by its name, and what it was compressed on.
#[derive(Clone, Debug)]
pub struct Compressed {
    /// Bytes in and out.
    pub summary: Summary,
    /// The content hash of the original.
    pub content_hash: u128,
    /// The bases that are needed to restore it; of those offered only what was of use.
    pub bases: Vec<lmc_format::Base>,
}

/// The same as [`compress`]; tells more of what was written.
pub fn compress_known(
    input: Input,
    output: Output,
    options: &Options,
    progress: Progress,
) -> Result<Compressed> {
    compress_source(&Source::new(input)?, output, options, progress)
}

fn compress_source(
    source: &Source,
    output: Output,
    options: &Options,
    progress: Progress,
) -> Result<Compressed> {
    let stamp = source.stamp()?;
    let sink = Sink::new(output);
    let job = Job::new(source, options)?;
    sink.write(0, &header())?;
    let mut assembly = Assembly::new(&job);
    let mut next = 0;
    alone_if_spent(&options.bases.budgets(), thread_count(options.threads), |work| {
        let first = next;
        let (raw_pool, coded_pool) = (Pool::default(), Pool::default());
        let stages = Compress { job: &job, sink: &sink, first, raw_pool, coded_pool };
        let threads = Threads { work, write: sink.writers(work) };
        pipeline::run(&stages, job.spans.cuts.len() - first, threads, |i, done| {
            progress(done.coded.span.raw_len);
            next = first + i + 1;
            Ok(assembly.add(&job.spans.cuts[first + i], done))
        })
    })?;
    let end = assembly.end;
    let (tail, index) = assembly.finish_known()?;
    // What was coded is neither the old file nor the new one, or is on neither the old base nor the
    // new one, if they have changed meanwhile.
    source.check_unchanged(stamp)?;
    options.bases.check_unchanged()?;
    sink.write(end, &tail)?;
    sink.flush()?;
    let summary = Summary { bytes_in: job.len, bytes_out: end + tail.len() as u64 };
    Ok(Compressed { summary, content_hash: index.content_hash(), bases: index.bases })
}

/// A file that is to be compressed.
pub(crate) struct Job<'a> {
    source: &'a Source<'a>,
    options: &'a Options,
    len: u64,
    layout: lmc_input::Source,
    pub spans: Spans,
    /// Of what is read more than once: the bytes that told the layout, and what spans of the file
    /// itself refer to.
    own: Witness,
}

impl<'a> Job<'a> {
    pub(crate) fn new(source: &'a Source<'a>, options: &'a Options) -> Result<Self> {
        let len = source.len()?;
        let looked = Looked::new(source, len)?;
        let spans = matching::spans(source, &looked, options)?;
        let own = Witness::new(read_twice(&spans, looked.start.len() as u64));
        own.saw_start(&looked.start, |at, out| source.read(at, out))?;
        Ok(Self { source, options, len, layout: looked.layout, spans, own })
    }
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

/// A file as its spans come in, in order.
pub(crate) struct Assembly<'a> {
    job: &'a Job<'a>,
    end: u64,
    spans: Vec<Span>,
    hashes: ItemHashes,
}

impl<'a> Assembly<'a> {
    pub(crate) fn new(job: &'a Job<'a>) -> Self {
        let hashes = ItemHashes::new(job.layout.items.len());
        Self { job, end: HEADER_LEN as u64, spans: Vec::new(), hashes }
    }

    /// Adds a span; returns its bytes and where they go.
    pub(crate) fn add(&mut self, cut: &Cut, done: Done) -> (u64, Vec<u8>) {
        self.hashes.add(cut, done.hashes);
        let at = self.end;
        self.end += done.coded.bytes.len() as u64;
        self.spans.push(done.coded.span);
        (at, done.coded.bytes)
    }

    /// What comes behind the last span.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.finish_known()?.0)
    }

    fn finish_known(mut self) -> Result<(Vec<u8>, Index)> {
        let bases = self.bases()?;
        let (kind, items) = (self.job.layout.kind, self.hashes.finish(&self.job.layout));
        let index = Index { kind, bases, spans: self.spans, items };
        let bytes = index.write();
        let footer = Footer {
            body_len: self.end - HEADER_LEN as u64,
            index_len: bytes.len() as u64,
            index_hash: hash(&bytes),
            original_len: self.job.len,
        };
        Ok(([bytes, footer.write()].concat(), index))
    }

    /// The bases that spans refer to, or all if that is asked for, numbered anew.
    fn bases(&mut self) -> Result<Vec<lmc_format::Base>> {
        let mut bases = Vec::new();
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
                bases.push(lmc_format::Base { hash, len, name: base.name().to_string() });
            }
        }
        Ok(bases)
    }
}

struct Compress<'a, 'sink> {
    job: &'a Job<'a>,
    sink: &'a Sink<'sink>,
    /// The first span that is not coded yet, from which on they are counted here.
    first: usize,
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
    base: Buffer,
    wide: Buffer,
}

impl Worker {
    pub(crate) fn new(options: &Options) -> Self {
        let spans = SpanEncoder::new(options.level, options.verify);
        let (base, wide) = (Buffer::default(), Buffer::default());
        Self { spans, guesses: Encoder::new(), base, wide }
    }

    /// Codes the bytes of span `i` into `out`, whose contents are replaced.
    pub(crate) fn encode(&mut self, job: &Job, i: usize, raw: &[u8], out: Vec<u8>) -> Result<Done> {
        let cut = &job.spans.cuts[i];
        let reference = job.spans.references[i];
        if let Some(reference) = &reference {
            self.read_base(job, reference, raw.len())?;
        }
        let base = reference.map(|reference| (reference, self.base.bytes()));
        let dtype = match (cut.dtype, base) {
            (Some(dtype), _) => dtype,
            (None, Some((_, base))) if base == raw => Dtype::Bytes,
            (None, _) => guess::dtype(&mut self.guesses, self.spans.level(), raw),
        };
        let spec = TensorSpec { dtype, row_len: cut.row_len };
        let mut hashes = hasher(cut, &job.layout.items);
        let mut pieces = job.own.hasher(&cut.range);
        let coded = self.spans.encode(&spec, raw, base, out, |block| {
            hashes.write(block);
            pieces.iter_mut().for_each(|pieces| pieces.write(block));
        });
        let coded = coded.map_err(|e| e.at(format_args!("bytes from {}", cut.range.start)))?;
        job.own.saw_run(cut.range.start, pieces)?;
        Ok(Done { coded, hashes: hashes.finish() })
    }

    /// Reads the base of a span of `len` bytes.
    fn read_base(&mut self, job: &Job, reference: &Reference, len: usize) -> Result<()> {
        let part = 0..len as u64;
        let base = self.base.sized(len as u64)?;
        reference::read(reference, part, &mut self.wide, base, |start, out| {
            match (reference.source as usize).checked_sub(1) {
                None => job.own.read(start, out, |at, out| job.source.read(at, out)),
                Some(i) => job.options.bases.list()[i].read_alone(start, out),
            }
        })
    }
}

impl Stages for Compress<'_, '_> {
    type Read = Buffer;
    type Worker = Worker;
    type Done = Done;
    type Write = (u64, Vec<u8>);

    fn read(&self, i: usize) -> Result<Buffer> {
        let range = &self.job.spans.cuts[self.first + i].range;
        let mut buffer = self.raw_pool.take();
        self.job.source.read(range.start, buffer.sized(range.end - range.start)?)?;
        Ok(buffer)
    }

    fn worker(&self) -> Worker {
        Worker::new(self.job.options)
    }

    fn work(&self, worker: &mut Worker, i: usize, buffer: Buffer) -> Result<Done> {
        let out = self.coded_pool.take();
        let done = worker.encode(self.job, self.first + i, buffer.bytes(), out)?;
        self.raw_pool.give(buffer);
        Ok(done)
    }

    fn write(&self, (at, bytes): (u64, Vec<u8>)) -> Result<()> {
        self.sink.write(at, &bytes)?;
        self.coded_pool.give(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Archive, Bases, ReadAt, memory};
    use lmc_format::ErrorKind;
    use lmc_testkit::casts;
    use lmc_testkit::data::{self, Kind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// A file that somebody writes to, in a way that no time stamp shows: its bytes change at a place
    /// as soon as all bytes of a range have been read at once.
    #[derive(Debug)]
    struct Written {
        bytes: Vec<u8>,
        place: usize,
        at_read_of: Range<usize>,
        has_changed: AtomicBool,
        reads: AtomicUsize,
    }

    impl Written {
        fn new(bytes: Vec<u8>, place: usize, at_read_of: Range<usize>) -> Arc<Self> {
            let (has_changed, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
            Arc::new(Self { bytes, place, at_read_of, has_changed, reads })
        }
    }

    impl ReadAt for Written {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
            let range = at as usize..at as usize + out.len();
            out.copy_from_slice(&self.bytes[range.clone()]);
            if range.contains(&self.place) && self.has_changed.load(Ordering::SeqCst) {
                out[self.place - range.start] ^= 1;
                self.reads.fetch_add(1, Ordering::SeqCst);
            }
            if range.start <= self.at_read_of.start && self.at_read_of.end <= range.end {
                self.has_changed.store(true, Ordering::SeqCst);
            }
            Ok(())
        }
    }

    /// A safetensors file of tensors: name, type and bytes; returns it with where each one is.
    fn safetensors(tensors: &[(&str, &str, &[u8])]) -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut entries, mut end) = (Vec::new(), 0);
        let mut ranges = Vec::new();
        for (name, dtype, bytes) in tensors {
            let start = end;
            end += bytes.len();
            let count = bytes.len() / if *dtype == "F32" { 4 } else { 2 };
            entries.push(format!(
                r#""{name}":{{"dtype":"{dtype}","shape":[{count}],"data_offsets":[{start},{end}]}}"#
            ));
            ranges.push(start..end);
        }
        let header = format!("{{{}}}", entries.join(","));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        let first = file.len();
        tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes));
        let ranges = ranges.into_iter().map(|r| r.start + first..r.end + first).collect();
        (file, ranges)
    }

    fn bf16(floats: &[u8]) -> Vec<u8> {
        let (words, _) = floats.as_chunks();
        let cast = |&word| casts::bf16_bits(f32::from_le_bytes(word)).to_le_bytes();
        words.iter().flat_map(cast).collect()
    }

    /// Compresses to a stream and to memory; each gives what can be restored, or a conflict.
    fn check(make: impl Fn() -> (Arc<Written>, Options, Source<'static>), is_conflict: bool) {
        for to_memory in [false, true] {
            for verify in [false, true] {
                let (written, options, source) = make();
                let options = Options { verify, threads: 1, ..options };
                let coded = if to_memory {
                    memory::compress_source(&source, &options, Vec::new(), &mut [])
                        .map(|(_, parts)| parts.concat())
                } else {
                    let mut out = Vec::new();
                    compress_source(&source, Output::Stream(&mut out), &options, &|_| ())
                        .map(|_| out)
                };
                let reads = written.reads.load(Ordering::SeqCst);
                match coded {
                    Err(error) => assert_eq!(error.kind, ErrorKind::Conflict, "{error}"),
                    Ok(coded) => {
                        assert!(!is_conflict, "{reads} reads of changed bytes gave a file");
                        let archive = Archive::from_bytes_on(coded, &options.bases).unwrap();
                        archive.test(1, &|_| ()).unwrap();
                    }
                }
                assert!(!is_conflict || reads > 0, "the bytes never changed");
            }
        }
    }

    /// A tensor that is tied to an earlier one of its file, or is the rounding of one, refers to it; if
    /// that is written to between its coding and its reading as a base, there is no file.
    #[test]
    fn what_a_span_refers_to_is_what_was_stored() {
        let floats = data::words(Kind::Weights, 4, true, 60_000, 1);
        let rounded = bf16(&floats);
        for (dtype, later) in [("F32", &floats), ("BF16", &rounded)] {
            let (file, places) = safetensors(&[("w", "F32", &floats), ("ema.w", dtype, later)]);
            for place in [0, 70_001, 239_999] {
                let place = places[0].start + place;
                check(
                    || {
                        let written = Written::new(file.clone(), place, places[0].clone());
                        let source = Source::Elsewhere(written.clone());
                        (written, Options::default(), source)
                    },
                    true,
                );
            }
        }
    }

    /// The same where the bytes change before they are coded, after they were looked at.
    #[test]
    fn what_was_looked_at_is_what_is_stored() {
        let floats = data::words(Kind::Weights, 4, true, 60_000, 2);
        let (file, places) = safetensors(&[("a", "F32", &floats), ("b", "F32", &floats)]);
        let header = 0..places[0].start;
        // In a name, so that the header is a good one before and after.
        let name = file.windows(3).position(|w| w == b"\"a\"").unwrap() + 1;
        check(
            || {
                let written = Written::new(file.clone(), name, header.clone());
                let source = Source::Elsewhere(written.clone());
                (written, Options::default(), source)
            },
            true,
        );
    }

    /// A raw base is named by a hash of its content; if it is written to between that and its reading,
    /// whichever comes first, there is no file.
    #[test]
    fn a_raw_base_is_what_its_hash_is_of() {
        let old = data::words(Kind::Weights, 4, true, 60_000, 3);
        let mut new = old.clone();
        new.iter_mut().step_by(4000).for_each(|byte| *byte ^= 1);
        let (old, places) = safetensors(&[("a", "F32", &old)]);
        for (dtype, new) in [("F32", new.clone()), ("BF16", bf16(&new))] {
            let (new, _) = safetensors(&[("a", dtype, &new)]);
            for place in [0, 70_001, 239_999] {
                // Its second half, which is read to code against it and to hash it.
                let half = places[0].start + 131_072..places[0].start + 196_608;
                check(
                    || {
                        let place = places[0].start + place;
                        let written = Written::new(old.clone(), place, half.clone());
                        let base: Arc<dyn ReadAt> = written.clone();
                        let bases = Bases::from_elsewhere(vec![("old".to_string(), base)], 1);
                        let options = Options { bases: bases.unwrap(), ..Options::default() };
                        (written, options, Source::Owned(new.clone()))
                    },
                    true,
                );
            }
        }
    }

    /// A restore reads of a raw base what its hash is of, or fails by a conflict.
    #[test]
    fn a_raw_base_that_changes_while_it_is_restored_from_is_a_conflict() {
        let old = data::words(Kind::Weights, 2, true, 100_000, 4);
        let mut new = old.clone();
        new.iter_mut().step_by(4000).for_each(|byte| *byte ^= 1);
        let given = Bases::from_bytes(vec![("old".to_string(), old.clone())], 1).unwrap();
        let options = Options { bases: given, threads: 1, ..Options::default() };
        let mut coded = Vec::new();
        compress_source(&Source::Owned(new), Output::Stream(&mut coded), &options, &|_| ())
            .unwrap();
        let written = Written::new(old, 77_777, 0..200_000);
        let base: Arc<dyn ReadAt> = written.clone();
        let bases = Bases::from_elsewhere(vec![("old".to_string(), base)], 1).unwrap();
        let archive = Archive::from_bytes_on(coded, &bases).unwrap();
        let error = archive.test(1, &|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    }
}
