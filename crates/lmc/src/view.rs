//! Reads in one of the two orders of a file: that in which its bytes are coded, and its own.

use crate::io::{ByteSource, zeroed};
use crate::items::InputLayout;
use crate::pipeline::Buffer;
use lmc_format::{Arrangement, Error, Result};
use std::ops::Range;

/// An input in arranged order. The bytes outside its stretches are in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    source: &'a ByteSource<'a>,
    input: &'a InputLayout,
}

impl<'a> View<'a> {
    pub(crate) fn new(source: &'a ByteSource<'a>, input: &'a InputLayout) -> Self {
        Self { source, input }
    }

    /// Fills `out` with the arranged bytes from `at` on.
    pub(crate) fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let order = &self.input.order;
        if order.is_plain() {
            return self.source.read(at, out);
        }
        let end = at.saturating_add(out.len() as u64);
        if end > self.input.len {
            return Err(Error::truncated(format!("the file ends before byte {end}")));
        }
        let first_len = order.first_len();
        let own = first_len.clamp(at, end) - at;
        let (first, data) = out.split_at_mut(own as usize);
        if own > 0 {
            first.copy_from_slice(&self.input.start[at as usize..][..own as usize]);
        }
        let mut rest = data;
        for piece in order.pieces(at + own..end) {
            let (own, after) = rest.split_at_mut((piece.end - piece.start) as usize);
            self.source.read(piece.start, own)?;
            rest = after;
        }
        Ok(())
    }

    /// The `len` arranged bytes from `at` on, if they are contiguous in memory.
    pub(crate) fn slice(&self, at: u64, len: u64) -> Option<&'a [u8]> {
        let order = &self.input.order;
        if order.is_plain() {
            return self.source.slice(at, len);
        }
        let mut pieces = order.pieces(at..at.checked_add(len)?);
        let piece = pieces.next()?;
        self.source.slice(piece.start, len).filter(|_| piece.end - piece.start == len)
    }

    /// The same; they are read into `buffer` unless they are contiguous in memory.
    pub(crate) fn bytes<'b>(&self, at: u64, len: u64, buffer: &'b mut Buffer) -> Result<&'b [u8]>
    where
        'a: 'b,
    {
        if let Some(found) = self.slice(at, len) {
            return Ok(found);
        }
        self.read(at, buffer.sized(len)?)?;
        Ok(buffer.bytes())
    }

    /// Asks the system to read the `len` arranged bytes from `at` on ahead.
    pub(crate) fn read_ahead(&self, at: u64, len: u64) {
        let end = at.saturating_add(len);
        // The first item is in memory.
        let at = at.max(self.input.order.first_len()).min(end);
        let pieces = self.input.order.pieces(at..end);
        let (mut start, mut end) = (u64::MAX, 0);
        for piece in pieces {
            (start, end) = (start.min(piece.start), end.max(piece.end));
        }
        self.source.read_ahead(start.min(end), end.saturating_sub(start));
    }

    /// Whether a read waits for a network.
    pub(crate) fn is_far(&self) -> bool {
        self.source.is_far()
    }
}

/// Bytes of the original that are put together in one go. Each file of a base chain uses this much
/// memory.
const WOVEN_LEN: usize = 1 << 20;

/// Fills `out` with bytes of the original, from `start` on; `read` reads arranged bytes.
pub(crate) fn read_original(
    order: &Arrangement,
    start: u64,
    out: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    if order.is_plain() {
        return read(start, out);
    }
    let mut at = start;
    for out in out.chunks_mut(WOVEN_LEN) {
        let range = at..at + out.len() as u64;
        at = range.end;
        let (outside, data) = order.parts(&range);
        match (outside.is_empty(), data.is_empty()) {
            (true, _) => read(data.start, out)?,
            (_, true) => read(outside.start, out)?,
            _ => {
                let mut first = zeroed(outside.end - outside.start)?;
                read(outside.start, &mut first)?;
                let mut stretches = zeroed(data.end - data.start)?;
                read(data.start, &mut stretches)?;
                weave(order, &range, &first, &stretches, out);
            }
        }
    }
    Ok(())
}

/// Puts the bytes `range` of the original together from those of it that are outside stretches and
/// those that are in them.
pub(crate) fn weave<'a>(
    order: &Arrangement,
    range: &Range<u64>,
    mut outside: &'a [u8],
    mut data: &'a [u8],
    out: &mut [u8],
) {
    let mut out = out;
    for (len, is_data) in order.weave(range.clone()) {
        let from = if is_data { &mut data } else { &mut outside };
        let (to, rest) = out.split_at_mut(len as usize);
        let (own, after) = from.split_at(len as usize);
        to.copy_from_slice(own);
        (*from, out) = (after, rest);
    }
}

/// The arranged ranges that make up the bytes `range` of the original.
pub(crate) fn arranged(order: &Arrangement, range: Range<u64>) -> [Range<u64>; 2] {
    if order.is_plain() {
        return [range, 0..0];
    }
    let (outside, data) = order.parts(&range);
    [outside, data]
}
