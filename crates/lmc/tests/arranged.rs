//! Files whose tensors are between other bytes: they are coded in another order, and come back in
//! their own.

use crate::common::{bases, compress, compress_on};
use lmc::{
    Archive, BaseSet, Context, Conversion, ErrorKind, Input, Level, Output, Reference,
    content_hash, decompress, decompress_scattered, decompress_to_vec,
};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{
    Arranged, Arrangement, BaseId, Footer, Index, Item, Piece, SourceKind, Span, hash,
};
use lmc_testkit::data::{Kind, Random, words};
use lmc_testkit::npz::{Array, npz};
use std::ops::Range;

/// Some arrays, most of them small, from a seed.
fn arrays(count: usize, seed: u64) -> Vec<Array<'static>> {
    let array = |i: usize| {
        let (rows, columns) = match i % 40 {
            7 => (300, 700),
            i => (1 + i as u64 % 5, 10 + i as u64),
        };
        let (descr, width) = if i % 3 == 1 { ("<f8", 8) } else { ("<f4", 4) };
        let bytes = words(Kind::Weights, width, true, (rows * columns) as usize, seed + i as u64);
        (format!("layer.{i}.weight"), descr, vec![rows, columns], bytes)
    };
    (0..count).map(array).collect()
}

/// The same a step later: one word in `every` has changed a little.
fn next(arrays: &[Array<'static>], every: usize) -> Vec<Array<'static>> {
    let mut random = Random::new(99);
    let mut arrays = arrays.to_vec();
    for (_, descr, _, bytes) in &mut arrays {
        let width = if *descr == "<f8" { 8 } else { 4 };
        for word in bytes.chunks_exact_mut(width) {
            if random.below(every) == 0 {
                word[0] ^= 1;
            }
        }
    }
    arrays
}

fn file() -> Vec<u8> {
    npz("a/", &arrays(120, 1), &"some text, ".repeat(500))
}

fn one() -> Context {
    Context::with_threads(1)
}

/// The content hash by the document: that of the hashes of leaves.
fn by_leaves(original: &[u8]) -> u128 {
    hash_of_hashes(&original.chunks(1 << 16).map(hash).collect::<Vec<_>>())
}

/// All ways to restore a file give it back, on any number of threads and at any level.
#[test]
fn every_way_gives_the_original() {
    let original = file();
    for level in [Level::Fast, Level::Default, Level::Max, Level::Paper] {
        let packed = compress(&original, level, 1);
        assert!(packed == compress(&original, level, 3), "{level:?}");
        let archive = Archive::from_bytes(packed).unwrap();
        assert_eq!(archive.content_hash(), by_leaves(&original));
        archive.test(&one()).unwrap();
        for threads in [1, 3] {
            let context = Context::with_threads(threads);
            assert!(decompress_to_vec(&archive, &context).unwrap() == original);
            let mut out = Vec::new();
            decompress(&archive, Output::Stream(&mut out), &context).unwrap();
            assert!(out == original);
            let file = tempfile::tempfile().unwrap();
            decompress(&archive, Output::Open(&file), &context).unwrap();
            let mut back = vec![0; original.len()];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut back, 0).unwrap();
            assert!(back == original && file.metadata().unwrap().len() == original.len() as u64);
            let mut parts = vec![0; original.len()];
            let cuts = parts.chunks_mut(70_001).collect();
            decompress_scattered(&archive, cuts, &context).unwrap();
            assert!(parts == original);
        }
    }
}

/// Any range can be read by itself, and so can every tensor.
#[test]
fn ranges_and_tensors() {
    let (original, arrays) = (file(), arrays(120, 1));
    let archive = Archive::from_bytes(compress(&original, Level::Default, 1)).unwrap();
    let mut random = Random::new(5);
    let len = original.len();
    for i in 0..300 {
        let start = random.below(len);
        let most = if i % 10 == 0 { len } else { 5000 };
        let end = start + random.below(most.min(len - start) + 1);
        let range = start as u64..end as u64;
        assert!(archive.read(range.clone()).unwrap() == original[start..end], "{range:?}");
        let mut out = vec![0; end - start];
        archive.read_to(range.start, &mut out, &Context::with_threads(2)).unwrap();
        assert!(out == original[start..end], "{range:?}");
    }
    let tensors = archive.tensors().unwrap();
    assert_eq!(tensors.len(), arrays.len());
    for (tensor, (name, _, shape, bytes)) in tensors.iter().zip(&arrays) {
        assert_eq!((&tensor.name, &tensor.shape), (&format!("a/{name}"), shape));
        assert!(tensor.hash == Some(hash(bytes)) || bytes.len() > 1 << 20);
        assert!(archive.read_tensor(tensor).unwrap() == *bytes, "{name}");
        let Range { start, end } = tensor.range;
        assert!(original[start as usize..end as usize] == *bytes, "{name}");
    }
}

/// The content hash is that of the file, whatever holds it.
#[test]
fn hashes_are_of_the_bytes() {
    let random = Random::new(3).bytes(200_000);
    for original in [file(), Vec::new(), b"text".to_vec(), random, vec![0; 65_536]] {
        let archive = Archive::from_bytes(compress(&original, Level::Fast, 1)).unwrap();
        assert_eq!(archive.content_hash(), by_leaves(&original));
        assert_eq!(content_hash(Input::Bytes(&original), &one()).unwrap(), by_leaves(&original));
    }
}

/// A later step is small on an earlier one, compressed or not, whatever has moved: there are arrays
/// that came or went, and a longer text. Either form of the base restores it.
#[test]
fn moved_tensors_are_found() {
    let first = arrays(120, 1);
    let old = npz("a/", &first, &"some text, ".repeat(500));
    let mut changed = next(&first, 50);
    changed.remove(3);
    changed.insert(60, arrays(200, 9).remove(150));
    let new = npz("a/", &changed, &"some text, ".repeat(700));
    let packed = compress(&old, Level::Default, 1);
    let alone = compress(&new, Level::Default, 1).len();
    let on = compress_on(&new, &bases(&[("old", &old)]), Level::Default, 1);
    assert!(on == compress_on(&new, &bases(&[("old", &packed)]), Level::Default, 3));
    assert!(on.len() < alone / 5, "{} of {alone}", on.len());
    for base in [&old, &packed] {
        let given = bases(&[("old", base)]);
        let archive = Archive::from_bytes_on(on.clone(), &given).unwrap();
        assert!(decompress_to_vec(&archive, &one()).unwrap() == new);
        assert!(archive.read(1000..50_000).unwrap() == new[1000..50_000]);
        let tensors = archive.tensors().unwrap();
        let small = tensors.iter().filter(|own| own.range.end - own.range.start < 5000);
        assert!(small.filter(|own| own.reference.is_some()).count() > 90);
    }
}

/// An archive with this body and index.
fn assemble(body: &[u8], index: &Index, original_len: u64) -> Vec<u8> {
    let index = index.write();
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len,
    };
    [&lmc_format::file::header()[..], body, &index, &footer.write()].concat()
}

