//! Numbers in a slice; None if it ends before.

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}

/// A number of up to eight bytes.
pub(crate) fn uint_at(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut number = [0; 8];
    number.get_mut(..len)?.copy_from_slice(bytes.get(at..)?.get(..len)?);
    Some(u64::from_le_bytes(number))
}
