//! Any palette and any body of a block with it: refused or decoded, by all instruction sets alike,
//! in whole and in part; and what was decoded is what an encoder writes again. The data: lengths of
//! the recipe and of the original (u16 each), the recipe, the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_fuzz::check_palette;

fuzz_target!(|data: &[u8]| check_palette(data));
