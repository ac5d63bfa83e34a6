//! Files of torch.distributed.checkpoint, and their metadata.

use crate::dcp_made::metadata;
use crate::made::{attack, contents_of, dcp_contents_of};
use crate::torch_made::{Made, tensor, text, torch_entries, torch_file, zip, zip_with};
use lmc_input::{Contents, DcpItem, Format, dcp_items};
use std::time::{Duration, Instant};

/// A zip file of torch with one matrix of f32, 16 bytes.
fn part() -> Vec<u8> {
    torch_file(&[&b"\x80\x02"[..], &tensor(), b"."].concat())
}

/// One whose tensors have names.
fn state_part() -> Vec<u8> {
    torch_file(&[b"\x80\x02}", &text("w")[..], &tensor(), b"s."].concat())
}

fn names(found: &Contents) -> Vec<&str> {
    found.data.iter().map(|data| data.name.as_str()).collect()
}

/// Parts are called by number, and their tensors are where they are in the file.
#[test]
fn parts_in_a_row() {
    let parts = [part(), state_part(), part()];
    let file = parts.concat();
    let found = contents_of(&file);
    assert_eq!((found.format, found.note.as_deref()), (Format::Dcp, None));
    assert!(found.is_complete && found.others.is_empty());
    assert_eq!(names(&found), ["item 0", "item 1.w", "item 2"]);
    for tensor in &found.tensors {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(file[tensor.range.start as usize..tensor.range.end as usize], bytes);
    }
    assert_eq!(found.data[2].row_len, 2);
    // A file of one part is one of torch.save, unless its names are known.
    let one = part();
    assert_eq!(contents_of(&one).format, Format::Torch);
    assert_eq!(dcp_contents_of(&one, &[]).format, Format::Dcp);
    assert_eq!(dcp_contents_of(b"", &[]).format, Format::Unknown);
    assert_eq!(dcp_contents_of(b"text", &[]).format, Format::Unknown);
}

/// Zip files whose end has 64 bits, as torch writes them.
#[test]
fn long_ends() {
    let entries = torch_entries(&[&b"\x80\x02"[..], &tensor(), b"."].concat());
    let long = zip_with(&entries, |_, _| {}, |end| end.is_long = true);
    let found = contents_of(&[&long[..], &part(), &long].concat());
    assert_eq!(names(&found), ["item 0", "item 1", "item 2"]);
}

/// Parts that are something else, or not whole.
#[test]
fn odd_parts() {
    let other = zip(&[Made::new("text", b"text")]);
    let found = contents_of(&[part(), other, part()].concat());
    assert_eq!((names(&found), found.is_complete), (vec!["item 0", "item 2"], false));
    assert_eq!(found.note.as_deref(), Some("has a part, item 1, that is not of torch.save"));
    let mut entries = torch_entries(&[&b"\x80\x02"[..], &tensor(), b"."].concat());
    entries[2].method = 8;
    let found = contents_of(&[part(), zip(&entries)].concat());
    let note = "has a part, item 1, that has 1 storage that is compressed or encrypted";
    assert_eq!(found.note.as_deref(), Some(note));
    for broken in [
        [part(), b"between".to_vec(), part()].concat(),
        [part(), part(), b"behind".to_vec()].concat(),
        [part(), part()[..100].to_vec(), part()].concat(),
    ] {
        assert_eq!(contents_of(&broken).format, Format::Unknown);
    }
}

#[test]
fn truncated_and_changed() {
    let is_whole = |found: &Contents| found.format == Format::Dcp && found.data.len() == 2;
    attack(&[part(), state_part()].concat(), is_whole);
}

/// Many small parts cost what they take, and too many are bytes.
#[test]
fn many_parts() {
    let start = Instant::now();
    let found = contents_of(&part().repeat(20_000));
    assert_eq!(found.data.len(), 20_000);
    let empty = zip(&[]);
    assert_eq!(contents_of(&[part(), empty.repeat(1_000_000)].concat()).format, Format::Unknown);
    // Lists that hold the one before them ten times, in each part.
    let laughs: Vec<u8> = (0..60_u8)
        .flat_map(|i| [b"](", &[b'h', i].repeat(10)[..], b"eq", &[i + 1]].concat())
        .collect();
    let laughing = torch_file(&[&b"\x80\x02"[..], &tensor(), b"q\0", &laughs, b"."].concat());
    let found = contents_of(&laughing.repeat(3000));
    assert!(!found.is_complete && found.tensors.len() < 1_000_000);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// Names come from the metadata: shards are named by their places.
#[test]
fn names_from_metadata() {
    let len = part().len() as u64;
    let parts = [
        ("w", Some(&[0, 0][..]), "__0_0.distcp", 0, len),
        ("w", Some(&[2, 0]), "__1_0.distcp", 0, len),
        ("step", None, "__0_0.distcp", 2 * len, len),
        ("b", Some(&[0]), "__0_0.distcp", len, len),
        ("gone", None, "__0_0.distcp", 3 * len, len + 1),
    ];
    let items = dcp_items(&metadata(&parts)).expect("metadata");
    let paths: Vec<(&str, u64)> = items.iter().map(|item| (&item.path[..], item.offset)).collect();
    let first = "__0_0.distcp";
    let expected = [(first, 0), (first, len), (first, 2 * len), (first, 3 * len)];
    assert_eq!(paths, [&expected[..], &[("__1_0.distcp", 0)]].concat());
    let item = DcpItem {
        path: "__1_0.distcp".into(),
        offset: 0,
        len,
        fqn: "w".into(),
        place: Some(vec![2, 0]),
        is_shard: true,
    };
    assert_eq!((&items[4], items[4].name().as_str()), (&item, "w [2, 0]"));
    let found = dcp_contents_of(&part().repeat(4), &items[..4]);
    assert_eq!(names(&found), ["w [0, 0]", "b", "step", "item 3"]);
    assert_eq!(names(&dcp_contents_of(&part(), &items[4..])), ["w [2, 0]"]);
}

/// Metadata that breaks off, is changed, or says what cannot be.
#[test]
fn odd_metadata() {
    let sound = metadata(&[("w", Some(&[0, 0]), "a", 0, 9), ("b", None, "a", 9, 9)]);
    assert_eq!(dcp_items(&sound).map(|items| items.len()), Some(2));
    for len in 0..sound.len() {
        assert_eq!(dcp_items(&sound[..len]), None);
    }
    let mut changed = sound.clone();
    for at in 0..sound.len() {
        for mask in [1, 0x20, 0x80, 0xff] {
            changed[at] ^= mask;
            let _ = dcp_items(&changed);
            changed[at] = sound[at];
        }
    }
    assert_eq!(dcp_items(&metadata(&[])), Some(vec![]));
    assert_eq!(dcp_items(&metadata(&[("w", None, "a", 1 << 31, 9)])), None);
    assert_eq!(dcp_items(&metadata(&[("w", Some(&[0; 65]), "a", 0, 9)])), None);
    assert_eq!(dcp_items(&metadata(&[(&"w".repeat(5000), None, "a", 0, 9)])), None);
}
