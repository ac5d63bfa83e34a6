//! Parts of the last checkpoint and of the one before it, in memory: engines are measured on them.

use crate::engines::{Extent, Piece, pick};
use crate::opened::{OpenTensor, Opened};
use lmc::{Context, Result};
use std::ops::Range;

/// Parts of a checkpoint.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Where the checkpoint is in the report.
    pub checkpoint: usize,
    /// Where its base is, if any part has one.
    pub base: Option<usize>,
    /// The parts.
    pub pieces: Vec<Piece>,
}

/// Reads up to `len` bytes of a checkpoint, and the same parts of its base.
pub(crate) fn read(
    new: &Opened,
    base: Option<&Opened>,
    len: u64,
    context: &Context,
) -> Result<Vec<Piece>> {
    let row_len = |tensor: &OpenTensor| tensor.row_bytes / tensor.info.dtype.width() as u64;
    let extent = |tensor: &OpenTensor| Extent {
        dtype: tensor.info.dtype,
        row_len: row_len(tensor),
        len: tensor.len(),
    };
    let extents: Vec<Extent> = new.tensors.iter().map(extent).collect();
    let piece = |(i, range): (usize, Range<u64>)| {
        context.interrupt.check()?;
        let tensor = &new.tensors[i];
        let is_alike = |old: &&OpenTensor| {
            (old.info.dtype, &old.info.shape) == (tensor.info.dtype, &tensor.info.shape)
        };
        let twin = base.and_then(|base| {
            let old = base.find(&tensor.name).map(|i| &base.tensors[i]);
            old.filter(is_alike).map(|old| part(base, old, &range))
        });
        Ok(Piece {
            dtype: tensor.info.dtype,
            row_len: row_len(tensor),
            bytes: part(new, tensor, &range)?,
            base: twin.transpose()?,
        })
    };
    pick(&extents, len).into_iter().map(piece).collect()
}

/// Bytes of a tensor.
fn part(of: &Opened, tensor: &OpenTensor, range: &Range<u64>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let start = tensor.info.range.start + range.start;
    let file = &of.files[tensor.file];
    file.base.sample(start, &mut bytes).map_err(|error| error.at(&file.path))?;
    Ok(bytes)
}
