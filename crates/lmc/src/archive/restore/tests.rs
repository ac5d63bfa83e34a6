//! Tests of the limits on the cost of a restore, and of actual costs.

use super::*;
use crate::{BaseSet, Context, Dependencies, Dtype, FileId, FileState, Input, Level, Options};
use lmc_format::hash::hash_of_hashes;
use lmc_format::{
    ApartCoder, BaseId, BaseUse, BlockKind, BlockPrefix, Coder, Columns, Conversion, ErrorKind,
    Footer, HuffmanTable, Index, Piece, Recipe, Reference, SourceKind, Span, WordMap, file,
};
use lmc_testkit::data::{self, Kind, Random};
use std::fs::File;
use std::path::Path;

mod costs;

/// Bytes of a segment in the blocks below: the largest that the format allows.
const SEGMENT_LEN: u64 = 2 << 20;

/// A recipe with segments of 2^10 values and the same coder for all planes.
fn recipe(width_log2: u8, coder: Coder) -> Recipe {
    Recipe {
        width_log2,
        base: BaseUse::None,
        map: WordMap::None,
        symbol_bits: 8,
        segment_log2: 10,
        bias: 0,
        flags: None,
        planes: vec![coder; 1 << width_log2],
        columns: None,
    }
}

fn written(recipe: Recipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    bytes
}

fn piece(bytes: &[u8]) -> Piece {
    Piece { len: bytes.len() as u64, hash: hash(bytes) }
}

/// A block of 4 MiB of zeros in a few bytes: two segments of planes that are constant.
fn zeros() -> Vec<u8> {
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Coded, raw_len: 1 << 22 }.write(&mut block);
    let recipe = Recipe { segment_log2: 18, ..recipe(3, Coder::Constant(0)) };
    recipe.write(&mut block);
    block.extend_from_slice(&[0; 2 * 3]);
    block
}

