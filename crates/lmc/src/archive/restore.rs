//! Restores a `.lmc` file to its original.

use crate::archive::Archive;
use crate::archive::original::{Original, OriginalWorker, SpanHashes};
use crate::base::budget::{Budget, Effort, alone_if_spent};
use crate::base::needed::Going;
use crate::crew::Crew;
use crate::io::{Output, Sink};
use crate::item_hash::ItemHasher;
use crate::leaves::LeafPart;
use crate::pipeline::{self, Buffer, Stages};
use crate::span::{SpanDecoder, SpanPart, check_hash};
use crate::{Context, Summary};
use lmc_format::{Hash, Hasher, Item, Result, StoredIndex, hash};
use std::ops::Range;

/// Restores all of the original. Every checksum is verified before its bytes count as restored.
/// Long runs of zeros become holes in a file.
///
/// On an error the output is incomplete: a stream has some bytes of it, and a [`crate::Publish`]
/// that is not committed leaves nothing.
pub fn decompress(archive: &Archive, output: Output, context: &Context) -> Result<Summary> {
    let input = archive.source.stamp()?.map(|stamp| stamp.id);
    Going { input, replaced: output.replaced() }.check_restore(archive, context)?;
    let sink = Sink::new(output);
    sink.clear()?;
    restore(archive, Some(&sink), context)?;
    sink.finish(archive.original_len())?;
    Ok(Summary { bytes_in: archive.file_len(), bytes_out: archive.original_len() })
}

/// Decodes and checks everything; the restored bytes go to `sink`, if there is one.
pub(crate) fn restore(archive: &Archive, sink: Option<&Sink>, context: &Context) -> Result<()> {
    restore_within(&archive.budget(context), archive, sink, context)
}

pub(crate) fn restore_within(
    budget: &Budget,
    archive: &Archive,
    sink: Option<&Sink>,
    context: &Context,
) -> Result<()> {
    // Checked before anything is written.
    archive.height(0, context)?;
    let index = &archive.index;
    let original = Original::new(archive, budget)?;
    // The items of an arranged original need no check if the content hash is checked, but a test
    // checks everything.
    let has_items = !original.is_arranged() || sink.is_none();
    let span_items = has_items.then(|| SpanItems::new(index)).transpose()?;
    let groups = Groups::new(index, original.first_span);
    let (mut checks, mut next) = (original.checks()?, 0);
    let run = |context: &Context| {
        let first = next;
        let (original, groups, crew) = (&original, &groups, &context.crew);
        let (span_items, ahead) = (span_items.as_ref(), context.thread_count());
        let stages =
            Restore { archive, budget, sink, original, span_items, groups, first, ahead, crew };
        pipeline::run(&stages, groups.count() - first, context, |k, done| {
            let spans = groups.spans(first + k);
            let data = index.raw_start(spans.start)..index.raw_start(spans.end);
            checks.add(index, spans, done.hashes, done.leaves)?;
            context.progress.add(data.end - data.start);
            next = first + k + 1;
            Ok((index.order.covered(&data).start, done.raw))
        })
    };
    alone_if_spent(&[budget], context, run)?;
    let rest = original.rest();
    if let Some(sink) = sink.filter(|_| !rest.is_empty()) {
        sink.write(archive.original_len() - rest.len() as u64, rest)?;
    }
    checks.finish(archive, rest)?;
    check_empty_items(index)
}

/// Spans that go through the pipeline together. Handing over a span of a few bytes takes longer
/// than decoding it, and a file may have millions of them.
struct Groups {
    starts: Vec<u32>,
    end: usize,
}

/// Most bytes of the original, or of the file, in one group of spans.
const GROUP_LEN: u64 = 1 << 18;
/// Most spans in one group.
const GROUP_SPANS: usize = 1 << 12;

