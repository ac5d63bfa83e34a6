//! The header of a .npy file, version 1.0.

use crate::exit::Failure;
use crate::printable::Printable;
use crate::stdio;
use lmc::{Dtype, NumpyName};
use lmc_format::dtype::DtypeKind;

const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";
/// The data starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// The header for a tensor in C order. A type that numpy does not have becomes unsigned integers of
/// its width, and a note on stderr says so. Packed types are refused.
pub fn header(dtype: Dtype, shape: &[u64]) -> Result<Vec<u8>, Failure> {
    let descr = match known(dtype) {
        Some(descr) => descr,
        None => {
            let descr = stand_in(dtype)?;
            let note = "the bits as they are";
            let dtype = dtype.label();
            let line = format_args!("lmc: numpy has no {dtype}: written as {descr}, {note}");
            stdio::say(Printable::line(line));
            descr
        }
    };
    let shape = tuple(shape);
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // A newline ends the text, and blanks before it align the data.
    let len = (MAGIC.len() + 2 + text.len() + 1).next_multiple_of(ALIGNMENT);
    let text_len = len - MAGIC.len() - 2;
    let field =
        u16::try_from(text_len).map_err(|_| Failure::new("too many dimensions for .npy"))?;
    let padded = format!("{text:<width$}\n", width = text_len - 1);
    Ok([&MAGIC[..], &field.to_le_bytes(), padded.as_bytes()].concat())
}

/// The name of a numpy type in the header; None if numpy itself does not have the type.
fn known(dtype: Dtype) -> Option<String> {
    match dtype.in_numpy()? {
        NumpyName::Own(name) => Some(descr(name.chars().next()?, dtype.bits() / 8)),
        NumpyName::MlDtypes(_) => None,
    }
}

/// Integers of the same width, for a type that numpy does not have.
fn stand_in(dtype: Dtype) -> Result<String, Failure> {
    if dtype.kind() == DtypeKind::Packed {
        let dtype = dtype.label();
        return Err(Failure::new(format!("numpy has no type for {dtype}; leave out --npy")));
    }
    Ok(descr('u', dtype.bits() / 8))
}

/// A letter for the kind of a type, the first letter of its numpy name, and its size in bytes.
fn descr(kind: char, len: u64) -> String {
    let order = if len == 1 { '|' } else { '<' };
    format!("{order}{kind}{len}")
}

/// A shape as Python writes it.
fn tuple(shape: &[u64]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => {
            let dimensions: Vec<String> = shape.iter().map(u64::to_string).collect();
            format!("({})", dimensions.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes are Python tuples, the data is aligned, and the length field covers the text.
    #[test]
    fn layout() {
        for (shape, expected) in
            [(&[][..], "'shape': (), }"), (&[3], "(3,)"), (&[2, 0, 5], "(2, 0, 5)")]
        {
            let header = header(Dtype::F32, shape).expect("numpy has f32");
            assert_eq!(header.len() % ALIGNMENT, 0);
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
            assert_eq!(header.last(), Some(&b'\n'));
            let text = String::from_utf8_lossy(&header[10..]).into_owned();
            assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, "), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }

    /// Every type that numpy has gets numpy's own description; others get integers of their width.
    #[test]
    fn descriptions() {
        for (dtype, expected) in [
            (Dtype::Bool, "|b1"),
            (Dtype::U8, "|u1"),
            (Dtype::I16, "<i2"),
            (Dtype::F64, "<f8"),
            (Dtype::Complex64, "<c8"),
            (Dtype::Bf16, "<u2"),
            (Dtype::F8E4M3, "|u1"),
        ] {
            let found = known(dtype).unwrap_or_else(|| stand_in(dtype).expect("not packed"));
            assert_eq!(found, expected, "{}", dtype.name());
        }
    }

    /// Types smaller than a byte cannot become arrays.
    #[test]
    fn packed_types_are_refused() {
        assert!(header(Dtype::F4E2M1, &[2]).is_err());
        assert!(header(Dtype::F6E2M3, &[4]).is_err());
    }
}
