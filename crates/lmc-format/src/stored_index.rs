//! The index of a file as it is read: checked once, kept as bytes, and parsed on demand.
//!
//! An index of one-byte spans has 21 bytes per span. As structs these would take 200, and a file of
//! 100 MB would need a gigabyte before any of it is decoded. Kept as bytes, the index takes 24 more
//! bytes per span and 4 more per item.

use crate::arrangement::Arrangement;
use crate::dtype::DtypeId;
use crate::error::{Error, Result};
use crate::hash::{HASH_LEN, Hash, Hasher};
use crate::index::{
    Arranged, BaseOrder, HAS_BASES, HAS_ORDERS, Index, Item, Piece, SourceKind, Span, SpanHead,
    read_bases, read_blocks, read_hash, read_item, read_span_head,
};
use crate::limits::BASE_STRETCHES_MAX;
use crate::reader::Reader;
use crate::reference::{BaseId, Reference};

/// Bytes of the smallest span in an index: length, type, block length, no recipe, one block.
const SPAN_LEN_LEAST: usize = 1 + 1 + 1 + 1 + 1 + HASH_LEN;
/// Bytes of the smallest item.
const ITEM_LEN_LEAST: usize = 1 + HASH_LEN;

/// The index of a file, already checked.
#[derive(Clone, Debug)]
pub struct StoredIndex {
    /// What the original is.
    pub kind: SourceKind,
    /// The bases that spans may refer to.
    pub bases: Vec<BaseId>,
    /// The order in which the bytes of each base are counted.
    pub base_orders: Vec<Arrangement>,
    /// The order of the bytes of the original.
    pub order: Arrangement,
    /// The content hash that is in the index of an arranged original.
    stored_hash: Option<Hash>,
    bytes: Vec<u8>,
    has_bases: bool,
    /// For each base, whether a span refers to it.
    is_used: Vec<bool>,
    spans: Vec<SpanPosition>,
    /// Where each item is in the bytes.
    items: Vec<u32>,
    /// Where the last span ends, in the original and in the body.
    end: SpanPosition,
}

/// Stretches of an original: for each, the bytes between it and the one before it, and its length.
type Stretches = Vec<(u64, u64)>;

/// The position of a span: in the original, in the body and in the index.
#[derive(Clone, Copy, Debug, Default)]
struct SpanPosition {
    raw: u64,
    body: u64,
    index: u32,
}

impl StoredIndex {
    /// Reads the index of a file whose body and original have these lengths.
    pub fn read(bytes: Vec<u8>, body_len: u64, original_len: u64) -> Result<Self> {
        let mut input = Reader::new(&bytes);
        let kind = input.u8("kind of original")?;
        let has_bases = kind & HAS_BASES != 0;
        let has_orders = has_bases && kind & HAS_ORDERS != 0;
        let kind = match kind & !(HAS_BASES | if has_orders { HAS_ORDERS } else { 0 }) {
            0 => SourceKind::Bytes,
            1 => SourceKind::Safetensors,
            2 => SourceKind::Arranged,
            other => return Err(Error::corrupt(format!("unknown kind of original {other}"))),
        };
        let (bases, orders) =
            if has_bases { read_bases(&mut input, has_orders)? } else { Default::default() };
        let stored_hash = match kind {
            SourceKind::Arranged => Some(read_hash(&mut input)?),
            _ => None,
        };
        let is_used = vec![false; bases.len()];
        let mut index = Self {
            kind,
            bases,
            base_orders: Vec::new(),
            order: Arrangement::plain(original_len),
            stored_hash,
            bytes: Vec::new(),
            has_bases,
            is_used,
            spans: Vec::new(),
            items: Vec::new(),
            end: SpanPosition::default(),
        };
        index.read_spans(&mut input, bytes.len())?;
        let (items_len, stretches) = index.read_items(&mut input, bytes.len())?;
        input.finish("the index")?;
        index.bytes = bytes;
        total(Some(index.end.body), body_len, "coded bytes of spans")?;
        total(Some(index.end.raw), original_len, "spans")?;
        total(items_len, original_len, "items")?;
        if kind == SourceKind::Arranged {
            index.order = Arrangement::new(original_len, stretches)?;
        }
        index.base_orders = index.orders(orders)?;
        index.check()?;
        Ok(index)
    }

