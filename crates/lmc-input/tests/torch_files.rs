//! Files that torch itself wrote are found out completely.

use crate::torch_made::{Made, first_item, found, tensor, text, torch_entries, torch_file, zip};
use lmc_format::Dtype;
use lmc_input::{Format, LayoutItem, Reason, contents};
use std::{fs, io};

/// What `testdata/torch_state.py` wrote.
pub fn real_file() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/torch_state.pt");
    fs::read(path).expect("a file of the repository")
}

/// Every tensor of a training state is found by its path, with its type, shape and bytes.
#[test]
fn a_training_state() {
    let file = real_file();
    let found = found(&file).expect("a file of torch");
    assert!(found.is_complete);
    let rows: Vec<String> =
        found.tensors.iter().map(|t| format!("{} {} {:?}", t.name, t.form(), t.range)).collect();
    assert_eq!(rows, EXPECTED);
    let columns = &found.others[0];
    assert_eq!((columns.name.as_str(), columns.reason), ("model.columns", Reason::Strided));
    assert_eq!((columns.dtype, &columns.shape[..]), (Some(Dtype::F32), &[8, 6][..]));
    assert_eq!(found.others.len(), 1);
    let storages: Vec<String> = found
        .data
        .iter()
        .map(|d| {
            let (len, dtype) = (d.range.end - d.range.start, d.dtype.expect("a type"));
            format!("{} {len} {} {} {:?}", d.name, dtype.name(), d.row_len, d.shape)
        })
        .collect();
    assert_eq!(storages, STORAGES);
    let master = found.tensors.iter().find(|t| t.name == "master.0").expect("the master weights");
    let range = master.range.start as usize..master.range.end as usize;
    let values = file[range].as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word));
    assert!(values.eq((0..48_u8).map(f32::from)));
}

const EXPECTED: &[&str] = &[
    "model.layers.0.weight BF16 [6, 8] 1984..2080",
    "model.layers.0.tied BF16 [6, 8] 1984..2080",
    "model.layers.0.bias F32 [8] 2176..2208",
    "model.part F32 [2, 8] 2368..2432",
    "model.scalar F32 [] 2624..2628",
    "model.empty F32 [0, 3] 2752..2752",
    "model.ids I64 [5] 2816..2856",
    "model.mask BOOL [3] 2944..2947",
    "model.signal C64 [3] 3072..3096",
    "model.scaled F8_E4M3 [2, 4] 3200..3208",
    "optimizer.state.17.step F32 [] 3328..3332",
    "optimizer.state.17.exp_avg F32 [6, 8] 3456..3648",
    "master.0 F32 [6, 8] 2304..2496",
    "master.1.0 F64 [2, 2] 3776..3808",
];

/// Name, bytes, type, row length and shape of each storage.
const STORAGES: &[&str] = &[
    "model.layers.0.weight 96 bf16 8 [6, 8]",
    "model.layers.0.bias 32 f32 0 [8]",
    "master.0 192 f32 8 [6, 8]",
    "model.scalar 4 f32 0 []",
    "model.ids 40 i64 0 [5]",
    "model.mask 3 bool 0 [3]",
    "model.signal 24 c64 0 [3]",
    "model.scaled 8 f8_e4m3 4 [2, 4]",
    "optimizer.state.17.step 4 f32 0 []",
    "optimizer.state.17.exp_avg 192 f32 8 [6, 8]",
    "master.1.0 32 f64 2 [2, 2]",
];

/// A made file is taken as one of torch: attributes, appended values and odd keys have names too.
#[test]
fn names_of_paths() {
    let tensor = tensor();
    let key = |name: &str| [&text(name)[..], &tensor].concat();
    let pickle = [
        b"\x80\x02cm\nC\n)\x81}(",
        &key("attribute")[..],
        b"J\xff\xff\xff\xff",
        &tensor,
        b"N",
        &tensor,
        b"ub",
        &tensor,
        b"a",
        &key("key"),
        b"s.",
    ]
    .concat();
    let found = found(&torch_file(&pickle)).expect("a file of torch");
    let names: Vec<&str> = found.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["0", "key", "attribute", "-1", "2"]);
    let matrix = LayoutItem { len: 16, dtype: Some(Dtype::F32), row_len: 2 };
    assert_eq!(first_item(&found), matrix);
}

/// Tensors that hold others, as those of several devices do, pass on their own names.
#[test]
fn tensors_in_tensors() {
    let inner = [&text("_local_tensor")[..], &tensor()].concat();
    let function = b"ctorch._utils\n_rebuild_wrapper_subclass\n";
    let class = b"ctorch.distributed.tensor\nDTensor\n";
    let state = [b"N}", &inner[..], b"s\x86"].concat();
    let call =
        [b"ctorch._tensor\n_rebuild_from_type_v2\n(", &function[..], class, b")", &state, b"tR"];
    let pickle = [b"\x80\x02}", &text("w")[..], &call.concat(), b"s."].concat();
    let found = found(&torch_file(&pickle)).expect("a file of torch");
    assert_eq!((found.tensors[0].name.as_str(), found.data.len()), ("w._local_tensor", 1));
}

