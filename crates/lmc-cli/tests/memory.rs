//! Memory is bounded by the index of a file, whatever a command does with it.

use crate::common;
use std::process::{Command, Stdio};

use crate::common::{Folder, code};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{Footer, Index, Item, Piece, SourceKind, Span, file, hash};

/// A file of `count` spans of one byte each, and the length of its index.
fn one_byte_spans(count: usize) -> (Vec<u8>, u64) {
    // Stored: the kind, the length and the byte.
    let block = [0, 1, 7];
    let span = Span {
        raw_len: 1,
        dtype: lmc_format::Dtype::Bytes.id(),
        block_log2: 10,
        reference: None,
        recipe: None,
        blocks: vec![Piece { len: block.len() as u64, hash: hash(&block) }],
    };
    let items = vec![Item { len: count as u64, hash: hash_of_hashes(&vec![hash(&[7]); count]) }];
    let spans = vec![span; count];
    let index =
        Index { kind: SourceKind::Bytes, bases: Vec::new(), spans, items, ..Index::default() }
            .write();
    let body = block.repeat(count);
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len: count as u64,
    };
    let index_len = index.len() as u64;
    ([&file::header()[..], &body, &index, &footer.write()].concat(), index_len)
}

/// Every command that opens a file does with 64 MiB and four times its index.
#[test]
fn memory_is_bounded_by_the_index() {
    let folder = Folder::new();
    let (bytes, index_len) = one_byte_spans(300_000);
    folder.write("x.lmc", &bytes);
    let most = format!("--data={}", (64 << 20) + 4 * index_len);
    for args in [
        &["test", "-q", "-T", "1", "x.lmc"][..],
        &["decompress", "-q", "-T", "1", "-c", "x.lmc"],
        &["list", "x.lmc"],
        &["list", "--json", "x.lmc"],
        &["inspect", "x.lmc"],
        &["inspect", "--json", "x.lmc"],
        &["inspect", "--blocks", "x.lmc"],
    ] {
        let mut command = Command::new("prlimit");
        command.arg(&most).arg(env!("CARGO_BIN_EXE_lmc")).args(args);
        let output = command.current_dir(folder.path(".")).stdout(Stdio::null()).output();
        let Ok(output) = output else {
            lmc_testkit::skip(lmc_testkit::Missing::Tool, "prlimit is needed");
            return;
        };
        assert!(output.status.success(), "{args:?}: {}", common::stderr(&output));
    }
    let output = folder.lmc(&["decompress", "-c", "x.lmc"]);
    assert!(code(&output) == 0 && output.stdout == vec![7; 300_000]);
}
