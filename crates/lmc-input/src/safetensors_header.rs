//! The header of a safetensors file, by the rules of its own library.

use crate::{Source, SourceItem, Tensor};
use lmc_codec::Dtype;
use lmc_format::SourceKind;
use safetensors::tensor::{Dtype as FileDtype, Metadata};

/// The longest header that is looked into, with its eight bytes of length. The format allows 100
/// MB, which takes a gigabyte to parse; a file with a longer one than this is coded as bytes.
pub const HEADER_LEN_MAX: u64 = 1 << 24;

/// Bytes of the length in front of the header.
const LENGTH_LEN: u64 = 8;

/// Bytes up to the end of the header of a file that starts with `start`; None if it cannot be a
/// safetensors file that is looked into.
pub fn header_len(start: [u8; 8], file_len: u64) -> Option<u64> {
    let len = u64::from_le_bytes(start).checked_add(LENGTH_LEN)?;
    (len > LENGTH_LEN && len <= HEADER_LEN_MAX && len <= file_len).then_some(len)
}

/// The items of a file of `file_len` bytes that starts with `header`, which is as long as
/// [`header_len`] said; None if the header breaks a rule of the format.
pub fn parse(header: &[u8], file_len: u64) -> Option<Source> {
    let json = header.get(LENGTH_LEN as usize..)?;
    // The library refuses overlaps, holes, and sizes that do not fit type and shape.
    let metadata: Metadata = serde_json::from_slice(json).ok()?;
    let header_len = header.len() as u64;
    if header_len.checked_add(metadata.data_len() as u64)? != file_len {
        return None;
    }
    let mut tensors: Vec<(FileDtype, Tensor)> = Vec::new();
    for (name, info) in metadata.tensors() {
        let (start, end) = info.data_offsets;
        let range = header_len + start as u64..header_len + end as u64;
        let shape = info.shape.iter().map(|&n| n as u64).collect();
        let dtype = info.dtype.to_string();
        tensors.push((info.dtype, Tensor { name, dtype, shape, range }));
    }
    // Empty tensors may share a place, so the name decides too.
    tensors.sort_by(|(_, a), (_, b)| {
        (a.range.start, a.range.end, &a.name).cmp(&(b.range.start, b.range.end, &b.name))
    });
    let head = SourceItem { len: header_len, dtype: Some(Dtype::Bytes), row_len: 0 };
    let items = std::iter::once(head).chain(tensors.iter().map(|(dtype, t)| item(*dtype, t)));
    Some(Source {
        kind: SourceKind::Safetensors,
        items: items.collect(),
        tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect(),
    })
}

fn item(dtype: FileDtype, tensor: &Tensor) -> SourceItem {
    let len = tensor.range.end - tensor.range.start;
    let dtype = codec_dtype(dtype);
    let rows: u64 = match tensor.shape.split_last() {
        Some((&last, rest)) if last > 0 && !rest.is_empty() => rest.iter().product(),
        _ => 0,
    };
    // Packed types may end a row within a byte; then there are no rows to speak of.
    let width = dtype.width() as u64;
    let row_len = match rows {
        0 => 0,
        rows if len.is_multiple_of(rows * width) => len / rows / width,
        _ => 0,
    };
    SourceItem { len, dtype: Some(dtype), row_len }
}

fn codec_dtype(dtype: FileDtype) -> Dtype {
    match dtype {
        FileDtype::BF16 => Dtype::Bf16,
        FileDtype::F16 => Dtype::F16,
        FileDtype::F32 => Dtype::F32,
        FileDtype::F64 => Dtype::F64,
        FileDtype::F8_E4M3 => Dtype::F8E4M3,
        FileDtype::F8_E5M2 => Dtype::F8E5M2,
        FileDtype::F8_E4M3FNUZ => Dtype::F8E4M3Fnuz,
        FileDtype::F8_E5M2FNUZ => Dtype::F8E5M2Fnuz,
        FileDtype::F8_E8M0 => Dtype::F8E8M0,
        FileDtype::I8 => Dtype::I8,
        FileDtype::I16 => Dtype::I16,
        FileDtype::I32 => Dtype::I32,
        FileDtype::I64 => Dtype::I64,
        FileDtype::U8 => Dtype::U8,
        FileDtype::U16 => Dtype::U16,
        FileDtype::U32 => Dtype::U32,
        FileDtype::U64 => Dtype::U64,
        FileDtype::BOOL => Dtype::Bool,
        FileDtype::C64 => Dtype::Complex64,
        // Packed, or newer than this library.
        _ => Dtype::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(json: &str, data_len: usize) -> (Vec<u8>, u64) {
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend_from_slice(json.as_bytes());
        let len = (header.len() + data_len) as u64;
        (header, len)
    }

    /// Tensors come in the order of their bytes, whatever the order of the header; matrices have
    /// rows, vectors and scalars have none.
    #[test]
    fn tensors_are_found() {
        let (header, len) = file(
            r#"{"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},"__metadata__":{"k":"v"},
                "a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]},
                "z":{"dtype":"U8","shape":[0,7],"data_offsets":[8,8]}}"#,
            24 + 8,
        );
        let source = parse(&header, len).expect("a valid header");
        let names: Vec<&str> = source.tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a", "z", "b"]);
        let items: Vec<(u64, u64)> = source.items.iter().map(|i| (i.len, i.row_len)).collect();
        assert_eq!(items, [(header.len() as u64, 0), (8, 0), (0, 0), (24, 3)]);
    }

    /// A header that breaks a rule of the format is no header.
    #[test]
    fn broken_rules_are_refused() {
        for (json, data_len) in [
            ("", 0),
            ("[]", 0),
            (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 5),
            (r#"{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}"#, 4),
            (r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#, 0),
        ] {
            let (header, len) = file(json, data_len);
            assert!(parse(&header, len).is_none(), "{json}");
        }
    }

    /// Lengths that cannot be are refused before anything is read.
    #[test]
    fn header_lengths_are_limited() {
        assert_eq!(header_len(10_u64.to_le_bytes(), 100), Some(18));
        for (n, file_len) in [(0, 100), (93, 100), (1 << 31, 1 << 40), (1 << 63, 9), (u64::MAX, 9)]
        {
            assert_eq!(header_len(n.to_le_bytes(), file_len), None);
        }
    }
}
