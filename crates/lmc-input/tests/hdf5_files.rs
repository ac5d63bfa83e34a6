//! HDF5 files.

use crate::hdf5_made::{
    CONTINUATION, DATATYPE, File, LAYOUT, LINK, LINK_INFO, SYMBOL_TABLE, UNDEFINED, floats, link,
};
use crate::made::{attack, contents_of};
use crate::torch_made::{Made, zip};
use lmc_format::Dtype;
use lmc_input::{Contents, Format, Reason};
use std::time::{Duration, Instant};

const DATA: [u8; 24] = [5; 24];

/// A dataset in the root and one in a group.
fn file(is_new: bool) -> Vec<u8> {
    let mut file = File::new(is_new);
    let first = file.put(&DATA);
    let bias = file.object(&floats(&[6], first, 24));
    let second = file.put(&DATA);
    let kernel = file.object(&floats(&[2, 3], second, 24));
    let group = file.group(&[("kernel", kernel)]);
    let root = file.group(&[("bias", bias), ("layer", group)]);
    file.with_root(root)
}

/// The contents of a file whose root is made by `make`.
fn with(is_new: bool, make: impl FnOnce(&mut File) -> u64) -> Contents {
    let mut file = File::new(is_new);
    let root = make(&mut file);
    let found = contents_of(&file.with_root(root));
    assert_eq!(found.format, Format::Hdf5);
    found
}

fn names(found: &Contents) -> Vec<&str> {
    found.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
}

#[test]
fn both_forms() {
    for is_new in [false, true] {
        let file = file(is_new);
        let found = contents_of(&file);
        assert_eq!((found.format, found.note.as_deref()), (Format::Hdf5, None), "{is_new}");
        assert!(found.is_complete && found.others.is_empty());
        assert_eq!(names(&found), ["bias", "layer/kernel"]);
        for tensor in &found.tensors {
            assert_eq!(file[tensor.range.start as usize..tensor.range.end as usize], DATA);
        }
        let kernel = &found.data[1];
        assert_eq!((kernel.dtype, kernel.row_len), (Some(Dtype::F32), 3));
    }
}

/// Datasets whose bytes are not there, too few, or not stored.
#[test]
fn false_places() {
    for (dims, address, len, reason) in [
        (&[2, 3][..], UNDEFINED, 24, Reason::Missing),
        (&[2, 3], 1 << 40, 24, Reason::Missing),
        (&[2, 3], u64::MAX - 8, 24, Reason::Missing),
        (&[2, 4], 48, 24, Reason::WrongLength),
        (&[u64::MAX, 3], 48, 24, Reason::Missing),
        (&[1 << 62], 48, u64::MAX, Reason::Missing),
        (&[1 << 61], 48, u64::MAX, Reason::Missing),
    ] {
        let found = with(true, |file| {
            let dataset = file.object(&floats(dims, address, len));
            file.group(&[("w", dataset)])
        });
        assert_eq!((found.tensors.len(), found.data.len()), (0, 0));
        assert_eq!(found.others[0].reason, reason, "{dims:?} {address} {len}");
    }
    let empty = with(true, |file| {
        let dataset = file.object(&floats(&[0, u64::MAX], UNDEFINED, 0));
        file.group(&[("w", dataset)])
    });
    assert_eq!((empty.tensors.len(), empty.data.len()), (1, 0));
    let chunked = with(false, |file| {
        let mut messages = floats(&[2, 3], 96, 24);
        messages[2].1[1] = 2;
        let dataset = file.object(&messages);
        file.group(&[("w", dataset)])
    });
    assert_eq!(chunked.others[0].reason, Reason::Encoded);
    let note = "has 1 dataset that is compressed or in chunks";
    assert_eq!(chunked.note.as_deref(), Some(note));
}

/// Integers with names for their values, whose size is said twice.
#[test]
fn sizes_said_twice() {
    let integer = b"\x10\x08\0\0\x01\0\0\0\0\0\x08\0FALSE\0\0\0TRUE\0\0\0\0\0\x01";
    for (size, dtype) in [(1_u8, Some(Dtype::Bool)), (2, None)] {
        let found = with(true, |file| {
            let data = file.put(&DATA);
            let mut messages = floats(&[12], data, 24);
            messages[1].1 = [&[0x18, 2, 0, 0, size, 0, 0, 0], &integer[..]].concat();
            let dataset = file.object(&messages);
            file.group(&[("w", dataset)])
        });
        assert_eq!(
            (found.data[0].dtype, found.data[0].range.end - found.data[0].range.start),
            (dtype, 12 * u64::from(size))
        );
    }
}

