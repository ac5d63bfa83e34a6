//! The header of a .npy file, version 1.0.

use crate::exit::Failure;
use crate::printable::Printable;
use crate::stdio;

const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";
/// The data starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// The header for a tensor in C order. A type that numpy has not got becomes unsigned integers of
/// its width, which stderr is told; a type that is no whole number of bytes is refused.
pub fn header(dtype: &str, shape: &[u64]) -> Result<Vec<u8>, Failure> {
    let descr = match known(dtype) {
        Some(descr) => descr,
        None => {
            let descr = stand_in(dtype)?;
            let note = "the bits as they are";
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

/// numpy's name for a safetensors type.
fn known(dtype: &str) -> Option<&'static str> {
    Some(match dtype {
        "BOOL" => "|b1",
        "U8" => "|u1",
        "I8" => "|i1",
        "U16" => "<u2",
        "I16" => "<i2",
        "F16" => "<f2",
        "U32" => "<u4",
        "I32" => "<i4",
        "F32" => "<f4",
        "U64" => "<u8",
        "I64" => "<i8",
        "F64" => "<f8",
        "C64" => "<c8",
        _ => return None,
    })
}

/// Integers as wide as a type that numpy has not got.
fn stand_in(dtype: &str) -> Result<&'static str, Failure> {
    match dtype {
        "BF16" => Ok("<u2"),
        _ if dtype.starts_with("F8_") => Ok("|u1"),
        _ => Err(Failure::new(format!("numpy has no type for {dtype}; leave out --npy"))),
    }
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
            let header = header("F32", shape).expect("numpy has f32");
            assert_eq!(header.len() % ALIGNMENT, 0);
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
            assert_eq!(header.last(), Some(&b'\n'));
            let text = String::from_utf8_lossy(&header[10..]).into_owned();
            assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, "), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }

    /// Types of less than a byte cannot be arrays.
    #[test]
    fn packed_types_are_refused() {
        assert!(header("F4", &[2]).is_err());
        assert!(header("F6_E2M3", &[4]).is_err());
    }
}
