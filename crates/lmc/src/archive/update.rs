//! Restores an archive into the memory of its own base, without a second copy of it.
//!
//! The input is an archive, and for each part of the original the memory that it goes to: memory
//! that holds part of the base ([`Site::Held`]) or other memory ([`Site::New`]).
//! [`Update::prepare`] checks everything that can be checked without decoding. It also decodes the
//! spans that need bytes of the base that will be overwritten: a tensor that has moved, or one that
//! is coded against another tensor. It does not change the base. [`Update::finish`] then overwrites
//! the base, span by span. From then on, an error leaves memory that is partly the base and partly
//! the original.

use crate::archive::Archive;
use crate::archive::restore::{SpanItems, check_empty_items, decode_part};
use crate::base::budget::{Budget, alone_if_spent};
use crate::context::Context;
use crate::io::zeroed;
use crate::item_hash::ItemHasher;
use crate::memory::{Checks, SpanBuffers, another_failed, cut_for_spans, decode_to, replace_in};
use crate::pipeline::{Buffer, each, for_each};
use crate::span::{SpanDecoder, SpanPart, check_part};
use lmc_format::{Arrangement, Conversion, Error, Hash, Reference, Result};
use std::ops::Range;
use std::sync::Mutex;

/// Where a part of the original goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// Memory that holds the bytes of the first base from `base_start` on.
    Held {
        /// Its length in bytes.
        len: u64,
        /// Position of its first byte in the base.
        base_start: u64,
    },
    /// Other memory.
    New {
        /// Its length in bytes.
        len: u64,
    },
}

impl Site {
    fn len(self) -> u64 {
        match self {
            Self::Held { len, .. } | Self::New { len } => len,
        }
    }
}

/// How a span is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its base is already at its destination.
    InPlace,
    /// It does not need a base.
    Alone,
    /// It is decoded in advance: it needs bytes that may be overwritten before its turn, or a part
    /// of it goes to new memory.
    First,
    /// The same; all of it goes to new memory.
    New,
}

/// How a span is restored, and which of its bytes go to new memory.
#[derive(Debug)]
struct Route {
    way: Way,
    new: Vec<Range<usize>>,
}

impl Route {
    fn new_len(&self) -> usize {
        self.new.iter().map(Range::len).sum()
    }
}

/// A span that was decoded in advance: its bytes, unless they are already in new memory, and the
/// checksums of its items, or of the part if it is part of an item.
type Decoded = (Vec<u8>, Vec<Hash>);

/// A restore into the memory of the base that has not started to write there.
#[derive(Debug)]
pub struct Update<'a> {
    archive: &'a Archive,
    span_items: SpanItems,
    ways: Vec<Way>,
    decoded: Vec<Option<Decoded>>,
}

impl<'a> Update<'a> {
    /// Gets everything ready; `new` is the memory of the new sites, which is written to.
    ///
    /// The sites are in the order of the original, and together they are as long as it.
    pub fn prepare(
        archive: &'a Archive,
        sites: &[Site],
        new: Vec<&mut [u8]>,
        context: &Context,
    ) -> Result<Self> {
        check_len(archive, sites.iter().map(|site| site.len()).sum())?;
        if !archive.index.order.is_plain() {
            let message = "only a safetensors file can be restored into the memory of its base";
            return Err(Error::invalid(message));
        }
        archive.height(0, context)?;
        check_empty_items(&archive.index)?;
        check_spans(archive, context)?;
        let span_items = SpanItems::new(&archive.index)?;
        let routes = routes(archive, sites)?;
        let buffers = cut_for_spans(new, routes.iter().map(Route::new_len));
        let decoded = decode_first(archive, &span_items, &routes, &buffers, context)?;
        Ok(Self {
            archive,
            span_items,
            ways: routes.iter().map(|route| route.way).collect(),
            decoded,
        })
    }

