//! `.lmc` back to the file it came from.

use crate::archive::Archive;
use crate::effort::{Budget, Effort};
use crate::io::{Output, Sink};
use crate::item_hash::ItemHasher;
use crate::pipeline::{self, Buffer, Pool, Stages, Threads, thread_count};
use crate::span::{SpanDecoder, SpanPart, check_hash};
use crate::{Progress, Summary};
use lmc_format::{Hash, Hasher, Item, Result, StoredIndex, hash};
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
    restore_within(&Budget::new(archive.original_len()), archive, sink, threads, progress)
}

pub(crate) fn restore_within(
    budget: &Budget,
    archive: &Archive,
    sink: Option<&Sink>,
    threads: usize,
    progress: Progress,
) -> Result<()> {
    // Before anything is written.
    archive.check_bases(0)?;
    let index = &archive.index;
    let (parts, groups) = (Parts::new(index)?, Groups::new(index));
    let (coded_pool, raw_pool) = (Pool::default(), Pool::default());
    let stages =
        Restore { archive, budget, sink, parts: &parts, groups: &groups, coded_pool, raw_pool };
    let work = thread_count(threads);
    let threads = Threads { work, write: sink.map_or(1, |sink| sink.writers(work)) };
    let mut items = ItemChecks::default();
    pipeline::run(&stages, groups.count(), threads, |k, done| {
        let spans = groups.spans(k);
        let start = index.raw_start(spans.start);
        for (i, hashes) in spans.clone().zip(done.hashes) {
            items.add(index, i, hashes)?;
        }
        progress(index.raw_start(spans.end) - start);
        Ok((start, done.raw))
    })?;
    check_empty_items(index)
}

/// Spans that go through the pipeline together: to pass on one of a few bytes takes longer than to
/// decode it, and a file may have millions of them.
struct Groups {
    starts: Vec<u32>,
    end: usize,
}

/// Bytes of the original, or of the file, in spans that are in one group.
const GROUP_LEN: u64 = 1 << 18;
/// Spans in one group.
const GROUP_SPANS: usize = 1 << 12;

