//! A higher level never takes more bytes than a lower one, with and without a base.

use crate::common::{bases, compress, compress_on, few_moved, moved, nudged, safetensors};
use lmc::Level;
use lmc_testkit::corpus;
use lmc_testkit::data::{self, Kind, Random};

const LEVELS: [Level; 3] = [Level::Fast, Level::Default, Level::Max];

/// Types of all widths, as safetensors names them, and whether they are floats.
const TYPES: [(&str, usize, bool); 10] = [
    ("U8", 1, false),
    ("I8", 1, false),
    ("BOOL", 1, false),
    ("F8_E4M3", 1, true),
    ("BF16", 2, true),
    ("F16", 2, true),
    ("I16", 2, false),
    ("F32", 4, true),
    ("I64", 8, false),
    ("F64", 8, true),
];

fn assert_ordered(sizes: &[usize], what: &str) {
    assert!(sizes.is_sorted_by(|a, b| a >= b), "{what}: {sizes:?} bytes");
}

/// Fails unless a higher level takes no more, alone and on bases.
fn check(original: &[u8], olds: &[Vec<u8>], what: &str) {
    assert_ordered(&LEVELS.map(|level| compress(original, level, 1).len()), what);
    for (i, old) in olds.iter().enumerate() {
        let on = bases(&[("old", old)]);
        let sizes = LEVELS.map(|level| compress_on(original, &on, level, 1).len());
        assert_ordered(&sizes, &format!("{what} on {i}"));
    }
}

/// Values of all types and kinds, as tensors of one and of several blocks, and as files of which
/// nothing is known.
#[test]
fn levels_are_in_order() {
    let mut random = Random::new(41);
    for (name, width, is_float) in TYPES {
        for kind in Kind::ALL {
            for len in [300, 40_000, 700_000] {
                let rows = 1 + random.below(40);
                let columns = len / width / rows;
                let seed = random.next_u64() >> 1;
                let words = data::words(kind, width, is_float, rows * columns, seed);
                let olds = [nudged(&words, width, 30, 1), moved(&words, width, 9, 2)];
                let what = format!("{name} {kind:?} {len}");
                let file = |bytes: &[u8]| {
                    let shape = vec![rows as u64, columns as u64];
                    safetensors(&[("w".into(), name, shape, bytes.to_vec())], "")
                };
                check(&file(&words), &olds.map(|old| file(&old)), &what);
                if name == "BF16" || name == "F32" {
                    check(&words, &[few_moved(&words, width, 9, 3)], &format!("{what} alone"));
                }
            }
        }
    }
}

/// Text, and files of text and numbers.
#[test]
fn levels_of_text_are_in_order() {
    for len in [40, 700, 9000, 200_000, 5_000_000] {
        let text = data::log(len, 42);
        let moved = [&b"more"[..], &text[..len - 4]].concat();
        check(&text, &[moved], &format!("text of {len} bytes"));
        let mixed = [&text[..], &data::words(Kind::Weights, 2, true, len / 2, 43)].concat();
        check(&mixed, &[], &format!("text of {len} bytes, and weights"));
    }
}

/// The files of the corpus, alone and on the other files of their kind.
#[test]
fn levels_of_the_corpus_are_in_order() {
    let Some(folder) = corpus::find() else {
        lmc_testkit::skip(lmc_testkit::Missing::Corpus, "no corpus");
        return;
    };
    let paths = ["pretrain/001000.weights-bf16", "pretrain/001100.weights-fp32"].into_iter();
    let paths = paths.chain(["pretrain/001100.adam-m", "pretrain/001100.adam-v"]);
    let read = |name: &str| {
        std::fs::read(folder.join(format!("{name}.safetensors"))).expect("a file of the corpus")
    };
    for name in paths {
        check(&read(name), &[], name);
    }
    for (new, old) in [("rl/000021", "rl/000020"), ("pretrain/001010", "pretrain/001000")] {
        let [new, old] = [new, old].map(|step| read(&format!("{step}.weights-bf16")));
        check(&new, &[old], "a later step");
    }
}