/// A file of such blocks, followed by one span of one byte for each reference.
fn hostile(blocks: usize, references: &[Reference], bases: Vec<BaseId>) -> Vec<u8> {
    let (mut body, mut spans, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    let zeros_hash = hash(&vec![0; 1 << 22]);
    let mut add = |raw_len, block: &[u8], reference, raw_hash| {
        body.extend_from_slice(block);
        let blocks = vec![piece(block)];
        let recipe = None;
        spans.push(Span {
            raw_len,
            dtype: Dtype::Bytes.id(),
            block_log2: 24,
            reference,
            recipe,
            blocks,
        });
        hashes.push(raw_hash);
    };
    (0..blocks).for_each(|_| add(1 << 22, &zeros(), None, zeros_hash));
    references.iter().for_each(|&reference| add(1, &[4, 1], Some(reference), hash(&[0])));
    assemble(&body, spans, &hashes, bases)
}

/// A file of these spans. `hashes` are the checksums of their originals.
fn assemble(body: &[u8], spans: Vec<Span>, hashes: &[Hash], bases: Vec<BaseId>) -> Vec<u8> {
    let original_len = spans.iter().map(|span| span.raw_len).sum();
    let item_hash = if hashes.len() == 1 { hashes[0] } else { hash_of_hashes(hashes) };
    let items = vec![Item { len: original_len, hash: item_hash }];
    let index = Index { kind: SourceKind::Bytes, bases, spans, items, ..Index::default() }.write();
    let footer = Footer {
        body_len: body.len() as u64,
        index_len: index.len() as u64,
        index_hash: hash(&index),
        original_len,
    };
    [&file::header()[..], body, &index, &footer.write()].concat()
}

/// References to one byte of each segment of `blocks` blocks, in a cycle. If there are more
/// segments than can be kept, keeping them does not help.
fn round(count: u64, source: u64, blocks: u64) -> Vec<Reference> {
    let segments = blocks * (1 << 22) / SEGMENT_LEN;
    let reference = |i: u64| Reference {
        source,
        start: i % segments * SEGMENT_LEN + i % SEGMENT_LEN,
        conversion: Conversion::None,
    };
    (0..count).map(reference).collect()
}

/// Restores a file that would decode gigabytes; fails unless the restore stops at its limit.
fn check_ends(archive: &Archive) {
    for threads in [1, 4] {
        let budget = archive.budget(&Context::default());
        let error =
            restore_within(&budget, archive, None, &Context::with_threads(threads)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::LimitExceeded, "{error}");
        // Refused work was not decoded.
        let refused = 2 * SEGMENT_LEN * threads as u64;
        assert!(budget.spent() <= budget.most() + refused, "{}", budget.spent());
    }
    // A read of a part is allowed no more than a read of everything.
    let range = archive.original_len() - 2000..archive.original_len();
    assert_eq!(archive.read(range).unwrap_err().kind, ErrorKind::LimitExceeded);
}

/// A file of a few KB, in which each span of one byte asks for a different segment, is refused
/// after decoding a small multiple of its original.
#[test]
fn what_a_file_makes_decoders_write_is_bounded() {
    let file = hostile(24, &round(3000, 0, 24), Vec::new());
    assert!(file.len() < 200_000);
    check_ends(&Archive::from_bytes(file).unwrap());
}

/// The same for a file with a base of a few bytes.
#[test]
fn what_a_base_makes_decoders_write_is_bounded() {
    let base = hostile(24, &[], Vec::new());
    assert!(base.len() < 3000);
    let archive = Archive::from_bytes(base.clone()).unwrap();
    let (hash, len) = (archive.content_hash(), archive.original_len());
    let named = BaseId { hash, len, name: "base".to_string() };
    let file = hostile(0, &round(3000, 1, 24), vec![named]);
    let bases =
        BaseSet::from_bytes(vec![("base".to_string(), base)], &Context::with_threads(1)).unwrap();
    check_ends(&Archive::from_bytes_on(file, &bases).unwrap());
}

/// A segment that was decoded for one byte is kept for others.
#[test]
fn a_segment_is_decoded_once_for_all_that_refer_to_it() {
    let archive = Archive::from_bytes(hostile(4, &round(900, 0, 4), Vec::new())).unwrap();
    let budget = archive.budget(&Context::default());
    restore_within(&budget, &archive, None, &Context::with_threads(1)).unwrap();
    // The blocks count once for themselves and once for the spans after them.
    let spent = budget.spent();
    assert!((2 << 24..(2 << 24) + 500_000).contains(&spent), "{spent}");
}

/// A recipe of a few bytes that makes a million column offsets is charged for them, however often
/// and for however little it is read.
#[test]
fn columns_of_recipes_count() {
    let columns = Columns { count: 1 << 20, base: 0, coder: Coder::Constant(0) };
    let recipe = written(Recipe { columns: Some(columns), ..recipe(0, Coder::Constant(0)) });
    // Four values in the first columns: no bytes in a segment, and one row.
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Shared, raw_len: 4 }.write(&mut block);
    block.extend_from_slice(&[0, 0, 0, 0]);
    Coder::Constant(0).write(&mut block);
    let (recipe_piece, blocks) = (Some(piece(&recipe)), vec![piece(&block)]);
    let (dtype, block_log2) = (Dtype::Bytes.id(), 24);
    let span =
        Span { raw_len: 4, dtype, block_log2, reference: None, recipe: recipe_piece, blocks };
    let file = |count: usize| {
        let body = [&recipe[..], &block].concat().repeat(count);
        assemble(&body, vec![span.clone(); count], &vec![hash(&[0; 4]); count], Vec::new())
    };
    let good = Archive::from_bytes(file(50)).unwrap();
    let budget = good.budget(&Context::default());
    restore_within(&budget, &good, None, &Context::with_threads(1)).unwrap();
    assert!((50 << 20..51 << 20).contains(&budget.spent()), "{}", budget.spent());
    let bad = Archive::from_bytes(file(70)).unwrap();
    assert_eq!(bad.test(&Context::with_threads(2)).unwrap_err().kind, ErrorKind::LimitExceeded);
}

