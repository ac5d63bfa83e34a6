//! Palettes: what is written is read again, and what the format does not allow is refused with a
//! reason.

use lmc_format::{AnyRecipe, Coder, PaletteRecipe, Reader};

fn recipe(width_log2: u8, words: Vec<u64>) -> PaletteRecipe {
    let coder = Coder::Packed { mask: 0x0f, rest: 0 };
    PaletteRecipe { width_log2, segment_log2: 14, words, coder }
}

fn written(recipe: &PaletteRecipe) -> Vec<u8> {
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    bytes
}

/// Reads a recipe of any kind that is all of `bytes`.
fn read(bytes: &[u8]) -> Result<AnyRecipe, String> {
    let mut input = Reader::new(bytes);
    let recipe = AnyRecipe::read(&mut input).map_err(|error| error.to_string())?;
    input.finish("the recipe").map_err(|error| error.to_string())?;
    Ok(recipe)
}

/// Refuses three words of two bytes with one byte of the recipe changed.
fn refused(place: usize, value: u8, reason: &str) {
    let mut bytes = written(&recipe(1, vec![1, 0x100, 0x8000]));
    bytes[place] = value;
    let error = read(&bytes).expect_err("a wrong recipe");
    assert!(error.contains(reason), "{place} {value}: {error}");
}

/// As few and as many words as there can be, of each width, come back from their bytes, which are
/// as the format says.
#[test]
fn palettes_are_written_and_read() {
    for width_log2 in 1..4_u8 {
        let all = u64::MAX >> (64 - (8 << width_log2));
        for count in [2, 3, 255, 256] {
            let words: Vec<u64> = (0..count - 1).chain([all]).collect();
            let recipe = recipe(width_log2, words);
            let bytes = written(&recipe);
            assert_eq!(bytes.len(), 3 + ((count as usize) << width_log2) + 3);
            assert_eq!(read(&bytes), Ok(AnyRecipe::Palette(recipe)));
        }
    }
    let bytes = written(&recipe(1, vec![1, 0x0203]));
    assert_eq!(bytes, [0xf1, 14, 1, 1, 0, 3, 2, 2, 0x0f, 0]);
}

/// What a decoder asks of any recipe has an answer.
#[test]
fn the_shape_of_a_palette_is_known() {
    let palette = recipe(2, vec![5, 9]);
    let coder = palette.coder.clone();
    let recipe = AnyRecipe::Palette(palette);
    assert!(!recipe.needs_base());
    assert_eq!((recipe.width(), recipe.segment_len(), recipe.column_count()), (4, 4 << 14, 0));
    assert_eq!((recipe.coders(), recipe.column_coder()), (vec![&coder], None));
    assert_eq!(recipe.context_tables(), 0);
}

/// A palette that ends early is refused, wherever it ends.
#[test]
fn a_palette_that_ends_early_is_refused() {
    let bytes = written(&recipe(3, vec![1, 2, 3]));
    for len in 0..bytes.len() {
        assert!(read(&bytes[..len]).is_err(), "{len} bytes are taken");
    }
}

/// Fields outside of their ranges are refused: palettes of bytes, unknown bits of the layout,
/// lengths of segments, a single word, and more words than there are bytes for.
#[test]
fn fields_are_held_to_their_ranges() {
    for layout in [0xf0, 0xf5, 0xf9, 0xfd] {
        refused(0, layout, "recipe layout");
    }
    for segment_log2 in [0, 9, 19, 255] {
        refused(1, segment_log2, "segments of 2^");
    }
    refused(2, 0, "palette of 1 words");
    refused(2, 255, "palette needs 512 bytes");
}

/// Words that are the same or not in their order are refused, wherever they stand.
#[test]
fn words_must_rise() {
    for width_log2 in 1..4_u8 {
        let top = 1 << ((8 << width_log2) - 1);
        for words in [vec![1, 1], vec![2, 1], vec![1, 2, 2], vec![0, 3, 2, 4], vec![top, 1]] {
            let bytes = written(&recipe(width_log2, words));
            let error = read(&bytes).expect_err("words out of order");
            assert!(error.contains("out of order"), "{error}");
        }
    }
}
