//! Whatever bases are offered, what is compressed can be restored, or it is an error.

mod common;

use common::{Part, bases, safetensors};
use lmc::{Archive, Bases, Input, Options, decompress_to_vec};
use lmc_testkit::data::{self, Kind};

/// Bytes in memory on bases, as they are compressed to a stream and to memory.
fn compress_both(original: &[u8], bases: &Bases) -> [lmc::Result<Vec<u8>>; 2] {
    let options = Options { bases: bases.clone(), ..Options::default() };
    let mut out = Vec::new();
    let streamed =
        lmc::compress(Input::Bytes(original), lmc::Output::Stream(&mut out), &options, &|_| ());
    let parts = lmc::compress_parts(Input::Bytes(original), &options, Vec::new());
    [streamed.map(|_| out), parts.map(|parts| parts.concat())]
}

/// More bases than a file can name: those are used that help most, and the others are not needed.
#[test]
fn more_bases_than_a_file_can_name() {
    let part = |i: usize| -> Part {
        let count = if i == 1059 { 900 } else { 300 };
        let bytes = data::words(Kind::Weights, 4, true, count, i as u64);
        (format!("t{i}"), "F32", vec![count as u64], bytes)
    };
    let tensors: Vec<Part> = (0..1060).map(part).collect();
    let files: Vec<Vec<u8>> =
        tensors.iter().map(|one| safetensors(std::slice::from_ref(one), "")).collect();
    let names: Vec<String> = (0..files.len()).map(|i| format!("b{i}")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice)).collect();
    let new = safetensors(&tensors, "");
    for coded in compress_both(&new, &bases(&files)) {
        let archive = Archive::from_bytes_on(coded.expect("compressed"), &bases(&files));
        let archive = archive.expect("a file that can be read");
        assert_eq!(archive.bases().len(), 1024);
        assert!(archive.bases().iter().any(|base| base.name == "b1059"), "it helps most");
        assert!(decompress_to_vec(&archive, 1).expect("restored") == new);
    }
    for coded in compress_both(&new, &bases(&files).named()) {
        let error = coded.expect_err("all of them cannot be named");
        assert!(error.to_string().contains("1060 bases"), "{error}");
    }
}
