//! The counts, which share tables and pass over what is equal, are those of a plain loop.

use super::alone::AloneCounter;
use super::change::{ChangeCounter, ChangeTally};
use super::classes::{Classes, index};
use super::{BLOCK_LEN, Words};
use lmc_format::Dtype;
use lmc_testkit::Random;

/// Words around the ends of vectors, stretches and blocks.
const COUNTS: [usize; 9] = [0, 1, 7, 8, 15, 16, 33, 100, 40_000];

fn words_in(bytes: &[u8], width: usize) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(width).map(move |word| {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(word);
        u64::from_le_bytes(wide)
    })
}

/// Three kinds of bytes: any, few different ones, and all the same.
fn kinds(random: &mut Random, len: usize) -> [Vec<u8>; 3] {
    let any = random.bytes(len);
    let few = any.iter().map(|byte| if byte % 16 == 0 { *byte } else { 0x3f }).collect();
    [any, few, vec![0x3f; len]]
}

/// Histograms of bytes, signs and exponents are exact for every type, also over several blocks.
#[test]
fn alone_is_exact() {
    let (mut random, mut counter) = (Random::new(1), AloneCounter::new());
    for dtype in Dtype::ALL {
        let words = Words::of(dtype);
        for bytes in COUNTS.iter().flat_map(|count| kinds(&mut random, count * words.width)) {
            let tally = counter.count(words, &bytes);
            let mut planes = vec![[0_u64; 256]; words.width];
            let mut heads = vec![0_u64; words.heads()];
            for word in words_in(&bytes, words.width) {
                for (plane, byte) in planes.iter_mut().zip(word.to_le_bytes()) {
                    plane[usize::from(byte)] += 1;
                }
                if let Some(fields) = words.fields {
                    heads[(word >> fields.mantissa_bits) as usize] += 1;
                }
            }
            let name = dtype.name();
            assert_eq!(tally.whole.planes, planes, "{name}, {} bytes", bytes.len());
            assert_eq!(tally.whole.heads, heads, "{name}, {} bytes", bytes.len());
            assert_eq!(tally.whole.values as usize, bytes.len() / words.width);
            let exponents = counter.exponents(words, &bytes);
            assert_eq!(exponents, tally.whole.exponents());
            if bytes.len() <= BLOCK_LEN && !bytes.is_empty() {
                // One block is the whole.
                let (bits, values) = (tally.whole.bits(words), tally.whole.values as f64);
                assert_eq!(tally.blocks.bound, bits.bound * values, "{name}");
            }
        }
    }
}

/// The same for changes: any, few, and none.
#[test]
fn changes_are_exact() {
    let (mut random, mut counter) = (Random::new(2), ChangeCounter::new());
    for dtype in Dtype::ALL {
        let words = Words::of(dtype);
        for count in COUNTS {
            let news = kinds(&mut random, count * words.width);
            let olds = kinds(&mut random, count * words.width);
            for (new, old) in news.iter().flat_map(|new| olds.iter().map(move |old| (new, old))) {
                compare(&mut counter, words, new, old);
                compare(&mut counter, words, new, new);
            }
            let mut nearly = news[0].clone();
            nearly.iter_mut().step_by(101).for_each(|byte| *byte ^= 1);
            compare(&mut counter, words, &nearly, &news[0]);
        }
    }
}

fn compare(counter: &mut ChangeCounter, words: Words, new: &[u8], old: &[u8]) {
    // In two parts, of which one may be empty.
    let middle = new.len() / 3 / words.width * words.width;
    counter.compare(words, &new[..middle], &old[..middle]);
    counter.compare(words, &new[middle..], &old[middle..]);
    let found = counter.take(words);
    let mut wanted = ChangeTally::new(words);
    wanted.values = (new.len() / words.width) as u64;
    let mut flipped = vec![0; 8 * words.width];
    let mut classes = Classes::default();
    for (new, old) in words_in(new, words.width).zip(words_in(old, words.width)) {
        let change = new ^ old;
        wanted.unchanged += u64::from(change == 0);
        if let Some(fields) = words.fields {
            let mask = (1 << fields.exponent_bits) - 1;
            wanted.exponent_changed += u64::from(change >> fields.mantissa_bits & mask != 0);
        }
        for (plane, byte) in wanted.xor.iter_mut().zip(change.to_le_bytes()) {
            plane[usize::from(byte)] += 1;
        }
        flipped.iter_mut().enumerate().for_each(|(i, sum)| *sum += change >> i & 1);
        classes.add(index(words, new, old), 1);
    }
    wanted.classes = classes;
    assert_eq!(found, wanted, "{words:?}, {} bytes", new.len());
    assert_eq!(found.flipped(), flipped);
}
