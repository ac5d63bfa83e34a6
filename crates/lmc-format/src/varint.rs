//! LEB128 numbers: low seven bits first, shortest form only.

use crate::error::{Error, Result};
use crate::limits::VARINT_LEN_MAX;

/// Appends `value` in its shortest form.
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

fn low_byte(value: u64) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low
}

/// Length in bytes of `value` as a varint.
pub fn len(value: u64) -> usize {
    let bits = 64_u32.saturating_sub(value.leading_zeros()).max(1);
    bits.div_ceil(7) as usize
}

/// Reads a varint from the front of `bytes`; returns it and the number of bytes it took.
///
/// Fails on input that ends early, on numbers over 64 bits and on forms longer than needed.
pub fn read(bytes: &[u8]) -> Result<(u64, usize)> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().take(VARINT_LEN_MAX).enumerate() {
        let part = u64::from(byte & 0x7f);
        let shift = u32::try_from(i).unwrap_or(0).saturating_mul(7);
        if shift == 63 && part > 1 {
            return Err(Error::corrupt("varint does not fit in 64 bits"));
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            if byte == 0 && i > 0 {
                return Err(Error::corrupt("varint is longer than its value needs"));
            }
            return Ok((value, i.saturating_add(1)));
        }
    }
    if bytes.len() >= VARINT_LEN_MAX {
        return Err(Error::corrupt("varint is longer than 10 bytes"));
    }
    Err(Error::truncated("input ends inside a varint"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every power of two and its neighbours are read back, at the predicted length.
    #[test]
    fn roundtrip_at_every_length() {
        let mut values = vec![0, u64::MAX];
        for shift in 0..64 {
            let p = 1_u64 << shift;
            values.extend([p, p - 1, p.wrapping_add(1)]);
        }
        for v in values {
            let mut out = Vec::new();
            write(&mut out, v);
            assert_eq!(out.len(), len(v));
            assert_eq!(read(&out), Ok((v, out.len())));
            assert!(read(&out[..out.len() - 1]).is_err());
        }
    }

    /// Padded and oversized forms are refused.
    #[test]
    fn rejects_other_forms() {
        assert!(read(&[0x80, 0x00]).is_err());
        assert!(read(&[0xff; 10]).is_err());
        assert!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).is_err());
    }
}
