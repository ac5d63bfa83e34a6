//! GGUF files.

use crate::gguf_made::{gguf, listed, pair, string};
use crate::made::{attack, contents_of};
use lmc_format::Dtype;
use lmc_input::{Contents, Format, Reason};
use std::time::{Duration, Instant};

const DATA: [u8; 128] = [9; 128];

/// Keys of many types, a matrix of f32 and one of Q8_0.
fn file() -> Vec<u8> {
    let strings = [&8_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &string("a"), &string("")];
    let nested = [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), &4_u32.to_le_bytes(), &[0; 8]];
    let pairs = [
        pair("general.name", 8, &string("model")),
        pair("tokens", 9, &strings.concat()),
        pair("nested", 9, &nested.concat()),
        pair("flag", 7, &[1]),
        pair("general.alignment", 4, &[64, 0, 0, 0]),
        pair("real", 12, &[0; 8]),
    ];
    let tensors = [listed("w", &[3, 2], 0, 64), listed("q", &[32], 8, 0)];
    gguf(&pairs, &tensors, 64, &DATA[..88])
}

#[test]
fn two_tensors() {
    let file = file();
    let found = contents_of(&file);
    assert_eq!(
        (found.format, found.note.as_deref(), found.is_complete),
        (Format::Gguf, None, true)
    );
    let len = file.len() as u64;
    let tensor = &found.tensors[0];
    assert_eq!((tensor.name.as_str(), tensor.form().as_str()), ("w", "F32 [2, 3]"));
    assert_eq!(tensor.range, len - 24..len);
    let (quantized, matrix) = (&found.data[0], &found.data[1]);
    assert_eq!(
        (quantized.name.as_str(), quantized.dtype, &quantized.shape[..]),
        ("q", None, &[34][..])
    );
    assert_eq!(
        (matrix.dtype, matrix.row_len, &matrix.shape[..]),
        (Some(Dtype::F32), 3, &[2, 3][..])
    );
    let other = &found.others[0];
    assert_eq!((other.reason, &other.shape[..]), (Reason::UnknownType, &[32][..]));
}

/// A type that is newer than this is a stretch up to the next tensor.
#[test]
fn unknown_types() {
    let tensors =
        [listed("new", &[5], 99, 0), listed("w", &[4], 0, 32), listed("last", &[], 99, 64)];
    let file = gguf(&[], &tensors, 32, &DATA);
    let found = contents_of(&file);
    let start = file.len() as u64 - 128;
    let ranges: Vec<_> = found.data.iter().map(|data| data.range.clone()).collect();
    assert_eq!(ranges, [start..start + 32, start + 32..start + 48, start + 64..start + 128]);
    assert_eq!((found.others.len(), found.note), (2, None));
}

/// Tensors that are beyond the end, too large, over each other, or no whole blocks.
#[test]
fn false_places() {
    for tensor in [
        listed("w", &[4], 0, 120),
        listed("w", &[4], 0, u64::MAX),
        listed("w", &[u64::MAX, 2], 0, 0),
        listed("w", &[1 << 62], 0, 0),
        listed("w", &[31], 8, 0),
        listed("w", &[4], 99, u64::MAX),
    ] {
        let found = contents_of(&gguf(&[], &[tensor], 32, &DATA));
        assert_eq!((found.tensors.len(), found.others[0].reason), (0, Reason::Missing));
        assert_eq!(found.note.as_deref(), Some("is cut off: 1 of its tensors are missing"));
    }
    let tensors = [listed("a", &[8], 0, 0), listed("b", &[8], 0, 16), listed("c", &[0], 0, 8)];
    let found = contents_of(&gguf(&[], &tensors, 32, &DATA));
    assert_eq!((found.tensors.len(), found.data.len()), (3, 1));
    assert_eq!(found.note.as_deref(), Some("has tensors that overlap"));
}

/// Headers that say what cannot be.
#[test]
fn false_headers() {
    let note = |file: &[u8]| {
        let found = contents_of(file);
        assert_eq!(found.format, Format::Unknown);
        found.note.expect("a note")
    };
    let damaged = "begins like GGUF, but its header is damaged";
    let number = |n: u64| n.to_le_bytes();
    let array = |kind: u32, count: u64| [&kind.to_le_bytes()[..], &number(count)].concat();
    for pair in [
        pair("a", 8, &number(u64::MAX)),
        pair("a", 8, &number(1 << 40)),
        pair("a", 9, &array(0, u64::MAX)),
        pair("a", 9, &array(12, u64::MAX / 4)),
        pair("a", 9, &array(8, u64::MAX)),
        pair("a", 9, &array(9, u64::MAX)),
        pair("a", 9, &array(9, 1).repeat(10)),
        pair("a", 13, &[0; 64]),
        pair("general.alignment", 4, &[0; 4]),
        pair("general.alignment", 4, &[3, 0, 0, 0]),
    ] {
        assert_eq!(note(&gguf(&[pair], &[], 32, &DATA)), damaged);
    }
    for tensor in [listed(&"n".repeat(5000), &[4], 0, 0), listed("w", &[1; 9], 0, 0)] {
        assert_eq!(note(&gguf(&[], &[tensor], 32, &DATA)), damaged);
    }
    let file = file();
    let with = |at: usize, bytes: &[u8]| {
        let mut file = file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    for count in [u64::MAX, 1 << 40, (1 << 20) + 1] {
        assert_eq!(note(&with(8, &number(count))), damaged);
        assert_eq!(note(&with(16, &number(count))), damaged);
    }
    assert_eq!(note(&with(4, &[1, 0, 0, 0])), "is GGUF of another version than 2 and 3");
    assert_eq!(note(&with(4, &[0, 0, 0, 3])), "is GGUF in the other order of bytes");
    assert_eq!(contents_of(&with(4, &[2, 0, 0, 0])).format, Format::Gguf);
    // Many keys and strings take time in proportion to their bytes.
    let start = Instant::now();
    let count = 1 << 23;
    let many = [array(8, count), vec![0; 8 * count as usize]].concat();
    assert_eq!(contents_of(&gguf(&[pair("a", 9, &many)], &[], 32, &DATA)).format, Format::Gguf);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn truncated_and_changed() {
    attack(&file(), |found: &Contents| found.data.len() == 2);
}