/// A span that equals the bytes of its base from `start` on, and its only block.
fn same(raw_len: u64, start: u64) -> (Span, Vec<u8>) {
    let mut block = vec![4];
    lmc_format::varint::write(&mut block, raw_len);
    let span = Span {
        raw_len,
        dtype: lmc_format::Dtype::Bytes.id(),
        block_log2: 24,
        reference: Some(Reference { source: 1, start, conversion: Conversion::None }),
        recipe: None,
        blocks: vec![Piece { len: block.len() as u64, hash: hash(&block) }],
    };
    (span, block)
}

/// An archive of `original`, which is its base, in an order that nobody would choose.
fn in_order(original: &[u8], name: &str, stretches: &[(u64, u64)]) -> Vec<u8> {
    let len = original.len() as u64;
    let order = Arrangement::new(len, stretches.iter().copied()).unwrap();
    let arranged: Vec<u8> = order
        .pieces(0..len)
        .flat_map(|piece| original[piece.start as usize..piece.end as usize].to_vec())
        .collect();
    let lens = std::iter::once(order.first_len()).chain(stretches.iter().map(|(_, len)| *len));
    let (mut body, mut spans, mut items, mut at) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for raw_len in lens {
        items.push(Item { len: raw_len, hash: hash(&arranged[at as usize..][..raw_len as usize]) });
        if raw_len > 0 {
            let (span, block) = same(raw_len, at);
            spans.push(span);
            body.extend(block);
        }
        at += raw_len;
    }
    let content_hash = by_leaves(original);
    let index = Index {
        kind: SourceKind::Arranged,
        bases: vec![BaseId { hash: content_hash, len, name: name.to_string() }],
        base_orders: vec![order.clone()],
        spans,
        items,
        arranged: Some(Arranged { content_hash, order }),
    };
    assemble(&body, &index, len)
}

