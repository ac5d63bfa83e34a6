//! Reads the header of a safetensors file, by the rules of the format's own library.

use crate::safetensors_json::{Entries, HeaderEntry};
use crate::{FileLayout, LayoutItem, TensorInfo};
use lmc_format::{Dtype, SourceKind};
use std::collections::HashSet;

/// The longest header JSON that is parsed. It is also the longest that the format's own library
/// reads and writes. A file with a longer one is coded as bytes.
pub const JSON_LEN_MAX: u64 = 100_000_000;

/// Bytes of the length field in front of the header.
const LENGTH_LEN: u64 = 8;

/// The longest header including its length field.
pub const HEADER_LEN_MAX: u64 = LENGTH_LEN + JSON_LEN_MAX;

/// Bytes up to the end of the header, for a file that starts with `start`; None if it cannot be a
/// safetensors file that we parse.
pub fn header_len(start: [u8; 8], file_len: u64) -> Option<u64> {
    let len = u64::from_le_bytes(start).checked_add(LENGTH_LEN)?;
    (len > LENGTH_LEN && len <= HEADER_LEN_MAX && len <= file_len).then_some(len)
}

/// The items of a file of `file_len` bytes that starts with `header`, which is as long as
/// [`header_len`] said; None if the header breaks a rule of the format.
pub fn parse(header: &[u8], file_len: u64) -> Option<FileLayout> {
    let entries = read(header, file_len, false)?;
    let head = LayoutItem { len: header.len() as u64, dtype: Some(Dtype::Bytes), row_len: 0 };
    let items = std::iter::once(head).chain(entries.list.iter().map(item)).collect();
    Some(FileLayout { kind: SourceKind::Safetensors, items })
}

/// The tensors of such a file in the order of their bytes. This is also the order of their items,
/// which are all items but the first.
pub fn tensors(header: &[u8], file_len: u64) -> Option<Vec<TensorInfo>> {
    read(header, file_len, true).map(|entries| infos(header, entries))
}

/// The same for a file of any length, and where the last tensor ends.
pub(crate) fn tensors_of_any_length(header: &[u8]) -> Option<(Vec<TensorInfo>, u64)> {
    let (entries, end) = read_entries(header, true)?;
    Some((infos(header, entries), end))
}

fn infos(header: &[u8], entries: Entries<'_>) -> Vec<TensorInfo> {
    let Entries { list, dims } = entries;
    let dims = dims.unwrap_or_default();
    let header_len = header.len() as u64;
    let tensor = |entry: HeaderEntry| TensorInfo {
        name: entry.name.into_owned(),
        dtype: entry.dtype,
        shape: dims[entry.dims.start as usize..entry.dims.end as usize].to_vec(),
        range: header_len + entry.start..header_len + entry.end,
    };
    list.into_iter().map(tensor).collect()
}

/// The tensors of a header, in the order of their bytes; they cover the rest of the file.
fn read(header: &[u8], file_len: u64, keep_dims: bool) -> Option<Entries<'_>> {
    let (entries, end) = read_entries(header, keep_dims)?;
    (end == file_len).then_some(entries)
}

/// The tensors of a header, back to back in the order of their bytes, and where the last one ends
/// in the file.
fn read_entries(header: &[u8], keep_dims: bool) -> Option<(Entries<'_>, u64)> {
    let json = header.get(LENGTH_LEN as usize..)?;
    let mut entries = Entries::read(json, keep_dims)?;
    let list = &mut entries.list;
    keep_last_of_name(list);
    // Empty tensors may share a position, so the name decides too.
    list.sort_unstable_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
    let mut end = 0;
    for entry in list {
        if !entry.is_sound || entry.start != end {
            return None;
        }
        end = entry.end;
    }
    Some((entries, end.checked_add(header.len() as u64)?))
}

/// Keeps only the last of several entries with the same name.
fn keep_last_of_name(list: &mut Vec<HeaderEntry>) {
    let mut seen = HashSet::with_capacity(list.len());
    let is_last: Vec<bool> = list.iter().rev().map(|entry| seen.insert(&*entry.name)).collect();
    let mut is_last = is_last.into_iter().rev();
    list.retain(|_| is_last.next().unwrap_or(true));
}

fn item(entry: &HeaderEntry) -> LayoutItem {
    let len = entry.end - entry.start;
    let dtype = entry.dtype;
    // With a packed type, a row may end within a byte; then there are no usable rows.
    let width = dtype.width() as u64;
    let row_len = match entry.rows {
        0 => 0,
        rows if len.is_multiple_of(rows * width) => len / rows / width,
        _ => 0,
    };
    LayoutItem { len, dtype: Some(dtype), row_len }
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
        let tensors = tensors(&header, len).expect("a valid header");
        let names: Vec<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["a", "z", "b"]);
        let source = parse(&header, len).expect("a valid header");
        let items: Vec<(u64, u64)> = source.items.iter().map(|i| (i.len, i.row_len)).collect();
        assert_eq!(items, [(header.len() as u64, 0), (8, 0), (0, 0), (24, 3)]);
    }

    /// A header that breaks a rule of the format is not accepted.
    #[test]
    fn broken_rules_are_refused() {
        for (json, data_len) in [
            ("", 0),
            ("[]", 0),
            (r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#, 4),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8),
            (r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 5),
            (r#"{"a":["U8",[4],[0,4]],"b":["U8",[4],[3,7]]}"#, 7),
            (r#"{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}"#, 4),
            (r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#, 0),
        ] {
            let (header, len) = file(json, data_len);
            assert!(parse(&header, len).is_none(), "{json}");
        }
    }

    /// The longest header is parsed; one that is a byte longer is not.
    #[test]
    fn the_limit_of_headers_is_that_of_the_format() {
        let file_len = u64::MAX;
        assert_eq!(header_len(JSON_LEN_MAX.to_le_bytes(), file_len), Some(HEADER_LEN_MAX));
        assert_eq!(header_len((JSON_LEN_MAX + 1).to_le_bytes(), file_len), None);
        let json = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
        let filled = json.to_string() + &" ".repeat(JSON_LEN_MAX as usize - json.len());
        let (header, len) = file(&filled, 4);
        assert_eq!(tensors(&header, len).map(|tensors| tensors.len()), Some(1));
    }

    /// Impossible lengths are refused before anything is read.
    #[test]
    fn header_lengths_are_limited() {
        assert_eq!(header_len(10_u64.to_le_bytes(), 100), Some(18));
        for (n, file_len) in [(0, 100), (93, 100), (1 << 31, 1 << 40), (1 << 63, 9), (u64::MAX, 9)]
        {
            assert_eq!(header_len(n.to_le_bytes(), file_len), None);
        }
    }
}
