//! `.lmc` back to the file it came from.

use crate::archive::{Archive, SpanPart};
use crate::io::{Output, Sink};
use crate::item_hash::ItemHasher;
use crate::pipeline::{self, Buffer, Pool, Stages, Threads, thread_count};
use crate::span::{SpanDecoder, check_hash};
use crate::{Progress, Summary};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Hash, Index, Result, hash};
use std::ops::Range;

/// Restores all of the original; every checksum is tried before its bytes count as restored. Long
/// runs of zeros become holes in a file.
///
/// On an error the output is incomplete: a stream has some bytes of it, and a [`crate::Publish`]
/// that is not committed leaves nothing.
pub fn decompress(
    archive: &Archive,
    output: Output,
    threads: usize,
    progress: Progress,
) -> Result<Summary> {
    let sink = Sink::new(output);
    sink.clear()?;
    restore(archive, Some(&sink), threads, progress)?;
    sink.finish(archive.original_len())?;
    Ok(Summary { bytes_in: archive.file_len(), bytes_out: archive.original_len() })
}

/// Decodes and checks everything; what is restored goes to `sink`, if there is one.
pub(crate) fn restore(
    archive: &Archive,
    sink: Option<&Sink>,
    threads: usize,
    progress: Progress,
) -> Result<()> {
    // Before anything is written.
    archive.check_bases(0)?;
    let parts = parts(&archive.index);
    let (coded_pool, raw_pool) = (Pool::default(), Pool::default());
    let stages = Restore { archive, sink, parts: &parts, coded_pool, raw_pool };
    let work = thread_count(threads);
    let threads = Threads { work, write: sink.map_or(1, |sink| sink.writers(work)) };
    let mut open: Vec<Hash> = Vec::new();
    pipeline::run(&stages, parts.len(), threads, |i, done| {
        check_part(&archive.index, &parts[i], done.hashes, &mut open)?;
        progress(archive.index.spans[i].raw_len);
        Ok((archive.places[i].raw, done.raw))
    })?;
    check_empty_items(&archive.index)
}

/// Fails unless items of no bytes have the checksum of no bytes.
pub(crate) fn check_empty_items(index: &Index) -> Result<()> {
    let empty = index.items.iter().enumerate().filter(|(_, item)| item.len == 0);
    for (i, item) in empty {
        check_hash(hash(&[]), item.hash, &format!("item {i}"))?;
    }
    Ok(())
}

/// Takes the checksums of the next span; fails unless the items that end with it have theirs.
/// `open` keeps those of an item that goes on.
pub(crate) fn check_part(
    index: &Index,
    part: &Part,
    hashes: Vec<Hash>,
    open: &mut Vec<Hash>,
) -> Result<()> {
    open.extend(hashes);
    if !part.ends_items {
        return Ok(());
    }
    let items = part.items.clone().filter(|&i| index.items[i].len > 0);
    let found = match (part.is_whole, &open[..]) {
        (true, _) | (false, [_]) => std::mem::take(open),
        _ => vec![hash_of_hashes(&std::mem::take(open))],
    };
    for (item, found) in items.zip(found) {
        check_hash(found, index.items[item].hash, &format!("item {item} of the original"))?;
    }
    Ok(())
}

/// How a span and the items meet.
pub(crate) struct Part {
    /// The items that it holds, or the one that it is part of.
    items: Range<usize>,
    /// Whether it holds them whole.
    is_whole: bool,
    /// Whether no later span is part of them.
    ends_items: bool,
    /// Lengths of the items that it holds, those of 0 bytes left out.
    lens: Vec<u64>,
}

/// The parts of an index, which has been checked: an item lies in one span or is whole spans.
pub(crate) fn parts(index: &Index) -> Vec<Part> {
    let mut parts = Vec::with_capacity(index.spans.len());
    let (mut item, mut item_start, mut start) = (0, 0_u64, 0_u64);
    for span in &index.spans {
        let end = start + span.raw_len;
        let first = item;
        let mut lens = Vec::new();
        while let Some(len) = index.items.get(item).map(|item| item.len) {
            if item_start + len > end {
                break;
            }
            if len > 0 {
                lens.push(len);
            }
            item_start += len;
            item += 1;
            if item_start == end {
                break;
            }
        }
        let ends_items = item_start == end;
        let is_whole = ends_items && lens.iter().sum::<u64>() == span.raw_len;
        let items = first..if ends_items { item } else { first + 1 };
        parts.push(Part { items, is_whole, ends_items, lens });
        start = end;
    }
    parts
}

/// Decodes all of span `i` into `out`; returns the checksums of its items, or of its part of one.
pub(crate) fn decode_part(
    archive: &Archive,
    i: usize,
    part: &Part,
    decoder: &mut SpanDecoder,
    coded: &[u8],
    out: &mut [u8],
) -> Result<Vec<Hash>> {
    let raw_len = archive.index.spans[i].raw_len;
    let mut hashes = ItemHasher::new(match &part.lens[..] {
        lens @ [_, _, ..] => lens.to_vec(),
        _ => vec![raw_len],
    });
    let seen = |block: &[u8]| hashes.write(block);
    archive.decode_span(decoder, SpanPart { i, coded, wanted: 0..raw_len }, out, 0, seen)?;
    Ok(hashes.finish())
}

struct Restore<'a, 'sink> {
    archive: &'a Archive,
    sink: Option<&'a Sink<'sink>>,
    parts: &'a [Part],
    coded_pool: Pool<Buffer>,
    raw_pool: Pool<Buffer>,
}

/// A restored span and the checksums of its items, or of its part of one.
struct Done {
    raw: Buffer,
    hashes: Vec<Hash>,
}

impl Stages for Restore<'_, '_> {
    type Read = Buffer;
    type Worker = SpanDecoder;
    type Done = Done;
    type Write = (u64, Buffer);

    fn read(&self, i: usize) -> Result<Buffer> {
        let mut coded = self.coded_pool.take();
        let len = self.archive.index.spans[i].coded_len();
        self.archive.source.read(self.archive.places[i].file, coded.sized(len)?)?;
        Ok(coded)
    }

    fn worker(&self) -> SpanDecoder {
        SpanDecoder::default()
    }

    fn work(&self, decoder: &mut SpanDecoder, i: usize, coded: Buffer) -> Result<Done> {
        let mut raw = self.raw_pool.take();
        let out = raw.sized(self.archive.index.spans[i].raw_len)?;
        let hashes = decode_part(self.archive, i, &self.parts[i], decoder, coded.bytes(), out)?;
        self.coded_pool.give(coded);
        Ok(Done { raw, hashes })
    }

    fn write(&self, (at, raw): (u64, Buffer)) -> Result<()> {
        if let Some(sink) = self.sink {
            sink.write_sparse(at, raw.bytes())?;
        }
        self.raw_pool.give(raw);
        Ok(())
    }
}
