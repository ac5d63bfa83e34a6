//! What it takes to decode a part of a block.

use std::ops::Range;

/// What it takes to decode a part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The part that is decoded at no more cost: whole segments.
    pub whole: Range<usize>,
    /// Bytes that the decoder writes for it.
    pub writes: usize,
    /// What of the block's base it needs; nothing if it needs none.
    pub base: Option<Range<usize>>,
}

impl Need {
    /// For a coded block with these segments, whose rows have `row_len` values; 0 if it has no rows.
    pub(crate) fn of_coded(
        raw_len: usize,
        range: &Range<usize>,
        segment_len: usize,
        needs_base: bool,
        row_len: usize,
    ) -> Self {
        let whole = widened(range, segment_len, raw_len);
        // All row offsets of a block are decoded, whatever is wanted of it.
        let rows = raw_len.checked_div(row_len).map_or(0, |rows| rows.saturating_add(1));
        let writes = whole.len().saturating_add(rows);
        Self { writes, base: needs_base.then(|| whole.clone()), whole }
    }
}

/// The multiples of `unit` that hold `range`, up to `end`.
pub(crate) fn widened(range: &Range<usize>, unit: usize, end: usize) -> Range<usize> {
    range.start / unit * unit..range.end.next_multiple_of(unit).min(end)
}