    /// The order of each base.
    fn orders(&self, written: Vec<BaseOrder>) -> Result<Vec<Arrangement>> {
        let listed = written.iter().map(|order| match order {
            BaseOrder::Own => 0,
            BaseOrder::Same => self.order.count(),
            BaseOrder::Listed(order) => order.count(),
        });
        let count = listed.fold(0, usize::saturating_add);
        if count > BASE_STRETCHES_MAX {
            return Err(Error::corrupt(format!("{count} stretches of bases")));
        }
        let mut written = written.into_iter();
        let order = |(i, base): (usize, &BaseId)| match written.next() {
            None | Some(BaseOrder::Own) => Ok(Arrangement::plain(base.len)),
            Some(BaseOrder::Listed(order)) => Ok(order),
            Some(BaseOrder::Same) if self.order.count() == 0 => {
                Err(Error::corrupt(format!("base {i} has the stretches of a file without any")))
            }
            Some(BaseOrder::Same) => Arrangement::new(base.len, self.order.stretches())
                .map_err(|e| e.at(format_args!("base {i}"))),
        };
        self.bases.iter().enumerate().map(order).collect()
    }

    /// Records the positions of all spans.
    fn read_spans(&mut self, input: &mut Reader, len: usize) -> Result<()> {
        let count = input.varint("number of spans")?;
        self.spans = with_room(count, input.rest().len() / SPAN_LEN_LEAST);
        for i in 0..count {
            let at = |e: Error| e.at(format_args!("span {i}"));
            self.end.index = position(len, input);
            self.spans.push(self.end);
            let head = read_span_head(input, self.has_bases).map_err(at)?;
            let mut coded = head.recipe.map_or(0, |recipe| recipe.len);
            read_blocks(input, &head, |piece| coded = coded.saturating_add(piece.len))
                .map_err(at)?;
            self.end.raw = self.end.raw.saturating_add(head.raw_len);
            self.end.body = self.end.body.saturating_add(coded);
        }
        Ok(())
    }

    /// Records the positions of all items; returns their total length, if it does not overflow, and
    /// the stretches of an arranged original.
    fn read_items(&mut self, input: &mut Reader, len: usize) -> Result<(Option<u64>, Stretches)> {
        let count = input.varint("number of items")?;
        self.items = with_room(count, input.rest().len() / ITEM_LEN_LEAST);
        let (mut sum, mut stretches) = (Some(0_u64), Vec::new());
        for i in 0..count {
            self.items.push(position(len, input));
            let is_stretch = self.is_stretch(i);
            let (before, item) =
                read_item(input, is_stretch).map_err(|e| e.at(format_args!("item {i}")))?;
            stretches.extend(is_stretch.then_some((before, item.len)));
            sum = sum.and_then(|sum| sum.checked_add(item.len));
        }
        Ok((sum, stretches))
    }

    /// Whether item `i` is a stretch of an arrangement.
    fn is_stretch(&self, i: u64) -> bool {
        i > 0 && self.kind == SourceKind::Arranged
    }

    /// Fails unless each item consists of whole spans or lies within one, and all references are
    /// valid.
    fn check(&mut self) -> Result<()> {
        let count_fits = match self.kind {
            SourceKind::Bytes => self.items.len() == 1,
            SourceKind::Safetensors => !self.items.is_empty(),
            // The first is exactly what the stretches leave.
            SourceKind::Arranged => {
                !self.items.is_empty() && self.item(0)?.len == self.order.first_len()
            }
        };
        if !count_fits {
            return Err(Error::corrupt(format!("{} items", self.items.len())));
        }
        // A reader decodes the first item before all others.
        if !self.is_bound(self.order.first_len()) && self.order.count() > 0 {
            return Err(Error::corrupt("a span holds bytes of the first item and of others"));
        }
        self.check_references()?;
        let mut start = 0_u64;
        for (i, item) in self.items().enumerate() {
            let end = start.saturating_add(item?.len);
            let within = end == start || self.end_of(self.span_at(start)) >= end;
            if !(within || self.is_bound(start) && self.is_bound(end)) {
                return Err(Error::corrupt(format!("item {i} crosses the bounds of spans")));
            }
            start = end;
        }
        Ok(())
    }

