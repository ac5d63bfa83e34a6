//! Any palette and any body of a block with it. The block is refused or decoded, with the same
//! result on all instruction sets, in whole and in part. Decoded values come back when they are
//! coded again. The data: lengths of the recipe and of the original (u16 each), the recipe, the
//! body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_fuzz::check_palette;

fuzz_target!(|data: &[u8]| check_palette(data));