/// A base is read in the order that the archive says, even if the base itself is coded in another.
#[test]
fn bases_in_another_order() {
    let original = file();
    let len = original.len() as u64;
    let packed = compress(&original, Level::Default, 1);
    for stretches in [
        &[(0, len)][..],
        &[(5, 70_000), (0, 1), (100_000, len - 170_006)],
        &[(len - 1, 1)],
        &[(9, 1), (9, 1), (1, len - 30), (0, 1)],
    ] {
        let archive = in_order(&original, "old", stretches);
        for base in [&original, &packed] {
            let archive =
                Archive::from_bytes_on(archive.clone(), &bases(&[("old", base)])).unwrap();
            assert!(decompress_to_vec(&archive, &one()).unwrap() == original, "{stretches:?}");
            archive.test(&one()).unwrap();
        }
    }
}

/// A base that is not compressed is found by the content hash that earlier writers gave it.
#[test]
fn bases_of_earlier_archives() {
    let folder = tempfile::tempdir().unwrap();
    let original = file();
    let len = original.len() as u64;
    let old_hash = hash_of_hashes(&[hash(&original)]);
    assert_ne!(old_hash, by_leaves(&original));
    let (span, block) = same(len, 0);
    let index = Index {
        bases: vec![BaseId { hash: old_hash, len, name: "old".to_string() }],
        spans: vec![span],
        items: vec![Item { len, hash: hash(&original) }],
        ..Index::default()
    };
    let archive = assemble(&block, &index, len);
    std::fs::write(folder.path().join("new.lmc"), archive).unwrap();
    std::fs::write(folder.path().join("old"), &original).unwrap();
    let archive = Archive::open(&folder.path().join("new.lmc")).unwrap();
    assert!(decompress_to_vec(&archive, &one()).unwrap() == original);
    // It is recognised as what it is now: arrays have names.
    assert_eq!(archive.tensors().unwrap().len(), 120);
    // A later delta can be against such an archive.
    let set = BaseSet::open(&[folder.path().join("new.lmc")], &one()).unwrap();
    let again = compress_on(&original, &set, Level::Default, 1);
    let archive = Archive::from_bytes_on(again, &set).unwrap();
    assert!(decompress_to_vec(&archive, &one()).unwrap() == original);
}

/// A content hash that is not that of the original is found, though all pieces are right.
#[test]
fn a_wrong_content_hash_is_found() {
    let original = file();
    let mut archive = compress(&original, Level::Default, 1);
    let footer = archive.len() - 64;
    let index_len =
        u64::from_le_bytes(archive[footer + 8..footer + 16].try_into().unwrap()) as usize;
    let start = footer - index_len;
    // After the kind.
    archive[start + 1] ^= 1;
    let index_hash = hash(&archive[start..footer]);
    archive[footer + 16..footer + 32].copy_from_slice(&index_hash.to_le_bytes());
    let footer_hash = hash(&[&archive[..16], &archive[footer..footer + 40]].concat());
    archive[footer + 40..footer + 56].copy_from_slice(&footer_hash.to_le_bytes());
    let archive = Archive::from_bytes(archive).unwrap();
    for error in [
        archive.test(&one()).unwrap_err(),
        decompress_to_vec(&archive, &one()).unwrap_err(),
        decompress(&archive, Output::Stream(&mut Vec::new()), &one()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("the original is damaged"), "{error}");
    }
}

/// Weights of f32 that come after the bf16 that were rounded from them need their low halves only.
#[test]
fn masters_after_their_roundings() {
    let masters = words(Kind::Weights, 4, true, 400_000, 3);
    let rounded: Vec<u8> = masters
        .as_chunks()
        .0
        .iter()
        .flat_map(|&word| {
            let word = u32::from_le_bytes(word);
            ((word + 0x7fff + (word >> 16 & 1)) >> 16).to_le_bytes()[..2].to_vec()
        })
        .collect();
    let parts = [
        ("a.weight".to_string(), "BF16", vec![400, 1000], rounded),
        ("b.weight".to_string(), "F32", vec![400, 1000], masters),
    ];
    let original = crate::common::safetensors(&parts, "");
    let archive = Archive::from_bytes(compress(&original, Level::Default, 1)).unwrap();
    let tensors = archive.tensors().unwrap();
    let reference = tensors[1].reference.unwrap();
    assert_eq!((reference.source, reference.conversion), (0, Conversion::Bf16Widened));
    assert!(tensors[1].coded_len < 400_000 * 17 / 8, "{}", tensors[1].coded_len);
    assert!(decompress_to_vec(&archive, &one()).unwrap() == original);
    assert!(archive.read_tensor(&tensors[1]).unwrap() == parts[1].3);
    for start in [0, 1, 2, 3, 999_999] {
        let range = tensors[1].range.start + start..tensors[1].range.start + start + 4001;
        let expected = &original[range.start as usize..range.end as usize];
        assert!(archive.read(range).unwrap() == *expected, "{start}");
    }
}

