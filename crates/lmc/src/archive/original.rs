//! Puts an original together from its spans, which hold it in arranged order, and checks it.

use crate::archive::Archive;
use crate::archive::restore::{ItemChecks, SpanItems};
use crate::base::budget::{Budget, Effort};
use crate::io::zeroed;
use crate::item_hash::ItemHasher;
use crate::items::rest;
use crate::leaves::{LeafJoin, LeafPart, Weaver};
use crate::pipeline::Buffer;
use crate::span::{SpanDecoder, SpanPart, check_hash};
use crate::view::weave;
use lmc_format::{Hash, Result, SourceKind, StoredIndex};
use std::ops::Range;

/// What is known of the original before its stretches are decoded.
pub(crate) struct Original<'a> {
    index: &'a StoredIndex,
    /// The bytes outside all stretches.
    first: Vec<u8>,
    /// The first span after them.
    pub first_span: usize,
}

impl<'a> Original<'a> {
    /// Decodes and checks the first item of an arranged original.
    pub(crate) fn new(archive: &'a Archive, budget: &Budget) -> Result<Self> {
        let index = &archive.index;
        let first_len = index.order.first_len();
        let mut first = zeroed(first_len)?;
        if first_len > 0 {
            archive.read_into(0, &mut first, budget.effort())?;
            let found = archive.item_hash(&(0..first_len), &first);
            check_hash(found, index.item(0)?.hash, "item 0 of the original")?;
        }
        let first_span = if first_len > 0 { index.span_at(first_len) } else { 0 };
        Ok(Self { index, first, first_span })
    }

    pub(crate) fn is_arranged(&self) -> bool {
        self.index.kind == SourceKind::Arranged
    }

    /// Bytes outside all stretches that come after the last one.
    pub(crate) fn rest(&self) -> &[u8] {
        if self.first.is_empty() { &[] } else { rest(&self.index.order, &self.first) }
    }

    /// The checks for all spans after the first item.
    pub(crate) fn checks(&self) -> Result<OriginalChecks> {
        let join = self.is_arranged().then(LeafJoin::default);
        Ok(OriginalChecks { items: ItemChecks::after(self.index, self.first_span)?, join })
    }

    /// Hashes the leaves of arranged bytes; none if the content hash is not that of leaves.
    fn weaver(&self, data: &Range<u64>) -> Option<Weaver<'_>> {
        self.is_arranged().then(|| Weaver::new(&self.index.order, &self.first, data))
    }

    /// Bytes of the original that go with a span.
    pub(crate) fn covered(&self, i: usize) -> Range<u64> {
        self.index.order.covered(&(self.index.raw_start(i)..self.index.raw_start(i + 1)))
    }

    /// Fills `out` with the part of the original that goes with span `i`, which `decode` decodes.
    fn fill(
        &self,
        i: usize,
        out: &mut [u8],
        spare: &mut Buffer,
        decode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let raw_len = self.index.raw_len(i);
        if out.len() as u64 == raw_len {
            return decode(out);
        }
        let covered = self.covered(i);
        let (outside, data) = self.index.order.parts(&covered);
        let outside = &self.first[outside.start as usize..outside.end as usize];
        let pieces = self.index.order.weave(covered.clone());
        if pieces.skip_while(|(_, is_data)| !is_data).count() == 1 {
            let (before, own) = out.split_at_mut(outside.len());
            before.copy_from_slice(outside);
            return decode(own);
        }
        let spare = spare.sized(data.end - data.start)?;
        decode(spare)?;
        weave(&self.index.order, &covered, outside, spare, out);
        Ok(())
    }
}

/// Checks the original as its spans come in, in order.
pub(crate) struct OriginalChecks {
    items: ItemChecks,
    join: Option<LeafJoin>,
}

impl OriginalChecks {
    /// Takes what was found for spans, one set of checksums for each if items are checked.
    pub(crate) fn add(
        &mut self,
        index: &StoredIndex,
        spans: Range<usize>,
        hashes: Vec<Vec<Hash>>,
        leaves: Option<LeafPart>,
    ) -> Result<()> {
        if let (Some(join), Some(leaves)) = (&mut self.join, leaves) {
            join.add(&leaves);
        }
        spans.zip(hashes).try_for_each(|(i, hashes)| self.items.add(index, i, hashes))
    }

    /// Fails unless the content hash is right, after the bytes that come after all stretches.
    pub(crate) fn finish(self, archive: &Archive, rest: &[u8]) -> Result<()> {
        let Some(mut join) = self.join else { return Ok(()) };
        join.write(rest);
        check_hash(join.finish(), archive.content_hash(), "the original")
    }
}

/// What decoding spans to the original needs, for use with one span after the other.
#[derive(Debug, Default)]
pub(crate) struct OriginalWorker {
    decoder: SpanDecoder,
    spare: Buffer,
}

/// The checksums that came with decoded spans: for each, those of its items, or of the part if it
/// is part of an item, if items are checked.
pub(crate) type SpanHashes = Vec<Vec<Hash>>;

impl OriginalWorker {
    /// Decodes spans that follow each other, with these bytes in the file, to the part of the
    /// original that goes with them.
    pub(crate) fn decode(
        &mut self,
        archive: &Archive,
        original: &Original,
        (spans, mut coded): (Range<usize>, &[u8]),
        span_items: Option<&SpanItems>,
        mut out: &mut [u8],
        effort: Effort,
    ) -> Result<(SpanHashes, Option<LeafPart>)> {
        let index = &archive.index;
        let data = index.raw_start(spans.start)..index.raw_start(spans.end);
        let (mut hashes, mut weaver) = (Vec::new(), original.weaver(&data));
        for i in spans {
            let (own, after) = coded.split_at(index.coded_len(i) as usize);
            let covered = original.covered(i);
            let (to, behind) = out.split_at_mut((covered.end - covered.start) as usize);
            (coded, out) = (after, behind);
            let span = index.span(i)?;
            let lens = span_items.map(|items| items.lens(index, i)).transpose()?;
            let mut items = lens.map(ItemHasher::new);
            let part = SpanPart { span: &span, coded: own, wanted: 0..span.raw_len };
            original.fill(i, to, &mut self.spare, |to| {
                archive.decode_span(&mut self.decoder, i, &part, to, effort, |block| {
                    items.iter_mut().for_each(|items| items.write(block));
                    weaver.iter_mut().for_each(|weaver| weaver.write(block));
                })
            })?;
            hashes.extend(items.map(ItemHasher::finish));
        }
        Ok((hashes, weaver.map(Weaver::finish)))
    }
}
