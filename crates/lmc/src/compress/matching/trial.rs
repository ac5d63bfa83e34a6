//! Estimates how much references save by trying them on samples: coding a tensor of gigabytes just
//! to find out would take too long.

use crate::Reference;
use crate::base::reference;
use crate::pipeline::Buffer;
use lmc_codec::{Block, Dtype, Encoder, Level, Plan, TensorSpec};
use lmc_format::{Hash, Result, hash};
use std::ops::Range;

/// The size of a sample, in pieces spread over the range: more than a block for which the encoder
/// tries several levels.
const PIECES: u64 = 3;
const PIECE_LEN: u64 = 1 << 15;
/// All levels must find the same references, or a higher one could take more bytes.
const LEVEL: Level = Level::Default;
/// Bytes of each of the three pieces that identify equal tensors.
const MARK_LEN: u64 = 1 << 12;
/// Bytes that are used to judge a candidate with another name before anything is coded.
const GLANCE_LEN: u64 = 1 << 14;

/// Reads from the source of a reference with this number.
pub(super) type Read<'a> = &'a (dyn Fn(u64, u64, &mut [u8]) -> Result<()> + Sync);

/// Tries references; one for each thread.
pub(super) struct Trial<'a> {
    read: Read<'a>,
    encoder: Encoder,
    raw: Vec<u8>,
    base: Vec<u8>,
    wide: Buffer,
    out: Vec<u8>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(read: Read<'a>) -> Self {
        let (raw, base, out) = (Vec::new(), Vec::new(), Vec::new());
        Self { read, encoder: Encoder::new(), raw, base, wide: Buffer::default(), out }
    }

    /// Takes a sample of `range` of the file itself; returns its coded size without a base.
    pub(super) fn alone(&mut self, range: &Range<u64>, dtype: Dtype) -> Result<usize> {
        self.raw.clear();
        for piece in pieces(range.end - range.start, PIECES, PIECE_LEN) {
            append(&mut self.raw, piece.end - piece.start, |out| {
                (self.read)(0, range.start + piece.start, out)
            })?;
        }
        let sample = Block::alone(&self.raw);
        Ok(coded_len(&mut self.encoder, dtype, sample, &mut self.out))
    }

    /// The coded size of the same sample against a base; `len` is the length of the range.
    pub(super) fn on(&mut self, reference: &Reference, len: u64, dtype: Dtype) -> Result<usize> {
        self.base.clear();
        for piece in pieces(len, PIECES, PIECE_LEN) {
            let (read, wide) = (self.read, &mut self.wide);
            append(&mut self.base, piece.end - piece.start, |out| {
                reference::read(reference, piece, wide, out, |start, out| {
                    read(reference.source, start, out)
                })
            })?;
        }
        let sample = Block::against(&self.raw, &self.base);
        Ok(coded_len(&mut self.encoder, dtype, sample, &mut self.out))
    }

    /// Bytes of the sample that was taken last.
    pub(super) fn sample_len(&self) -> usize {
        self.raw.len()
    }

    /// Whether most values in the middle of `range` of the file itself have the same top byte as in
    /// a base. The top byte holds the sign and most of the exponent.
    pub(super) fn looks_alike(
        &mut self,
        range: &Range<u64>,
        reference: &Reference,
        dtype: Dtype,
    ) -> Result<bool> {
        let (equal, all) = self.equal_tops(range, reference, dtype)?;
        Ok(2 * equal > all)
    }

    /// Whether three in four of these values do. Then the base certainly saves something, and
    /// nothing needs to be coded to find out.
    pub(super) fn looks_close(
        &mut self,
        range: &Range<u64>,
        reference: &Reference,
        dtype: Dtype,
    ) -> Result<bool> {
        let (equal, all) = self.equal_tops(range, reference, dtype)?;
        Ok(4 * equal > 3 * all)
    }

    /// The share of these values that do.
    pub(super) fn alike(
        &mut self,
        range: &Range<u64>,
        reference: &Reference,
        dtype: Dtype,
    ) -> Result<f64> {
        let (equal, all) = self.equal_tops(range, reference, dtype)?;
        Ok(equal as f64 / all.max(1) as f64)
    }

    /// How many values in the middle of `range` have the same top byte as in a base, and how many
    /// were compared.
    fn equal_tops(
        &mut self,
        range: &Range<u64>,
        reference: &Reference,
        dtype: Dtype,
    ) -> Result<(usize, usize)> {
        let Some(piece) = pieces(range.end - range.start, 3, GLANCE_LEN).nth(1) else {
            return Ok((0, 0));
        };
        let len = piece.end - piece.start;
        let (mut raw, mut base) = (Vec::new(), Vec::new());
        append(&mut raw, len, |out| (self.read)(0, range.start + piece.start, out))?;
        append(&mut base, len, |out| {
            reference::read(reference, piece, &mut self.wide, out, |start, out| {
                (self.read)(reference.source, start, out)
            })
        })?;
        let width = dtype.width();
        let tops = |bytes: &'_ [u8]| -> Vec<u8> {
            bytes.iter().skip(width - 1).step_by(width).copied().collect()
        };
        let (raw, base) = (tops(&raw), tops(&base));
        let equal = raw.iter().zip(&base).filter(|(a, b)| a == b).count();
        Ok((equal, raw.len()))
    }

    /// The reference that shares the most bytes with the start of `range` of the file itself; the
    /// first of two that share equally many.
    pub(super) fn closest(
        &mut self,
        range: &Range<u64>,
        references: &[Reference],
    ) -> Result<Option<Reference>> {
        let len = (range.end - range.start).min(GLANCE_LEN);
        let mut raw = Vec::new();
        append(&mut raw, len, |out| (self.read)(0, range.start, out))?;
        let mut best = None;
        for reference in references {
            let mut base = Vec::new();
            append(&mut base, len, |out| {
                reference::read(reference, 0..len, &mut self.wide, out, |start, out| {
                    (self.read)(reference.source, start, out)
                })
            })?;
            let equal = raw.iter().zip(&base).filter(|(a, b)| a == b).count();
            if best.is_none_or(|(_, most)| equal > most) {
                best = Some((*reference, equal));
            }
        }
        Ok(best.map(|(reference, _)| reference))
    }
}