/// A file of unknown format that has grown in front, in the middle or at its end is small on what
/// it was, and so is one that shrank.
#[test]
fn unknown_files_that_grew() {
    let values = words(Kind::Weights, 2, true, 6_000_000, 11);
    let changed = crate::common::nudged(&values, 2, 50, 12);
    let head = Random::new(13).bytes(1000);
    let old = [&head[..700], &values].concat();
    let half = changed.len() / 2;
    for new in [
        [&head[..1000], &changed].concat(),
        [&head[..333], &changed].concat(),
        [&head[..700], &changed, &head].concat(),
        [&head[..700], &changed[..half], &head, &changed[half..]].concat(),
        [&head[..700], &changed[..half]].concat(),
    ] {
        let alone = compress(&new, Level::Fast, 1).len();
        let on = compress_on(&new, &bases(&[("old", &old)]), Level::Fast, 2);
        assert!(on.len() < alone / 3, "{} of {alone}", on.len());
        let archive = Archive::from_bytes_on(on, &bases(&[("old", &old)])).unwrap();
        assert!(decompress_to_vec(&archive, &one()).unwrap() == new);
    }
}

/// Text that has grown far beyond its base is coded against what there is, also where the base has
/// nothing behind it.
#[test]
fn text_that_grew_beyond_its_base() {
    let text = |lines: usize| -> String {
        (0..lines).map(|i| format!("step {i}: loss {}\n", i * 7919 % 10_007)).collect()
    };
    let arrays = arrays(3, 1);
    let old = npz("", &arrays, &text(70_000));
    for lines in [90_000, 400_000] {
        let new = npz("", &arrays, &text(lines));
        for base in [old.clone(), compress(&old, Level::Fast, 1)] {
            let given = bases(&[("old", &base)]);
            let on = compress_on(&new, &given, Level::Fast, 1);
            assert!(on.len() < compress(&new, Level::Fast, 1).len());
            let archive = Archive::from_bytes_on(on, &given).unwrap();
            assert!(decompress_to_vec(&archive, &one()).unwrap() == new);
        }
    }
}

/// A delta that reads its base byte by byte, again and again, is refused, whether the base is
/// compressed or not.
#[test]
fn scattered_reads_are_limited() {
    let base = Random::new(7).bytes(1 << 17);
    let (base_len, part_len, parts) = (base.len() as u64, 1_u64 << 16, 8);
    let bytewise = Arrangement::new(base_len, (0..part_len).map(|_| (1, 1))).unwrap();
    let part: Vec<u8> = base.iter().skip(1).step_by(2).copied().collect();
    let (original, len) = (part.repeat(parts), parts as u64 * part_len);
    let (spans, blocks): (Vec<Span>, Vec<Vec<u8>>) =
        (0..parts).map(|_| same(part_len, bytewise.first_len())).unzip();
    let item = Item { len, hash: hash_of_hashes(&vec![hash(&part); parts]) };
    let index = Index {
        kind: SourceKind::Arranged,
        bases: vec![BaseId { hash: by_leaves(&base), len: base_len, name: "old".to_string() }],
        base_orders: vec![bytewise],
        spans,
        items: vec![Item { len: 0, hash: hash(&[]) }, item],
        arranged: Some(Arranged {
            content_hash: by_leaves(&original),
            order: Arrangement::new(len, [(0, len)]).unwrap(),
        }),
    };
    let delta = assemble(&blocks.concat(), &index, len);
    for base in [base.clone(), compress(&base, Level::Fast, 1)] {
        let archive = Archive::from_bytes_on(delta.clone(), &bases(&[("old", &base)])).unwrap();
        assert_eq!(archive.test(&one()).unwrap_err().kind, ErrorKind::LimitExceeded);
    }
}
