//! Recipes by changes: what is written is read again, and what the format does not allow is refused
//! with a reason.

use lmc_format::{
    AnyRecipe, ApartCoder, Bin, BinRecipe, BinRules, ChangeRecipe, Coder, FlagContexts, Reader,
    SymbolCoder,
};

/// Where fields of the recipe of [`recipe`] are.
const BIN_COUNT: usize = 6;
const ROW_COUNT: usize = BIN_COUNT + 1 + 2 * 2;
const ROW_BOUND: usize = ROW_COUNT + 1;
const CHANGED: usize = ROW_BOUND + 1 + 2 * 8 + 3;
const CHANGED_BOUNDS: usize = CHANGED + 1;
const CHANGED_CODERS: usize = CHANGED_BOUNDS + 2;
const UNCOMMON: usize = CHANGED_CODERS + 5;
const UNCOMMON_BOUND: usize = UNCOMMON + 1;
const UNCOMMON_CODERS: usize = UNCOMMON_BOUND + 1;

/// Two bins and two rows, three contexts of changes and two of symbols.
fn recipe() -> ChangeRecipe {
    let rules = BinRules {
        width_log2: 2,
        is_integer: false,
        raw_bytes: 1,
        segment_log2: 14,
        exponent_bits: 8,
        exponent_first: 0x1234,
        bins: vec![
            Bin { shift: 0, has_flip_bit: false, centre: 6 },
            Bin { shift: 7, has_flip_bit: true, centre: -6 },
        ],
        bounds: vec![1],
        rows: [0, 5].map(|turn| std::array::from_fn(|i| (i as u8 + turn) % 16)).to_vec(),
    };
    let coders = vec![Coder::Gaps(3), Coder::Raw, Coder::Constant(0)];
    ChangeRecipe {
        rules,
        coder: Coder::Packed { mask: 0x0f, rest: 0x80 },
        has_lengths: true,
        changed: FlagContexts { bounds: vec![1, 255], coders },
        uncommon: Some(FlagContexts { bounds: vec![7], coders: vec![Coder::Runs, Coder::Raw] }),
    }
}

/// As many contexts, with coders of every kind that has no table, also one in the other.
fn contexts(count: u8) -> FlagContexts {
    let apart = ApartCoder { byte: 7, flags: Coder::Gaps(24), others: Coder::Runs };
    let coders = [
        Coder::Gaps(0),
        Coder::Constant(255),
        Coder::Apart(Box::new(apart)),
        Coder::Packed { mask: 1, rest: 0xfe },
        Coder::Raw,
        Coder::Runs,
    ];
    FlagContexts {
        bounds: (1..count).map(|i| 32 * i - 1).collect(),
        coders: coders.into_iter().cycle().take(count.into()).collect(),
    }
}

fn written(recipe: &ChangeRecipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    bytes
}

/// Reads a recipe of any kind that is all of `bytes`.
fn read(bytes: &[u8]) -> Result<AnyRecipe, String> {
    let mut input = Reader::new(bytes);
    let recipe = AnyRecipe::read(&mut input).map_err(|error| error.to_string())?;
    assert!(input.rest().is_empty(), "{} bytes are left over", input.rest().len());
    Ok(recipe)
}

/// Fails unless the recipe with one byte changed is refused for this reason.
fn refused(at: usize, byte: u8, reason: &str) {
    let mut bytes = written(&recipe());
    bytes[at] = byte;
    // Enough for any number of contexts, so that it is not the end that is refused.
    bytes.resize(bytes.len() + 1000, 0);
    let error =
        AnyRecipe::read(&mut Reader::new(&bytes)).expect_err("a recipe that is not allowed");
    assert!(error.to_string().contains(reason), "byte {at} at {byte}: {error}");
}

/// The bytes of a recipe are those of the document.
#[test]
fn a_recipe_is_written_as_documented() {
    let bytes = written(&recipe());
    let head = [0xe6, 1, 14, 8, 0x34, 0x12, 2, 0, 6, 0x87, 0xfa, 2, 1];
    assert_eq!(bytes[..=ROW_BOUND], head);
    assert_eq!(bytes[ROW_BOUND + 1..][..8], [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe]);
    assert_eq!(bytes[CHANGED - 3..CHANGED], [2, 0x0f, 0x80]);
    assert_eq!(bytes[CHANGED..UNCOMMON], [3, 1, 255, 7, 3, 0, 1, 0]);
    assert_eq!(bytes[UNCOMMON..], [2, 7, 6, 0]);
    let plain = ChangeRecipe { has_lengths: false, uncommon: None, ..recipe() };
    let bytes = written(&plain);
    assert_eq!((bytes[0], &bytes[UNCOMMON..]), (0xe2, &[0][..]));
}

