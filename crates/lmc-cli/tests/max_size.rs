//! A small file may announce an original of any length: it can be refused by that before anything
//! is decoded, and one that is far larger than the file is announced.

use crate::common;
use crate::common::{Folder, code, stderr};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{
    BlockKind, BlockPrefix, Footer, Index, Item, Piece, SourceKind, Span, file, hash,
};

const BLOCK_LEN: usize = 1 << 24;

/// A file of `count` blocks of zeros, 16 MiB each.
fn zeros(count: usize) -> Vec<u8> {
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Constant, raw_len: BLOCK_LEN }.write(&mut block);
    block.extend_from_slice(&[1, 0]);
    let span = Span {
        raw_len: BLOCK_LEN as u64,
        dtype: lmc_format::Dtype::Bytes.id(),
        block_log2: 24,
        reference: None,
        recipe: None,
        blocks: vec![Piece { len: block.len() as u64, hash: hash(&block) }],
    };
    let original_len = (count * BLOCK_LEN) as u64;
    let hashes = vec![hash(&vec![0; BLOCK_LEN]); count];
    let items = vec![Item { len: original_len, hash: hash_of_hashes(&hashes) }];
    let spans = vec![span; count];
    let index =
        Index { kind: SourceKind::Bytes, bases: Vec::new(), spans, items, ..Index::default() }
            .write();
    let body = block.repeat(count);
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len,
    };
    [&file::header()[..], &body, &index, &footer.write()].concat()
}

/// What announces more than `--max-size` is refused by every command that would decode it, and
/// nothing is made.
#[test]
fn originals_over_max_size_are_refused() {
    let folder = Folder::new();
    folder.write("x.lmc", &zeros(1100));
    let before = folder.names();
    for args in [
        &["decompress", "--max-size", "10G", "x.lmc"][..],
        &["decompress", "--max-size", "17G", "-c", "x.lmc"],
        &["test", "--max-size", "10737418240", "x.lmc"],
        &["cat", "--max-size", "1T", "x.lmc", "w"],
    ] {
        let output = folder.lmc(args);
        assert_eq!(code(&output), 1, "{args:?}: {}", stderr(&output));
        let is_cat = args[0] == "cat";
        assert_eq!(stderr(&output).contains("; --max-size allows more"), !is_cat, "{args:?}");
        assert!(output.stdout.is_empty() && folder.names() == before, "{args:?}");
    }
    let refused = folder.lmc(&["cat", "--max-size", "10M", "x.lmc", "w"]);
    assert!(stderr(&refused).contains("; --max-size allows more"), "{}", stderr(&refused));
    for size in ["", "G", "10X", "-1", "1.5G", "99999999999T"] {
        let output = folder.lmc(&["test", "--max-size", size, "x.lmc"]);
        assert_eq!(code(&output), 2, "{size}: {}", stderr(&output));
    }
}

/// The same for a snapshot, by the sizes of what is to be restored of it.
#[test]
fn snapshots_over_max_size_are_refused() {
    let folder = Folder::new();
    folder.write("run/a.bin", &common::noise(5000, 1));
    folder.write("run/b.bin", &common::noise(3000, 2));
    folder.ok(&["init", "--store", "store"]);
    folder.ok(&["save", "run", "--store", "store"]);
    let restore = |args: &[&str]| {
        folder.lmc(&[&["restore", "latest", "out", "--store", "store"], args].concat())
    };
    let output = restore(&["--max-size", "7999"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("; --max-size allows more"), "{}", stderr(&output));
    assert!(!folder.exists("out"));
    assert_eq!(code(&restore(&["--max-size", "3000", "--only", "b.bin"])), 0);
    std::fs::remove_dir_all(folder.path("out")).expect("restored");
    assert_eq!(code(&restore(&["--max-size", "8000"])), 0);
}

/// An original over 1 GiB and over 100 times its file is announced before it is decoded; others are
/// not.
#[test]
fn large_originals_are_announced() {
    let folder = Folder::new();
    folder.write("x.lmc", &zeros(65));
    folder.write("y.lmc", &zeros(4));
    let output = folder.lmc(&["test", "x.lmc"]);
    let said = stderr(&output);
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains("1090519040 bytes") && first.contains("--max-size"), "{said}");
    assert_eq!(code(&output), 0, "{said}");
    assert!(!stderr(&folder.lmc(&["test", "y.lmc"])).contains("--max-size"));
}
