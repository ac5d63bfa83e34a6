//! Cuts a file into spans (`docs/format.md`, section 7.7).

use crate::{FileLayout, LayoutItem};
use lmc_format::Dtype;
use std::ops::Range;

/// Bytes of a span that is part of a long item.
const SPAN_LEN: u64 = 1 << 23;
/// Tensors up to this length share spans.
const SMALL_LEN: u64 = 1 << 16;
/// Bytes of a span of small tensors. They share a recipe, and tensors of one model can differ much.
const GROUP_LEN: u64 = 1 << 17;

/// A span to be coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Its bytes in the file.
    pub range: Range<u64>,
    /// Element type, if known.
    pub dtype: Option<Dtype>,
    /// Words in a row, 0 if there are no rows.
    pub row_len: u64,
    /// The items that it holds, or the one that it is part of.
    pub items: Range<usize>,
}

/// Whether an item, if it is a tensor, is short enough to share a span.
pub fn is_small(item: &LayoutItem) -> bool {
    item.len <= SMALL_LEN
}

/// The spans of `source`; together they cover the file.
pub fn cut(source: &FileLayout) -> Vec<Cut> {
    cut_where(source, |_, _| true)
}

/// The same, but two small tensors with nothing between them share a span only if `may_share`
/// allows it for their items. Large ones are cut as before, so that no checksum of an item depends
/// on it.
pub fn cut_where(source: &FileLayout, may_share: impl Fn(usize, usize) -> bool) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut start = 0;
    // The last item with bytes, if it shares a span or may share one.
    let mut last_small = None;
    for (i, item) in source.items.iter().enumerate() {
        let end = start + item.len;
        let is_small = i > 0 && is_small(item);
        match cuts.last_mut() {
            Some(group)
                if is_small
                    && last_small.is_some_and(|last| item.len == 0 || may_share(last, i))
                    && group.dtype == item.dtype
                    && end - group.range.start <= GROUP_LEN =>
            {
                group.range.end = end;
                group.items.end = i + 1;
                if group.row_len != item.row_len {
                    group.row_len = 0;
                }
                if item.len > 0 {
                    last_small = Some(i);
                }
            }
            _ if item.len == 0 => continue,
            _ => {
                let width = item.dtype.map_or(1, Dtype::width) as u64;
                let step = span_len(item.row_len.saturating_mul(width));
                let mut from = start;
                while from < end {
                    let to = if is_small { end } else { end.min(from + step) };
                    let (dtype, row_len) = (item.dtype, item.row_len);
                    cuts.push(Cut { range: from..to, dtype, row_len, items: i..i + 1 });
                    from = to;
                }
                last_small = is_small.then_some(i);
            }
        }
        start = end;
    }
    cuts
}

/// Bytes of a span of an item with rows of `row_bytes`.
fn span_len(row_bytes: u64) -> u64 {
    match SPAN_LEN.checked_div(row_bytes) {
        None | Some(0) => SPAN_LEN,
        Some(rows) => rows * row_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lmc_format::SourceKind;

    fn source(items: &[(u64, Dtype, u64)]) -> FileLayout {
        let items = items
            .iter()
            .map(|&(len, dtype, row_len)| LayoutItem { len, dtype: Some(dtype), row_len })
            .collect();
        FileLayout { kind: SourceKind::Safetensors, items }
    }

    /// Spans cover the file; long items are cut between rows, small ones of one type share a span.
    #[test]
    fn spans_follow_the_rules() {
        let cuts = cut(&source(&[
            (100, Dtype::Bytes, 0),
            (30_000_000, Dtype::F32, 750),
            (0, Dtype::F32, 0),
            (4000, Dtype::F32, 10),
            (0, Dtype::F32, 10),
            (8000, Dtype::F32, 10),
            (8000, Dtype::Bf16, 10),
        ]));
        let lens: Vec<u64> = cuts.iter().map(|c| c.range.end - c.range.start).collect();
        let most = (1 << 23) / 3000 * 3000;
        assert_eq!(lens, [100, most, most, most, 30_000_000 - 3 * most, 12_000, 8000]);
        assert_eq!(cuts[5].items, 3..6);
        assert_eq!(cuts[5].row_len, 10);
        let mut end = 0;
        for cut in &cuts {
            assert_eq!(cut.range.start, end);
            end = cut.range.end;
        }
        assert_eq!(end, 30_020_100);
    }

    /// Small tensors that may not share a span do not, and empty ones between them change nothing.
    #[test]
    fn sharing_can_be_refused() {
        let small = (4000, Dtype::F32, 10);
        let items = [(9, Dtype::Bytes, 0), small, small, (0, Dtype::F32, 10), small, small];
        let cuts = cut_where(&source(&items), |a, b| (a, b) != (2, 4));
        let items: Vec<Range<usize>> = cuts.iter().map(|cut| cut.items.clone()).collect();
        assert_eq!(items, [0..1, 1..4, 4..6]);
    }

    /// A file without items, or with only an empty one, has no spans.
    #[test]
    fn nothing_has_no_span() {
        assert!(cut(&source(&[])).is_empty());
        assert!(cut(&FileLayout::bytes(0)).is_empty());
    }
}
