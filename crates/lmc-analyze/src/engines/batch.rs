//! Pieces end to end: what engines code in one call.

use lmc_engines::{Sample, SampleTensor};

use super::Piece;

/// The most bytes of a batch, for the memory and for the time between two looks for an interrupt.
const BATCH_LEN: usize = 64 << 20;
/// What slow engines get of a batch at least, if it has as much.
const SLOW_LEN_MIN: usize = 8 << 20;
/// The part of a long batch that slow engines get.
const SLOW_SHARE: usize = 8;

/// Pieces whose values have one width, all of them with a base or none.
#[derive(Default)]
pub(super) struct Batch {
    /// Bytes of a word.
    pub(super) width: usize,
    bytes: Vec<u8>,
    base: Option<Vec<u8>>,
    tensors: Vec<SampleTensor>,
    /// Pieces of it, evenly spread, for slow engines; None if they get it all.
    slow: Option<Box<Batch>>,
}

impl Batch {
    /// All of `pieces` that are not empty, in batches.
    pub(super) fn all(pieces: &[Piece]) -> Vec<Self> {
        let kind = |piece: &Piece| (piece.dtype.width(), piece.base.is_some());
        let mut sorted: Vec<&Piece> = pieces.iter().filter(|p| !p.bytes.is_empty()).collect();
        sorted.sort_by_key(|piece| kind(piece));
        let groups = sorted.chunk_by(|a, b| kind(a) == kind(b));
        groups.flat_map(cut).map(|members| Self::with_slow(&members)).collect()
    }

    /// The bytes, with their base and their tensors.
    pub(super) fn sample(&self) -> Sample<'_> {
        let (bytes, base) = (self.bytes.as_slice(), self.base.as_deref());
        Sample { bytes, base, tensors: &self.tensors }
    }

    /// The same for slow engines.
    pub(super) fn slow_sample(&self) -> Sample<'_> {
        self.slow.as_deref().unwrap_or(self).sample()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn has_base(&self) -> bool {
        self.base.is_some()
    }

    fn with_slow(pieces: &[&Piece]) -> Self {
        let whole = Self::of(pieces);
        let wanted = (whole.len() / SLOW_SHARE).max(SLOW_LEN_MIN);
        let step = whole.len() / wanted;
        if step < 2 {
            return whole;
        }
        // The middle one of each group of as many.
        let some: Vec<&Piece> = pieces.chunks(step).map(|group| group[group.len() / 2]).collect();
        Self { slow: Some(Box::new(Self::of(&some))), ..whole }
    }

    fn of(pieces: &[&Piece]) -> Self {
        let mut batch = Self { width: 1, ..Self::default() };
        for piece in pieces {
            batch.width = piece.dtype.width();
            batch.bytes.extend_from_slice(&piece.bytes);
            if let Some(base) = &piece.base {
                batch.base.get_or_insert_default().extend_from_slice(base);
            }
            let tensor = SampleTensor::new(piece.bytes.len(), piece.dtype, piece.row_len);
            batch.tensors.push(tensor);
        }
        batch
    }
}

/// The pieces of a batch each.
fn cut<'a>(group: &[&'a Piece]) -> Vec<Vec<&'a Piece>> {
    let mut batches: Vec<Vec<&Piece>> = Vec::new();
    let mut len = BATCH_LEN;
    for piece in group {
        match batches.last_mut() {
            Some(batch) if len + piece.bytes.len() <= BATCH_LEN => batch.push(piece),
            _ => {
                batches.push(vec![piece]);
                len = 0;
            }
        }
        len += piece.bytes.len();
    }
    batches
}
