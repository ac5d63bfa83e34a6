//! Any bytes as a recipe: refused, or written and read again the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_codec::SharedRecipe;
use lmc_format::{AnyRecipe, Reader};

fuzz_target!(|data: &[u8]| {
    let shared = SharedRecipe::parse(data);
    let Ok(recipe) = AnyRecipe::read(&mut Reader::new(data)) else {
        assert!(shared.is_err(), "a recipe is made ready that cannot be read");
        return;
    };
    if let Ok(shared) = &shared {
        assert!(shared.recipe() == recipe, "the recipe made ready is another one");
    }
    let mut bytes = Vec::new();
    match &recipe {
        AnyRecipe::Planes(recipe) => recipe.write(&mut bytes),
        AnyRecipe::Classes(recipe) => recipe.write(&mut bytes),
        AnyRecipe::Bins(recipe) => recipe.write(&mut bytes),
        AnyRecipe::Changes(recipe) => recipe.write(&mut bytes),
        AnyRecipe::Palette(recipe) => recipe.write(&mut bytes),
    }
    let mut input = Reader::new(&bytes);
    let again = AnyRecipe::read(&mut input);
    assert!(again.as_ref() == Ok(&recipe), "what was written reads otherwise");
    assert!(input.rest().is_empty(), "bytes are left over after the recipe");
});
