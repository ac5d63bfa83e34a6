//! Files that were made to do harm: they are refused or found to hold something, at a cost in
//! proportion to their length.

use crate::torch_files::real_file;
use crate::torch_made::{
    Made, first_item, found, tensor, text, torch_entries, torch_file, zip, zip_with,
};

/// The names of tensors in a file with this pickle. The item of the storage is there in any case.
fn names(pickle: &[u8]) -> Vec<String> {
    let found = found(&torch_file(pickle)).expect("the zip file is sound");
    assert_eq!(first_item(&found).len, 16);
    found.tensors.into_iter().map(|t| t.name).collect()
}

/// A pickle of these parts.
fn pickle(parts: &[&[u8]]) -> Vec<u8> {
    [&b"\x80\x02"[..], &parts.concat(), b"."].concat()
}

/// Calls are not made, whatever is called and however it is written, and the scan goes on.
#[test]
fn calls() {
    let tensor = &tensor()[..];
    for call in [
        &b"cos\nsystem\nX\x04\0\0\0exit\x85R"[..],
        b"cbuiltins\neval\nX\x04\0\0\0exit\x85R",
        b"(X\x04\0\0\0exitios\nsystem\n",
        b"(cos\nsystem\nX\x04\0\0\0exito",
        b"\x8c\x02os\x8c\x06system\x93\x8c\x04exit\x85R",
        // The name of what is called is itself the result of a call.
        b"cbuiltins\ngetattr\nX\x02\0\0\0osX\x06\0\0\0system\x86RX\x04\0\0\0exit\x85R",
        b"\x8c\x02os\x8c\x03sysR\x8c\x03tem\x93)R",
        b"cos\nsystem\n)\x81}X\x01\0\0\0aNsb",
        b"\x82\x01)R",
        b"\x97\x98",
    ] {
        let file = pickle(&[b"(", call, b"0", tensor, b"l"]);
        assert_eq!(names(&file), ["0"], "{}", call.escape_ascii());
    }
    let nested = [b"cos\nsystem\n".repeat(1000), b"N".to_vec(), b"\x85R".repeat(1000)].concat();
    assert_eq!(names(&pickle(&[b"(", &nested, b"0", tensor, b"l"])), ["0"]);
}

/// Values that share others many times cost what they take in the pickle.
#[test]
fn shared_values() {
    // Each list holds the one before it ten times.
    let laughs: Vec<u8> = (0..60_u8)
        .flat_map(|i| [b"](", &[b'h', i].repeat(10)[..], b"eq", &[i + 1]].concat())
        .collect();
    let found_names = names(&pickle(&[&tensor(), b"q\0", &laughs]));
    assert!((1000..10_000).contains(&found_names.len()), "{}", found_names.len());
    assert_eq!(names(&pickle(&[b"Nq\0", &laughs])).len(), 0);
    // Tuples that double, with keys that are long.
    let key = text(&"k".repeat(60_000));
    let doubled = b"}(h\0h\x01h\x01h\x01uq\x01".repeat(60);
    names(&pickle(&[&key, b"q\0", &tensor(), b"q\x01", &doubled]));
    // Lists that hold themselves, and each other.
    assert_eq!(names(&pickle(&[b"]q\0h\0a", &tensor(), b"a"])), ["1"]);
    let rings = [b"]q\0]q\x01h\0ah\0h\x01a".to_vec(), tensor(), b"a".to_vec()].concat();
    assert_eq!(names(&pickle(&[&rings])), ["1"]);
}

/// Memo entries with large or missing numbers are refused, and so are too many of them.
#[test]
fn memo_bombs() {
    for part in [
        &b"Nr\xff\xff\xff\xff"[..],
        b"Nr\0\0\0\x01",
        b"Np99999999999999999999\n",
        b"Np-1\n",
        b"h\x07",
        b"j\0\0\0\x01",
        b"q\0",
        b"\x94",
    ] {
        assert!(names(&pickle(&[part, &tensor()])).is_empty(), "{}", part.escape_ascii());
    }
    names(&pickle(&[b"N", &b"\x94".repeat(20_000_000)]));
    names(&pickle(&[&b"]\x94".repeat(5_000_000)]));
    names(&pickle(&[&b"N".repeat(30_000_000)]));
    names(&pickle(&[&b"(".repeat(30_000_000)]));
    names(&pickle(&[b")", &b")R".repeat(8_000_000)]));
    names(&pickle(&[b"N", &b"2".repeat(10_000_000), b"\x85"]));
}

