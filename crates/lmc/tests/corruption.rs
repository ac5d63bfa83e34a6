//! Damage is found: every single-bit flip and every truncation of the golden files, and files that
//! lie about their lengths, are refused, quickly and in little memory.

use crate::common;
use crate::common::{bases, golden, golden_deltas, golden_path};
use lmc::{Archive, BaseSet, Context, ErrorKind, Result, decompress_to_vec};
use lmc_format::{
    BaseId, Conversion, Footer, Index, Item, Piece, Reference, SourceKind, Span, hash,
};
use std::time::{Duration, Instant};

/// Opens a file and reads and checks all of it, on this thread: the cases are many.
fn test(file: Vec<u8>) -> Result<()> {
    test_on(file, &BaseSet::default())
}

/// The same for a file on bases.
fn test_on(file: Vec<u8>, bases: &BaseSet) -> Result<()> {
    decompress_to_vec(&Archive::from_bytes_on(file, bases)?, &Context::with_threads(1)).map(drop)
}

/// All golden files, with the bases they need.
fn all_golden() -> Vec<(String, Vec<u8>, BaseSet)> {
    let plain = golden().into_iter().map(|(name, file)| (name, file, BaseSet::default()));
    let deltas = golden_deltas().into_iter().map(|delta| {
        let given: Vec<(&str, &[u8])> = delta.bases.iter().map(|(n, b)| (*n, &b[..])).collect();
        let file = std::fs::read(golden_path(delta.name)).expect("a golden file");
        (delta.name.to_string(), file, bases(&given))
    });
    plain.chain(deltas).collect()
}

/// Every bit of every golden file counts.
#[test]
fn bit_flips_are_found() {
    for (name, file, bases) in all_golden() {
        test_on(file.clone(), &bases).expect("a whole file");
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = test_on(damaged, &bases).expect_err("damage");
            let kinds = [ErrorKind::Corrupt, ErrorKind::Truncated];
            assert!(kinds.contains(&error.kind), "{name}, bit {bit}: {error}");
        }
    }
}

/// Every proper prefix of every golden file is refused, and so is a longer file.
#[test]
fn truncations_are_found() {
    for (name, file, bases) in all_golden() {
        for len in 0..file.len() {
            let error = test_on(file[..len].to_vec(), &bases).expect_err("a cut file");
            let kinds = [ErrorKind::Corrupt, ErrorKind::Truncated];
            assert!(kinds.contains(&error.kind), "{name}, {len} bytes: {error}");
        }
        let longer = [&file[..], &[0]].concat();
        assert!(test(longer).is_err(), "{name} with a byte more");
    }
}

/// A later version is refused by its name, damage in the version is damage.
#[test]
fn later_versions_are_named() {
    let (_, mut file) = golden().remove(0);
    file[8] = 2;
    let error = test(file.clone()).expect_err("a wrong checksum");
    assert_eq!(error.kind, ErrorKind::Corrupt);
    let end = file.len();
    let own = hash(&[&file[..16], &file[end - 64..end - 24]].concat());
    file[end - 24..end - 8].copy_from_slice(&own.to_le_bytes());
    let error = test(file).expect_err("a later version");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 2"), "{error}");
}

/// A file of these parts with right checksums of its own.
fn file(body: &[u8], index: &[u8], original_len: u64) -> Vec<u8> {
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(index),
        original_len,
    };
    [&lmc_format::file::header()[..], body, index, &footer.write()].concat()
}

