//! Which parts of a checkpoint are read, if not all of it.

use std::collections::BTreeMap;
use std::ops::Range;

use lmc_format::Dtype;

/// Bytes of a part of a tensor.
const PIECE_LEN: u64 = 1 << 20;
/// The least bytes of one. An element type that gets less is left out.
const PIECE_LEN_MIN: u64 = 1 << 12;
/// An element type gets shorter parts rather than fewer than this.
const PIECES_MIN: u64 = 4;
/// Bytes that are planned as one when a checkpoint is compressed: the parts if all of it is read.
const SPAN_LEN: u64 = 8 << 20;
/// A multiple of the bytes of every value.
const ALIGNMENT: u64 = 16;

/// A tensor, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Type of its elements.
    pub dtype: Dtype,
    /// Words in a row, 0 if it has no rows.
    pub row_len: u64,
    /// Its bytes.
    pub len: u64,
}

/// The parts of `tensors` to read: for each the place of its tensor in the list, and its bytes in
/// that tensor. They have up to `sample` bytes in all, of each element type the share that it has
/// of all bytes, and are evenly spread over the tensors of that type. Each begins and ends between
/// two rows where rows are short enough.
pub fn pick(tensors: &[Extent], sample: u64) -> Vec<(usize, Range<u64>)> {
    let total: u128 = tensors.iter().map(|tensor| u128::from(tensor.len)).sum();
    if total <= u128::from(sample) {
        let all = tensors.iter().enumerate();
        return all.flat_map(|(i, tensor)| spans(tensor).map(move |span| (i, span))).collect();
    }
    let mut types: BTreeMap<Dtype, Vec<usize>> = BTreeMap::new();
    for (i, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| tensor.len > 0) {
        types.entry(tensor.dtype).or_default().push(i);
    }
    let of_type = |members: &Vec<usize>| {
        let len: u128 = members.iter().map(|&i| u128::from(tensors[i].len)).sum();
        // Less than `sample`, since `len` is at most `total`.
        let share = (u128::from(sample) * len / total) as u64;
        windows(tensors, members, len, share)
    };
    let mut parts: Vec<(usize, Range<u64>)> = types.values().flat_map(of_type).collect();
    parts.sort_by_key(|(i, range)| (*i, range.start));
    parts
}

/// All of a tensor, in parts that are compressed as one.
fn spans(tensor: &Extent) -> impl Iterator<Item = Range<u64>> + use<> {
    let (len, rows) = (tensor.len, row_bytes(tensor));
    let step = if rows <= SPAN_LEN { SPAN_LEN / rows * rows } else { SPAN_LEN };
    (0..len).step_by(step as usize).map(move |start| start..len.min(start + step))
}

/// Up to `share` bytes of the tensors `members`, which have `len` bytes together: windows of one
/// length on the line that they make when laid end to end. A window may lie in several tensors.
fn windows(
    tensors: &[Extent],
    members: &[usize],
    len: u128,
    share: u64,
) -> Vec<(usize, Range<u64>)> {
    let window = PIECE_LEN.min(share / PIECES_MIN).max(PIECE_LEN_MIN);
    let count = u128::from(share / window);
    let mut parts: Vec<(usize, Range<u64>)> = Vec::new();
    // The tensor that holds the start of the window, and where that tensor begins on the line.
    let (mut member, mut begin) = (0, 0_u128);
    for i in 0..count {
        // A window is in the middle of its share of the line, which is at least as long.
        let mut start = (2 * i + 1) * len / (2 * count) - u128::from(window / 2);
        let mut rest = window;
        while rest > 0 && member < members.len() {
            let tensor = &tensors[members[member]];
            let place = start.saturating_sub(begin);
            if place >= u128::from(tensor.len) {
                begin += u128::from(tensor.len);
                member += 1;
                continue;
            }
            let last = parts.last().filter(|(i, _)| *i == members[member]);
            let read = last.map_or(0, |(_, range)| range.end);
            let from = row_start(tensor, place as u64, window).max(read);
            let end = from + rest.min(tensor.len - from);
            let to = if end < tensor.len { row_start(tensor, end, window) } else { end };
            if from < to {
                parts.push((members[member], from..to));
            }
            rest -= end - from;
            start = begin + u128::from(end);
        }
    }
    parts
}

/// The last place up to `place` where a row begins; or a value, if rows are long for a window.
fn row_start(tensor: &Extent, place: u64, window: u64) -> u64 {
    let rows = row_bytes(tensor);
    let unit = if rows <= window / 8 { rows } else { ALIGNMENT };
    place / unit * unit
}

/// Bytes of a row; if there are none, of a few values.
fn row_bytes(tensor: &Extent) -> u64 {
    match tensor.row_len.saturating_mul(tensor.dtype.width() as u64) {
        0 => ALIGNMENT,
        len => len,
    }
}
