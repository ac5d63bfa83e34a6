//! Recipes by bins: what is written is read again, and what the format does not allow is refused
//! with a reason.

use lmc_format::{
    AnyRecipe, Bin, BinRecipe, BinRules, Coder, ContextTables, RansTable, Reader, SymbolCoder,
};

/// Where fields of the recipe of [`recipe`] are.
const FIRST: usize = 4;
const BIN_COUNT: usize = 6;
const BINS: usize = 7;
const ROW_COUNT: usize = BINS + 2 * 3;
const BOUNDS: usize = ROW_COUNT + 1;
const ROWS: usize = BOUNDS + 2;

/// Three bins and three rows.
fn recipe() -> BinRecipe {
    let bin = |shift, has_flip_bit, centre| Bin { shift, has_flip_bit, centre };
    let rules = BinRules {
        width_log2: 2,
        is_integer: false,
        raw_bytes: 1,
        segment_log2: 14,
        exponent_bits: 8,
        exponent_first: 0x1234,
        bins: vec![bin(0, false, 6), bin(7, true, -6), bin(8, false, 0)],
        bounds: vec![1, 255],
        rows: [0, 5, 10].map(|turn| std::array::from_fn(|i| (i as u8 + turn) % 16)).to_vec(),
    };
    BinRecipe { rules, symbols: SymbolCoder::One(Coder::Packed { mask: 0x0f, rest: 0x80 }) }
}

/// The same with other rules.
fn with_rules(change: impl Fn(&mut BinRules)) -> BinRecipe {
    let mut recipe = recipe();
    change(&mut recipe.rules);
    recipe
}

fn written(recipe: &BinRecipe) -> Vec<u8> {
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
    let error =
        AnyRecipe::read(&mut Reader::new(&bytes)).expect_err("a recipe that is not allowed");
    assert!(error.to_string().contains(reason), "byte {at} at {byte}: {error}");
}

/// The bytes of a recipe are those of the document.
#[test]
fn a_recipe_is_written_as_documented() {
    let bytes = written(&recipe());
    let head = [0xd2, 1, 14, 8, 0x34, 0x12, 3, 0, 6, 0x87, 0xfa, 8, 0, 3, 1, 255];
    assert_eq!(bytes[..ROWS], head);
    assert_eq!(bytes[ROWS..ROWS + 8], [0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe]);
    assert_eq!(bytes[ROWS + 8..ROWS + 16], [0x65, 0x87, 0xa9, 0xcb, 0xed, 0x0f, 0x21, 0x43]);
    assert_eq!(bytes[ROWS + 24..], [2, 0x0f, 0x80]);
}

/// What is written is read again, with no and all rows, one and all bins, in every width.
#[test]
fn a_recipe_is_read_as_it_was_written() {
    for width_log2 in 0..4 {
        for raw_bytes in 0..1 << width_log2 {
            for (bins, rows) in [(1, 0), (1, 1), (2, 2), (32, 8)] {
                let recipe = with_rules(|rules| {
                    (rules.width_log2, rules.raw_bytes) = (width_log2, raw_bytes);
                    rules.exponent_bits = [7, 11, 11, 11][usize::from(width_log2)];
                    rules.bins = rules.bins.iter().copied().cycle().take(bins).collect();
                    rules.rows = rules.rows.iter().copied().cycle().take(rows).collect();
                    rules.bounds = (1..rows as u8).collect();
                });
                assert_eq!(read(&written(&recipe)), Ok(AnyRecipe::Bins(recipe)));
            }
        }
    }
}

/// A block by bins needs a base, and a value of it has the width that the layout says.
#[test]
fn a_recipe_needs_a_base() {
    let recipe = AnyRecipe::Bins(recipe());
    assert!(recipe.needs_base());
    assert_eq!(recipe.width(), 4);
}

/// A recipe that ends early is refused, wherever it ends.
#[test]
fn a_recipe_that_ends_early_is_refused() {
    let bytes = written(&recipe());
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes are taken");
    }
}

/// Bits of the layout that mean nothing yet are refused, so that they can mean something later.
#[test]
fn unknown_layouts_are_refused() {
    for layout in [0xd6, 0xde, 0xf6, 0xfa, 0xff] {
        refused(0, layout, "recipe layout");
    }
}

/// Every field is held to its range.
#[test]
fn fields_out_of_range_are_refused() {
    for raw_bytes in [4, 5, 255] {
        refused(1, raw_bytes, "raw bytes");
    }
    for segment_log2 in [0, 9, 19, 255] {
        refused(2, segment_log2, "segments of");
    }
    for exponent_bits in [0, 12, 255] {
        refused(3, exponent_bits, "exponent of");
    }
    for count in [0, 33, 255] {
        refused(BIN_COUNT, count, "bins, 1 to 32 expected");
    }
    for packed in [9, 127, 0x88, 0xff] {
        refused(BINS, packed, "payload of");
    }
    for centre in [7_i8, 127, -7, -128] {
        refused(BINS + 1, centre.to_le_bytes()[0], "centre of a bin");
    }
    for count in [9, 255] {
        refused(ROW_COUNT, count, "rows, at most 8 expected");
    }
    refused(BOUNDS, 0, "bound 0 of a row is out of order");
    refused(BOUNDS, 255, "bound 255 of a row is out of order");
    refused(BOUNDS + 1, 1, "bound 1 of a row is out of order");
    refused(ROWS, 0x00, "16 symbols once");
    refused(ROWS + 23, 0x55, "16 symbols once");
    refused(ROWS + 24, 11, "coder");
}