    /// Fails unless every reference is to bytes that exist, and those to this file's own original
    /// are to earlier spans that themselves do not refer to it.
    fn check_references(&mut self) -> Result<()> {
        if !self.has_bases {
            return Ok(());
        }
        // For each span, how many of the spans before it have a reference to this file.
        let mut own_before: Vec<u32> = Vec::with_capacity(self.spans.len());
        let mut own = 0_u32;
        for i in 0..self.spans.len() {
            own_before.push(own);
            let head = self.head(i)?;
            let Some(reference) = head.reference else { continue };
            if !head.raw_len.is_multiple_of(reference.conversion.word_len()) {
                let (len, name) = (head.raw_len, reference.conversion.name());
                return Err(Error::corrupt(format!("span {i}: {len} bytes converted, {name}")));
            }
            let refers = reference.start..reference.end(head.raw_len);
            let is_inside = if reference.is_own() {
                own = own.saturating_add(1);
                let first = self.span_at(refers.start);
                let last = self.span_at(refers.end.saturating_sub(1));
                let start = self.end_of(i).saturating_sub(head.raw_len);
                refers.end <= start
                    && own_before.get(first) == own_before.get(last.saturating_add(1))
            } else {
                let number = usize::try_from(reference.source.saturating_sub(1)).ok();
                if let Some(is_used) = number.and_then(|number| self.is_used.get_mut(number)) {
                    *is_used = true;
                }
                let base = number.and_then(|number| self.bases.get(number));
                base.is_some_and(|base| refers.end <= base.len)
            };
            if !is_inside {
                return Err(Error::corrupt(format!(
                    "span {i} refers to bytes {} to {} of source {}, which it cannot",
                    refers.start, refers.end, reference.source
                )));
            }
        }
        Ok(())
    }

    /// The number of spans.
    pub fn span_count(&self) -> usize {
        self.spans.len()
    }

    /// Span `i`, with its blocks.
    pub fn span(&self, i: usize) -> Result<Span> {
        let mut input = self.reader(self.spans.get(i).map(|span| span.index))?;
        let head = read_span_head(&mut input, self.has_bases)?;
        let mut blocks = Vec::new();
        read_blocks(&mut input, &head, |piece| blocks.push(piece))?;
        let SpanHead { raw_len, dtype, block_log2, reference, recipe } = head;
        Ok(Span { raw_len, dtype, block_log2, reference, recipe, blocks })
    }

    /// The reference of span `i`, if it has one.
    pub fn reference(&self, i: usize) -> Result<Option<Reference>> {
        Ok(self.head(i)?.reference)
    }

    /// The recipe that the blocks of span `i` share, if they have one.
    pub fn recipe(&self, i: usize) -> Result<Option<Piece>> {
        Ok(self.head(i)?.recipe)
    }

    /// The element type of span `i`.
    pub fn dtype(&self, i: usize) -> Result<DtypeId> {
        Ok(self.head(i)?.dtype)
    }

    fn head(&self, i: usize) -> Result<SpanHead> {
        let mut input = self.reader(self.spans.get(i).map(|span| span.index))?;
        read_span_head(&mut input, self.has_bases)
    }

    /// Where span `i` starts in the original; after the last span, the end of the original.
    pub fn raw_start(&self, i: usize) -> u64 {
        self.spans.get(i).unwrap_or(&self.end).raw
    }

