//! Any recipe by bins, any base, and any body of a block against it. The block is refused or
//! decoded, with the same result on all instruction sets, in whole and in part. Any values against
//! that base come back. The data: lengths of the recipe and of the base (u16 each), the recipe, the
//! base, the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_format::AnyRecipe;
use lmc_fuzz::{check_bin_roundtrip, check_on_base};

/// The bits of a layout that make a recipe one by bins.
const BINS: u8 = 0xd0;
/// The bits that choose the width of a value, and whether it is an integer.
const CHOICES: u8 = 11;

fuzz_target!(|data: &[u8]| {
    let layout = |layout: u8| BINS | layout & CHOICES;
    check_on_base(data, layout, |recipe, values, base| {
        let AnyRecipe::Bins(recipe) = recipe else { return };
        check_bin_roundtrip(recipe, values, base);
    });
});