/// Apart from the layout and the contexts, the bytes are those of a recipe by bins.
#[test]
fn the_fields_of_bins_are_the_same() {
    let recipe = recipe();
    let mut bins = Vec::new();
    let symbols = SymbolCoder::One(recipe.coder.clone());
    BinRecipe { rules: recipe.rules.clone(), symbols }.write(&mut bins);
    assert_eq!(written(&recipe)[1..CHANGED], bins[1..]);
}

/// What is written is read again, with one and all contexts, in every width.
#[test]
fn a_recipe_is_read_as_it_was_written() {
    for width_log2 in 0..4 {
        for raw_bytes in 0..1 << width_log2 {
            for changed in 1..=8 {
                for uncommon in 0..=8 {
                    let mut recipe = recipe();
                    recipe.rules.width_log2 = width_log2;
                    recipe.rules.raw_bytes = raw_bytes;
                    recipe.rules.exponent_bits = [7, 11, 11, 11][usize::from(width_log2)];
                    recipe.has_lengths = (changed + uncommon) % 2 == 0;
                    recipe.changed = contexts(changed);
                    recipe.uncommon = (uncommon > 0).then(|| contexts(uncommon));
                    let back = read(&written(&recipe));
                    assert_eq!(back, Ok(AnyRecipe::Changes(Box::new(recipe))));
                }
            }
        }
    }
}

/// A block by changes needs a base, has no columns, and has values and segments of the length that
/// the recipe says.
#[test]
fn a_recipe_needs_a_base() {
    let recipe = AnyRecipe::Changes(Box::new(recipe()));
    assert!(recipe.needs_base());
    assert_eq!((recipe.width(), recipe.segment_len(), recipe.column_count()), (4, 4 << 14, 0));
}

/// A recipe that ends early is refused, wherever it ends.
#[test]
fn a_recipe_that_ends_early_is_refused() {
    let bytes = written(&recipe());
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes are taken");
    }
}

/// Bits of the layout that would make it one of two kinds at once are refused.
#[test]
fn unknown_layouts_are_refused() {
    for layout in [0xf0, 0xf4, 0xf6, 0xfa, 0xfe, 0xff] {
        refused(0, layout, "recipe layout");
    }
}

/// A recipe for integers is told by a bit of its layout, and has no flip bits.
#[test]
fn integers_have_no_flip_bits() {
    let mut recipe = recipe();
    recipe.rules.is_integer = true;
    let mut bytes = written(&recipe);
    assert_eq!(bytes[0], 0xee);
    refused(0, 0xee, "a bin of integers has a flip bit");
    bytes[BIN_COUNT + 3] &= 0x7f;
    recipe.rules.bins[1].has_flip_bit = false;
    assert_eq!(read(&bytes), Ok(AnyRecipe::Changes(Box::new(recipe))));
}

/// The fields of bins are held to their ranges.
#[test]
fn fields_of_bins_out_of_range_are_refused() {
    for raw_bytes in [4, 255] {
        refused(1, raw_bytes, "raw bytes");
    }
    for segment_log2 in [9, 19] {
        refused(2, segment_log2, "segments of");
    }
    for exponent_bits in [0, 12] {
        refused(3, exponent_bits, "exponent of");
    }
    for count in [0, 33] {
        refused(BIN_COUNT, count, "bins, 1 to 32 expected");
    }
    refused(BIN_COUNT + 1, 9, "payload of");
    refused(BIN_COUNT + 2, 7, "centre of a bin");
    refused(ROW_COUNT, 9, "rows, at most 8 expected");
    refused(ROW_BOUND, 0, "bound 0 of a row is out of order");
    refused(ROW_BOUND + 1, 0x00, "16 symbols once");
    refused(CHANGED - 3, 10, "coder");
}

/// There are 1 to 8 contexts of changes, and at most 8 of symbols.
#[test]
fn numbers_of_contexts_out_of_range_are_refused() {
    refused(CHANGED, 0, "no contexts of flags");
    for at in [CHANGED, UNCOMMON] {
        for count in [9, 10, 128, 255] {
            refused(at, count, "contexts of flags, at most 8 expected");
        }
    }
}

/// Bounds start above 0 and rise.
#[test]
fn bounds_out_of_order_are_refused() {
    let reason = "bounds of contexts of flags are out of order";
    refused(CHANGED_BOUNDS, 0, reason);
    refused(CHANGED_BOUNDS, 255, reason);
    refused(CHANGED_BOUNDS + 1, 0, reason);
    refused(CHANGED_BOUNDS + 1, 1, reason);
    refused(UNCOMMON_BOUND, 0, reason);
}

/// Coders that there are not are refused in every context.
#[test]
fn unknown_coders_of_flags_are_refused() {
    for at in [CHANGED_CODERS, CHANGED_CODERS + 3, UNCOMMON_CODERS, UNCOMMON_CODERS + 1] {
        refused(at, 10, "coder");
    }
    refused(CHANGED_CODERS + 1, 25, "gaps");
}