/// A file of one byte whose span has a recipe with 64 tables in few bytes.
fn tables() -> Vec<u8> {
    let mut lengths = [0; 256];
    (lengths[0], lengths[1]) = (1, 1);
    let mut coder = Coder::Huffman(Box::new(HuffmanTable::new(lengths).unwrap()));
    for _ in 0..3 {
        let (flags, others) = (coder.clone(), coder);
        coder = Coder::Apart(Box::new(ApartCoder { byte: 0, flags, others }));
    }
    let recipe = written(recipe(3, coder));
    let mut block = Vec::new();
    BlockPrefix { kind: BlockKind::Shared, raw_len: 1 }.write(&mut block);
    block.push(0);
    let (reference, recipe_piece) = (None, Some(piece(&recipe)));
    let blocks = vec![piece(&block)];
    let span = Span {
        raw_len: 1,
        dtype: Dtype::Bytes.id(),
        block_log2: 24,
        reference,
        recipe: recipe_piece,
        blocks,
    };
    assemble(&[&recipe[..], &block].concat(), vec![span], &[hash(&[0])], Vec::new())
}

const FIRST_BYTE: Reference = Reference { source: 1, start: 0, conversion: Conversion::None };

/// A base chain in which each file is one byte longer than the one before and consists only of the
/// first byte of that one, repeated.
fn chain(first: Vec<u8>, count: usize) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("0".to_string(), first)];
    for i in 1..count {
        let bases = vec![named(&files[i - 1])];
        files.push((i.to_string(), hostile(0, &vec![FIRST_BYTE; i + 1], bases)));
    }
    files
}

fn named((name, file): &(String, Vec<u8>)) -> BaseId {
    let archive = Archive::from_bytes(file.clone()).unwrap();
    BaseId { hash: archive.content_hash(), len: archive.original_len(), name: name.clone() }
}

/// Building the tables of a recipe is charged, however often and for however little it happens: in
/// a restore, and when something is coded against such a file.
#[test]
fn tables_of_recipes_count() {
    let base = ("base".to_string(), tables());
    assert!(base.1.len() < 1000);
    let file = hostile(0, &vec![FIRST_BYTE; 2000], vec![named(&base)]);
    let bases = BaseSet::from_bytes(vec![base], &Context::with_threads(1)).unwrap();
    check_ends(&Archive::from_bytes_on(file, &bases).unwrap());
    let mut reads = (0..2000).map(|_| bases.list()[0].read_alone(0, &mut [0]));
    let refused = reads.find_map(Result::err).unwrap();
    assert_eq!(refused.kind, ErrorKind::LimitExceeded, "{refused}");
}

/// Looks into files are charged too, in a base chain where each file equals its base.
#[test]
fn looks_count() {
    let first = compressed(&[0], &BaseSet::default(), Level::Default);
    let files = chain(first, 60);
    let file = hostile(0, &vec![FIRST_BYTE; 500], vec![named(&files[59])]);
    let archive = Archive::from_bytes_on(
        file,
        &BaseSet::from_bytes(files, &Context::with_threads(1)).unwrap(),
    )
    .unwrap();
    let budget = archive.budget(&Context::default());
    restore_within(&budget, &archive, None, &Context::with_threads(2)).unwrap();
    assert!(budget.spent() >= 500 * 60 * 4096, "{}", budget.spent());
}

fn compressed(original: &[u8], bases: &BaseSet, level: Level) -> Vec<u8> {
    let options = Options {
        level,
        context: Context::with_threads(1),
        bases: bases.clone(),
        ..Options::default()
    };
    let mut out = Vec::new();
    crate::compress(Input::Bytes(original), Output::Stream(&mut out), &options).unwrap();
    out
}

