//! Files of NumPy with several arrays, made by hand.

/// An array: name, type as NumPy writes it (`<f4`), shape and bytes.
pub type Array<'a> = (String, &'a str, Vec<u64>, Vec<u8>);

/// A zip file with these arrays, all of them in the folder `prefix`; `note` is a text in it that
/// belongs to no array.
pub fn npz(prefix: &str, arrays: &[Array], note: &str) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    let entries = arrays.iter().map(|(name, descr, shape, bytes)| {
        (format!("{prefix}{name}.npy"), [&header(descr, shape)[..], bytes].concat())
    });
    let note = std::iter::once((format!("{prefix}note.txt"), note.as_bytes().to_vec()));
    let mut count = 0_u16;
    for (name, data) in note.chain(entries) {
        count += 1;
        let len = (data.len() as u32).to_le_bytes();
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 4], &len, &len].concat();
        let name_len = (name.len() as u16).to_le_bytes();
        let at = (file.len() as u32).to_le_bytes();
        let own = [b"PK\x03\x04", &common[..], &name_len, &[0, 0], name.as_bytes(), &data];
        file.extend(own.concat());
        let central = [b"PK\x01\x02\x14\0", &common[..], &name_len, &[0; 12], &at];
        directory.extend([&central.concat()[..], name.as_bytes()].concat());
    }
    let (len, start) = ((directory.len() as u32).to_le_bytes(), file.len() as u32);
    file.extend(directory);
    let count = count.to_le_bytes();
    let end = [b"PK\x05\x06\0\0\0\0", &count[..], &count, &len, &start.to_le_bytes(), &[0, 0]];
    file.extend(end.concat());
    file
}

/// The header before an array.
fn header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let len = (10 + text.len() + 1).next_multiple_of(64) - 11;
    let text = format!("{text:len$}\n");
    let text_len = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &text_len[..], text.as_bytes()].concat()
}
