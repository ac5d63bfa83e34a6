//! Models of ONNX.

use crate::made::{attack, contents_of};
use crate::onnx_made::{bytes, model, number, tensor, varint};
use lmc_format::Dtype;
use lmc_input::{Contents, Format, Reason};
use std::time::{Duration, Instant};

const FLOAT: u64 = 1;
const DATA: [u8; 24] = [7; 24];

/// A matrix among the weights, and one that is a constant of a node.
fn file() -> Vec<u8> {
    let weight = bytes(5, &tensor("w", FLOAT, &[2, 3], &DATA));
    let attribute = [bytes(1, b"value"), bytes(5, &tensor("", FLOAT, &[6], &DATA))].concat();
    let node = [bytes(1, b"in"), bytes(2, b"out"), bytes(2, b"more"), bytes(5, &attribute)];
    model(&[bytes(1, &node.concat()), bytes(2, b"graph"), weight].concat())
}

/// The only tensor of a graph that is not a range.
fn other(tensor: &[u8]) -> (Reason, usize) {
    let found = contents_of(&model(&bytes(5, tensor)));
    assert_eq!((found.format, found.tensors.len(), found.others.len()), (Format::Onnx, 0, 1));
    (found.others[0].reason, found.data.len())
}

#[test]
fn two_tensors() {
    let file = file();
    let found = contents_of(&file);
    assert_eq!(
        (found.format, found.note.as_deref(), found.is_complete),
        (Format::Onnx, None, true)
    );
    let rows = found.data.iter().map(|data| (&data.name[..], data.dtype, data.row_len));
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows, [("out", Some(Dtype::F32), 0), ("w", Some(Dtype::F32), 3)]);
    for tensor in &found.tensors {
        assert_eq!(file[tensor.range.start as usize..tensor.range.end as usize], DATA);
    }
}

/// Dimensions and floats may come in one field each, and in fields of their own.
#[test]
fn forms_of_fields() {
    let dims = bytes(1, &[varint(2), varint(3)].concat());
    let floats = [&dims[..], &number(2, FLOAT), &bytes(4, &DATA), &bytes(8, b"w")].concat();
    let found = contents_of(&model(&bytes(5, &floats)));
    assert_eq!((found.tensors[0].form(), found.data[0].row_len), ("F32 [2, 3]".into(), 3));
    let one = [varint(4 << 3 | 5), vec![0; 4]].concat();
    let apart = [&dims[..], &number(2, FLOAT), &one.repeat(6), &bytes(8, b"w")].concat();
    assert_eq!(other(&apart), (Reason::Encoded, 0));
    let parts = [&dims[..], &number(2, FLOAT), &bytes(4, &[0; 12]).repeat(2)].concat();
    assert_eq!(other(&parts), (Reason::Encoded, 0));
    let whole = [&dims[..], &number(2, 7), &bytes(7, &[0; 6])].concat();
    assert_eq!(other(&whole), (Reason::Encoded, 0));
    let empty = [number(1, 0), number(2, 7), bytes(8, b"e")].concat();
    assert_eq!(contents_of(&model(&bytes(5, &empty))).tensors.len(), 1);
}

#[test]
fn tensors_that_are_no_ranges() {
    assert_eq!(other(&tensor("w", FLOAT, &[2, 4], &DATA)), (Reason::WrongLength, 1));
    assert_eq!(other(&tensor("w", FLOAT, &[u64::MAX, 2], &DATA)), (Reason::WrongLength, 1));
    assert_eq!(other(&tensor("w", FLOAT, &[1 << 62], &DATA)), (Reason::WrongLength, 1));
    assert_eq!(other(&tensor("w", 22, &[48], &DATA)), (Reason::UnknownType, 1));
    assert_eq!(other(&tensor("w", u64::MAX, &[48], &DATA)), (Reason::UnknownType, 1));
    let elsewhere = [tensor("w", FLOAT, &[2, 3], b""), number(14, 1)].concat();
    assert_eq!(other(&elsewhere), (Reason::Elsewhere, 0));
    assert_eq!(other(&[number(1, 3), number(2, FLOAT)].concat()), (Reason::Missing, 0));
}

/// Graphs in nodes, in functions and in training; weights of which most are zero.
#[test]
fn other_places() {
    let weight = |name: &str| tensor(name, FLOAT, &[2, 3], &DATA);
    let graph = bytes(5, &weight("inner"));
    let branch = bytes(5, &[bytes(1, b"then_branch"), bytes(6, &graph)].concat());
    let node = bytes(1, &[bytes(2, b"out"), branch].concat());
    let sparse = bytes(15, &[bytes(1, &weight("values")), bytes(2, &weight("indices"))].concat());
    let constant = bytes(5, &bytes(5, &weight("")));
    let function = bytes(25, &bytes(7, &[bytes(2, b"in function"), constant].concat()));
    let training = bytes(20, &bytes(1, &bytes(5, &weight("start"))));
    let file = [model(&[node, sparse].concat()), function, training].concat();
    let found = contents_of(&file);
    let names: Vec<&str> = found.data.iter().map(|data| data.name.as_str()).collect();
    assert_eq!(names, ["inner", "values", "indices", "in function", "start"]);
}

/// Files that begin like a model and are none, or not whole.
#[test]
fn odd_files() {
    let damaged = Some("begins like ONNX, but is damaged or cut off");
    for (file, note) in [
        (b"\x08\x08".to_vec(), None),
        (b"\x08\x08\x12\x04text".to_vec(), None),
        (b"\x08\x08 is text".to_vec(), None),
        ([number(1, 8), number(9, 1)].concat(), None),
        ([number(1, 8), number(1, 8), bytes(7, b"")].concat(), None),
        (
            [number(1, 8), b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01".to_vec()].concat(),
            damaged,
        ),
        (
            [number(1, 8), b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec()].concat(),
            damaged,
        ),
        (model(b"\x0b"), damaged),
        (model(&bytes(5, b"\x09")), damaged),
        (model(&bytes(5, &bytes(1, b"\xff"))), damaged),
        ([model(b""), b"more".to_vec()].concat(), damaged),
    ] {
        let found = contents_of(&file);
        assert_eq!((found.format, found.note.as_deref()), (Format::Unknown, note));
    }
    assert_eq!(contents_of(&model(b"")).format, Format::Onnx);
}

/// Graphs in graphs, and names that are used many times.
#[test]
fn bombs() {
    let start = Instant::now();
    let mut graph = bytes(5, &tensor("w", FLOAT, &[2, 3], &DATA));
    for _ in 0..2000 {
        graph = bytes(1, &bytes(5, &bytes(6, &graph)));
    }
    let found = contents_of(&model(&graph));
    assert_eq!((found.format, found.is_complete, found.data.len()), (Format::Onnx, false, 0));
    let unnamed = bytes(5, &bytes(10, &number(2, FLOAT)).repeat(2_000_000));
    let node = [bytes(2, &[b'n'; 4000]), unnamed].concat();
    let found = contents_of(&model(&bytes(1, &node)));
    assert_eq!(found.note.as_deref(), Some("is like ONNX, but has more fields than are looked at"));
    let found = contents_of(&model(&b"\x10\0".repeat(17_000_000)));
    assert_eq!(found.note.as_deref(), Some("is like ONNX, but has more fields than are looked at"));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn truncated_and_changed() {
    attack(&file(), |found: &Contents| found.tensors.len() == 2);
}