impl Groups {
    /// All spans from `first` on.
    fn new(index: &StoredIndex, first: usize) -> Self {
        let mut starts: Vec<u32> = Vec::new();
        let (mut raw, mut coded) = (0, 0);
        for i in first..index.span_count() {
            (raw, coded) = (raw + index.raw_len(i), coded + index.coded_len(i));
            let is_full = |&start: &u32| i - start as usize >= GROUP_SPANS;
            if raw > GROUP_LEN || coded > GROUP_LEN || starts.last().is_none_or(is_full) {
                (raw, coded) = (index.raw_len(i), index.coded_len(i));
                // The largest index has fewer spans than this can count.
                starts.push(i as u32);
            }
        }
        Self { starts, end: index.span_count() }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    /// The spans of group `k`.
    fn spans(&self, k: usize) -> Range<usize> {
        let end = self.starts.get(k + 1).map_or(self.end, |&end| end as usize);
        self.starts[k] as usize..end
    }
}

/// Fails unless empty items have the checksum of an empty input.
pub(crate) fn check_empty_items(index: &StoredIndex) -> Result<()> {
    for (i, item) in index.items().enumerate() {
        let item = item?;
        if item.len == 0 {
            check_hash(hash(&[]), item.hash, &format!("item {i}"))?;
        }
    }
    Ok(())
}

/// Which items each span holds, or which item it is part of. The index has been checked: an item
/// lies within one span or consists of whole spans.
#[derive(Debug)]
pub(crate) struct SpanItems(Vec<u32>);

/// Set where a span continues an item that began before it.
const GOES_ON: u32 = 1 << 31;

impl SpanItems {
    pub(crate) fn new(index: &StoredIndex) -> Result<Self> {
        let mut firsts = Vec::with_capacity(index.span_count());
        let mut cursor = Cursor::default();
        for i in 0..index.span_count() {
            cursor.skip_empty(index)?;
            let goes_on = if cursor.start < index.raw_start(i) { GOES_ON } else { 0 };
            // The largest index has too few items to reach the flag.
            firsts.push(cursor.item as u32 | goes_on);
            cursor.pass(index, i, |_, _| Ok(()))?;
        }
        Ok(Self(firsts))
    }

    /// The lengths of the parts of span `i` that have their own checksum: the items that it holds,
    /// or the whole span if it is part of one item.
    pub(crate) fn lens(&self, index: &StoredIndex, i: usize) -> Result<Vec<u64>> {
        let raw_len = index.raw_len(i);
        let (first, goes_on) = (self.0[i] & !GOES_ON, self.0[i] & GOES_ON != 0);
        let (mut lens, mut sum) = (Vec::new(), 0);
        let mut item = first as usize;
        while !goes_on && sum < raw_len {
            let len = index.item(item)?.len;
            if len > raw_len - sum {
                break;
            }
            lens.extend(Some(len).filter(|&len| len > 0));
            sum += len;
            item += 1;
        }
        Ok(if sum == raw_len { lens } else { vec![raw_len] })
    }
}

/// A position in the items that advances span by span.
#[derive(Debug, Default)]
struct Cursor {
    item: usize,
    /// Where the item starts.
    start: u64,
}

impl Cursor {
    /// Skips empty items.
    fn skip_empty(&mut self, index: &StoredIndex) -> Result<()> {
        while self.item < index.item_count() && index.item(self.item)?.len == 0 {
            self.item += 1;
        }
        Ok(())
    }

    /// Advances past the first item, which spans before `first` hold.
    fn skip_first(&mut self, index: &StoredIndex, first: usize) -> Result<()> {
        self.start = index.raw_start(first);
        self.item = 1;
        self.skip_empty(index)
    }

    /// Advances past the items that end in span `i` and calls `ended` with each.
    fn pass(
        &mut self,
        index: &StoredIndex,
        i: usize,
        mut ended: impl FnMut(usize, Item) -> Result<()>,
    ) -> Result<()> {
        let end = index.raw_start(i) + index.raw_len(i);
        while self.start < end && self.item < index.item_count() {
            let item = index.item(self.item)?;
            if item.len > end - self.start {
                break;
            }
            ended(self.item, item)?;
            self.start += item.len;
            self.item += 1;
        }
        Ok(())
    }
}

/// Compares the checksums of items as their spans come in, in order.
#[derive(Debug, Default)]
pub(crate) struct ItemChecks {
    cursor: Cursor,
    /// The state of an item that continues in the next span.
    open: Option<OpenItem>,
}

/// The checksums of the spans of one item.
struct OpenItem {
    first: Hash,
    all: Hasher,
    count: usize,
}

impl std::fmt::Debug for OpenItem {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("OpenItem").field("count", &self.count).finish_non_exhaustive()
    }
}

impl ItemChecks {
    /// For the spans from `first` on.
    pub(crate) fn after(index: &StoredIndex, first: usize) -> Result<Self> {
        let mut checks = Self::default();
        if first > 0 {
            checks.cursor.skip_first(index, first)?;
        }
        Ok(checks)
    }