/// The coded size of a sample as one block.
fn coded_len(encoder: &mut Encoder, dtype: Dtype, sample: Block, out: &mut Vec<u8>) -> usize {
    out.clear();
    // Only a look at bytes tells whether they are text.
    let looked_at = if dtype == Dtype::Bytes { sample.bytes } else { &[] };
    let plan = Plan::new(&TensorSpec { dtype, row_len: 0 }, LEVEL, Block::alone(looked_at));
    encoder.encode_block(&plan, 0, sample, out);
    out.len()
}

/// Distinguishes a stretch of a source from others of its length: a checksum of three pieces of it.
pub(super) fn mark(read: Read, source: u64, range: &Range<u64>) -> Result<Hash> {
    let mut bytes = Vec::new();
    for piece in pieces(range.end - range.start, 3, MARK_LEN) {
        append(&mut bytes, piece.end - piece.start, |out| {
            read(source, range.start + piece.start, out)
        })?;
    }
    Ok(hash(&bytes))
}

/// Pieces of `len` bytes. They start at multiples of eight; the first is at the start and the last
/// at the end. If `len` is no more than the pieces together, there is one piece with everything.
fn pieces(len: u64, count: u64, piece_len: u64) -> impl Iterator<Item = Range<u64>> {
    let is_all = len <= count * piece_len;
    let room = len.saturating_sub(piece_len);
    let piece = move |i: u64| {
        let start = room / (count - 1) * i / 8 * 8;
        if is_all { 0..len } else { start..start + piece_len }
    };
    (0..if is_all { 1 } else { count }).map(piece)
}

/// Appends `len` bytes that `fill` gives.
fn append(to: &mut Vec<u8>, len: u64, fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
    let start = to.len();
    to.resize(start + len as usize, 0);
    fill(&mut to[start..])
}
