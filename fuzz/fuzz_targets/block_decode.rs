//! Any bytes as a shared recipe and a block: refused or decoded, by all instruction sets alike.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc_codec::Decoder;
use lmc_fuzz::{RAW_LEN_MAX, cut_case, decode_everywhere, shared_recipe};

fuzz_target!(|data: &[u8]| {
    let Some((recipe, block)) = cut_case(data) else { return };
    if Decoder::raw_len(block).is_ok_and(|len| len <= RAW_LEN_MAX) {
        decode_everywhere(block, shared_recipe(recipe).as_ref(), None);
    }
});