/// A safetensors file of f32 tensors: names, rows of 256 and bytes.
fn safetensors(tensors: &[(String, &[u8])]) -> Vec<u8> {
    let typed_as = |(name, bytes): &(String, _)| (name.clone(), "F32", *bytes);
    typed(&tensors.iter().map(typed_as).collect::<Vec<_>>())
}

/// The same for tensors of f32 or of two-byte types.
fn typed(tensors: &[(String, &str, impl AsRef<[u8]>)]) -> Vec<u8> {
    let (mut entries, mut end) = (Vec::new(), 0);
    for (name, dtype, bytes) in tensors {
        let bytes = bytes.as_ref();
        let width = if *dtype == "F32" { 4 } else { 2 };
        let (start, rows) = (end, bytes.len() / (256 * width));
        end += bytes.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":[{rows},256],"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes.as_ref()));
    file
}

fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    (1..count).for_each(|i| order.swap(i, random.below(i + 1)));
    order
}

/// Thousands of small tensors that a base has in another order can be restored for little more than
/// the bytes of both.
#[test]
fn small_tensors_in_another_order_are_cheap() {
    let rows = data::words(Kind::Weights, 4, true, 3000 * 256, 1);
    let tensor = |i: usize| (format!("t{i}"), &rows[i * 1024..(i + 1) * 1024]);
    let old = safetensors(&(0..3000).map(tensor).collect::<Vec<_>>());
    let new = safetensors(&shuffled(3000, 2).into_iter().map(tensor).collect::<Vec<_>>());
    let old = compressed(&old, &BaseSet::default(), Level::Default);
    let bases =
        BaseSet::from_bytes(vec![("old".to_string(), old)], &Context::with_threads(1)).unwrap();
    let coded = compressed(&new, &bases, Level::Default);
    assert!(coded.len() < new.len() / 4, "{} bytes", coded.len());
    for threads in [1, 8] {
        let archive = Archive::from_bytes_on(coded.clone(), &bases).unwrap();
        let budget = archive.budget(&Context::default());
        restore_within(&budget, &archive, None, &Context::with_threads(threads)).unwrap();
        let most = 4 * new.len() as u64 + threads as u64 * SEGMENT_LEN;
        assert!(budget.spent() < most, "{threads} threads: {}", budget.spent());
    }
}

/// No archive is written that would cost more to restore than is allowed: where each small tensor
/// is in a different segment of a base, only as many refer to it as can be restored.
#[test]
fn what_is_compressed_can_be_restored() {
    let rows = 20_000;
    let weights = data::words(Kind::Weights, 4, true, rows * 256, 3);
    let old = safetensors(&[("w".to_string(), &weights)]);
    let old = compressed(&old, &BaseSet::default(), Level::Max);
    let part = |row: usize| {
        let name = format!("w[{row}:{},0:256]", row + 1);
        (name, &weights[row * 1024..(row + 1) * 1024])
    };
    let parts: Vec<_> = shuffled(rows, 4).into_iter().take(1500).map(part).collect();
    let new = safetensors(&parts);
    // Opened again for the restore: compressing has kept parts of the base.
    let bases = || {
        BaseSet::from_bytes(vec![("old".to_string(), old.clone())], &Context::with_threads(1))
            .unwrap()
    };
    let coded = compressed(&new, &bases(), Level::Default);
    let archive = Archive::from_bytes_on(coded, &bases()).unwrap();
    let spans = archive.spans().map(Result::unwrap);
    let on = spans.filter(|span| span.reference.is_some()).count();
    assert!((10..1500).contains(&on), "{on} spans refer to the base");
    let budget = archive.budget(&Context::default());
    restore_within(&budget, &archive, None, &Context::with_threads(1)).unwrap();
    assert!(budget.spent() > 8 << 20, "it cost {}, so it tried nothing", budget.spent());
}

