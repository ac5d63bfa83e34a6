//! An archive that we write is never refused for its cost to restore, whatever it refers to.

use super::*;
use crate::Context;
use lmc_testkit::casts;

/// F32 values converted to a two-byte type.
fn rounded(values: &[u8], round: fn(f32) -> u16) -> Vec<u8> {
    let (words, _) = values.as_chunks();
    words.iter().flat_map(|&word| round(f32::from_le_bytes(word)).to_le_bytes()).collect()
}

/// The name of `count` rows of a matrix `w`.
fn rows(at: usize, count: usize) -> String {
    format!("w[{at}:{},0:256]", at + count)
}

/// Restores a file on one thread; returns how many of its spans refer to something.
fn check(coded: Vec<u8>, bases: &BaseSet) -> usize {
    let archive = Archive::from_bytes_on(coded, bases).unwrap();
    archive.test(&Context::with_threads(1)).unwrap();
    archive.spans().filter(|span| span.as_ref().is_ok_and(|span| span.reference.is_some())).count()
}

/// Parts of a large base, each with two roundings that refer to it: reading a rounding again means
/// reading the base again, and that counts when references are chosen.
#[test]
fn references_to_the_file_itself_count() {
    let (all, count) = (131_072, 132);
    let weights = data::words(Kind::Weights, 4, true, all * 256, 1);
    let old = safetensors(&[("w".to_string(), &weights)]);
    let old = compressed(&old, &BaseSet::default(), Level::Max);
    let places: Vec<usize> = shuffled(all / count, 2).iter().take(120).map(|i| i * count).collect();
    let part = |&at: &usize| &weights[at * 1024..(at + count) * 1024];
    let mut tensors: Vec<(String, &str, Vec<u8>)> =
        places.iter().map(|at| (rows(*at, count), "F32", part(at).to_vec())).collect();
    let mut add_rounded = |dtype: &'static str, round: fn(f32) -> u16| {
        let name = |i: usize, at: &usize| format!("{dtype}{i}.{}", rows(*at, count));
        let copies = places.iter().enumerate();
        tensors.extend(copies.map(|(i, at)| (name(i, at), dtype, rounded(part(at), round))));
    };
    add_rounded("BF16", casts::bf16_bits);
    add_rounded("F16", casts::f16_bits);
    let new = typed(&tensors);
    let bases =
        BaseSet::from_bytes(vec![("old".to_string(), old)], &Context::with_threads(1)).unwrap();
    let on = check(compressed(&new, &bases, Level::Fast), &bases);
    assert!(on > 50, "{on} spans refer to something");
}

/// A file is compressed against a raw base, which is itself compressed later at the highest level:
/// the file can still be restored.
#[test]
fn a_raw_base_may_be_compressed_later() {
    let all = 65_536;
    let weights = data::words(Kind::Weights, 2, true, all * 256, 2);
    let old = typed(&[("w".to_string(), "F16", &weights)]);
    let part = |at: usize| (rows(at, 1), "F16", &weights[at * 512..(at + 1) * 512]);
    let new = typed(&shuffled(all, 3).into_iter().take(2000).map(part).collect::<Vec<_>>());
    let raw =
        BaseSet::from_bytes(vec![("old".to_string(), old.clone())], &Context::with_threads(1))
            .unwrap();
    let coded = compressed(&new, &raw, Level::Default);
    let old = compressed(&old, &BaseSet::default(), Level::Max);
    let on = check(
        coded,
        &BaseSet::from_bytes(vec![("old".to_string(), old)], &Context::with_threads(1)).unwrap(),
    );
    assert!(on > 50, "{on} spans refer to the base");
}
