//! Files like those of NumPy, made by hand.

/// A header of version 1 as NumPy pads it.
pub fn npy_header(text: &str) -> Vec<u8> {
    let mut text = text.to_owned();
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat()
}

/// An array of this type and shape.
pub fn npy(descr: &str, fortran_order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text =
        format!("{{'descr': {descr}, 'fortran_order': {fortran_order}, 'shape': {shape}, }}");
    [&npy_header(&text)[..], data].concat()
}
