//! What is compressed is never refused for what it costs to restore, whatever it refers to.

mod common;

use common::{Part, bases, compress, compress_on, safetensors};
use lmc::{Archive, Level};
use lmc_testkit::casts;
use lmc_testkit::data::{self, Kind, Random};

/// Numbers below `count`, each a multiple of `step`, in no order; as many as are wanted.
fn places(count: usize, step: usize, wanted: usize) -> Vec<usize> {
    let mut random = Random::new(7);
    let mut places: Vec<usize> = (0..count / step).map(|i| i * step).collect();
    (1..places.len()).for_each(|i| places.swap(i, random.below(i + 1)));
    places.truncate(wanted);
    places
}

/// F32 values as BF16 ones.
fn rounded(values: &[u8]) -> Vec<u8> {
    let (words, _) = values.as_chunks();
    let round = |&word| casts::bf16_bits(f32::from_le_bytes(word)).to_le_bytes();
    words.iter().flat_map(round).collect()
}

/// Rows of a matrix `w` as a tensor of their own.
fn rows(weights: &[u8], dtype: &'static str, row_len: u64, at: usize, count: usize) -> Part {
    let width = if dtype == "F32" { 4 } else { 2 };
    let name = format!("w[{at}:{},0:{row_len}]", at + count);
    let bytes = row_len as usize * width;
    let part = &weights[at * bytes..(at + count) * bytes];
    (name, dtype, vec![count as u64, row_len], part.to_vec())
}

/// Parts of a large base, and many roundings of each, which refer to them: to read one of these again
/// is to read the base again, and that counts when references are chosen.
#[test]
fn references_to_the_file_itself_count() {
    let weights = data::words(Kind::Weights, 4, true, 16_384 * 1024, 1);
    let old = safetensors(&[("w".to_string(), "F32", vec![16_384, 1024], weights.clone())], "");
    let slices: Vec<Part> =
        places(16_384, 33, 50).into_iter().map(|at| rows(&weights, "F32", 1024, at, 33)).collect();
    let mut tensors = slices.clone();
    for i in 0..6 {
        tensors.extend(slices.iter().map(|(name, _, shape, bytes)| -> Part {
            (format!("x{i}.{name}"), "BF16", shape.clone(), rounded(bytes))
        }));
    }
    let new = safetensors(&tensors, "");
    let old = bases(&[("old", &compress(&old, Level::Max, 0))]);
    let coded = compress_on(&new, &old, Level::Fast, 0);
    let archive = Archive::from_bytes_on(coded, &old).expect("a valid file");
    assert!(archive.tensors().expect("tensors").iter().any(|tensor| tensor.reference.is_some()));
    archive.test(1, &|_| ()).expect("restored");
}

/// A file is made on a raw base, which is compressed later, as hard as can be: it can still be
/// restored.
#[test]
fn a_raw_base_may_be_compressed_later() {
    let weights = data::words(Kind::Weights, 2, true, 32_768 * 512, 2);
    let old = safetensors(&[("w".to_string(), "F16", vec![32_768, 512], weights.clone())], "");
    let slices: Vec<Part> =
        places(32_768, 1, 2000).into_iter().map(|at| rows(&weights, "F16", 512, at, 1)).collect();
    let new = safetensors(&slices, "");
    let coded = compress_on(&new, &bases(&[("old", &old)]), Level::Default, 0);
    let old = bases(&[("old", &compress(&old, Level::Max, 0))]);
    let archive = Archive::from_bytes_on(coded, &old).expect("a valid file");
    assert!(!archive.bases().is_empty(), "it is on the base");
    archive.test(1, &|_| ()).expect("restored");
}
