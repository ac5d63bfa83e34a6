//! Byte grouping: all first bytes of the values, then all second bytes, and so on.
//!
//! Done in blocks of 1 MiB so that it stays in the cache. Bytes beyond the last whole value of
//! the data are copied as they are.

/// Bytes grouped at a time; a multiple of every width.
const BLOCK_LEN: usize = 1 << 20;

/// Groups the bytes of `data` (values of `width` bytes) into `grouped`, of the same length.
pub fn group(data: &[u8], width: usize, grouped: &mut [u8]) {
    for (from, to) in data.chunks(BLOCK_LEN).zip(grouped.chunks_mut(BLOCK_LEN)) {
        group_block(from, width, to);
    }
}

/// Undoes [`group`].
pub fn ungroup(grouped: &[u8], width: usize, data: &mut [u8]) {
    for (from, to) in grouped.chunks(BLOCK_LEN).zip(data.chunks_mut(BLOCK_LEN)) {
        match width {
            2 => ungroup_block::<2>(from, to),
            4 => ungroup_block::<4>(from, to),
            8 => ungroup_block::<8>(from, to),
            _ => to.copy_from_slice(from),
        }
    }
}

fn group_block(data: &[u8], width: usize, grouped: &mut [u8]) {
    match width {
        2 => group_planes::<2>(data, grouped),
        4 => group_planes::<4>(data, grouped),
        8 => group_planes::<8>(data, grouped),
        _ => grouped.copy_from_slice(data),
    }
}

/// One plane after another: the compiler turns each into packed shifts and masks.
fn group_planes<const W: usize>(data: &[u8], grouped: &mut [u8]) {
    let (values, rest) = data.as_chunks::<W>();
    let (planes, tail) = grouped.split_at_mut(values.len() * W);
    for (k, plane) in planes.chunks_exact_mut(values.len().max(1)).enumerate() {
        for (byte, value) in plane.iter_mut().zip(values) {
            *byte = value[k];
        }
    }
    tail.copy_from_slice(rest);
}

/// All planes together: whole values are written, so that the stores are wide.
fn ungroup_block<const W: usize>(grouped: &[u8], data: &mut [u8]) {
    let (values, tail) = data.as_chunks_mut::<W>();
    let count = values.len();
    let planes: [&[u8]; W] = std::array::from_fn(|k| &grouped[k * count..][..count]);
    for (i, value) in values.iter_mut().enumerate() {
        *value = std::array::from_fn(|k| planes[k][i]);
    }
    tail.copy_from_slice(&grouped[count * W..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ungrouping gives the data back for every width and for ragged ends.
    #[test]
    fn roundtrip() {
        for width in [1, 2, 4, 8] {
            for len in [0, 1, 7, 8, 1000, BLOCK_LEN, BLOCK_LEN + 13] {
                let data: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
                let (mut grouped, mut back) = (vec![0; len], vec![0; len]);
                group(&data, width, &mut grouped);
                ungroup(&grouped, width, &mut back);
                assert_eq!(back, data, "width {width}, {len} bytes");
            }
        }
    }
}