/// A recipe for integers is told by a bit of its layout, and has no flip bits.
#[test]
fn integers_have_no_flip_bits() {
    let mut recipe = with_rules(|rules| rules.is_integer = true);
    let mut bytes = written(&recipe);
    assert_eq!(bytes[0], 0xda);
    assert_eq!(read(&bytes), Err("a bin of integers has a flip bit".to_string()));
    bytes[BINS + 2] &= 0x7f;
    recipe.rules.bins[1].has_flip_bit = false;
    assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(recipe)));
}

/// The exponent of a value has fewer bits than the value.
#[test]
fn an_exponent_as_wide_as_its_value_is_refused() {
    let mut bytes = written(&with_rules(|rules| (rules.width_log2, rules.raw_bytes) = (0, 0)));
    assert!(read(&bytes).is_err(), "an exponent of 8 bits in values of 8 is taken");
    bytes[3] = 7;
    assert!(read(&bytes).is_ok());
}

/// Any number may be subtracted from exponents.
#[test]
fn any_first_exponent_is_taken() {
    for first in [0, 1, 0xffff_u16] {
        let mut bytes = written(&recipe());
        bytes[FIRST..FIRST + 2].copy_from_slice(&first.to_le_bytes());
        let wanted = with_rules(|rules| rules.exponent_first = first);
        assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(wanted)));
    }
}

/// A table with these frequencies, and what is left for the exception.
fn table(freqs: &[(i8, u16)], flipped: &[(i8, u16)]) -> RansTable {
    let mut all = [0; 256];
    freqs.iter().for_each(|&(step, freq)| all[usize::from(step as u8)] = freq);
    flipped.iter().for_each(|&(step, freq)| all[usize::from(step as u8 ^ 0x80)] = freq);
    all[0x40] = 4096 - all.iter().sum::<u16>();
    RansTable::new(all).expect("frequencies")
}

fn by_context(bounds: &[u8], tables: Vec<RansTable>) -> BinRecipe {
    let tables = ContextTables::new(bounds.to_vec(), tables).expect("tables");
    BinRecipe { symbols: SymbolCoder::ByContext(tables), ..recipe() }
}

/// The bytes of tables by context are those of the document.
#[test]
fn tables_by_context_are_written_as_documented() {
    let recipe =
        by_context(&[7], vec![table(&[(-1, 2), (0, 3)], &[(5, 1)]), table(&[(0, 4)], &[])]);
    let bytes = written(&recipe);
    // Ten, two tables, a bound; then steps from -1 on, two of them, and one from 5 on.
    assert_eq!(bytes[ROWS + 24..][..8], [10, 2, 7, 0xff, 2, 5, 1, 10]);
    // Each number has 10 low bits: 4, 2, 5 and 2 * 4089, which has seven zero bits in front.
    let numbers = [4, 2, 5, 2 * 4089_u32];
    let mut bits = Vec::new();
    for number in numbers {
        bits.extend((0..number >> 10).map(|_| 0));
        bits.push(1);
        bits.extend((0..10).map(|bit| number >> bit & 1));
    }
    let string: Vec<u8> = bits
        .chunks(8)
        .map(|bits| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | bit as u8))
        .collect();
    assert_eq!(bytes[ROWS + 32..][..string.len()], string);
    assert_eq!(bytes[ROWS + 32 + string.len()..][..4], [0, 1, 0, 0]);
    assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(recipe)));
}

/// Tables of all steps, of none and of as many contexts as there can be are read as they were
/// written.
#[test]
fn tables_by_context_are_read_as_they_were_written() {
    let all: Vec<(i8, u16)> =
        (-63..=63_i8).map(|step| (step, 1 + u16::from(step.unsigned_abs()) / 2)).collect();
    let tables = [
        table(&all[..60], &all[60..]),
        table(&[(0, 4095)], &[]),
        table(&[(-63, 1), (63, 1)], &[]),
        table(&[], &[(-63, 1), (63, 4000)]),
        table(&[(0, 2048), (40, 2047)], &[(0, 1)]),
    ];
    for count in [1, 2, 16] {
        let bounds: Vec<u8> = (1..count).map(|i| 2 * i).collect();
        let tables = tables.iter().cloned().cycle().take(count.into()).collect();
        let recipe = by_context(&bounds, tables);
        let bytes = written(&recipe);
        assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(recipe)));
        for len in 0..bytes.len() {
            assert!(read(&bytes[..len]).is_err(), "{len} bytes are taken");
        }
    }
}

/// Tables by context are held to their ranges.
#[test]
fn tables_by_context_out_of_range_are_refused() {
    let recipe = by_context(&[7, 9], vec![table(&[(-1, 2), (0, 3)], &[(5, 1)]); 3]);
    let start = ROWS + 25;
    let refused = |at: usize, byte: u8, reason: &str| {
        let mut bytes = written(&recipe);
        bytes[start + at] = byte;
        let error = AnyRecipe::read(&mut Reader::new(&bytes)).expect_err("what is not allowed");
        assert!(error.to_string().contains(reason), "byte {at} at {byte}: {error}");
    };
    refused(0, 0, "contexts");
    refused(0, 17, "");
    refused(1, 0, "out of order");
    refused(1, 9, "out of order");
    refused(3, 0x80, "steps");
    refused(3, 63, "steps");
    refused(4, 200, "steps");
    refused(7, 13, "low bits");
    // Another frequency, so that the sum is not right.
    refused(8, 0, "");
}