/// The extra cost of threads that get in each other's way is not a reason to refuse a file: the
/// work continues where it stopped, on one thread. A file that costs too much there too is refused.
#[test]
fn work_that_costs_too_much_goes_on_alone() {
    let weights = data::words(Kind::Weights, 4, true, 1 << 20, 3);
    let coded = compressed(&weights, &BaseSet::default(), Level::Default);
    let archive = Archive::from_bytes(coded).unwrap();
    let spent = || {
        let budget = Budget::new(0, 0, &Context::default());
        budget.effort().decode(budget.most() - (1 << 20)).unwrap();
        budget
    };
    for threads in [2, 8] {
        let budget = spent();
        let mut out = Vec::new();
        let sink = Sink::new(Output::Stream(&mut out));
        restore_within(&budget, &archive, Some(&sink), &Context::with_threads(threads)).unwrap();
        sink.finish(archive.original_len()).unwrap();
        assert!(out == weights);
    }
    let error = restore_within(&spent(), &archive, None, &Context::with_threads(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
}

/// Many threads that read different parts of a base, in no order, restore whatever one thread can.
#[test]
fn threads_do_not_make_a_file_too_dear() {
    let (window, count) = (3 << 10, 12);
    let weights = data::words(Kind::Weights, 4, true, window * count * 256, 5);
    let tensor = |i: usize| (format!("t{i}"), &weights[i * 1024..(i + 1) * 1024]);
    let old = safetensors(&(0..window * count).map(tensor).collect::<Vec<_>>());
    let old = compressed(&old, &BaseSet::default(), Level::Max);
    let of_window =
        |w: usize| shuffled(window, w as u64).into_iter().take(256).map(move |i| w * window + i);
    let new = safetensors(&(0..count).flat_map(of_window).map(tensor).collect::<Vec<_>>());
    let bases =
        BaseSet::from_bytes(vec![("old".to_string(), old)], &Context::with_threads(1)).unwrap();
    let coded = compressed(&new, &bases, Level::Default);
    assert!(coded.len() < new.len() / 2, "{} bytes", coded.len());
    for threads in [1, 16] {
        let archive = Archive::from_bytes_on(coded.clone(), &bases).unwrap();
        archive.test(&Context::with_threads(threads)).unwrap();
    }
}

/// A file may name one base many times; it is opened once.
#[test]
fn a_base_that_is_named_often_is_opened_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base"), b"12345").unwrap();
    let named = |hash| BaseId { hash, len: 5, name: "base".to_string() };
    let path = folder.path().join("file.lmc");
    std::fs::write(&path, hostile(1, &[], (1..100).map(named).collect())).unwrap();
    let archive = Archive::open(&path).unwrap();
    assert_eq!(archive.likely_bases().count(), 1);
    let id = |path: &Path| FileState::at(path).unwrap().id;
    let mut needs = Dependencies::new([]);
    needs.add_archive(id(&path), File::open(&path).unwrap(), path.parent(), &[]);
    let needed: Vec<FileId> = needs.of(id(&path)).collect();
    assert_eq!(needed, [id(&folder.path().join("base"))]);
}

/// A base is identified by its length too, even where another one with the same content hash has
/// been found.
#[test]
fn a_base_of_another_length_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base"), b"12345").unwrap();
    let hash = crate::content_hash(Input::Bytes(b"12345"), &Context::with_threads(1)).unwrap();
    let named = |len| BaseId { hash, len, name: "base".to_string() };
    let to = |source| Reference { source, start: 0, conversion: Conversion::None };
    let path = folder.path().join("file.lmc");
    std::fs::write(&path, hostile(1, &[to(1), to(2)], vec![named(5), named(1 << 40)])).unwrap();
    let error = Archive::open(&path).unwrap().test(&Context::with_threads(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("has 5 bytes"), "{error}");
}
