//! What holds for every file, and what is done to any.

use lmc_input::{Contents, DcpItem, Format, contents, dcp_contents};
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// What is found in a file. Its data is in order, and its tensors are in the file.
pub fn contents_of(file: &[u8]) -> Contents {
    let found = contents(&reader(file), file.len() as u64).expect("memory can be read");
    check(file, &found);
    found
}

/// The same for a file of torch.distributed.checkpoint with these parts.
pub fn dcp_contents_of(file: &[u8], items: &[DcpItem]) -> Contents {
    let found = dcp_contents(&reader(file), file.len() as u64, items);
    let found = found.expect("memory can be read");
    check(file, &found);
    found
}

fn reader(file: &[u8]) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
    move |at, buffer| {
        let at = usize::try_from(at).expect("a position in memory");
        buffer.copy_from_slice(&file[at..at + buffer.len()]);
        Ok(())
    }
}

fn check(file: &[u8], found: &Contents) {
    let items = found.items(file.len() as u64);
    let len: u64 = items.iter().map(|item| item.len).sum();
    assert_eq!(len, file.len() as u64, "items cover the file");
    let names: HashSet<&str> = found.data.iter().map(|data| data.name.as_str()).collect();
    assert_eq!(names.len(), found.data.len(), "names are unique");
    for data in &found.data {
        assert!(data.range.start < data.range.end, "{} is not empty", data.name);
    }
    for tensor in &found.tensors {
        assert!(tensor.range.end <= len, "{} is in the file", tensor.name);
        let is_empty = tensor.shape.contains(&0);
        let count = if is_empty { 0 } else { tensor.shape.iter().product() };
        let tensor_len = tensor.range.end - tensor.range.start;
        assert_eq!(tensor.dtype.byte_len(count), Some(tensor_len), "{}", tensor.name);
    }
    if found.format == Format::Unknown {
        assert!(found.data.is_empty() && found.tensors.is_empty() && !found.is_complete);
    }
}

/// Cuts a file off at every byte, and changes every byte. `is_whole` says whether the contents are
/// still those of the whole file; they must not be when it is cut off.
pub fn attack(file: &[u8], is_whole: impl Fn(&Contents) -> bool) {
    let start = Instant::now();
    assert!(is_whole(&contents_of(file)), "the file is sound");
    for len in 0..file.len() {
        assert!(!is_whole(&contents_of(&file[..len])), "{len} of {} bytes", file.len());
    }
    let mut changed = file.to_vec();
    for at in 0..file.len() {
        for mask in [1, 2, 0x10, 0x20, 0x7f, 0x80, 0xff] {
            changed[at] ^= mask;
            contents_of(&changed);
            changed[at] = file[at];
        }
        // Numbers that are too large.
        let end = file.len().min(at + 8);
        changed[at..end].fill(0xff);
        contents_of(&changed);
        changed[at..end].copy_from_slice(&file[at..end]);
    }
    let limit = Duration::from_secs(60);
    assert!(start.elapsed() < limit, "{:?} for {} bytes", start.elapsed(), file.len());
}
