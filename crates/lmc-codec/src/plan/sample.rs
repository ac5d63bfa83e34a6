//! A look at part of a tensor: evenly spread stretches of values.

/// Values in one stretch: two or more cache lines of most types, and whole vectors.
const STRETCH: usize = 64;

/// About `wanted` values of `bytes` (values of `width` bytes), in stretches spread over all of it;
/// all of them if they are not more.
pub fn sample(bytes: &[u8], width: usize, wanted: usize) -> Vec<u8> {
    let n = bytes.len() / width;
    if n <= wanted.max(STRETCH) {
        return bytes[..n * width].to_vec();
    }
    let stretches = wanted.div_ceil(STRETCH);
    let mut sample = Vec::with_capacity(stretches * STRETCH * width);
    for i in 0..stretches {
        let start = (n - STRETCH) * i / (stretches - 1).max(1);
        sample.extend_from_slice(&bytes[start * width..(start + STRETCH) * width]);
    }
    sample
}
