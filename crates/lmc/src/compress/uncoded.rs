//! Estimates the cost of reading parts of a file that is not coded yet: the one that is being
//! compressed, or a base that somebody may compress later. Every span counts as if it had the
//! longest segments that our writer makes.

use crate::base::budget::Cost;
use lmc_codec::Dtype;
use lmc_format::Result;
use lmc_input::Cut;
use std::ops::Range;

/// Values in the longest segment.
const SEGMENT_VALUES: u64 = 1 << 18;
/// A segment can have that many values only if they have at most this many bytes each; it has fewer
/// wider values.
const WIDTH_MAX: u64 = 4;

/// Adds up what decoders will write to read the bytes `range` of a file with these spans. `file` is
/// its number; `below` is called with a span and the part of it that is decoded, to add the cost of
/// its base.
pub(crate) fn add_cost(
    file: usize,
    cuts: &[Cut],
    range: Range<u64>,
    depth: usize,
    cost: &mut Cost,
    mut below: impl FnMut(usize, Range<u64>, &mut Cost) -> Result<()>,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end && !cost.is_too_much() {
        if let Some(kept) = cost.kept(file, at) {
            at = kept.end;
            continue;
        }
        let i = cuts.partition_point(|cut| cut.range.end <= at);
        let (start, len) = (cuts[i].range.start, cuts[i].range.end - cuts[i].range.start);
        let segment_len = SEGMENT_VALUES * width(&cuts[i]);
        let first = (at - start) / segment_len * segment_len;
        let part = first..len.min(first + segment_len);
        let segment = start + part.start..start + part.end;
        if segment.start < at || range.end < segment.end {
            cost.keep(file, segment.clone());
        }
        let blocks = len.div_ceil(segment_len) as usize;
        cost.add(depth, blocks, 1, blocks > 1, segment.end - segment.start);
        below(i, part, cost)?;
        at = segment.end;
    }
    Ok(())
}

/// Bytes of the values of a span. A span without a type may turn out to have any.
fn width(cut: &Cut) -> u64 {
    cut.dtype.map_or(WIDTH_MAX, |dtype: Dtype| (dtype.width() as u64).min(WIDTH_MAX))
}