/// Nesting may have any depth; names have a limited one.
#[test]
fn deep_nesting() {
    for (open, close) in [
        (&b"]"[..], &b"a"[..]),
        (b"(", b"t"),
        (b"(", b"l"),
        (b"}K\0", b"s"),
        (b"", b"\x85"),
        (b"", b"Q"),
        (b")", b"R"),
        (b"cm\nC\n)\x81", b"b"),
    ] {
        let deep = [open.repeat(1_000_000), tensor(), close.repeat(1_000_000)].concat();
        assert!(names(&pickle(&[&deep])).is_empty());
        let flat = [open.repeat(50), tensor(), close.repeat(50)].concat();
        let is_call = close == b"Q" || close == b"R";
        let found = names(&pickle(&[&flat]));
        assert!(is_call || found.len() == 1, "{} {found:?}", close.escape_ascii());
    }
}

/// Lengths and numbers that are too large, and operations without what they need.
#[test]
fn false_lengths() {
    for part in [
        &b"\x8b\xff\xff\xff\x7f\0"[..],
        b"\x8b\xff\xff\xff\xff\0",
        b"\x8a\xff\0",
        b"X\xff\xff\xff\xffa",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fa",
        b"B\xff\xff\xff\xff",
        b"(0t",
        b"N(R",
        b"(N(\x86",
        b"K\0t",
        b"(K\0d",
        b"\x85",
        b"b",
        b"s",
        b"N(a",
        b"o",
        b"(o",
        b"\x80\x06",
        b"\xfe",
        b"cmodule",
        b"S'\n",
    ] {
        assert!(names(&pickle(&[part, &tensor()])).is_empty(), "{}", part.escape_ascii());
    }
    let long = [b"\x8b\0\0\0\x01", &[0x7f; 1 << 24][..], b"0"].concat();
    assert_eq!(names(&pickle(&[&long, &tensor()])), [""]);
    let digits = [b"L", &b"9".repeat(1 << 24)[..], b"L\n0"].concat();
    assert_eq!(names(&pickle(&[&digits, &tensor()])), [""]);
}

/// A storage whose key is long is not looked up again and again.
#[test]
fn long_keys() {
    let key = text(&"0".repeat(1 << 20));
    let storage = [&b"("[..], &text("storage"), b"ctorch\nFloatStorage\n", &key, b"NK\x04tq\0"];
    let part = [&storage.concat()[..], b"Q", &b"h\0Q".repeat(1_000_000)].concat();
    assert!(names(&pickle(&[&part])).is_empty());
}

/// A file that ends early is not taken for one of torch, and a changed byte never causes a panic.
#[test]
fn truncated_and_changed() {
    let file = real_file();
    for len in 0..file.len() {
        assert!(found(&file[..len]).is_none(), "{len}");
    }
    let mut changed = file.clone();
    for at in 0..file.len() {
        for mask in [1, 0x20, 0x80, 0xff] {
            changed[at] ^= mask;
            found(&changed);
            changed[at] = file[at];
        }
    }
    let stream = pickle(&[&tensor()]);
    for len in 0..stream.len() {
        assert!(names(&stream[..len]).is_empty(), "{len}");
    }
}

