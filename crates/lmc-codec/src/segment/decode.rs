//! Decodes a segment to values.

use super::{Buffers, PlaneShape, SegmentTarget, sized};
use crate::entropy::PlaneDecoder;
use crate::simd::Isa;
use crate::simd::chain::{self, Hints};
use crate::simd::words::{self, WideCut, WordField};
use crate::transform::{sparse, window};
use lmc_format::{Reader, Recipe, Result};

/// Values that are composed together, so that all their planes stay in the L1 cache.
const COMPOSE_VALUES: usize = 2048;

/// Values of a wide cut that are merged together.
const WIDE_MERGE: usize = 2048;

/// A recipe's coders, ready to decode with.
#[derive(Debug)]
pub(crate) struct SegmentDecoder {
    shape: PlaneShape,
    flags: Option<PlaneDecoder>,
    planes: Vec<PlaneDecoder>,
}

impl SegmentDecoder {
    /// Prepares `recipe`.
    pub(crate) fn new(recipe: &Recipe) -> Self {
        Self {
            shape: PlaneShape::new(recipe),
            flags: recipe.flags.as_ref().map(PlaneDecoder::new),
            planes: recipe.planes.iter().map(PlaneDecoder::new).collect(),
        }
    }

    /// Decodes the segment `coded` into all of `dst`. On an error the contents of `dst` mean
    /// nothing.
    pub(crate) fn decode(
        &self,
        isa: Isa,
        coded: &[u8],
        target: SegmentTarget,
        buffers: &mut Buffers,
        dst: &mut [u8],
    ) -> Result<()> {
        let mut input = Reader::new(coded);
        let width = self.shape.width();
        let Some(flags_coder) = &self.flags else {
            self.decode_values(isa, &mut input, target, buffers, dst)?;
            return input.finish("the segment");
        };
        let n = dst.len() / width;
        let (mut flags, mut dense) =
            (std::mem::take(&mut buffers.flags), std::mem::take(&mut buffers.dense));
        let own_flags = sized(&mut flags, n.div_ceil(8));
        flags_coder.decode(isa, &mut input, own_flags, &mut buffers.coders)?;
        let values = sized(&mut dense, sparse::count(isa, own_flags, n)? * width);
        let dense_target = SegmentTarget { hints: Hints::default(), ..target };
        self.decode_values(isa, &mut input, dense_target, buffers, values)?;
        sparse::inverse(width, own_flags, values, dst);
        (buffers.flags, buffers.dense) = (flags, dense);
        input.finish("the segment")
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a recipe has these planes, and each plane a buffer for all values"
    )]
    fn decode_values(
        &self,
        isa: Isa,
        input: &mut Reader,
        target: SegmentTarget,
        buffers: &mut Buffers,
        dst: &mut [u8],
    ) -> Result<()> {
        let shape = &self.shape;
        let n = dst.len() >> shape.words.width_log2;
        if shape.bytes_only && target.offsets.is_none() {
            return self.planes[0].decode(isa, input, dst, &mut buffers.coders);
        }
        let records = input.take(n * shape.record_len, "records")?;
        buffers.planes.resize_with(shape.planes.len(), Vec::new);
        if let (true, PlaneDecoder::Chain(tables), None) =
            (shape.top_only, &self.planes[0], target.offsets)
        {
            let top = sized(&mut buffers.planes[0], n);
            let (width, scratch) = (shape.width(), &mut buffers.coders.chain);
            return chain::decode_words(
                isa,
                width,
                tables,
                input,
                records,
                top,
                scratch,
                dst,
                target.hints,
            );
        }
        for (i, coder) in self.planes.iter().enumerate() {
            let plane = sized(&mut buffers.planes[i], n);
            match shape.planes[i].record {
                Some(at) if i == 0 => copy_from_records(records, shape.record_len, at, plane),
                Some(_) => {}
                None => coder.decode(isa, input, plane, &mut buffers.coders)?,
            }
            if i == 0 && shape.is_wide() {
                let symbols = sized(&mut buffers.symbols, n);
                window::inverse(isa, plane, shape.bias, input, symbols)?;
            }
        }
        if let Some(cut) = shape.wide_cut {
            merge_wide_cut(isa, cut, records, target, buffers, dst);
            return Ok(());
        }
        self.restore_symbols(isa, target, n, buffers);
        if shape.top_only {
            let top = &buffers.planes[0][..n];
            words::merge_top(isa, shape.width(), top, records, dst, target.hints.streaming);
        } else {
            self.compose(isa, records, buffers, dst);
        }
        Ok(())
    }

    /// Adds the offsets back, and cuts symbols to their width.
    #[expect(
        clippy::indexing_slicing,
        reason = "a recipe has these planes, and each plane a buffer for all values"
    )]
    fn restore_symbols(&self, isa: Isa, target: SegmentTarget, n: usize, buffers: &mut Buffers) {
        let shape = &self.shape;
        match (target.offsets, shape.is_wide()) {
            (Some(offsets), true) => {
                offsets.inverse16(isa, target.start, &mut buffers.symbols[..n])
            }
            (Some(offsets), false) => {
                offsets.inverse8(isa, target.start, &mut buffers.planes[0][..n]);
            }
            (None, _) => {}
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "a recipe has these planes, and each plane a buffer for all values"
    )]
    fn compose(&self, isa: Isa, records: &[u8], buffers: &Buffers, dst: &mut [u8]) {
        let shape = &self.shape;
        let mut parts = Vec::with_capacity(shape.planes.len());
        for (chunk, values) in dst.chunks_mut(COMPOSE_VALUES << shape.words.width_log2).enumerate()
        {
            let from = chunk * COMPOSE_VALUES;
            let n = values.len() >> shape.words.width_log2;
            parts.clear();
            for (i, plane) in shape.planes.iter().enumerate() {
                let mask = u16::from(plane.mask);
                parts.push(match (plane.record, &self.planes[i]) {
                    (None, PlaneDecoder::Constant(value)) if i > 0 => {
                        WordField::Constant(*value & plane.mask, plane.shift)
                    }
                    (Some(at), _) if i > 0 => {
                        let len = shape.record_len;
                        let bytes = &records[from * len..][..n * len];
                        WordField::Record { bytes, len, at, mask: plane.mask, shift: plane.shift }
                    }
                    _ if i == 0 && shape.is_wide() => {
                        let mask = u16::MAX >> (16 - shape.symbol_bits);
                        WordField::Shorts(&buffers.symbols[from..][..n], mask, plane.shift)
                    }
                    _ => WordField::Bytes(&buffers.planes[i][from..][..n], mask as u8, plane.shift),
                });
            }
            words::compose(isa, shape.words, &parts, values);
        }
    }
}