    /// Original bytes of span `i`.
    pub fn raw_len(&self, i: usize) -> u64 {
        self.end_of(i).saturating_sub(self.raw_start(i))
    }

    /// Where span `i` starts in the body; after the last span, the end of the body.
    pub fn body_start(&self, i: usize) -> u64 {
        self.spans.get(i).unwrap_or(&self.end).body
    }

    /// Bytes of span `i` in the body.
    pub fn coded_len(&self, i: usize) -> u64 {
        self.body_start(i.saturating_add(1)).saturating_sub(self.body_start(i))
    }

    /// The span that holds byte `at` of the original; the number of spans if none does.
    pub fn span_at(&self, at: u64) -> usize {
        if at >= self.end.raw {
            return self.spans.len();
        }
        self.spans.partition_point(|span| span.raw <= at).saturating_sub(1)
    }

    /// Where span `i` ends in the original.
    fn end_of(&self, i: usize) -> u64 {
        self.raw_start(i.saturating_add(1))
    }

    /// Whether a span starts or ends at byte `at` of the original.
    fn is_bound(&self, at: u64) -> bool {
        at == self.end.raw || self.spans.binary_search_by_key(&at, |span| span.raw).is_ok()
    }

    /// Whether a span refers to base `i`, counted from 0.
    pub fn is_used(&self, i: usize) -> bool {
        self.is_used.get(i).copied().unwrap_or(false)
    }

    /// The number of items.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Item `i`.
    pub fn item(&self, i: usize) -> Result<Item> {
        let mut input = self.reader(self.items.get(i).copied())?;
        Ok(read_item(&mut input, self.is_stretch(i as u64))?.1)
    }

    /// All items, in order.
    pub fn items(&self) -> impl Iterator<Item = Result<Item>> + '_ {
        (0..self.items.len()).map(|i| self.item(i))
    }

    /// The content hash of the original: equal for equal files.
    pub fn content_hash(&self) -> Hash {
        if let Some(stored) = self.stored_hash {
            return stored;
        }
        let mut hasher = Hasher::default();
        // All items were read before, so none is left out.
        self.items().flatten().for_each(|item| hasher.write(&item.hash.to_le_bytes()));
        hasher.finish()
    }

    /// All of it in memory.
    pub fn to_index(&self) -> Result<Index> {
        let spans = (0..self.span_count()).map(|i| self.span(i)).collect::<Result<_>>()?;
        let items = self.items().collect::<Result<_>>()?;
        let order = self.order.clone();
        let has_orders = !self.base_orders.iter().all(Arrangement::is_plain);
        Ok(Index {
            kind: self.kind,
            bases: self.bases.clone(),
            base_orders: if has_orders { self.base_orders.clone() } else { Vec::new() },
            spans,
            items,
            arranged: self.stored_hash.map(|content_hash| Arranged { content_hash, order }),
        })
    }

    fn reader(&self, at: Option<u32>) -> Result<Reader<'_>> {
        let at = at.and_then(|at| usize::try_from(at).ok());
        let rest = at.and_then(|at| self.bytes.get(at..));
        rest.map(Reader::new).ok_or_else(|| Error::invalid("no such part of the index"))
    }
}

/// The position of `input` in an index of `len` bytes. The largest index that a file can have fits
/// in 32 bits; positions in a larger one are not usable.
fn position(len: usize, input: &Reader) -> u32 {
    u32::try_from(len.saturating_sub(input.rest().len())).unwrap_or(u32::MAX)
}

/// Room for as many entries as are claimed, but for no more than the available bytes can hold.
fn with_room<T>(claimed: u64, most: usize) -> Vec<T> {
    Vec::with_capacity(usize::try_from(claimed).map_or(most, |claimed| claimed.min(most)))
}

fn total(sum: Option<u64>, expected: u64, what: &str) -> Result<()> {
    if sum == Some(expected) {
        return Ok(());
    }
    let sum = sum.map_or("too many".to_string(), |sum| sum.to_string());
    Err(Error::corrupt(format!("{what} are {sum} bytes, {expected} expected")))
}