/// Sets bytes of a central entry.
fn set(central: &mut [u8], at: usize, bytes: &[u8]) {
    central[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Directories that say what is not true are refused.
#[test]
fn false_directories() {
    let stream = pickle(&[&tensor()]);
    let entries = torch_entries(&stream);
    assert!(found(&zip(&entries)).is_some());
    let second = |i: usize| i == 2;
    let large = [0xff; 4];
    for (at, bytes) in [
        (0, &b"PK\x01\x03"[..]),
        (10, &[8]),
        (20, &[15]),
        (20, &[17]),
        (20, &large),
        (24, &[17]),
        (28, &[9]),
        (28, &[0xff, 0xff]),
        (30, &[1]),
        (32, &[1]),
        (34, &[1]),
        (42, &large),
        (42, &[1]),
        (42, &[0]),
        (46, b"b"),
    ] {
        let change = |i: usize, central: &mut Vec<u8>| {
            if second(i) {
                set(central, at, bytes);
            }
        };
        assert!(found(&zip_with(&entries, change, |_| {})).is_none(), "{at} {bytes:?}");
    }
    // An entry that lies in the one in front of it.
    let outer = zip(&entries[..1]);
    let inner_at = 30 + "a/data.pkl".len() as u32;
    let mut nested = entries.clone();
    nested[2].data = outer;
    let inner = |i: usize, central: &mut Vec<u8>| {
        if i == 0 {
            let before: usize = entries[..2].iter().map(|e| 30 + e.name.len() + e.data.len()).sum();
            let at = before as u32 + 30 + "a/data/0".len() as u32;
            set(central, 42, &at.to_le_bytes());
        }
    };
    assert!(found(&zip_with(&nested, inner, |_| {})).is_none(), "{inner_at}");
    // Twice the same name.
    let twice = [&entries[..], &[Made::new("a/data/0", b"")]].concat();
    assert!(found(&zip(&twice)).is_none());
}

/// The fields of the end must agree with the directory, short or long.
#[test]
fn false_ends() {
    let stream = pickle(&[&tensor()]);
    let entries = torch_entries(&stream);
    let keep = |_: usize, _: &mut Vec<u8>| {};
    for is_long in [false, true] {
        let sound = zip_with(&entries, keep, |end| end.is_long = is_long);
        assert_eq!(found(&sound).expect("a file of torch").tensors.len(), 1);
        for (count, len, start) in [
            (1_i64, 0_i64, 0_i64),
            (-1, 0, 0),
            (0, 1, 0),
            (0, -1, 0),
            (0, 0, 1),
            (0, 0, -1),
            (0, 1, -1),
            (1 << 21, 0, 0),
            (0, 1 << 40, 0),
            (0, 0, 1 << 62),
            (i64::MAX, 0, 0),
            (0, i64::MAX, i64::MAX),
        ] {
            let lie = zip_with(&entries, keep, |end| {
                end.is_long = is_long;
                end.count = end.count.wrapping_add_signed(count);
                end.len = end.len.wrapping_add_signed(len);
                end.start = end.start.wrapping_add_signed(start);
            });
            assert!(found(&lie).is_none(), "{is_long} {count} {len} {start}");
        }
    }
    // Long values in the entry itself.
    let long = |values: &[u64]| {
        let extra: Vec<u8> = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        zip_with(
            &entries,
            |i, central| {
                if i == 2 {
                    set(central, 20, &[0xff; 8]);
                    let len = extra.len() as u16;
                    set(central, 30, &(len + 4).to_le_bytes());
                    central.extend([1_u16, len].map(u16::to_le_bytes).concat());
                    central.extend(&extra);
                }
            },
            |_| {},
        )
    };
    assert_eq!(found(&long(&[16, 16])).expect("a file of torch").tensors.len(), 1);
    for values in [&[16][..], &[16, 17], &[u64::MAX, u64::MAX], &[1 << 63, 1 << 63], &[]] {
        assert!(found(&long(values)).is_none(), "{values:?}");
    }
}

/// A million entries are read; more than the limit are not.
#[test]
fn many_entries() {
    let stream = pickle(&[&tensor()]);
    let mut entries = torch_entries(&stream);
    entries.extend((1..1_000_000).map(|i| Made::new(&format!("a/data/{i}"), b"x")));
    let file = found(&zip(&entries)).expect("a file of torch");
    assert_eq!(file.data.len(), 1_000_000);
    let none = (0..(1 << 20) + 1).map(|i| Made::new(&format!("{i:x}"), b"")).collect::<Vec<_>>();
    assert!(found(&zip(&none)).is_none());
}