    /// Writes all of the original; `buffers` is the memory of all sites, in their order.
    ///
    /// On an error some of it is written and some is not.
    pub fn finish(self, buffers: Vec<&mut [u8]>, context: &Context) -> Result<()> {
        let Self { archive, span_items, ways, decoded } = self;
        check_len(archive, buffers.iter().map(|buffer| buffer.len() as u64).sum())?;
        let index = &archive.index;
        let buffers = cut_for_spans(buffers, (0..ways.len()).map(|i| index.raw_len(i) as usize));
        let decoded: Vec<_> = decoded.into_iter().map(Mutex::new).collect();
        // The preparation has shown that this is enough for all spans.
        let budget = archive.budget(context);
        let checks = Mutex::new(Checks::default());
        let worker = || (SpanDecoder::default(), Buffer::default(), Vec::new());
        for_each(ways.len(), context, worker, |(decoder, coded, whole), i| {
            let mut buffer = buffers[i].lock().map_err(|_| another_failed())?;
            let first = decoded[i].lock().map_err(|_| another_failed())?.take();
            let hashes = match (ways[i], first) {
                (Way::New, Some((_, hashes))) => hashes,
                (_, Some((bytes, hashes))) => decode_to(&mut buffer, whole, |out| {
                    out.copy_from_slice(&bytes);
                    Ok(hashes)
                })?,
                (Way::InPlace, None) => {
                    let coded = archive.span_bytes(i, coded)?;
                    replace_in(&mut buffer, whole, |out| {
                        replace_part(archive, i, &span_items, decoder, coded, out, &budget)
                    })?
                }
                (_, None) => {
                    let coded = archive.span_bytes(i, coded)?;
                    decode_to(&mut buffer, whole, |out| {
                        decode_part(archive, i, &span_items, decoder, coded, out, budget.effort())
                    })?
                }
            };
            checks.lock().map_err(|_| another_failed())?.add(index, i, hashes)
        })
    }
}

/// Decodes all of span `i` into `out`, which holds its base. Returns the checksums of its items, or
/// of the part if the span is part of an item.
fn replace_part(
    archive: &Archive,
    i: usize,
    span_items: &SpanItems,
    decoder: &mut SpanDecoder,
    coded: &[u8],
    out: &mut [u8],
    budget: &Budget,
) -> Result<Vec<Hash>> {
    let span = archive.index.span(i)?;
    let mut hashes = ItemHasher::new(span_items.lens(&archive.index, i)?);
    let part = SpanPart { span: &span, coded, wanted: 0..span.raw_len };
    let done = decoder.decode_in_place(&part, out, budget.effort(), |block| hashes.write(block));
    done.map_err(|e| e.at(archive.span_name(i)))?;
    Ok(hashes.finish())
}

/// Fails unless this is the length of the original.
fn check_len(archive: &Archive, len: u64) -> Result<()> {
    let original_len = archive.original_len();
    if len == original_len {
        return Ok(());
    }
    Err(Error::invalid(format!("the original has {original_len} bytes, the buffers {len}")))
}

/// Checks all spans as far as possible without decoding them.
fn check_spans(archive: &Archive, context: &Context) -> Result<()> {
    let budget = archive.budget(context);
    for_each(archive.span_count(), context, Buffer::default, |buffer, i| {
        let span = archive.index.span(i)?;
        let coded = archive.span_bytes(i, buffer)?;
        let part = SpanPart { span: &span, coded, wanted: 0..span.raw_len };
        check_part(&part, budget.effort()).map_err(|e| e.at(archive.span_name(i)))
    })
}

