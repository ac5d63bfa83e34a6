//! Any recipe by changes, any base, and any body of a block against it. The block is refused or
//! decoded, with the same result on all instruction sets, in whole and in part. Any values against
//! that base come back, also if few of them differ. The data: lengths of the recipe and of the base
//! (u16 each), the recipe, the base, the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_format::AnyRecipe;
use lmc_fuzz::{check_change_roundtrip, check_on_base};

/// The bits of a layout that make a recipe one by changes.
const CHANGES: u8 = 0xe0;
/// The bits that choose the width of a value, whether streams of flags have lengths, and whether
/// values are integers.
const CHOICES: u8 = 15;

fuzz_target!(|data: &[u8]| {
    let layout = |layout: u8| CHANGES | layout & CHOICES;
    check_on_base(data, layout, |recipe, values, base| {
        let AnyRecipe::Changes(recipe) = recipe else { return };
        check_change_roundtrip(recipe, values, base);
        let few: Vec<u8> = (values.iter().zip(base).enumerate())
            .map(|(i, (&value, &base))| if i % 61 == 0 { value } else { base })
            .collect();
        check_change_roundtrip(recipe, &few, base);
    });
});
