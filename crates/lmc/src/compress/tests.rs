//! Every archive can be restored, whatever happens to the files while they are compressed.

use super::*;
use crate::{Archive, Context, ReadAt, memory};
use lmc_format::{ErrorKind, Item, SourceKind};
use lmc_testkit::casts;
use lmc_testkit::data::{self, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A file that somebody writes to without changing any time stamp: its bytes change at a place as
/// soon as all bytes of a range have been read in one call.
#[derive(Debug)]
struct Written {
    bytes: Vec<u8>,
    place: usize,
    at_read_of: Range<usize>,
    has_changed: AtomicBool,
    reads: AtomicUsize,
}

impl Written {
    fn new(bytes: Vec<u8>, place: usize, at_read_of: Range<usize>) -> Arc<Self> {
        let (has_changed, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
        Arc::new(Self { bytes, place, at_read_of, has_changed, reads })
    }
}

impl ReadAt for Written {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let range = at as usize..at as usize + out.len();
        out.copy_from_slice(&self.bytes[range.clone()]);
        if range.contains(&self.place) && self.has_changed.load(Ordering::SeqCst) {
            out[self.place - range.start] ^= 1;
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
        if range.start <= self.at_read_of.start && self.at_read_of.end <= range.end {
            self.has_changed.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A safetensors file of tensors, each given by name, type and bytes; returns it with the position
/// of each.
fn safetensors(tensors: &[(&str, &str, &[u8])]) -> (Vec<u8>, Vec<Range<usize>>) {
    let (mut entries, mut end) = (Vec::new(), 0);
    let mut ranges = Vec::new();
    for (name, dtype, bytes) in tensors {
        let start = end;
        end += bytes.len();
        let count = bytes.len() / if *dtype == "F32" { 4 } else { 2 };
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":[{count}],"data_offsets":[{start},{end}]}}"#
        ));
        ranges.push(start..end);
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    let first = file.len();
    tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes));
    let ranges = ranges.into_iter().map(|r| r.start + first..r.end + first).collect();
    (file, ranges)
}

fn bf16(floats: &[u8]) -> Vec<u8> {
    let (words, _) = floats.as_chunks();
    let cast = |&word| casts::bf16_bits(f32::from_le_bytes(word)).to_le_bytes();
    words.iter().flat_map(cast).collect()
}

/// Compresses to a stream and to memory; each gives an archive that can be restored, or a conflict.
fn check(make: impl Fn() -> (Arc<Written>, Options, ByteSource<'static>), is_conflict: bool) {
    for to_memory in [false, true] {
        for verify in [false, true] {
            let (written, options, source) = make();
            let options = Options { verify, context: Context::with_threads(1), ..options };
            let coded = if to_memory {
                memory::compress_source(&source, &options, Vec::new(), &mut [])
                    .map(|(_, parts)| parts.concat())
            } else {
                let mut out = Vec::new();
                compress_source(&source, Output::Stream(&mut out), &options).map(|_| out)
            };
            let reads = written.reads.load(Ordering::SeqCst);
            match coded {
                Err(error) => assert_eq!(error.kind, ErrorKind::Conflict, "{error}"),
                Ok(coded) => {
                    assert!(!is_conflict, "{reads} reads of changed bytes gave a file");
                    let archive = Archive::from_bytes_on(coded, &options.bases).unwrap();
                    archive.test(&Context::with_threads(1)).unwrap();
                }
            }
            assert!(!is_conflict || reads > 0, "the bytes never changed");
        }
    }
}

/// A tensor that is tied to an earlier one of its file, or is the rounding of one, refers to it. If
/// the earlier one is written to after it is coded and before it is read as a base, no archive is
/// made.
#[test]
fn what_a_span_refers_to_is_what_was_stored() {
    let floats = data::words(Kind::Weights, 4, true, 60_000, 1);
    let rounded = bf16(&floats);
    for (dtype, later) in [("F32", &floats), ("BF16", &rounded)] {
        let (file, places) = safetensors(&[("w", "F32", &floats), ("ema.w", dtype, later)]);
        for place in [0, 70_001, 239_999] {
            let place = places[0].start + place;
            check(
                || {
                    let written = Written::new(file.clone(), place, places[0].clone());
                    let source = ByteSource::Elsewhere(written.clone());
                    (written, Options::default(), source)
                },
                true,
            );
        }
    }
}

/// The same where the bytes change after they were looked at and before they are coded.
#[test]
fn what_was_looked_at_is_what_is_stored() {
    let floats = data::words(Kind::Weights, 4, true, 60_000, 2);
    let (file, places) = safetensors(&[("a", "F32", &floats), ("b", "F32", &floats)]);
    let header = 0..places[0].start;
    // Changed within a name, so that the header is valid before and after.
    let name = file.windows(3).position(|w| w == b"\"a\"").unwrap() + 1;
    check(
        || {
            let written = Written::new(file.clone(), name, header.clone());
            let source = ByteSource::Elsewhere(written.clone());
            (written, Options::default(), source)
        },
        true,
    );
}

/// A raw base is identified by a hash of its content. If it is written to between the hashing and
/// the reading, whichever comes first, no archive is made.
#[test]
fn a_raw_base_is_what_its_hash_is_of() {
    let old = data::words(Kind::Weights, 4, true, 60_000, 3);
    let mut new = old.clone();
    new.iter_mut().step_by(4000).for_each(|byte| *byte ^= 1);
    let (old, places) = safetensors(&[("a", "F32", &old)]);
    for (dtype, new) in [("F32", new.clone()), ("BF16", bf16(&new))] {
        let (new, _) = safetensors(&[("a", dtype, &new)]);
        for place in [0, 70_001, 239_999] {
            // Its second half, which is read both to code against it and to hash it.
            let half = places[0].start + 131_072..places[0].start + 196_608;
            check(
                || {
                    let place = places[0].start + place;
                    let written = Written::new(old.clone(), place, half.clone());
                    let base: Arc<dyn ReadAt> = written.clone();
                    let bases = BaseSet::from_elsewhere(
                        vec![("old".to_string(), base)],
                        &Context::with_threads(1),
                    );
                    let options = Options { bases: bases.unwrap(), ..Options::default() };
                    (written, options, ByteSource::Owned(new.clone()))
                },
                true,
            );
        }
    }
}

/// A restore reads the bytes of a raw base that its hash was computed from, or fails with a
/// conflict.
#[test]
fn a_raw_base_that_changes_while_it_is_restored_from_is_a_conflict() {
    let old = data::words(Kind::Weights, 2, true, 100_000, 4);
    let mut new = old.clone();
    new.iter_mut().step_by(4000).for_each(|byte| *byte ^= 1);
    let given =
        BaseSet::from_bytes(vec![("old".to_string(), old.clone())], &Context::with_threads(1))
            .unwrap();
    let options = Options { bases: given, context: Context::with_threads(1), ..Options::default() };
    let mut coded = Vec::new();
    compress_source(&ByteSource::Owned(new), Output::Stream(&mut coded), &options).unwrap();
    let written = Written::new(old, 77_777, 0..200_000);
    let base: Arc<dyn ReadAt> = written.clone();
    let bases = BaseSet::from_elsewhere(vec![("old".to_string(), base)], &Context::with_threads(1))
        .unwrap();
    let archive = Archive::from_bytes_on(coded, &bases).unwrap();
    let error = archive.test(&Context::with_threads(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
}

/// An index that exceeds a limit of the reader is an error before it is written.
#[test]
fn nothing_is_written_that_cannot_be_read() {
    let check = |count: u64| {
        let base = |i| lmc_format::BaseId { hash: i, len: 1, name: "old".to_string() };
        let bases = (0..u128::from(count)).map(base).collect();
        let items = vec![Item { len: 0, hash: hash(&[]) }];
        let index =
            Index { kind: SourceKind::Bytes, bases, spans: Vec::new(), items, ..Index::default() };
        let bytes = index.write();
        let (index_len, index_hash) = (bytes.len() as u64, hash(&bytes));
        check_readable(&bytes, &Footer { body_len: 0, index_len, index_hash, original_len: 0 })
    };
    check(BASES_MAX).unwrap();
    let error = check(BASES_MAX + 1).unwrap_err();
    assert!(error.to_string().contains("nothing could read it"), "{error}");
}