/// Lengths that are not there, in the footer and in the index.
#[test]
fn lying_lengths_are_refused() {
    let piece = |len| Piece { len, hash: 0 };
    let span = |raw_len, block_log2, blocks: Vec<Piece>| Span {
        raw_len,
        dtype: lmc_format::Dtype::Bytes.id(),
        block_log2,
        reference: None,
        recipe: None,
        blocks,
    };
    let item = |len| Item { len, hash: 0 };
    let index = |spans, items| {
        Index { kind: SourceKind::Bytes, bases: vec![], spans, items, ..Index::default() }.write()
    };
    for (index, original_len) in [
        (index(vec![], vec![item(1 << 63)]), 1 << 63),
        (index(vec![], vec![item(u64::MAX), item(1)]), 0),
        (index(vec![span(1 << 31, 24, vec![piece(1)])], vec![item(1 << 31)]), 1 << 31),
        (index(vec![span(1 << 24, 10, vec![piece(1)])], vec![item(1 << 24)]), 1 << 24),
        (index(vec![span(9, 24, vec![piece(1 << 40)])], vec![item(9)]), 9),
        (index(vec![span(9, 24, vec![piece(u64::MAX)]); 3], vec![item(27)]), 27),
        (vec![0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 0),
        (vec![0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f], 0),
    ] {
        let start = Instant::now();
        test(file(b"", &index, original_len)).expect_err("a lie");
        assert!(start.elapsed() < Duration::from_secs(1));
    }
    for (body_len, index_len) in [(1 << 31, 0), (u64::MAX, u64::MAX), (0, 1 << 63)] {
        let footer = Footer { body_len, index_len, index_hash: 0, original_len: 0 };
        let bytes = [&lmc_format::file::header()[..], &footer.write()].concat();
        assert_eq!(test(bytes).expect_err("a lie").kind, ErrorKind::Corrupt);
    }
}

/// Two files that are each on the other, or one that is on itself, are refused and not gone round.
#[test]
fn circles_are_refused() {
    let make = |own: u128, other: u128| {
        let block = [4, 9];
        let span = Span {
            raw_len: 9,
            dtype: lmc_format::Dtype::Bytes.id(),
            block_log2: 10,
            reference: Some(Reference { source: 1, start: 0, conversion: Conversion::None }),
            recipe: None,
            blocks: vec![Piece { len: 2, hash: hash(&block) }],
        };
        let base = BaseId { hash: hash(&other.to_le_bytes()), len: 9, name: "other".to_string() };
        let items = vec![Item { len: 9, hash: own }];
        let index = Index {
            kind: SourceKind::Bytes,
            bases: vec![base],
            spans: vec![span],
            items,
            ..Index::default()
        };
        file(&block, &index.write(), 9)
    };
    for (one, other) in [(make(1, 2), make(2, 1)), (make(1, 1), make(1, 1))] {
        let given = bases(&[("one", &one), ("other", &other)]);
        let archive = Archive::from_bytes_on(one, &given).expect("an index");
        assert!(archive.read(0..9).is_err());
        assert!(archive.test(&Context::with_threads(1)).is_err());
        let error = decompress_to_vec(&archive, &Context::with_threads(1)).expect_err("a circle");
        let kinds = [ErrorKind::LimitExceeded, ErrorKind::NotFound];
        assert!(kinds.contains(&error.kind), "{error}");
    }
}

/// A block that needs a base in a span without a reference is damage.
#[test]
fn blocks_without_their_base_are_refused() {
    let block = [4, 9];
    let span = Span {
        raw_len: 9,
        dtype: lmc_format::Dtype::Bytes.id(),
        block_log2: 10,
        reference: None,
        recipe: None,
        blocks: vec![Piece { len: 2, hash: hash(&block) }],
    };
    let items = vec![Item { len: 9, hash: hash(&[0; 9]) }];
    let index = Index {
        kind: SourceKind::Bytes,
        bases: vec![],
        spans: vec![span],
        items,
        ..Index::default()
    };
    let error = test(file(&block, &index.write(), 9)).expect_err("no base");
    assert_eq!(error.kind, ErrorKind::Corrupt);
}

/// Blocks of one file in another of the same lengths do not pass.
#[test]
fn swapped_blocks_are_found() {
    let make = |seed| {
        let noise = lmc_testkit::data::Random::new(seed).bytes(600_000);
        common::compress(&noise, lmc::Level::Default, 1)
    };
    let (one, other) = (make(1), make(2));
    Archive::from_bytes(one.clone())
        .and_then(|a| a.test(&Context::with_threads(2)))
        .expect("a whole file");
    assert_eq!(one.len(), other.len());
    let mut mixed = one.clone();
    mixed[16..1000].copy_from_slice(&other[16..1000]);
    let mixed = Archive::from_bytes(mixed).expect("an index");
    assert!(mixed.test(&Context::with_threads(2)).is_err());
    let blocks = Archive::from_bytes(one.clone()).expect("valid");
    let blocks = blocks.spans().next().expect("a span").expect("an index").blocks;
    let (a, b) = (&blocks[0], &blocks[1]);
    assert_eq!(a.coded_len, b.coded_len);
    let mut swapped = one.clone();
    let range =
        |block: &lmc::BlockInfo| block.offset as usize..(block.offset + block.coded_len) as usize;
    swapped[range(a)].copy_from_slice(&one[range(b)]);
    swapped[range(b)].copy_from_slice(&one[range(a)]);
    assert!(test(swapped).is_err());
}
