//! What torch.save wrote before it wrote zip files.

use crate::legacy_made::{head, legacy_file};
use crate::made::{attack, contents_of};
use crate::torch_made::{tensor, text};
use lmc_input::{Contents, Format, Reason};

const BYTES: [u8; 16] = [7; 16];

/// A state with one matrix of f32 in storage "0".
fn state() -> Vec<u8> {
    [b"\x80\x02}", &text("weight")[..], &tensor(), b"s."].concat()
}

fn file() -> Vec<u8> {
    legacy_file(&state(), &[("0", 4, &BYTES)])
}

fn names(found: &Contents) -> Vec<&str> {
    found.data.iter().map(|data| data.name.as_str()).collect()
}

#[test]
fn a_matrix() {
    let file = file();
    let found = contents_of(&file);
    assert_eq!((found.format, found.note.as_deref()), (Format::TorchLegacy, None));
    assert!(found.is_complete && found.others.is_empty());
    let len = file.len() as u64;
    assert_eq!(found.tensors[0].range, len - 16..len);
    assert_eq!(found.data[0].range, len - 16..len);
    assert_eq!((found.data[0].row_len, names(&found)), (2, vec!["weight"]));
}

/// A storage that no tensor refers to has no length, so that all behind it is unknown; those in
/// front of it are found.
#[test]
fn unknown_storages() {
    let storages = [("0", 4, &BYTES[..]), ("1", 4, &BYTES)];
    let found = contents_of(&legacy_file(&state(), &storages));
    assert_eq!((names(&found), found.is_complete), (vec!["weight"], false));
    assert!(found.note.is_some_and(|note| note.starts_with("has a storage of unknown type")));
    let storages = [("1", 4, &BYTES[..]), ("0", 4, &BYTES)];
    let found = contents_of(&legacy_file(&state(), &storages));
    assert!(found.data.is_empty() && !found.is_complete);
    assert_eq!(found.others[0].reason, Reason::Missing);
}

/// Counts that are not those of the pickle, up to those that overflow.
#[test]
fn false_counts() {
    for (count, reason) in
        [(3, Reason::WrongLength), (0, Reason::WrongLength), (5, Reason::Missing)]
    {
        let found = contents_of(&legacy_file(&state(), &[("0", count, &BYTES)]));
        assert_eq!(found.others[0].reason, reason, "{count}");
        assert!(found.note.is_some() && found.tensors.is_empty());
    }
    for count in [1 << 62, 1 << 63, u64::MAX, u64::MAX / 4, u64::MAX / 4 - 40] {
        let found = contents_of(&legacy_file(&state(), &[("0", count, &BYTES)]));
        assert_eq!(found.note.as_deref(), Some("is cut off: storages are missing"), "{count}");
        assert!(found.data.is_empty());
    }
    let more = [&file()[..], b"more"].concat();
    let found = contents_of(&more);
    assert_eq!(found.note.as_deref(), Some("has 4 bytes behind its last storage"));
    assert_eq!(names(&found), ["weight"]);
}

/// Twice the same key, a list that is none, another version, and another order of bytes.
#[test]
fn odd_files() {
    let twice = [("0", 4, &BYTES[..]), ("0", 4, &BYTES)];
    let no_list = [&head()[..], &state(), b"\x80\x02N."].concat();
    let file = file();
    let place = |part: &[u8]| file.windows(part.len()).position(|w| w == part).expect("a part");
    let mut other_version = file.clone();
    other_version[place(b"M\xe9\x03") + 1] = 0;
    for file in [legacy_file(&state(), &twice), no_list, other_version] {
        let found = contents_of(&file);
        assert_eq!(found.format, Format::Unknown);
        assert!(found.note.is_some_and(|note| note.starts_with("is of torch.save (legacy), but")));
    }
    let mut other_order = file.clone();
    other_order[place(b"\x88s.")] = 0x89;
    let found = contents_of(&other_order);
    assert_eq!(found.note.as_deref(), Some("was written in the other order of bytes"));
    assert!(found.data.is_empty() && !found.is_complete);
}

/// The oldest files have views: the tensors in one count from where it begins.
#[test]
fn views() {
    let state = state();
    let at = state.windows(4).position(|w| w == b"K\x04tQ").expect("the end of an id") + 2;
    let changed = |view: &[u8], offset: u8| {
        let mut state = [&state[..at], view, &state[at..]].concat();
        let shape = state.windows(6).position(|w| w == b"QK\0K\x02K").expect("an offset");
        state[shape + 2] = offset;
        state[shape + 4] = 1;
        contents_of(&legacy_file(&state, &[("0", 4, &BYTES)]))
    };
    let view = [b"(", &text("7")[..], b"K\x02K\x02t"].concat();
    let (start, inside) = (changed(b"N", 0), changed(&view, 0));
    assert_eq!(
        inside.tensors[0].range.start,
        start.tensors[0].range.start + 8 + view.len() as u64 - 1
    );
    assert_eq!(names(&inside), ["storage of weight"]);
    assert_eq!(inside.data[0].shape, [4]);
    assert_eq!(changed(&view, 1).others[0].reason, Reason::Outside);
}

/// A state that is longer than what is read of it at first.
#[test]
fn long_states() {
    for len in [1 << 14, 1 << 17, 1 << 20] {
        let key = text(&"k".repeat(len));
        let state = [b"\x80\x02}(", &key[..], b"N", &text("weight"), &tensor(), b"u."].concat();
        let found = contents_of(&legacy_file(&state, &[("0", 4, &BYTES)]));
        assert_eq!(names(&found), ["weight"]);
    }
}

/// No prefix of a file gives what the whole does, and no changed byte does harm.
#[test]
fn truncated_and_changed() {
    attack(&file(), |found| found.format == Format::TorchLegacy && found.data.len() == 1);
}

/// Pickles of other libraries are bytes.
#[test]
fn plain_pickles() {
    let found = contents_of(b"\x80\x04\x95\x02\0\0\0\0\0\0\0]\x94.");
    assert_eq!((found.format, found.note.as_deref()), (Format::Unknown, Some("is a plain pickle")));
    assert_eq!(contents_of(b"\x80\x04\x95\x02\0\0\0\0\0\0\0]\x94").note, None);
}