/// Constants of TorchScript are in a folder of their own, under the same keys.
#[test]
fn constants() {
    let pickle = [&b"\x80\x02"[..], &tensor(), b"."].concat();
    let mut entries = torch_entries(&pickle);
    entries.push(Made::new("a/constants/0", &[1; 16]));
    let constants = [&b"\x80\x02"[..], &tensor(), b"\x85."].concat();
    entries.push(Made::new("a/constants.pkl", &constants));
    let found = found(&zip(&entries)).expect("a file of torch");
    let names: Vec<&str> = found.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["", "constants.0"]);
    assert_ne!(found.tensors[0].range, found.tensors[1].range);
}

/// In the other order of bytes, and without a pickle that can be read, there are storages without
/// types.
#[test]
fn storages_without_types() {
    let pickle = [&b"\x80\x02"[..], &tensor(), b"."].concat();
    let mut entries = torch_entries(&pickle);
    entries[1].data = b"big".to_vec();
    for file in [zip(&entries), torch_file(b"\x80\x02\xff")] {
        let found = found(&file).expect("a file of torch");
        assert!(found.tensors.is_empty() && !found.is_complete);
        assert_eq!(first_item(&found), LayoutItem { len: 16, dtype: None, row_len: 0 });
    }
}

/// Tensors that are not where the pickle has them are said to be so.
#[test]
fn tensors_that_are_not_there() {
    let matrix = tensor();
    let change = |from: &str, to: &str| {
        let at = (0..matrix.len()).find(|&at| matrix[at..].starts_with(from.as_bytes()));
        let at = at.expect("a part");
        let rest = &matrix[at + from.len()..];
        [b"\x80\x02", &matrix[..at], to.as_bytes(), rest, b"."].concat()
    };
    let reason = |file: &[u8]| {
        let found = found(file).expect("a file of torch");
        assert!(found.tensors.is_empty(), "{:?}", found.tensors);
        found.others[0].reason
    };
    for (from, to, expected) in [
        ("\0\x30X\x03\0\0\0cpu", "\0\x31X\x03\0\0\0cpu", Reason::Missing),
        ("K\x04tQ", "K\x05tQ", Reason::WrongLength),
        ("FloatStorage", "QUInt4x2Storage", Reason::UnknownType),
        ("K\x02K\x01", "K\x01K\x02", Reason::Strided),
        ("QK\0", "QK\x01", Reason::Outside),
        ("QK\0", "QJ\u{7f}\u{7f}\u{7f}\u{7f}", Reason::Outside),
    ] {
        assert_eq!(reason(&torch_file(&change(from, to))), expected, "{from:?}");
    }
    let mut entries = torch_entries(&change("", ""));
    entries[2].flags = 1;
    assert_eq!(reason(&zip(&entries)), Reason::Packed);
    entries[2] = Made { method: 8, flags: 0, ..entries[2].clone() };
    assert_eq!(reason(&zip(&entries)), Reason::Packed);
}

/// An error of the reader is given back: it does not make the file one of bytes.
#[test]
fn errors_of_reading() {
    let file = real_file();
    let with_bad_byte = |bad: u64| {
        let read = |at: u64, buffer: &mut [u8]| {
            if (at..at + buffer.len() as u64).contains(&bad) {
                return Err(io::Error::other("a bad sector"));
            }
            buffer.copy_from_slice(&file[at as usize..at as usize + buffer.len()]);
            Ok(())
        };
        contents(&read, file.len() as u64).map(|found| found.format)
    };
    assert!(matches!(with_bad_byte(u64::MAX), Ok(Format::Torch)));
    assert!(with_bad_byte(0).is_err());
    assert!(with_bad_byte(1000).is_err());
}

/// A matrix that is stored column by column, as a view of another or in a memory format of its own,
/// still says how long the rows in its storage are.
#[test]
fn rows_in_memory() {
    for (stride, row_len) in [([2, 1], 2), ([1, 2], 2), ([1, 1], 0), ([2, 2], 0)] {
        let mut matrix = tensor();
        let at = matrix.windows(4).position(|w| w == b"K\x02K\x01").expect("the stride");
        (matrix[at + 1], matrix[at + 3]) = (stride[0], stride[1]);
        let pickle = [&b"\x80\x02"[..], &matrix, b"."].concat();
        let found = found(&torch_file(&pickle)).expect("a file of torch");
        assert_eq!(first_item(&found).row_len, row_len, "{stride:?}");
    }
}