/// Adds the offsets back and merges the planes of a wide cut. It goes step by step, so that stores
/// drain while offsets are added.
#[expect(
    clippy::indexing_slicing,
    reason = "a recipe has these planes, and each plane a buffer for all values"
)]
fn merge_wide_cut(
    isa: Isa,
    cut: WideCut,
    records: &[u8],
    target: SegmentTarget,
    buffers: &mut Buffers,
    dst: &mut [u8],
) {
    let width = 1 << cut.words.width_log2;
    let n = dst.len() / width;
    for from in (0..n).step_by(WIDE_MERGE) {
        let range = from..n.min(from + WIDE_MERGE);
        let symbols = &mut buffers.symbols[range.clone()];
        if let Some(offsets) = target.offsets {
            offsets.inverse16(isa, target.start + from, symbols);
        }
        let partial = &buffers.planes[1][range.clone()];
        let records = &records[range.start * (width - 2)..range.end * (width - 2)];
        let dst = &mut dst[range.start * width..range.end * width];
        words::merge_wide(isa, cut, symbols, partial, records, dst, target.hints.streaming);
    }
}

#[expect(clippy::indexing_slicing, reason = "a record has a byte of each raw plane")]
fn copy_from_records(records: &[u8], len: usize, at: usize, plane: &mut [u8]) {
    for (byte, record) in plane.iter_mut().zip(records.chunks_exact(len)) {
        *byte = record[at];
    }
}
