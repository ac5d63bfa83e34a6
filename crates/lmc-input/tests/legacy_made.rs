//! Files like those that torch.save wrote before it wrote zip files, made by hand.

use crate::torch_made::text;

/// The magic number, the version and the system.
pub fn head() -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";
    [&magic[..], b"\x80\x02}", &text("little_endian"), b"\x88s."].concat()
}

/// A file with this state and these storages: keys, numbers of elements, and bytes.
pub fn legacy_file(state: &[u8], storages: &[(&str, u64, &[u8])]) -> Vec<u8> {
    let keys: Vec<u8> = storages.iter().flat_map(|(key, _, _)| text(key)).collect();
    let mut file = [&head()[..], state, b"\x80\x02](", &keys, b"e."].concat();
    for (_, count, bytes) in storages {
        file.extend([&count.to_le_bytes(), *bytes].concat());
    }
    file
}
