//! Models like those of ONNX, made by hand.

/// A number of variable length.
pub fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0x7f {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

/// A field with a number.
pub fn number(field: u64, n: u64) -> Vec<u8> {
    [varint(field << 3), varint(n)].concat()
}

/// A field with bytes.
pub fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2)[..], &varint(content.len() as u64), content].concat()
}

/// A tensor of this type with its values as they are in memory.
pub fn tensor(name: &str, kind: u64, dims: &[u64], raw: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    [&dims[..], &number(2, kind), &bytes(8, name.as_bytes()), &bytes(9, raw)].concat()
}

/// A model with this graph, which comes last, so that the file is not sound without its end.
pub fn model(graph: &[u8]) -> Vec<u8> {
    [number(1, 8), bytes(2, b"a producer"), bytes(8, &number(2, 17)), bytes(7, graph)].concat()
}
