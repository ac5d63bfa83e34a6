//! Steps before a compressor gets the bytes: XOR with a base, then byte grouping.

use crate::{Result, grouping};

/// Either, both or neither of the steps, with the memory for them.
#[derive(Debug, Default)]
pub struct Filter {
    width: Option<usize>,
    xored: Vec<u8>,
    planes: Vec<u8>,
}

impl Filter {
    /// Groups the bytes of values of `width` bytes, if one is given.
    pub fn new(width: Option<usize>) -> Self {
        Self { width, ..Self::default() }
    }

    /// The bytes to code for `data`. A base has the same length.
    pub fn forward<'a>(&'a mut self, data: &'a [u8], base: Option<&[u8]>) -> &'a [u8] {
        let mut filtered = data;
        if let Some(base) = base {
            let xored = room(&mut self.xored, data.len());
            xor(filtered, base, xored);
            filtered = xored;
        }
        if let Some(width) = self.width {
            let planes = room(&mut self.planes, data.len());
            grouping::group(filtered, width, planes);
            filtered = planes;
        }
        filtered
    }

    /// Restores `out` from the bytes that `decode` writes: as many as [`Filter::forward`] gave.
    pub fn inverse(
        &mut self,
        base: Option<&[u8]>,
        out: &mut [u8],
        decode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(base) = base else { return self.ungroup(out, decode) };
        let mut xored = std::mem::take(&mut self.xored);
        let done = self.ungroup(room(&mut xored, out.len()), decode);
        xor(&xored[..out.len()], base, out);
        self.xored = xored;
        done
    }

    fn ungroup(
        &mut self,
        out: &mut [u8],
        decode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let Some(width) = self.width else { return decode(out) };
        let planes = room(&mut self.planes, out.len());
        decode(planes)?;
        grouping::ungroup(planes, width, out);
        Ok(())
    }
}

/// The first `len` bytes. After the first call the buffer is long enough.
fn room(bytes: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
    &mut bytes[..len]
}

fn xor(data: &[u8], base: &[u8], out: &mut [u8]) {
    assert!(data.len() == base.len() && data.len() == out.len(), "all have one length");
    for ((out, data), base) in out.iter_mut().zip(data).zip(base) {
        *out = data ^ base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both directions undo each other, with and without grouping and a base. Where data and base
    /// are equal, only zeros are left.
    #[test]
    fn roundtrip() {
        let data: Vec<u8> = (0..1000).map(|i| (i * 31 % 251) as u8).collect();
        let other: Vec<u8> = data.iter().map(|byte| byte.wrapping_mul(7)).collect();
        for width in [None, Some(2), Some(4)] {
            for base in [None, Some(&data), Some(&other)] {
                let base = base.map(Vec::as_slice);
                let mut filter = Filter::new(width);
                let filtered = filter.forward(&data, base).to_vec();
                assert_eq!(filtered.iter().all(|&byte| byte == 0), base == Some(&data));
                let mut back = vec![1; data.len()];
                let copy = |out: &mut [u8]| {
                    out.copy_from_slice(&filtered);
                    Ok(())
                };
                filter.inverse(base, &mut back, copy).expect("a copy does not fail");
                assert_eq!(back, data);
            }
        }
    }
}