/// Decodes the spans that must be decoded before the base is overwritten. `buffers` are the
/// destinations of spans in new memory.
fn decode_first(
    archive: &Archive,
    span_items: &SpanItems,
    routes: &[Route],
    buffers: &[SpanBuffers],
    context: &Context,
) -> Result<Vec<Option<Decoded>>> {
    let is_first = |i: &usize| matches!(routes[*i].way, Way::First | Way::New);
    let first: Vec<usize> = (0..routes.len()).filter(is_first).collect();
    let budget = archive.budget(context);
    let worker = || (SpanDecoder::default(), Buffer::default(), Vec::new());
    let mut decoded = Vec::new();
    alone_if_spent(&[&budget], context, |context| {
        decoded = each(first.len(), context, worker, |(decoder, coded, whole), k| {
            let i = first[k];
            let coded = archive.span_bytes(i, coded)?;
            let mut decode = |out: &mut [u8]| {
                decode_part(archive, i, span_items, decoder, coded, out, budget.effort())
            };
            let mut buffer = buffers[i].lock().map_err(|_| another_failed())?;
            if routes[i].way == Way::New {
                return Ok((Vec::new(), decode_to(&mut buffer, whole, decode)?));
            }
            let mut bytes = zeroed(archive.index.raw_len(i))?;
            let hashes = decode(&mut bytes)?;
            decode_to(&mut buffer, whole, |out| {
                copy_ranges(&bytes, &routes[i].new, out);
                Ok(())
            })?;
            Ok((bytes, hashes))
        })?;
        Ok(())
    })?;
    let mut all: Vec<Option<Decoded>> = Vec::new();
    all.resize_with(routes.len(), || None);
    first.into_iter().zip(decoded).for_each(|(i, decoded)| all[i] = Some(decoded));
    Ok(all)
}

/// Copies these parts of `from` to `to`, one after the other.
fn copy_ranges(from: &[u8], ranges: &[Range<usize>], mut to: &mut [u8]) {
    for range in ranges {
        let (own, rest) = to.split_at_mut(range.len());
        own.copy_from_slice(&from[range.clone()]);
        to = rest;
    }
}

/// Decides how each span is restored.
fn routes(archive: &Archive, sites: &[Site]) -> Result<Vec<Route>> {
    let mut walk = Walk { sites, at: 0 };
    // Sites count the bytes of the base in its own order.
    let is_counted = archive.index.base_orders.first().is_some_and(Arrangement::is_plain);
    let route = |i: usize| {
        let (reference, len) = (archive.index.reference(i)?, archive.index.raw_len(i));
        let (is_in_place, new) = walk.pass(len, reference.filter(|_| is_counted));
        let mut route = Route { way: Way::First, new };
        route.way = match (route.new_len() as u64, reference) {
            (new_len, _) if new_len == len => Way::New,
            (1.., _) => Way::First,
            (_, None) => Way::Alone,
            (_, Some(_)) if is_in_place => Way::InPlace,
            _ => Way::First,
        };
        Ok(route)
    };
    (0..archive.span_count()).map(route).collect()
}

/// A position in the sites that advances span by span.
struct Walk<'a> {
    sites: &'a [Site],
    /// Position in the first of them.
    at: u64,
}

impl Walk<'_> {
    /// Advances past a span of `len` bytes. Says whether its base is already at its destination,
    /// and which of its bytes go to new memory.
    fn pass(&mut self, len: u64, reference: Option<Reference>) -> (bool, Vec<Range<usize>>) {
        let base = reference.filter(|own| own.source == 1 && own.conversion == Conversion::None);
        let (mut is_in_place, mut new, mut done) = (base.is_some(), Vec::new(), 0);
        while let Some((site, rest)) = self.sites.split_first().filter(|_| done < len) {
            let count = (site.len() - self.at).min(len - done);
            match site {
                Site::New { .. } => new.push(done as usize..(done + count) as usize),
                Site::Held { base_start, .. } => {
                    let own = base_start.checked_add(self.at);
                    let wanted = base.and_then(|base| base.start.checked_add(done));
                    is_in_place &= count == 0 || own == wanted;
                }
            }
            (self.at, done) = (self.at + count, done + count);
            if self.at == site.len() {
                (self.sites, self.at) = (rest, 0);
            }
        }
        (is_in_place, new)
    }
}
