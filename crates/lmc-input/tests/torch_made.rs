//! Files like those of torch, made by hand, so that each part of them can be wrong.

use crate::made::contents_of;
use lmc_input::{Contents, Format, LayoutItem};

/// An entry of a zip file.
#[derive(Clone)]
pub struct Made {
    pub name: String,
    pub data: Vec<u8>,
    pub method: u16,
    pub flags: u16,
}

impl Made {
    pub fn new(name: &str, data: &[u8]) -> Self {
        Self { name: name.into(), data: data.into(), method: 0, flags: 0 }
    }
}

/// The fields of the end records, which a test may change before they are written.
pub struct End {
    pub count: u64,
    pub len: u64,
    pub start: u64,
    /// Whether the fields are in the long record.
    pub is_long: bool,
}

/// A zip file with these entries.
pub fn zip(entries: &[Made]) -> Vec<u8> {
    zip_with(entries, |_, _| {}, |_| {})
}

/// The same, with changes to entries of the directory, which are 46 bytes and a name, and to the
/// end.
pub fn zip_with(
    entries: &[Made],
    change: impl Fn(usize, &mut Vec<u8>),
    change_end: impl Fn(&mut End),
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let len = entry.data.len() as u32;
        let mut common = [20_u16, entry.flags, entry.method, 0, 0].map(u16::to_le_bytes).concat();
        common.extend([0, len, len].map(u32::to_le_bytes).concat());
        common.extend([entry.name.len() as u16, 0].map(u16::to_le_bytes).concat());
        let at = file.len() as u32;
        file.extend([b"PK\x03\x04", &common[..], entry.name.as_bytes(), &entry.data].concat());
        let mut central = [b"PK\x01\x02\x14\0", &common[..], &[0; 10]].concat();
        central.extend(at.to_le_bytes());
        central.extend(entry.name.as_bytes());
        change(i, &mut central);
        directory.extend(central);
    }
    let count = entries.len() as u64;
    let (len, start) = (directory.len() as u64, file.len() as u64);
    let mut end = End { count, len, start, is_long: count > 0xfffe };
    change_end(&mut end);
    file.extend(directory);
    if end.is_long {
        let at = file.len() as u64;
        file.extend([b"PK\x06\x06", &44_u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8]].concat());
        let fields = [end.count, end.count, end.len, end.start, 0x07_06_4b_50 | at << 36];
        file.extend(fields[..4].iter().flat_map(|field| field.to_le_bytes()));
        file.extend([b"PK\x06\x07\0\0\0\0", &at.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    }
    let count = end.count.min(0xffff) as u16;
    file.extend([b"PK\x05\x06\0\0\0\0", &[count; 2].map(u16::to_le_bytes).concat()[..]].concat());
    file.extend([end.len, end.start].map(|n| (n.min(0xffff_ffff) as u32).to_le_bytes()).concat());
    file.extend([0, 0]);
    file
}

/// A file of torch with this pickle, and a storage "0" of 16 bytes.
pub fn torch_file(pickle: &[u8]) -> Vec<u8> {
    zip(&torch_entries(pickle))
}

pub fn torch_entries(pickle: &[u8]) -> Vec<Made> {
    let bytes: Vec<u8> = (0..16).collect();
    vec![
        Made::new("a/data.pkl", pickle),
        Made::new("a/byteorder", b"little"),
        Made::new("a/data/0", &bytes),
        Made::new("a/version", b"3\n"),
    ]
}

/// A short string.
pub fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The operations for a matrix of f32 with two rows in storage "0".
pub fn tensor() -> Vec<u8> {
    let storage =
        [&text("storage")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), b"K\x04tQ"]
            .concat();
    let rest = b"K\0K\x02K\x02\x86K\x02K\x01\x86\x89ccollections\nOrderedDict\n)RtR";
    [b"ctorch._utils\n_rebuild_tensor_v2\n((", &storage[..], rest].concat()
}

/// What is found in a file, if it is one of torch.
pub fn found(file: &[u8]) -> Option<Contents> {
    let found = contents_of(file);
    matches!(found.format, Format::Torch | Format::TorchScript).then_some(found)
}

/// The first stretch of values as an item.
pub fn first_item(found: &Contents) -> LayoutItem {
    let data = &found.data[0];
    LayoutItem { len: data.range.end - data.range.start, dtype: data.dtype, row_len: data.row_len }
}