/// Groups in themselves and in each other, and many links to the same object.
#[test]
fn rings() {
    let start = Instant::now();
    for is_new in [false, true] {
        let found = with(is_new, |file| {
            let data = file.put(&DATA);
            let dataset = file.object(&floats(&[6], data, 24));
            // The address of the group that comes next is only known once it is there.
            let at = file.bytes.len() as u64;
            let own = file.group(&[("w", dataset), ("self", at), ("nowhere", 1 << 40)]);
            file.group(&[("a", own), ("b", own), ("c", dataset)])
        });
        assert_eq!(names(&found), ["a/w", "c"]);
        assert_eq!(found.data.len(), 1);
        assert!(found.note.is_some_and(|note| note.contains("damaged")) && !found.is_complete);
    }
    let found = with(true, |file| {
        let data = file.put(&DATA);
        let dataset = file.object(&floats(&[6], data, 24));
        let members: Vec<_> = (0..1000).map(|_| ("w", dataset)).collect();
        let groups: Vec<_> = (0..1000).map(|_| ("g", file.group(&members))).collect();
        file.group(&groups)
    });
    assert_eq!((found.data.len(), found.is_complete), (1, false));
    // Nodes of a tree that lead to each other.
    let found = with(false, |file| {
        let names = file.put(b"name\0\0\0\0");
        let fields = [8, 0, names].map(u64::to_le_bytes).concat();
        let heap = file.put(&[b"HEAP\0\0\0\0", &fields[..]].concat());
        let at = file.bytes.len().next_multiple_of(8) as u64;
        let tree = file.tree(&[at; 1000]);
        file.object(&[(SYMBOL_TABLE, [tree, heap].map(u64::to_le_bytes).concat())])
    });
    assert!(!found.is_complete && found.tensors.is_empty());
    // Groups in groups in groups.
    let found = with(true, |file| {
        let data = file.put(&DATA);
        let mut inner = file.object(&floats(&[6], data, 24));
        for _ in 0..100 {
            inner = file.group(&[("g", inner)]);
        }
        inner
    });
    assert_eq!(found.note.as_deref(), Some("has deeper groups than are looked at"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Headers in several blocks, in blocks that lead to themselves, and in blocks that are too long.
#[test]
fn blocks() {
    for is_new in [false, true] {
        let place = |start: u64, len: u64| [start, len].map(u64::to_le_bytes).concat();
        let found = with(is_new, |file| {
            let data = file.put(&DATA);
            let messages = floats(&[2, 3], data, 24);
            let rest = file.block(&messages[1..]);
            let rest = if is_new { [b"OCHK", &rest[..], &[0; 4]].concat() } else { rest };
            let at = file.put(&rest);
            let more = (CONTINUATION, place(at, rest.len() as u64));
            let dataset = file.object(&[messages[0].clone(), more]);
            file.group(&[("w", dataset)])
        });
        assert_eq!(names(&found), ["w"]);
        for (start, len) in [(0, u64::MAX), (u64::MAX, 8), (48, 1 << 40), (1 << 40, 8)] {
            let more = (CONTINUATION, place(start, len));
            let found = with(is_new, |file| file.object(&[more]));
            assert!(!found.is_complete && found.tensors.is_empty(), "{start} {len}");
        }
        let found = with(is_new, |file| {
            let at = file.bytes.len().next_multiple_of(8) as u64;
            let head_len = if is_new { 10 - 4 } else { 16 };
            file.object(&[(CONTINUATION, place(at + head_len, if is_new { 28 } else { 24 }))])
        });
        assert!(!found.is_complete);
    }
}

/// Messages that are too short, of another version, or of kinds that are not followed.
#[test]
fn odd_messages() {
    for (kind, len) in [(DATATYPE, 7), (DATATYPE, 10), (LAYOUT, 1), (LAYOUT, 12), (1, 3), (1, 20)] {
        let found = with(true, |file| {
            let data = file.put(&DATA);
            let mut messages = floats(&[2, 3], data, 24);
            for message in messages.iter_mut().filter(|message| message.0 == kind) {
                message.1.truncate(len);
            }
            let dataset = file.object(&messages);
            file.group(&[("w", dataset)])
        });
        assert!(found.tensors.is_empty(), "{kind} {len}");
    }
    for bytes in [vec![], vec![1], vec![2, 0], link("w", 48)[..8].to_vec(), vec![1, 3, 0xff, 0xff]]
    {
        let found = with(true, |file| file.object(&[(LINK, bytes)]));
        assert!(!found.is_complete, "{:?}", found.tensors);
    }
    // A soft link is not a member.
    let soft = with(true, |file| file.object(&[(LINK, b"\x01\x08\x01\x01w\x04\0/a/b".to_vec())]));
    assert!(soft.is_complete && soft.note.is_none());
    let info = |heap: u64| [&[0, 0], &heap.to_le_bytes()[..], &UNDEFINED.to_le_bytes()].concat();
    assert!(with(true, |file| file.object(&[(LINK_INFO, info(UNDEFINED))])).is_complete);
    let large = with(true, |file| file.object(&[(LINK_INFO, info(1000))]));
    assert_eq!(large.note.as_deref(), Some("has a group whose list of members is not understood"));
}

/// Keras puts such files into zip files.
#[test]
fn in_zip_files() {
    let entries = [Made::new("config.json", b"{}"), Made::new("model.weights.h5", &file(false))];
    let found = contents_of(&zip(&entries));
    assert_eq!((found.format, found.note.as_deref()), (Format::Keras, None));
    assert_eq!(names(&found), ["model.weights.h5.bias", "model.weights.h5.layer/kernel"]);
    let mut packed = entries.clone();
    packed[1].method = 8;
    let note = "has a part, model.weights.h5, that is compressed or encrypted";
    assert_eq!(contents_of(&zip(&packed)).note.as_deref(), Some(note));
    packed[1] = Made::new("model.weights.h5", b"text");
    let note = "has a part, model.weights.h5, that is HDF5 of a kind that is not understood";
    assert_eq!(contents_of(&zip(&packed)).note.as_deref(), Some(note));
    assert_eq!(contents_of(&zip(&vec![entries[1].clone(); 6])).data.len(), 8);
    attack(&zip(&entries), |found| found.tensors.len() == 2 && found.note.is_none());
}

#[test]
fn truncated_and_changed() {
    for is_new in [false, true] {
        attack(&file(is_new), |found| found.tensors.len() == 2 && found.note.is_none());
    }
    let mut other = file(true);
    other[9] = 4;
    let found = contents_of(&other);
    assert_eq!(found.note.as_deref(), Some("is HDF5 of a kind that is not understood"));
}
