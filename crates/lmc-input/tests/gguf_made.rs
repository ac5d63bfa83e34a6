//! Files like those of llama.cpp, made by hand.

/// A string with its length.
pub fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A key with a value of a type.
pub fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&string(key)[..], &kind.to_le_bytes(), value].concat()
}

/// A tensor of the list: dimensions from the innermost, type, and offset.
pub fn listed(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = [&string(name)[..], &(dims.len() as u32).to_le_bytes()].concat();
    bytes.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// A file with these keys, tensors and bytes.
pub fn gguf(pairs: &[Vec<u8>], tensors: &[Vec<u8>], alignment: usize, data: &[u8]) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend((pairs.len() as u64).to_le_bytes());
    file.extend(pairs.concat());
    file.extend(tensors.concat());
    file.resize(file.len().next_multiple_of(alignment), 0);
    file.extend(data);
    file
}
