//! The contents of a safetensors file that may be too short or too long.

use crate::contents::{Contents, Data, Format, OtherTensor, Reason};
use crate::safetensors_header::{JSON_LEN_MAX, header_len, tensors_of_any_length};
use crate::source::Source;

/// Bytes of the length in front of the header.
const LENGTH_LEN: usize = 8;

/// Looks at a file whose ninth byte begins a JSON object; None if the bytes in front of that are no
/// length of a header.
pub(crate) fn find(source: &Source, start: &[u8]) -> Option<Contents> {
    let &length = start.first_chunk::<LENGTH_LEN>()?;
    if u64::from_le_bytes(length) > JSON_LEN_MAX {
        return None;
    }
    let Some(header_len) = header_len(length, source.len()) else {
        return Some(Contents::noted("begins like safetensors, but ends within its header"));
    };
    let header = source.bytes(0..header_len)?;
    let Some((tensors, end)) = tensors_of_any_length(&header) else {
        return Some(Contents::noted("begins like safetensors, but its header breaks a rule"));
    };
    let mut found = Contents::new(Format::Safetensors);
    for tensor in tensors {
        if tensor.range.end <= source.len() {
            found.data.push(Data::of(&tensor));
            found.tensors.push(tensor);
        } else {
            let (dtype, reason) = (Some(tensor.dtype), Reason::Missing);
            let (name, shape) = (tensor.name, tensor.shape);
            found.others.push(OtherTensor { name, dtype, shape, reason });
        }
    }
    let len = source.len();
    if len < end {
        found.note = Some(format!("is cut off: {} bytes are missing at its end", end - len));
    } else if len > end {
        found.note = Some(format!("has {} bytes behind its last tensor", len - end));
    }
    Some(found)
}