impl Groups {
    fn new(index: &StoredIndex) -> Self {
        let mut starts: Vec<u32> = Vec::new();
        let (mut raw, mut coded) = (0, 0);
        for i in 0..index.span_count() {
            (raw, coded) = (raw + index.raw_len(i), coded + index.coded_len(i));
            let is_full = |&start: &u32| i - start as usize >= GROUP_SPANS;
            if raw > GROUP_LEN || coded > GROUP_LEN || starts.last().is_none_or(is_full) {
                (raw, coded) = (index.raw_len(i), index.coded_len(i));
                // An index is too short for more spans than that.
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

/// Fails unless items of no bytes have the checksum of no bytes.
pub(crate) fn check_empty_items(index: &StoredIndex) -> Result<()> {
    for (i, item) in index.items().enumerate() {
        let item = item?;
        if item.len == 0 {
            check_hash(hash(&[]), item.hash, &format!("item {i}"))?;
        }
    }
    Ok(())
}

/// Which items each span holds or is part of. The index has been checked: an item lies in one span or
/// is whole spans.
#[derive(Debug)]
pub(crate) struct Parts(Vec<u32>);

/// Set where a span goes on with an item that began before it.
const GOES_ON: u32 = 1 << 31;

impl Parts {
    pub(crate) fn new(index: &StoredIndex) -> Result<Self> {
        let mut firsts = Vec::with_capacity(index.span_count());
        let mut cursor = Cursor::default();
        for i in 0..index.span_count() {
            cursor.skip_empty(index)?;
            let goes_on = if cursor.start < index.raw_start(i) { GOES_ON } else { 0 };
            // An index is too short for as many items as the flag would cost.
            firsts.push(cursor.item as u32 | goes_on);
            cursor.pass(index, i, |_, _| Ok(()))?;
        }
        Ok(Self(firsts))
    }

    /// Lengths of what has a checksum of its own in span `i`: the items that it holds, or all of it if
    /// it is part of one.
    fn lens(&self, index: &StoredIndex, i: usize) -> Result<Vec<u64>> {
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

/// A place in the items, as spans go by.
#[derive(Debug, Default)]
struct Cursor {
    item: usize,
    /// Where the item starts.
    start: u64,
}

impl Cursor {
    /// Goes over items of no bytes.
    fn skip_empty(&mut self, index: &StoredIndex) -> Result<()> {
        while self.item < index.item_count() && index.item(self.item)?.len == 0 {
            self.item += 1;
        }
        Ok(())
    }

    /// Goes over the items that end in span `i` and calls `ended` with each.
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
    /// Of the spans of an item that goes on.
    open: Option<Open>,
}

/// The checksums of the spans of an item.
struct Open {
    first: Hash,
    all: Hasher,
    count: usize,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Open").field("count", &self.count).finish_non_exhaustive()
    }
}

impl ItemChecks {
    /// Takes the checksums of span `i`; fails unless the items that end with it have theirs.
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
            let open = self.open.get_or_insert_with(|| Open {
                first: hash,
                all: Hasher::default(),
                count: 0,
            });
            open.all.write(&hash.to_le_bytes());
            open.count += 1;
        }
    }
}

/// Decodes all of span `i` into `out`; returns the checksums of its items, or of its part of one.
pub(crate) fn decode_part(
    archive: &Archive,
    i: usize,
    parts: &Parts,
    decoder: &mut SpanDecoder,
    coded: &[u8],
    out: &mut [u8],
    effort: Effort,
) -> Result<Vec<Hash>> {
    let span = archive.index.span(i)?;
    let mut hashes = ItemHasher::new(parts.lens(&archive.index, i)?);
    let part = SpanPart { span: &span, coded, wanted: 0..span.raw_len };
    archive.decode_span(decoder, i, &part, out, effort, |block| hashes.write(block))?;
    Ok(hashes.finish())
}

struct Restore<'a, 'sink> {
    archive: &'a Archive,
    budget: &'a Budget,
    sink: Option<&'a Sink<'sink>>,
    parts: &'a Parts,
    groups: &'a Groups,
    coded_pool: Pool<Buffer>,
    raw_pool: Pool<Buffer>,
}

/// Restored spans and, for each, the checksums of its items, or of its part of one.
struct Done {
    raw: Buffer,
    hashes: Vec<Vec<Hash>>,
}

impl Stages for Restore<'_, '_> {
    type Read = Buffer;
    type Worker = SpanDecoder;
    type Done = Done;
    type Write = (u64, Buffer);

    fn read(&self, k: usize) -> Result<Buffer> {
        let mut coded = self.coded_pool.take();
        let spans = self.groups.spans(k);
        let start = self.archive.file_start(spans.start);
        let len = self.archive.file_start(spans.end) - start;
        self.archive.source.read(start, coded.sized(len)?)?;
        Ok(coded)
    }

    fn worker(&self) -> SpanDecoder {
        SpanDecoder::default()
    }

    fn work(&self, decoder: &mut SpanDecoder, k: usize, coded: Buffer) -> Result<Done> {
        let index = &self.archive.index;
        let spans = self.groups.spans(k);
        let mut raw = self.raw_pool.take();
        let mut out = raw.sized(index.raw_start(spans.end) - index.raw_start(spans.start))?;
        let mut rest = coded.bytes();
        let effort = self.budget.effort();
        let mut hashes = Vec::with_capacity(spans.len());
        for i in spans {
            let (own, after) = rest.split_at(index.coded_len(i) as usize);
            let (to, behind) = out.split_at_mut(index.raw_len(i) as usize);
            (rest, out) = (after, behind);
            hashes.push(decode_part(self.archive, i, self.parts, decoder, own, to, effort)?);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bases, Input, Level, Options};
    use lmc_format::hash::hash_of_hashes;
    use lmc_format::{
        Base, BaseUse, BlockKind, BlockPrefix, Coder, Columns, Conversion, ErrorKind, Footer,
        Index, Piece, Recipe, Reference, SourceKind, Span, WordMap, file,
    };
    use lmc_testkit::data::{self, Kind, Random};

    /// Bytes of a segment of the blocks below, the largest that there is.
    const SEGMENT_LEN: u64 = 8 << 20;

    /// A block of 16 MiB of zeros in a few bytes: two segments of planes that are constant.
    fn zeros() -> Vec<u8> {
        let mut block = Vec::new();
        BlockPrefix { kind: BlockKind::Coded, raw_len: 1 << 24 }.write(&mut block);
        let recipe = Recipe {
            width_log2: 3,
            base: BaseUse::None,
            map: WordMap::None,
            symbol_bits: 8,
            segment_log2: 20,
            bias: 0,
            flags: None,
            planes: vec![Coder::Constant(0); 8],
            columns: None,
        };
        recipe.write(&mut block);
        block.extend_from_slice(&[0; 6]);
        block
    }

    /// A file of such blocks and, behind them, as many spans of one byte as there are references.
    fn hostile(blocks: usize, references: &[Reference], bases: Vec<Base>) -> Vec<u8> {
        let (mut body, mut spans, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        let zeros_hash = hash(&vec![0; 1 << 24]);
        let mut add = |raw_len, block: &[u8], reference, raw_hash| {
            body.extend_from_slice(block);
            let blocks = vec![Piece { len: block.len() as u64, hash: hash(block) }];
            let recipe = None;
            spans.push(Span { raw_len, dtype: 0, block_log2: 24, reference, recipe, blocks });
            hashes.push(raw_hash);
        };
        (0..blocks).for_each(|_| add(1 << 24, &zeros(), None, zeros_hash));
        references.iter().for_each(|&reference| add(1, &[4, 1], Some(reference), hash(&[0])));
        assemble(&body, spans, &hashes, bases)
    }

    /// A file of these spans, whose originals have these hashes.
    fn assemble(body: &[u8], spans: Vec<Span>, hashes: &[Hash], bases: Vec<Base>) -> Vec<u8> {
        let original_len = spans.iter().map(|span| span.raw_len).sum();
        let item_hash = if hashes.len() == 1 { hashes[0] } else { hash_of_hashes(hashes) };
        let items = vec![Item { len: original_len, hash: item_hash }];
        let index = Index { kind: SourceKind::Bytes, bases, spans, items }.write();
        let footer = Footer {
            body_len: body.len() as u64,
            index_len: index.len() as u64,
            index_hash: hash(&index),
            original_len,
        };
        [&file::header()[..], body, &index, &footer.write()].concat()
    }

    /// References to a byte of each segment of `blocks` blocks, round and round, so that nothing that
    /// is kept helps.
    fn round(count: u64, source: u64, blocks: u64) -> Vec<Reference> {
        let segments = blocks * (1 << 24) / SEGMENT_LEN;
        let reference = |i: u64| Reference {
            source,
            start: i % segments * SEGMENT_LEN + i % SEGMENT_LEN,
            conversion: Conversion::None,
        };
        (0..count).map(reference).collect()
    }

    /// The most that may be decoded.
    fn most(archive: &Archive, depth: u64) -> u64 {
        4 * (depth + 1) * archive.original_len() + (64 << 20)
    }

    /// Restores a file that would decode gigabytes; fails unless it ends at its limit.
    fn check_ends(archive: &Archive, depth: u64) {
        for threads in [1, 4] {
            let budget = Budget::new(archive.original_len());
            let error = restore_within(&budget, archive, None, threads, &|_| ()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::LimitExceeded, "{error}");
            // What was refused was not decoded.
            let refused = 2 * SEGMENT_LEN * threads as u64;
            assert!(budget.spent() <= most(archive, depth) + refused, "{}", budget.spent());
        }
        // For parts of it there is no more than for all of it.
        let range = archive.original_len() - 2000..archive.original_len();
        assert_eq!(archive.read(range).unwrap_err().kind, ErrorKind::LimitExceeded);
    }

    /// A file of some KB whose spans of a byte each ask for a segment of its own is refused when it has
    /// decoded a small multiple of its original.
    #[test]
    fn what_a_file_makes_decoders_write_is_bounded() {
        let file = hostile(3, &round(3000, 0, 3), Vec::new());
        assert!(file.len() < 200_000);
        check_ends(&Archive::from_bytes(file).unwrap(), 0);
    }

    /// The same for a file on a base of a few bytes.
    #[test]
    fn what_a_base_makes_decoders_write_is_bounded() {
        let base = hostile(3, &[], Vec::new());
        assert!(base.len() < 500);
        let archive = Archive::from_bytes(base.clone()).unwrap();
        let (hash, len) = (archive.content_hash(), archive.original_len());
        let named = Base { hash, len, name: "base".to_string() };
        let file = hostile(0, &round(3000, 1, 3), vec![named]);
        let bases = Bases::from_bytes(vec![("base".to_string(), base)], 1).unwrap();
        check_ends(&Archive::from_bytes_on(file, &bases).unwrap(), 1);
    }

    /// What was decoded for one byte is there for others.
    #[test]
    fn a_segment_is_decoded_once_for_all_that_refer_to_it() {
        let archive = Archive::from_bytes(hostile(1, &round(900, 0, 1), Vec::new())).unwrap();
        let budget = Budget::new(archive.original_len());
        restore_within(&budget, &archive, None, 1, &|_| ()).unwrap();
        // The block once as itself, once for the spans behind it.
        let spent = budget.spent();
        assert!((2 << 24..(2 << 24) + 10_000).contains(&spent), "{spent}");
    }

    /// A recipe of a few bytes that makes a million column offsets costs these, however often and for
    /// however little it is read.
    #[test]
    fn columns_of_recipes_count() {
        let columns = Columns { count: 1 << 20, base: 0, coder: Coder::Constant(0) };
        let mut recipe = Vec::new();
        Recipe {
            width_log2: 0,
            base: BaseUse::None,
            map: WordMap::None,
            symbol_bits: 8,
            segment_log2: 10,
            bias: 0,
            flags: None,
            planes: vec![Coder::Constant(0)],
            columns: Some(columns),
        }
        .write(&mut recipe);
        // Four values in the first columns: no byte of a segment, and one row.
        let mut block = Vec::new();
        BlockPrefix { kind: BlockKind::Shared, raw_len: 4 }.write(&mut block);
        block.extend_from_slice(&[0, 0, 0, 0]);
        Coder::Constant(0).write(&mut block);
        let piece = |bytes: &[u8]| Piece { len: bytes.len() as u64, hash: hash(bytes) };
        let (recipe_piece, blocks) = (Some(piece(&recipe)), vec![piece(&block)]);
        let (dtype, block_log2) = (0, 24);
        let span =
            Span { raw_len: 4, dtype, block_log2, reference: None, recipe: recipe_piece, blocks };
        let file = |count: usize| {
            let body = [&recipe[..], &block].concat().repeat(count);
            assemble(&body, vec![span.clone(); count], &vec![hash(&[0; 4]); count], Vec::new())
        };
        let good = Archive::from_bytes(file(50)).unwrap();
        let budget = Budget::new(good.original_len());
        restore_within(&budget, &good, None, 1, &|_| ()).unwrap();
        assert!((50 << 20..51 << 20).contains(&budget.spent()), "{}", budget.spent());
        let bad = Archive::from_bytes(file(70)).unwrap();
        assert_eq!(bad.test(2, &|_| ()).unwrap_err().kind, ErrorKind::LimitExceeded);
    }

    fn compressed(original: &[u8], bases: &Bases, level: Level) -> Vec<u8> {
        let options = Options { level, threads: 1, bases: bases.clone(), ..Options::default() };
        let mut out = Vec::new();
        crate::compress(Input::Bytes(original), Output::Stream(&mut out), &options, &|_| ())
            .unwrap();
        out
    }

    /// A safetensors file of f32 tensors: names, rows of 256 and bytes.
    fn safetensors(tensors: &[(String, &[u8])]) -> Vec<u8> {
        let (mut entries, mut end) = (Vec::new(), 0);
        for (name, bytes) in tensors {
            let (start, rows) = (end, bytes.len() / 1024);
            end += bytes.len();
            entries.push(format!(
                r#""{name}":{{"dtype":"F32","shape":[{rows},256],"data_offsets":[{start},{end}]}}"#
            ));
        }
        let header = format!("{{{}}}", entries.join(","));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        tensors.iter().for_each(|(_, bytes)| file.extend_from_slice(bytes));
        file
    }

    fn shuffled(count: usize, seed: u64) -> Vec<usize> {
        let mut random = Random::new(seed);
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|i| order.swap(i, random.below(i + 1)));
        order
    }

    /// Thousands of small tensors that a base has in another order are restored for little more than
    /// the bytes of both.
    #[test]
    fn small_tensors_in_another_order_are_cheap() {
        let rows = data::words(Kind::Weights, 4, true, 3000 * 256, 1);
        let tensor = |i: usize| (format!("t{i}"), &rows[i * 1024..(i + 1) * 1024]);
        let old = safetensors(&(0..3000).map(tensor).collect::<Vec<_>>());
        let new = safetensors(&shuffled(3000, 2).into_iter().map(tensor).collect::<Vec<_>>());
        let old = compressed(&old, &Bases::default(), Level::Default);
        let bases = Bases::from_bytes(vec![("old".to_string(), old)], 1).unwrap();
        let coded = compressed(&new, &bases, Level::Default);
        assert!(coded.len() < new.len() / 4, "{} bytes", coded.len());
        for threads in [1, 8] {
            let archive = Archive::from_bytes_on(coded.clone(), &bases).unwrap();
            let budget = Budget::new(archive.original_len());
            restore_within(&budget, &archive, None, threads, &|_| ()).unwrap();
            let most = 4 * new.len() as u64 + threads as u64 * SEGMENT_LEN;
            assert!(budget.spent() < most, "{threads} threads: {}", budget.spent());
        }
    }

    /// What would cost more to restore than is allowed is not written: where small tensors are each in
    /// another segment of a base, only as many refer to it as can be restored.
    #[test]
    fn what_is_compressed_can_be_restored() {
        let rows = 20_000;
        let weights = data::words(Kind::Weights, 4, true, rows * 256, 3);
        let old = safetensors(&[("w".to_string(), &weights)]);
        let old = compressed(&old, &Bases::default(), Level::Max);
        let part = |row: usize| {
            let name = format!("w[{row}:{},0:256]", row + 1);
            (name, &weights[row * 1024..(row + 1) * 1024])
        };
        let parts: Vec<_> = shuffled(rows, 4).into_iter().take(1500).map(part).collect();
        let new = safetensors(&parts);
        let bases = Bases::from_bytes(vec![("old".to_string(), old)], 1).unwrap();
        let coded = compressed(&new, &bases, Level::Default);
        let archive = Archive::from_bytes_on(coded, &bases).unwrap();
        let spans = archive.spans().map(Result::unwrap);
        let on = spans.filter(|span| span.reference.is_some()).count();
        assert!((10..1500).contains(&on), "{on} spans refer to the base");
        let budget = Budget::new(archive.original_len());
        restore_within(&budget, &archive, None, 1, &|_| ()).unwrap();
        assert!(budget.spent() > 8 << 20, "it cost {}, so it tried nothing", budget.spent());
    }
}
