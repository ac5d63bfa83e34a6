//! Any bytes as a recipe: refused, or written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_codec::SharedRecipe;
use lmc_format::{Reader, Recipe};

fuzz_target!(|data: &[u8]| {
    let shared = SharedRecipe::parse(data);
    let Ok(recipe) = Recipe::read(&mut Reader::new(data)) else {
        assert!(shared.is_err(), "a recipe is made ready that cannot be read");
        return;
    };
    if let Ok(shared) = &shared {
        assert!(shared.recipe() == recipe, "the recipe made ready is another one");
    }
    let mut bytes = Vec::new();
    recipe.write(&mut bytes);
    let mut input = Reader::new(&bytes);
    assert!(Recipe::read(&mut input).as_ref() == Ok(&recipe), "what was written reads otherwise");
    assert!(input.rest().is_empty(), "bytes are left over after the recipe");
});
