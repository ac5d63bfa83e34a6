//! Files for the tests: safetensors from their parts, and the compressed form of anything.
#![allow(dead_code)]

use lmc::{Input, Level, Options, Output};

/// A tensor: name, type, shape and bytes.
pub type Part = (String, &'static str, Vec<u64>, Vec<u8>);

/// A safetensors file; `extra` is put in front of the header's entries.
pub fn safetensors(tensors: &[Part], extra: &str) -> Vec<u8> {
    let mut entries = Vec::new();
    let mut end = 0;
    for (name, dtype, shape, bytes) in tensors {
        let start = end;
        end += bytes.len();
        entries.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
    }
    let header = format!("{{{extra}{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|(.., bytes)| file.extend_from_slice(bytes));
    file
}

/// The `.lmc` form of `original`.
pub fn compress(original: &[u8], level: Level, threads: usize) -> Vec<u8> {
    compress_with(Input::Bytes(original), &Options { level, threads, verify: true })
}

/// The same of any input.
pub fn compress_with(input: Input, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let done =
        lmc::compress(input, Output::Stream(&mut out), options, &|_| ()).expect("compressed");
    assert_eq!(done.bytes_out, out.len() as u64);
    out
}
