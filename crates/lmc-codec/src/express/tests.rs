use super::*;
use crate::bins::{BinBuffers, BinEncoder};
use crate::changes::{ChangeBuffers, ChangeEncoder};
use crate::classes::{ClassBuffers, ClassEncoder};
use crate::entropy::{PlaneEncoder, Scratch, huffman, rans, tree};
use crate::palette::{PaletteBuffers, PaletteEncoder};
use crate::segment::{Buffers, SegmentEncoder, SegmentInput};
use crate::simd::Isa;
use lmc_format::{
    ApartCoder, BaseUse, Bin, BinRecipe, BinRules, ChangeRecipe, ClassRecipe, Coder, FlagContexts,
    PaletteRecipe, Recipe, SymbolCoder, WordMap,
};

/// The contents of the output before each call.
const BEFORE: [u8; 3] = [7, 8, 9];

/// Checks that `encode` fails and leaves its output alone, with every instruction set.
fn check_refused(what: &str, encode: impl Fn(Isa, &mut Vec<u8>) -> Encoded) {
    for isa in Isa::available() {
        let mut out = BEFORE.to_vec();
        assert_eq!(encode(isa, &mut out), Err(CannotExpress), "{what} {isa:?}");
        assert_eq!(out, BEFORE, "{what} {isa:?} leaves bytes behind");
    }
}

/// A hundred different values of 2 bytes, and a base of zeros.
fn values() -> (Vec<u8>, Vec<u8>) {
    ((1..=100_u16).flat_map(|i| (i * 300).to_le_bytes()).collect(), vec![0; 200])
}

/// Can express only zeros.
const ZEROS: Coder = Coder::Constant(0);

#[test]
fn planes_are_taken_back() {
    let (values, _) = values();
    let recipe = |flags: Option<Coder>, planes: Vec<Coder>| Recipe {
        width_log2: 1,
        base: BaseUse::None,
        map: WordMap::None,
        symbol_bits: 8,
        segment_log2: 10,
        bias: 0,
        flags,
        planes,
        columns: None,
    };
    let refused = [
        recipe(None, vec![Coder::Runs, ZEROS]),
        recipe(None, vec![ZEROS, Coder::Raw]),
        recipe(None, vec![Coder::Gaps(2), ZEROS]),
        recipe(Some(Coder::Runs), vec![Coder::Runs, ZEROS]),
        recipe(Some(ZEROS), vec![Coder::Raw, Coder::Raw]),
        Recipe { map: WordMap::Rotate, ..recipe(None, vec![ZEROS, Coder::Raw]) },
        // A wide symbol, a partial plane and no records.
        Recipe { symbol_bits: 12, ..recipe(None, vec![Coder::Runs, ZEROS]) },
    ];
    for recipe in refused {
        let encoder = SegmentEncoder::new(&recipe);
        check_refused("planes", |isa, out| {
            let input = SegmentInput { values: &values, start: 0, rows: None, streaming: false };
            encoder.encode(isa, input, &mut Buffers::default(), out)
        });
    }
}

#[test]
fn classes_are_taken_back() {
    let (values, base) = values();
    for raw_bytes in [0, 1] {
        let encoder = ClassEncoder::new(&ClassRecipe {
            width_log2: 1,
            has_sign: true,
            has_top_bit: false,
            raw_bytes,
            segment_log2: 10,
            exponent_bits: 5,
            exponent_first: 0,
            bounds: vec![16],
            contexts: vec![Coder::Runs, ZEROS],
        });
        // Half of the values are in the second context.
        let base: Vec<u8> = base.chunks(4).flat_map(|_| [0, 0, 0, 0x7c]).collect();
        check_refused("classes", |isa, out| {
            encoder.encode(isa, &values, &base, &mut ClassBuffers::default(), out)
        });
    }
}

fn rules(raw_bytes: u8) -> BinRules {
    BinRules {
        width_log2: 1,
        is_integer: false,
        raw_bytes,
        segment_log2: 10,
        exponent_bits: 5,
        exponent_first: 0,
        bins: vec![Bin { shift: 2, has_flip_bit: false, centre: 0 }],
        bounds: Vec::new(),
        rows: Vec::new(),
    }
}

#[test]
fn bins_are_taken_back() {
    let (values, base) = values();
    for raw_bytes in [0, 1] {
        let recipe = BinRecipe { rules: rules(raw_bytes), symbols: SymbolCoder::One(ZEROS) };
        let encoder = BinEncoder::new(&recipe);
        check_refused("bins", |isa, out| {
            encoder.encode(isa, &values, &base, &mut BinBuffers::default(), out)
        });
    }
}

#[test]
fn changes_are_taken_back() {
    let (values, base) = values();
    let flags = |coder| FlagContexts { bounds: Vec::new(), coders: vec![coder] };
    for has_lengths in [false, true] {
        let recipe = |coder, changed, uncommon| ChangeRecipe {
            rules: rules(0),
            coder,
            has_lengths,
            changed: flags(changed),
            uncommon,
        };
        let refused = [
            recipe(Coder::Raw, ZEROS, None),
            recipe(ZEROS, Coder::Raw, None),
            recipe(Coder::Raw, Coder::Raw, Some(flags(ZEROS))),
            recipe(ZEROS, Coder::Raw, Some(flags(Coder::Raw))),
        ];
        for recipe in refused {
            let encoder = ChangeEncoder::new(&recipe);
            check_refused("changes", |isa, out| {
                encoder.encode(isa, &values, &base, &mut ChangeBuffers::default(), out)
            });
        }
    }
}

#[test]
fn palettes_are_taken_back() {
    let (values, _) = values();
    let words = |count: u64| (1..=count).map(|i| i * 300).collect();
    for (words, coder) in [(words(100), ZEROS), (words(99), Coder::Raw)] {
        let recipe = PaletteRecipe { width_log2: 1, segment_log2: 10, words, coder };
        let encoder = PaletteEncoder::new(&recipe).expect("words that can be told apart");
        check_refused("palette", |isa, out| {
            encoder.encode(isa, &values, &mut PaletteBuffers::default(), out)
        });
    }
}

#[test]
fn planes_of_coders_are_taken_back() {
    let mut histogram = [1; 256];
    histogram[77] = 0;
    let mut lengths = [0; 256];
    (lengths[0], lengths[1]) = (1, 1);
    let two = lmc_format::TreeTable::new(lengths, 0).expect("a code");
    assert!(tree::cost_bits(&two, &histogram).is_none(), "no escape");
    let apart = |flags, others| Coder::Apart(Box::new(ApartCoder { byte: 5, flags, others }));
    let coders = [
        ZEROS,
        Coder::Packed { mask: 0x0f, rest: 0 },
        Coder::Huffman(Box::new(huffman::build(&histogram).expect("a table"))),
        Coder::Rans(Box::new(rans::build(&histogram).expect("a table"))),
        Coder::Tree(Box::new(two)),
        apart(Coder::Raw, ZEROS),
        apart(ZEROS, Coder::Raw),
    ];
    let mut plane: Vec<u8> = (0..1000).map(|i| (i % 7) as u8).collect();
    plane[900] = 77;
    for coder in coders {
        let encoder = PlaneEncoder::new(&coder);
        check_refused(&format!("{coder:?}"), |isa, out| {
            encoder.encode(isa, &plane, &mut Scratch::default(), out)
        });
    }
}
