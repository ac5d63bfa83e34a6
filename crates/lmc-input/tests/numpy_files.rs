//! Arrays of NumPy, alone and in zip files.

use crate::made::{attack, contents_of};
use crate::numpy_made::{npy, npy_header};
use crate::torch_made::{Made, first_item, zip};
use lmc_format::Dtype;
use lmc_input::{Format, LayoutItem, Reason};

const BYTES: [u8; 24] = [3; 24];

#[test]
fn a_matrix() {
    let found = contents_of(&npy("'<f4'", "False", "(2, 3)", &BYTES));
    assert_eq!((found.format, found.note.as_deref()), (Format::Npy, None));
    assert!(found.is_complete && found.others.is_empty());
    let tensor = &found.tensors[0];
    assert_eq!((tensor.name.as_str(), tensor.form().as_str()), ("array", "F32 [2, 3]"));
    assert_eq!(tensor.range, 128..152);
    let item = LayoutItem { len: 24, dtype: Some(Dtype::F32), row_len: 3 };
    assert_eq!(first_item(&found), item);
}

/// Columns that are stored one after the other are rows in memory, but the tensor is not a range.
#[test]
fn orders() {
    let found = contents_of(&npy("'<f4'", "True", "(2, 3)", &BYTES));
    assert_eq!((found.tensors.len(), found.others[0].reason), (0, Reason::Strided));
    assert_eq!((first_item(&found).row_len, &found.data[0].shape[..]), (2, &[2, 3][..]));
    let found = contents_of(&npy("'<f4'", "True", "(1, 6)", &BYTES));
    assert_eq!((found.tensors.len(), first_item(&found).row_len), (1, 6));
    // Big-endian numbers are whatever words suit them.
    let found = contents_of(&npy("'>f4'", "False", "(2, 3)", &BYTES));
    assert_eq!(found.others[0].reason, Reason::UnknownType);
    assert_eq!(first_item(&found), LayoutItem { len: 24, dtype: None, row_len: 0 });
}

/// Types and the words that they are seen as.
#[test]
fn types() {
    let fields = "[('a', '<f4'), ('b', [('c', '<i2', (2, 3)), ('d', '|u1')]), ('', '|V7')]";
    for (descr, dtype, len) in [
        ("'|b1'", Some(Dtype::Bool), 1),
        ("'|u1'", Some(Dtype::U8), 1),
        ("'<c16'", Some(Dtype::Complex128), 16),
        ("'<M8[ns]'", Some(Dtype::I64), 8),
        ("'<U5'", Some(Dtype::U32), 20),
        ("'|S5'", Some(Dtype::Bytes), 5),
        ("'<V2'", None, 2),
        ("'<f16'", None, 16),
        (fields, None, 24),
    ] {
        let found = contents_of(&npy(descr, "False", "(3,)", &vec![0; 3 * len]));
        let item = LayoutItem { len: 3 * len as u64, dtype, row_len: 0 };
        assert_eq!((first_item(&found), &found.data[0].shape[..]), (item, &[3][..]), "{descr}");
        assert_eq!(found.note, None, "{descr}");
    }
    let found = contents_of(&npy("'|O'", "False", "(3,)", b"\x80\x03."));
    assert_eq!(found.note.as_deref(), Some("holds a pickle of Python objects"));
    assert!(found.data.is_empty());
}

/// Headers that are written in another way, and headers that are none.
#[test]
fn headers() {
    let data = [&BYTES[..]].concat();
    let take = |text: &str| {
        let found = contents_of(&[&npy_header(text)[..], &data].concat());
        assert_eq!(found.note.is_none(), found.format == Format::Npy, "{text}: {:?}", found.note);
        found.format == Format::Npy
    };
    for text in [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'shape':(2L,3L),\"descr\":\"<f4\",'fortran_order':False}",
        "{ 'fortran_order' : True , 'shape' : (24,) , 'descr' : '|u1' }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': [3]}",
    ] {
        assert!(take(text), "{text}");
    }
    for text in [
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3.0)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} + {}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)",
        "{'descr': '<f4', 'fortran_order': False 'shape': (6,)}",
        "__import__('os').system('exit')",
    ] {
        assert!(!take(text), "{text}");
    }
    assert!(!take(&"[".repeat(50_000)));
    let many =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({})}}", "1,".repeat(65));
    assert!(!take(&many));
}

/// Shapes that do not fit, up to those that overflow.
#[test]
fn false_shapes() {
    for shape in ["(2, 4)", "(4294967296, 4294967296)", "(18446744073709551615,)", "(1, 7)"] {
        let found = contents_of(&npy("'<f4'", "False", shape, &BYTES));
        assert_eq!(found.note.as_deref(), Some("is cut off: an array is not whole"), "{shape}");
        assert!(found.data.is_empty() && found.others[0].reason == Reason::Missing);
    }
    let found = contents_of(&npy("'<U4611686018427387905'", "False", "(1,)", &BYTES));
    assert!(found.data.is_empty());
    let found = contents_of(&npy("'<f4'", "False", "(5,)", &BYTES));
    assert_eq!(found.note.as_deref(), Some("has 4 bytes behind an array"));
    assert_eq!(first_item(&found).len, 20);
    let empty = contents_of(&npy("'<f4'", "False", "(0, 18446744073709551615)", b""));
    assert_eq!((empty.tensors.len(), empty.data.len(), empty.note), (1, 0, None));
    let scalar = contents_of(&npy("'<f8'", "False", "()", &[0; 8]));
    assert_eq!((scalar.tensors.len(), first_item(&scalar).len), (1, 8));
}

#[test]
fn zip_files() {
    let matrix = npy("'<f4'", "False", "(2, 3)", &BYTES);
    let entries = [
        Made::new("b.npy", &matrix),
        Made::new("notes.txt", b"text"),
        Made::new("a/b.npy", &matrix),
        Made::new("torn.npy", &matrix[..140]),
        Made::new("odd.npy", b"text"),
        Made { method: 8, ..Made::new("c.npy", &matrix) },
    ];
    let found = contents_of(&zip(&entries));
    assert_eq!((found.format, found.is_complete), (Format::Npz, false));
    let names: Vec<&str> = found.data.iter().map(|data| data.name.as_str()).collect();
    assert_eq!(names, ["b", "a/b"]);
    let others: Vec<_> = found.others.iter().map(|other| (&other.name[..], other.reason)).collect();
    assert_eq!(others, [("torn", Reason::Missing), ("c", Reason::Packed)]);
    let found = contents_of(&zip(&entries[5..]));
    assert_eq!(found.note.as_deref(), Some("has 1 array that is compressed"));
    // Two entries of one name are two stretches.
    let twice = contents_of(&zip(&[entries[0].clone(), entries[0].clone(), entries[0].clone()]));
    let names: Vec<&str> = twice.data.iter().map(|data| data.name.as_str()).collect();
    assert_eq!(names, ["b", "b (2)", "b (3)"]);
}

#[test]
fn truncated_and_changed() {
    let matrix = npy("'<f4'", "False", "(2, 3)", &BYTES);
    attack(&matrix, |found| found.data.len() == 1);
    let entries = [Made::new("b.npy", &matrix), Made::new("a.npy", &matrix)];
    attack(&zip(&entries), |found| found.data.len() == 2);
}
