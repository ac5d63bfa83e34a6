//! Any recipe by classes, any base, and any body of a block against it. The block is refused or
//! decoded, with the same result on all instruction sets, in whole and in part. Any values against
//! that base come back. The data: lengths of the recipe and of the base (u16 each), the recipe, the
//! base, the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_format::AnyRecipe;
use lmc_fuzz::{check_class_roundtrip, check_on_base};

/// The bits of a layout that make a recipe one by classes.
const CLASSES: u8 = 0xc0;
/// The bits that would make it a recipe of another kind.
const OTHERS: u8 = 0x30;

fuzz_target!(|data: &[u8]| {
    let layout = |layout: u8| CLASSES | layout & !OTHERS;
    check_on_base(data, layout, |recipe, values, base| {
        let AnyRecipe::Classes(recipe) = recipe else { return };
        check_class_roundtrip(recipe, values, base);
    });
});
