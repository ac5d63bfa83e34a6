//! Element types of HDF5, which are described bit by bit.

use crate::little_endian::{u16_at, u32_at, uint_at};
use lmc_format::Dtype;

/// Bytes of a description in front of what differs between classes.
const HEAD_LEN: usize = 8;
/// Names of the values of truth, as h5py writes them.
const TRUTH: &[u8] = b"FALSE\0";

/// The type that a message describes, None if we do not have it, and bytes of an element, if they
/// are known.
pub(crate) fn read(bytes: &[u8]) -> Option<(Option<Dtype>, Option<u64>)> {
    let size = u64::from(u32_at(bytes, 4)?);
    // What is made of other types says a size of its own.
    let dtype = dtype(bytes).filter(|dtype| dtype.byte_len(1) == Some(size));
    Some((dtype, Some(size)))
}

fn dtype(bytes: &[u8]) -> Option<Dtype> {
    match bytes.first()? & 15 {
        0 => integer(bytes),
        1 => float(bytes),
        6 => complex(bytes),
        8 => truth(bytes),
        _ => None,
    }
}

/// An integer that fills its bytes.
fn integer(bytes: &[u8]) -> Option<Dtype> {
    let (flags, size) = (*bytes.get(1)?, u32_at(bytes, 4)?);
    let (offset, bits) = (u16_at(bytes, HEAD_LEN)?, u16_at(bytes, HEAD_LEN + 2)?);
    let is_big_endian = flags & 1 != 0 && size > 1;
    let is_signed = flags & 8 != 0;
    if offset != 0 || u32::from(bits) != size.checked_mul(8)? || is_big_endian {
        return None;
    }
    Some(match (size, is_signed) {
        (1, true) => Dtype::I8,
        (2, true) => Dtype::I16,
        (4, true) => Dtype::I32,
        (8, true) => Dtype::I64,
        (1, false) => Dtype::U8,
        (2, false) => Dtype::U16,
        (4, false) => Dtype::U32,
        (8, false) => Dtype::U64,
        _ => return None,
    })
}

/// A float of one of the usual forms.
fn float(bytes: &[u8]) -> Option<Dtype> {
    let flags = *bytes.get(1)?;
    let sign = *bytes.get(2)?;
    let size = u32_at(bytes, 4)?;
    let offset = u16_at(bytes, HEAD_LEN)?;
    let bits = u16_at(bytes, HEAD_LEN + 2)?;
    let fields = bytes.get(HEAD_LEN + 4..HEAD_LEN + 8)?;
    let bias = u32_at(bytes, HEAD_LEN + 8)?;
    // Both bits of the order are 0 in little-endian ones.
    if flags & 0x41 != 0 || offset != 0 || u32::from(bits) != size.checked_mul(8)? {
        return None;
    }
    Some(match (size, sign, fields, bias) {
        (2, 15, [10, 5, 0, 10], 15) => Dtype::F16,
        (2, 15, [7, 8, 0, 7], 127) => Dtype::Bf16,
        (4, 31, [23, 8, 0, 23], 127) => Dtype::F32,
        (8, 63, [52, 11, 0, 52], 1023) => Dtype::F64,
        _ => return None,
    })
}

/// Two fields, r and i, as h5py writes complex numbers.
fn complex(bytes: &[u8]) -> Option<Dtype> {
    let version = *bytes.first()? >> 4;
    let size = u32_at(bytes, 4)?;
    if u16_at(bytes, 1)? != 2 {
        return None;
    }
    let mut at = HEAD_LEN;
    let mut part = None;
    for (name, place) in [(b"r\0", 0), (b"i\0", u64::from(size / 2))] {
        if bytes.get(at..)?.get(..2)? != name {
            return None;
        }
        let (offset, type_at) = match version {
            // The name fills eight bytes, and in the first version dimensions follow.
            1 => (u32_at(bytes, at + 8)?.into(), at + 8 + 32),
            2 => (u32_at(bytes, at + 8)?.into(), at + 12),
            // A name of any length, and a number of as many bytes as are needed.
            3..=5 => (uint_at(bytes, at + 2, 1)?, at + 3),
            _ => return None,
        };
        let float = float(bytes.get(type_at..)?)?;
        let is_same = part.is_none_or(|part| part == float) && bytes.get(type_at)? & 15 == 1;
        if offset != place || !is_same {
            return None;
        }
        part = Some(float);
        at = type_at + HEAD_LEN + 12;
    }
    match (part?, size) {
        (Dtype::F16, 4) => Some(Dtype::Complex32),
        (Dtype::F32, 8) => Some(Dtype::Complex64),
        (Dtype::F64, 16) => Some(Dtype::Complex128),
        _ => None,
    }
}

/// An integer whose values have names; values of truth if they are called so.
fn truth(bytes: &[u8]) -> Option<Dtype> {
    let base = bytes.get(HEAD_LEN..)?;
    let dtype = integer(base).filter(|_| base.first().is_some_and(|first| first & 15 == 0))?;
    let names = base.get(HEAD_LEN + 4..)?;
    let is_truth = dtype == Dtype::I8 && u16_at(bytes, 1)? == 2 && names.starts_with(TRUTH);
    Some(if is_truth { Dtype::Bool } else { dtype })
}
