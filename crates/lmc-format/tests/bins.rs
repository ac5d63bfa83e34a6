//! Recipes by bins: what is written is read again, and what the format does not allow is refused with
//! a reason.

use lmc_format::{AnyRecipe, Bin, BinRecipe, Coder, Reader};

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
    BinRecipe {
        width_log2: 2,
        is_integer: false,
        raw_bytes: 1,
        segment_log2: 14,
        exponent_bits: 8,
        exponent_first: 0x1234,
        bins: vec![bin(0, false, 6), bin(7, true, -6), bin(8, false, 0)],
        bounds: vec![1, 255],
        rows: [0, 5, 10].map(|turn| std::array::from_fn(|i| (i as u8 + turn) % 16)).to_vec(),
        coder: Coder::Packed { mask: 0x0f, rest: 0x80 },
    }
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
                let mut recipe = BinRecipe { width_log2, raw_bytes, ..recipe() };
                recipe.exponent_bits = [7, 11, 11, 11][usize::from(width_log2)];
                recipe.bins = recipe.bins.iter().copied().cycle().take(bins).collect();
                recipe.rows = recipe.rows.iter().copied().cycle().take(rows).collect();
                recipe.bounds = (1..rows as u8).collect();
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
    for layout in [0xd6, 0xde, 0xf2, 0xfa, 0xff] {
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
    refused(ROWS + 24, 10, "coder");
}

/// A recipe for integers is told by a bit of its layout, and has no flip bits.
#[test]
fn integers_have_no_flip_bits() {
    let mut recipe = BinRecipe { is_integer: true, ..recipe() };
    let mut bytes = written(&recipe);
    assert_eq!(bytes[0], 0xda);
    assert_eq!(read(&bytes), Err("a bin of integers has a flip bit".to_string()));
    bytes[BINS + 2] &= 0x7f;
    recipe.bins[1].has_flip_bit = false;
    assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(recipe)));
}

/// The exponent of a value has fewer bits than the value.
#[test]
fn an_exponent_as_wide_as_its_value_is_refused() {
    let mut bytes = written(&BinRecipe { width_log2: 0, raw_bytes: 0, ..recipe() });
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
        let wanted = BinRecipe { exponent_first: first, ..recipe() };
        assert_eq!(read(&bytes), Ok(AnyRecipe::Bins(wanted)));
    }
}
