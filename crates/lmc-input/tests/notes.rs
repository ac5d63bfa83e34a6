//! Why a file is taken as bytes, or only in part.

use crate::made::contents_of;
use crate::torch_files::real_file;
use crate::torch_made::{Made, tensor, torch_entries, zip};
use lmc_input::{Format, contents};
use std::cell::Cell;

/// The note on a file.
fn note(file: &[u8]) -> Option<String> {
    contents_of(file).note
}

/// Nothing is said of files that are understood, nor of those that are like nothing known.
#[test]
fn no_notes() {
    for file in [&b""[..], b"P", b"PNG and so on", b"PKG and so on", &[0; 100], &[0xff; 100]] {
        let found = contents_of(file);
        assert_eq!((found.format, found.note), (Format::Unknown, None), "{}", file.escape_ascii());
    }
    assert_eq!(note(&real_file()), None);
}

/// A file of an unknown format costs two small reads at most, however long it is.
#[test]
fn unknown_files_are_cheap() {
    for byte in 0..=255 {
        let (reads, bytes) = (Cell::new(0), Cell::new(0));
        let read = |_: u64, buffer: &mut [u8]| {
            buffer.fill(byte);
            reads.set(reads.get() + 1);
            bytes.set(bytes.get() + buffer.len());
            Ok(())
        };
        let found = contents(&read, 1 << 40).expect("nothing fails");
        assert_eq!((found.format, found.note), (Format::Unknown, None));
        assert!(reads.get() <= 2 && bytes.get() < 20_000, "{byte}: {reads:?} {bytes:?}");
    }
}

#[test]
fn notes_on_zip_files() {
    let file = real_file();
    assert_eq!(
        note(&file[..file.len() - 1]).as_deref(),
        Some("begins like a zip file, but its directory is damaged or missing")
    );
    assert_eq!(
        note(&zip(&[Made::new("word/document.xml", b"text")])).as_deref(),
        Some("is a zip file, but not of torch, NumPy or Keras")
    );
    assert_eq!(note(&zip(&[])).as_deref(), Some("is a zip file that is empty or in several parts"));
    let stream = [&b"\x80\x02"[..], &tensor(), b"."].concat();
    let changed = |change: fn(&mut Vec<Made>)| {
        let mut entries = torch_entries(&stream);
        change(&mut entries);
        let found = contents_of(&zip(&entries));
        assert_eq!(found.format, Format::Torch);
        assert!(!found.is_complete);
        found.note.expect("a note")
    };
    assert_eq!(
        changed(|entries| entries[2].method = 8),
        "has 1 storage that is compressed or encrypted"
    );
    assert_eq!(
        changed(|entries| entries[1].data = b"big".to_vec()),
        "was written in the other order of bytes"
    );
    assert_eq!(
        changed(|entries| entries[0].data = b"\x80\x02\xff".to_vec()),
        "has a pickle that is not understood, data.pkl"
    );
}

/// A safetensors file that is too short or too long still holds the tensors that it holds.
#[test]
fn safetensors_of_another_length() {
    let json = br#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},
        "b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}}"#;
    let header = [&(json.len() as u64).to_le_bytes(), &json[..]].concat();
    let with = |data_len: usize| [&header[..], &vec![1; data_len]].concat();
    let found = contents_of(&with(28));
    assert_eq!((found.format, found.note, found.is_complete), (Format::Safetensors, None, true));
    let rows: Vec<u64> = found.data.iter().map(|data| data.row_len).collect();
    assert_eq!((found.tensors.len(), rows), (2, vec![3, 0]));

    let found = contents_of(&with(26));
    let note = found.note.expect("a note");
    assert_eq!(note, "is cut off: 2 bytes are missing at its end");
    assert_eq!((found.data.len(), found.others.len(), found.is_complete), (1, 1, true));

    let found = contents_of(&with(30));
    assert_eq!(found.note.as_deref(), Some("has 2 bytes behind its last tensor"));
    assert_eq!((found.data.len(), found.others.len()), (2, 0));

    for (file, expected) in [
        (&header[..20], "begins like safetensors, but ends within its header"),
        (b"\x09\0\0\0\0\0\0\0{\"a\":[0]}", "begins like safetensors, but its header breaks a rule"),
    ] {
        assert_eq!(contents_of(file).note.as_deref(), Some(expected));
    }
}