    /// Takes the checksums of span `i`; fails unless the items that end with it have the right
    /// ones.
    pub(crate) fn add(&mut self, index: &StoredIndex, i: usize, hashes: Vec<Hash>) -> Result<()> {
        self.cursor.skip_empty(index)?;
        let is_part = index.raw_start(i) > self.cursor.start
            || index.item(self.cursor.item)?.len > index.raw_len(i);
        if is_part {
            self.go_on(&hashes);
        }
        let (open, mut hashes) = (&mut self.open, hashes.into_iter());
        self.cursor.pass(index, i, |number, item| {
            let found = match (is_part, item.len) {
                (_, 0) => None,
                (true, _) => open.take().map(|open| match open.count {
                    1 => open.first,
                    _ => open.all.finish(),
                }),
                (false, _) => hashes.next(),
            };
            match found {
                Some(found) => {
                    check_hash(found, item.hash, &format!("item {number} of the original"))
                }
                None => Ok(()),
            }
        })
    }

    fn go_on(&mut self, hashes: &[Hash]) {
        for &hash in hashes {
            let open = self.open.get_or_insert_with(|| OpenItem {
                first: hash,
                all: Hasher::default(),
                count: 0,
            });
            open.all.write(&hash.to_le_bytes());
            open.count += 1;
        }
    }
}

/// Decodes all of span `i` into `out`. Returns the checksums of its items, or the checksum of the
/// part if the span is part of an item.
pub(crate) fn decode_part(
    archive: &Archive,
    i: usize,
    span_items: &SpanItems,
    decoder: &mut SpanDecoder,
    coded: &[u8],
    out: &mut [u8],
    effort: Effort,
) -> Result<Vec<Hash>> {
    let span = archive.index.span(i)?;
    let mut hashes = ItemHasher::new(span_items.lens(&archive.index, i)?);
    let part = SpanPart { span: &span, coded, wanted: 0..span.raw_len };
    archive.decode_span(decoder, i, &part, out, effort, |block| hashes.write(block))?;
    Ok(hashes.finish())
}

struct Restore<'a, 'sink> {
    archive: &'a Archive,
    budget: &'a Budget,
    sink: Option<&'a Sink<'sink>>,
    original: &'a Original<'a>,
    span_items: Option<&'a SpanItems>,
    groups: &'a Groups,
    /// The first group that is not restored yet; groups here are counted from it.
    first: usize,
    /// How many groups further a group is read ahead.
    ahead: usize,
    crew: &'a Crew,
}

/// Restored spans with the bytes outside stretches that are before them, and their checksums.
struct RestoredSpans {
    raw: Buffer,
    hashes: SpanHashes,
    leaves: Option<LeafPart>,
}

impl Stages for Restore<'_, '_> {
    type Read = Buffer;
    type Worker = OriginalWorker;
    type Done = RestoredSpans;
    type Write = (u64, Buffer);

    fn is_far(&self) -> bool {
        self.archive.source.is_far()
    }

    fn read(&self, k: usize) -> Result<Buffer> {
        let ahead = self.first + k + self.ahead;
        if ahead < self.groups.count() {
            let spans = self.groups.spans(ahead);
            let (start, end) =
                (self.archive.file_start(spans.start), self.archive.file_start(spans.end));
            self.archive.source.read_ahead(start, end - start);
        }
        let mut coded: Buffer = self.crew.take();
        let spans = self.groups.spans(self.first + k);
        let start = self.archive.file_start(spans.start);
        let len = self.archive.file_start(spans.end) - start;
        self.archive.source.read(start, coded.sized(len)?)?;
        Ok(coded)
    }

    fn work(&self, worker: &mut OriginalWorker, k: usize, coded: Buffer) -> Result<RestoredSpans> {
        let index = &self.archive.index;
        let spans = self.groups.spans(self.first + k);
        let data = index.raw_start(spans.start)..index.raw_start(spans.end);
        let covered = index.order.covered(&data);
        let mut raw: Buffer = self.crew.take();
        let out = raw.sized(covered.end - covered.start)?;
        let (effort, from) = (self.budget.effort(), (spans, coded.bytes()));
        let (hashes, leaves) =
            worker.decode(self.archive, self.original, from, self.span_items, out, effort)?;
        self.crew.give(coded);
        Ok(RestoredSpans { raw, hashes, leaves })
    }

    fn write(&self, (at, raw): (u64, Buffer)) -> Result<()> {
        if let Some(sink) = self.sink {
            sink.write_sparse(at, raw.bytes())?;
        }
        self.crew.give(raw);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
